# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cause of a failure of apt-get or dpkg, by apt itself where it can be had, else in their words."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import apt_errors

from tests.unit.scratch_apt import ScratchApt

LISTED = [
    ("driver", "2", "libdriver (= 2), libother (>= 3)"),
    ("libdriver", "2", ""),
    ("libdriver", "1", ""),
    ("tool", "1", "driver (= 2), libdriver (= 2)"),
    ("lone", "1", "gone"),
]
HELD = "Unable to correct problems, you have held broken packages"


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt")
@pytest.mark.parametrize(
    ("asked", "cause", "remedy"),
    [
        ("driver", f"{HELD}; driver Depends: libdriver (= 2) but 1 is to be installed;"
         " driver Depends: libother (>= 3) but it is not installable", "apt-cache policy libdriver"),
        ("driver=9", "Version '9' for 'driver' was not found", "apt-cache madison driver"),
        ("nosuch", "Unable to locate package nosuch", "apt-cache policy nosuch"),
        ("gone", "Package 'gone' has no installation candidate", "apt-cache policy gone"),
    ],
)  # fmt: skip
def test_the_cause_is_whole_and_has_its_remedy(
    tmp_path: Path, asked: str, cause: str, remedy: str
) -> None:
    """By real apt; of an output like the first, the last lines alone said that something is held."""
    apt = ScratchApt(tmp_path, LISTED, [("libdriver", "1", "")])
    pin = "Package: libdriver\nPin: version 2\nPin-Priority: -1\n"
    (apt.preferences / "pins").write_text(pin)
    done = apt.run("apt-get", "--simulate", "--yes", "install", asked)
    assert done.returncode == 100
    assert apt_errors.cause(done.stdout + done.stderr) == cause
    assert remedy in apt_errors.remedy(done.stdout + done.stderr)


