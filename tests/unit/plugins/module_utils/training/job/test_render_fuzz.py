# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every key of a description with hostile values: each is refused, or arrives as exactly one value.

The script is read back by the reader of #SBATCH lines, and runs in bash with a substitute for srun that records its
arguments. `make soak` tries 10,000 cases.
"""

from __future__ import annotations

import copy
import datetime
import os
import random
import re
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch import (
    directives,
    options,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import render, schema

CHUNK = 100
CHUNKS = 100 if os.environ.get("TRAINWRIGHT_SOAK") else 5
SEED = 14
#: Texts that users may write: shell for the batch step.
FREE = ("command", "hooks", "notify")

BASE: dict[str, t.Any] = {
    "name": "fuzz",
    "command": "train.py --epochs 3",
    "launcher": "srun",
    "nodes": 2,
    "time": "60",
    "sbatch_options": {"comment": "x"},
    "srun_options": {"cpu-bind": "none"},
    "container": {"image": "a.sqsh", "mounts": ["/a:/a"], "workdir": "/w", "name": "n"},
    "environment": {"FIRST": "1"},
    "logs": "/l",
    "signal": {},
}
#: Values that are right in some place.
GOOD = ["x", "/shared/a b/%x-%j.out", "gres/gpu:h100=8", "h100:8", "afterok:1:2", "0-7%4", "it's fine", "60", "1G",
        "2-00:00:00", "a#b", "a,b", "n[01-04]", "${HOME}/y", "$USER", "", " ", "--x", "-", "~/x", "é", "100%", "a=b",
        "(a&b)|c", "*", "!x", "<y", ";", "USR1", "batch", "mpirun", 0, 1, 2, True, False, None]  # fmt: skip
#: What an attacker, or an accident, puts into it. MARK becomes the path of a file that must not appear.
HOSTILE = ["$(touch MARK)", "`touch MARK`", "${x:-$(touch MARK)}", "${x:=`touch MARK`}", '"; touch MARK; "',
           "'; touch MARK; '", "\ntouch MARK\n", "\n#SBATCH --comment=INJECTED\n", '" --comment="INJECTED',
           "' --comment='INJECTED", "x\\", 'x"', "x\\\n", "$", "$$", "$1", "$((1))", "$[1]", "$'a'", '$"a"', "${!x}",
           "a | touch MARK", "&& touch MARK", "> MARK", "#", " #", "\\$(touch MARK)", "$x$(touch MARK)", "{{ 7 * 7 }}",
           "\r\n", "\n", "x\n", "\0", "\x1b]0;OWNED\x07", "\x7f", "\x85", "\x9b", "\u2028", "\u2029", "\t"]  # fmt: skip
STRANGE: list[t.Any] = [1.5, float("nan"), -1, 10**30, [], ["a"], {}, {"a": 1}, datetime.date(2026, 1, 1), b"x", {"a"},
                        [[1]], {"a": ["b"]}, object]  # fmt: skip

STUBS = """
srun() { printf '%s\\0' "$@" > "$RECORD/$BASHPID"; }
mpirun() { srun "$@"; }
scontrol() { echo n1; }
sleep() { :; }
trainer() { :; }
"""


def paths(spec: dict[str, t.Any], prefix: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """Every place of a description that has a value."""
    for key, rule in spec.items():
        here = (*prefix, key)
        yield here
        inside = (*here, 0) if rule["type"] == "list" else here
        if inside != here:
            yield inside
        yield from paths(rule.get("options") or {}, inside)


PLACES = list(paths(schema.SPEC))
OPTIONS = {
    "sbatch_options": sorted(options.SBATCH.known),
    "srun_options": sorted(options.SRUN.known),
    "environment": ["FIRST", "PATH_TO", "X"],
}


def value(dice: random.Random, mark: str) -> t.Any:
    kind = dice.random()
    if kind < 0.15:
        return copy.deepcopy(dice.choice(STRANGE))
    good, bad = dice.choice(GOOD), dice.choice(HOSTILE)
    if kind < 0.4 or dice.random() < 0.1:
        return good
    if dice.random() < 0.3:
        bad = chr(dice.choice([*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]))
    text = str(good)
    place = dice.randint(0, len(text))
    return dice.choice([bad, text[:place] + bad + text[place:], text + bad]).replace("MARK", mark)


def put(into: dict[str, t.Any], place: tuple[t.Any, ...], given: t.Any) -> None:
    """Set a value at a place, making what is around it."""
    here: t.Any = into
    for key, following in zip(place, place[1:], strict=False):
        empty: t.Any = [] if following == 0 else {}
        if key == 0:
            here[:] = here or [empty]
        elif not isinstance(here.get(key), type(empty)):
            here[key] = empty
        here = here[key]
    if place[-1] == 0:
        here[:] = [given]
    else:
        here[place[-1]] = given


def case(dice: random.Random, mark: str) -> tuple[tuple[t.Any, ...], t.Any, dict[str, t.Any]]:
    """A description with one hostile value, or key."""
    made = copy.deepcopy(BASE)
    made["launcher"] = dice.choice([*schema.LAUNCHERS, "srun", "srun"])
    if made["launcher"] in ("mpirun", "batch"):
        del made["container"]
    if made["launcher"] == "batch":
        del made["signal"]
    place, given = dice.choice(PLACES), value(dice, mark)
    if place[0] in OPTIONS and dice.random() < 0.9:
        key = dice.choice(OPTIONS[place[0]])
        if dice.random() < 0.2:
            key += str(given)
        place = (place[0], key)
    if place[0] in ("script", "arguments"):
        made.pop("command", None)
        made["script"] = "train.py"
    put(made, place, given)
    return place, given, made


def expanded(text: str) -> str:
    """A value of srun as the stub gets it."""
    known = {"HOME": "of HOME", "USER": "of USER"}
    return re.sub(
        r"\$(?:(\w+)|\{(\w+)\})",
        lambda found: known.get(found[1] or found[2], ""),
        text,
        flags=re.ASCII,
    )


def check_directives(script: str, job: schema.Job) -> None:
    read = directives.read(directives.lines_of(script))
    # Text of the batch step that looks like a directive comes too late to be one.
    assert {one.kind for one in read.unread} <= {"late"}
    given = [(one.name, True if one.value is None else one.value) for one in read.directives]
    assert given == render.directives(job)
    assert "INJECTED" not in [value for name, value in given if name == "comment"]


def run(script: str, scratch: Path, **environment: str) -> list[list[str]]:
    """Run a script in bash; return the calls of srun and mpirun."""
    record = scratch / "record"
    shutil.rmtree(record, ignore_errors=True)
    record.mkdir()
    (scratch / "its secrets").touch()
    stubs = scratch / "stubs"
    stubs.write_text(STUBS)
    file = scratch / "script"
    file.write_text(script, newline="")
    assert subprocess.run(["bash", "-n", str(file)], capture_output=True, check=False).returncode == 0  # fmt: skip
    subprocess.run(
        ["bash", str(file)],
        env={"PATH": os.environ["PATH"], "BASH_ENV": str(stubs), "RECORD": str(record), "HOME": "of HOME",
             "USER": "of USER", "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n1", **environment},
        cwd=scratch, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    texts = [path.read_bytes().decode("utf-8", "surrogateescape") for path in record.iterdir()]
    found = [text.removesuffix("\0").split("\0") for text in texts if text]
    return [call for call in found if "--overlap" not in call]  # those beside the training


def check_step(place: tuple[t.Any, ...], job: schema.Job, calls: list[list[str]]) -> None:
    """The options of srun are those of the description, each one word, in front of the program."""
    (step,) = calls
    chosen = {**render.container_options(job.container), **job.srun_options}
    wanted = [
        f"--{name}" + ("" if value is True else f"={expanded(str(value))}")
        for name, value in chosen.items()
        if value is not False
    ]
    ours = [
        word
        for word in step[: len(wanted) + 5]
        if word.partition("=")[0] in {one.partition("=")[0] for one in wanted}
    ]
    assert sorted(ours) == sorted(wanted), (place, step)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_value_is_refused_or_stays_one_value(chunk: int, tmp_path: Path) -> None:
    dice = random.Random(SEED * 1_000_000 + chunk)
    mark = tmp_path / "mark"
    accepted = 0
    for number in range(CHUNK):
        place, given, made = case(dice, str(mark))
        where = f"chunk {chunk}, case {number}: {place} = {given!r}"
        try:
            job = schema.check(made)
            script = render.render(job, secrets_file=str(tmp_path / "its secrets"))
        except schema.JobError as error:
            assert " -> " in str(error), where
            continue
        accepted += 1
        assert "\0" not in script, where
        try:
            check_directives(script, job)
            if place[0] in FREE:
                continue
            calls = run(script, tmp_path)
            if job.launcher in (*schema.PER_NODE, "srun"):
                check_step(place, job, calls)
        except AssertionError as error:
            raise AssertionError(f"{where}\n{script}") from error
        assert not mark.exists(), f"{where}\n{script}"
    assert accepted > CHUNK / 20


def test_words_and_variables_arrive(tmp_path: Path) -> None:
    """Texts of the tasks themselves may have any character that a line can have."""
    odd = "a 'b' \"c\" $(touch mark) `d` \\ # ; ${HOME}\te"
    job = schema.check(
        {
            **BASE,
            "command": None,
            "script": "/s/a b.sh",
            "arguments": [odd, "two\nlines"],
            "environment": {"ODD": odd},
            "srun_options": {"export": "ALL,A=$USER"},
        }
    )
    script = render.render(job).replace("\nsrun ", '\nprintf %s "$ODD" > odd\nsrun ')
    (step,) = run(script, tmp_path)
    assert step[-3:] == ["/s/a b.sh", odd, "two\nlines"]
    assert "--export=ALL,A=of USER" in step
    assert (tmp_path / "odd").read_text() == odd
    assert not (tmp_path / "mark").exists()


REFUSED = [
    ({"output": "/l/x\n"}, "job.output: ends with a line break, as a YAML block"),
    ({"output": '/x" --comment="INJECTED'}, "contains a double quote or a backslash"),
    ({"sbatch_options": {"wckey": 'a"\nid\n#SBATCH --wckey="b'}}, "job.sbatch_options.wckey: has several lines"),
    ({"sbatch_options": {"comment": "a\x1bb"}}, "job.sbatch_options.comment: 'a\\x1bb' contains a control character"),
    ({"sbatch_options": {"comment": "$(id)"}}, "no shell expands variables there"),
    ({"sbatch_options": {"com\nment": "x"}}, "there is no such option"),
    ({"sbatch_options": {"requeue": "x"}}, "takes no value"),
    ({"sbatch_options": {"mail-type": "END", "mail_type": "FAIL"}}, "is there twice"),
    ({"srun_options": {"cpu-bind": "$(id)"}}, "would be run or changed by the shell -> of the shell's expansions"),
    ({"srun_options": {"cpu-bind": "${x:-$(id)}"}}, "would be run or changed by the shell"),
    ({"container": {"image": "`id`"}}, "job.container.image: '`id`' would be run"),
    ({"container": {"image": "a", "mounts": ["/a:$(id)"]}}, "job.container.mounts[0]: '/a:$(id)' would be run"),
    ({"container": {"image": "a.sqsh", "source": "$HOME"}}, "no shell expands variables there"),
    ({"environment": {"A": "1\n2"}}, "job.environment.A: has several lines"),
    ({"command": "a\0b"}, "job.command: contains a NUL character"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), REFUSED, ids=[said for _changes, said in REFUSED])
def test_what_is_refused_is_named(changes: dict[str, t.Any], said: str) -> None:
    with pytest.raises(schema.JobError) as raised:
        schema.check({"name": "train", "command": "train.py", **changes})
    assert said in str(raised.value)


def test_ordinary_values_are_taken(tmp_path: Path) -> None:
    job = schema.check(
        {
            **BASE,
            "gpus_per_node": "h100:8",
            "output": "/logs/%x %j.out",
            "sbatch_options": {"comment": "it's run #3 at $5", "gres": "gpu:h100:8", "licenses": "a@b:2"},
            "srun_options": {"mpi": "pmix", "export": "ALL,DIR=${HOME}/x y"},
        }
    )  # fmt: skip
    script = render.render(job)
    check_directives(script, job)
    (step,) = run(script, tmp_path, TRAIN_LOGS="/l")
    assert {"--mpi=pmix", "--export=ALL,DIR=of HOME/x y"} <= set(step)
