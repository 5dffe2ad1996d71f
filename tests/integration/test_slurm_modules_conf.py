# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""slurm_conf on copies of real files, and the host list filters, held against Slurm itself."""

from __future__ import annotations

import random
import shlex
from typing import Any

import pytest

from .conftest import Converged
from .modules import run_tasks

MODULE = "trainwright.slurm.slurm_conf"
COPY = "/root/conf-copy"


def edit(name: str, path: str = f"{COPY}/slurm.conf", **task: Any) -> dict[str, Any]:
    """A task; options of the task itself begin with an underscore."""
    own = {key[1:]: value for key, value in task.items() if key.startswith("_")}
    options = {key: value for key, value in task.items() if not key.startswith("_")}
    return {"name": name, MODULE: {"path": path, **options}, **own}


def test_a_copy_of_slurm_conf_is_edited_as_slurm_reads_it(site: Converged) -> None:
    old = site.run("ctl1", "cat /etc/slurm/slurm.conf")
    site.run("ctl1", f"rm -rf {COPY} && mkdir {COPY} && cp -p /etc/slurm/*.conf {COPY}")
    wanted: dict[str, Any] = {
        "settings": {"KillWait": 31, "SchedulerParameters": {"bf_interval": 40, "defer": True}},
        "nodes": [{"name": "c1", "Weight": 7}, {"name": "new[1-2]", "CPUs": 2, "State": "FUTURE"}],
        "partitions": [{"name": "added", "Nodes": "c1,new[1-2]", "MaxTime": "1:00:00"}],
    }
    undo = {
        "settings": {"KillWait": 30},
        "nodes": [{"name": "new[1-2]", "state": "absent"}, {"name": "c1", "Weight": None}],
        "partitions": [{"name": "added", "state": "absent"}],
    }
    results = run_tasks(
        site,
        [
            edit("checked", **wanted, _check_mode=True, _diff=True),
            edit("done", **wanted, backup=True, _diff=True),
            edit("again", **wanted),
            edit("bad value", settings={"KillWait": "soon"}),
            edit("bad name", settings={"KillWaits": 1}),
            edit("loses jobs", settings={"StateSaveLocation": "/elsewhere"}),
            edit("no such node", partitions=[{"name": "added", "Nodes": "c[1-99]"}]),
            edit("in place", path="/etc/slurm/slurm.conf", **wanted, _check_mode=True),
        ],
    )
    done, old_slurm = results["done"], site.os == "debian12"
    assert results["checked"]["changed"] and done["changed"] and not results["again"]["changed"]
    assert results["checked"]["diff"] == done["diff"]
    # The JSON callback has a key `action` of its own; the steps have the same information.
    assert ("restart slurmctld" in done["next_steps"][0]) == old_slurm
    assert done["next_steps"][-1] == "scontrol reconfigure"
    assert done["version"].startswith("22.05" if old_slurm else "24.11")
    assert "KillWait" in results["bad value"]["msg"] and results["bad value"]["error"] == "invalid"
    assert "did you mean KillWait" in results["bad name"]["msg"]
    assert "allow_refused" in results["loses jobs"]["msg"]
    assert results["loses jobs"]["reasons"][0]["action"] == "refuse"
    assert "no NodeName line has" in results["no such node"]["msg"]
    assert results["in place"]["changed"]
    assert site.run("ctl1", "cat /etc/slurm/slurm.conf") == old
    assert site.run("ctl1", f"cat {done['backup_file']}") == old
    # Slurm's commands read the whole file before they do anything.
    read = f"SLURM_CONF={COPY}/slurm.conf scontrol show hostnames c1"
    assert site.run("ctl1", read).strip() == "c1"
    assert site.run("ctl1", f"stat -c %a:%U {COPY}/slurm.conf") == site.run(
        "ctl1", "stat -c %a:%U /etc/slurm/slurm.conf"
    )
    results = run_tasks(site, [edit("undone", **undo), edit("undone again", **undo)])
    assert results["undone"]["changed"] and not results["undone again"]["changed"]
    assert site.run("ctl1", read).strip() == "c1"
    site.run("ctl1", f"rm -r {COPY}")


@pytest.mark.systems("debian13")
def test_other_files_show_no_passwords(site: Converged) -> None:
    site.run("ctl1", f"rm -rf {COPY} && mkdir {COPY} && cp -p /etc/slurm/*.conf {COPY}")
    path = f"{COPY}/slurmdbd.conf"
    password = site.run("ctl1", f"sed -n s/^StoragePass=//p {path}").strip()
    results = run_tasks(
        site,
        [
            edit("database", path, secret_settings={"StoragePass": "s3cret-new"}, _diff=True),
            edit("database again", path, settings={"DebugLevel": "debug"}, _diff=True),
            edit("cgroup", f"{COPY}/cgroup.conf", settings={"AllowedRAMSpace": 99}),
        ],
    )
    assert password and password not in str(results) and "s3cret-new" not in str(results)
    assert results["database"]["next_steps"] == ["systemctl restart slurmdbd"]
    assert "s3cret-new" in site.run("ctl1", f"cat {path}")
    assert results["cgroup"]["next_steps"] == ["scontrol reconfigure"]
    site.run("ctl1", f"rm -r {COPY}")


def filtered(site: Converged, name: str, given: list[Any]) -> list[Any]:
    """The result of a filter for each of the values."""
    template = f"{{{{ given | map('trainwright.slurm.{name}') | list }}}}"
    task = {"name": name, "ansible.builtin.debug": {"msg": template}}
    made: list[Any] = run_tasks(site, [task], stop=True, given=given)[name]["msg"]
    return made


@pytest.mark.systems("debian12")
def test_host_lists_are_those_of_scontrol(site: Converged) -> None:
    chance = random.Random(7)
    named = [
        sorted(
            chance.choice(("c", "rack1-n", "gpu", "x")) + chance.choice((str(n), f"{n:03}"))
            for n in chance.sample(range(120), chance.randint(1, 9))
        )
        for _ in range(60)
    ]
    read = ["rack[1-2]n[01-03]", "a[1,3-4,9],b", "[7-9]", "c[01-99,100]"]
    written = ["c[1-2,10]", "c[09-10,100]", "r1n[1-2],r2n[1-2]", "a1b,a2b", "c[1,01-02]"]
    lists = [*filtered(site, "hostlist_compress", named), *read]
    commands = [f"scontrol show hostnames {shlex.quote(text)} | sort | xargs" for text in lists]
    commands += [f"scontrol show hostlist {shlex.quote(text)}" for text in written]
    script = "export LC_ALL=C\n" + "\n".join(commands)
    shown = site.run("ctl1", f"bash -c {shlex.quote(script)}").splitlines()
    expanded = [sorted(names) for names in filtered(site, "hostlist_expand", read)]
    assert shown[: len(lists)] == [" ".join(names) for names in [*named, *expanded]]
    assert shown[len(lists) :] == filtered(site, "hostlist_compress", written)
