# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The results of health checks of several hosts, from what trainwright-health printed on each."""

from __future__ import annotations

DOCUMENTATION = r"""
name: health_results
short_description: Join the results of health checks of several hosts
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Joins what C(trainwright-health run --json) printed on each host. A host is believed about its checks, and not about
    its name. A host that did not answer, or not in that form, has the result INCOMPLETE.
options:
  _input:
    description: The registered result of the command, by host.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Print the results of two nodes
  ansible.builtin.debug:
    msg: "{{ answers | trainwright.slurm.health_results }}"
  vars:
    answers:
      c1: {rc: 0, stdout: '{"results": [{"host": "c1", "check": "memory", "verdict": "PASS"}]}'}
      c2: {unreachable: true}
"""

RETURN = r"""
_value:
  description: The joined results.
  type: dict
  contains:
    results: {description: Results in the schema of docs/results.md., type: list, elements: dict}
    table: {description: Lines of the table., type: list, elements: str}
    json: {description: The document of docs/results.md., type: dict}
    failed: {description: Whether a check failed or could not be tested., type: bool}
    nothing: {description: Whether no check applies to any host., type: bool}
    failed_tests: {description: Whether a check failed., type: bool}
    message: {description: Failures in one line., type: str}
"""

import json
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import (
    Result,
    ResultError,
    Verdict,
    document,
    ends_with_failure,
    from_json,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.report.table import table

_CHECK = "trainwright_health"


def _of_host(host: str, answer: t.Mapping[str, t.Any]) -> list[Result]:
    if answer.get("unreachable"):
        remedy = "see whether it runs and answers SSH"
        return [Result(host, _CHECK, Verdict.INCOMPLETE, detail="unreachable", remedy=remedy)]
    try:
        items = json.loads(str(answer.get("stdout") or ""))["results"]
        found = from_json([{**item, "host": host} for item in items])
    except (ValueError, KeyError, TypeError, ResultError, RecursionError):
        said = str(answer.get("stderr") or answer.get("msg") or "no output").strip()
        last = printable(said.splitlines()[-1])[:300].replace("\t", " ")
        last, _arrow, remedy = last.partition(" -> ")
        remedy = remedy or "run site.yml with this node, then trainwright-health run there"
        return [Result(host, _CHECK, Verdict.INCOMPLETE, detail=last, remedy=remedy)]
    return found


def health_results(answers: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the joined results, those of all hosts in their order."""
    found = [result for host, answer in answers.items() for result in _of_host(host, answer)]
    shown = [one for one in found if one.verdict is not Verdict.NOT_APPLICABLE]
    bad = [one for one in found if one.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)]
    words = [
        f"{one.host}: {one.check} {one.verdict}: {one.what} -> {one.remedy or 'see the node'}"
        for one in bad
    ]
    return {
        "results": [one.to_json() for one in found],
        "table": table("health", shown).splitlines(),
        "json": document("health", found),
        "nothing": not shown,
        "failed": ends_with_failure(found),
        "failed_tests": ends_with_failure(found, allow_incomplete=True),
        "message": printable("; ".join(words[:20])),
    }


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Any]:
        return {"health_results": health_results}
