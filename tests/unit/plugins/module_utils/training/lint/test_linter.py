# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the rules: every mistake planted in a fixture is found on its line, and nothing in the clean ones."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import rule, rules
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint.linter import (
    Finding,
    lint,
)

from ..jobs import ALL, CLEAN, CLUSTER, JOBS, MISTAKES, name_of

HEAD = """#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --mem=1G
#SBATCH --time=01:00:00
"""


def found(text: str, cluster: rule.Cluster = CLUSTER) -> set[str]:
    return {one.rule for one in lint(text, cluster)}


def body(text: str) -> set[str]:
    return found(HEAD + text)


def test_there_are_enough_of_each_and_each_says_whether_it_runs() -> None:
    assert len(CLEAN) >= 20 and len(MISTAKES) >= 20
    planted = {path.with_suffix(".sh") for path in JOBS.glob("*/*.expected")}
    assert planted == set(MISTAKES), "a mistake is expected in a clean script, or none in another"
    for path in ALL:
        second = path.read_text(encoding="utf-8").split("\n")[1]
        assert re.fullmatch(r"# (run|schedule-only, because .+)", second), path.name


@pytest.mark.parametrize("path", CLEAN, ids=name_of)
def test_nothing_is_found_in_a_clean_script(path: Path) -> None:
    assert not list(map(str, lint(path.read_text(encoding="utf-8"), CLUSTER)))


