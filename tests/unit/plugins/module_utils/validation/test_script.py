# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The batch script of a job, run by bash with a stand-in for srun, and its log taken apart again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    collect,
    own,
    script,
    verdicts,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import Check
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import registry
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.plan import Host
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.script import (
    Each,
    Frame,
    Step,
    Work,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.verdicts import Place

from .stand_in import ROOT, RUN

PROGRAMS = ROOT / "roles" / "validate" / "files"
C1, C2 = Host("c1", "127.0.0.1"), Host("c2", "127.0.0.1")
# Runs a step's tasks on this machine, one for each node, and labels their lines if it is asked to.
SRUN = """#!/bin/bash
echo "$*" >> "$SEEN"
label= nodes= tasks=()
while [[ $1 = --* ]]; do
  case $1 in --label) label=1 ;; --nodelist=*) nodes=${1#*=} ;; esac
  shift
done
number=0
for node in ${nodes//,/ }; do
  if [ "$label" ]; then
    SLURMD_NODENAME=$node SLURM_PROCID=$number SLURM_JOB_ID=7 SLURM_STEP_ID=1 "$@" | sed "s/^/$number: /" &
  else
    SLURMD_NODENAME=$node SLURM_PROCID=$number SLURM_JOB_ID=7 SLURM_STEP_ID=1 "$@" &
  fi
  tasks+=($!)
  number=$((number + 1))
done
code=0
for task in "${tasks[@]}"; do wait "$task" || code=$?; done
exit $code
"""


def run(work: Work, path: Path, frame: Frame | None = None) -> tuple[str, str]:
    """Run a job's script; return its log, and the arguments of srun."""
    (path / "bin").mkdir()
    (path / "bin" / "srun").write_text(SRUN)
    (path / "bin" / "srun").chmod(0o755)
    frame = frame or Frame(RUN, str(PROGRAMS), str(path))
    text = script.write(work, frame)
    environment = {
        "PATH": f"{path}/bin:{os.environ['PATH']}",
        "SEEN": f"{path}/seen",
        "HOME": str(path),
    }
    done = subprocess.run(
        ["bash", "-s"],
        input=text,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout, (path / "seen").read_text() if (path / "seen").exists() else ""


def check(command: str, **more: object) -> Check:
    return Check(**{"name": "one", "stage": "static", "title": "x", "command": command, **more})  # type: ignore[arg-type]


def test_each_node_runs_its_checks_and_says_how_they_ended(tmp_path: Path) -> None:
    checks = (
        (check("echo $SLURMD_NODENAME is here"), ("c1", "c2")),
        (check("printf 'no line break'; exit 3", name="two"), ("c2",)),
        (check("sleep 9", name="slow", deadline=1), ("c1",)),
        (check("nobody-has-this", name="lacks"), ("c1",)),
        (check("cat", name="reads"), ("c1",)),
    )
    work = Work("validate-x", "static", (C1, C2), each=Each(checks, (C1, C2)))
    log, seen = run(work, tmp_path)
    assert collect.complete(log, RUN, "validate-x") and collect.ended(log, RUN) == 1
    found = collect.by_node(collect.steps(log, RUN)["each"], RUN)
    assert set(found) == {"c1", "c2"} and set(found["c2"]) == {"one", "two"}
    assert found["c1"]["one"].text.strip() == "c1 is here" and found["c1"]["one"].code == 0
    assert found["c2"]["two"].text.strip() == "no line break" and found["c2"]["two"].code == 3
    assert found["c1"]["slow"].code == 124 and "within its deadline" in found["c1"]["slow"].why
    assert "missing" in found["c1"]["lacks"].why
    assert found["c1"]["reads"].code == 0
    assert "--label" in seen and "--mpi=none" in seen and "--nodelist=c1,c2" in seen


def test_steps_run_beside_each_other_and_their_outputs_stay_apart(tmp_path: Path) -> None:
    steps = tuple(
        Step(
            f"one/{number}",
            check("for i in 1 2 3; do echo $N; sleep 0.05; done"),
            (C1,),
            variables={"N": str(number)},
        )
        for number in range(6)
    )
    log, _seen = run(Work("validate-x", "static", (C1,), steps=steps, parallel=4), tmp_path)
    found = collect.steps(log, RUN)
    assert {name: one.text.split() for name, one in found.items()} == {
        f"one/{number}": [str(number)] * 3 for number in range(6)
    }
    assert all(one.code == 0 for one in found.values())


def test_variables_and_options_of_the_site_reach_the_steps(tmp_path: Path) -> None:
    frame = Frame(
        RUN,
        str(PROGRAMS),
        str(tmp_path),
        {"NCCL_DEBUG": "INFO", "WITH": "a 'quote'"},
        {"network": "sn_all", "mpi": "pmi2"},
    )
    step = Step(
        "one", check('echo "$NCCL_DEBUG,$WITH,$VALIDATION_NODES"', environment={"X": "1"}), (C1, C2)
    )
    log, seen = run(Work("validate-x", "static", (C1, C2), steps=(step,)), tmp_path, frame)
    assert "INFO,a 'quote',c1 c2" in collect.steps(log, RUN)["one"].text
    assert "--network=sn_all" in seen and "--mpi=pmi2" in seen and "--mpi=none" not in seen


def test_sockets_measure_between_two_tasks(tmp_path: Path) -> None:
    step = Step(
        "pair/c1,c2", check('exec python3 "$VALIDATION/sockets.py" --seconds 0.2'), (C1, C2)
    )
    log, _seen = run(Work("validate-x", "pairwise", (C1, C2), steps=(step,)), tmp_path)
    output = collect.steps(log, RUN)["pair/c1,c2"]
    assert output.code == 0, output
    parsed = registry.read("transfer", output.text + "\n")
    assert parsed.figures["busbw"] > 0.05 and 0 < parsed.figures["latency_us"] < 100_000
    assert 0 <= parsed.figures["resent_percent"] < 100


def test_storage_writes_reads_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "mount"
    place.mkdir()
    command = (
        'place=$(python3 "$VALIDATION/place.py") || exit\n'
        "trap 'rmdir \"$place\" 2> /dev/null' EXIT\n"
        'python3 "$VALIDATION/storage.py" "$place" --mebibytes 4'
    )
    variables = {"VALIDATION_MOUNT": str(place), "VALIDATION_PLACES": f"/nowhere:{place}"}
    step = Step("storage", check(command), (C1,), variables=variables)
    log, _seen = run(Work("validate-x", "storage", (C1,), steps=(step,)), tmp_path)
    output = collect.steps(log, RUN)["storage"]
    assert output.code == 0, output
    assert set(own.parse(output.text + "\n").figures) == {"write", "read"}
    assert not list(place.iterdir())


def test_a_user_who_may_not_write_on_a_mount_is_told(tmp_path: Path) -> None:
    step = Step(
        "storage",
        check('place=$(python3 "$VALIDATION/place.py") || exit; echo "$place"'),
        (C1,),
        variables={"VALIDATION_MOUNT": "/data", "VALIDATION_PLACES": "/nowhere"},
    )
    log, _seen = run(Work("validate-x", "storage", (C1,), steps=(step,)), tmp_path)
    output = collect.steps(log, RUN)["storage"]
    assert output.code == 1 and "cluster_mounts[].directories" in output.why


def test_an_output_of_which_only_the_beginning_is_kept_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest may have the very words that an output has to lack."""
    monkeypatch.setattr(script, "_KEPT", 200)
    noisy = "printf 'x%.0s' {1..300}; echo; echo broken"
    asks = check(noisy, expect={"lacks": "broken"}, name="noisy")
    other = check("echo fine; exit 3", name="other")
    steps = (Step("noisy", asks, (C1,)), Step("other", other, (C1,)))
    each = Each(((asks, ("c1",)), (other, ("c1",))), (C1,))
    log, _seen = run(Work("validate-x", "static", (C1,), each=each, steps=steps), tmp_path)
    outputs = collect.steps(log, RUN)
    assert outputs["noisy"].code == 0 and "broken" not in outputs["noisy"].text
    assert outputs["other"].why == "ended with 3: fine"
    of_node = collect.by_node(outputs["each"], RUN)["c1"]
    for output in (outputs["noisy"], of_node["noisy"]):
        reading = verdicts.read(asks, output)
        assert reading.why.startswith("printed more than the log keeps") and not reading.failed
        (found,) = verdicts.expected(asks, {"c1": Place((C1,))}, {"c1": reading})
        assert found.verdict is Verdict.INCOMPLETE and found.remedy == "print less"


@pytest.mark.parametrize("cut", range(0, 10))
def test_a_log_that_is_cut_never_has_a_whole_step_too_much(tmp_path: Path, cut: int) -> None:
    step = Step("one", check("echo result"), (C1,))
    log, _seen = run(Work("validate-x", "static", (C1,), steps=(step,)), tmp_path)
    part = log[: len(log) * cut // 10]
    found = collect.steps(part, RUN)
    assert not collect.complete(part, RUN, "validate-x")
    assert all(one.code is None or one.text.strip() == "result" for one in found.values())
