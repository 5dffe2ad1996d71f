# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Drift on the real cluster, made from its hosts' own manifests: each is found, and the next run repairs it.

Each thing gets one fault, on all hosts at once, so two looks and one run are enough for all of them. What a fault would
break for the tests themselves (SSH, PAM, sudo) is left alone, and so is what a daemon reads at any moment.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.node import manifest

from .conftest import Converged
from .site import SOAK, Run, tail

DIRECTORY = "/var/lib/trainwright/manifest"
KEPT = "/run/drift-test"
#: Whatever is below stays as it is, except for what cannot do harm: its group.
LEFT_ALONE = (
    "/etc/ssh",
    "/etc/pam.d",
    "/etc/security",
    "/etc/sudoers",
    "/root",
    "/home",
    "/shared",
)
#: Files that nothing reads while no job runs and nobody logs in.
FREE = (
    "/usr/lib/trainwright/",
    "/usr/share/",
    "/etc/trainwright/",
    "/etc/enroot/",
    "/etc/logrotate.d/",
)
#: Units that may be down for a moment.
MAY_STOP = ("slurmd.service", "sackd.service")
MAY_DISABLE = (
    *MAY_STOP,
    "munge.service",
    "slurmctld.service",
    "slurmdbd.service",
    "mariadb.service",
)
#: Of one role, kind and fault, so many on one host.
MOST = 2


@dataclass(frozen=True)
class Fault:
    """One thing that becomes wrong on one host. do, undo: shell commands. repaired: whether site.yml does."""

    host: str
    kind: str
    name: str
    what: str
    role: str
    do: str
    undo: str
    repaired: bool = True


def entries_of(site: Converged, host: str) -> list[tuple[manifest.Entry, manifest.Item]]:
    """Return what counts of a host's manifest; every entry must be closed."""
    program = (
        f"import glob; print('\\0'.join(open(p).read() for p in glob.glob('{DIRECTORY}/*.json')))"
    )
    texts = site.run(host, f"python3 -c {shlex.quote(program)}").split("\0")
    found = []
    for text in texts:
        one = json.loads(text)
        assert one["state"] == "closed", (host, one["manager"], one["part"])
        names = ("manager", "part", "module", "version", "sequence", "items")
        found.append(manifest.Entry(*(one[name] for name in names)))
    return manifest.standing(sorted(found, key=lambda one: one.sequence))


def look(site: Converged, place: Path, rc: int | None) -> tuple[Run, list[dict[str, Any]]]:
    """Run drift.yml; return it and its results."""
    run = site.play("drift.yml", "-e", f"drift_report={place}", rc=rc)
    results = json.loads((place / "drift.json").read_text(encoding="utf-8"))["results"]
    return run, [one for one in results if one["check"] != "job_hooks"]


def saved(path: str) -> tuple[str, str]:
    """Return commands that keep a path with all of its attributes, and put it back."""
    copy = f"{KEPT}/{path.strip('/').replace('/', '%')}"
    keep = f"mkdir -p {KEPT}; cp -a {shlex.quote(path)} {shlex.quote(copy)}"
    # Never without a copy: what was not kept was not changed either.
    there = f"[ -e {shlex.quote(copy)} ] || [ -L {shlex.quote(copy)} ]"
    back = f"rm -rf {shlex.quote(path)}; cp -a {shlex.quote(copy)} {shlex.quote(path)}"
    return keep, f"if {there}; then {back}; fi"


