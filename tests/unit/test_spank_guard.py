# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the guard's note at the start of a step, compiled with a small program in the place of slurmstepd."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.images import ROOT

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")
GUARD = ROOT / "roles/pyxis/files/spank_guard.c"
# Arguments: the step's node, a word of plugstack.conf, the directory with the users' and its name in the container.
STEPD = r"""
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern int slurm_spank_init(void *, int, char **), slurm_spank_task_init_privileged(void *, int, char **),
	slurm_spank_task_init(void *, int, char **);
static uint32_t node;
static char *environment[] = { NULL, NULL };
int spank_remote(void *spank) { return 1; }
int spank_option_register(void *spank, void *option) { return 0; }
int spank_getenv(void *spank, const char *name, char *value, int size)
{
	const char *found = getenv(name);
	return found == NULL || snprintf(value, size, "%s", found) >= size;
}
int spank_get_item(void *spank, int item, ...)
{
	va_list list;
	va_start(list, item);
	if (item == 10)
		*va_arg(list, char ***) = environment;
	else
		*va_arg(list, uint32_t *) = item == 5 ? node : getuid();
	va_end(list);
	return item != 0 && item != 5 && item != 10;
}
void slurm_error(const char *format, ...) { }
void slurm_spank_log(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}
int main(int count, char **words)
{
	node = atoi(words[1]);
	environment[0] = getenv("ASKED");
	if (slurm_spank_init(NULL, 1, words + 2) || slurm_spank_task_init_privileged(NULL, 0, NULL))
		return 1;
	/* The container of Pyxis' task_init hides the path. */
	if (rename(words[3], words[4]) || slurm_spank_task_init(NULL, 0, NULL))
		return 1;
	return rename(words[4], words[3]);
}
"""


@pytest.fixture(scope="module")
def stepd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("guard")
    (directory / "stepd.c").write_text(STEPD)
    command = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Werror", "-Wextra", "-Wno-unused-parameter"]
    sources = ["-DRELEASE=0x180b00", str(GUARD), str(directory / "stepd.c")]
    subprocess.run([*command, "-o", str(directory / "stepd"), *sources], check=True)
    return directory / "stepd"


@pytest.fixture
def note(tmp_path: Path) -> Path:
    """Path of the note of step 7.1, in the user's directory below runtime_path."""
    path = tmp_path / "run" / str(os.getuid()) / "7.1.note"
    path.parent.mkdir(parents=True)
    return path


def printed(stepd: Path, note: Path, node: int = 0, step: str = "1") -> str:
    """What a step's user sees."""
    run = note.parent.parent
    done = subprocess.run(
        [str(stepd), str(node), f"runtime_path={run}", run, run.with_name("hidden")],
        env={"SLURM_JOB_ID": "7", "SLURM_STEP_ID": step},
        stdout=subprocess.PIPE,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout


def test_the_first_node_prints_the_note_once(stepd: Path, note: Path) -> None:
    assert printed(stepd, note) == ""
    note.write_text("container: 100%s yours\n")
    assert printed(stepd, note, step="2") == ""
    assert printed(stepd, note) == "container: 100%s yours\n"
    assert not note.exists() and printed(stepd, note) == ""


def test_other_nodes_remove_it(stepd: Path, note: Path) -> None:
    note.write_text("text")
    assert printed(stepd, note, node=1) == "" and not note.exists()


@pytest.mark.parametrize(
    ("content", "shown"),
    [("x" * 5000, "x" * 300), ("one\x1b[2Jtwo", "one"), ("one\ntwo", "one"), ("é", "")],
)
def test_a_user_writes_no_more_than_a_line_there(
    stepd: Path, note: Path, content: str, shown: str
) -> None:
    note.write_text(content, encoding="utf-8")
    assert printed(stepd, note) == (f"{shown}\n" if shown else "")


def test_neither_a_link_nor_a_pipe_is_read(stepd: Path, note: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("of somebody else")
    note.symlink_to(tmp_path / "other")
    assert printed(stepd, note) == "" and (tmp_path / "other").exists()
    note.unlink()
    os.mkfifo(note)
    assert printed(stepd, note) == ""
    note.mkdir()
    assert printed(stepd, note) == ""


@pytest.mark.parametrize(
    ("own", "starts"),
    [
        (None, False),
        ("", False),
        ("# required /usr/lib/x.so\n", False),
        ("# ours\nrequired /usr/lib/x.so\n", True),
    ],
)
def test_a_shared_guard_is_off_only_where_the_node_requires_a_plugin_of_its_own(
    stepd: Path, tmp_path: Path, own: str | None, starts: bool
) -> None:
    """An emptied part of a node loads no guard of its own, and a step would run outside of its container."""
    part, run = tmp_path / "plugstack.conf", tmp_path / "run"
    run.mkdir()
    if own is not None:
        part.write_text(own)
    for asked, code in (("PYXIS_CONTAINER_IMAGE=a", int(not starts)), ("OTHER=a", 0)):
        words = [str(stepd), "0", f"unless={part}", str(run), str(run.with_name("hidden"))]
        assert subprocess.run(words, env={"ASKED": asked}, check=False).returncode == code
        if code:
            run.with_name("hidden").rename(run)
