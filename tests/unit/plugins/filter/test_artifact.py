# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The artifact table: no checksum, no download."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.artifact import artifact, newest

ROOT = Path(__file__).resolve().parents[4]
A, B, C = ("a" * 64, "b" * 64, "c" * 64)
TABLE = [
    {"name": "tool", "version": "1.2.9", "url": "https://x/tool-1.2.9.tar.gz", "sha256": A, "source": "X"},
    {"name": "tool", "version": "1.2.10", "url": "https://x/tool-1.2.10.tar.gz", "sha256": B, "source": "X"},
    {"name": "tool", "version": "", "url": "https://y/tool-{version}.tar.bz2", "sha256": "", "source": "Y"},
    {"name": "other", "version": "1.2.11", "url": "https://x/other.tar.gz", "sha256": A, "source": "X"},
]  # fmt: skip


def test_the_newest_version_of_a_beginning() -> None:
    assert newest(TABLE, "tool", "1.2") == "1.2.10"
    assert newest(TABLE, "tool", "1.2.9") == "1.2.9"
    assert newest(TABLE, "tool", "9.9.9") == "9.9.9"


@pytest.mark.parametrize("version", ["1.3", "1", ""])
def test_a_beginning_that_nothing_fits_names_what_there_is(version: str) -> None:
    table = [row for row in TABLE if row["version"] != "1.2.9"] if version == "1.3" else TABLE[2:3]
    with pytest.raises(AnsibleFilterError, match="give the full version"):
        newest(table, "tool", version)


def test_an_entry_as_it_is() -> None:
    assert artifact(TABLE, "tool", "1.2") == {
        "version": "1.2.10",
        "file": "tool-1.2.10.tar.gz",
        "cached": f"{B[:12]}-tool-1.2.10.tar.gz",
        "url": "https://x/tool-1.2.10.tar.gz",
        "sha256": B,
        "source": "X",
    }


def test_a_version_without_a_checksum_fails_with_the_remedy() -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        artifact(TABLE, "tool", "3.0.1", option="tool_sha256")
    message = str(caught.value)
    assert "https://y/tool-3.0.1.tar.bz2" in message and "set tool_sha256" in message


def test_another_address_takes_no_checksum_of_the_table() -> None:
    with pytest.raises(AnsibleFilterError, match="does not have a SHA-256"):
        artifact(TABLE, "tool", "1.2.9", url="https://z/tool-1.2.9.tar.gz")
    found = artifact(TABLE, "tool", "1.2.9", url="https://z/t.tar.gz", sha256=C, option="o")
    assert (found["url"], found["sha256"], found["source"]) == (
        "https://z/t.tar.gz",
        C,
        "the variable o",
    )


def test_a_mirror_has_the_file_by_its_base_name(tmp_path: Path) -> None:
    found = artifact(TABLE, "tool", "1.2.9", mirror="https://mirror.example/files/")
    assert (found["url"], found["sha256"]) == ("https://mirror.example/files/tool-1.2.9.tar.gz", A)
    found = artifact(TABLE, "tool", "1.2.9", mirror=str(tmp_path))
    assert found["url"] == f"file://{tmp_path}/tool-1.2.9.tar.gz"


def test_a_directory_that_stands_in_has_checksums_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_text(f"{C}  ./tool-1.2.9.tar.gz\n{B} *tool-3.0.1.tar.bz2\n")
    found = artifact(TABLE, "tool", "1.2.9", sha256=A, stand_in=str(tmp_path))
    assert (found["sha256"], found["source"]) == (C, f"{tmp_path}/SHA256SUMS")
    assert artifact(TABLE, "tool", "3.0.1", stand_in=str(tmp_path))["sha256"] == B
    with pytest.raises(
        AnsibleFilterError, match="SHA256SUMS does not have one for tool-1.2.10.tar.gz"
    ):
        artifact(TABLE, "tool", "1.2.10", stand_in=str(tmp_path))


def test_a_directory_without_sums_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnsibleFilterError, match="sha256sum"):
        artifact(TABLE, "tool", "1.2.9", stand_in=str(tmp_path))


def test_checksums_by_file_are_found_and_missed_by_name(tmp_path: Path) -> None:
    table = [
        {
            "name": "tool",
            "version": "",
            "url": "https://x/tool_{version}_{arch}.deb",
            "sha256": "",
            "source": "x",
        }
    ]
    found = artifact(table, "tool", "1.2.9", sha256={"tool_1.2.9_arm64.deb": C}, arch="arm64")
    assert (found["url"], found["sha256"]) == ("https://x/tool_1.2.9_arm64.deb", C)
    with pytest.raises(
        AnsibleFilterError, match=r"set sums: \{tool_1.2.9_amd64.deb: ...\}.*publisher: x"
    ):
        artifact(
            table, "tool", "1.2.9", sha256={"tool_1.2.9_arm64.deb": C}, arch="amd64", option="sums"
        )


def test_the_table_is_whole() -> None:
    table = yaml.safe_load((ROOT / "roles/artifact/vars/main/table.yml").read_text())[
        "artifact_table"
    ]
    for row in table:
        assert set(row) == {"name", "version", "url", "sha256", "source"}
        assert len(row["sha256"]) == 64 if row["version"] else not row["sha256"]
        assert hashlib.sha256(b"").hexdigest() != row["sha256"]
    keys = [(row["name"], row["version"]) for row in table]
    assert len(set(keys)) == len(keys)
    assert artifact(table, "slurm", "24.11.5")["file"] == "slurm-24-11-5-1.tar.gz"
    assert artifact(table, "pyxis", "0.24.0")["file"] == "pyxis-0.24.0.tar.gz"


def test_a_signed_download_may_be_without_a_checksum() -> None:
    found = artifact(TABLE, "tool", "9.9.9", signed=True)
    assert (found["sha256"], found["cached"]) == ("", "signed-tool-9.9.9.tar.bz2")
    assert artifact(TABLE, "tool", "1.2.9", signed=True)["sha256"] == A
    with pytest.raises(AnsibleFilterError, match="SHA-256"):
        artifact(TABLE, "tool", "9.9.9", sha256="abc", signed=True)
