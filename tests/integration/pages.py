# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the commands of a page of the documentation, so that the page cannot show commands that fail."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from .site import Site

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "== end of block"


def blocks(page: str) -> list[tuple[str, list[str]]]:
    """Each ```bash block with the lines of the ```text block that follows it: what it prints, among other things."""
    fences = FENCE.findall(page)
    return [
        (text, after.splitlines() if kind_after == "text" else [])
        for (kind, text), (kind_after, after) in zip(fences, [*fences[1:], ("", "")])
        if kind == "bash"
    ]


def run_page(site: Site, page: Path, user: str = "alice") -> list[str]:
    """Run all commands of a page in one shell on the login node, and return what each block of them printed.

    Fails if a command fails, or if its output lacks a line of the page.
    """
    commands = blocks(page.read_text(encoding="utf-8"))
    assert commands, page
    script = "\n".join(["set -eo pipefail", *(f"{text}\necho '{MARK}'" for text, _ in commands)])
    # Not from standard input, which srun and ssh would read.
    done = site.as_user(user, f"bash -c {shlex.quote(script)} </dev/null 2>&1", check=False)
    outputs = done.split(MARK)
    for (text, expected), output in zip(commands, outputs):
        missing = [line for line in expected if line not in output]
        assert not missing, f"{page.name}: not printed: {missing}\nby:\n{text}\nbut:\n{output}"
    assert len(outputs) == len(commands) + 1, f"{page.name}: stopped after:\n{done}"
    return outputs[:-1]
