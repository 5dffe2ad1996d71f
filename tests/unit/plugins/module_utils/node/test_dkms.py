# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What dkms could not build is named with its log and the remedy, from the output that apt-get has of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import dkms, kernel_modules

# In the form of dkms 3.0 below apt-get: its two lines are those of the function `die` after a build.
FAILED = """\
Building initial module for 6.12.48+deb13-cloud-amd64
Error! Bad return status for module build on kernel: 6.12.48+deb13-cloud-amd64 (x86_64)
Consult /var/lib/dkms/nvidia/595.91.07/build/make.log for more information.
dpkg: error processing package nvidia-kernel-open-dkms (--configure):
"""
LOG = """\
make -C /lib/modules/6.12.48+deb13-cloud-amd64/build M=/var/lib/dkms/nvidia/595.91.07/build
/var/lib/dkms/nvidia/595.91.07/build/nvidia.c:9:1: error: unknown type name 'statc'
make[1]: *** [Makefile:1936: /var/lib/dkms/nvidia/595.91.07/build] Error 2
"""


def test_a_build_that_failed_is_named_with_its_first_error_and_its_log(tmp_path: Path) -> None:
    log = tmp_path / "var/lib/dkms/nvidia/595.91.07/build/make.log"
    log.parent.mkdir(parents=True)
    log.write_text(LOG)
    text = dkms.failure(FAILED, str(tmp_path))
    assert text.startswith("dkms could not build nvidia 595.91.07 for kernel ")
    assert "nvidia.c:9:1: error: unknown type name 'statc' -> read /var/lib/dkms" in text
    assert "name a version of nvidia that builds for this kernel" in text
    log.unlink()
    assert ": no log -> read /var/lib/dkms/" in dkms.failure(FAILED, str(tmp_path))


def test_another_failure_is_not_dkms(tmp_path: Path) -> None:
    assert dkms.failure("E: held broken packages", str(tmp_path)) == ""
    assert dkms.no_headers("E: held broken packages") == ""


@pytest.mark.parametrize(
    "text",
    [
        "E: Unable to locate package linux-headers-6.12.1-site\n",
        "E: Package 'linux-headers-6.12.1-site' has no installation candidate",
    ],
)
def test_headers_that_no_repository_has_get_a_remedy(text: str) -> None:
    found = dkms.no_headers(text)
    assert found.startswith("no repository has linux-headers-6.12.1-site, which dkms needs -> boot")


@pytest.mark.parametrize(
    ("have", "wanted", "built"),
    [
        ("595.91.07", "595.91.07", True),
        ("595.91.07", "595.91", True),
        ("595.91.07", "595.9", False),
        # As a package has it.
        ("595.91.07", "595.91.07-1", True),
        ("595.91.07", "1:595.91.07-1", True),
        ("580.95.05", "595.91.07", False),
        ("", "595.91.07", False),
    ],
)
def test_the_version_counts_as_far_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch, have: str, wanted: str, built: bool
) -> None:
    monkeypatch.setattr(kernel_modules, "installed_version", lambda _name: have)
    assert dkms.unbuilt({"nvidia": wanted}) == ({} if built else {"nvidia": have})


def test_a_kernel_without_headers_is_the_reason_that_nothing_was_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """dkms leaves the build out without an error."""
    there = [False]
    monkeypatch.setattr(kernel_modules, "has_headers", lambda _release: there[0])
    text = dkms.still_missing({"nvidia": ""}, {"nvidia": "595"}, "")
    assert "would load no version of module nvidia instead of 595: its headers are missing" in text
    assert " -> install linux-headers-" in text
    there[0] = True
    text = dkms.still_missing({"nvidia": "580"}, {"nvidia": "595"}, "")
    assert "would load 580 of module nvidia instead of 595 -> look at dkms status" in text
    assert dkms.still_missing({"nvidia": ""}, {"nvidia": "595"}, FAILED).startswith("dkms could")
