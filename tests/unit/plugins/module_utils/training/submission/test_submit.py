# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the submission of a job file by its user: what is written, what is refused before anything is."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import image_fit, lookup
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    alone,
    cli,
    jobs,
    session,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import render
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job.schema import JobError
from ansible_collections.trainwright.slurm.plugins.module_utils.training.submission import (
    submit,
)

from ...slurm.client.fake_cluster import PARAMS, FakeCluster, FakeSession


class Cluster(FakeCluster):
    """One with a node that takes the jobs of these tests."""

    def nodes(self) -> list[records.Node]:
        return [records.Node("c1", "IDLE", cpus=8, memory=64000, partitions=("gpu",))]

    def batch_script(self, job_id: int) -> str:
        return self.submitted[job_id - 100][0]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(session.Session, "using", lambda *_names: made)
    # As a user who is not root, whose home is here.
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(image_fit, "PUBLISHED", str(tmp_path / "jobs.json"))
    monkeypatch.setattr(lookup.configuration, "__defaults__", (str(tmp_path / "images.json"),))
    (tmp_path / "home").mkdir()
    return made


def job_file(tmp_path: Path, more: dict[str, t.Any] | None = None, **job: t.Any) -> str:
    described = {
        "name": "train", "command": "true", "launcher": "batch", "memory": "1G", "time": "60",
        "workdir": f"{tmp_path}/run", "logs": f"{tmp_path}/run/logs", **job,
    }  # fmt: skip
    path = tmp_path / "job.yml"
    path.write_text(yaml.safe_dump({"train_job": described, **(more or {})}))
    return str(path)


