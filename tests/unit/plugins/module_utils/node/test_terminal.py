# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests that no text of a user, a node or a tag commands the administrator's terminal."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import AwsProblem
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import Problem
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.data.manifest import DatasetError
from ansible_collections.trainwright.slurm.plugins.module_utils.node.files import FilesError
from ansible_collections.trainwright.slurm.plugins.module_utils.node.services import ServicesError
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import (
    escaped_line,
    one_line,
    printable,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.users import UsersError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import jobs
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.apply import ApplyError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

PLUGINS = Path(__file__).resolve().parents[5] / "plugins"
TITLE = "\x1b]0;OWNED\x07"
SHOWN = "\\x1b]0;OWNED\\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("step 3/4\tloss 0.1\n", "step 3/4\tloss 0.1\n"),
        (TITLE, SHOWN),
        ("100%\rgone", "100%\\x0dgone"),
        ("\x9b31m \x7f \0", "\\x9b31m \\x7f \\x00"),
        ("a\u202eb\u2066c\u200fd", "a\\u202eb\\u2066c\\u200fd"),
        ("\udc9b31m", "\\udc9b31m"),
        ("Zürich 東京 👍🏽", "Zürich 東京 👍🏽"),
        ("a\u200bb\ufeff\xad\u3164", "a\\u200bb\\ufeff\\xad\\u3164"),
        ("ok\U000e0041", "ok\\U000e0041"),
        ("not in XML \ufffe\uffff", "not in XML \\ufffe\\uffff"),
        (None, "None"),
    ],
)
def test_what_is_shown(text: object, shown: str) -> None:
    assert printable(text) == shown


def test_a_name_stays_in_its_line() -> None:
    assert escaped_line(f"a\nb\tc{TITLE}") == f"a\\nb\\tc{SHOWN}"


def test_a_text_of_several_lines_becomes_one_of_limited_length() -> None:
    assert one_line(f"a\nb\tc{TITLE}") == f"a b c{SHOWN}"
    assert one_line("a\nbcd", 3) == "a b"


def test_every_character_that_is_not_shown_is_replaced() -> None:
    kinds = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
    odd = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in kinds]
    assert [char for char in odd if printable(char) == char] == ["\t", "\n"]
    letters = "".join(
        chr(code) for code in range(0x110000) if unicodedata.category(chr(code))[0] in "LNPS"
    )
    assert re.findall(r"\\[xuU]([0-9a-f]+)", printable(letters.replace("\\", ""))) == [
        "115f", "1160", "2800", "3164", "ffa0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "error",
    [
        AwsProblem(TITLE),
        ApplyError(TITLE),
        DatasetError(TITLE),
        FilesError(TITLE),
        ImageError("failed", TITLE),
        Problem("c1", "slurm_conf", TITLE, "leave it out"),
        ServicesError(TITLE),
        SlurmError("invalid", TITLE),
        UsersError(TITLE),
    ],
    ids=lambda error: type(error).__name__,
)
def test_messages_of_errors(error: object) -> None:
    assert SHOWN in str(error) and "\x1b" not in str(error)


def test_the_end_of_a_job() -> None:
    seen = {"ended": True, "state": "FAILED", "reason": "", "id": 7, "name": "train", "exit_code": 1, "signal": None,
            "nodes": "c1", "elapsed": 3, "stdout": "/l/out", "stderr": "/l/err", "output_tail": TITLE,
            "stderr_tail": TITLE}  # fmt: skip
    said = jobs.verdict(seen, None, True)
    assert said["failed"] and "\x1b" not in said["msg"]


def test_nothing_is_displayed_as_it_is() -> None:
    """Each text that a plugin prints goes through terminal.py, unless it is the plugin's own."""
    own = {'f"run_summary could not write {path}'}
    found = []
    for path in PLUGINS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(
            r"display\.(?:display|warning|v+|banner|error)\(\s*(\S.{0,60})", text
        ):
            if not match[1].startswith(("printable(", "one_line(")) and not any(
                match[1].startswith(one) for one in own
            ):
                found.append(f"{path.name}: {match[0]}")
    assert not found
