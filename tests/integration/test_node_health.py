# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Health of nodes on a real cluster: slurmd runs the checks, the node publishes, the agent acts.

The hardware is a machine with 8 GPUs as files and fake tools, to which root's file on one node points the checks. The
corpus of tests/unit has all faults; here some of each kind go through Slurm.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.health.manifest import BUILT_IN

from tests.unit.plugins.module_utils.health.test_corpus import FAULTS, LOOK_ALIKES
from tests.unit.plugins.module_utils.health.world import World

from .conftest import Converged
from .site import Site, poll, sample

NODE = "c2"
PLACE = Path("/tmp/trainwright-health-fixtures")
CONFIG, PLACES = "/etc/trainwright/health.json", "/etc/trainwright/health-places.json"
AGENT = "/etc/trainwright/health-agent.json"
STATE = "/var/lib/trainwright/health/state.json"
BOOTED = "/run/trainwright-health-booted"
CYCLE = "/usr/lib/trainwright/health-cycle"
LOOKED = "journalctl -u trainwright-health-agent -n 20 --no-pager"
GOOD = "good"
# Those take seconds each, or the node has the program itself; the unit tests have them.
ELSEWHERE = {
    "enroot-missing",
    "slow-nvidia-smi",
    "own-check-that-hangs",
    "dead-fabric-manager-behind-Completed",
    "fabric-manager-still-starts",
}
pytestmark = pytest.mark.systems("debian12")


def fixtures() -> str:
    """An archive of all machines, each with its configuration, as they lie on the node."""
    shutil.rmtree(PLACE, ignore_errors=True)
    for name, change in {GOOD: None, **FAULTS, **LOOK_ALIKES}.items():
        directory = PLACE / name
        directory.mkdir(parents=True)
        world = World(directory)
        if change:
            change[0](world)
        host = world.build()
        config = {**world.config, "node": NODE}
        (directory / "health.json").write_text(json.dumps(config))
        places = {"root": host.root, "tools": list(host.tools)}
        (directory / "places.json").write_text(json.dumps(places))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        archive.add(PLACE, arcname=PLACE.name)
    shutil.rmtree(PLACE)
    return base64.b64encode(stream.getvalue()).decode()


def become(site: Site, name: str, then: str = "true") -> None:
    """Let the node be one of the machines, from its boot, and run a command there."""
    place = PLACE / name
    site.run(
        NODE,
        f"cp {place}/health.json {CONFIG} && cp {place}/places.json {PLACES}"
        f" && chown root: {CONFIG} {PLACES} && chmod 644 {CONFIG} {PLACES} && rm -f {STATE} {BOOTED} && {then}",
    )


def state(site: Site, before: str = "true") -> tuple[bool, str]:
    """Run a command on the controller; return whether the node is drained, and why."""
    shown = site.run("ctl1", f"{before} && scontrol show node {NODE}")
    reason = [line.split("Reason=", 1)[1] for line in shown.splitlines() if "Reason=" in line]
    return "+DRAIN" in shown, reason[0].split(" [")[0] if reason else ""


def looked(site: Site) -> tuple[bool, str]:
    """Return the same after the agent has looked."""
    return state(site, "systemctl start trainwright-health-agent")


def answers(site: Site) -> None:
    """Wait until slurmctld has heard of the node, which it has not for a moment after a resume."""
    poll(
        f"{NODE} to answer",
        lambda: "NOT_RESPONDING" not in site.run("ctl1", f"scontrol show node {NODE}"),
    )


def mode(site: Site, word: str, passes: int = 1) -> None:
    """Set what the agent does, and after how many passes it resumes."""
    checks = [{"name": name, "resume_after": passes} for name in BUILT_IN]
    config = json.loads(site.run("ctl1", f"cat {AGENT}"))
    text = json.dumps({**config, "mode": word, "checks": checks})
    site.cluster.local.ssh("ctl1", f"cat >{AGENT}", input=text)