def test_a_job_is_submitted_with_what_it_needs(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("print()\n")
    (tmp_path / "code.py").chmod(0o750)
    path = job_file(tmp_path, {"train_files": ["code.py"]})
    (seen,) = submit.submit(submit.read(path))
    assert seen["id"] == 100 and seen["changed"] and seen["name"] == "train"
    script = tmp_path / "run" / "logs" / "train.sbatch"
    assert seen["script"] == str(script) and script.stat().st_mode & 0o777 == 0o700
    assert script.read_text() == cluster.submitted[0][0] == seen["text"]
    assert cluster.submitted[0][1]["chdir"] == f"{tmp_path}/run"
    copied = tmp_path / "run" / "code.py"
    assert copied.read_text() == "print()\n" and copied.stat().st_mode & 0o777 == 0o750
    # A second run finds the job.
    (again,) = submit.submit(submit.read(path))
    assert again["id"] == 100 and not again["changed"] and len(cluster.submitted) == 1
    (beside,) = submit.submit(submit.read(path), again=True)
    assert beside["id"] == 101


def test_a_check_only_asks_slurm(cluster: Cluster, tmp_path: Path) -> None:
    (seen,) = submit.submit(submit.read(job_file(tmp_path)), check=True)
    assert seen["id"] is None and seen["text"].startswith("#!/bin/bash")
    assert cluster.tested and not cluster.submitted and not (tmp_path / "run").exists()


def test_a_changed_description_does_not_take_a_used_name(cluster: Cluster, tmp_path: Path) -> None:
    submit.submit(submit.read(job_file(tmp_path)))
    script = tmp_path / "run" / "logs" / "train.sbatch"
    before = script.read_text()
    with pytest.raises(SlurmError) as raised:
        submit.submit(submit.read(job_file(tmp_path, command="false")))
    assert "job train: 100 of this name is PENDING with another description" in str(raised.value)
    assert "cancel it (train cancel 100)" in str(raised.value)
    assert str(raised.value).endswith("(train submit --again)")
    assert script.read_text() == before and len(cluster.submitted) == 1


def test_a_description_is_compared_with_what_its_job_carries(
    cluster: Cluster, tmp_path: Path
) -> None:
    """And not with NAME.sbatch, which --again and a submission that was killed write anew."""
    submit.submit(submit.read(job_file(tmp_path)))
    script = tmp_path / "run" / "logs" / "train.sbatch"
    other = submit.read(job_file(tmp_path, command="false"))
    script.write_text(submit.submit(other, check=True, again=True)[0]["text"])
    with pytest.raises(SlurmError, match="100 of this name is PENDING with another description"):
        submit.submit(other)
    (same,) = submit.submit(submit.read(job_file(tmp_path)))
    assert same["id"] == 100 and not same["changed"] and len(cluster.submitted) == 1


def test_files_of_a_job_that_is_there_stay(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("one\n")
    asked = submit.read(job_file(tmp_path, {"train_files": ["code.py"]}))
    submit.submit(asked)
    copied = tmp_path / "run" / "code.py"
    inode = copied.stat().st_ino
    submit.submit(asked)
    assert copied.stat().st_ino == inode
    (tmp_path / "code.py").write_text("two\n")
    with pytest.raises(SlurmError, match="code.py differs from .*/code.py, and a job of this name"):
        submit.submit(asked)
    assert copied.read_text() == "one\n" and len(cluster.submitted) == 1
    cluster.known.clear()
    submit.submit(asked)
    assert copied.read_text() == "two\n" and len(cluster.submitted) == 2


def test_links_of_others_are_replaced_and_not_followed(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "run" / "logs").mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "run" / "logs" / "train.sbatch").symlink_to(victim)
    submit.submit(submit.read(job_file(tmp_path)))
    assert victim.read_text() == "mine"
    assert not (tmp_path / "run" / "logs" / "train.sbatch").is_symlink()


@pytest.mark.parametrize(
    ("more", "job", "said"),
    [
        ({}, {"secrets": [{"name": "TOKEN"}]}, "job train: secrets.TOKEN: has no value -> "),
        ({}, {"launcher": "srun", "container": {"image": "a.sqsh", "source": "registry.example.org/a:1"}},
         "container.source: no image can be imported here: "),
        ({}, {"nodes": 3}, "job train.nodes: wants 3, and 1 of 1 nodes can take it"),
        ({}, {"workdir": "/etc/hostname/x", "logs": None}, "cannot make /etc/hostname/x: /etc/hostname is not a d"),
        ({"train_files": ["job.yml"]}, {"workdir": None}, "train_files: are copied into the job's workdir"),
    ],
)  # fmt: skip
def test_what_is_refused_before_anything_is_written(
    cluster: Cluster, tmp_path: Path, more: t.Any, job: t.Any, said: str
) -> None:
    before = {str(path) for path in tmp_path.rglob("*")}
    with pytest.raises(SlurmError) as raised:
        submit.submit(submit.read(job_file(tmp_path, more, **job)))
    assert said in str(raised.value)
    assert not cluster.submitted
    assert {str(path) for path in tmp_path.rglob("*")} - before == {str(tmp_path / "job.yml")}


def test_keys_that_only_the_playbook_has(tmp_path: Path) -> None:
    for key, said in (
        ("train_user", "the jobs are yours"),
        ("train_secrets", "write `file:` for each"),
    ):
        with pytest.raises(JobError, match=f"{key} cannot come from a job file -> .*{said}"):
            submit.read(job_file(tmp_path, {key: "x"}))


def test_root_submits_nothing(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SlurmError, match="DisableRootJobs"):
        submit.submit(submit.read(job_file(tmp_path)))
    assert not cluster.submitted and not (tmp_path / "run").exists()


def test_secrets_are_in_a_file_of_their_own(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_value\n")
    path = job_file(tmp_path, secrets=[{"name": "TOKEN", "file": str(tmp_path / "token")}])
    (seen,) = submit.submit(submit.read(path))
    written = tmp_path / "home" / render.SECRETS / "100"
    assert written.read_text() == "TOKEN=hf_value\n" and written.stat().st_mode & 0o777 == 0o600
    assert "hf_value" not in seen["text"]
    # The job still runs: what only asks leaves its secrets.
    (tmp_path / "token").write_text("another\n")
    (seen,) = submit.submit(submit.read(path), check=True)
    assert seen["id"] == 100 and written.read_text() == "TOKEN=hf_value\n"


def test_secrets_without_a_place_are_refused_before_the_submission(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("hf_value\n")
    path = job_file(tmp_path, secrets=[{"name": "TOKEN", "file": str(tmp_path / "token")}])
    (tmp_path / "home" / ".config").write_text("")
    with pytest.raises(
        SlurmError, match="secrets: are written into .*config is not a directory -> "
    ):
        submit.submit(submit.read(path))
    assert not cluster.submitted and not (tmp_path / "run").exists()
    (tmp_path / "home" / ".config").unlink()

    def full(*_given: t.Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(submit.secrets, "write", full)
    with pytest.raises(
        SlurmError, match="is submitted as 100, and its secrets .* No space left .* -> "
    ):
        submit.submit(submit.read(path))


def test_numbers_of_jobs_are_printed_where_a_later_one_fails(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = submit.read(job_file(tmp_path))
    two = asked._replace(jobs=[asked.jobs[0], {**asked.jobs[0], "name": "second"}])
    accept = cluster.submit_job

    def once(script: str, options: t.Mapping[str, t.Any]) -> int:
        if cluster.submitted:
            raise SlurmError("invalid", "sbatch: no -> ask")
        return accept(script, options)

    monkeypatch.setattr(cluster, "submit_job", once)
    with pytest.raises(SlurmError, match="(?s)sbatch: no.*submitted before this: train 100 -> "):
        submit.submit(two)


def test_a_submission_that_was_killed_gets_its_record(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = submit.read(job_file(tmp_path))

    def killed(_talk: t.Any) -> None:
        raise KeyboardInterrupt

    written: list[int] = []

    def work(talk: t.Any) -> dict[str, t.Any]:
        written.append(talk.params["id"])
        return {"record": "/r", "problems": []}

    monkeypatch.setattr(submit.record, "work", killed)
    with pytest.raises(KeyboardInterrupt):
        submit.submit(asked)
    monkeypatch.setattr(submit.record, "work", work)
    (seen,) = submit.submit(asked)
    assert not seen["changed"] and written == [100] and seen["record"] == "/r"
    monkeypatch.setattr(submit.record, "known", lambda _job: "/r")
    submit.submit(asked)
    assert written == [100]


def test_two_submissions_at_once_make_one_job(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = submit.read(job_file(tmp_path))
    both, accept, prepared = threading.Barrier(2), cluster.submit_job, submit.prepared
    seen: list[bool] = []
    met: list[int] = []

    def slow(script: str, options: t.Mapping[str, t.Any]) -> int:
        time.sleep(0.2)
        return accept(script, options)

    def together(*given: t.Any) -> t.Any:
        made = prepared(*given)
        met.append(1)
        if len(met) <= 2:
            both.wait(20)
        return made

    monkeypatch.setattr(cluster, "submit_job", slow)
    monkeypatch.setattr(submit, "prepared", together)
    running = [
        threading.Thread(target=lambda: seen.append(submit.submit(asked)[0]["changed"]))
        for _turn in range(2)
    ]
    for one in running:
        one.start()
    for one in running:
        one.join(30)
    assert sorted(seen) == [False, True] and len(cluster.submitted) == 1


def test_the_playbook_and_the_command_share_a_lock(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurm_job with lock, as train.yml calls it, waits for `train submit`, and finds its job; and two of it."""
    accept, both = cluster.submit_job, threading.Barrier(3)
    monkeypatch.setattr(cluster, "submit_job", lambda *given: (time.sleep(0.3), accept(*given))[1])
    seen: list[bool] = []

    def playbook() -> None:
        params = {**PARAMS, "name": "train", "content": "#!/bin/bash\ntrue\n"}
        params |= {"lock": True, "workdir": str(tmp_path)}
        both.wait(20)
        seen.append(jobs.work(FakeSession(cluster, **params))["changed"])

    def command() -> None:
        asked = submit.read(job_file(tmp_path))
        both.wait(20)
        with contextlib.suppress(SlurmError):  # its description is another one
            seen.append(submit.submit(asked)[0]["changed"])

    running = [threading.Thread(target=one) for one in (playbook, command, playbook)]
    for one in running:
        one.start()
    for one in running:
        one.join(30)
    assert len(cluster.submitted) == 1 and seen.count(True) == 1 and False in seen
    # One that is stuck is named after a while, and one without a home is not held up.
    with (
        alone.alone(["train"]),
        pytest.raises(SlurmError, match="job train: another submission of it has been under way"),
        alone.alone(["train"], patience=0.0),
    ):
        pass
    monkeypatch.setenv("HOME", "/proc/none")
    with alone.alone(["train"]), alone.alone(["train"], patience=0.0):
        pass


def test_a_full_disk_is_named(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, mode: int) -> t.Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(submit.safe_path, "replacing", full)
    with pytest.raises(SlurmError) as raised:
        submit.submit(submit.read(job_file(tmp_path)))
    assert (
        str(raised.value)
        == f"{tmp_path}/run/logs/train.sbatch: No space left on device -> make room there"
    )
    assert not cluster.submitted


def test_a_directory_in_the_place_of_the_script_is_named(cluster: Cluster, tmp_path: Path) -> None:
    place = tmp_path / "run" / "logs" / "train.sbatch"
    place.mkdir(parents=True)
    with pytest.raises(SlurmError) as raised:
        submit.submit(submit.read(job_file(tmp_path)))
    assert str(raised.value) == f"{place}: Is a directory -> remove it, or choose another name"
    assert not cluster.submitted and not list((tmp_path / "run" / "logs").glob(".*"))


def test_a_killed_submission_leaves_its_lock_to_its_sbatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sbatch of a killed `train submit` submits all the same: the next one would have started the job twice."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    for name, text in (
        ("scontrol", "echo slurm 24.11.5"),
        ("sbatch", "echo $$ > $HOME/sbatch; exec sleep 60"),
    ):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException), alone.alone(["train"]):
            cli.Cli.from_params({"slurm_prefix": str(tmp_path)}).submit_job("#!/bin/sh\n", {})
        os._exit(0)
    until = time.monotonic() + 30
    while not (said := _read(tmp_path / "sbatch")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with (
        pytest.raises(SlurmError, match="another submission of it has been under way"),
        alone.alone(["train"], patience=0.0),
    ):
        pass
    os.kill(int(said), signal.SIGKILL)
    with alone.alone(["train"], patience=10.0):
        pass
    assert not alone.handles()


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_site_has_defaults(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text('{"defaults": {"account": "lab", "time": "5"}}')
    (seen,) = submit.submit(submit.read(job_file(tmp_path)))
    assert "#SBATCH --account=lab\n" in seen["text"] and "#SBATCH --time=60\n" in seen["text"]
    (tmp_path / "jobs.json").write_text("[]")
    with pytest.raises(SlurmError, match="role slurm_login writes it"):
        submit.submit(submit.read(job_file(tmp_path)))


def test_several_files_fit_together_or_not(cluster: Cluster, tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(job_file(tmp_path / name, name=name, exclusive=True))
        assert submit.fits([paths[-1]])["jobs"][0]["name"] == name
    with pytest.raises(SlurmError, match="wants 1 node beside the other;"):
        submit.fits(paths)
    with pytest.raises(SlurmError, match="2 jobs have this name"):
        submit.fits([paths[0], paths[0]])
