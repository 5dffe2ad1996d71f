# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Takes up what a dpkg that was killed has left, so that apt works again; configuration files stay as they are.

dpkg keeps a journal while it works, and apt refuses to work until dpkg has read it. Packages that were unpacked are
configured, once what they need is there; those that were not unpacked whole (reinstreq) are unpacked again in their
version. Sources: dpkg(1), "Package states"; apt-get(8), --fix-broken; apt, apt-pkg/algorithms.cc, pkgApplyStatus.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import glob
import time
import typing as t
from fnmatch import fnmatchcase

from .packages import UNFINISHED

#: Runs a command and returns its exit code and all that it printed.
Run = t.Callable[[t.Sequence[str]], "tuple[int, str]"]
JOURNAL = "/var/lib/dpkg/updates/[0-9]*"
#: Of dpkg-query, for states().
FORM = "${db:Status-Status}\t${db:Status-Eflag}\t${Package}\t${Architecture}\t${Version}\n"
#: Keep each file that somebody has changed, and ask nobody.
CONFIGURATION = ("--force-confdef", "--force-confold")
_LOCKED = "locked by another process"
_POLL = 2.0
# apt unpacks nothing again while another package misses what it needs, and brings that beside one that is not whole.
_ROUNDS = 4


class States(t.NamedTuple):
    """unfinished: states by package, with its architecture. broken: versions by package that is not unpacked whole."""

    unfinished: dict[str, str]
    broken: dict[str, str]


def states(output: str) -> States:
    """Return the packages that dpkg has not finished, from the output of dpkg-query with FORM."""
    found = States({}, {})
    for line in output.splitlines():
        status, flag, name, architecture, version = (line.split("\t") + [""] * 5)[:5]
        full = f"{name}:{architecture}"
        if status in UNFINISHED:
            found.unfinished[full] = status
        if flag == "reinstreq":
            found.broken[full] = version
    return found


def interrupted(pattern: str = JOURNAL) -> bool:
    """Return whether dpkg has left its journal, as it does only where it is killed; or works now."""
    return bool(glob.glob(pattern))


def configure(run: Run, seconds: float) -> None:
    """Have dpkg read its journal, and configure what is unpacked. Waits so long for another package manager."""
    end = time.monotonic() + seconds
    while True:
        code, output = run(["dpkg", *CONFIGURATION, "--configure", "-a"])
        # A package that fails is for whoever installs next: apt-get names it then.
        if code == 0 or _LOCKED not in output or time.monotonic() >= end:
            return
        time.sleep(_POLL)


def _waits(found: States) -> bool:
    """Whether a package is unpacked, and what it needs is not there."""
    return "unpacked" in found.unfinished.values()


def take_up(run: Run, seconds: float, replaced: t.Collection[str] = ()) -> bool:
    """Finish what dpkg has not finished; return whether that changed something.

    seconds: to wait for another package manager. replaced: patterns of names that the caller installs next. Those
    of them that cannot be unpacked again go, since apt would not install anything beside them.
    """

    def look() -> States:
        return states(run(["dpkg-query", "-W", "-f", FORM])[1])

    before, journal = look(), interrupted()
    if not before.unfinished and not before.broken and not journal:
        return False
    configure(run, seconds)
    apt = ["apt-get", "--yes", *(f"-oDpkg::Options::={option}" for option in CONFIGURATION)]
    apt += ["--no-install-recommends", "--no-remove", "--fix-broken"]
    fetched = False
    for _round in range(_ROUNDS):
        found = look()
        for package, version in found.broken.items():
            run([*apt, "--allow-downgrades", "--reinstall", "install", f"{package}={version}"])
        now = look()
        if now.broken or _waits(now):
            run([*apt, "install"])
            now = look()
        if now == found and _waits(now) and not fetched:
            # The killed run may have been about to fetch them.
            run(["apt-get", "--quiet", "update"])
            fetched = True
        elif now == found or not (now.broken or _waits(now)):
            break
    for package in look().broken:
        name = package.partition(":")[0]
        if any(fnmatchcase(name, pattern) for pattern in replaced):
            # Not its configuration.
            run(["dpkg", "--remove", "--force-remove-reinstreq", "--force-depends", package])
    return look() != before or journal != interrupted()
