# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPU and EFA software: versions that can be read, on hosts where they can be installed."""

from __future__ import annotations

import re
import typing as t

from ...hardware.stack import StackError, of_distribution, older
from ...hardware.stack import node as fitting
from ...hardware.stack_data import INSTALLER_FILE, INSTALLER_OPEN
from ...node.nvidia_runfile import bad_options
from ...node.stack_values import FINGERPRINT
from .. import stack
from ..inputs import CLUSTER, STACK_OF_HOST, Problem
from .shape import faults

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs

#: Systems on which this collection installs the stack, in the words of a message.
INSTALLED_ON = "Debian 12 and 13, Ubuntu 22.04 and 24.04"
#: Systems for which NVIDIA has a repository by this collection's knowledge; others name theirs.
REPOSITORIES = ("debian 12", "ubuntu 22.04", "ubuntu 24.04")
_WORD = re.compile(r"[A-Za-z0-9./][A-Za-z0-9./_:+~-]*")
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")
_RUNFILE = re.compile(r"(https?|file)://\S+\.run|file:/\S+\.run")


def releases(inputs: Inputs) -> Iterator[Problem]:
    """The release and the versions can be read."""
    try:
        _release, wanted = stack.versions(inputs["settings"])
    except StackError as error:
        variable, _colon, what = str(error).partition(": ")
        remedy = "correct it; the releases of this collection are in docs/gpu_stack.md"
        if "in quotes" in what:
            example = variable.rpartition(".")[2]
            remedy = (
                f'correct it, such as {example}: "13.2"; YAML makes 13.1 of 13.10 without quotes'
            )
        elif "is not one of" in what:
            remedy = "correct the name of the component, or remove it"
        yield Problem(CLUSTER, variable, what, remedy)
        return
    for misfit in fitting(wanted):
        # A release of its publisher fits; with an EFA of the site's own, its parts are that installer's.
        if misfit.component in ("driver", "fabric_manager"):
            remedy = f"{misfit.remedy}: name them in gpu_stack_versions (driver, cuda), or another gpu_stack_release"
            yield Problem(CLUSTER, "gpu_stack_versions", misfit.what, remedy)


def repository(inputs: Inputs) -> Iterator[Problem]:
    """The repository can be reached by a URL, and its key is one that somebody vouches for; so is a host's own."""
    own = [
        (host, stack.repository(inputs, host))
        for host in stack.gpu_hosts(inputs)
        if stack.REPOSITORY in inputs["differing"].get(host, {})
        and stack.word(inputs, host) == stack.MANAGED
    ]
    for host, given in [(CLUSTER, stack.repository(inputs, CLUSTER)), *own]:
        if given:
            yield from _repository(host, given)


def _repository(host: str, given: t.Mapping[str, t.Any]) -> Iterator[Problem]:
    where = stack.REPOSITORY
    if not re.fullmatch(r"(https?|file)://\S+|file:/\S+", str(given.get("url") or "")):
        yield Problem(host, f"{where}.url", "is not a URL", "write https://HOST/PATH")
        return
    words = {"suite": [given.get("suite")], "components": given.get("components") or []}
    for name, texts in words.items():
        for text in texts:
            if text is not None and not _WORD.fullmatch(str(text)):
                what = f"{str(text)!r} is not one word of apt's list of repositories"
                remedy = (
                    "write it as the repository's publisher does, without blanks and line breaks"
                )
                yield Problem(host, f"{where}.{name}", what, remedy)
    if given.get("trusted"):
        return
    if not re.fullmatch(r"(https?|file)://\S+|file:/\S+", str(given.get("key_url") or "https://x")):
        yield Problem(host, f"{where}.key_url", "is not a URL", "write https://HOST/PATH")
    elif not given.get("key_url"):
        yield Problem(
            host,
            f"{where}.key_url",
            "is missing, and root would install packages that nobody has signed",
            "name the repository's key and its key_fingerprint",
        )
    elif not FINGERPRINT.fullmatch(str(given.get("key_fingerprint") or "").strip()):
        yield Problem(
            host,
            f"{where}.key_fingerprint",
            "is not the 40 hexadecimal digits of a key",
            "write the fingerprint that the publisher prints elsewhere than beside the key",
        )


