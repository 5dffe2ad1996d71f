# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The modules that roles apply with record what they leave, from the plan that they apply; run for real."""

from __future__ import annotations

import importlib
import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    drift,
    manifest,
    nfs_exports,
    services,
)
from ansible_collections.trainwright.slurm.plugins.modules import (
    cluster_secrets,
    config_files,
    deb_packages,
    drift_info,
)
from ansible_collections.trainwright.slurm.plugins.modules import services as services_module

ROOT = Path(__file__).resolve().parents[4]
WHO = {"manager": "demo", "part": "Write it", "version": "1.2.0"}
RECORDED = sorted(
    path.stem
    for path in (ROOT / "plugins" / "modules").glob("*.py")
    if "manifest.ARGUMENT" in path.read_text(encoding="utf-8")
)
#: Modules that roles apply with and that record nothing, with the reason.
NOT_RECORDED = {
    "host_wanted": "the digest beside the manifest",
    "check_report": "a report, mostly on the control node",
    "efa_installer": "its installer's own manifest has what it brings",
    "image_clean": "removes what a machine must not have in common with others",
    "nvidia_runfile": "NVIDIA's installer has what it brings",
    "path_owner": "reads",
    "reboot_lock": "a lock, which each run takes and gives back",
    "slurm_new_nodes": "a reservation of Slurm",
    "support_archive": "an archive for a person, which another task removes",
    "support_bundle": "an archive for a person, on the control node",
    "verified_file": "files on the control node",
}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(manifest, "DIRECTORY", str(tmp_path / "manifest"))
    monkeypatch.setattr(manifest, "PASSING", ("/run",))
    monkeypatch.setattr(manifest.os, "geteuid", lambda: 0)


def run(
    module: t.Any, capsys: pytest.CaptureFixture[str], check: bool = False, **given: t.Any
) -> dict[str, t.Any]:
    arguments = {**given, "_ansible_check_mode": check, "_ansible_remote_tmp": "/tmp"}
    arguments["_ansible_module_name"] = module.__name__.rpartition(".")[2]
    with patch_module_args(arguments), pytest.raises(SystemExit):
        module.main()
    return t.cast("dict[str, t.Any]", json.loads(capsys.readouterr().out))


def entries(tmp_path: Path) -> list[manifest.Entry]:
    return manifest.entries(str(tmp_path / "manifest"))


def wanted(tmp_path: Path, content: str = "x\n") -> dict[str, t.Any]:
    owner = {"owner": str(tmp_path.stat().st_uid), "group": str(tmp_path.stat().st_gid)}
    return {
        "directories": [{"path": f"{tmp_path}/etc", **owner}],
        "files": [{"path": f"{tmp_path}/etc/a", "content": content, **owner}],
        "managed_by": WHO,
    }


def test_config_files_and_the_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config_files, capsys, check=True, **wanted(tmp_path))["changed"]
    assert not (tmp_path / "manifest").exists()
    assert run(config_files, capsys, **wanted(tmp_path))["changed"]
    (entry,) = entries(tmp_path)
    assert (entry.manager, entry.part, entry.fault) == ("demo", "Write it", "")
    assert not run(config_files, capsys, **wanted(tmp_path))["changed"]
    look = run(drift_info, capsys, directory=str(tmp_path / "manifest"))
    assert (look["state"], look["items"], look["changed"]) == ("as left", 2, False)
    (tmp_path / "etc" / "a").write_text("y\n")
    look = run(drift_info, capsys, directory=str(tmp_path / "manifest"))
    assert [one["what"] for one in look["differences"]] == ["content"]
    # The next run repairs it.
    assert run(config_files, capsys, **wanted(tmp_path))["changed"]
    assert run(drift_info, capsys, directory=str(tmp_path / "manifest"))["state"] == "as left"


