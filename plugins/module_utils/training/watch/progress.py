# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads from a job's log how far its training is: steps, loss, speed. Pure.

The known forms of its lines are in forms.py. Lines may have the labels of `srun -l` and of torchrun.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import calendar
import math
import re
import statistics
import typing as t
from dataclasses import dataclass, field

from . import forms

#: Groups that a pattern of a user's may have.
GROUPS = ("step", "total", "loss", "rate", "lr")

# Words in every line of _MARK, in lower case.
_MARKS = ("resum", "going on after", "cancelled at")
#: Lines after which steps may go back: Slurm ended a step or a job, a training resumes.
_MARK = re.compile(
    r"\bresum(?:e|ed|ing)\b|\bgoing on after step\b|\*\*\* (?:JOB|STEP) .* CANCELLED AT ",
    re.IGNORECASE,
)
_NOT_TRAINING = re.compile(r"(?:\beval\w*|\bvalid\w*|\bval|\btest\w*)[\s:_\]-]*$", re.IGNORECASE)
_LABEL = re.compile(r"(?:\s*(?P<task>\d+): ?)?(?:\[(?:rank|default)(?P<rank>\d+)\]:? ?)?")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_LONGEST = 4000  # characters of a line that are read
_LATEST = 50  # points that the speed is taken from
_NEAR_END = 1000  # lines that the time of the last one is looked for in
_SILENT = 3  # points of another rank after which the first counts as gone


class PatternError(ValueError):
    """A pattern of a user's that cannot be used: what, why and the remedy."""


@dataclass(frozen=True)
class Point:
    """One step. time: seconds since 1970 by the log's own clock, good for differences only."""

    step: int
    total: int | None = None
    loss: float | None = None  # may be nan or infinite
    samples_per_second: float | None = None
    learning_rate: float | None = None
    seconds: float | None = None  # of one step, if the log has it
    line: int = 0  # in the text that was read, from 1
    time: float | None = None


@dataclass(frozen=True)
class Progress:
    """Progress read from a log. points: one a step, in their order, each step greater than the one before."""

    points: tuple[Point, ...] = ()
    #: Whether the log lacks steps, so that `step` counts the lines with a loss.
    counted: bool = False
    #: How often steps went back, as they do when a job starts again.
    restarts: int = 0
    #: First line since they last went back.
    since: int = 0
    #: Time of the last line that has one.
    last_time: float | None = None

    @property
    def last(self) -> Point | None:
        """The newest step."""
        return self.points[-1] if self.points else None

    @property
    def total(self) -> int | None:
        """Total number of steps, if the log has it."""
        return next((p.total for p in reversed(self.points) if p.total), None)

    @property
    def nan_since(self) -> int | None:
        """The step since which no loss is a number; None while the newest one is."""
        found = None
        for point in reversed(self.points):
            if point.loss is None:
                continue
            if math.isfinite(point.loss):
                break
            found = point.step
        return found

    @property
    def seconds_per_step(self) -> float | None:
        """From the log, else from its times; of the newest steps. None without either."""
        run = [point for point in self.points if point.line >= self.since][-_LATEST:]
        given = [point.seconds for point in run if point.seconds]
        if given:
            return statistics.median(given)
        timed = [point for point in run if point.time is not None]
        if len(timed) < 2:
            return None
        first, last = timed[0], timed[-1]
        length = t.cast("float", last.time) - t.cast("float", first.time)
        return length / (last.step - first.step) if length > 0 else None


def finite(value: float | None) -> float | None:
    """Return a value that is a number; None for infinity and what is none, which JSON cannot have."""
    return value if value is not None and math.isfinite(value) else None