def of_one_host(inputs: Inputs) -> Iterator[Problem]:
    """A host does not have other settings than those by which all hosts are installed; its own have their types."""
    arguments = inputs["arguments"]
    for host in stack.gpu_hosts(inputs):
        word = stack.word(inputs, host)
        for name, value in inputs["differing"].get(host, {}).items():
            if word == stack.NONE or (word != stack.MANAGED and name not in stack.COMPARED):
                continue
            found = list(faults(host, name, value, arguments.get(name) or {"type": "raw"}))
            yield from found
            # Systems have repositories of their own; the check above reads each, and stack_values.py the others.
            if not found and name not in STACK_OF_HOST:
                yield Problem(
                    host,
                    name,
                    f"is another one than the first controller has, and only that one counts: this run would not heed"
                    f" the {word} host's own",
                    "write it once, into group_vars/all.yml or group_vars/slurm_cluster.yml, and not for a host or a"
                    " smaller group",
                )


def _beside_installer(settings: t.Mapping[str, t.Any], part: t.Mapping[str, t.Any]) -> str:
    """Return what a host with NVIDIA's installer gets from the repository, as the end of a line."""
    if settings.get(stack.SOURCE) != stack.RUNFILE or not part:
        return ""
    daemons = {"fabric_manager": "Fabric Manager", "subnet_manager": "nvlsm", "imex": "IMEX"}
    needed = [text for name, text in daemons.items() if part[name]]
    needed += [role for role in part["roles"] if role not in stack.NOT_OF_REPOSITORY]
    return f"; it has {', '.join(needed)}, which the installer does not bring"


def managed(inputs: Inputs) -> Iterator[Problem]:
    """A managed host can have what this run would install."""
    settings = inputs["settings"]
    hosts = stack.managed_hosts(inputs)
    for host, facts in stack.gpu_hosts(inputs).items():
        if stack.word(inputs, host) != stack.MANAGED:
            continue
        name = stack.system(facts)
        if (facts.get("os") or {}).get("like") != "debian":
            yield Problem(
                host,
                stack.WORD,
                f"is managed, and on {name} this collection does not install the stack, but on {INSTALLED_ON}",
                "take one of these; or install it there (an image with it, or its vendor's roles), and write"
                " gpu_stack: present",
            )
            continue
        part = hosts.get(host) or {}
        if (
            part.get("repository", True)
            and not stack.repository(inputs, host)
            and name not in REPOSITORIES
        ):
            yield Problem(
                host,
                "gpu_stack_repository",
                f"is not set, and no repository of NVIDIA for {name} is known to this collection"
                + _beside_installer(settings, part),
                "name one (docs/gpu_stack.md), or write gpu_stack: present",
            )
        if facts.get("virtualization") != "container" and (facts.get("kernel_build") or {}).get(
            "secure_boot"
        ):
            yield Problem(
                host,
                stack.WORD,
                "is managed, and Secure Boot is on: the kernel would not load a driver that is built on the node",
                "switch it off in the firmware, or bring signed modules and write gpu_stack: present",
            )


def prepared(inputs: Inputs) -> Iterator[Problem]:
    """A host whose stack is to be left alone does not wait for an installation: its next boot would make it."""
    for host, facts in stack.gpu_hosts(inputs).items():
        word = stack.word(inputs, host)
        if word == stack.MANAGED:
            continue
        for one in facts.get("reboot") or ():
            if one["part"] in (stack.WORD, "efa"):
                yield Problem(
                    host,
                    stack.WORD,
                    f"is {word}, and the next boot installs what was prepared while it was managed: {one['reason']}",
                    "write managed again and reboot the host (playbook reboot), or set the versions that it has; "
                    f"then write {word}",
                )


