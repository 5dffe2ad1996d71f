# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The remedy where apt-get does not know a package or a version: what there is instead."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.apt_known import remedy

ANSWERS = {
    ("madison", "cuda-toolkit-13-2"): " cuda-toolkit-13-2 |   13.2.1-1 | https://x  Packages\n"
    " cuda-toolkit-13-2 |   13.2.0-1 | https://x  Packages\n",
    (
        "pkgnames",
        "cuda-toolkit-",
    ): "cuda-toolkit-12-9\ncuda-toolkit-13-2\ncuda-toolkit-13-2-config-common\n",
}


def ask(*arguments: str) -> str:
    return ANSWERS.get(arguments, "")


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ("E: Version '13.2.99[-+.]*?' for 'cuda-toolkit-13-2' was not found",
         "cuda-toolkit-13-2: no repository of this host gives 13.2.99[-+.]*?, known: 13.2.1-1, 13.2.0-1"),
        ("E: Version '9' for 'libnccl2' was not found", "gives 9, known: no version"),
        ("E: Unable to locate package cuda-toolkit-14-7", "has it, known: cuda-toolkit-13-2, cuda-toolkit-12-9"),
        ("E: Unable to locate package jq", "this host has it, known: no package of a name like it"),
        ("E: Package 'cuda-toolkit-13-2' has no installation candidate", "may give it (pins), known: 13.2.1-1, 13"),
    ],
)  # fmt: skip
def test_what_is_known_is_named(output: str, what: str) -> None:
    said = remedy(f"Reading package lists...\n{output}\n", ask)
    assert what in said
    assert "nothing was installed) -> name one that is known" in said


def test_another_error_is_not_about_names() -> None:
    assert remedy("E: Could not get lock /var/lib/dpkg/lock-frontend", ask) == ""
