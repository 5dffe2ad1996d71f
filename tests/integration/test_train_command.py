# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command train on a login node: the path of a new user by docs/training.md, failures, and hostile input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from .conftest import Converged
from .site import ROOT

pytestmark = pytest.mark.systems("debian13")

#: What a person does in the editor: two lines.
EDITS = """sed -i 's/^  name: .*/  name: first/; s/"200"/"400"/' job.yml"""
#: A job that fails, and writes what a terminal would obey.
HOSTILE = r"""train_job:
  name: hostile
  launcher: batch
  command: |
    printf 'step 1/9 loss 1.5\n\033]0;owned\007\033[2J ValueError: \033[31mno shard\n'
    exit 3
  memory: 100M
  time: "5"
  workdir: /home/alice/hostile
  logs: /home/alice/hostile
"""

#: A sweep whose result is known without a training, in a repository.
SWEEP = """train_files: [train.sh]
train_job:
  name: lr
  launcher: batch
  command: |
    bash train.sh "{sweep.lr}"
  sweep: {lr: [4, 2]}
  memory: 100M
  time: "5"
  workdir: /home/alice/sweep/run
  checkpoints: /home/alice/sweep/checkpoints
  logs: /home/alice/sweep/logs
"""


@pytest.fixture
def alice(quiet_site: Converged) -> Iterator[Converged]:
    """The site, and what alice makes there taken away."""
    yield quiet_site
    quiet_site.as_user("alice", "rm -rf ~/first ~/hostile ~/sweep")


def test_the_path_of_a_new_user(alice: Converged) -> None:
    """The first commands of docs/training.md, as they are written there."""
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    block = re.search(r"^```bash\n(.*?)^```", page, re.M | re.S)
    assert block and "ansible" not in block[1] and "editor job.yml\n" in block[1]
    commands = block[1].replace("editor job.yml", EDITS)
    said = alice.as_user("alice", f"set -e\n{commands}")
    assert re.search(r"^first: job (\d+) submitted, ", said, re.M), said
    assert "step 400/400 (100 %), loss 0.01" in said and "COMPLETED on c[" in said
    job = re.search(r"job (\d+) submitted", said)[1]  # type: ignore[index]
    assert alice.job(job)["JobState"] == "COMPLETED"
    log = alice.as_user("alice", f"cat first/logs/first-{job}.out")
    assert log.count("2 ranks, beginning at step 0") == 1

    # The same from scripts, and by the Python functions.
    seen = json.loads(alice.as_user("alice", f"train status {job} --json"))
    assert seen["job"]["state"] == "COMPLETED" and seen["progress"]["step"] == 400
    api = (
        "import sys; sys.path.append('/usr/lib/trainwright'); from node_tools.training import client;"
        f"print(client.wait({job})['job']['state'], client.status({job})['progress']['total'])"
    )
    assert alice.as_user("alice", f'python3 -c "{api}"') == "COMPLETED 400"
    report = f"cd first; train why {job}; train report {job} -o r.html; head -c 15 r.html"
    assert alice.as_user("alice", report).endswith("<!DOCTYPE html>")


