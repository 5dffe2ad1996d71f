# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module dataset_sync: what it returns, what it warns of, how it fails, which permissions it needs."""

from __future__ import annotations

import json
import os
import types
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.data import module_options, s3
from ansible_collections.trainwright.slurm.plugins.modules import dataset_sync, dataset_verify

from tests.fixtures.aws.s3 import Store
from tests.unit.plugins.module_utils.data.run import PART, content, make, many

from .aws import Run, runner

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Store]:
    monkeypatch.setattr(s3, "PART", PART)
    with Store() as made:
        yield made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store: Store) -> Run:
    return runner(capsys, monkeypatch, store)  # type: ignore[arg-type]


@pytest.mark.parametrize("module", [dataset_sync, dataset_verify])
def test_the_documented_options_are_those_of_the_module(module: types.ModuleType) -> None:
    keys = ("type", "elements", "default", "choices", "required")
    options = yaml.safe_load(module.DOCUMENTATION)["options"]
    shown = {
        name: {key: option[key] for key in keys if key in option}
        for name, option in options.items()
    }
    assert shown == module.SPEC


def test_a_run_and_a_second_one(run: Run, store: Store, tmp_path: Path) -> None:
    source = many(tmp_path / "set", 12, 1)
    asked = {"source": str(source), "destination": "s3://bucket/set"}
    foreseen = run(dataset_sync, **asked, _ansible_check_mode=True)
    assert foreseen["changed"] and foreseen["sent"] == 13 and not store.bucket
    made = run(dataset_sync, **asked)
    assert made["changed"] and (made["files"], made["sent"], made["verified"]) == (13, 13, 13)
    assert made["bytes"] == made["bytes_sent"] == sum(map(len, content(source).values()))
    assert made["throughput"] > 0 and made["checksums"] == "SHA256" and not made["warnings"]
    assert made["diff"]["after"].splitlines()[0] == "0/f00000"
    assert made["journal"].startswith(str(tmp_path / ".trainwright-sync"))
    again = run(dataset_sync, **asked)
    assert not again["changed"] and again["whole"] == 13 and again["throughput"] == 0
    verified = run(dataset_verify, **asked, sample=5)
    assert verified["same"] and verified["checked"] == 5 and not verified["changed"]
    assert not [
        path for path in (tmp_path / ".trainwright-sync").iterdir() if path.suffix != ".journal"
    ]


def test_a_directory_needs_no_aws(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_options, "HAS_BOTO3", False)
    source = many(tmp_path / "set", 5)
    made = run(
        dataset_sync,
        source=str(source),
        destination=str(tmp_path / "nfs"),
        state_dir=str(tmp_path / "state"),
    )
    assert made["sent"] == 5 and content(tmp_path / "nfs") == content(source)
    assert made["journal"].startswith(str(tmp_path / "state"))
    assert (
        "install python3-boto3"
        in run(dataset_sync, source=str(source), destination="s3://b")["msg"]
    )


def test_deletions_are_listed_by_check_mode(run: Run, tmp_path: Path) -> None:
    source, there = make(tmp_path / "set", {"a": b""}), make(tmp_path / "nfs", {"b": b"", "c": b""})
    asked = {"source": str(source), "destination": str(there), "delete": True}
    foreseen = run(dataset_sync, **asked, _ansible_check_mode=True)
    assert foreseen["removed"] == ["b", "c"] and foreseen["removed_count"] == 2
    assert foreseen["diff"] == {"before": "b\nc\n", "after": "a\n"}
    assert "confirm_delete: 2" in run(dataset_sync, **asked)["msg"]
    made = run(dataset_sync, **asked, confirm_delete=2)
    assert made["removed"] == ["b", "c"] and content(there) == {"a": b""}


def test_warnings(run: Run, store: Store, tmp_path: Path) -> None:
    store.checksums = False
    source = make(tmp_path / "set", {"a": bytes(PART + 1)})
    store.on("UploadPart", lambda _request: os.utime(source / "a"), times=1)
    made = run(dataset_sync, source=str(source), destination="s3://bucket/")
    assert made["checksums"] == "MD5" and made["changed_files"] == ["a"]
    assert made["warnings"] == [
        "s3://bucket/ knows neither SHA-256 nor CRC32: each object was verified by its MD5 instead",
        "1 files changed while they were sent, and were sent again",
    ]


