"""A compute node that somebody took over cannot make itself another host for the others."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import yaml

from .conftest import Converged
from .site import SOAK, sample

LIAR = "c2"
OTHERS = ("login1", "c1", "ctl1")
TAGS = ("--tags", "slurm_auth,node_base")


def certificate(site: Converged, host: str) -> tuple[set[str], datetime.datetime]:
    """The principals of a host's certificate, and when it expires."""
    text = site.run(host, "ssh-keygen -L -f /etc/ssh/ssh_host_ed25519_key-cert.pub")
    principals = text.split("Principals:")[1].split("Critical Options")[0].split()
    return set(principals), datetime.datetime.fromisoformat(text.split(" to ")[1].split()[0])


def days_left(site: Converged, host: str) -> int:
    now = datetime.datetime.fromisoformat(site.run(host, "date +%FT%T"))
    return (certificate(site, host)[1] - now).days


@pytest.mark.systems("debian12")
def test_a_node_that_calls_itself_a_mirror_is_that_for_nobody(site: Converged) -> None:
    """Two runs, which also change the validity of the certificates and change it back."""
    assert days_left(site, LIAR) > 300
    site.run(LIAR, "cp -p /etc/hosts /root/hosts.kept; hostname mirror.example")
    try:
        site.run(LIAR, "echo '127.0.1.1 mirror.example mirror ctl1.mirror.example' >>/etc/hosts")
        site.play("site.yml", *TAGS, slurm_auth_certificate_days=7)
        for host in OTHERS:
            assert site.run(host, "getent hosts mirror.example mirror", check=False) == ""
            assert "mirror" not in site.run(host, "cat /etc/hosts /etc/ssh/ssh_known_hosts")
        assert certificate(site, LIAR)[0] == {LIAR, site.cluster.addresses[LIAR]}
        assert {days_left(site, host) for host in ("login1", LIAR)} <= {6, 7}
        # The authority vouches for the cluster's names only, and each certificate for its host's.
        found = "for name in c1 c2 c99 mirror.example deb.debian.org; do"
        found += " ssh-keygen -F $name -f /etc/ssh/ssh_known_hosts | grep -q 'CA$' && echo $name; done; true"
        assert site.run("login1", found).split() == ["c1", "c2", "c99"]
        for name, believed in ((LIAR, True), ("mirror.example", False), ("login1", False)):
            command = f"ssh -o BatchMode=yes -o HostKeyAlias={name} {LIAR} true; echo rc=$?"
            answer = site.as_user("alice", command)
            assert ("Host key verification failed" in answer) is not believed, answer
            assert "rc=255" in answer, answer  # she does not have a job there
    finally:
        site.run(LIAR, f"hostname {LIAR}; cat /root/hosts.kept >/etc/hosts; rm /root/hosts.kept")
        site.play("site.yml", *TAGS)
    assert days_left(site, LIAR) > 300


# A module's wrapper for Python: runs it, and changes its answer as the part after LIE says.
LIAR_PYTHON = """#!/usr/bin/python3.real
import json, os, subprocess, sys
done = subprocess.run(["/usr/bin/python3.real", *sys.argv[1:]], stdout=subprocess.PIPE)
text = done.stdout.decode()
try:
    answer = json.loads(text)
    facts = answer["ansible_facts"]
    node = facts["trainwright_node"]
except (KeyError, TypeError, ValueError):
    sys.stdout.write(text)
    sys.exit(done.returncode)
LIE
print(json.dumps(answer))
sys.exit(done.returncode)
"""
# Lies in the answer of each module but node_facts, whose lies have their own test.
LATER_PYTHON = """#!/usr/bin/python3.real
import json, os, subprocess, sys
done = subprocess.run(["/usr/bin/python3.real", *sys.argv[1:]], stdout=subprocess.PIPE)
text = done.stdout.decode()
try:
    answer = json.loads(text)
    honest = "clock" in answer or "invocation" not in answer
except (TypeError, ValueError):
    honest = True
if not honest:
    system = {"id": "debian", "like": "LIKE", "version": "12", "codename": "bookworm"}
    node = {"os": system, "virtualization": "kvm", "packages_interrupted": False}
    answer["ansible_facts"] = {"trainwright_node": node, "slurm_facts": {"node": node}}
    answer["node"] = node
    text = json.dumps(answer)
    open("/root/lies", "a").write("lie\\n")
sys.stdout.write(text)
sys.exit(done.returncode)
"""
AUTHORITY = "node['ssh_host_key'] += '\\n@cert-authority * ' + node['ssh_host_key']"
LIES = {
    "facts['slurm_conf'] = {'Prolog': '/shared/data/evil'}": "slurm_conf",
    "facts['slurm_node'] = {'name': 'mirror', 'address': 'deb.debian.org'}": "slurm_node",
    "node['gpus'] = [{'device': '/dev/null\\nNodeName=c2 Name=gpu File=/dev/zero', 'index': 0,"
    " 'model': '', 'memory_mb': 0}]": "gpus[0].device",
    "node['ssh_host_key'] = ['a', 'b']": "ssh_host_key",
}


