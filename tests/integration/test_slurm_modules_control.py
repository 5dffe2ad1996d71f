# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""slurm_info, slurm_node, slurm_partition and slurm_reservation on real clusters, through both transports.

Every cell of the capability table that this Slurm can do is done: check mode, make, change, no change,
remove. Every cell that it cannot is refused with the release that can. One playbook run does it all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from plugins.module_utils.slurm.client.capabilities import TABLE, can

from .conftest import Converged
from .modules import (
    DEAD,
    MAKE_DEAD,
    REST_PORT_URL,
    REST_URL,
    Results,
    Task,
    rest_token,
    run_tasks,
)

VERSION = {"debian12": "22.05", "debian13": "24.11"}
HEALTH = "tw:health:test: it is tested -> end the test"
CREATED = [(kind, name) for kind in ("res", "part") for name in ("twcli", "twkept")]


class Steps:
    """Tasks in order, and their expected results: changed or not, or the kind of error."""

    def __init__(self, version: str, rest: dict[str, str]) -> None:
        self.version = version
        self.rest = rest
        self.tasks: list[Task] = []
        self.expected: dict[str, bool | str] = {}

    def add(
        self,
        name: str,
        module: str,
        expected: bool | str,
        transport: str = "cli",
        operation: str = "",
        /,
        *,
        check: bool = False,
        **options: Any,
    ) -> None:
        """operation: what a change needs; where the transport cannot do it, it is impossible."""
        via = self.rest if transport == "rest" else {"transport": transport}
        title = f"{transport}: {module}: {name}{' (check)' if check else ''}"
        task: Task = {"name": title, f"trainwright.slurm.{module}": {**options, **via}}
        if check:
            task["check_mode"] = True
        if operation and not can(module, operation, self.version, transport):
            expected = "impossible"
        self.tasks.append(task)
        self.expected[title] = expected

    def change(
        self, name: str, module: str, transport: str, operation: str, /, **options: Any
    ) -> None:
        """Check mode, the change itself and a second run, or the refusal where it is impossible."""
        if can(module, operation, self.version, transport):
            self.add(name, module, True, transport, operation, check=True, **options)
        self.add(name, module, True, transport, operation, **options)
        if can(module, operation, self.version, transport):
            self.add(f"{name} again", module, False, transport, operation, **options)


def info_steps(steps: Steps, transport: str) -> None:
    possible = [
        name for name in TABLE["slurm_info"] if can("slurm_info", name, steps.version, transport)
    ]
    steps.add("all", "slurm_info", False, transport, gather=possible)
    for name in set(TABLE["slurm_info"]) - set(possible):
        steps.add(name, "slurm_info", False, transport, name, gather=[name])


def node_steps(steps: Steps, transport: str) -> None:
    def add(name: str, expected: bool = True, **options: Any) -> None:
        steps.add(name, "slurm_node", expected, transport, "update", names="c1", **options)

    wish = {"weight": 7, "comment": "it is tested", "features": ["twa", "twb"]}
    steps.change("settings", "slurm_node", transport, "update", names="c1", **wish)
    drain = {"state": "drained", "reason": HEALTH}
    steps.change("drain", "slurm_node", transport, "update", names="c1", **drain)
    if can("slurm_node", "update", steps.version, transport):
        add("fewer features", features=["twb"])
        add("settings back", weight=1, comment="", features=[])
        add("resume what is not ours", False, state="resumed")
        add("resume", state="resumed", owner="health", wait="idle", wait_timeout=60)
        add("resume again", False, state="resumed", owner="health")


def object_steps(
    steps: Steps, transport: str, module: str, one: dict[str, Any], more: dict[str, Any]
) -> None:
    """Make, change and remove; or read one that the commands made, where it is all that is possible."""
    name = f"tw{transport}"
    if not can(module, "create", steps.version, transport):
        steps.add("one to read", module, True, name="twkept", **one)
        steps.add("as it is", module, False, transport, name="twkept", **one)
        steps.add("make", module, True, transport, "create", name=name, **one)
        steps.add("change", module, True, transport, "update", name="twkept", **more)
        steps.add("remove", module, True, transport, "delete", name="twkept", state="absent")
        steps.add("one to read is gone", module, True, name="twkept", state="absent")
        return
    steps.change("make", module, transport, "create", name=name, **one)
    steps.change("change", module, transport, "update", name=name, **more)
    steps.change("remove", module, transport, "delete", name=name, state="absent")


PARTITION = {"nodes": "c[1-2]", "max_time": "02:00:00"}
MORE_PARTITION = {"nodes": ["c1"], "max_time": "90", "allow_groups": ["root"], "priority_tier": 2}


def reservations() -> tuple[dict[str, Any], dict[str, Any]]:
    """A reservation a day from now, and another form of it."""
    start = time.strftime("%Y-%m-%dT%H:%M:00", time.gmtime(time.time() + 86400))
    one = {"start": start, "duration": "01:00:00", "nodes": "c1"}
    one |= {"users": ["root", "alice"], "flags": ["FLEX"]}
    more = {**one, "duration": "90", "nodes": ["c1", "c2"], "users": ["root"], "flags": ["MAINT"]}
    return one, more


