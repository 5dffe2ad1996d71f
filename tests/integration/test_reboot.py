# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""reboot.yml under a stream of jobs. A container cannot reboot: another /sbin/reboot restarts slurmd with -b.

tests/integration/machines/test_reboot.py reboots a real machine.
"""

from __future__ import annotations

import json
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from .conftest import Converged
from .site import Site, poll, sample
from .test_kills import kill_tree

pytestmark = pytest.mark.systems("debian12")

# slurmd registers as after a boot, which empties /run.
BOOTED = r"""rm -rf /run/trainwright/reboot-required
sed -i 's/^SLURMD_OPTIONS="/&-b /' /etc/default/slurmd
systemctl restart slurmd
sed -i 's/^SLURMD_OPTIONS="-b /SLURMD_OPTIONS="/' /etc/default/slurmd
"""
# slurmctld takes a boot in the second of its request for an older one.
REBOOT = f"""#!/bin/bash
echo reboot >>/var/tmp/reboots
[ ! -e /var/tmp/stays-away ] || exec systemctl --no-block stop slurmd
exec systemd-run --no-block --collect bash -c {shlex.quote("sleep 3; " + BOOTED)}
"""
NODES = ("c1", "c2")
FLAGS = {"reboot_boot_check": False, "reboot_timeout": 120}
LOCK = "/var/lib/trainwright/reboot.json"
# A run on another control host, as reboot_lock writes it.
ELSEWHERE = {
    "user": "mallory",
    "host": "login9",
    "machine": "0" * 32,
    "boot": "00000000-0000-0000-0000-000000000000",
    "pid_namespace": "pid:[4026531836]",
    "pid": 4711,
    "started": 1,
    "since": 1_700_000_000,
}


@pytest.fixture(scope="module")
def rebooting(site: Converged) -> Iterator[Converged]:
    """The cluster, whose compute nodes have another /sbin/reboot."""
    site.end_all_jobs()
    for node in NODES:
        site.run(
            node, f"rm /sbin/reboot; cat >/sbin/reboot <<'END'\n{REBOOT}END\nchmod 755 /sbin/reboot"
        )
    yield site
    site.end_all_jobs()
    site.run("ctl1", f"rm -f {LOCK}")
    for node in NODES:
        site.run(
            node, "ln -sf ../bin/systemctl /sbin/reboot; rm -rf /var/tmp/reboots /run/trainwright"
        )
        site.wait_node(node, "idle")


def reboots(site: Converged, node: str) -> int:
    return int(site.run(node, "cat /var/tmp/reboots 2>/dev/null | wc -l"))


def lock(site: Converged) -> str:
    return site.run("ctl1", f"cat {LOCK} 2>/dev/null || true")


def why(site: Converged, node: str) -> str:
    found = re.search(r"Reason=(.*)", site.run("ctl1", f"scontrol show node {node}"))
    return found[1] if found else ""


class Usable(NamedTuple):
    """How many nodes could take a job, and what each of them was."""

    nodes: int
    states: str


def usable(site: Site) -> Usable:
    """An idle node that the scheduler has chosen for a waiting job is "planned", and a mixed one "mixed-"."""
    states = site.run("ctl1", "sinfo -hN -o '%N %T' | sort -u")
    able = ("idle", "planned", "mixed", "allocated", "completing")
    count = sum(line.split()[1].rstrip("-") in able for line in states.splitlines())
    return Usable(count, " ".join(states.split()))


@contextmanager
def jobs(site: Site) -> Iterator[tuple[list[str], list[Usable]]]:
    """Jobs on either node all the time; their ids, and how many nodes could take one."""
    submitted: list[str] = []
    capacity: list[Usable] = []
    stop = threading.Event()

    def stream() -> None:
        while not stop.is_set():
            submitted.append(site.sbatch("sleep 2", "--nodes=1 --time=5"))
            capacity.append(usable(site))

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        yield submitted, capacity
    finally:
        stop.set()
        thread.join()


def test_nothing_is_rebooted_without_a_confirmation(rebooting: Converged) -> None:
    site = rebooting
    wrong: list[tuple[dict[str, object], str]] = [
        ({"nodes": "c1", "reason": "new kernel"}, "add -e confirm=yes"),
        ({"nodes": "c9", "confirm": True}, "c9: not in the group slurm_cluster"),
        (
            {"nodes": "c1", "confirm": True, "reboot_at_once": 0},
            "neither a number nor a percentage",
        ),
        ({"nodes": "c1", "confirm": True, "reboot_timeout": "soon"}, "unable to convert to int"),
        ({"nodes": "c1", "confirm": True, "reboot_timeout": 0}, "reboot_timeout: is too small"),
    ]
    for arguments, said in wrong[: sample(2, len(wrong))]:
        refused = site.play("reboot.yml", rc=2, **{**FLAGS, **arguments})
        assert said in refused.output and not refused.changed, refused.output
    for node in NODES:
        site.run(node, "mkdir -p /run/trainwright/reboot-required")
    site.run("c2", "echo 'credits of ksocklnd' >/run/trainwright/reboot-required/lustre_client")
    planned = site.play("reboot.yml", "--check", **FLAGS)
    assert "c2: lustre_client: credits of ksocklnd" in planned.output and not planned.changed
    # Without the controller among the hosts of the run, the node is still one of Slurm's.
    limited = site.play(
        "reboot.yml", "--limit", "c2", rc=2, confirm=True, reboot_min_usable=2, **FLAGS
    )
    assert "1 nodes would stay usable" in limited.output
    assert [reboots(site, node) for node in NODES] == [0, 0]
    too_few = site.play("reboot.yml", rc=2, confirm=True, reboot_min_usable=2, **FLAGS)
    assert "1 nodes would stay usable" in too_few.output
    assert [reboots(site, node) for node in NODES] == [0, 0] and not why(site, "c2")
    assert not lock(site), "a run that was refused gives the lock back"


@pytest.mark.soak("the unit tests have the lock")
def test_a_run_of_another_control_host_is_not_disturbed(rebooting: Converged) -> None:
    site = rebooting
    text = json.dumps(ELSEWHERE)
    site.run("ctl1", f"echo '{text}' >{LOCK}")
    options = {"nodes": "c1", "reason": "twice", "confirm": True, **FLAGS}
    who = "mallory on login9 (process 4711, since 2023-11-14 22:13:20 UTC)"
    refused = site.play("reboot.yml", rc=2, **options)
    assert f"reboot: {who} reboots hosts of this cluster now" in refused.output
    assert "add -e reboot_take_over=true" in refused.output and not refused.changed
    for arguments, rc in ((["--check"], 0), ([], 2)):
        told = site.play("reboot.yml", *arguments, rc=rc, **{**options, "confirm": bool(arguments)})
        assert f"{who} reboots hosts of this cluster now" in told.output and not told.changed
        assert "c1: twice" in told.output
    assert json.loads(lock(site)) == ELSEWHERE
    assert [(reboots(site, node), why(site, node)) for node in NODES] == [(0, "")] * 2

    # The one that was replaced would do the same before its next wave.
    site.run("c1", "mkdir -p /run/trainwright/reboot-required")
    taken = site.play("reboot.yml", reboot_take_over=True, **options)
    assert f"goes on in the place of {who}: reboot_take_over" in taken.output
    assert reboots(site, "c1") == 1 and not why(site, "c1") and not lock(site)
    site.run("c1", "rm /var/tmp/reboots")


@pytest.mark.soak("the unit tests have the lock")
def test_a_run_that_another_has_replaced_ends_before_its_next_wave(rebooting: Converged) -> None:
    site = rebooting
    options = {"nodes": "c[1-2]", "reason": "replaced", "confirm": True, **FLAGS}
    process = site.start_playbook("reboot.yml", **options)
    poll("the first reboot", lambda: sum(reboots(site, node) for node in NODES) == 1, 120)
    assert json.loads(lock(site))["pid"] == process.pid
    site.run("ctl1", f"echo '{json.dumps(ELSEWHERE)}' >{LOCK}")
    output, _ = process.communicate()
    assert process.returncode == 2 and "mallory on login9" in output, output
    assert sum(reboots(site, node) for node in NODES) == 1
    assert [why(site, node) for node in NODES] == ["", ""], "the first wave was given back"
    assert json.loads(lock(site)) == ELSEWHERE, "it is not this run's to give back"
    site.run("ctl1", f"truncate --size 0 {LOCK}")
    for node in NODES:
        site.run(node, "rm -rf /var/tmp/reboots /run/trainwright/reboot-required/person")


def test_nodes_reboot_one_by_one_under_jobs_and_an_ended_run_goes_on(rebooting: Converged) -> None:
    """All lose the reason that one had; the run is killed after the first node, and repeated as it was."""
    site = rebooting
    options = {"nodes": "c[1-2]", "reason": "new kernel", "confirm": True, **FLAGS}
    with jobs(site) as (submitted, capacity):
        process = site.start_playbook("reboot.yml", **options)
        poll("the first reboot", lambda: sum(reboots(site, node) for node in NODES) == 1, 120)
        kill_tree(process)
        assert json.loads(lock(site))["pid"] == process.pid
        second = site.play("reboot.yml", **options)
        assert f"(process {process.pid}, since " in second.output
        assert "which has ended" in second.output and not lock(site)
        assert [reboots(site, node) for node in NODES] == [1, 1], second.output
        assert min(capacity).nodes >= 1, min(capacity)
    assert [why(site, node) for node in NODES] == ["", ""]
    waiting = poll("the jobs to end", lambda: not site.run("ctl1", "squeue -h"), 120)
    assert waiting
    site.wait_completed_once(submitted)
    assert "no host waits" in site.play("reboot.yml", **FLAGS).output


def test_a_node_that_does_not_come_back_stays_drained_and_ends_the_run(
    rebooting: Converged,
) -> None:
    site = rebooting
    site.run("c1", "touch /var/tmp/stays-away")
    site.run("ctl1", "scontrol update nodename=c2 state=drain reason='rack 4'")
    before = [reboots(site, node) for node in NODES]
    options = {"nodes": "c[1-2]", "reason": "firmware", "confirm": True, **FLAGS}
    ended = site.play("reboot.yml", rc=2, **{**options, "reboot_timeout": 15})
    assert "c1: is not back after 15 s, and stays drained" in ended.output, ended.output
    assert why(site, "c1").startswith("tw:reboot:node: firmware")
    assert [reboots(site, node) for node in NODES] == [before[0] + 1, before[1]]
    assert not lock(site), "the run has ended"

    # A person repairs slurmd alone. It has booted, so the next run only verifies it: it lacks a mount of its fstab, and
    # the other node of the wave is rebooted and verified nevertheless.
    mount = "server:/late /late latefs _netdev 0 0"
    site.run("c1", f"rm /var/tmp/stays-away; {BOOTED}echo '{mount}' >>/etc/fstab")
    site.wait_node("c1", "drained")
    second = site.play("reboot.yml", rc=2, reboot_at_once=2, **options)
    assert "c1: is back, but in fstab, and not mounted: /late" in second.output, second.output
    assert "c2: given back; the run ends, since c1 failed" in second.output
    assert not lock(site)
    assert [reboots(site, node) for node in NODES] == [before[0] + 1, before[1] + 1]
    assert why(site, "c1").startswith("tw:reboot:node: firmware")
    assert "c2: rebooted, and stays drained: rack 4" in second.output
    assert why(site, "c2").startswith("rack 4")

    site.run("c1", "sed -i '/ latefs /d' /etc/fstab")
    site.play("reboot.yml", **options)
    assert [reboots(site, node) for node in NODES] == [before[0] + 1, before[1] + 1]
    assert not why(site, "c1") and why(site, "c2").startswith("rack 4")
    site.run("ctl1", "scontrol update nodename=c2 state=resume")
