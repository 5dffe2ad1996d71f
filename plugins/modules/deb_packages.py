#!/usr/bin/python
# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of Debian's and Ubuntu's repositories in one transaction, and one question to dpkg where all are there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: deb_packages
short_description: Install packages of the repositories on Debian and Ubuntu
version_added: "1.0.0"
description:
  - Installs the packages that are missing in one transaction of apt-get, without those that they recommend, and without
    starting their services.
  - Reads the list of installed packages from dpkg. M(ansible.builtin.apt) opens apt's cache for that, which costs more
    CPU time on each host than all else that a second run does there for packages.
  - Leaves the version of an installed package as it is.
  - Installs what the packages, and those that they need, have lost since, such as by C(dpkg --force-depends).
  - Never changes a package that somebody holds with C(apt-mark hold).
  - Takes up what a package manager that was killed has left, before it installs anything. Configuration files that
    somebody has changed stay as they are.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  names:
    description:
      - Packages as apt-get takes them, V(NAME) or V(NAME=VERSION), both of which may be patterns.
      - A name that an installed package provides is not installed.
    type: list
    elements: str
    required: true
  fetch_only:
    description: Fetches the packages into apt's cache and installs nothing, for a later installation without a network.
    type: bool
    default: false
  boot_pins:
    description: With O(fetch_only), a file of pins that apt takes in place of the one of its name in
      C(/etc/apt/preferences.d), as the boot will that installs the packages.
    type: path
    version_added: "1.2.0"
  modules:
    description:
      - Versions by name of kernel modules that dkms has to have for the running kernel, once the packages are there. A
        missing one is built; one that cannot be built is an error. Not looked at with O(fetch_only).
      - Warns where an upgrade would bring a kernel without its headers, with which dkms builds them.
    type: dict
    default: {}
    version_added: "1.2.0"
  downgrade:
    description: Replaces newer packages where O(names) has an older version.
    type: bool
    default: false
  lists_age:
    description: Age of the package lists, in seconds, at which they are fetched again before an installation.
    type: int
    default: 86400
  timeout:
    description: Seconds to wait for another run of the package manager to end.
    type: int
    default: 300
attributes:
  check_mode:
    description: Reports which packages it would install, and warns of versions that no repository of the host has.
    support: full
  diff_mode:
    description: The names of the packages that are installed.
    support: full
notes:
  - "Errors: a package that is held would have to change, by its name; apt-get refuses four times in a row, with
    the cause; a package is still missing afterwards; a kernel
    module that dkms cannot build, with its log."
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Install munge and its log rotation
  trainwright.slurm.deb_packages:
    names: [munge, logrotate]
"""

RETURN = r"""
missing:
  description: Names of the packages that were missing, and of the dependencies that they had lost.
  type: list
  elements: str
  returned: always
