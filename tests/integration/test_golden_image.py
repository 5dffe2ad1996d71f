# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A machine becomes an image by image.yml, starts from it, and joins the cluster by itself.

The machine is a new container: its disk stays where it is, and a start without power before is the boot from the image.
That a copy of the disk boots is the business of whoever copies it.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Converged
from .gpu_packages import NOW, OTHERS, driver
from .repositories import build, sign
from .site import ROOT, Run, Site, poll, tail
from .test_gpu_stack import PORT, SERVER

pytestmark = [
    pytest.mark.systems("debian12", only="munge, with which a node asks the controllers"),
    pytest.mark.soak("an image and several boots"),
]

NEW = "c3"
JOIN = "/usr/local/sbin/trainwright-join"
KEY = "/etc/trainwright/join.key"
SETTINGS = "/etc/trainwright/join.json"
# What a container on this machine has at least.
KIND = {"local-node": {"vcpus": 1, "cores": 1, "memory_mib": 1024}}


def inventory(
    site: Site, directory: Path, image: str = "", declared: str = "", **of_image: Any
) -> Path:
    """An inventory of the cluster with one host for an image instead of a node, or a node with a machine type.

    of_image: variables of the host for an image.
    """
    given: dict[str, Any] = yaml.safe_load((site.inventory / "hosts.yml").read_text())["all"]
    if image:
        for group in given["children"]["slurm_cluster"]["children"].values():
            group["hosts"].pop(image, None)
        given["children"]["slurm_image"] = {"hosts": {image: of_image}}
    if declared:
        given["hosts"][declared]["slurm_node"] = {"machine_type": "local-node", "cpus": 8}
        given["vars"]["slurm_machine_types"] = KIND
    place = directory / ("image" if image else "declared")
    place.mkdir()
    (place / "hosts.yml").write_text(yaml.safe_dump({"all": given}), encoding="utf-8")
    if (site.inventory / "artifacts.yml").exists():
        (place / "artifacts.yml").symlink_to(site.inventory / "artifacts.yml")
    (place / "group_vars").symlink_to(ROOT / "inventories" / "local" / "group_vars")
    return place


def on(site: Converged, command: str, check: bool = True) -> str:
    """A shell command on the machine, also where its sshd has no keys."""
    done = site.cluster.exec(NEW, ["bash", "-c", command], check=False)
    output = f"{done.stdout}{done.stderr}".strip()
    assert not check or done.returncode == 0, f"{command}: {done.returncode}: {output}"
    return output


def settings(site: Converged, **given: Any) -> None:
    on(site, f"echo {shlex.quote(json.dumps(given))} >{SETTINGS}")


def gpu_packages(site: Site) -> dict[str, Any]:
    """Serve packages of NVIDIA's names from the controller; return the variables that name them."""
    directory = site.cluster.local.directory / "shared" / "gpu-stack"
    directory.mkdir(exist_ok=True)
    for package in (*driver(NOW), *OTHERS):
        build(directory, *package)
    site.run(
        "ctl1",
        f"systemctl stop gpu-repository 2>/dev/null; cat >/srv/cluster/serve.py <<'END'\n{SERVER}END\n"
        "systemd-run -q --unit=gpu-repository --collect --working-directory=/srv/cluster/gpu-stack"
        f" python3 /srv/cluster/serve.py {PORT} 0",
    )
    url = f"http://{site.cluster.addresses['ctl1']}:{PORT}"
    return {
        "gpu_stack_versions": {"nccl": "2.27.3"},
        "gpu_stack_repository": {
            "url": url,
            "key_url": f"{url}/key.asc",
            "key_fingerprint": sign(directory),
        },
    }


class Machine:
    """The machine, and what image.yml did and left there."""

    first: Run
    second: Run
    found: dict[str, str]
    said_at_boot: str


