# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether versions of the GPU and EFA software fit: on one node, between nodes, on a node and in an image. Pure.

A stack is a mapping of components, as stack_data.COMPONENTS names them, to version texts; what a machine or an image
lacks is not in it. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from dataclasses import dataclass

from .stack_data import (
    COMPONENTS,
    DISTRIBUTION_DRIVERS,
    EFA_BRINGS,
    EFA_SOURCE,
    GPU_NEEDS,
    INSTALLER_OPEN,
    LEAST_DRIVER,
    LEAST_DRIVER_SOURCE,
    OWN_VERSION,
    RELEASES,
)

Stack = t.Mapping[str, str]
#: The text of a version; packages add a Debian epoch and a revision, which decide nothing.
VERSION = re.compile(r"[0-9](?:[A-Za-z0-9.+~_-]{0,62}[A-Za-z0-9+~])?")
#: With fewer nodes than these, none can be called the odd one.
_PEERS = 3


class StackError(ValueError):
    """A release that cannot be read: `where: why`."""


@dataclass(frozen=True)
class Misfit:
    """One part that does not fit.

    found: "" where it is missing. why: with the source where a document says so. sure: it cannot work; else it may.
    """

    component: str
    found: str
    wanted: str
    why: str
    remedy: str
    sure: bool = True

    @property
    def what(self) -> str:
        """Return the fault as a line without its remedy."""
        named = COMPONENTS.get(self.component, self.component)
        found = f"{named} {self.found}" if self.found else f"{named} is missing"
        return f"{found}, wanted {self.wanted} ({self.why})"


@dataclass(frozen=True)
class Release:
    """Versions that go together, and who says so."""

    name: str
    versions: dict[str, str]
    source: str


@dataclass(frozen=True)
class Archive:
    """The driver that a distribution has. branch: "*" for any; held: the packages of the driver's very version."""

    branch: str
    packages: tuple[str, ...]
    fabric_manager: str
    source: str

    @property
    def held(self) -> tuple[str, ...]:
        named = (*self.packages, self.fabric_manager)
        return tuple(name for name in named if name and name not in OWN_VERSION)


def of_distribution(system: str, driver: str) -> Archive | None:
    """Return what a system such as `debian 13` has for a version of the driver, None where that is not known."""
    for line in DISTRIBUTION_DRIVERS.strip().splitlines():
        name, branch, packages, manager, source = (part.strip() for part in line.split(" | "))
        if name == system:
            names = packages.format(branch=driver.partition(".")[0]).split()
            manager = "" if manager == "-" else manager.format(branch=driver.partition(".")[0])
            return Archive(branch, tuple(names), manager, source)
    return None


