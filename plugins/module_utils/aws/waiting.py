# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Waiting for AWS resources without a waiter: poll until it is done or time is up."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

from .errors import AwsProblem

T = t.TypeVar("T")


@dataclass
class Wait:
    """For how long to look, and how often; one instance has one time budget, whatever is waited for.

    Attributes:
        seconds: at most so long in all, from the first look.
        pause: seconds between looks, growing by half each time up to `longest`.
        sleep, now: the clock.
    """

    seconds: float
    pause: float = 5
    longest: float = 30
    sleep: t.Callable[[float], None] = time.sleep
    now: t.Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._end: float | None = None

    def until(
        self, look: t.Callable[[], T], done: t.Callable[[T], bool], still: t.Callable[[T], str]
    ) -> T:
        """Look until `done` accepts what was seen, and return that.

        Args:
            still: describes the last seen state, for the message when time is up.
        Raises:
            AwsProblem: time is up. What `look` raises passes through.
        """
        if self._end is None:
            self._end = self.now() + self.seconds
        pause = self.pause
        while True:
            seen = look()
            if done(seen):
                return seen
            left = self._end - self.now()
            if left <= 0:
                raise AwsProblem(
                    f"{still(seen)} after {self.seconds:g} s -> it goes on in AWS: run again to wait on, or give a "
                    "longer wait_timeout",
                    code="timeout",
                )
            self.sleep(min(pause, left))
            pause = min(pause * 1.5, self.longest)