def own_patterns(texts: t.Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """Compile a user's patterns. Raises PatternError."""
    found = []
    for text in texts:
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise PatternError(
                f"patterns: {text!r}: {error} -> write a regular expression of Python, such as "
                r"step=(?P<step>\d+) loss=(?P<loss>\S+)"
            ) from None
        strange = sorted(set(pattern.groupindex) - set(GROUPS))
        if strange:
            raise PatternError(
                f"patterns: {text!r}: no value is called {', '.join(strange)} -> name its groups "
                f"{', '.join(GROUPS)}"
            )
        if not {"step", "loss"} & set(pattern.groupindex):
            raise PatternError(
                f"patterns: {text!r}: finds neither a step nor a loss -> name a group of it, as in "
                r"(?P<step>\d+)"
            )
        found.append(pattern)
    return tuple(found)


def labelled(line: str) -> tuple[str, str, str]:
    """Return task (of `srun -l`), rank (of torchrun), each "" without, and the text after them."""
    match = _LABEL.match(line)
    if not match:
        return "", "", line
    return match["task"] or "", match["rank"] or "", line[match.end() :]


def moment(text: str) -> float | None:
    """Return the time at the beginning of a line, taken as if it were UTC; None where it has none."""
    match = _TIME.search(text[:100])
    if not match:
        return None
    parts = tuple(int(match[n]) for n in range(1, 7))
    try:
        return calendar.timegm((*parts, 0, 0, 0)) + float(f"0.{match[7] or 0}")
    except ValueError:
        return None


def read(lines: t.Iterable[str], patterns: t.Sequence[re.Pattern[str]] = ()) -> Progress:
    """Return the progress in the lines of a log. patterns: used instead of the known forms. Raises nothing.

    If several ranks write the same steps, the first one counts, until it stops writing.
    """
    streams: dict[str, _Stream] = {}
    marks: list[int] = []
    lines = list(lines)
    for number, line in enumerate(lines, 1):
        task, rank, rest = labelled(line)
        for text in rest.rstrip("\r\n").split("\r"):
            text = text[:_LONGEST]
            small = text.lower()
            if any(word in small for word in _MARKS) and _MARK.search(text):
                marks.append(number)
            if not patterns and not any(word in small for word in forms.WORDS):
                continue
            stream = streams.get(f"{task}.{rank}") or _Stream()
            if stream.take(_ESCAPE.sub("", text), number, patterns):
                streams.setdefault(f"{task}.{rank}", stream)
    last_time = next(filter(None, map(moment, reversed(lines[-_NEAR_END:]))), None)
    series = [(stream, stream.points()) for stream in streams.values()]
    # A bar without a loss counts where no rank writes one.
    found = [one for one in series if any(point.loss is not None for point in one[1])]
    found = found or [one for one in series if one[1]]
    if not found:
        return Progress(last_time=last_time)
    chosen = _followed(found[0][1], marks)
    for _stream, other in found[1:]:
        chosen = _gone_on(chosen, other, marks)
    counted = found[0][0].counts
    return Progress(tuple(chosen.points), counted, chosen.restarts, chosen.since, last_time)


@dataclass
class _Bar:
    """A bar that may be that of a training."""

    what: str
    point: Point


@dataclass
class _Stream:
    """The progress in the lines of one rank."""

    steps: list[Point] = field(default_factory=list)  # with their step
    losses: list[Point] = field(default_factory=list)  # without one; step is 0
    bars: list[_Bar] = field(default_factory=list)
    places: list[_Bar] = field(default_factory=list)  # steps that other lines may have the loss of
    epoch: str = ""  # that bars without a name of their own belong to
    form: tuple[re.Pattern[str], ...] = ()  # of its last line

    @property
    def counts(self) -> bool:
        """Whether its steps are lines that are counted."""
        return not (self.steps or self.bars or self.places)

    def take(self, text: str, line: int, patterns: t.Sequence[re.Pattern[str]]) -> bool:
        """Process a line of a training, and return whether it is one."""
        # Most lines are as the one before.
        for form in (*self.form, *(patterns or forms.STEPS)):
            match = form.search(text)
            if not match or _NOT_TRAINING.search(text[: match.start()][-20:]):
                continue
            point = _point(match.groupdict(), line, moment(text))
            if point is None:
                continue
            self.form = (form,)
            (self.steps if point.step else self.losses).append(point)
            return True
        return not patterns and self._take_place(text, line)

    def _take_place(self, text: str, line: int) -> bool:
        """Process a line whose step is one of an epoch, or comes without a loss."""
        if forms.EPOCH_LINE.match(text):
            self.epoch = text.strip()
            return True
        for form in (*forms.BARS, *forms.PLACES):
            match = form.search(text)
            if not match or _NOT_TRAINING.search(text[: match.start()][-20:]):
                continue
            said = match.groupdict()
            point = _point(said, line, moment(text))
            if point is not None:
                kind = self.places if form in forms.PLACES else self.bars
                kind.append(_Bar(_epoch(said) or self.epoch, point))
            return point is not None
        return "%|" in text and self._take_bar(text, line)

    def _take_bar(self, text: str, line: int) -> bool:
        match = forms.BAR.search(text)
        loss = match and forms.BAR_LOSS.search(match["rest"])
        if not match or not (loss or not match["what"] or forms.EPOCH.match(match["what"])):
            return False
        step = forms.BAR_STEP.search(match["rest"])
        values = {"step": match["step"], "total": match["total"], "loss": loss and loss[1]}
        values = {**values, "step": step[1], "total": None} if step else values
        point = _point(values, line, moment(text), _pace(match["speed"], match["unit"]))
        if point is None:
            return False
        if step:
            self.steps.append(point)
        else:
            self.bars.append(_Bar(match["what"] or "", point))
        return True

    def points(self) -> list[Point]:
        """Every point, in the order of the log, with its step."""
        if self.steps:
            return self.steps
        bars = self.bars or self.places
        return self._numbered(bars) if self.losses else _of_bars(bars)

    def _numbered(self, beside: t.Sequence[_Bar]) -> list[Point]:
        """Give losses the steps of the bar beside them.

        The losses may come late and several at once, when the output is buffered: then they lie
        evenly between the bar's places. Without a bar they are counted.
        """
        first = self.losses[0].line
        before = [one.point for one in beside if one.point.line <= first]
        bars = before[-1:] or [one.point for one in beside][:1]
        if not bars:
            return [_replaced(point, n, None) for n, point in enumerate(self.losses, 1)]
        total = bars[0].total
        places = [one.point for one in beside if one.point.total == total]
        groups: list[tuple[Point, list[Point]]] = []
        at = 0
        for loss in self.losses:
            while at + 1 < len(places) and places[at + 1].line <= loss.line:
                at += 1
            if not groups or groups[-1][0] is not places[at]:
                groups.append((places[at], []))
            groups[-1][1].append(loss)
        found: list[Point] = []
        for place, losses in groups:
            last = found[-1].step if found else 0
            last = last if last < place.step else max(0, place.step - len(losses))
            for n, loss in enumerate(losses, 1):
                step = max(1, last + round((place.step - last) * n / len(losses)))
                found.append(_replaced(loss, step, total, place.seconds))
        return found


def _of_bars(bars: t.Sequence[_Bar]) -> list[Point]:
    """Return the points of bars, which start again with each epoch."""
    epochs = [forms.EPOCH.match(one.what) for one in bars]
    base = min((int(match[1]) for match in epochs if match and match[2]), default=0)
    base = min(base, 1)
    found: list[Point] = []
    before, past = None, 0
    for one, match in zip(bars, epochs):
        point, each = one.point, one.point.total or 0
        if match:
            count = int(match[2]) + 1 - base if match[2] else 0
            past = (int(match[1]) - base) * each
            total = count * each or None
        else:
            if before and before.step >= (before.total or 0) and point.step < before.step:
                past += before.total or 0
            total = (each or None) if not past else None
        before = point
        found.append(_replaced(point, past + point.step, total))
    return found


@dataclass
class _Run:
    points: list[Point]
    restarts: int = 0
    since: int = 0


def _followed(points: t.Iterable[Point], marks: t.Sequence[int]) -> _Run:
    """Take points in their order; where steps go back, later points replace those before.

    A step that is one of the last two is another rank's, unless a mark lies between.
    """
    run = _Run([])
    waiting = list(marks)
    for point in points:
        marked = False
        while waiting and waiting[0] <= point.line:
            waiting.pop(0)
            marked = True
        if run.points and point.step <= run.points[-1].step:
            if not marked and point.step in [one.step for one in run.points[-2:]]:
                continue
            while run.points and run.points[-1].step >= point.step:
                run.points.pop()
            run.restarts += 1
            run.since = point.line
        run.points.append(point)
    return run


def _gone_on(run: _Run, other: t.Sequence[Point], marks: t.Sequence[int]) -> _Run:
    """Go on with another rank's points where the one before wrote no more."""
    last = run.points[-1]
    later = [point for point in other if point.line > last.line]
    restarted = bool(later) and any(last.line < mark <= later[0].line for mark in marks)
    if not restarted:
        later = [point for point in later if point.step > last.step]
    if len(later) < _SILENT:
        return run
    whole = _followed([*run.points, *later], marks)
    return _Run(whole.points, run.restarts + whole.restarts, max(run.since, whole.since))


def _replaced(point: Point, step: int, total: int | None, seconds: float | None = None) -> Point:
    return Point(
        step,
        total,
        point.loss,
        point.samples_per_second,
        point.learning_rate,
        point.seconds or seconds,
        point.line,
        point.time,
    )


def _point(
    said: t.Mapping[str, str | None], line: int, when: float | None, seconds: float | None = None
) -> Point | None:
    """Make a point of a line's values; None where that is not a number, or no step was made yet."""
    try:
        step, total = (int((said.get(key) or "0").replace(",", "")) for key in ("step", "total"))
        loss, rate, lr, given, milliseconds, batch = (
            float(said[key] or "") if said.get(key) else None
            for key in ("loss", "rate", "lr", "seconds", "ms", "batch")
        )
    except ValueError:
        return None
    if not step and said.get("step") is not None:
        return None
    seconds = given or (milliseconds / 1000 if milliseconds else seconds)
    if rate is None and batch and seconds:
        rate = batch / seconds
    return Point(step, total or None, loss, rate, lr, seconds, line, when)


def _epoch(said: t.Mapping[str, str | None]) -> str:
    """Return the epoch of a line's values, as bars are named; "" without one."""
    if said.get("nth"):
        return f"Epoch {int(said['nth'] or 1) - 1}"
    of = f"/{said['epochs']}" if said.get("epochs") else ""
    return f"Epoch {said['epoch']}{of}" if said.get("epoch") else ""


def _pace(speed: str | None, unit: str | None) -> float | None:
    """Return the seconds of a step from a bar: 4.9it/s or 2.1s/it."""
    try:
        value = float(speed or 0)
    except ValueError:
        return None
    if not value or not unit:
        return None
    return value if unit.startswith("s/") else 1 / value