CASES = {
    "a script of a package": (
        "Setting up x (1) ...\ndpkg: error processing package x (--configure):\n installed x package"
        " post-installation script subprocess returned error exit status 1\nErrors were encountered while processing:\n"
        " x\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n",
        "dpkg: error processing package x (--configure): installed x package post-installation script subprocess"
        " returned error exit status 1",
        "/var/log/apt/term.log",
    ),
    "a file of two packages": (
        "dpkg: error processing archive /x.deb (--unpack):\n trying to overwrite '/usr/bin/x', which is also in package"
        " old 1\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n",
        "dpkg: error processing archive /x.deb (--unpack): trying to overwrite '/usr/bin/x', which is also in package"
        " old 1",
        "remove old",
    ),
    "the first of many": (
        "E: Failed to fetch http://x/a.deb  404  Not Found [IP: 10.0.0.1 80]\n"
        + "".join(f"E: Failed to fetch http://x/{n}.deb  404  Not Found\n" for n in range(9))
        + "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n",
        "Failed to fetch http://x/a.deb 404 Not Found [IP: 10.0.0.1 80]; Failed to fetch http://x/0.deb",
        "proxy_env",
    ),
    "held": (
        "The following held packages will be changed:\n  nvidia-open libx\n0 upgraded.\nE: Held packages were changed"
        " and -y was used without --allow-change-held-packages.\n",
        "Held packages were changed and -y was used without --allow-change-held-packages; held: nvidia-open libx",
        "apt-mark unhold",
    ),
    "apt 3.0": (
        "Unsatisfied dependencies:\n driver : Depends: libdriver (= 2) but 1 is to be installed\nError: Unable to"
        " correct problems, you have held broken packages.\nError: The following information from --solver 3.0 may"
        " provide additional context:\n   Unable to satisfy dependencies. Reached two conflicting"
        " decisions:\n   1. x\n",
        f"{HELD}; driver Depends: libdriver (= 2) but 1 is to be installed; The following information from"
        " --solver 3.0 may provide additional context: Unable to satisfy dependencies. Reached two conflicting"
        " decisions: 1. x",
        "apt-cache policy libdriver",
    ),
    # Printed by apt 3.0.4 of Debian 13.
    "apt 3.0, as apt-get prints it": (
        "Solving dependencies...\nThe following packages have unmet dependencies:\n lone : Depends: gone but it is not"
        " installable\nE: Unable to correct problems, you have held broken packages.\nE: The following information from"
        " --solver 3.0 may provide additional context:\n   Unable to satisfy dependencies. Reached two conflicting"
        " decisions:\n   1. lone:amd64=1 is selected for install\n   2. lone:amd64 Depends gone\n      but none of the"
        " choices are installable:\n      [no choices]\n",
        f"{HELD}; lone Depends: gone but it is not installable; The following information",
        "apt-cache policy gone",
    ),
    "APT::Solver 3.0": (
        "Solving dependencies...\nThe following packages have unmet dependencies:\n driver : Depends: libdriver (= 2)"
        " but 1 is to be installed\n          Depends: libother (>= 3) but it is not installable\nE: Unable to satisfy"
        " dependencies. Reached two conflicting decisions:\n   1. libdriver:amd64=2 is not selected for install\n   2."
        " libdriver:amd64=2 is selected as an upgrade because:\n      1. driver:amd64=2 is selected for install\n"
        "      2. driver:amd64 Depends libdriver (= 2)\n",
        "driver Depends: libdriver (= 2) but 1 is to be installed; driver Depends: libother (>= 3) but it is not"
        " installable; Unable to satisfy dependencies. Reached two conflicting decisions: 1. libdriver:amd64=2",
        "apt-cache policy libdriver",
    ),
    "APT::Solver 3.0, and nothing but its proof": (
        "Error: Unable to satisfy dependencies. Reached two conflicting decisions:\n   1. lone:amd64=1 is selected for"
        " install\n   2. lone:amd64 Depends gone\n      but none of the choices are installable:\n      [no choices]\n",
        "Unable to satisfy dependencies. Reached two conflicting decisions: 1. lone:amd64=1 is selected",
        "apt-cache policy gone",
    ),
    "APT::Output-Version 30, held": (
        "Upgrading:\n  a  b\n\nChanging held packages:\n  b\n\nSummary:\n  Upgrading: 2, Installing: 0, Removing: 0,"
        " Not Upgrading: 1\nError: Held packages were changed and -y was used without --allow-change-held-packages.\n",
        "Held packages were changed and -y was used without --allow-change-held-packages; held: b",
        "apt-mark unhold",
    ),
    "APT::Output-Version 30, a name": (
        "\nReading package lists...\nBuilding dependency tree...\nError: Unable to locate package nosuch\n",
        "Unable to locate package nosuch",
        "apt-cache policy nosuch",
    ),
    "a killed dpkg": (
        "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem. \n",
        "dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem",
        "dpkg --configure -a",
    ),
    "another one works": (
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 12 (apt-get)\n"
        "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?\n",
        "Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 12 (apt-get)",
        "let the other package manager end",
    ),
    "nothing that is known": ("a\nb\n\nc\nd\ne\n", "b; c; d; e", "fix what the package manager says"),
    "nothing at all": ("", "", "fix what the package manager says"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(CASES))
def test_the_words_of_apt_and_dpkg(case: str) -> None:
    output, cause, remedy = CASES[case]
    found = apt_errors.cause(output)
    assert found.startswith(cause) and "\n" not in found and (cause or not found)
    assert remedy in apt_errors.remedy(output)
    assert apt_errors.failure(output) == f"{found} -> {apt_errors.remedy(output)}"


def test_a_long_cause_ends_with_a_number() -> None:
    """A transaction of many packages can have a line for each."""
    rows = "".join(
        f" package-{n} : Depends: library-{n} (= 1) but it is not installable\n" for n in range(99)
    )
    found = apt_errors.cause(
        f"The following packages have unmet dependencies:\n{rows}E: Unmet dependencies. Try 'x'.\n"
    )
    assert found.startswith("Unmet dependencies. Try 'x'; package-0 Depends: library-0")
    assert len(found) < apt_errors.MOST + 40 and found.endswith(" more")