@pytest.fixture(scope="module")
def machine(site: Converged) -> Iterator[Converged]:
    """The site with the machines on one node; the node is left as it was."""
    site.end_all_jobs()
    data = fixtures()
    site.run(NODE, f"cp {CONFIG} {CONFIG}.before; rm -rf {PLACE}")
    site.run("ctl1", f"cp {AGENT} {AGENT}.before")
    site.cluster.local.ssh(NODE, "base64 -d | tar -C /tmp -xz --no-same-owner", input=data)
    become(site, GOOD)
    yield site
    site.run("ctl1", f"mv {AGENT}.before {AGENT}; systemctl start trainwright-health-agent.timer")
    site.run(
        NODE,
        f"mv {CONFIG}.before {CONFIG}; rm -rf {PLACES} {PLACE} {STATE}",
    )
    site.run(NODE, CYCLE)
    if state(site)[0]:
        site.run("ctl1", f"scontrol update nodename={NODE} state=resume")


def test_slurm_runs_the_checks_and_the_nodes_publish(site: Converged) -> None:
    conf = site.run("ctl1", "scontrol show config | grep HealthCheck")
    assert "/usr/lib/trainwright/health-cycle" in conf and "300 sec" in conf
    for node in ("c1", "c2"):
        site.run(node, "systemctl restart slurmd")
        shown = poll(
            f"{node} to publish",
            lambda node=node: site.run("ctl1", f"scontrol show node {node} | grep Extra= || true"),
        )
        word = json.loads(shown.split("Extra=", 1)[1])
        assert (word["tw"], word["node"]) == (1, node) and word["ok"] > 5 and "bad" not in word
        results = json.loads(site.run(node, "cat /var/lib/trainwright/results/health.json"))
        assert results["suite"] == "health" and results["counts"]["FAIL"] == 0


def test_the_agent_is_removed_with_its_group(site: Converged, tmp_path: Path) -> None:
    """site.yml does this once the group is empty; the files come back as they were."""
    units = "/etc/systemd/system/trainwright-health-agent"
    files = f"{AGENT} {units}.service {units}.timer"
    play = tmp_path / "remove.yml"
    play.write_text(
        "- hosts: ctl1\n  gather_facts: false\n  become: true\n  tasks:\n    - ansible.builtin.import_role:\n"
        "        {name: trainwright.slurm.node_health, tasks_from: remove}\n"
    )
    site.run("ctl1", f"tar -C / -cf /root/agent.tar {files.replace(' /', ' ').lstrip('/')}")
    try:
        assert site.play(str(play), "--check").changed
        assert site.run("ctl1", "systemctl is-active trainwright-health-agent.timer") == "active"
        assert site.play(str(play)).changed
        left = f"ls {files} /var/lib/trainwright-health/metrics.prom"
        assert left.count(" ") == 4 and site.run("ctl1", f"{left} 2>/dev/null", check=False) == ""
        running = site.run("ctl1", "systemctl list-timers --all", check=False)
        assert "trainwright-health-agent" not in running
        assert not site.play(str(play)).changed
    finally:
        site.run(
            "ctl1",
            "tar -C / -xf /root/agent.tar && rm /root/agent.tar && systemctl daemon-reload"
            " && systemctl enable --now trainwright-health-agent.timer",
        )


def test_a_fault_drains_within_a_cycle_of_slurmd_and_a_repair_resumes(machine: Converged) -> None:
    """By slurmd's own cycle, at its start, and the agent's own timer."""
    site = machine
    become(site, "gpu-lost-with-exit-0")
    mode(site, "observe")
    site.run(NODE, "systemctl restart slurmd")
    poll("the agent to report", lambda: "would drain c2" in site.run(
        "ctl1", "cat /var/lib/trainwright-health/report.json"), 60)  # fmt: skip
    assert state(site) == (False, "")
    mode(site, "enforce")
    poll("the agent to drain", lambda: state(site)[0], 60)
    remedy = "reboot the node; replace the machine if it comes back"
    assert state(site)[1] == f"tw:health:gpu_count: 7 of 8 GPUs (lost: 3) -> {remedy}"
    mode(site, "enforce", passes=3)
    become(site, GOOD)
    for turn in range(3):
        assert state(site)[0], f"resumed after {turn} passes"
        site.run(NODE, CYCLE)
        looked(site)
    assert state(site) == (False, "")


