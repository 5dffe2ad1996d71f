"""Descriptions of jobs that somebody else wrote: each value stays one value, nothing runs where it should not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Converged
from .test_training import job_of

pytestmark = pytest.mark.systems("debian12")

PLACE = "/shared/render"
TITLE = r"\033]0;OWNED\007"


@pytest.fixture(autouse=True)
def place(site: Converged) -> Iterator[None]:
    """A directory of alice's, gone afterwards."""
    site.run("login1", f"rm -rf {PLACE} && install -d -o alice -g alice {PLACE}")
    yield
    site.run("login1", f"rm -rf {PLACE}")


def described(name: str, **more: Any) -> dict[str, Any]:
    """A job of one task."""
    return {"name": name, "command": "true", "launcher": "srun", "nodes": 1, "tasks_per_node": 1, "memory": "100M",
            "time": "5", "workdir": PLACE, "logs": PLACE, **more}  # fmt: skip


def test_values_cannot_become_directives_or_commands(site: Converged) -> None:
    mark = f"{PLACE}/mark"
    jobs = [
        described("quote", output=f'{PLACE}/x" --comment="INJECTED-DIRECTIVE'),
        described("lines", sbatch_options={"wckey": f'a"\ntouch {mark}\n#SBATCH --wckey="b'}),
        described("shell", srun_options={"chdir": f"$(touch {mark}; echo {PLACE})"}),
        described("block", output=f"{PLACE}/out\n"),
    ]
    run = site.play("train.yml", rc=2, train_user="alice", train_jobs=jobs, train_together=False)
    for said in (
        "job quote.output: ", "job lines.sbatch_options.wckey: has several lines",
        "job shell.srun_options.chdir: ", "job block.output: ends with a line break, as a YAML block",
    ):  # fmt: skip
        assert said in run.output, run.output
    names = ",".join(job["name"] for job in jobs)
    assert not site.as_user("alice", f"squeue -h -n {names}; sacct -n -X --name={names}")
    assert not site.as_user("alice", f"ls {PLACE}")


def test_jobs_of_root_are_refused_before_root_writes(site: Converged) -> None:
    """This run connects as root and does not name an owner."""
    job = described(
        "ofroot", launcher="batch", command="true", tasks_per_node=None, logs=f"{PLACE}/new"
    )
    run = site.play("train.yml", rc=2, train_job=job)
    assert "the jobs would be root's" in run.output, run.output
    assert not site.as_user("alice", f"ls {PLACE}; squeue -h -n ofroot")


def test_a_file_of_somebody_else_neither_runs_here_nor_commands_the_terminal(
    site: Converged, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    comment = "{{ lookup('pipe', 'touch %s; echo c') }}" % mark
    job = described("title", launcher="batch", command=f"printf '{TITLE}step 1/2 loss 1 {TITLE}\\n'; exit 3",
                    tasks_per_node=None, sbatch_options={"comment": comment})  # fmt: skip
    file = tmp_path / "job.yml"
    file.write_text(yaml.safe_dump({"train_job": job}))
    given = ("-e", f"train_job_file={file}", "-e", "train_wait=true")
    run = site.play("train.yml", *given, rc=2, train_user="alice")
    number = job_of(run.output)
    shown = site.as_user("alice", f"scontrol show job {number}")
    assert f"Comment={comment}" in shown and "JobState=FAILED" in shown
    assert not mark.exists()
    # The log has the escapes; what the administrator sees has them written out.
    assert "\x1b]0;OWNED\x07" in site.as_user("alice", f"cat {PLACE}/title-{number}.out")
    assert "OWNED" in run.output and "exit code 3" in run.output, run.output
    assert "\x1b" not in run.output and "\x07" not in run.output