def driver_source(inputs: Inputs) -> Iterator[Problem]:
    """The archive of a managed host's distribution has the driver that is wanted, with the daemons of its hardware."""
    if inputs["settings"].get("nvidia_driver_source") != stack.DISTRIBUTION:
        return
    try:
        model = stack.model_of(inputs, [])
    except StackError:  # above
        return
    wanted = model["versions"].get("driver", "")
    found = stack.gpu_hosts(inputs)
    for host, part in model["hosts"].items():
        name = stack.system(found[host])
        archive = of_distribution(name, wanted)
        # Another system has been refused above.
        apt = (found[host].get("os") or {}).get("like") == "debian"
        if "nvidia_driver" not in part["roles"] or not apt:
            continue
        if archive is None:
            what, remedy = f"no driver of the archive of {name} is known to this collection", ""
        elif archive.branch not in ("*", wanted.partition(".")[0]):
            what = f"{name} has driver {archive.branch} ({archive.source}), and {wanted} is wanted"
            remedy = "name the version of the archive in gpu_stack_versions (driver), or "
        elif part["subnet_manager"] or part["imex"]:
            what, remedy = "the archive does not have nvlsm or IMEX, which this machine needs", ""
        elif part["fabric_manager"] and not archive.fabric_manager:
            what, remedy = f"{name} does not have Fabric Manager, which this machine needs", ""
        else:
            continue
        what = f"is distribution, and {what}"
        yield Problem(host, stack.SOURCE, what, f"{remedy}write nvidia_driver_source: nvidia")


def runfile(inputs: Inputs) -> Iterator[Problem]:
    """NVIDIA's installer can be verified and run unattended, with options that a site may give."""
    settings = inputs["settings"]
    if settings.get(stack.SOURCE) != stack.RUNFILE:
        return
    hosts = [
        host
        for host, part in stack.managed_hosts(inputs).items()
        if "nvidia_driver" in part["roles"]
    ]
    if not hosts:
        return
    driver = stack.versions(settings)[1]["driver"]
    url = str(settings.get("nvidia_driver_runfile_url") or "")
    given = settings.get("nvidia_driver_runfile_sha256") or {}
    found = stack.gpu_hosts(inputs)
    for arch in sorted({str(found[host].get("arch")) for host in hosts}):
        pattern = url.rpartition("/")[2] or INSTALLER_FILE
        file = pattern.replace("{version}", driver).replace("{arch}", arch)
        if not _SHA256.fullmatch(str(given.get(file) or "")):
            yield Problem(
                CLUSTER,
                "nvidia_driver_runfile_sha256",
                f"does not have the SHA-256 of {file}, and root would run a file that nobody vouches for",
                f"write {{{file}: ...}}, with the output of sha256sum for a file that you trust",
            )
    if url and not _RUNFILE.fullmatch(url):
        yield Problem(
            CLUSTER,
            "nvidia_driver_runfile_url",
            f"{url!r} is not the URL of a .run file",
            "write https://HOST/PATH/NVIDIA-Linux-{arch}-{version}.run, or name artifact_mirror",
        )
    for fault in bad_options(map(str, settings.get("nvidia_driver_runfile_options") or [])):
        yield Problem(CLUSTER, "nvidia_driver_runfile_options", fault, "leave it out")
    least = INSTALLER_OPEN[-1][1]
    if older(driver, least):
        what = f"is runfile, and driver {driver} is older than {least}, the first with open modules"
        yield Problem(
            CLUSTER, stack.SOURCE, what, "name a newer one in gpu_stack_versions (driver)"
        )


def driver_from(inputs: Inputs) -> Iterator[Problem]:
    """The driver that a managed host has is from the source that this run uses: two would write over each other."""
    source = inputs["settings"].get(stack.SOURCE) or "nvidia"
    found = stack.gpu_hosts(inputs)
    for host, part in stack.managed_hosts(inputs).items():
        origin = found[host].get("driver_from") or {}
        if "nvidia_driver" not in part["roles"]:
            continue
        if source == stack.RUNFILE and origin.get("packages"):
            names = " ".join(origin["packages"])
            first = " ".join(origin["packages"][:3]) + " ..." * (len(origin["packages"]) > 3)
            yield Problem(
                host,
                stack.SOURCE,
                f"is runfile, and the host has the driver from packages ({first})",
                f"drain the host, apt-get purge {names}, reboot it and run this again; or write another source",
            )
        elif source != stack.RUNFILE and origin.get("runfile"):
            yield Problem(
                host,
                stack.SOURCE,
                f"is {source}, and the host has driver {origin['runfile']} from NVIDIA's installer",
                "drain the host, nvidia-uninstall --silent, reboot it and run this again; or write"
                " nvidia_driver_source: runfile",
            )


CHECKS: tuple[Check, ...] = (
    releases,
    repository,
    of_one_host,
    managed,
    prepared,
    driver_source,
    runfile,
    driver_from,
)