@pytest.fixture(scope="module")
def machine(site: Converged, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A new machine that image.yml has prepared, that Slurm knows as a node, and that was started without its key."""
    directory = tmp_path_factory.mktemp("golden")
    made = Machine()
    assert site.cluster.add_compute(1) == [NEW]
    try:
        packages = gpu_packages(site)
        on_image = inventory(site, directory, image=NEW, gpu_stack="managed")
        on(site, "touch /root/.bash_history; echo secret >>/var/log/old.log")
        made.first = site.play("image.yml", inventory=on_image, **packages)
        made.found = {
            "host keys": on(site, "ls /etc/ssh/ssh_host_* 2>/dev/null", check=False),
            "machine-id": on(site, "cat /etc/machine-id"),
            "keys": on(site, "find / -xdev -name '*.key' -path '*/[ms]*u*/*' -not -path '/usr/*'"),
            # Podman mounts a tmpfs over the journal, which is not on the machine's disk.
            "logs": on(site, "find /var/log -type f -size +0 -not -path '/var/log/journal/*'"),
            "histories": on(site, "ls -A /root | grep _history", check=False),
            "stamps": on(site, "ls -A /var/lib/trainwright"),
            "spool": on(site, "ls -A /var/spool/slurmd 2>/dev/null", check=False),
            "lists": on(
                site, "ls /var/lib/apt/lists | grep -v -e lock -e partial -e aux", check=False
            ),
            "record": on(site, "cat /var/lib/trainwright/image.json"),
            "units": on(site, "systemctl is-enabled slurmd munge trainwright-join", check=False),
            "variables": on(site, "cat /usr/lib/trainwright/join/*/variables.json"),
        }
        made.second = site.play("image.yml", inventory=on_image, **packages)
        # A node has its packages from the image.
        site.run("ctl1", "systemctl stop gpu-repository")
        site.cluster.kill(NEW)
        # Declared by its machine type before it exists: the run cannot reach it, and Slurm knows it.
        declare = inventory(site, directory, declared=NEW)
        limit = ["--tags", "slurmctld", "--limit", f"{NEW},slurm_controller"]
        declared = site.play("site.yml", *limit, inventory=declare, rc=None)
        assert NEW in site.run("ctl1", "sinfo -hN -o %N").split(), tail(declared.output, 40)
        site.cluster.start(NEW)
        said = "journalctl -u trainwright-join -o cat | grep '^trainwright-join: '"
        made.said_at_boot = poll("the first try", lambda: on(site, said, check=False), 60)
        yield made
    finally:
        site.run("ctl1", "systemctl stop gpu-repository", check=False)
        site.cluster.start(NEW)
        site.play("remove_nodes.yml", nodes=NEW, confirm="yes", rc=None)
        site.cluster.remove(NEW)


def key(site: Converged) -> str:
    return site.run("ctl1", "base64 -w0 /etc/munge/munge.key")


def give(site: Converged, text: str) -> None:
    """Give the machine a key as user data would: never on a command line of it."""
    argv = ["bash", "-c", f"umask 077; cat >{KEY}"]
    site.cluster.local.exec(NEW, argv, input=text)


def join(site: Converged) -> tuple[int, str]:
    done = site.cluster.exec(NEW, [JOIN], check=False)
    return done.returncode, f"{done.stdout}{done.stderr}".strip()


def test_a_machine_of_the_cluster_is_refused(site: Converged, tmp_path: Path) -> None:
    serving = site.play("image.yml", inventory=inventory(site, tmp_path, image="c1"), rc=2)
    said = " ".join(serving.output.split())
    assert "c1: it runs slurmd, and an image is made of a machine without jobs" in said
    listed = tmp_path / "listed"
    listed.mkdir()
    text = (site.inventory / "hosts.yml").read_text()
    (listed / "hosts.yml").write_text(text + "    slurm_image: {hosts: {c1: }}\n")
    refused = site.play("image.yml", inventory=listed, rc=2)
    assert "c1: it is in the group slurm_cluster" in " ".join(refused.output.split())
    nothing = site.play("image.yml", rc=2)
    assert "inventory: group slurm_image: it has no host" in " ".join(nothing.output.split())
    assert serving.changed == refused.changed == nothing.changed == set()
    assert site.run("c1", "systemctl is-active slurmd") == "active"


def test_the_image_has_nothing_of_one_machine(site: Converged, machine: Machine) -> None:
    found = machine.found
    for kind in ("host keys", "machine-id", "keys", "logs", "histories", "spool", "lists"):
        assert found[kind] == "", f"{kind}: {found[kind]}"
    assert not {"stamps", "secrets", "proved", "record.json", "joined"} & {*found["stamps"].split()}
    record = json.loads(found["record"])
    assert record["slurm_version"] == site.run("c1", "slurmd -V").split()[1]
    assert record["cluster"] == "local" and record["os"] == "debian 12" and record["date"]
    assert found["units"].split() == ["disabled", "disabled", "enabled"]
    assert record["stack"]["driver"] == NOW and record["stack"]["nccl"].startswith("2.27.3")
    # Nothing of the machine itself, nor of the cluster's secrets, in what it brings along.
    assert site.cluster.addresses[NEW] not in found["variables"]
    assert key(site) not in found["variables"]
    again = machine.second
    # The record of what services were started with is the machine's own: it is removed, and they start once more.
    tasks = {task.split(" | ")[-1] for _host, task in again.changed}
    assert tasks == {"Start the services of all parts", "Remove keys, ids and logs"}
    assert "aws ec2 create-image" in again.output


def test_without_its_key_it_stays_out_and_says_so_in_one_line(
    site: Converged, machine: Machine
) -> None:
    (line,) = machine.said_at_boot.splitlines()[:1]
    assert line == (
        f"trainwright-join: secret_file {KEY}: cannot be read"
        " -> see docs/golden_image.md for the ways to give the key to a node"
    )
    assert "Invoked with" not in on(site, "journalctl -u trainwright-join -o cat")
    on(site, "systemctl stop trainwright-join")


@pytest.mark.parametrize(
    ("given", "secret", "said"),
    [
        ({}, base64.b64encode(os.urandom(48)).decode(), "the key or the clock of this host"),
        ({"controllers": ["127.0.0.1"]}, "", "Unable to contact slurm controller"),
        (
            {"name": "zz9"},
            "",
            "cluster local does not have a node zz9 -> give the machine the name",
        ),
        ({"nme": "c3"}, "", "Validation of arguments failed: nme"),
        ({"secret_command": ["false"]}, "", "secret_command false: ended with 1 ->"),
    ],
    ids=["wrong-key", "no-controller", "unknown-name", "unknown-setting", "no-secret"],
)
def test_a_fault_keeps_the_node_out(
    site: Converged, machine: Machine, given: dict[str, Any], secret: str, said: str
) -> None:
    give(site, secret or key(site))
    settings(site, **given)
    code, output = join(site)
    assert code == 1 and said in output, output
    assert len(output.splitlines()) == 1, output
    state = on(site, "systemctl is-active slurmd; systemctl is-enabled slurmd", check=False)
    assert state.split() == ["inactive", "disabled"]
    assert on(site, "ls -A /run/slurm/conf 2>/dev/null; pgrep slurmd", check=False) == ""


def test_an_image_of_another_slurm_is_refused(site: Converged, machine: Machine) -> None:
    give(site, key(site))
    settings(site)
    variables = "$(ls /usr/lib/trainwright/join/*/variables.json)"
    release = ".".join(site.run("c1", "slurmd -V").split()[1].split(".")[:2])
    change = r"""sed -i 's/"version_string": "{}"/"version_string": "{}"/' """ + variables
    on(site, change.format(release, "20.02"))
    code, output = join(site)
    on(site, change.format("20.02", release))
    assert (
        code == 1 and f"the cluster runs {release}" in output and "make the image again" in output
    )
    assert on(site, "systemctl is-active slurmd", check=False) == "inactive"


def test_it_joins_and_runs_a_job(site: Converged, machine: Machine) -> None:
    give(site, key(site))
    # Podman mounts the file of the name; a machine's is an ordinary one.
    on(site, "umount /etc/hostname; hostnamectl hostname ip-10-0-0-17")
    settings(site, name=NEW)
    on(site, "systemctl start trainwright-join")
    assert on(site, "hostname; cat /etc/hostname").split() == [NEW, NEW]
    assert site.node_state(NEW) == "idle"
    assert site.as_user("alice", f"srun -w {NEW} -N1 hostname", "login1").split() == [NEW]
    # The driver's packages and services are those of the image; slurmd would not start without its part.
    packages = "datacenter-gpu-manager-4-cuda13 libnccl2 nvidia-open nvidia-persistenced"
    versions = on(site, f"dpkg-query -W -f '${{Version}}\\n' {packages}").split()
    assert versions == ["1:4.7.0-1", "2.27.3-1+cuda13.0", f"{NOW}-1", f"{NOW}-1"]
    assert on(site, "systemctl is-active nvidia-persistenced nvidia-dcgm").split() == ["active"] * 2
    assert "trainwright-gpu-stack.service" in on(site, "systemctl show -P Requires slurmd")
    said = on(
        site, "journalctl -u trainwright-join -o cat | grep '^trainwright-join: ' | tail -n 1"
    )
    assert said == f"trainwright-join: {NEW} serves in cluster local"
    assert key(site) not in on(site, "cat /var/log/trainwright-join.log; journalctl -o cat")
    # Its next boot changes nothing, and neither would a second run.
    assert join(site) == (0, "trainwright-join: this machine has joined already")
    on(site, "rm /var/lib/trainwright/joined")
    code, output = join(site)
    changed = on(site, "grep -c '^changed: ' /var/log/trainwright-join.log")
    assert code == 0 and changed == "1", output + on(site, "cat /var/log/trainwright-join.log")