def of_path(host: str, role: str, item: manifest.Item) -> Iterator[Fault]:
    """Yield the faults of a thing with a path."""
    kind, path = item["kind"], item["name"]
    quoted = shlex.quote(path)

    def fault(what: str, change: str, undo: str | None = None) -> Fault:
        keep, back = saved(path)
        do = change if undo else f"{keep}; {change}"
        return Fault(host, kind, path, what, role, do, undo or back)

    if kind == "directory":
        attributes = f"chown {item.get('uid', 0)}:{item.get('gid', 0)} {quoted}; chmod {item['mode']:o} {quoted}"
        if "only" in item:
            further = shlex.quote(f"{path}/further")
            yield fault("extra", f"touch {further}", f"rm -f {further}")
        if item["mode"] & 0o7 and not item["mode"] & 0o2:
            yield fault("mode", f"chmod {item['mode'] ^ 0o1000:o} {quoted}", attributes)
        return
    if kind == "absent":
        # An empty slurm.conf would be that of a Slurm of somebody else.
        if not path.startswith(("/etc/slurm", *LEFT_ALONE)):
            make = f"mkdir -p {shlex.quote(os.path.dirname(path))}; touch {quoted}"
            yield fault("extra", make, f"rm -rf {quoted}")
        return
    if path.startswith(LEFT_ALONE) or "munge.key" in path:
        return
    free = path.startswith(FREE)
    if kind == "link":
        target = shlex.quote(item["target"])
        yield fault("target", f"ln -sfn /nonexistent {quoted}", f"ln -sfn {target} {quoted}")
    if kind == "block":
        keep, back = saved(path)
        script = shlex.quote(f"s|^# BEGIN {item['marker']}$|&\\n# drift|")
        # In place: a container has a mount on /etc/hosts.
        change = f"{keep}; sed {script} {quoted} >{KEPT}/new; cat {KEPT}/new >{quoted}"
        yield Fault(host, kind, path, "content", role, change, back)
    if kind == "file":
        yield fault("group", f"chgrp {item.get('gid', 0) + 1} {quoted}")
        if free and item.get("size"):
            # The same size, and the same times.
            yield fault(
                "content",
                f"touch -r {quoted} {KEPT}/time; printf '\\001' | dd of={quoted} conv=notrunc status=none;"
                f" touch -r {KEPT}/time {quoted}",
            )
            yield fault("content", f"echo more >>{quoted}")
            yield fault("missing", f"rm {quoted}")
            if not path.startswith("/usr/lib/trainwright/"):
                yield fault("type", f"rm {quoted}; mkfifo {quoted}")
            yield fault("type", f"rm {quoted}; ln -s /etc/hostname {quoted}")
        yield fault("owner", f"chown 4242 {quoted}")
        if free:
            yield fault("mode", f"chmod {item['mode'] ^ 0o004:o} {quoted}")


def of_other(host: str, role: str, item: manifest.Item) -> Iterator[Fault]:
    """Yield the faults of a thing without a path."""
    kind, name = item["kind"], item["name"]
    quoted = shlex.quote(name)
    if kind == "unit" and item["enabled"] and name in MAY_DISABLE:
        yield Fault(
            host,
            kind,
            name,
            "enabled",
            role,
            f"systemctl disable -q {quoted}",
            f"systemctl enable -q {quoted}",
        )
    if kind == "unit" and item["state"] == "started" and name in MAY_STOP:
        yield Fault(
            host,
            kind,
            name,
            "active",
            role,
            f"systemctl stop {quoted}",
            f"systemctl start {quoted}",
        )
    if kind == "unit" and item["stamp"] and name in MAY_STOP:
        stamp = f"/var/lib/trainwright/stamps/{name}"
        keep, back = saved(stamp)
        yield Fault(host, kind, name, "started with", role, f"{keep}; echo hmac:0 >{stamp}", back)
    if kind == "package" and item["version"]:
        status = "/var/lib/dpkg/status"
        script = shlex.quote(f"/^Package: {name}$/,/^$/s/^Version: .*/Version: 0.drift-1/")
        back = shlex.quote(f"/^Package: {name}$/,/^$/s/^Version: .*/Version: {item['version']}/")
        undo = f"sed -i {back} {status}"
        yield Fault(
            host, kind, name, "version", role, f"sed -i {script} {status}", undo, repaired=False
        )
    if kind == "user" and item.get("shell"):
        undo = f"usermod -s {shlex.quote(item['shell'])} {quoted}"
        yield Fault(host, kind, name, "shell", role, f"usermod -s /bin/false {quoted}", undo)
    if kind == "database":
        right = f"SELECT ON {name}.*"
        ask = f"mariadb --socket={shlex.quote(item['socket'])} -e"
        do = f"REVOKE {right} FROM {item['user']}@localhost"
        undo = f"GRANT {right} TO {item['user']}@localhost"
        yield Fault(host, kind, name, "rights", role, f'{ask} "{do}"', f'{ask} "{undo}"')
    if kind == "mount":
        keep, back = saved("/etc/fstab")
        script = shlex.quote(f"s#^\\(\\S*\\s*{name}\\s\\s*\\S*\\s*\\)#\\1nodev,#")
        yield Fault(
            host, kind, name, "line of fstab", role, f"{keep}; sed -i {script} /etc/fstab", back
        )


