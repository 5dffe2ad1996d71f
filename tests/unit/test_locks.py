# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The locks hold what the requirements ask for, exactly and with checksums, and name no server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("requirements", "requirements-dev")


def wanted(name: str) -> list[Requirement]:
    """The lines of a file of ranges, and of the one that it includes."""
    found = []
    for line in (ROOT / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if included := re.match(r"-r (\S+)\.txt", line):
            found += wanted(included[1])
        elif line and not line.startswith("#"):
            found.append(Requirement(line))
    return found


def locked(name: str) -> dict[str, tuple[set[str], str]]:
    """Of each package its versions, which may differ between Pythons, and the text of its checksums."""
    text = (ROOT / f"{name}.lock").read_text(encoding="utf-8")
    found: dict[str, tuple[set[str], str]] = {}
    for package, version, rest in re.findall(
        r"^([\w.-]+)==([^ ]+)(.*(?:\n    --hash.*)+)", text, re.M
    ):
        versions, sums = found.get(canonicalize_name(package), (set(), ""))
        found[canonicalize_name(package)] = (versions | {version}, sums + rest)
    assert len(re.findall("^[^ #]", text, re.M)) == sum(len(one) for one, _ in found.values())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_each_requirement_is_pinned_within_its_range(name: str) -> None:
    lock = locked(name)
    wrong = [
        str(one)
        for one in wanted(name)
        if not all(v in one.specifier for v in lock.get(canonicalize_name(one.name), ({""},))[0])
    ]
    assert not wrong, "run `make lock`"


@pytest.mark.parametrize("name", NAMES)
def test_each_pin_has_checksums_and_no_server(name: str) -> None:
    for package, (_, rest) in locked(name).items():
        assert "--hash=sha256:" in rest, package
    text = (ROOT / f"{name}.lock").read_text(encoding="utf-8")
    assert "://" not in text and "index" not in text


def test_both_locks_agree() -> None:
    """So that `make cluster` after `make test` has nothing to install, nor the other way about."""
    full = locked("requirements-dev")
    assert not {
        name: (versions, full.get(name))
        for name, (versions, _) in locked("requirements").items()
        if full.get(name, (set(), ""))[0] != versions
    }


def test_bootstrap_installs_the_locks_with_their_checksums() -> None:
    called = re.search(
        r"^\t@(\S+/bootstrap)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M
    )
    assert called
    text = (ROOT / called[1]).read_text(encoding="utf-8")
    assert "requirements.lock" in text and "requirements-dev.lock" in text
    assert re.search(r"pip\" install .*--require-hashes .*--requirement", text)