"""

import os
import re
import tempfile
import time
import typing as t
from contextlib import contextmanager
from fnmatch import fnmatchcase

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    apt_errors,
    apt_known,
    dependencies,
    dkms,
    dpkg_repair,
    left,
    manifest,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.packages import (
    FORM,
    PINS,
    Installed,
)

# invoke-rc.d asks this program whether it may start a service; 101 forbids it. Images of containers bring their own.
POLICY = "/usr/sbin/policy-rc.d"
OWN_POLICY = "#!/bin/sh\n# Of trainwright.slurm, while it installs packages.\nexit 101\n"
SAVED = ".before-trainwright"
# Pins of apt, which decide in the order of their names.
# Their times tell when the lists were fetched: Ubuntu writes the first file, apt itself changes the directory.
STAMPS = ("/var/lib/apt/periodic/update-success-stamp", "/var/lib/apt/lists")
# Seconds before each attempt after the first.
DELAYS = (0, 5, 10)


def installed(module: AnsibleModule) -> Installed:
    """Return what dpkg has installed."""
    _rc, out, _err = module.run_command(["dpkg-query", "-W", "-f", FORM], check_rc=True)
    return Installed(out)


def lost(module: AnsibleModule, missing: list[str]) -> list[str]:
    """Return the dependencies that the packages have lost, as apt-get takes them.

    A missing one, or one for a later boot, brings what its own version needs.
    """
    if module.params["fetch_only"]:
        return []
    names = [name for name in module.params["names"] if name not in missing]
    query = ["dpkg-query", "-W", "-f", dependencies.FORM]
    _rc, out, _err = module.run_command(query, check_rc=True)
    return sorted(dependencies.Packages(out).lost(names))


def not_known(module: AnsibleModule, output: str) -> str:
    """Return which packages and versions no repository has, what they have instead and the remedy; else ""."""

    def ask(*arguments: str) -> str:
        command = ["apt-cache", *arguments]
        _rc, out, _err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
        return str(out)

    return apt_known.remedy(output, ask)


def refuse_held(module: AnsibleModule, names: list[str]) -> None:
    """Fail with the names of the packages that somebody holds and that this installation would change or remove."""
    have = installed(module)
    if not have.held:
        return
    command = ["apt-get", "--simulate", "--yes", "--no-install-recommends", "--allow-downgrades"]
    # Without the first, apt would rather find no solution than touch a dependency that is held.
    command += ["--ignore-hold", "--allow-change-held-packages", "install", *names]
    rc, out, _err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
    if rc == 0:
        rows = (line.split() for line in out.splitlines() if line.startswith(("Inst ", "Remv ")))
        going = have.held & {row[1].partition(":")[0] for row in rows}
    else:
        # What is wrong is reported by the installation, but for those that are named.
        patterns = [name.partition("=")[0] for name in names]
        going = {name for name in have.held if any(fnmatchcase(name, one) for one in patterns)}
    if going:
        listed = ", ".join(f"{name} {have.versions[name]}" for name in sorted(going))
        module.fail_json(
            msg=f"{listed}: held by somebody (apt-mark hold), and {', '.join(names)} would change that; nothing was"
            f" installed -> ask who holds it, apt-mark unhold {' '.join(sorted(going))} on the host and run this again,"
            " or ask for the version that is there"
        )


def warn_of_unknown(module: AnsibleModule, names: list[str]) -> None:
    """Warn in check mode of versions that no repository has by the lists of this host, which the run may fetch again.

    Packages that are not in the lists at all may be of a repository that the run names first.
    """
    command = ["apt-get", "--simulate", "--yes", "--no-install-recommends", "--allow-downgrades"]
    rc, out, err = module.run_command(
        [*command, "install", *names], environ_update={"LC_ALL": "C.UTF-8"}
    )
    lines = [line for line in (out + err).splitlines() if line.startswith("E: Version '")]
    if rc and lines:
        module.warn(f"check mode: {not_known(module, chr(10).join(lines))}")


def warn_of_next_kernel(module: AnsibleModule, have: Installed) -> None:
    """Warn of kernels that an upgrade will bring without their headers, so without the modules that dkms builds."""
    for kernels, headers in dkms.headers_to_come(have.versions).items():
        command = ["apt-cache", "policy", headers]
        _rc, out, _err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
        # apt names a candidate unless a pin holds the kernel or the package does not exist.
        if re.search(r"^ +Candidate: [^(\s]", out, re.MULTILINE):
            module.warn(
                f"{headers} is not installed where {kernels} is: after the next upgrade of the kernel and a boot, that"
                f" host lacks kernel module {', '.join(sorted(module.params['modules']))} -> install {headers} there,"
                " or in its image"
            )


def lists_age() -> float:
    """Return the seconds since the package lists were fetched."""
    times = [os.stat(path).st_mtime for path in STAMPS if os.path.exists(path)]
    return time.time() - (times or [0.0])[0]


def policy_is_own() -> bool:
    """Whether the policy is ours, also that of a run that was killed."""
    try:
        with open(POLICY, encoding="utf-8", errors="replace") as file:
            return file.read() == OWN_POLICY
    except FileNotFoundError:
        return False


def end_policy() -> None:
    """Put back the policy that was there before ours."""
    if os.path.lexists(POLICY + SAVED):
        os.rename(POLICY + SAVED, POLICY)
    elif policy_is_own():
        os.unlink(POLICY)


@contextmanager
def no_service_starts() -> t.Iterator[None]:
    """Keep packages from starting their services."""
    if os.path.lexists(POLICY) and not policy_is_own():
        os.rename(POLICY, POLICY + SAVED)
    descriptor, draft = tempfile.mkstemp(dir=os.path.dirname(POLICY))
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(OWN_POLICY)
    os.chmod(draft, 0o755)
    os.rename(draft, POLICY)
    try:
        yield
    finally:
        end_policy()


def install(module: AnsibleModule, names: list[str]) -> None:
    """Install in one transaction, or only fetch; fail with why apt-get refuses."""
    tool = ["apt-get", "--yes", f"-oDPkg::Lock::Timeout={module.params['timeout']}"]
    refresh = [*tool, "--quiet", "update"]
    command = [*tool, "--no-install-recommends", "-oDpkg::Options::=--force-confdef"]
    command += ["-oDpkg::Options::=--force-confold"]
    if module.params["fetch_only"]:
        command += ["--download-only", "--allow-downgrades"]
    elif module.params["downgrade"]:
        command += ["--allow-downgrades"]
    command += ["install", *names]
    environment = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    verb = "--download-only install" if module.params["fetch_only"] else "install"
    stale = lists_age() >= module.params["lists_age"]
    for delay in (None, *DELAYS):
        time.sleep(delay or 0)
        if stale or delay is not None:
            # Its failure shows in what follows, if the lists that are there do not serve.
            module.run_command(refresh, environ_update=environment)
        rc, out, err = module.run_command(command, environ_update=environment)
        if rc == 0:
            return
        not_built = dkms.failure(out + err)
        if not_built:
            # Another attempt would compile for minutes, and fail again.
            module.fail_json(msg=not_built, rc=rc)
        # Lists that are new may need another version of it.
        refuse_held(module, names)
    told = apt_errors.cause(out + err)
    remedy = dkms.no_headers(out + err) or not_known(module, out + err)
    remedy = remedy or f"-> {apt_errors.remedy(out + err)}"
    module.fail_json(msg=f"apt-get {verb} {' '.join(names)}: exit {rc}: {told} {remedy}", rc=rc)


def take_up(module: AnsibleModule) -> bool:
    """Finish what a killed dpkg has left, before apt is asked; return whether that changes something.

    Each of these packages counts as missing, or keeps apt from all others.
    """
    wanted = [name.partition("=")[0] for name in module.params["names"]]
    replaced = [] if module.params["fetch_only"] else wanted
    environment = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}

    def run(command: t.Sequence[str]) -> tuple[int, str]:
        rc, out, err = module.run_command(list(command), environ_update=environment)
        return rc, out + err

    if module.check_mode:
        return True
    with no_service_starts():
        return dpkg_repair.take_up(run, module.params["timeout"], replaced)


def unfetched(module: AnsibleModule, names: list[str]) -> list[str]:
    """Return the files that apt would have to fetch; names themselves if its lists do not have them."""
    command = ["apt-get", "--yes", "-qq", "--print-uris", "--no-install-recommends"]
    command += ["--allow-downgrades", "install", *names]
    rc, out, _err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
    if rc != 0:
        return names
    return [line.split()[1] for line in out.splitlines() if line.startswith("'") and " " in line]


def fetch(module: AnsibleModule, names: list[str], repaired: bool) -> None:
    """Fetch what is missing into apt's cache, and end."""
    files = unfetched(module, names)
    if files and not module.check_mode:
        install(module, names)
    diff = {"before": "", "after": "".join(f"{name} (fetched)\n" for name in sorted(files))}
    module.exit_json(changed=bool(files) or repaired, missing=names, diff=diff)


