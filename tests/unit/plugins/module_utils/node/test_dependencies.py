# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Dependencies that packages have lost, read as dpkg reads them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.dependencies import (
    FORM,
    Packages,
    compare,
    relations,
)

OPEN = "installed\tnvidia-open\t595.91.07-1\t\t, libnvidia-compute (= 595.91.07-1), dkms (>= 3) | kmod\n"
TOOLKIT = "installed\tcuda-toolkit-13-2\t13.2.1-1\t\t, cuda-compiler-13-2 (>= 13.2.1)\n"
COMPILER = "installed\tcuda-compiler-13-2\t13.2.1-1\t\t, cuda-nvcc-13-2 (>= 13.2.78)\n"
WHOLE = (
    OPEN
    + TOOLKIT
    + COMPILER
    + "installed\tlibnvidia-compute\t595.91.07-1\t\t, \n"
    + "installed\tkmod\t34\t\t, \n"
    + "installed\tcuda-nvcc-13-2\t13.2.78-1\t\t, \n"
)
NAMES = ["nvidia-open=595.91.07[-+.]*?", "cuda-toolkit-13-2"]


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("", "", {}),
        # apt remove of the package, or dpkg --force-depends; its configuration may stay.
        ("installed\tlibnvidia-compute", "config-files\tlibnvidia-compute",
         {"libnvidia-compute=595.91.07-1": "nvidia-open"}),
        # What a dependency needs counts too.
        ("installed\tcuda-nvcc", "half-configured\tcuda-nvcc", {"cuda-nvcc-13-2": "cuda-compiler-13-2"}),
        ("libnvidia-compute\t595", "libnvidia-compute\t580", {"libnvidia-compute=595.91.07-1": "nvidia-open"}),
        ("13.2.78-1", "13.2.77-1", {"cuda-nvcc-13-2": "cuda-compiler-13-2"}),
        # One alternative is enough, and a package that provides it.
        ("\tkmod\t34\t\t", "\tother\t1\tkmod (= 34), x\t", {}),
        ("installed\tkmod", "unpacked\tkmod", {"dkms": "nvidia-open"}),
    ],
)  # fmt: skip
def test_what_was_lost_is_named_with_who_needs_it(
    before: str, after: str, lost: dict[str, str]
) -> None:
    assert Packages(WHOLE.replace(before, after)).lost(NAMES) == lost


def test_packages_that_nobody_asked_for_are_left_alone() -> None:
    broken = WHOLE + "installed\tother\t1\t\t, gone\n"
    assert Packages(broken).lost(NAMES) == {}
    assert Packages(broken).lost(["nvidia-driver"]) == {}, "it is missing, and has lost nothing"


def test_a_loop_of_dependencies_ends() -> None:
    both = "installed\ta\t1\t\t, b\ninstalled\tb\t1\t\ta, \n"
    assert Packages(both).lost(["a"]) == {}


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [("1.0~rc1", "1.0", -1), ("1.0", "1.0-0", 0), ("1:1", "2", 1), ("1.0a", "1.0+", -1), ("1.10", "1.9", 1),
     ("2.27.3-1+cuda13.0", "2.27.3-1", 1), ("1.0-1~x", "1.0-1", -1), ("0:1", "1", 0), ("1-2-3", "1-2-10", -1)],
)  # fmt: skip
def test_versions_are_ordered_as_dpkg_orders_them(ours: str, theirs: str, wanted: int) -> None:
    assert compare(ours, theirs) == wanted
    assert compare(theirs, ours) == -wanted


def test_architectures_of_a_dependency_do_not_count() -> None:
    assert relations("python3:any (>= 3.9~), libc6:amd64") == [
        [("python3", ">=", "3.9~")],
        [("libc6", "", "")],
    ]


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no dpkg")
def test_the_packages_of_this_machine_have_lost_nothing() -> None:
    """apt-get check says the same of them."""
    query = ["dpkg-query", "-W", "-f", FORM]
    found = Packages(subprocess.run(query, capture_output=True, text=True, check=True).stdout)
    if shutil.which("apt-get") and not subprocess.run(["apt-get", "check"], check=False).returncode:
        assert found.lost(found.versions) == {}
