# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges how a try of a training ended: the class of failure, whether it is repeated, and on which nodes. Pure.

Batch scripts carry this file, so it imports nothing of ours. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

Json = dict[str, t.Any]
_Classes = list[tuple[str, list["re.Pattern[str]"]]]

_LONGEST_PAUSE = 600  # seconds
_NEAR = 50  # lines before that of the last step
_SURVIVING = 3  # steps; the other ranks of a task may write one or two after the error of one
_LABEL = re.compile(r"\s*(?:(\d+): ?)?(?:\[(?:rank|default)\d+\]:? ?)?")
# A program that goes on says so: such a mention of too little memory is not the cause of a later traceback.
_SURVIVED = re.compile(r"warning|handled|caught|ignor|recover|skip|retrying", re.IGNORECASE)
# src/srun/libsrun/launch.c: what it knows of a task that ended without a word.
_TASK = re.compile(r"srun: error: (\S+: tasks? [\d,-]+: .+)")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class End(t.NamedTuple):
    """How a try ended. step: the last one in its log, None without any; task: number of the task that said it."""

    kind: str
    said: str = ""
    step: int | None = None
    task: str = ""


class Decision(t.NamedTuple):
    """The next action. pause: seconds before it."""

    again: bool
    why: str
    pause: int = 0


def labelled(line: str) -> tuple[str, str]:
    """Return the number of the task, "" where srun did not write it, and the text of a line."""
    text = _ESCAPE.sub("", line.rstrip("\r\n").split("\r")[-1])[:2000]
    match = _LABEL.match(text)
    return (match[1] or "", text[match.end() :]) if match else ("", text)


def last_step(lines: t.Sequence[str], policy: Json) -> tuple[int | None, int]:
    """Return the last step, and the number of its line from 0; None and 0 without any."""
    forms = _step_forms(policy)
    for number in range(len(lines) - 1, -1, -1):
        step = _step(labelled(lines[number])[1], forms)
        if step is not None:
            return step, number
    return None, 0


def _step_forms(policy: Json) -> list[re.Pattern[str]]:
    return [re.compile(form, re.IGNORECASE) for form in policy["steps"]]


def _step(text: str, forms: t.Iterable[re.Pattern[str]]) -> int | None:
    """Return the step that a line without its label reports."""
    for form in forms:
        found = form.findall(text)
        if found:
            return int(found[-1][:15])
    return None


def _steps_after(lines: t.Sequence[str], policy: Json) -> list[int]:
    """Return of each line how many different steps, _SURVIVING at most, its task wrote after it."""
    forms = _step_forms(policy)
    seen: dict[str, set[int]] = {}
    found = []
    for row in reversed(lines):
        task, text = labelled(row)
        steps = seen.setdefault(task, set())
        found.append(len(steps))
        step = _step(text, forms) if len(steps) < _SURVIVING else None
        if step is not None:
            steps.add(step)
    return found[::-1]


def classify(lines: t.Sequence[str], policy: Json) -> End:
    """Return the class of failure that a log shows: "unknown", with srun's first report, where no words are known."""
    step, at = last_step(lines, policy)
    classes = [
        (one["name"], [re.compile(form) for form in one["patterns"]]) for one in policy["classes"]
    ]
    never = [re.compile(form) for form in policy["never"]]
    # An error long before the last step was survived, unless nothing came after it. Ranks write in any order.
    at = max(0, at - _NEAR)
    after = _steps_after(lines, policy)
    survived = None
    for first, part in ((at, lines[at:]), (0, lines[:at])):
        texts = [(*labelled(line), number) for number, line in enumerate(part, first)]
        # Far indented lines are the code of a traceback.
        texts = [
            one
            for one in texts
            if not one[1].startswith("    ") and not any(form.search(one[1]) for form in never)
        ]
        for name, forms in classes:
            for place, (task, text, number) in enumerate(texts):
                if name == "program":
                    found = _ends_program(text, classes)
                else:
                    found = any(form.search(text) for form in forms)
                if found and name == "memory" and _mention(text, classes):
                    found = not any(
                        of == task and _ends_program(later, classes)
                        for of, later, _number in texts[place + 1 :]
                    )
                if not found:
                    continue
                end = End(name, text.strip()[:300], step, task)
                if name != "program" or after[number] < _SURVIVING:
                    return end
                survived = survived or end
    report = next((m for one in lines for m in [_TASK.search(labelled(one)[1])] if m), None)
    if report is None and survived:
        return survived
    return End("unknown", report[1].strip()[:300] if report else "", step)


def _mention(text: str, classes: _Classes) -> bool:
    """Return whether a line reports an error that a program has survived, and is not the error itself."""
    error = any(form.match(text) for name, of in classes if name == "program" for form in of)
    return bool(_SURVIVED.search(text)) and not error


def _ends_program(text: str, classes: _Classes) -> bool:
    """Return whether a line is the error of a program that no other class causes."""
    return any(
        form.match(text) for name, of in classes if name == "program" for form in of
    ) and not any(form.search(text) for name, of in classes if name != "program" for form in of)


