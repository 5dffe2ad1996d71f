# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The findings on all hosts as results of checks, lines and one summary. Pure."""

from __future__ import annotations

import typing as t

from ..checks.result import Result, Verdict
from ..node.drift_paths import AS_LEFT, DRIFTED, FIRST, NOT_KNOWN
from ..node.terminal import one_line

CHECK, HOOKS = "as_left", "job_hooks"
_UNIT = "differences"
_LOGIN = "see whether it runs and answers SSH"
_LONGEST = 300
#: Where a person puts files of units; those of packages are elsewhere.
_BY_HAND = ("/etc/", "/run/", "/usr/local/")
#: Roles with a variable <role>_unit for the settings of their units.
WITH_UNIT = frozenset(
    "aws_ofi_nccl gpu_stack mariadb node_health nvidia_container nvidia_dcgm nvidia_driver slurm_auth slurm_login"
    " slurmctld slurmd slurmdbd slurmrestd".split()
)
#: The name of a check result is without blanks.
_KINDS = {"no user": "user"}


def _line(text: object) -> str:
    return one_line(text, _LONGEST)


def _number(answer: t.Mapping[str, t.Any], name: str) -> int:
    value = answer.get(name)
    return value if isinstance(value, int) else 0


def _mappings(answer: t.Mapping[str, t.Any], name: str) -> list[t.Mapping[str, t.Any]]:
    """Return a list of a host's answer without what is not of its form."""
    value = answer.get(name)
    return [one for one in value if isinstance(one, t.Mapping)] if isinstance(value, list) else []


def _difference(host: str, one: t.Mapping[str, t.Any]) -> Result:
    words = {name: _line(one.get(name, "")) for name in ("kind", "name", "what", "found", "left")}
    words.update({name: words[name] or "nothing" for name in ("found", "left")})
    role = _line(one.get("role", ""))
    kind = "".join(char if char.isalnum() else "_" for char in words["kind"] if char.isascii())
    unknown = words["what"] == "unknown"
    # A playbook's own call is recorded under the playbook's file.
    is_playbook = role.endswith((".yml", ".yaml"))
    return Result(
        host,
        _KINDS.get(words["kind"], kind) or "other",
        Verdict.INCOMPLETE if unknown else Verdict.FAIL,
        value=words["found"],
        threshold=words["left"],
        provenance=f"{'' if is_playbook else 'role '}{role}: {_line(one.get('part', ''))}",
        detail=f"{words['name']}: {words['what']}",
        remedy=_remedy(words, host, role, role if is_playbook else "site.yml"),
    )


def _remedy(words: t.Mapping[str, str], host: str, role: str, playbook: str) -> str:
    run = _run(playbook, host)
    if words["what"] in ("drop-ins", "unit file") and words["found"].startswith(_BY_HAND):
        # No run removes a file that no role has written.
        keep = f"{role}_unit" if role in WITH_UNIT else "the inventory"
        return (
            f"remove it and run systemctl daemon-reload there, or first move its settings to {keep}"
        )
    if words["what"] == "files":
        return (
            f"see systemctl cat {words['name']} there, run systemctl daemon-reload, then this again"
        )
    if words["what"] == FIRST:
        return f"remove these lines from {words['name']} there, which count before those of the cluster"
    if words["kind"] == "package" and words["what"] == "version":
        return f"install {words['left']} again, or, to keep a newer one, {run}"
    return f"{run}, or keep the change in the inventory"


def _run(playbook: str, host: str) -> str:
    """Return the words for a run on one host; site.yml also needs the controllers, which keep the record."""
    more = ",slurm_controller" if playbook == "site.yml" else ""
    return f"run {playbook} with --limit {host}{more}"