def test_faults_drain_with_their_reason_and_look_alikes_do_not(machine: Converged) -> None:
    site = machine
    mode(site, "enforce")
    # A look that the timer began may have been before the cycle.
    site.run("ctl1", "systemctl stop trainwright-health-agent.timer")
    faults = [name for name in FAULTS if name not in ELSEWHERE]
    wrong = []
    for name in faults[:: sample(2, 1)]:
        # The agent leaves a node that does not answer to Slurm.
        answers(site)
        become(site, name, CYCLE)
        drained, reason = looked(site)
        if not (drained and reason.startswith("tw:health:") and " -> " in reason):
            wrong.append(f"{name}: {drained} {reason}")
        # A check of the site resumes after three passes. On a machine with other work, a cycle may not publish.
        become(site, GOOD)
        said = []
        for _turn in range(12):
            said.append(site.run(NODE, f"{CYCLE} 2>&1", check=False))
            if not looked(site)[0]:
                break
        else:
            wrong.append(f"{name}: not resumed: {state(site)} {said} {site.run('ctl1', LOOKED)}")
    for name in [name for name in LOOK_ALIKES if name not in ELSEWHERE][:: sample(2, 1)]:
        become(site, name, CYCLE)
        if looked(site)[0]:
            wrong.append(f"{name}: drained: {state(site)}")
    assert not wrong, "\n".join(wrong)


def test_the_drain_of_a_person_stays(machine: Converged) -> None:
    site = machine
    mode(site, "enforce")
    site.run("ctl1", f"scontrol update nodename={NODE} state=drain reason='bad fan, ask Ann'")
    for name in ("mount-missing", GOOD, GOOD):
        become(site, name, CYCLE)
        looked(site)
    assert state(site) == (True, "bad fan, ask Ann")
    site.run("ctl1", f"scontrol update nodename={NODE} state=resume")


def test_the_playbook_prints_a_table_and_ends_by_the_verdict(
    machine: Converged, tmp_path: Path
) -> None:
    site = machine
    become(site, GOOD)
    # It counts from where the command is typed.
    fine = site.play("health.yml", health_report=os.path.relpath(tmp_path, os.environ["PWD"]))
    assert "c2    gpu_count" in fine.output
    found = json.loads((tmp_path / "health.json").read_text())
    assert {one["host"] for one in found["results"]} == {"c1", "c2"} and not found["counts"]["FAIL"]
    become(site, "mount-missing")
    bad = site.play("health.yml", "--limit", "c2", rc=2)
    assert "c2: mounts FAIL: not mounted: /fsx -> mount it" in bad.output
    assert site.play("health.yml", "--limit", "c1").rc == 0


@pytest.mark.soak("a program that is not ours")
def test_lbnl_nhc_runs_in_place_of_the_checks(site: Converged, tmp_path: Path) -> None:
    """A substitute for its archive, of the same shape."""
    archive = tmp_path / "lbnl-nhc-1.4.99.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for name, text in {"nhc": '#!/bin/sh\necho "$@"\n', "scripts/lbnl_ps.nhc": ""}.items():
            member = tarfile.TarInfo(f"lbnl-nhc-1.4.99/{name}")
            member.size, member.mode = len(text), 0o644
            packed.addfile(member, io.BytesIO(text.encode()))
    given = {
        "artifact_mirror": str(tmp_path),
        "node_health_mode": "enforce",
        "node_health_nhc_conf": "* || check_fs_mount_rw -f /home",
        "node_health_nhc_version": "1.4.99",
        "node_health_nhc_sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    run = ("--tags", "node_health", "--limit", f"{NODE},slurm_controller")
    try:
        changed = site.play("site.yml", *run, **given).changed
        assert any(task.endswith("Give the directory its name") for _host, task in changed)
        place = "/usr/lib/trainwright/nhc-1.4.99"
        words = f"-c /etc/nhc/nhc.conf INCDIR={place}/scripts HELPERDIR={place}/helpers"
        assert site.run(NODE, CYCLE) == words
        assert given["node_health_nhc_conf"] in site.run(NODE, "cat /etc/nhc/nhc.conf")
        assert json.loads(site.run("ctl1", f"cat {AGENT}"))["mode"] == "observe"
        assert not site.play("site.yml", *run, **given).changed
    finally:
        site.play("site.yml", *run)
        site.run(NODE, "rm -rf /usr/lib/trainwright/nhc-1.4.99 /etc/nhc")
    assert site.run(NODE, CYCLE) == ""