def error_steps(steps: Steps) -> None:
    steps.add("wrong name", "slurm_node", "unknown", names="c11", state="resumed")
    steps.add(
        "wrong user",
        "slurm_reservation",
        "unknown",
        name="tw",
        duration="5",
        nodes="c1",
        users=["allice"],
    )
    steps.add("wrong qos", "slurm_partition", "unknown", name="stable", qos="norml")
    steps.add("a user", "slurm_node", "denied", names="c1", weight=9)
    steps.tasks[-1]["become_user"] = "alice"
    dead = {"slurm_conf": f"{DEAD}/slurm.conf", "controller_timeout": 0.1}
    steps.add("dead controller", "slurm_node", "down", names="c1", **dead)
    steps.add("no accounting", "slurm_info", "off", gather=["events"], **dead)
    steps.add("no commands", "slurm_info", "missing", slurm_prefix="/nowhere")
    steps.add("bad token", "slurm_info", "denied", "rest", gather=["nodes"])
    steps.tasks[-1]["trainwright.slurm.slurm_info"].update(rest_token="a.b.c")


@pytest.fixture(scope="module")
def walk(site: Converged) -> Iterator[tuple[Steps, Results]]:
    """The results of all steps."""
    rest = {"transport": "rest", "rest_url": REST_URL, "rest_token": rest_token(site)}
    steps = Steps(VERSION[site.os], rest)
    for transport in ("cli", "rest"):
        info_steps(steps, transport)
        node_steps(steps, transport)
        object_steps(steps, transport, "slurm_partition", PARTITION, MORE_PARTITION)
        object_steps(steps, transport, "slurm_reservation", *reservations())
    error_steps(steps)
    port = {**rest, "rest_url": REST_PORT_URL}
    auto = {**port, "transport": "auto", "slurm_prefix": "/nowhere"}
    for name, options in (("port", port), ("auto without commands", auto)):
        steps.add(name, "slurm_info", False, "rest", gather=["nodes"])
        steps.tasks[-1]["trainwright.slurm.slurm_info"].update(options)
    site.run("ctl1", MAKE_DEAD)
    try:
        yield steps, run_tasks(site, steps.tasks)
    finally:
        for kind, name in CREATED:
            site.run("ctl1", f"scontrol delete {kind}={name}", check=False)
        site.run("ctl1", f"rm -r {DEAD}; scontrol update nodename=c1 state=resume", check=False)


def test_every_step_did_what_the_table_says(walk: tuple[Steps, Results]) -> None:
    steps, results = walk
    wrong = []
    for name, expected in steps.expected.items():
        result = results.get(name, {"msg": "it was not run"})
        got = result.get("error", "failed") if result.get("failed") else result.get("changed")
        if got != expected:
            wrong.append(
                f"{name}: {got} and not {expected}: {result.get('msg') or result.get('diff')}"
            )
    assert not wrong, "\n".join(wrong)


def test_what_is_impossible_names_the_release_that_can(walk: tuple[Steps, Results]) -> None:
    steps, results = walk
    said = {n: results[n].get("msg", "") for n, e in steps.expected.items() if e == "impossible"}
    assert said
    for name, message in said.items():
        assert f"slurmrestd of Slurm {steps.version} cannot do" in message, name
        assert ("can -> use transport" in message) or "no version can so far" in message, name


def test_check_mode_says_what_the_change_then_does(walk: tuple[Steps, Results]) -> None:
    steps, results = walk
    pairs = [name for name in results if f"{name} (check)" in results]
    assert pairs
    for name in pairs:
        if steps.expected[name] is True:
            assert results[f"{name} (check)"].get("diff") == results[name].get("diff"), name


def test_both_transports_read_the_same(walk: tuple[Steps, Results]) -> None:
    steps, results = walk
    nodes = [results[f"{way}: slurm_info: all"]["nodes"] for way in ("cli", "rest")]
    for name in ("rest: slurm_info: port", "rest: slurm_info: auto without commands"):
        nodes.append(results[name]["nodes"])
    # Not the version: after a failover it is known only when the node has registered again.
    keys = ("name", "cpus", "memory", "gres", "partitions", "features")
    shown = [json.dumps([{key: node[key] for key in keys} for node in one]) for one in nodes]
    assert len(set(shown)) == 1, "\n".join(shown)


def test_errors_say_what_to_do_and_no_token(walk: tuple[Steps, Results]) -> None:
    steps, results = walk
    failed = {name: result["msg"] for name, result in results.items() if result.get("failed")}
    for name, message in failed.items():
        assert " -> " in message and "\n" not in message, name
        assert steps.rest["rest_token"] not in message, name
    assert "did you mean c1" in failed["cli: slurm_node: wrong name"]
    assert "did you mean alice" in failed["cli: slurm_reservation: wrong user"]
    assert "did you mean normal" in failed["cli: slurm_partition: wrong qos"]
    assert "(as alice)" in failed["cli: slurm_node: a user"]


def test_a_reboot_waits_for_the_jobs_of_the_node(site: Converged) -> None:
    """It is asked for while a job runs, and taken back: no container is rebooted."""
    job = site.sbatch("sleep 120", "-N1 -w c2 -J twreboot")
    try:
        site.wait_job(job, ["RUNNING"])
        wish = {"names": "c2", "state": "rebooted", "reboot_asap": False, "reason": "tested"}
        tasks: list[Task] = [
            {"name": "check", "trainwright.slurm.slurm_node": wish, "check_mode": True},
            {"name": "reboot", "trainwright.slurm.slurm_node": wish},
            {"name": "again", "trainwright.slurm.slurm_node": wish},
        ]
        results = run_tasks(site, tasks, stop=True)
        assert [results[name]["changed"] for name in ("check", "reboot", "again")] == [
            True,
            True,
            False,
        ]
        assert "REBOOT_REQUESTED" in results["reboot"]["nodes"][0]["flags"]
        assert results["check"]["diff"] == results["reboot"]["diff"]
    finally:
        site.run("ctl1", "scontrol cancel_reboot c2", check=False)
        site.run("ctl1", f"scancel {job}", check=False)