def _of_host(host: str, answer: t.Mapping[str, t.Any]) -> tuple[str, list[Result]]:
    """Return the state of a host and its results."""
    if answer.get("unreachable"):
        lost = Result(host, CHECK, Verdict.INCOMPLETE, detail="unreachable", remedy=_LOGIN)
        return "unreachable", [lost]
    state = answer.get("state")
    if answer.get("failed") or state not in (AS_LEFT, DRIFTED, NOT_KNOWN):
        said, _arrow, remedy = _line(answer.get("msg") or "no answer").partition(" -> ")
        return NOT_KNOWN, [
            Result(host, CHECK, Verdict.INCOMPLETE, detail=said, remedy=remedy or "see the host")
        ]
    found = [_difference(host, one) for one in _mappings(answer, "differences")]
    remedy = f"{_run('site.yml', host)}, which records what it leaves"
    for one in _mappings(answer, "unknown"):
        part = f"{_line(one.get('role', ''))}: {_line(one.get('part', ''))}: {_line(one.get('why', ''))}"
        found.append(Result(host, CHECK, Verdict.INCOMPLETE, detail=part, remedy=remedy))
    if _number(answer, "left_out"):
        more = f"{_number(answer, 'left_out')} further differences"
        found.append(Result(host, CHECK, Verdict.FAIL, detail=more, remedy="repair these first"))
    if not found and state != AS_LEFT:
        nothing = "no run has recorded what it left"
        found.append(Result(host, CHECK, Verdict.INCOMPLETE, detail=nothing, remedy=remedy))
    return str(state), [_whole(host, answer, found), *found]


def _whole(host: str, answer: t.Mapping[str, t.Any], found: t.Sequence[Result]) -> Result:
    """Return the result of a host as a whole, by which monitoring has its number of differences.

    A host that cannot be compared does not have one: 0 would read as if nothing differed.
    """
    count = sum(one.verdict is Verdict.FAIL for one in found)
    count += max(0, _number(answer, "left_out") - 1)
    incomplete = any(one.verdict is Verdict.INCOMPLETE for one in found)
    detail = f"{_number(answer, 'items')} things compared"
    verdict = max((one.verdict for one in found), key=list(Verdict).index, default=Verdict.PASS)
    remedy = "see the differences" if found else ""
    value = None if incomplete and not count else count
    return Result(
        host, CHECK, verdict, value=value, threshold=0, unit=_UNIT, detail=detail, remedy=remedy
    )


def _words(one: Result) -> str:
    if one.threshold is not None:
        what = f"{one.check} {one.detail}: {one.value}, not {one.threshold} ({one.provenance})"
    else:
        what = one.detail
    return f"{one.host}: {what} -> {one.remedy}"


def report(
    answers: t.Mapping[str, t.Mapping[str, t.Any]], hooks: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """Return results, lines, a summary and the verdict of the looks.

    answers: registered result of drift_info by host. hooks: lines of hook_drift.
    """
    states = dict.fromkeys(("as left", "drifted", "not known", "unreachable"), 0)
    results: list[Result] = []
    for host, answer in answers.items():
        state, found = _of_host(host, answer)
        states[state] += 1
        results += found
    lines = [_words(one) for one in results if one.unit != _UNIT]
    for line in hooks:
        text, _arrow, remedy = _line(line).partition(" -> ")
        host = _line(text.partition(":")[0])
        silent = text.endswith("did not answer, so its hooks are unknown")
        verdict = Verdict.INCOMPLETE if silent else Verdict.FAIL
        results.append(Result(host, HOOKS, verdict, detail=text, remedy=remedy))
        lines.append(_line(line))
    summary = ", ".join(f"{count} {state}" for state, count in states.items())
    verdicts = {one.verdict for one in results}
    return {
        "results": [one.to_json() for one in results],
        "lines": lines,
        "summary": f"hosts: {summary}",
        "drifted": Verdict.FAIL in verdicts,
        "unknown": states["not known"] > 0,
        "unreachable": states["unreachable"] > 0
        or any(one.verdict is Verdict.INCOMPLETE for one in results if one.check == HOOKS),
        "states": states,
    }
