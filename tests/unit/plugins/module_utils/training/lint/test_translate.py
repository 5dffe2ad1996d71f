# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of translations: the same resources, the same commands, and what should not have been set named."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.script import parse
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import (
    environment,
    render,
    schema,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import (
    linter,
    translate,
)

from ..jobs import ALL, CLEAN, CLUSTER, JOBS, name_of

#: A comment cuts their commands off: what is meant is not what runs.
UNCLEAR = {"comment-after-backslash", "comment-line-in-command", "field-eighty-nodes"}


def rendered(text: str) -> str:
    made = translate.translate(text, "x", CLUSTER.interfaces)
    return render.render(schema.check(made.job))


@pytest.mark.parametrize("path", [p for p in ALL if p.stem not in UNCLEAR], ids=name_of)
def test_a_translation_asks_and_runs_the_same(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not translate.differences(text, rendered(text))


@pytest.mark.parametrize("path", [p for p in ALL if p.stem not in UNCLEAR], ids=name_of)
def test_a_translation_sets_nothing_obsolete_and_no_rank(path: Path) -> None:
    script = parse(rendered(path.read_text(encoding="utf-8")))
    mpi = any(one.starter == "mpirun" or one.option("mpi") for one in script.launches)
    for one in script.variables:
        assert not environment.unwanted(one.name, one.value, mpi), one
        assert one.where != "batch" or one.name != "RANK"


@pytest.mark.parametrize("path", CLEAN, ids=name_of)
def test_a_translation_of_a_clean_script_is_clean(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    allowed = (
        set()
        if "#SBATCH --time" in text or "#SBATCH -t" in text
        else {"time-missing", "memory-missing"}
    )
    assert {one.rule for one in linter.lint(rendered(text), CLUSTER)} <= allowed


@pytest.mark.parametrize("path", CLEAN, ids=name_of)
def test_a_second_translation_changes_nothing(path: Path) -> None:
    once = rendered(path.read_text(encoding="utf-8"))
    assert not translate.differences(once, rendered(once))


@pytest.mark.parametrize("path", [p for p in ALL if p.stem not in UNCLEAR], ids=name_of)
def test_the_shell_reads_a_translation(path: Path) -> None:
    text = rendered(path.read_text(encoding="utf-8"))
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{text}"


def test_functions_stay_whole() -> None:
    function = "stop() {\n  kill %1\n}"
    head = "#!/bin/bash\n#SBATCH -N1\n\n"
    whole = translate.translate(f"{head}{function}\ntrap stop USR1\nsrun ./a &\nwait\n").job
    assert whole["command"].startswith(f"{function}\ntrap")
    around = translate.translate(f"{head}{function}\nsrun ./a\nend() {{\n  stop\n}}\nend\n").job
    assert around["hooks"] == {"pre": function, "always": "end() {\n  stop\n}\nend"}


def test_differences_are_seen() -> None:
    text = (JOBS / "clean" / "torchrun-container.sh").read_text(encoding="utf-8")
    for old, new in (
        ("--nodes=2", "--nodes=3"),
        ("--gpus-per-node=1", "--gpus-per-node=2"),
        ("--data /lustre", "--data /other"),
        ("--container-writable", "--container-readonly"),
        ("pytorch-training.sqsh", "other.sqsh"),
    ):
        assert translate.differences(text, text.replace(old, new)), old


def test_corrections_are_listed_with_their_lines() -> None:
    text = (JOBS / "mistakes" / "obsolete-environment.sh").read_text(encoding="utf-8")
    made = translate.translate(text)
    lines = text.split("\n")
    names = set()
    for one in made.corrections:
        assert one.why and (one.what == "rendezvous" or one.what in lines[one.line - 1])
        names.add(one.what.split("=")[0])
    assert {"FI_PROVIDER", "FI_EFA_FORK_SAFE", "NCCL_PROTO", "NCCL_IFNAME", "MASTER_PORT"} <= names
    assert set(made.job["environment"]) == {
        "NCCL_DEBUG",
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
    }


def test_a_secret_is_left_out() -> None:
    for launch in ("srun python a.py", "srun python a.py\nsrun python b.py"):
        text = (
            f"#!/bin/bash\n#SBATCH -N1\nexport HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\n{launch}\n"
        )
        made = translate.translate(text)
        assert [one.what for one in made.corrections] == ["HF_TOKEN"]
        assert "hf_abc" not in str(made)


def test_a_script_that_the_shell_reads_otherwise_is_refused() -> None:
    for name in UNCLEAR:
        text = (JOBS / "mistakes" / f"{name}.sh").read_text(encoding="utf-8")
        with pytest.raises(schema.JobError, match=r"line \d+: a comment .* -> correct the script"):
            translate.translate(text)


@pytest.mark.parametrize("name", sorted(UNCLEAR))
def test_once_it_is_mended_it_is_translated(name: str) -> None:
    text = (JOBS / "mistakes" / f"{name}.sh").read_text(encoding="utf-8")
    mended = re.sub(r"(\\)[ ]+#.*$|^[ ]+# .*\n", r"\1", text, flags=re.M)
    assert not translate.differences(mended, rendered(mended))


def test_what_a_task_works_out_stays_in_the_task() -> None:
    text = (
        "#!/bin/bash\n#SBATCH -N2\n"
        "srun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID a.py --n $SLURM_NODEID'\n"
    )
    made = translate.translate(text).job
    assert made["launcher"] == "srun" and "--n $SLURM_NODEID'" in made["command"]


def test_before_and_after_become_hooks() -> None:
    text = (
        "#!/bin/bash\n#SBATCH -N1\nset -e\nmodule load a\nexport A=1 B=$A\n# comment\ncode=0\n"
        "srun ./a || code=$?\nif [ $code = 0 ]; then\n  cp a b\nfi\nexit $code\n"
    )
    made = translate.translate(text)
    assert made.job["environment"] == {"A": "1"}
    assert made.job["hooks"] == {
        "pre": "module load a\nexport B=$A\ncode=0",
        "always": "code=$TRAIN_EXIT_CODE\nif [ $code = 0 ]; then\n  cp a b\nfi\nexit $code",
    }
    assert [one.what for one in made.corrections] == ["set -e"]


def test_the_yaml_is_the_description() -> None:
    for path in (p for p in ALL if p.stem not in UNCLEAR):
        made = translate.translate(path.read_text(encoding="utf-8"), "x", CLUSTER.interfaces).job
        assert yaml.safe_load(translate.to_yaml(made)) == made, path.name
    odd = {
        "name": "yes",
        "time": "1:30:00",
        "command": "  a\nb: #c\n\nd",
        "environment": {"A": "", "B": "é\"'"},
    }
    assert yaml.safe_load(translate.to_yaml(odd)) == odd