def test_a_failure_and_what_a_terminal_would_obey(alice: Converged) -> None:
    alice.as_user("alice", f"mkdir hostile; cat >hostile/job.yml <<'EOF'\n{HOSTILE}EOF")
    dry = alice.as_user("alice", "train submit hostile/job.yml --dry-run; ls hostile")
    assert dry.startswith("#!/bin/bash\n# Job hostile,") and dry.endswith("\njob.yml")
    said = alice.as_user(
        "alice", "train submit hostile/job.yml; train watch hostile 2>&1; echo exit $?"
    )
    assert said.endswith("exit 1") and "failed with exit code 3" in said, said
    said = alice.as_user("alice", "train why hostile 2>&1; echo exit $?")
    assert said.endswith("exit 1") and "no shard" in said
    assert "\x1b" not in said and "\x07" not in said

    # A job of alice is not bob's to cancel, and root submits none.
    alice.as_user(
        "alice", "sed -i 's/exit 3/sleep 300/' hostile/job.yml; train submit hostile/job.yml"
    )
    job = alice.as_user("alice", "train status hostile --json | jq .job.id")
    said = alice.as_user("bob", f"train cancel {job} 2>&1; echo exit $?")
    assert said.endswith("exit 2") and " -> " in said, said
    changed = "sed -i 's/sleep 300/sleep 200/' hostile/job.yml; train submit hostile/job.yml 2>&1; echo exit $?"
    said = alice.as_user("alice", changed)
    assert said.endswith("exit 2") and f"{job} of this name is" in said, said
    assert f"job {job} is cancelled" in alice.as_user("alice", "train cancel hostile")
    assert alice.job(job)["JobState"] == "CANCELLED"
    refused = alice.run("login1", "train submit /home/alice/hostile/job.yml 2>&1; echo exit $?")
    assert refused.endswith("exit 2") and "DisableRootJobs" in refused


def test_a_sweep_its_records_and_what_differs(alice: Converged) -> None:
    alice.as_user("alice", f"mkdir sweep; cat >sweep/job.yml <<'EOF'\n{SWEEP}EOF")
    alice.as_user(
        "alice",
        "cat >sweep/train.sh <<'EOF'\necho $PWD >$TRAIN_CHECKPOINTS/here; echo step 3/3 loss $1.5 lr $SWEEP_LR\nEOF",
    )
    said = alice.as_user("alice", "train submit sweep/job.yml 2>&1")
    job = re.search(r"^lr: job (\d+) submitted", said, re.M)[1]  # type: ignore[index]
    said = alice.as_user("alice", f"train watch {job} 2>&1; echo exit $?")
    assert said.endswith("exit 0"), said
    seen = json.loads(alice.as_user("alice", f"train status {job} --json"))
    rows = [(one["task"], one["values"], one["state"], one["loss"]) for one in seen["sweep"]]
    assert rows == [(1, {"lr": "2"}, "COMPLETED", 2.5), (0, {"lr": "4"}, "COMPLETED", 4.5)]
    here = alice.as_user("alice", "cat sweep/checkpoints/0/here sweep/checkpoints/1/here")
    assert here.split() == ["/home/alice/sweep/run/0", "/home/alice/sweep/run/1"]

    # The records: the submission's part, the job's own, and the end.
    whole = json.loads(alice.as_user("alice", f"cat {seen['record']}"))
    assert whole["sweep"]["values"] == {"lr": ["4", "2"]} and whole["end"]["state"] == "COMPLETED"
    mode = alice.as_user("alice", f"stat -c %a sweep/checkpoints/1/run-{job}_1.json")
    one = json.loads(alice.as_user("alice", f"cat sweep/checkpoints/1/run-{job}_1.json"))
    assert mode == "600" and one["submitted"]["slurm"] and one["metrics"]["loss"] == 2.5
    (start,) = one["starts"]
    assert start["nodes"].startswith("c") and start["slurm"] == one["submitted"]["slurm"]
    assert one["end"]["exit_code"] == 0

    said = alice.as_user("alice", f"train diff {job}_0 {job}_1; echo exit $?")
    assert "sweep lr: 4 -> 2\n" in said and "metrics loss: 4.5 -> 2.5\n" in said
    assert said.endswith("exit 1") and "description" not in said
    said = alice.as_user("alice", f"train diff {job} lr; echo exit $?")
    assert said == f"nothing differs between {job} and lr\nexit 0"
    said = alice.as_user("alice", "train diff 999999 lr 2>&1; echo exit $?")
    assert said.endswith("exit 2") and " -> " in said
    # Another user's record cannot be read, and a job's log cannot be written by naming it there.
    said = alice.as_user(
        "bob", f"train diff /home/alice/sweep/checkpoints/run-{job}.json {job} 2>&1; echo exit $?"
    )
    assert said.endswith("exit 2") and "Permission denied -> " in said