@pytest.mark.parametrize("module", [dataset_sync, dataset_verify])
def test_failures_are_one_line(
    run: Run, store: Store, tmp_path: Path, module: types.ModuleType
) -> None:
    source = str(make(tmp_path / "set", {"a": b"1"}))
    store.fail("ListObjectsV2", "AccessDenied", 403)
    failed = run(module, source=source, destination="s3://bucket/set")
    assert (
        failed["failed"]
        and failed["action"] == "s3:ListBucket"
        and failed["code"] == "AccessDenied"
    )
    assert "the permission s3:ListBucket is missing" in failed["msg"] and "\n" not in failed["msg"]
    for wrong in (
        {"source": "set"},
        {"destination": "set"},
        {"jobs": 0},
        {"source": "/nonexistent"},
    ):
        failed = run(module, **{"source": source, "destination": "s3://bucket/set", **wrong})
        assert failed["failed"] and " -> " in failed["msg"], wrong


def test_differences_are_returned(run: Run, store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1", "b": b"2", "c": b"3"})
    asked = {"source": str(source), "destination": "s3://bucket/set"}
    run(dataset_sync, **asked)
    (source / "new").touch()
    (source / "a").write_bytes(b"11")
    (source / "c").unlink()
    found = run(dataset_verify, **asked)
    assert not found["same"] and found["missing"] == ["new"] and found["extra"] == ["c"]
    assert found["other"] == {"a": "1 bytes instead of 2"} and found["checked"] == 1
    assert run(dataset_verify, **asked, settle=3600)["recent_count"] == 3


def test_names_of_files_do_not_command_the_terminal(run: Run, tmp_path: Path) -> None:
    """Plays put them into messages, and --diff prints them; Ansible prints both as they are."""
    trap, shown = "x\x1b]0;OWNED\x07\ny", "x\\x1b]0;OWNED\\x07\\ny"
    source = make(tmp_path / "set", {trap: b"1", f"{trap}2": b"2"})
    (source / f"{trap}3").symlink_to(tmp_path)
    there = make(tmp_path / "there", {f"{trap}2": b"other", f"{trap}4": b"4"})
    asked = {"source": str(source), "destination": str(there)}
    found = run(dataset_verify, **asked)
    assert (found["missing"], found["extra"]) == ([shown], [f"{shown}4"])
    assert found["other"] == {f"{shown}2": "5 bytes instead of 1"}
    assert run(dataset_verify, **asked, settle=1000)["recent"] == [shown, f"{shown}2"]
    made = run(dataset_sync, **asked, delete=True, confirm_delete=1)
    assert (made["removed"], list(made["skipped"])) == ([f"{shown}4"], [f"{shown}3"])
    assert made["diff"] == {"before": f"{shown}4\n", "after": f"{shown}\n{shown}2\n"}


def test_the_permissions_are_those_of_the_policy(run: Run, store: Store, tmp_path: Path) -> None:
    source = many(tmp_path / "set", 3, 1)
    asked = {"source": str(source), "destination": "s3://bucket/set"}
    run(dataset_sync, **asked)
    for path in content(source):
        (source / path).touch()
    store.fail("UploadPart", "AccessDenied", 403, times=1)
    (source / "more").write_bytes(bytes(PART + 1))
    run(dataset_sync, **asked)
    run(dataset_sync, **asked)
    (source / "more").unlink()
    run(dataset_sync, **asked, delete=True, confirm_delete=1)
    for thing in store.bucket.values():
        thing.kind = thing.checksum = thing.etag = ""
    run(dataset_verify, **asked)
    needed = {f"s3:{s3._PERMISSION.get(name, name)}" for name in store.count}
    policy = json.loads((ROOT / "docs/iam/dataset.json").read_text(encoding="utf-8"))
    statements = [one for one in policy["Statement"] if one["Sid"] != "MakeBucket"]
    assert needed == {action for one in statements for action in one["Action"]}
