# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module enroot_image itself: what it returns, what it asks Slurm, how it fails."""

from __future__ import annotations

import getpass
import json
import os
import time
import types
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils import _internal
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import lookup, store
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import (
    Configuration,
    Controller,
    Job,
)
from ansible_collections.trainwright.slurm.plugins.modules import enroot_image

from tests.unit.images import World, content_of, needs_mksquashfs

pytestmark = needs_mksquashfs

TAG = "registry.example.org/team/train:main"
Run = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    made.push(TAG, b"one")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    config = {"store": str(made.store), "staged": str(made.staged)}
    monkeypatch.setattr(lookup, "configuration", lambda: config)
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the module and return what it prints, all of it documented."""
    monkeypatch.setattr(_internal, "is_controller", False)

    def once(check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        given = {**options, "_ansible_check_mode": check}
        with patch_module_args(given), pytest.raises(SystemExit):
            enroot_image.main()
        printed: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        returned = yaml.safe_load(enroot_image.RETURN)
        own = {"invocation", "changed", "diff", "failed", "msg", "exception", "warnings"}
        assert set(printed) - own <= set(returned)
        if "collected" in printed:
            assert set(printed["collected"]) == set(returned["collected"]["contains"])
        return printed

    return once


def slurm(monkeypatch: pytest.MonkeyPatch, *jobs: Job, up: bool = True, private: str = "") -> None:
    """A Slurm that runs these jobs."""
    transport = types.SimpleNamespace(
        jobs=lambda: list(jobs),
        controllers=lambda: [Controller("ctl1", "primary", up)],
        configuration=lambda: Configuration({"PrivateData": private}, {}),
    )
    monkeypatch.setattr(Session, "using", lambda *_given: transport)


def test_the_documented_options_are_those_of_the_module() -> None:
    def shown(options: dict[str, t.Any]) -> dict[str, t.Any]:
        keys = ("type", "elements", "default", "choices")
        found = {}
        for name, option in options.items():
            found[name] = {key: option[key] for key in keys if key in option}
            if "suboptions" in option:
                found[name]["options"] = shown(option["suboptions"])
        return found

    assert shown(yaml.safe_load(enroot_image.DOCUMENTATION)["options"]) == enroot_image.SPEC


def test_import_stage_and_remove(world: World, run: Run) -> None:
    wish = {"name": "train.sqsh", "reference": TAG}
    foreseen = run(check=True, **wish)
    assert foreseen["changed"] and foreseen["progress"].startswith(str(world.store))
    first = run(**wish)
    assert first["changed"] and first["produced"] and first["name"] == "train"
    assert first["diff"]["after"].startswith(f"train.sqsh: {first['digest']} from docker://{TAG}")
    assert not run(**wish)["changed"]
    staged = run(name="train", store="staged")
    assert staged["changed"] and staged["link"] == str(world.staged / "train.sqsh")
    assert content_of(staged["link"]) == b"one"
    assert not run(name="train", store="staged")["changed"]
    elsewhere = run(**wish, path=str(world.path / "own"))
    assert elsewhere["link"] == str(world.path / "own/train.sqsh")
    assert run(name="train", state="absent", check=True)["changed"]
    assert run(name="train", state="absent")["changed"]
    assert not run(name="train", state="absent")["changed"]


def test_a_user_gets_the_clusters_image_or_an_own_one(world: World, run: Run) -> None:
    wish: dict[str, t.Any] = {"name": "train", "reference": TAG, "store": "own"}
    denied = [run(check=check, **wish) for check in (True, False)]
    assert all("so users cannot have images" in failed["msg"] for failed in denied)
    own = world.store / "users" / getpass.getuser()
    own.parent.mkdir(parents=True)
    foreseen = run(check=True, **wish)
    assert foreseen["changed"] and foreseen["progress"].startswith(str(own)) and not own.exists()
    first = run(**wish)
    assert first["changed"] and first["whose"] == "user" and first["link"] == f"{own}/train.sqsh"
    assert not run(**wish)["changed"] and "warnings" not in run(**wish)
    assert not (world.store / "train.sqsh").is_symlink()
    # Of the user's own and the cluster's, jobs get the user's.
    world.push(TAG, b"two")
    for name in ("train", "base"):
        run(name=name, reference=TAG, refresh=True)
    assert run(**wish)["whose"] == "user"
    kept = (world.store / "base.sqsh").resolve()
    for more in ({}, {"refresh": True}, {"force": True}):
        world.push(TAG, b"three")
        found = run(**{**wish, "name": "base.sqsh", **more})
        assert not found["changed"] and found["whose"] == "cluster" and "warnings" not in found
        assert found["link"] == str(world.store / "base.sqsh") and found["image"] == str(kept)
    other = run(**{**wish, "name": "base", "reference": "/nowhere.sqsh"})
    assert f"is the cluster's image of docker://{TAG}; nothing" in json.dumps(other["warnings"])
    assert content_of(kept) == b"two" and not (own / "base.sqsh").is_symlink()
    # A damaged one is no image.
    kept.write_bytes(b"")
    assert run(**{**wish, "name": "base"})["whose"] == "user"
    assert run(name="base", store="own", state="absent")["changed"] and not kept.read_bytes()


def test_failures_have_their_kind(world: World, run: Run) -> None:
    failed = run(name="train")
    assert failed["failed"] and failed["error"] == "reference" and "give reference" in failed["msg"]
    failed = run(name="train", reference="registry.example.org/team/private")
    assert failed["error"] == "credentials" and ".credentials" in failed["msg"]
    failed = run(name="train", store="staged")
    assert failed["error"] == "reference" and "No such file" in failed["msg"]
    assert "required" in run()["msg"]


def test_the_oldest_job_that_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    slurm(monkeypatch)
    assert enroot_image.jobs_since(None) >= now
    slurm(
        monkeypatch,
        Job(1, state="COMPLETED", start_time=100),
        Job(2, state="PENDING", start_time=200),
        Job(3, state="COMPLETED", flags=("COMPLETING",), start_time=400),
        Job(4, state="SUSPENDED", start_time=500),
        Job(5, state="RUNNING", start_time=600),
    )
    assert enroot_image.jobs_since(None) == 400
    slurm(monkeypatch, Job(5, state="RUNNING"))
    assert enroot_image.jobs_since(None) == 0, "nobody knows since when"


def test_collection_without_an_answer_removes_nothing(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(name="train", reference=TAG)
    image = run(name="train", state="absent")
    limits = {"max_age": 0, "min_age": 0}
    monkeypatch.setattr(Session, "call", lambda _self, function, *given: function(*given))
    slurm(monkeypatch, up=False)
    failed = run(collect=limits)
    assert failed["failed"] and failed["error"] == "down" and "nothing is removed" in failed["msg"]
    monkeypatch.undo()
    monkeypatch.setattr(_internal, "is_controller", False)
    monkeypatch.setenv("PATH", str(world.bin))
    failed = run(path=str(world.store), collect=limits, slurm_prefix="/nonexistent")
    assert failed["failed"] and failed["error"] == "missing"
    assert len(store.Store(str(world.store)).all_images()) == 1
    assert image["link"]


def test_jobs_that_this_user_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    slurm(monkeypatch, private="accounts,jobs")
    with pytest.raises(SlurmError, match="hides the jobs of others.*-> collect as root"):
        enroot_image.jobs_since(None)


def test_collection(world: World, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(monkeypatch, Job(7, state="RUNNING", start_time=int(time.time()) - 60))
    image = run(name="train", reference=TAG)["image"]
    run(name="train", state="absent")
    limits = {"max_age": 0, "min_age": 0}
    seen = run(collect=limits)
    assert not seen["changed"] and "may use it" in seen["collected"]["spared"][0]["why"]
    mark = Path(image).with_suffix(".unlinked")
    os.utime(mark, (1000, 1000))
    foreseen = run(check=True, collect=limits)
    assert foreseen["changed"] and foreseen["diff"]["before"] == f"{image}\n"
    assert Path(image).exists()
    old = run(collect={**limits, "jobs_since": 500})
    assert not old["changed"] and old["collected"]["jobs_since"] == 500
    done = run(collect={"max_size": "1K"})
    assert done["changed"] and done["collected"]["freed"] == 4096 and not Path(image).exists()
    assert "max_size" in run(collect={"max_size": "much"})["msg"]