def decide(before: t.Sequence[Json], end: End, policy: Json) -> Decision:
    """Return whether a try is repeated.

    before: the records of the tries of this job that failed, the oldest first. A try that came further than all
    before it made progress, and the count begins again.
    """
    furthest = -1
    since: list[Json] = []
    for one in before:
        step = one["step"]
        if step is not None and step > furthest:
            furthest, since = step, []
        since.append(one)
    if end.step is not None and end.step > furthest:
        since = []
    times = next(one["times"] for one in policy["classes"] if one["name"] == end.kind)
    allowed = policy["retries"] if times is None else min(times, policy["retries"])
    same = [one for one in since if one["class"] == end.kind]
    if not allowed:
        return Decision(False, f"the policy does not retry class {end.kind}")
    if len(before) >= policy["most"]:
        return Decision(False, f"{len(before)} retries, the most that the policy allows in all")
    last = before[-1] if before else None
    here = end.step is not None and end.kind != "node"
    this = (end.kind, end.step, shape(end.said))
    if last and here and this == (last["class"], last["step"], shape(last["said"])):
        return Decision(False, f"the same failure at step {end.step} twice")
    if len(same) >= allowed:
        return Decision(False, f"class {end.kind} was retried {_times(len(same))} without progress")
    if len(since) >= policy["retries"]:
        return Decision(False, f"{len(since)} retries without progress")
    return Decision(True, "", min(_LONGEST_PAUSE, policy["wait"] * 2 ** min(len(since), 20)))


def shape(said: str) -> str:
    """Return a message without its numbers, so that two of the same error are alike."""
    return re.sub(r"0x[0-9a-fA-F]+|\d+", "N", said)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


class Plan(t.NamedTuple):
    """Where the next try runs. how: retry, requeue, or end. nodes: of the next try; out: left out of it."""

    how: str
    nodes: list[str]
    out: list[str]


def place(nodes: t.Sequence[str], wanted: int, dead: t.Collection[str], odd: t.Collection[str],
          others: int, named: t.Collection[str] = ()) -> Plan:  # fmt: skip
    """Return where the next try runs.

    nodes: of the allocation. dead: those of them that cannot be used. odd: those that are suspects and could be
    used. others: nodes outside of the allocation that could take the job. named: nodes that the job asks for by name.
    A node is left out only where another one takes its place; one that is dead is never used.
    """
    bad = [node for node in nodes if node in dead or node in odd]
    good = [node for node in nodes if node not in bad]
    if len(good) >= wanted:
        return Plan("retry", good[:wanted], bad)
    # A job that asks for a node and must not have it would wait forever.
    out = [node for node in bad if node not in named]
    kept = [node for node in bad if node in named and node not in dead]
    if out and len(good) + len(kept) + others >= wanted:
        return Plan("requeue", [], out)
    usable = [node for node in nodes if node not in dead]
    if len(usable) >= wanted:
        return Plan("retry", usable[:wanted], [one for one in nodes if one in dead])
    # Slurm waits for the node, or finds another one.
    return Plan("requeue", [], [])


#: The start of a try where the record has none.
NO_START: Json = {"try": 0, "offsets": {}, "nodes": [], "boots": {}, "restart": 0, "time": 0}
_EVENTS = ("start", "mark", "end", "requeued")
_COUNTS = ("try", "restart", "time", "pause", "seconds")  # of an event
_NAMES = ("nodes", "next", "out", "suspects")


def sound(event: t.Any) -> bool:
    """Whether a line of the record is an event whose values can be used; anybody may have written it."""
    if not isinstance(event, dict) or event.get("event") not in _EVENTS:
        return False
    if event["event"] == "mark" and event.get("class") not in ("hang", "node"):
        return False
    offsets, boots = event.get("offsets", {}), event.get("boots", {})
    return (
        isinstance(event.get("said", ""), str)
        and all(_count(event.get(name, 0)) for name in _COUNTS)
        and all(_texts(event.get(name, [])) for name in _NAMES)
        and isinstance(offsets, dict) and all(map(_count, offsets.values()))
        and isinstance(boots, dict) and _texts(list(boots.values()))
    )  # fmt: skip


def _count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _texts(value: t.Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def line(event: Json) -> str:
    """Return the record of a failed try as a line for people."""
    at = "" if event["step"] is None else f" at step {event['step']}"
    text = f"try {event['try']} ended{at}: {event['class']}" + (
        f": {event['said']}" if event["said"] else ""
    )
    # "c2: started again" may be the failure itself.
    new = [one for one in event["suspects"] if one.replace(": ", " ", 1) not in event["said"]]
    text += f"; {', '.join(new)}" if new else ""
    if event["action"] == "end":
        return f"{text} -> not retried: {event['why']}"
    again = "tried again" if event["action"] == "retry" else "returned to the queue"
    after = f" after {event['pause']} s" if event["pause"] else ""
    out = f", without {', '.join(event['out'])}" if event["out"] else ""
    return f"{text} -> {again}{after}{out}"
