# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the state of the code: what git says, what it does not run, and what is left out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.record import code, leftout

TOKEN = "hf_abcdefghijklmnopqrstuvwx"


def git(place: Path, *words: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", "-C", str(place), *own, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = tmp_path / "code"
    place.mkdir()
    git(place, "init")
    (place / "train.py").write_text("lr = 0.1\n")
    (place / ".env").write_text("A=1\n")
    (place / ".gitignore").write_text("ignored\n")
    git(place, "add", ".")
    git(place, "commit", "-m", "first")
    return place


def test_commit_and_diff_without_secrets(repository: Path) -> None:
    (repository / "train.py").write_text(
        f'lr = 0.2\ntoken = "{TOKEN}"\npassword: hunter22-x\nmine = "myownvalue"\n'
    )
    (repository / ".env").write_text("A=verysecret\n")
    (repository / "ignored").write_text("x")
    (repository / "new.py").write_text("x")
    git(repository, "remote", "add", "origin", "https://alice:pw12345@example.org/a.git")
    (repository / "sub").mkdir()
    found = code.state(str(repository / "sub"), str(repository / "train.py"), ["myownvalue"])
    assert found["problem"] == "" and found["commit"] == git(repository, "rev-parse", "HEAD")
    assert found["repository"] == str(repository) and found["branch"] == "main"
    assert "+lr = 0.2" in found["diff"] and found["left_out"] == 3 and not found["diff_cut"]
    for secret in (TOKEN, "hunter22", "verysecret", "myownvalue", "pw12345"):
        assert secret not in str(found)
    assert found["untracked"] == ["new.py"] and len(found["script_sha256"]) == 64


def test_a_long_diff_is_cut(repository: Path) -> None:
    (repository / "train.py").write_text("0123456789\n" * 100_000)
    found = code.state(str(repository))
    assert (
        found["diff_cut"] and len(found["diff"]) <= code.MOST_DIFF and found["diff"].endswith("\n")
    )


def test_programs_that_a_repository_names_are_not_run(repository: Path) -> None:
    mark = repository.parent / "mark"
    touch = f"touch {mark}; cat"
    for name in ("core.fsmonitor", "core.pager", "diff.external", "diff.bad.command", "diff.bad.textconv",
                 "filter.bad.clean", "filter.bad.smudge", "filter.bad.process", "core.sshCommand"):  # fmt: skip
        git(repository, "config", name, touch)
    git(repository, "config", "filter.bad.required", "true")
    hooks = repository / ".git" / "hooks"
    for name in ("post-index-change", "fsmonitor-watchman"):
        (hooks / name).write_text(f"#!/bin/sh\n{touch}\n")
        (hooks / name).chmod(0o755)
    (repository / ".git" / "info" / "attributes").write_text("*.py diff=bad filter=bad\n")
    (repository / ".gitattributes").write_text("*.py diff=bad filter=bad\n")
    (repository / "train.py").write_text("lr = 0.3\n")
    found = code.state(str(repository))
    assert "+lr = 0.3" in found["diff"] and not mark.exists(), found


@pytest.mark.parametrize(
    ("names", "last"),
    [([], "a=b"), ([f"n{number:05}" for number in range(5000)], "z"), ([f"\u00e9{n:05}" for n in range(5000)], "z")],
)  # fmt: skip
def test_a_repository_whose_filters_cannot_be_turned_off_is_not_read(
    repository: Path, names: list[str], last: str
) -> None:
    mark = repository.parent / "mark"
    rows = [f'[filter "{name}"]\n\tclean = cat\n' for name in names]
    with (repository / ".git" / "config").open("a") as file:
        file.write("".join([*rows, f'[filter "{last}"]\n\tclean = touch {mark}; cat\n']))
    (repository / ".git" / "info" / "attributes").write_text(f"*.py filter={last}\n")
    (repository / "train.py").write_text("lr = 0.3\n")
    found = code.state(str(repository))
    assert not mark.exists() and found["diff"] == ""
    assert "its git filters cannot be turned off" in found["problem"] and " -> " in found["problem"]


def test_what_git_does_not_read_is_a_problem(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code.state(str(tmp_path))["repository"] == ""
    if not os.geteuid():
        for path in (repository, repository / ".git"):
            os.chown(path, 12345, 12345)
        found = code.state(str(repository))
        assert "another user (safe.directory) -> if you trust it" in found["problem"]
        for path in (repository, repository / ".git"):
            os.chown(path, 0, 0)
    git(repository, "config", "core.worktree", "/etc")
    assert code.state(str(repository))["diff"] == ""
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init")
    assert "has no commit yet -> " in code.state(str(empty))["problem"]
    monkeypatch.setattr(code, "_PATIENCE", 0.0)
    assert " -> " in code.state(str(empty))["problem"]


@pytest.mark.parametrize(
    "given",
    ["tokenizer = AutoTokenizer", "max_tokens: 4096", "token = os.environ['HF_TOKEN']", "api_key=$WANDB_API_KEY",
     "secret: /home/alice/.secret", "hidden_size = 4096", "pad_token = eos_token", "passwords = 123456789"],
)  # fmt: skip
def test_ordinary_lines_stay(given: str) -> None:
    assert leftout.text(given) == (given, 0)


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        ({"arguments": ["--password", "hunter22"]}, "hunter22"),
        ({"arguments": ["--wandb-key", "a" * 40]}, "a" * 40),
        ({"arguments": ["-u", "user:hunter22"]}, "hunter22"),
        ({"environment": {"DB_PASS": "hunter22"}}, "hunter22"),
        ({"environment": {"DATABASE_PWD": "hunter22"}}, "hunter22"),
        ({"command": "curl -u user:hunter22 https://example.org"}, "hunter22"),
        ({"command": "curl --user 'user:hunter22' https://example.org"}, "hunter22"),
        ({"command": "train.py --wandb-key=hunter22x"}, "hunter22x"),
        ({"command": "DB_PASS=hunter22 train.py"}, "hunter22"),
    ],
)
def test_secrets_in_common_forms(given: dict[str, object], secret: str) -> None:
    assert secret not in str(leftout.tree(given))


@pytest.mark.parametrize(
    "given",
    [{"arguments": ["--tokenizer", "llama-tokens", "--passes", "3000000"]}, {"command": "python -u train.py:main"},
     {"command": "compass = northwards; bypass: enabled2; key: value99"}, {"arguments": ["--api-key", "$API_KEY"]},
     {"command": "cd run; PWD=/shared/data/run; pwd"}, {"environment": {"KEY_WORDS": "forwards-only"}},
     {"command": "docker run -u 1000:1000 a; # first pass computes gradients"}],
)  # fmt: skip
def test_ordinary_descriptions_stay(given: dict[str, object]) -> None:
    assert leftout.tree(given) == given


def test_trees_and_keys() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----"
    made = leftout.tree(
        {"environment": {"MY_TOKEN": "abcdefgh", "LR": "0.1"}, "arguments": [key, 3]}
    )
    assert made["environment"] == {"MY_TOKEN": leftout.MARK, "LR": "0.1"}
    assert "abc" not in made["arguments"][0] and made["arguments"][1] == 3
