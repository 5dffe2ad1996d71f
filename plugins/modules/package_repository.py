#!/usr/bin/python
# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One repository of packages with the key that signs it and the versions that it may give, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_repository
short_description: Name a repository of Debian packages, its key by fingerprint, and the versions to take from it
version_added: "1.2.0"
description:
  - Writes the repository's entry, its key and pins of apt. All three are in place before apt can read any of them.
  - The key is fetched when the host does not have the one with this fingerprint, and installed only if it is the one.
    M(ansible.builtin.deb822_repository) installs whatever the URL answers.
  - A pin holds its packages at one version, also against C(apt-get upgrade).
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  name:
    description: Name of the files, which are C(trainwright-NAME) in the directories of apt.
    type: str
    required: true
  state:
    description: V(absent) removes the entry, the key and the pins.
    type: str
    choices: [present, absent]
    default: present
  url:
    description: Address of the repository. Required with O(state=present).
    type: str
  suite:
    description: Suite, or V(./) for a repository without any.
    type: str
    default: ./
  components:
    description: Components of the suite.
    type: list
    elements: str
    default: []
  key_url:
    description: Address of the public key.
    type: str
  key_fingerprint:
    description: Fingerprint of the key, 40 hexadecimal digits. Required with O(key_url).
    type: str
  trusted:
    description: Take packages without a signature, for a directory on the host alone.
    type: bool
    default: false
  pins:
    description: Versions to hold. The first entry that fits a package decides.
    type: list
    elements: dict
    default: []
    suboptions:
      packages:
        description: Names or patterns of packages, separated by blanks.
        type: str
        required: true
      version:
        description:
          - Version, which may be a pattern. Empty leaves the version open.
          - One without a revision takes each of its revisions, and what it is a part of. V(550.1) takes 550.1-1 and
            550.1.2-1, and not 550.10-1.
        type: str
        required: true
      elsewhere:
        description: Refuse what the host of O(url) has of these packages, also in the version.
        type: bool
        default: false
      only:
        description: Refuse all other versions. Without it, the version is taken where a package has it.
        type: bool
        default: true
      waits:
        description:
          - Until the next boot, hold the packages that are installed, in their versions, and refuse those that are not.
            The entry itself is in O(boot_pins).
        type: bool
        default: false
  boot_pins:
    description: File for the pins of the next boot, which whoever installs at boot puts in place of those of now. There
      only while one of O(pins) waits, and needed for that.
    type: path
  hold:
    description:
      - Hold the packages that are installed, in their versions, and refuse those of O(pins) that are not, as if all of
        them waited. For the end of a run whose versions the package manager has refused. O(boot_pins) stay as they are.
    type: bool
    default: false
  timeout:
    description: Seconds for the download of the key, each of three times.
    type: int
    default: 30
attributes:
  check_mode:
    description: Reports the files that would change; the key is not fetched.
    support: full
  diff_mode:
    description: The files before and after.
    support: full
notes:
  - "Errors: the key cannot be fetched, or has another fingerprint. Nothing is written then."
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Take packages from a directory on the host, and hold one of them
  trainwright.slurm.package_repository:
    name: example
    url: file:///srv/packages
    trusted: true
    pins:
      - {packages: libnccl2 libnccl-dev, version: 2.27.3}

- name: Forget it
  trainwright.slurm.package_repository:
    name: example
    state: absent
"""

RETURN = r"""
fingerprint:
  description: Fingerprint of the key that is installed, empty without one.
  type: str
  returned: always