def faults_of(
    host: str,
    counted: list[tuple[manifest.Entry, manifest.Item]],
    all_had: Counter[tuple[str, str]],
) -> list[Fault]:
    """Return one fault for each thing of a host, at most MOST of one role, kind and fault, none within another.

    all_had: how often each kind has had each fault on any host; the rarest is taken.
    """
    had: Counter[tuple[str, str, str]] = Counter()
    chosen: list[Fault] = []
    taken: set[str] = set()
    for entry, item in counted:
        make = of_path if item["kind"] in manifest.PATHS else of_other
        possible = list(make(host, entry.manager, item))
        possible.sort(key=lambda one: all_had[one.kind, one.what])
        path = item["name"] if item["kind"] in manifest.PATHS else f"{item['kind']} {item['name']}"
        file_of_mounts = "/etc/fstab" if item["kind"] == "mount" else path
        near = any(path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in taken)
        if not possible or file_of_mounts in taken or (near and item["kind"] != "directory"):
            continue
        fault = possible[0]
        if had[fault.role, fault.kind, fault.what] < MOST:
            had[fault.role, fault.kind, fault.what] += 1
            all_had[fault.kind, fault.what] += 1
            taken.add(file_of_mounts)
            chosen.append(fault)
    return chosen


def shell(commands: list[str]) -> str:
    """Return one script; a command that fails is named and ends nothing."""
    lines = [f"mkdir -p {KEPT}", f"touch {KEPT}/time"]
    lines += [f"{{ {one}; }} || echo FAILED: {shlex.quote(one)}" for one in commands]
    return "\n".join(lines)


def interrupt(site: Converged, host: str) -> None:
    """Leave what a run leaves that was killed while role slurmd changed a host."""
    (name,) = site.run(host, f"cd {DIRECTORY}; ls | grep -m1 ^slurmd-").split()
    text = json.loads(site.run(host, f"cat {DIRECTORY}/{name}"))
    opened = json.dumps({**text, "state": "open", "items": []})
    site.run(host, f"printf %s {shlex.quote(opened)} >{DIRECTORY}/{name}")


def forget_credentials(site: Converged) -> None:
    """Remove entries about what the inventory does not have any more after other tests."""
    for host in site.cluster.hosts:
        site.run(host, f"grep -l 'registry credentials' {DIRECTORY}/*.json | xargs -r rm")


@pytest.mark.systems("debian13")
def test_each_drift_is_found_and_repaired(quiet_site: Converged, tmp_path: Path) -> None:
    """And a host on which a run was killed is not known, until site.yml has run there."""
    site = quiet_site
    interrupt(site, "c2")
    run, results = look(site, tmp_path / "killed", rc=2)
    assert "c2" in {one["host"] for one in results if one["verdict"] == "INCOMPLETE"}
    assert "a run began to change it and did not end" in run.output, tail(run.output, 30)
    forget_credentials(site)
    site.play("site.yml")
    run, results = look(site, tmp_path / "before", rc=0)
    assert {one["verdict"] for one in results} == {"PASS"}, tail(run.output, 40)
    assert run.executions("c1") <= 2
    hosts = site.cluster.hosts
    had: Counter[tuple[str, str]] = Counter()
    faults = [one for host in hosts for one in faults_of(host, entries_of(site, host), had)]
    kinds = Counter((one.kind, one.what) for one in faults)
    assert len(faults) >= 60, kinds
    assert len(kinds) >= 12, kinds
    by_host = {host: [one for one in faults if one.host == host] for host in hosts}
    print(f"{len(faults)} faults: {dict(kinds)}")
    try:
        for host, ours in by_host.items():
            said = site.run(host, shell([one.do for one in ours]))
            assert "FAILED" not in said, (host, said)
        run, results = look(site, tmp_path / "drifted", rc=2)
        seen = {
            (one["host"], one["check"], one["detail"])
            for one in results
            if one["verdict"] == "FAIL" and one["threshold"] is not None
        }
        missed = [
            one for one in faults if (one.host, one.kind, f"{one.name}: {one.what}") not in seen
        ]
        assert not missed, f"{len(missed)} of {len(faults)} missed: {missed[:10]}"
        assert f"{sum(1 for ours in by_host.values() if ours)} drifted" in run.output
        for host, ours in by_host.items():
            site.run(host, shell([one.undo for one in ours if not one.repaired]))
        site.play("site.yml")
        run, results = look(site, tmp_path / "repaired", rc=0)
        assert {one["verdict"] for one in results} == {"PASS"}, tail(run.output, 40)
    except BaseException:
        for host, ours in by_host.items():
            site.run(host, shell([one.undo for one in ours]), check=False)
            site.run(host, "systemctl daemon-reload", check=False)
        site.play("site.yml", rc=None)
        raise
    finally:
        for host in hosts:
            site.run(host, f"rm -rf {KEPT}", check=False)
        for node in nodes_of(site):
            site.wait_node(node, "idle")


