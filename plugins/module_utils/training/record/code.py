# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The state of the code that a job runs: its commit, and what has changed since. Runs on nodes: Python 3.9, git.

A repository can name programs that git starts. None of them runs here: no hook, file system monitor, pager, filter,
text conversion, external diff or transport; and nothing is written (githooks(5), git-config(1), gitattributes(5)).
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
import threading
import typing as t

from ...node import acting
from . import leftout

View = dict[str, t.Any]

#: Bytes of a diff that are kept.
MOST_DIFF = 256 * 2**10
_MOST_NAMES = 100  # names of files that git does not know
_MOST_SCRIPT = 16 * 2**20  # bytes of a program whose digest is taken
_MOST_FILTERS = 2**16  # bytes of the names of a repository's filters
_PATIENCE = 20.0  # seconds for one question
_OFF = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.pager=cat",
    "core.attributesFile=/dev/null", "core.quotePath=true", "diff.external=", "diff.noprefix=false",
    "diff.submodule=short", "protocol.allow=never", "submodule.recurse=false", "color.ui=false",
)  # fmt: skip


class GitError(Exception):
    """A question that git does not answer: a line with the remedy."""


def state(directory: str, program: str = "", values: t.Collection[str] = ()) -> View:
    """Return what is known of the code in a directory. Raises nothing; `problem` says what could not be found out.

    program: path of the script that runs, whose digest is taken. values: texts that must not be in the record.
    """
    found: View = {
        "directory": directory, "repository": "", "commit": "", "branch": "", "remote": "", "diff": "",
        "diff_sha256": "", "diff_cut": False, "untracked": [], "left_out": 0, "script": program,
        "script_sha256": _digest(program), "problem": "",
    }  # fmt: skip
    try:
        _ask(found, directory, values)
    except GitError as error:
        found["problem"] = str(error)
    return found


def _ask(found: View, directory: str, values: t.Collection[str]) -> None:
    top = _git(directory, "rev-parse", "--show-toplevel", missing="").strip("\n")
    if not top:
        return  # it is not a repository
    real = os.path.realpath(directory)
    if os.path.commonpath([os.path.realpath(top), real]) != os.path.realpath(top):
        raise GitError(
            f"{directory}: its repository has another work tree (core.worktree) -> remove that setting"
        )
    found["repository"] = top
    quiet = ("rev-parse", "--quiet", "--verify", "HEAD^{commit}")
    found["commit"] = _git(top, *quiet, missing="").strip()
    found["branch"] = _git(top, "symbolic-ref", "--quiet", "--short", "HEAD", missing="").strip()
    remote = _git(top, "config", "--local", "--get", "remote.origin.url", missing="").strip()
    found["remote"] = leftout.text(re.sub(r"://[^/@\s]*@", "://", remote))[0]
    names = _git(top, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    found["untracked"] = [name for name in names if name][:_MOST_NAMES]
    if not found["commit"]:
        found["problem"] = f"{top}: has no commit yet -> git commit"
        return
    base = (
        "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--no-renames",
        "--src-prefix=a/", "--dst-prefix=b/", "HEAD", "--", ":/", *leftout.PATHS,
    )  # fmt: skip
    diff = _git(top, *base, most=MOST_DIFF + 1)
    found["diff_cut"] = len(diff.encode("utf-8", "replace")) > MOST_DIFF
    if found["diff_cut"]:
        diff = diff[:MOST_DIFF].rpartition("\n")[0] + "\n"
    found["diff"], found["left_out"] = leftout.text(diff, values)
    found["diff_sha256"] = hashlib.sha256(diff.encode("utf-8", "replace")).hexdigest()


def _git(directory: str, *words: str, most: int = 2**20, missing: str | None = None) -> str:
    """Return what git prints, at most so many characters. missing: the answer where it has none. Raises GitError."""
    options = [word for one in (*_OFF, *_filters(directory)) for word in ("-c", one)]
    return _run(["git", "-C", directory, *options, *words], directory, most, missing)


def _filters(directory: str) -> list[str]:
    """Return the settings that turn off the programs that the repository names for its files."""
    asked = ["git", "-C", directory, *(word for one in _OFF for word in ("-c", one))]
    asked += [
        "config",
        "--name-only",
        "-z",
        "--get-regexp",
        r"^filter\..*\.(clean|process|required)$",
    ]
    answer = _run(asked, directory, _MOST_FILTERS, "", nothing=1)
    names = [name for name in answer.split("\0") if name]
    # git would read such a name as the setting of another one (-c NAME=VALUE), and run the program.
    if len(answer.encode("utf-8", "replace")) >= _MOST_FILTERS or any(
        "=" in name for name in names
    ):
        raise GitError(
            f"{directory}: its git filters cannot be turned off, so git is not run there -> git config"
            " --get-regexp '^filter' shows them; remove those with = in the name"
        )
    return [f"{name}={'false' if name.endswith('.required') else ''}" for name in names]


def _run(
    command: list[str], directory: str, most: int, missing: str | None, nothing: int | None = None
) -> str:
    """Return what a command of git prints, at most so many bytes. Raises GitError.

    missing: the answer where it fails. nothing: the only exit code that means this, by default each.
    """
    kept = ("HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME")
    environment = {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ATTR_NOSYSTEM": "1", "GIT_PAGER": "cat",
        "GIT_ASKPASS": "/bin/false", "GIT_SSH_COMMAND": "/bin/false",
    }  # fmt: skip
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise GitError(
                "git is missing on this host -> install git to record the code's commit"
            ) from None
        except OSError as error:
            raise GitError(f"{directory}: {error.strerror} -> the code is not recorded") from None
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(_PATIENCE, stop)
        timer.start()
        try:
            with t.cast("t.BinaryIO", process.stdout) as stream:
                data = stream.read(most)
            answer = data.decode("utf-8", "replace")
            # One that has more to print has answered.
            whole = len(data) >= most
            if whole:
                process.kill()
            process.wait()
        finally:
            timer.cancel()
        errors.seek(0)
        fault = errors.read(2**14).decode("utf-8", "replace")
    if late.is_set():
        raise GitError(
            f"{directory}: git did not answer within {_PATIENCE:g} s -> commit it in smaller repositories"
        )
    if whole or process.returncode == 0:
        return answer
    if "dubious ownership" in fault or "safe.directory" in fault:
        raise GitError(
            f"{directory}: git does not read a repository of another user (safe.directory) -> if you trust it,"
            f" git config --global --add safe.directory {directory}"
        )
    if missing is not None and nothing in (None, process.returncode):
        return missing
    last = fault.strip().splitlines()[-1:] or [f"ends with {process.returncode}"]
    raise GitError(f"{directory}: git {command[-1][:20]}: {last[0][:200]} -> see git status there")


def _digest(path: str) -> str:
    """Return the SHA-256 of a program; "" where it cannot be read or is too large."""
    if not path:
        return ""
    try:
        with open(path, "rb", opener=acting.regular) as file:
            data = file.read(_MOST_SCRIPT + 1)
    except OSError:
        return ""
    return hashlib.sha256(data).hexdigest() if len(data) <= _MOST_SCRIPT else ""