"""

import base64
import os
import re
import time
import typing as t
import urllib.parse
from fnmatch import fnmatchcase

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    files,
    manifest,
    openpgp,
    own_files,
    packages,
    safe_path,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.packages import PINS

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
FINGERPRINT = re.compile(r" *(?:[0-9A-Fa-f]{4} *){10}")
KEYS = "/etc/apt/keyrings"
SOURCES = "/etc/apt/sources.list.d"
HEAD = "# Written by trainwright.slurm (module package_repository).\n"
# A version that no package has.
NOT_NOW = "waits-for-the-next-boot"
# Seconds before each further attempt.
DELAYS = (0, 3, 10)


def source_text(params: dict[str, t.Any], key: str) -> str:
    """Return the entry of the repository."""
    lines = ["Types: deb", f"URIs: {params['url']}", f"Suites: {params['suite']}"]
    if params["components"]:
        lines.append(f"Components: {' '.join(params['components'])}")
    if params["key_url"]:
        lines.append(f"Signed-By: {key}")
    elif params["trusted"]:
        lines.append("Trusted: yes")
    return HEAD + "\n".join(lines) + "\n"


def pins_text(pins: list[dict[str, t.Any]], url: str) -> str:
    """Return the pins: nothing from here where it comes from elsewhere, the version, and none of the others.

    apt takes the first that fits a package's version.
    """
    stanzas = []
    for pin in pins:
        lines = []
        if pin.get("elsewhere"):
            lines.append((f'origin "{urllib.parse.urlsplit(url).hostname or ""}"', -1))
        if pin["version"]:
            lines += [(f"version {text}", 1001) for text in packages.spellings(pin["version"])]
            lines += [("version *", -1)] if pin.get("only", True) else []
        stanzas += [
            f"Package: {pin['packages']}\nPin: {what}\nPin-Priority: {priority}\n"
            for what, priority in lines
        ]
    return HEAD + "\n" + "\n".join(stanzas)


def served_pins(pins: list[dict[str, t.Any]], have: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """Return the pins of now: those that wait hold the packages that are installed, by their first pin.

    have: versions by name.
    """
    found: list[dict[str, t.Any]] = []
    decided: set[str] = set()
    for pin in pins:
        patterns = pin["packages"].split()
        names = [
            name
            for name in sorted(have)
            if name not in decided and any(fnmatchcase(name, one) for one in patterns)
        ]
        if pin["version"]:
            decided.update(names)
        if not (pin.get("waits") and pin["version"]):
            found.append(pin)
            continue
        by_version: dict[str, list[str]] = {}
        for name in names:
            by_version.setdefault(have[name], []).append(name)
        found += [
            {**pin, "packages": " ".join(held), "version": version, "only": True}
            for version, held in by_version.items()
        ]
        if pin.get("only", True):
            found.append({**pin, "version": NOT_NOW})
    return found


def installed(path: str, wanted: str) -> bytes:
    """Return the key that the host has, b"" where it is not the wanted one."""
    try:
        with open(path, "rb") as file:
            data = file.read(openpgp.MOST + 1)
        return openpgp.binary(data) if openpgp.fingerprints(data) == [wanted] else b""
    except (OSError, openpgp.KeyFileError):
        return b""


def fetch(module: AnsibleModule, wanted: str) -> bytes:
    """Return the packets of the key; fail unless it is the wanted one."""
    url, problem = module.params["key_url"], ""
    data = b""
    for delay in DELAYS:
        time.sleep(delay)
        try:
            with open_url(url, timeout=module.params["timeout"], follow_redirects="safe") as answer:
                data = bytes(answer.read(openpgp.MOST + 1))
            break
        except OSError as error:
            problem = str(error)
    if not data:
        module.fail_json(
            msg=f"{module.params['name']}: {url}: {problem} -> see whether the host reaches it (proxy_env), and"
            " run this again"
        )
    try:
        found = openpgp.fingerprints(data)
    except openpgp.KeyFileError as error:
        found, problem = [], str(error)
    if found != [wanted]:
        said = f"has the keys {', '.join(found)}" if found else problem
        module.fail_json(
            msg=f"{module.params['name']}: {url} {said}, and not {wanted} alone -> find out who changed it; do not"
            " take a fingerprint from the same server"
        )
    return openpgp.binary(data)


def missing_above(path: str) -> list[dict[str, t.Any]]:
    """Return the directories above a file that are to be made, the uppermost first."""
    found: list[dict[str, t.Any]] = []
    above = os.path.dirname(path)
    while not os.path.isdir(above):
        found.insert(0, {"path": above, "mode": "0755"})
        above = os.path.dirname(above)
    return found


def packages_here(module: AnsibleModule) -> dict[str, str]:
    """Return the versions of the installed packages, by name."""
    _rc, out, _err = module.run_command(["dpkg-query", "-W", "-f", packages.FORM], check_rc=True)
    have = packages.Installed(out).versions
    return {name: version for name, version in have.items() if ":" not in name}


def plan(module: AnsibleModule) -> tuple[files.Plan, str]:
    """Return what is to be written, and the fingerprint of the key."""
    params = module.params
    name = f"trainwright-{params['name']}"
    source, pins = f"{SOURCES}/{name}.sources", f"{PINS}/{name}"
    # Only what was read is written, in binary: text around armor, or another form of it, could hide a second key from
    # this module that apt finds.
    key, old_key = f"{KEYS}/{name}.gpg", f"{KEYS}/{name}.asc"
    if params["state"] == "absent":
        # In this order no entry is ever left without its key.
        paths = (source, pins, key, old_key)
        gone = [{"path": path, "state": "absent"} for path in (*paths, params["boot_pins"]) if path]
        return own_files.plan([], gone, module.check_mode), ""
    wanted = openpgp.plain(params["key_fingerprint"] or "")
    listed: list[dict[str, t.Any]] = []
    if params["key_url"]:
        data = installed(key, wanted) or installed(old_key, wanted)
        if not data and not module.check_mode:
            data = fetch(module, wanted)
        content = base64.b64encode(data).decode()
        listed.append({"path": key, "mode": "0644", "content_b64": content})
    now = params["pins"]
    waits = any(pin.get("waits") for pin in now) and not params["hold"]
    if now:
        if params["hold"]:
            now = [{**pin, "waits": True} for pin in now]
        if waits or params["hold"]:
            now = served_pins(now, packages_here(module))
        listed.append({"path": pins, "mode": "0644", "content": pins_text(now, params["url"])})
    else:
        listed.append({"path": pins, "state": "absent"})
    above = [{"path": KEYS, "mode": "0755"}]
    if waits:
        listed.append(
            {
                "path": params["boot_pins"],
                "mode": "0644",
                "content": pins_text(params["pins"], params["url"]),
            }
        )
        above += missing_above(params["boot_pins"])
    elif params["boot_pins"] and not params["hold"]:
        listed.append({"path": params["boot_pins"], "state": "absent"})
    entry = {"path": source, "mode": "0644", "content": source_text(params, key)}
    # A log does not show the password of a site's mirror; /etc/apt/auth.conf.d is a better place for it.
    listed.append({**entry, "secret": bool(urllib.parse.urlsplit(params["url"]).password)})
    # Versions before kept armored keys as they came.
    listed.append({"path": old_key, "state": "absent"})
    return own_files.plan(above, listed, module.check_mode), wanted


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "url": {"type": "str"},
            "suite": {"type": "str", "default": "./"},
            "components": {"type": "list", "elements": "str", "default": []},
            "key_url": {"type": "str", "no_log": False},
            "key_fingerprint": {"type": "str", "no_log": False},
            "trusted": {"type": "bool", "default": False},
            "pins": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "packages": {"type": "str", "required": True},
                    "version": {"type": "str", "required": True},
                    "elsewhere": {"type": "bool", "default": False},
                    "only": {"type": "bool", "default": True},
                    "waits": {"type": "bool", "default": False},
                },
            },
            "boot_pins": {"type": "path"},
            "hold": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 30},
        },
        required_if=[("state", "present", ["url"])],
        required_together=[("key_url", "key_fingerprint")],
        supports_check_mode=True,
    )
    if not NAME.fullmatch(module.params["name"]):
        module.fail_json(msg=f"name: {module.params['name']!r} -> write letters, digits, - and _")
    if module.params["key_url"] and not FINGERPRINT.fullmatch(
        module.params["key_fingerprint"] or ""
    ):
        module.fail_json(
            msg=f"{module.params['name']}: key_fingerprint: {module.params['key_fingerprint']!r} is not the 40"
            " hexadecimal digits of a key, and any key would do -> write the fingerprint that the publisher prints"
            " elsewhere than beside the key"
        )
    values = (module.params[name] or "" for name in ("url", "suite", "key_url"))
    lines = [
        *values,
        *module.params["components"],
        *(pin[name] for pin in module.params["pins"] for name in ("packages", "version")),
    ]
    if any(pin["waits"] for pin in module.params["pins"]) and not module.params["boot_pins"]:
        module.fail_json(
            msg="boot_pins: is missing, and a pin waits -> name a file for the pins of the next boot"
        )
    if any(set(line) & set("\n\r") for line in lines):
        module.fail_json(msg="a value has more than one line -> write each in one")
    record = manifest.of(module)
    try:
        todo, fingerprint = plan(module)
        if not module.check_mode:
            for change in todo.changes:
                record.begin()
                files.apply(change)
        # A directory is in the list only until it is there.
        record.end([item for item in todo.leaves if item["kind"] != "directory"])
    except (files.FilesError, safe_path.UnsafePathError, OSError) as error:
        module.fail_json(msg=str(error))
    diff = [change.diff() for change in todo.changes]
    module.exit_json(changed=bool(todo.changes), fingerprint=fingerprint, diff=diff)


if __name__ == "__main__":
    main()