@pytest.mark.parametrize("path", CLEAN, ids=name_of)
def test_nothing_is_found_without_a_cluster_either(path: Path) -> None:
    assert not list(map(str, lint(path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", MISTAKES, ids=name_of)
def test_every_planted_mistake_is_found_and_no_other(path: Path) -> None:
    expected = path.with_suffix(".expected").read_text(encoding="utf-8").split("\n")[:-1]
    said = lint(path.read_text(encoding="utf-8"), CLUSTER)
    assert sorted(f"{one.line} {one.rule}" for one in said) == sorted(expected)
    assert expected and all(one.what and one.remedy for one in said)


def test_every_rule_has_a_test() -> None:
    planted = " ".join(path.with_suffix(".expected").read_text() for path in MISTAKES)
    own = Path(__file__).read_text(encoding="utf-8")
    assert not [name for name in rules.RULES if name not in planted and f'"{name}"' not in own]


def test_what_is_said() -> None:
    said = lint(HEAD + "export RANK=$SLURM_PROCID\nsrun a\n", CLUSTER)
    assert isinstance(said[0], Finding) and said[0].severity == "error"
    assert re.fullmatch(
        r"line 7: error: RANK=\$SLURM_PROCID: .+ -> .+ \[rank-in-batch\]", str(said[0])
    )


def test_a_secret_is_not_said() -> None:
    said = lint(HEAD + "export WANDB_API_KEY=0123456789abcdef\nsrun a\n")
    assert [one.rule for one in said] == ["secret"] and "0123456789abcdef" not in str(said)
    assert not body('export HF_TOKEN=$(cat "$HOME/.secrets/hf")\nsrun a\n')
    assert not body("export TOKENIZERS_PARALLELISM=false MAX_TOKENS=20000000\nsrun a\n")


def test_the_file_itself() -> None:
    assert found("#SBATCH -N1\nsrun a\n") >= {"shebang"}
    assert found(HEAD.replace("\n", "\r\n") + "srun a\r\n") == {"dos-line-ends"}
    assert body("srun a \\ \n  --b\n") == {"space-after-backslash"}
    assert "open-quote" in body("srun 'a\n")


def test_memory() -> None:
    text = HEAD.replace("#SBATCH --mem=1G\n", "") + "srun a\n"
    assert found(text) == {"memory-missing"}
    assert not found(text, dataclasses.replace(CLUSTER, default_memory=True))
    assert found(HEAD + "#SBATCH --mem-per-cpu=1G\nsrun a\n") == {"memory-twice"}


def test_time() -> None:
    planned = dataclasses.replace(CLUSTER, planned=7200)
    assert found(HEAD + "srun a\n", planned) == {"time-short"}
    again = HEAD + "#SBATCH --signal=USR1@60 --requeue --open-mode=append\nsrun a\n"
    assert not found(again, planned)
    assert found(HEAD.replace("#SBATCH --time=01:00:00\n", "") + "srun a\n") == {"time-missing"}
    assert found(HEAD.replace("01:00:00", "1h") + "srun a\n") == {"directive-wrong"}


def test_partitions() -> None:
    assert found(HEAD + "#SBATCH -p gpu-queu\nsrun a\n") == {"partition-unknown"}
    assert not found(HEAD + "#SBATCH -p c-nlp,gpu-queue\nsrun a\n")


def test_output() -> None:
    missing = HEAD + "#SBATCH --output=logs/%j.out\nsrun a\n"
    assert found(missing) == {"output-directory"}
    assert not found(missing, rule.Cluster())
    assert found(HEAD + "#SBATCH --output=/shared/%j/out\nsrun a\n") == {"output-directory"}
    assert not found(HEAD + "#SBATCH --output=/shared/logs/%j.out --error=/dev/null\nsrun a\n")


def test_interfaces() -> None:
    assert not body("export NCCL_SOCKET_IFNAME=ens GLOO_SOCKET_IFNAME=ens5\nsrun a\n")
    assert body("export NCCL_SOCKET_IFNAME==ens\nsrun a\n") == {"interface"}
    assert body("export GLOO_SOCKET_IFNAME=ens\nsrun a\n") == {"interface"}
    assert body("mpirun --mca btl_tcp_if_include eth0 ./a\n") == {"interface"}


def test_exit_codes() -> None:
    assert body("srun a | tee log\n") == {"exit-code-lost"}
    assert not body("set -o pipefail\nsrun a | tee log\n")
    assert not body("srun a && echo good\n")
    assert body("srun a\necho end\n") == {"exit-code-lost"}
    assert not body("set -e\nsrun a\necho end\n")
    assert not body("set -e\ncode=0\nsrun a || code=$?\nexit $code\n")
    assert not body("if ! srun a; then echo bad; exit 1; fi\n")


def test_ranks_that_tasks_work_out_themselves() -> None:
    assert not body("srun bash -c 'RANK=$SLURM_PROCID exec python a.py'\n")
    assert not body('srun bash -c "RANK=\\$SLURM_PROCID exec python a.py"\n')
    assert body("srun --export=ALL,RANK=$SLURM_PROCID python a.py\n") == {"rank-in-batch"}


def test_containers_around_the_script() -> None:
    image = HEAD + "#SBATCH --container-image=a.sqsh\n"
    assert not found(image + "python a.py\n")
    assert found(image + "A=$(scontrol show hostnames)\npython a.py\n") == {"container-batch"}


def test_rules_can_be_silenced() -> None:
    line = "export NCCL_PROTO=simple"
    assert body(f"{line}\nsrun a\n") == {"obsolete-variable"}
    assert not body(f"{line}  # job-lint: ignore=obsolete-variable\nsrun a\n")
    assert not body(f"# job-lint: ignore=secret,obsolete-variable\n{line}\nsrun a\n")
    assert body(f"# job-lint: ignore=secret\n{line}\nsrun a\n") == {"obsolete-variable"}


def test_anything_is_judged_without_an_error() -> None:
    for path in ALL:
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        for end in range(0, len(text), 131):
            lint(text[:end], CLUSTER)
        for number in range(0, len(lines), 3):
            lint("\n".join(lines[number:]), CLUSTER)
            lint("\n".join(lines[:number] + lines[number + 1 :]), CLUSTER)


def test_the_documentation_has_every_rule() -> None:
    page = Path(__file__).resolve().parents[6] / "docs" / "job_lint.md"
    text = page.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (\w+) \|", text, re.M))
    assert rows == {name: one.severity for name, one in rules.RULES.items()}
