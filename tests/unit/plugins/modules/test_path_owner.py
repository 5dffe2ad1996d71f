# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Modules that root runs on paths of a user: what the user's links name reaches neither results nor destinations."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils import _internal
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.modules import (
    dataset_sync,
    dataset_verify,
    enroot_image,
    job_lint,
    path_owner,
)

from tests.fixtures.aws.s3 import Store
from tests.unit.images import content_of, needs_mksquashfs, needs_root, open_directory

from .aws import Run, runner

__all__ = ["open_directory"]  # a fixture
pytestmark = needs_root
NOBODY, DAEMON = 65534, 1
SECRET = "export NCCL_PROTO=root-only\n"


@pytest.fixture
def store() -> t.Iterator[Store]:
    with Store() as made:
        yield made


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    store: Store,
    tmp_path: Path,
) -> Run:
    monkeypatch.setenv("HOME", str(tmp_path))
    return runner(capsys, monkeypatch, store)  # type: ignore[arg-type]


@pytest.fixture
def home(open_directory: Path) -> Path:
    """A user's directory with a data set, a script, and links to a file and a directory of root's."""
    hidden = open_directory / "hidden"
    hidden.mkdir(0o700)
    (hidden / "secret").write_text(SECRET)
    (hidden / "secret").chmod(0o600)
    home = open_directory / "home"
    (home / "set").mkdir(parents=True)
    (home / "set/own").write_text("own")
    (home / "a.py").write_text("")
    (home / "job.sh").write_text("#!/bin/bash\n#SBATCH -N2 --mem=1G -t 60\nsrun python a.py\n")
    for path in (home, *home.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    (home / "secret").symlink_to(hidden / "secret")
    (home / "hidden").symlink_to(hidden)
    return home


def test_a_link_in_a_data_set_sends_nothing(run: Run, store: Store, home: Path) -> None:
    (home / "set/x").symlink_to(home.parent / "hidden/secret")
    for destination in ("s3://bucket/set", str(home / "copy")):
        asked = {"source": str(home / "set"), "destination": destination}
        for module in (dataset_sync, dataset_verify):
            made = run(module, **asked)
            assert made["failed"] and "x: Permission denied -> " in made["msg"]
        made = run(dataset_sync, **{**asked, "source": str(home / "hidden")})
        assert made["failed"] and "hidden: Permission denied" in made["msg"]
    assert not store.bucket and not (home / "copy").exists()


def test_a_data_set_is_sent_with_the_rights_of_its_user(run: Run, store: Store, home: Path) -> None:
    for destination in ("s3://bucket/set", str(home / "copy")):
        asked = {"source": str(home / "set"), "destination": destination}
        made = run(dataset_sync, **asked)
        assert made["sent"] == made["verified"] == 1
        assert Path(made["journal"]).stat().st_uid == NOBODY
        assert run(dataset_verify, **asked)["same"]
    assert set(store.bucket) == {"set/own"}
    assert (home / "copy/own").stat().st_uid == NOBODY


def test_a_copy_does_not_follow_a_link_of_the_user_who_controls_the_destination(
    run: Run, home: Path
) -> None:
    mine = home.parent / "mine"
    mine.mkdir()
    (mine / "secret").write_text("new")
    asked = {"source": str(mine), "state_dir": str(home / "state")}
    made = run(dataset_sync, **asked, destination=str(home / "hidden"))
    assert made["failed"] and "Permission denied" in made["msg"]
    assert (home.parent / "hidden/secret").read_text() == SECRET
    made = run(dataset_sync, **asked, destination=str(home / "copy"))
    assert made["sent"] == 1 and (home / "copy/secret").stat().st_uid == NOBODY


def test_a_data_set_of_several_users_is_refused(run: Run, store: Store, home: Path) -> None:
    shared = home.parent / "shared"
    shared.mkdir()
    (shared / "link").symlink_to(home.parent / "hidden/secret")
    os.chown(shared / "link", NOBODY, NOBODY, follow_symlinks=False)
    remedy = " -> run the task as a user who may read and write there (become_user; dataset_user,"
    for module in (dataset_sync, dataset_verify):
        made = run(module, source=str(shared), destination="s3://bucket/set")
        assert made["failed"] and f"{shared}/link belongs to nobody" in made["msg"]
        assert remedy in made["msg"]
    other = home.parent / "other"
    other.mkdir()
    os.chown(other, DAEMON, DAEMON)
    made = run(dataset_sync, source=str(home / "set"), destination=str(other / "set"))
    assert made["failed"] and f"{other}/set by daemon" in made["msg"]
    assert not store.bucket and not list(other.iterdir())


@pytest.mark.parametrize("path", ["secret", "hidden/secret"])
def test_a_script_that_is_a_link_is_not_shown(run: Run, home: Path, path: str) -> None:
    for options in ({}, {"translate": True}):
        made = run(job_lint, path=str(home / path), **options)
        assert made["failed"] and f"{path}: Permission denied" in made["msg"]
        assert "NCCL" not in json.dumps(made)


def test_a_script_is_read_with_the_rights_of_its_user(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (home, *home.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o700)
    made = run(job_lint, path=str(home / "job.sh"), workdir=str(home))
    assert made["messages"] == []
    fifo = home / "pipe"
    os.mkfifo(fifo)
    os.chown(fifo, NOBODY, NOBODY)
    assert "is not a regular file" in run(job_lint, path=str(fifo))["msg"]
    text = "#!/bin/bash\n#SBATCH -N1 --mem=1G -t 60 -o hidden/logs/%j\nsrun python a.py\n"
    (home.parent / "hidden/logs").mkdir()
    # A Slurm that does not make the directories of a job's output.
    cluster = job_lint.context.cluster
    old = functools.partial(dataclasses.replace, release=(22, 5))
    monkeypatch.setattr(job_lint.context, "cluster", lambda **given: old(cluster(**given)))
    assert "hidden/logs" in str(run(job_lint, content=text, workdir=str(home))["messages"])


def test_the_module_itself(run: Run, home: Path) -> None:
    for name, spec in yaml.safe_load(path_owner.DOCUMENTATION)["options"].items():
        keys = ("type", "elements", "default", "required")
        assert {key: spec[key] for key in keys if key in spec} == path_owner.SPEC[name]
    asked = {"remedy": "pass -e job_user=USER"}
    assert run(path_owner, paths=[str(home / "secret"), "/etc"], **asked)["user"] == "nobody"
    assert run(path_owner, paths=["/etc"], **asked)["user"] == ""
    made = run(path_owner, paths=["/etc"], trees=[str(home.parent)], **asked)
    assert made["failed"] and f"{home} belongs to nobody" in made["msg"]
    assert made["msg"].endswith(" -> pass -e job_user=USER")


def squashfs(path: Path, content: bytes) -> Path:
    """An image that its owner alone can read."""
    tree = path.parent / f"{path.stem}-tree"
    tree.mkdir()
    (tree / "data").write_bytes(content)
    subprocess.run(["mksquashfs", tree, path, "-quiet", "-no-progress"], check=True)
    path.chmod(0o600)
    return path


@needs_mksquashfs
def test_an_image_is_read_with_the_rights_of_its_user(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(**options: t.Any) -> dict[str, t.Any]:
        with patch_module_args(options), pytest.raises(SystemExit):
            enroot_image.main()
        printed: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return printed

    monkeypatch.setattr(_internal, "is_controller", False)
    images = home.parent / "images"
    hidden = squashfs(home.parent / "hidden/secret.sqsh", b"secret")
    (home / "img.sqsh").symlink_to(hidden)
    wanted = {"name": "train", "path": str(images)}
    for path in ("img.sqsh", "hidden/secret.sqsh"):
        made = run(**wanted, reference=str(home / path))
        assert made["failed"] and f"{path}: Permission denied" in made["msg"]
    assert not images.exists()
    own = squashfs(home / "own.sqsh", b"own")
    os.chown(own, NOBODY, NOBODY)
    made = run(**wanted, reference=str(own))
    assert made["changed"] and content_of(made["link"]) == b"own"
    assert Path(made["image"]).stat().st_uid == 0

    # The name of an image and a record that the user has written: the digest is computed.
    claimed = home / f"sha256-{'0' * 64}.sqsh"
    own.rename(claimed)
    record = {"reference": "docker://example.org/cluster:1", "size": claimed.stat().st_size}
    claimed.with_suffix(".json").write_text(json.dumps({**record, "sha256": "0" * 64}))
    made = run(**{**wanted, "name": "claimed"}, reference=str(claimed))
    assert made["digest"] != f"sha256:{'0' * 64}" and content_of(made["link"]) == b"own"
    (home / "again.sqsh").symlink_to(images / "train.sqsh")
    made = run(**{**wanted, "name": "again"}, reference=str(home / "again.sqsh"))
    assert not made["produced"] and content_of(made["link"]) == b"own"

    (open_place := home.parent / "open").mkdir()
    open_place.chmod(0o777)
    made = run(**wanted, reference=str(open_place / "a.sqsh"))
    assert made["failed"] and made["error"] == "denied"
    assert f"{open_place} has the mode 0777" in made["msg"] and "store=own" in made["msg"]
