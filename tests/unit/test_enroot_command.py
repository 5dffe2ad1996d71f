# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the command enroot that role enroot puts before the package's: names are for what is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.images import FILES, needs_root, open_directory

__all__ = ["open_directory"]  # a fixture

# Writes slowly under the name that it was given, as Enroot does.
ENROOT = """#!/bin/sh
data=@root@/data
echo "$0 $*" >>@root@/log
verb=$1; shift
force='' name='' output=''
while [ $# -gt 1 ]; do
    case $1 in -f) force=y; shift ;; --name) name=$2; shift 2 ;; --output) output=$2; shift 2 ;; *) shift ;; esac
done
case $verb in
    info) printf '  ENROOT_CACHE_PATH=@root@/cache\\n  ENROOT_DATA_PATH=%s\\n' "$data" ;;
    create|load)
        [ ! -e "$data/$name" ] || exit 3
        mkdir "$data/$name" && echo one >"$data/$name/first" && sleep @pause@ && echo two >"$data/$name/second"
        [ "$1" != bad ] || exit 4 ;;
    export) echo half >"$output"; sleep @pause@; [ "$1" != bad ] || exit 5; echo "whole $PATH" >"$output" ;;
    remove) rm -r "$data/$1" ;;
    *) echo "plain $*" ;;
esac
"""
Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Run:
    """Start the command, with an Enroot that pauses in the middle."""
    (tmp_path / "data").mkdir()
    program = tmp_path / "package"
    wrapper = tmp_path / "enroot"
    text = (FILES / "enroot").read_text(encoding="utf-8")
    assert text.count("/usr/bin/enroot") == 1
    wrapper.write_text(text.replace("/usr/bin/enroot", str(program)), encoding="utf-8")
    wrapper.chmod(0o755)

    def run(*words: str, pause: str = "0") -> subprocess.Popen[str]:
        program.write_text(ENROOT.replace("@root@", str(tmp_path)).replace("@pause@", pause))
        program.chmod(0o755)
        return subprocess.Popen(
            [wrapper, *words],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    return run


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


def wait_for(path: Path, pattern: str) -> None:
    until = time.monotonic() + 10
    while not list(path.glob(pattern)):
        assert time.monotonic() < until, f"{pattern} is not in {path}"
        time.sleep(0.01)


@pytest.mark.parametrize(
    "words",
    [
        ["create", "--name", "lab", "/x/lab.sqsh"],
        ["create", "-n", "lab", "--", "/x/other.sqsh"],
        ["create", "--name=lab", "/x/other.sqsh"],
        ["create", "/x/lab.sqsh"],
        ["load", "--arch", "aarch64", "--name", "lab", "docker://a/b"],
    ],
)
def test_a_container_gets_its_name(start: Run, tmp_path: Path, words: list[str]) -> None:
    assert end(start(*words)) == (0, "")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["lab"]
    assert (tmp_path / "data/lab/second").read_text() == "two\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_container_that_was_killed_has_no_name_and_goes(
    start: Run, tmp_path: Path, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    process = start("create", "--name", "lab", "/x.sqsh", pause="30")
    wait_for(data, ".making=*/first")
    os.killpg(process.pid, number)
    process.communicate(timeout=120)
    assert process.returncode and not (data / "lab").exists()
    assert end(start("create", "--name", "other", "/x.sqsh")) == (0, "")
    assert [path.name for path in data.iterdir()] == ["other"]
    assert end(start("create", "--name", "lab", "/x.sqsh")) == (0, "")


def test_another_process_keeps_what_it_makes(start: Run, tmp_path: Path) -> None:
    """Both make the same: the first to end has the name, and the other says so."""
    data = tmp_path / "data"
    slow = start("create", "--name", "lab", "/x.sqsh", pause="1")
    wait_for(data, ".making=*/first")
    assert end(start("create", "--name", "lab", "/x.sqsh")) == (0, "")
    code, said = end(slow)
    assert code == 1 and f"File already exists: {data}/lab" in said
    assert [path.name for path in data.iterdir()] == ["lab"]


def test_a_name_that_is_taken_is_for_enroot_to_refuse(start: Run, tmp_path: Path) -> None:
    end(start("create", "--name", "lab", "/x.sqsh"))
    assert end(start("create", "--name", "lab", "/x.sqsh"))[0] == 3
    assert end(start("create", "--force", "--name", "lab", "/x.sqsh")) == (0, "")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["lab"]


def test_an_error_of_enroot_stays_its_own(start: Run, tmp_path: Path) -> None:
    assert end(start("create", "--name", "lab", "bad"))[0] == 4
    assert end(start("export", "--output", "bad.sqsh", "bad"))[0] == 5
    assert not list((tmp_path / "data").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "enroot", "log", "package"]


def test_other_words_are_passed_on(start: Run, tmp_path: Path) -> None:
    for words in (["list", "-f"], ["create"], ["create", "--name"], ["create", "-x", "a"], ["create", "-h"],
                  ["create", "--name", "a/b", "x"], ["load", "docker://a"], []):  # fmt: skip
        end(start(*words))
    log = (tmp_path / "log").read_text().splitlines()
    assert f"{tmp_path}/package list -f" in log and f"{tmp_path}/package create --name a/b x" in log
    assert not any(".making" in line for line in log)


def test_an_image_that_is_saved_is_whole(start: Run, tmp_path: Path) -> None:
    target = tmp_path / "saved.sqsh"
    target.write_text("before")
    process = start("export", "-f", "-o", str(target), "lab", pause="30")
    wait_for(tmp_path, ".making=*")
    assert target.read_text() == "before"
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=120)
    assert end(start("export", "-f", "-o", str(target), "lab")) == (0, "")
    assert target.read_text().startswith("whole /usr/lib/trainwright/enroot:/")
    assert not list(tmp_path.glob(".making*"))


@needs_root
def test_find_leaves_out_directories_that_it_cannot_read(open_directory: Path) -> None:
    """As `enroot export` calls it, by a user; find 4.10 fails there, and older ones do not."""
    find = open_directory / "find"
    find.write_text((FILES / "find").read_text(encoding="utf-8"), encoding="utf-8")
    find.chmod(0o755)
    root = open_directory / "rootfs"
    for name in ("mount", "dev/null"):
        (root / name).mkdir(parents=True)
    for name, text in (("file", ""), ("full", "x"), ("keep", "x")):
        (root / name).write_text(text)
    for path in [root, *root.iterdir()]:
        os.chown(path, 64001, 64001)
        if path.name in ("mount", "file", "full"):
            path.chmod(0)
    words = ["-path", f"{root}/dev/*", "-o", "-perm", "0000", "-prune"]
    done = subprocess.run(
        [find, root, *words, "(", "-empty", "-o", "-type", "d", ")"],
        user=64001, group=64001, extra_groups=[], cwd="/", capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr
    found = {os.path.relpath(line, root) for line in done.stdout.splitlines()}
    assert found == {"mount", "dev/null", "file"}