def state(site: Converged) -> dict[str, str]:
    """What a lie could have reached on the other hosts."""
    files = "/etc/ssh/ssh_known_hosts /etc/hosts /etc/ssh/ssh_host_ed25519_key-cert.pub"
    found = {host: site.run(host, f"sha256sum {files}") for host in OTHERS if host != "c1"}
    configuration = "cd /etc/slurm && sha256sum *.conf; sha256sum /var/lib/trainwright/record.json"
    return {**found, "configuration": site.run("ctl1", configuration)}


@pytest.mark.systems("debian13")
def test_a_node_whose_python_lies_is_refused_by_its_name(site: Converged, tmp_path: Path) -> None:
    """Root of c1 edits what modules return. The inventory names it before the controllers."""
    if SOAK:  # what other tests have left to do, as the reboots of Debian 12's nodes
        site.play("site.yml")
    inventory = yaml.safe_load((site.inventory / "hosts.yml").read_text())
    groups = inventory["all"]["children"]["slurm_cluster"]["children"]
    inventory["all"]["children"]["slurm_cluster"]["children"] = {
        name: groups[name] for name in sorted(groups, key=lambda name: name != "slurm_compute")
    }
    first = {"c1": inventory["all"]["hosts"].pop("c1")}
    inventory["all"]["hosts"] = {**first, **inventory["all"]["hosts"]}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory, sort_keys=False))
    for part in site.inventory.iterdir():
        if part.name != "hosts.yml":
            (tmp_path / part.name).symlink_to(part.resolve())
    before = state(site)

    def lie(text: str) -> None:
        program = LIAR_PYTHON.replace("LIE", text)
        site.run("c1", f"cat >/usr/bin/python3 <<'END'\n{program}END\nchmod 755 /usr/bin/python3")

    site.run("c1", "mv /usr/bin/python3 /usr/bin/python3.real")
    try:
        for text, named in list(LIES.items())[: sample(2, len(LIES))]:
            lie(text)
            done = site.play("preflight.yml", inventory=tmp_path, rc=None)
            assert done.rc != 0, text
            refused = [line for line in done.output.splitlines() if "c1: node_facts: " in line]
            assert refused and all(named in line and " -> " in line for line in refused)
            assert not done.changed
        lie(AUTHORITY)
        done = site.play("site.yml", inventory=tmp_path, rc=None)
        assert done.rc != 0 and "c1: node_facts: ssh_host_key: " in done.output
        assert not done.changed
        assert state(site) == before
    finally:
        site.run("c1", "mv /usr/bin/python3.real /usr/bin/python3")


@pytest.mark.systems("debian13")
def test_a_lie_after_preflight_changes_nothing_that_was_judged(
    site: Converged, tmp_path: Path
) -> None:
    """Its system names a file of tasks on the control node, and where slurmd's options are on the node."""
    evil = {"name": "evil", "ansible.builtin.file": {"path": str(tmp_path / "ran"), "state": "touch"},
            "delegate_to": "localhost", "become": False}  # fmt: skip
    (tmp_path / "evil.yml").write_text(yaml.safe_dump([evil]))
    program = LATER_PYTHON.replace("LIKE", f"x{'/..' * 20}{tmp_path}/evil")
    site.run("c1", "mv /usr/bin/python3 /usr/bin/python3.real")
    try:
        site.run("c1", f"cat >/usr/bin/python3 <<'END'\n{program}END\nchmod 755 /usr/bin/python3")
        tags = ("--tags", "cluster_users,slurm_packages,slurmd")
        done = site.play("site.yml", *tags, "--limit", "c1,slurm_controller")
        lies = site.run("c1", "wc -l </root/lies")
    finally:
        site.run("c1", "mv /usr/bin/python3.real /usr/bin/python3; rm -f /root/lies")
    assert int(lies) > 3
    assert not done.changed and not (tmp_path / "ran").exists()
    site.run("c1", "test ! -e /etc/sysconfig/slurmd")
