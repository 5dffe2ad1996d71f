# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Textfiles of node_exporter about health. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import typing as t

from ..checks.result import NUMBERS, Result, counts


def of_node(
    found: t.Sequence[Result],
    seconds: float,
    times: os.times_result,
    published: t.Mapping[str, t.Any],
) -> str:
    """Return the metrics of one cycle on a node: each check's verdict, their number, and what the cycle cost."""
    cpu = times.user + times.system + times.children_user + times.children_system
    words = ", ".join(f"{number} {verdict}" for verdict, number in NUMBERS.items())
    lines = [
        f"# HELP trainwright_health_check_verdict Verdict of a check: {words}.",
        "# TYPE trainwright_health_check_verdict gauge",
        *(
            f'trainwright_health_check_verdict{{check="{one.check}"}} {NUMBERS[one.verdict]}'
            for one in found
        ),
        "# HELP trainwright_health_checks Checks by verdict.",
        "# TYPE trainwright_health_checks gauge",
        *(
            f'trainwright_health_checks{{verdict="{name}"}} {number}'
            for name, number in counts(found).items()
        ),
        *_gauge("trainwright_health_cycle_seconds", "How long the last cycle took.", seconds),
        *_gauge("trainwright_health_cycle_cpu_seconds", "CPU time of the last cycle.", cpu),
        *_gauge(
            "trainwright_health_publish_failed",
            "Whether the last publication failed.",
            int(bool(published.get("problem"))),
        ),
    ]
    return "\n".join(lines) + "\n"


def of_agent(numbers: t.Mapping[str, int], enforce: bool, now: float) -> str:
    """Return the metrics of the agent. numbers: nodes by what the agent has to say about them."""
    lines = [
        "# HELP trainwright_health_agent_nodes Nodes by state, as the health agent sees them.",
        "# TYPE trainwright_health_agent_nodes gauge",
        *(
            f'trainwright_health_agent_nodes{{state="{name}"}} {number}'
            for name, number in sorted(numbers.items())
        ),
        *_gauge("trainwright_health_agent_enforce", "Whether the agent acts.", int(enforce)),
        *_gauge("trainwright_health_agent_last_run_seconds", "When it last ran (Unix time).", now),
    ]
    return "\n".join(lines) + "\n"


def _gauge(name: str, text: str, value: float) -> list[str]:
    shown = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {shown}"]
