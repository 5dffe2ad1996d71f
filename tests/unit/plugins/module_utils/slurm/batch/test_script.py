# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of reading batch scripts: directives, variables, launches."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.directives import (
    split,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.request import asked
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.script import (
    Launch,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.module_utils.training.jobs import ALL


def directives(*lines: str) -> list[tuple[str, str | None]]:
    script = parse("#!/bin/bash\n" + "\n".join(f"#SBATCH {line}" for line in lines))
    return [(one.name, one.value) for one in script.directives]


def launch(text: str, before: str = "") -> Launch:
    (found,) = parse(f"#!/bin/bash\n{before}\n{text}\n").launches
    return found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--nodes=2 -J train", [("nodes", "2"), ("job-name", "train")]),
        ("-N2 -p gpu", [("nodes", "2"), ("partition", "gpu")]),
        ("--gres gpu:8  # eight", [("gres", "gpu:8")]),
        ("--exclusive --mem=0", [("exclusive", None), ("mem", "0")]),
        ("--exclusive=user", [("exclusive", "user")]),
        ("--comment='a # b' -H", [("comment", "a # b"), ("hold", None)]),
        ("--output=%x-%j.out", [("output", "%x-%j.out")]),
        ("--parti=gpu", [("partition", "gpu")]),
    ],
)
def test_directives(line: str, found: list[tuple[str, str | None]]) -> None:
    assert directives(line) == found


def test_directives_end_at_the_first_command() -> None:
    script = parse(
        "#!/bin/bash\n# x\n\n#SBATCH -N1\n #SBATCH -n1\nA=1\n#SBATCH -n2\ncat <<E\n#SBATCH -n3\nE\n"
    )
    assert [one.name for one in script.directives] == ["nodes"] and script.body == 6
    assert [(one.line, one.kind) for one in script.unread] == [(5, "indented"), (7, "late")]


@pytest.mark.parametrize(
    ("line", "kind", "what"),
    [
        ("--nodes=2 --ntask-per-node=1", "unknown", "ntask-per-node"),
        ("--time", "value", "time"),
        ("--time = 5", "words", "5"),
        ("--comment='a", "quote", "--comment='a"),
        ("-Y", "unknown", "Y"),
    ],
)
def test_directives_that_sbatch_refuses(line: str, kind: str, what: str) -> None:
    script = parse(f"#!/bin/bash\n#SBATCH {line}\n")
    assert [(one.kind, one.what) for one in script.unread] == [(kind, what)]


def test_variables() -> None:
    text = (
        "#!/bin/bash\nexport A=1 B=$C\nD='$x'\nE=2 srun --export=ALL,\"F=3,G=4\" "
        "bash -c 'H=$SLURM_PROCID python a.py'\nmpirun -x I=5 ./a\n"
    )
    found = {one.name: one for one in parse(text).variables}
    assert {name: one.where for name, one in found.items()} == {
        "A": "batch", "B": "batch", "D": "batch", "E": "prefix", "F": "srun", "G": "srun", "H": "task",
        "I": "mpirun",
    }  # fmt: skip
    assert found["A"].exported and not found["A"].live and found["B"].live
    assert not found["D"].live and not found["D"].exported and found["D"].value == "$x"
    assert (found["F"].value, found["G"].value) == ("3", "4")


@pytest.mark.parametrize(
    ("text", "starter", "launcher", "program"),
    [
        ("srun -N2 -l hostname -f", "srun", "", ("hostname", "-f")),
        ("srun --pty bash -i", "srun", "", ("bash", "-i")),
        ("srun -n 4 --mpi pmix ./a b", "srun", "", ("./a", "b")),
        ("mpirun -np 4 --mca a b -x C ./a", "mpirun", "", ("./a",)),
        (
            "mpirun --host gpu01,gpu02 --mca btl_tcp_if_include ens5 ./mpic",
            "mpirun",
            "",
            ("./mpic",),
        ),
        ("torchrun --standalone --nproc_per_node 2 a.py --b", "", "torchrun", ("a.py", "--b")),
        ("srun python -m torch.distributed.run --nnodes=2 a.py", "srun", "torchrun", ("a.py",)),
        ("srun torchrun --nnodes 2 -m pkg.mod --x", "srun", "torchrun", ("-m", "pkg.mod", "--x")),
        ("srun bash -c 'cd x && torchrun --nnodes=2 a.py'", "srun", "torchrun", ("a.py",)),
        (
            "srun bash -c 'exec torchrun --nnodes=2 \"$@\"' t a.py --b",
            "srun",
            "torchrun",
            ("a.py", "--b"),
        ),
        ("srun bash -c 'A=1; exec \"$@\"' t python a.py", "srun", "", ("python", "a.py")),
        ("time timeout -k 5 4h srun a", "srun", "", ("a",)),
        ("accelerate launch --multi_gpu --num_machines 2 a.py", "", "accelerate", ("a.py",)),
        ("srun accelerate launch -m pkg", "srun", "accelerate", ("-m", "pkg")),
        (
            "deepspeed --no_ssh --hostfile h a.py --deepspeed c",
            "",
            "deepspeed",
            ("a.py", "--deepspeed", "c"),
        ),
    ],
)
def test_launches(text: str, starter: str, launcher: str, program: tuple[str, ...]) -> None:
    found = launch(text)
    assert (found.starter, found.launcher, found.program) == (starter, launcher, program)


def test_launches_with_options_in_variables() -> None:
    before = 'ARGS=(\n  --nnodes=2  # two\n  --nproc_per_node=8\n)\nLAUNCHER="torchrun --nnodes=2"\nCMD="a.py --b"'
    for text in (
        'srun torchrun "${ARGS[@]}" a.py --b',
        "srun $LAUNCHER $CMD",
        'srun bash -c "$LAUNCHER --node_rank=\\$SLURM_NODEID $CMD"',
    ):
        found = launch(text, before)
        assert found.launcher == "torchrun" and found.launcher_option("nnodes") == "2", text
        assert found.program == ("a.py", "--b"), text


def test_timeout_is_known() -> None:
    assert launch("srun timeout 14d python a.py").limit == "14d"
    assert launch("timeout -s INT 4h srun a").limit == "4h"


def test_what_is_asked_has_one_form() -> None:
    one = parse("#!/bin/bash\n#SBATCH --gres=gpu:8,nvme:1 -t 1:00:00 --mem=1G -N 2\n")
    two = parse(
        "#!/bin/bash\n#SBATCH --gpus-per-node=8 --gres=nvme:1 --time=60\n"
        "#SBATCH --mem=1024M --nodes=2 --ntasks-per-node=1 --job-name=x\n"
    )
    assert asked(one) == asked(two)
    assert asked(one)["gpus-per-node"] == "8"


@given(st.text(alphabet="#!SBATCH -=srun\n\\'\"$&|ab", max_size=80))
def test_anything_is_read_without_an_error(text: str) -> None:
    parse(text)


def test_cut_off_anywhere_a_script_is_read() -> None:
    for path in ALL:
        text = path.read_text(encoding="utf-8")
        for end in range(0, len(text), 37):
            parse(text[:end])


def test_a_directive_of_megabytes_is_split_at_once() -> None:
    """Its time grew with the square of its length: minutes, for whoever waited."""
    assert split("--comment=" + "a" * 3_000_000) == ["--comment=" + "a" * 3_000_000]