# -- hosts that a run leaves out -------------------------------------------------------------------------------
#: Executions on a host on which nothing is done: its facts, with the look.
LOOKS = 1


#: Controllers, NFS servers and the like: those in the plays of these services, too.
SERVES = 25


def walked(site: Converged, run: Run) -> set[str]:
    """Return the nodes on which a run has walked over the roles."""
    # The first login host makes the homes, and always takes part.
    assert run.executions("login1") > LOOKS
    return {node for node in nodes_of(site) if run.executions(node) > LOOKS}


def nodes_of(site: Converged) -> list[str]:
    return [host for host in site.cluster.hosts if host.startswith("c") and host[1:].isdigit()]


@pytest.mark.systems("debian13")
def test_only_nodes_with_something_to_do_take_part(quiet_site: Converged) -> None:
    site, nodes = quiet_site, nodes_of(quiet_site)
    file = site.cluster.inventory / "host_vars" / "c1.yml"
    assert not file.exists()
    forget_credentials(site)
    try:
        run = site.play("site.yml")
        if walked(site, run):  # after other tests
            run = site.play("site.yml")
        assert walked(site, run) == set(), tail(run.output, 60)
        hosts = [*site.cluster.hosts]
        told = f"{len(hosts)} hosts: {len(hosts)} as left, 0 drifted, 0 walked over; 0 changed, 0 failed"
        assert told in run.output.splitlines()[-1]
        counts = {host: run.executions(host) for host in hosts}
        assert max(counts.values()) <= SERVES, counts

        # Something else is wanted on one, and something differs on another.
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump({"slurmd_unit": {"Service": {"Nice": 1}}}))
        site.run("c2", "chmod 0640 /etc/default/slurmd")
        run = site.play("site.yml")
        assert walked(site, run) == {"c1", "c2"}, tail(run.output, 60)
        assert run.executions("ctl1") > SERVES  # another host may need it
        told = " ".join(run.output.split())
        assert "c2: file /etc/default/slurmd: mode: 0640, not 0644 (role slurmd: " in told
        assert site.run("c2", "stat -c %a /etc/default/slurmd").strip() == "644"
        assert "Nice=1" in site.run("c1", "systemctl cat slurmd")

        if SOAK:
            # A change by another run, after which the inventory is what it was before. The unit tests have it, too.
            part = ("--tags", "slurmd", "--limit", "c1,slurm_controller")
            site.play("site.yml", *part, "-e", '{"slurmd_unit": {}}')
            assert "Nice=1" not in site.run("c1", "systemctl cat slurmd")
            run = site.play("site.yml")
            assert walked(site, run) == {"c1"}, tail(run.output, 60)
            assert "Nice=1" in site.run("c1", "systemctl cat slurmd")
            assert walked(site, site.play("site.yml", "--check")) == set()
    finally:
        file.unlink(missing_ok=True)
        run = site.play("site.yml", *(("-e", "site_full=true") if SOAK else ()), rc=None)
    assert run.rc == 0, tail(run.output, 60)
    assert walked(site, run) == (set(nodes) if SOAK else {"c1"}), tail(run.output, 60)
    assert {host for host, _task in run.changed} == {"c1"}, run.changed
