# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Power cuts of a controller under a stream of jobs: how long nobody answers, and what is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .site import Site, poll

#: Seconds. slurmctld collects changes of its state for so long before it writes them (SAVE_MAX_WAIT). A kill takes a
#: second or two.
UNSAVED = 5
#: Seconds that a backup which takes over waits for a slurmdbd that is lost too: two connections of 10 to 12 seconds.
DATABASE_WAIT = 23
_LOG = "/var/log/slurm/slurmctld.log"
_STREAM = "/home/alice/stream"
_SUBMIT = (
    f"cd {_STREAM}; while [ ! -e stop ]; do"
    " id=$(timeout 70 sbatch --parsable -J stream -n1 --mem=50M -t2 -o /dev/null --wrap 'sleep 1' 2>/dev/null)"
    ' && echo "$(date +%s.%N) $id" >>accepted; sleep 0.7; done'
)


@dataclass
class Cut:
    """A power cut of the primary; in seconds."""

    #: when power was cut
    at: list[float]
    #: from the cut until the backup was in charge
    takeover: float
    #: from the start of the host until the primary was in charge again
    give_back: float


@dataclass
class Stream:
    """Jobs that a user submits one after the other, with the times at which Slurm accepted them."""

    site: Site
    accepted: dict[str, float] = field(default_factory=dict)

    def lost(self, cuts: list[float]) -> tuple[list[str], list[str]]:
        """Return the jobs that Slurm no longer knows: those accepted shortly before a cut, and others."""
        known = set(self.site.run("ctl1", "squeue -h --states=all -o %A").split())
        unknown = [job for job in self.accepted if job not in known]
        soon = [
            job
            for job in unknown
            if any(-1 <= cut - self.accepted[job] <= UNSAVED + 2 for cut in cuts)
        ]
        return soon, [job for job in unknown if job not in soon]

    def records(self) -> dict[str, list[str]]:
        """Return the jobs of the stream by their state in sacct."""
        found: dict[str, list[str]] = {}
        for line in self._run(
            f"sacct -nPXD -j {','.join(self.accepted)} -o JobID,State"
        ).splitlines():
            job, state = line.split("|")
            found.setdefault(state.split()[0], []).append(job)
        return found

    def _run(self, command: str) -> str:
        return self.site.run("ctl1", command, check=False)


@contextmanager
def stream(site: Site) -> Iterator[Stream]:
    """A stream of short jobs of alice from the login node, while the block runs."""
    site.as_user(
        "alice",
        f"rm -rf {_STREAM}; mkdir {_STREAM}; (setsid bash -c '{_quoted()}' &) >/dev/null 2>&1 </dev/null",
    )
    made = Stream(site)
    try:
        yield made
    finally:
        site.as_user("alice", f"touch {_STREAM}/stop")
        time.sleep(2)
        lines = site.run("login1", f"cat {_STREAM}/accepted").splitlines()
        made.accepted.update({line.split()[1]: float(line.split()[0]) for line in lines})


def _quoted() -> str:
    return _SUBMIT.replace("'", "'\\''")


@contextmanager
def short_timeout(site: Site, seconds: int) -> Iterator[None]:
    """SlurmctldTimeout of both controllers while the block runs, behind site.yml's back.

    They forget no job meanwhile: after the 300 seconds of MinJobAge, a job that has ended would look like a lost one.
    """

    def put(command: str) -> None:
        for host in ("ctl2", "ctl1"):
            site.run(host, command)
        site.reconfigure()
        site.run("ctl2", "systemctl restart slurmctld")

    conf = "/etc/slurm/slurm.conf"
    put(
        f"cp -p {conf} {conf}.kept; sed -i 's/^SlurmctldTimeout=.*/SlurmctldTimeout={seconds}/;"
        f" s/^MinJobAge=.*/MinJobAge=86400/' {conf}; grep -q ^MinJobAge=86400 {conf}"
    )
    try:
        poll("the backup to be the standby", lambda: standby(site), 30)
        yield
    finally:
        put(f"mv {conf}.kept {conf}")


def resume(site: Site) -> list[str]:
    """Resume and return the nodes that Slurm drained: a job that had just started there was started again."""
    nodes = site.run(
        "ctl1", "sinfo -hN -o '%N %E' | awk '/Duplicate jobid/ {print $1}' | sort -u"
    ).split()
    for node in nodes:
        site.run("ctl1", f"scontrol update nodename={node} state=resume")
    return nodes


def standby(site: Site) -> bool:
    """Whether both controllers answer, and the backup is not in charge."""
    said = site.run(
        "ctl2",
        f"scontrol ping; grep -oE '(background mode|Running as primary)' {_LOG} | tail -n1",
        check=False,
    )
    return said.count(" is UP") == 2 and said.endswith("background mode")


def _in_charge(site: Site, host: str, since: int) -> bool:
    """Whether the log of a host's slurmctld says, after its first `since` lines, that it runs the cluster."""
    return bool(
        site.run(
            host, f"tail -n +{since + 1} {_LOG} | grep 'Running as primary controller'", check=False
        )
    )


def _log_lines(site: Site, host: str) -> int:
    return int(site.run(host, f"wc -l <{_LOG}"))


def cut_primary(site: Site, timeout: int, backup_too: bool = False) -> Cut:
    """Cut the power of ctl1, wait for ctl2, start ctl1 again, and wait until both are as before.

    backup_too: ctl2 is cut in its turn when ctl1 starts. That is faster: Slurm 24.11 hands control back in 30 seconds.
    """
    before = {host: _log_lines(site, host) for host in ("ctl1", "ctl2")}
    site.cluster.kill("ctl1")
    at = time.time()
    try:
        poll(
            "the backup to take over",
            lambda: _in_charge(site, "ctl2", before["ctl2"]),
            3 * timeout + 60,
        )
        takeover = time.time() - at
        time.sleep(3)
        if backup_too:
            site.cluster.kill("ctl2")
    finally:
        started = time.time()
        site.cluster.start("ctl1")
    poll("the primary to be in charge", lambda: _in_charge(site, "ctl1", before["ctl1"]), 90)
    give_back = time.time() - started
    if backup_too:
        site.cluster.start("ctl2")
    poll("the backup to be the standby again", lambda: standby(site), 60)
    return Cut([at, started] if backup_too else [at], takeover, give_back)


def cut_backup(site: Site) -> None:
    """Cut the power of ctl2, start it, and wait until it is the standby again."""
    site.cluster.kill("ctl2")
    site.cluster.start("ctl2")
    poll("the backup to be the standby again", lambda: standby(site), 60)