def installer_options(driver: str, container: bool) -> list[str]:
    """Return the options of NVIDIA's installer for a version: open modules, built by dkms, and no question asked.

    container: the modules are its host's.
    """
    if container:
        return ["--silent", "--no-kernel-modules"]
    option, _least = next(
        (row for row in INSTALLER_OPEN if not older(driver, row[1])), INSTALLER_OPEN[-1]
    )
    return ["--silent", "--dkms", option]


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (2, 6, 0) for 2.6.0amzn1.0, (1, 19) for 1:1.19-1."""
    leading = re.match(r"\d+(?:\.\d+)*", version.partition(":")[2] or version)
    return tuple(int(part) for part in leading.group().split(".")) if leading else ()


def older(version: str, least: str) -> bool:
    """Tell whether a version is below another, as far as the other one is written."""
    wanted = numbers(least)
    return numbers(version)[: len(wanted)] < wanted


def same(version: str, wanted: str) -> bool:
    """Tell whether a version is the wanted one, as far as that is written: 6.8.0-1066-aws is 6.8."""
    found, exact = numbers(version), numbers(wanted)
    padded = (*found, *(0,) * max(0, len(exact) - len(found)))
    return bool(found) and padded[: len(exact)] == exact


def releases(site: t.Mapping[str, t.Any] | None = None) -> dict[str, Release]:
    """Return the releases by name, a site's own in front. Raises StackError for a site's row that is wrong."""
    found: dict[str, Release] = {}
    for name, row in (site or {}).items():
        found[str(name)] = _site_release(str(name), row)
    for line in RELEASES.strip().splitlines():
        name, versions, source = (part.strip() for part in line.split(" | "))
        pairs = dict(pair.split("=", 1) for pair in versions.split())
        found.setdefault(name, Release(name, pairs, source))
    return found


def _site_release(name: str, row: t.Any) -> Release:
    where = f"gpu_stack_releases.{name}"
    if not isinstance(row, dict) or not row:
        raise StackError(f"{where}: is not a mapping of components to versions")
    versions = {str(key): value for key, value in row.items() if key != "source"}
    for key, value in versions.items():
        if key not in COMPONENTS:
            raise StackError(f"{where}.{key}: is not one of {', '.join(COMPONENTS)}")
        # 13.10 without quotes is 13.1 by the time it gets here.
        if not isinstance(value, str) or not VERSION.fullmatch(value):
            raise StackError(f"{where}.{key}: {value!r} is not the text of a version, in quotes")
    if not isinstance(row.get("source"), str) or not row["source"].strip():
        raise StackError(f"{where}.source: says who ships these versions together, and is missing")
    return Release(name, versions, row["source"].strip())


# -- one node --------------------------------------------------------------------------------------
def node(stack: Stack, gpu_model: str = "") -> list[Misfit]:
    """Return what does not fit on one machine. gpu_model: as machine types name it, "" for none or unknown."""
    found: list[Misfit] = []
    driver, manager = stack.get("driver", ""), stack.get("fabric_manager", "")
    if driver and manager and numbers(driver) != numbers(manager):
        found.append(
            Misfit(
                "fabric_manager",
                manager,
                driver,
                "it has to be of the driver's very version",
                f"install nvidia-fabricmanager {driver}, and hold both",
            )
        )
    needs = GPU_NEEDS.get(gpu_model)
    if needs and driver and older(driver, needs[0]):
        found.append(
            Misfit(
                "driver",
                driver,
                f">= {needs[0]}",
                f"{gpu_model}: {needs[1]}",
                "install a newer driver",
            )
        )
    found += _cuda_on(driver, stack.get("cuda", ""), "on this machine")
    for component, (wanted, source) in brought_by_efa(stack.get("efa", "")).items():
        have = stack.get(component, "")
        if have and not same(have, wanted):
            remedy = "run the installer again, or take out the other copy"
            found.append(Misfit(component, have, wanted, source, remedy))
    return found


def brought_by_efa(installer: str) -> dict[str, tuple[str, str]]:
    """Return what a version of the EFA installer brings: by component, its version and who says so."""
    source = f"EFA installer {installer} brings it: {EFA_SOURCE}"
    parts = zip(("libfabric", "ofi_nccl"), EFA_BRINGS.get(installer, ()))
    return {component: (version, source) for component, version in parts}


def _cuda_on(driver: str, cuda: str, where: str) -> list[Misfit]:
    major = (numbers(cuda) or (0,))[0]
    least = LEAST_DRIVER.get(major, "")
    if not driver or not least or not older(driver, least):
        return []
    return [
        Misfit(
            "driver",
            driver,
            f">= {least}",
            f"CUDA {cuda} {where}: {LEAST_DRIVER_SOURCE}",
            f"install driver {least} or newer, or CUDA of an older major release",
        )
    ]


def against(stack: Stack, release: Release) -> list[Misfit]:
    """Return the parts of a machine that are not of a release; those that it does not have are for others to miss."""
    return [
        Misfit(
            component,
            stack[component],
            wanted,
            f"release {release.name}: {release.source}",
            f"install {wanted}, or name the release that the machine has",
        )
        for component, wanted in release.versions.items()
        if stack.get(component) and not same(stack[component], wanted)
    ]


# -- several nodes ---------------------------------------------------------------------------------
def odd_ones(stacks: t.Mapping[str, Stack]) -> dict[str, list[Misfit]]:
    """Return by host the parts in which it differs from its peers; the hosts are of one kind.

    With fewer than three hosts, or where no version has more than half of them, nobody can be called odd: each host
    that differs from the most frequent version is still named, since one job runs on all of them.
    """
    found: dict[str, list[Misfit]] = {}
    for component in COMPONENTS:
        have = {host: stack.get(component, "") for host, stack in stacks.items()}
        counted = Counter(have.values())
        if len(counted) < 2:
            continue
        usual, hosts = max(counted.items(), key=lambda pair: (pair[1], pair[0]))
        clear = len(stacks) >= _PEERS and hosts * 2 > len(stacks)
        for host, version in have.items():
            if version != usual:
                why = f"{hosts} of {len(stacks)} like it" if clear else "its peers differ"
                wanted = usual or "none"
                remedy = (
                    f"bring it to {usual}"
                    if usual
                    else "remove it there, or install it on its peers"
                )
                found.setdefault(host, []).append(Misfit(component, version, wanted, why, remedy))
    return found


# -- a node and an image ---------------------------------------------------------------------------
def host_and_image(host: Stack, image: Stack, efa: bool = False) -> list[Misfit]:
    """Return what in an image does not fit the machine that runs it.

    image: also cuda_compat, the driver whose place its forward compatibility libraries take. efa: the machine has EFA
    devices, which NCCL only uses through libfabric and the plugin inside the image.
    """
    found: list[Misfit] = []
    compat = image.get("cuda_compat", "")
    least = LEAST_DRIVER.get((numbers(image.get("cuda", "")) or (0,))[0], "")
    # These libraries replace the user's half of the driver, which carries one major release over an older one.
    if not (compat and least and not older(compat, least)):
        found += _cuda_on(host.get("driver", ""), image.get("cuda", ""), "in the image")
    if not efa:
        return found
    if image.get("nccl") and not image.get("ofi_nccl"):
        found.append(
            Misfit(
                "ofi_nccl",
                "",
                "any",
                "without it NCCL uses TCP instead of EFA",
                "run the EFA installer in the image, with --skip-kmod --skip-limit-conf --no-verify",
            )
        )
    elif image.get("ofi_nccl") and not image.get("libfabric") and not image.get("efa"):
        found.append(
            Misfit(
                "libfabric",
                "",
                "any",
                "the plugin reaches EFA through it",
                "run the EFA installer in the image",
            )
        )
    theirs, ours = image.get("efa", ""), host.get("efa", "")
    if theirs and ours and numbers(theirs)[:2] > numbers(ours)[:2]:
        found.append(
            Misfit(
                "efa",
                theirs,
                f"<= {ours}",
                "the image is newer than the machine, whose kernel module may lack what it asks for",
                f"upgrade the machines, or build the image with EFA installer {ours}",
                sure=False,
            )
        )
    return found