@contextmanager
def pins_of_the_boot(path: str | None) -> t.Iterator[None]:
    """Have apt decide by the pins that a boot will put in place. Those of now hold what jobs use."""
    if not path:
        yield
        return
    before = os.environ.get("APT_CONFIG")
    with tempfile.TemporaryDirectory() as directory:
        parts, configuration = f"{directory}/preferences.d", f"{directory}/apt.conf"
        os.mkdir(parts)
        there = sorted(os.listdir(PINS)) if os.path.isdir(PINS) else []
        taken = {name: f"{PINS}/{name}" for name in there}
        taken[os.path.basename(path)] = path
        for name, source in taken.items():
            os.symlink(source, f"{parts}/{name}")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(f'Dir::Etc::PreferencesParts "{parts}";\n')
        os.environ["APT_CONFIG"] = configuration
        try:
            yield
        finally:
            del os.environ["APT_CONFIG"]
            if before is not None:
                os.environ["APT_CONFIG"] = before


def build_modules(module: AnsibleModule) -> list[str]:
    """Have dkms build the kernel modules that are missing; return their names. Fails where one cannot be built."""
    wanted = module.params["modules"]
    missing = dkms.unbuilt(wanted)
    if missing and not module.check_mode:
        output = dkms.build()
        left = dkms.unbuilt(wanted)
        if left:
            module.fail_json(msg=dkms.still_missing(left, wanted, output))
    return sorted(missing)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "names": {"type": "list", "elements": "str", "required": True},
            "fetch_only": {"type": "bool", "default": False},
            "boot_pins": {"type": "path"},
            "modules": {"type": "dict", "default": {}},
            "downgrade": {"type": "bool", "default": False},
            "lists_age": {"type": "int", "default": 86400},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    fetch_only = module.params["fetch_only"]
    record = manifest.NoRecord() if fetch_only else manifest.of(module)
    have = installed(module)
    unfinished = bool(have.unfinished) or dpkg_repair.interrupted()
    if unfinished:
        record.begin()
    before = have.versions
    repaired = unfinished and take_up(module)
    if repaired and not module.check_mode:
        have = installed(module)
    missing = have.missing(module.params["names"])
    missing += lost(module, missing)
    if missing and module.check_mode:
        warn_of_unknown(module, missing)
    if missing and fetch_only:
        # In check mode the pins may not be there yet.
        waiting = module.params["boot_pins"] or ""
        with pins_of_the_boot(waiting if os.path.isfile(waiting) else None):
            refuse_held(module, missing)
            fetch(module, missing, repaired)
    if missing:
        refuse_held(module, missing)
    diff = {"before": "", "after": "".join(f"{name}\n" for name in sorted(missing))}
    killed = policy_is_own()
    if missing and not module.check_mode:
        record.begin()
        with no_service_starts():
            install(module, missing)
        still = installed(module).missing(missing)
        if still:
            module.fail_json(
                msg=f"{', '.join(still)}: not installed, though apt-get reports success -> look at"
                " /var/log/apt/term.log and at the pins in /etc/apt/preferences.d"
            )
    elif killed and not module.check_mode:
        end_policy()
    built = [] if fetch_only else build_modules(module)
    now = installed(module) if missing else have
    if module.params["modules"] and not fetch_only:
        warn_of_next_kernel(module, now)
    changed = left.changed(before, now.versions)
    names = module.params["names"]
    record.end(left.of_packages(names, now, record.earlier("package"), changed), changed)
    diff["after"] += "".join(f"kernel module {name}\n" for name in built)
    module.exit_json(
        changed=bool(missing or built or repaired) or killed, missing=missing, diff=diff
    )


if __name__ == "__main__":
    main()