@pytest.mark.parametrize(
    ("change", "forgotten"),
    [
        (lambda etc: (etc / "a").write_text("theirs\n"), True),
        (lambda etc: (etc / "a").unlink(), True),
        (lambda etc: (etc / "more").write_text("theirs\n"), True),
        (lambda etc: (etc / "a").chmod(0o600), False),
        (lambda etc: None, False),
    ],
)
def test_a_unit_that_may_run_with_a_file_of_somebody_else_is_started_again(
    change: t.Callable[[Path], t.Any],
    forgotten: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A daemon that was started by hand with a file that this call puts back went on with it, as left."""
    stamps: list[str] = []
    monkeypatch.setattr(config_files.Stamps, "forget", lambda _self, unit: stamps.append(unit))
    given = wanted(tmp_path)
    given["directories"][0]["only_listed"] = True
    run(config_files, capsys, **given)
    where = str(tmp_path / "manifest")
    unit = {"kind": "unit", "name": "demo.service", "state": "started", "stamp": "hmac:1"}
    manifest.Record("demo", "Run it", "services", "", where).end(
        [unit, {**unit, "name": "other.service", "stamp": ""}]
    )
    manifest.Record("another", "Run it", "services", "", where).end([{**unit, "name": "x.service"}])
    # A change of the inventory's: the stamp tells.
    given["files"][0]["content"] = "new\n"
    run(config_files, capsys, **given)
    manifest.Record("demo", "Run it", "services", "", where).end([unit])
    assert stamps == []
    change(tmp_path / "etc")
    run(config_files, capsys, check=True, **given)
    assert stamps == []
    run(config_files, capsys, **given)
    assert stamps == (["demo.service"] if forgotten else [])


def test_a_call_that_fails_leaves_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(config_files, capsys, **wanted(tmp_path))
    given = wanted(tmp_path, "new\n")
    given["files"][0]["validate"] = "/bin/false %s"
    answer = run(config_files, capsys, **given)
    assert answer["failed"]
    assert drift.look(str(tmp_path / "manifest"))["state"] == "not known"
    # One that is refused before it changes anything leaves the node as it was.
    run(config_files, capsys, **wanted(tmp_path))
    given = wanted(tmp_path)
    given["files"][0]["mode"] = 420
    assert run(config_files, capsys, **given)["failed"]
    assert drift.look(str(tmp_path / "manifest"))["state"] == "as left"


def test_a_manifest_that_cannot_be_written_stops_the_call_before_it_changes_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest").write_text("not a directory")
    answer = run(config_files, capsys, **wanted(tmp_path))
    assert "Remedy" in answer["msg"]
    assert not (tmp_path / "etc").exists()


def test_without_a_role_nothing_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {**wanted(tmp_path)}
    del given["managed_by"]
    run(config_files, capsys, **given)
    assert not (tmp_path / "manifest").exists()


def test_services(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = {"munge.service": services.State(load="loaded", active="inactive", file="disabled")}
    states["other.service"] = services.State(load="loaded", active="active", file="static")
    monkeypatch.setattr(services.Services, "load", lambda self: self.states.update(states))
    seen: list[bool] = []

    def apply(self: services.Services, actions: list[services.Action]) -> None:
        # Open before the first change.
        seen.append(any(one.fault for one in entries(tmp_path)))
        assert [one.action for one in actions] == ["enable", "start"]

    monkeypatch.setattr(services.Services, "apply", apply)
    unit = {"name": "munge", "enabled": True, "state": "started", "watch": ["/etc/munge/munge.key"]}
    run(services_module, capsys, units=[unit, {"name": "other"}], managed_by=WHO)
    assert seen == [True]
    (entry,) = entries(tmp_path)
    (item,) = entry.items
    assert item["name"] == "munge.service"
    assert (item["enabled"], item["state"], item["watch"]) == (True, "started", unit["watch"])


def test_secrets_are_only_there_as_digests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "secrets"
    given = {"directory": str(store), "want": ["database_password"], "managed_by": WHO}
    run(cluster_secrets, capsys, **given)
    secret = (store / "database_password").read_text()
    assert all(secret not in path.read_text() for path in (tmp_path / "manifest").iterdir())
    manifest_of = str(tmp_path / "manifest")
    assert drift.look(manifest_of)["state"] == "as left"
    (store / "database_password").write_text("0" * len(secret))
    assert drift.look(manifest_of)["differences"][0]["what"] == "content"


def test_packages_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = run(deb_packages, capsys, names=["dpkg", "coreutil?"], managed_by=WHO)
    assert not answer["changed"], answer
    (entry,) = entries(tmp_path)
    assert {item["name"]: bool(item["version"]) for item in entry.items} == {
        "dpkg": True,
        "coreutils": True,
    }
    assert drift.look(str(tmp_path / "manifest"))["state"] == "as left"


def test_the_exports_of_nfs() -> None:
    (item,) = nfs_exports.leaves(nfs_exports.Plan("", "/srv *(rw)\n"))
    assert item["data"] == b"/srv *(rw)\n"


@pytest.mark.parametrize("name", RECORDED)
def test_a_module_that_records_has_its_action_and_documents_the_option(name: str) -> None:
    assert (ROOT / "plugins" / "action" / f"{name}.py").is_file()
    module = importlib.import_module(
        f"ansible_collections.trainwright.slurm.plugins.modules.{name}"
    )
    fragments = yaml.safe_load(module.DOCUMENTATION)["extends_documentation_fragment"]
    assert "trainwright.slurm.managed" in fragments
    text = (ROOT / "plugins" / "modules" / f"{name}.py").read_text(encoding="utf-8")
    assert "record.begin" in text
    assert "record.end(" in text


def test_every_internal_module_that_applies_records_or_says_why_not() -> None:
    """A module for roles alone that reports changes must be in one of both lists."""
    names = set()
    for path in (ROOT / "plugins" / "modules").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "trainwright.slurm.internal" in text and ("changed=" in text or '"changed"' in text):
            names.add(path.stem)
    assert names <= {*RECORDED, *NOT_RECORDED}, names
