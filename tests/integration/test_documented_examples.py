# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every example of ansible-doc and every play of docs/modules.md runs unchanged on a real cluster.

One ansible-playbook run does them all, a play for each module, in an order in which each finds what it
speaks of. What is not there on this cluster has a stand-in, what would end it runs in check mode, what
cannot run is left out: all are listed below, with the reason. On Debian 13 only: slurmrestd of Debian 12
is too old for some examples.

That names, types and rules of options are right is held without a cluster, in tests/unit.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.document import as_text

from tests.fixtures.validation.simulated import simulated
from tests.unit import examples

from .artifacts import REAL, REGISTRY
from .conftest import Converged
from .modules import DEAD, MAKE_DEAD, rest_token, run_plays
from .site import ROOT, poll, tail

pytestmark = pytest.mark.systems("debian13", only="a slurmrestd that is new enough")

GUIDE = "docs/modules.md"
# The examples of slurm_conf come last: they leave files that no daemon shall read.
# Those of the modules for AWS have no AWS to ask here: tests/unit runs them against servers of its own. Those of
# train_status speak of a training that goes on: test_training.py runs it beside one. container_image_build needs
# Podman: tests/unit/test_image_build.py. EFA's need its publisher or a stand-in of it: test_efa.py.
# image_clean is refused on a controller: test_golden_image.py. validate_cluster takes minutes: test_validate.py.
ELSEWHERE = (
    *("container_image_build", "dataset_", "ec2_", "efa_", "fsx_", "image_clean"),
    *("nvidia_runfile", "slurm_conf", "train_status", "validate_cluster", "verified_file"),
)
SOURCES = [
    *(name for name in examples.MODULES if not name.startswith(ELSEWHERE)),
    GUIDE,
    "slurm_conf",
]

# Names in examples that differ on this cluster, in JSON.
STAND_INS = {
    "https://slurm.example.org": "http://{{ controller }}:6820",
    "head_node": "ctl1",
    # A cluster keeps its name, its keys and its state for good.
    '"slurm_cluster_name": "atlas"': '"slurm_cluster_name": "{{ slurm_cluster_name }}", '
    '"slurm_auth_type": "slurm", "slurm_state_save_location": "/shared/slurmctld", '
    '"cluster_mounts": "{{ cluster_mounts }}"',
    "{{ playbook_dir | dirname }}": str(ROOT),
    "{{ playbook_dir }}/files": str(ROOT / "playbooks/files"),
    "~/.cache/trainwright": "{{ work }}/bundles",
    "{{ role_path }}/meta/argument_specs.yml": str(ROOT / "roles/cluster/meta/argument_specs.yml"),
    "lookup('ansible.builtin.template', 'slurm.conf.j2')": "slurm_conf_text",
    # Only the play without a controller waits for it.
    '"controller_timeout": 10': '"controller_timeout": 1',
    "/tmp/parts": "{{ work }}/parts",
    "~/demo-support": "{{ work }}/demo-support",
    "'train.sbatch'": "work ~ '/train.sbatch'",
    "'run.json'": "work ~ '/run.json'",
}
# The hosts that examples are for, where that is not ctl1.
HOSTS = {
    "cluster_model": "slurm_cluster",
    "config_files": "c3",
    "container_image_info": "c3",
    "container_runtime_info": "c3",
    "enroot_image": "c3",
    "package_files": "c3",
}
_BY_ROLE = "its role does it for real, with the files of this cluster, in every run of site.yml"
CHECKED = {
    ("services", "Run the controller"): _BY_ROLE,
    ("scratch_disks", "Make a scratch of the instance's own disks"): "it would leave a directory",
    (
        "shared_mounts",
        "Mount what the cluster shares",
    ): "it would leave a mount, and a line in fstab",
    ("slurm_node", "Reboot a node when it is idle"): "a container does not come back by itself",
    ("slurmctld_config", "Bring slurmctld to run with its configuration"): _BY_ROLE,
    ("slurmctld_config", "Move StateSaveLocation while no job is left"): _BY_ROLE,
    ("system_users", "Create the accounts of the cluster"): "it removes bob, whom tests need",
}
# The real Enroot would ask the registries of the examples, which need not be in reach.
_IMAGE = "it takes a registry"
_IMAGES = {
    "Import an image unless it is there",
    "Follow a tag that moves",
    "Copy it to this node's own disk",
}
LEFT_OUT = {("enroot_image", name): _IMAGE for name in _IMAGES} if REAL else {}

TRAIN = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=1G --time=14-00:00:00 --signal=B:USR1@300
trap 'scontrol requeue "$SLURM_JOB_ID"' USR1
srun python3 train.py &
wait
"""
KEPT = "/root/kept"
DIGEST = "5" * 64
# Prerequisites of the examples. The node that is drained gives those about drains one to find.
BEFORE = f"""set -e
{MAKE_DEAD}
mkdir {KEPT}
cp /etc/hosts {KEPT}
cp -a /etc/slurm {KEPT}
mkdir -p /shared/data/alice /opt/slurm/etc /shared/data/train /shared/data/nightly /shared/tests /shared/data/logs
ln -sfn /usr/bin /opt/slurm/bin
cp /etc/slurm/slurm.conf /opt/slurm/etc
tee -a /opt/slurm/etc/slurm.conf /etc/slurm/slurm.conf >/dev/null <<'EOF'
HealthCheckProgram=/bin/true
NodeName=gpu[01-04] CPUs=96 RealMemory=1100000 Gres=gpu:h100:8 State=FUTURE
PartitionName=old Nodes=c1
EOF
cat >/shared/data/alice/train.sbatch <<'EOF'
{TRAIN}EOF
echo 'print("trained")' >/shared/data/train/train.py
printf '#!/bin/sh\\necho "$@"\\n' |
    tee /shared/data/train/prepare.sh /shared/data/train/evaluate /shared/data/nightly/run \
        >/shared/tests/all_reduce_perf
chmod +x /shared/data/train/{{prepare.sh,evaluate}} /shared/data/nightly/run /shared/tests/all_reduce_perf
chown alice /shared/data/train /shared/data/nightly /shared/data/logs
su alice -c 'mkdir -p ~/.secrets && echo token > ~/.secrets/hf'
scontrol create partition=gpu nodes=c[1-2]
scontrol update nodename=c3 state=drain reason='fan is broken'
# slurmctld asks for a name that nobody knows for ten seconds.
mkdir -p {REGISTRY}/sha256:{DIGEST} {REGISTRY}/cache {REGISTRY}/temp
echo data >{REGISTRY}/sha256:{DIGEST}/data
for image in nvcr.io_nvidia_pytorch:25.06-py3 \
    123456789012.dkr.ecr.eu-west-1.amazonaws.com_team_train:main; do
    echo sha256:{DIGEST} >{REGISTRY}/$image
done
for n in 5 6 7 8; do echo 127.0.0.$n gpu0$n >>/etc/hosts; done
"""
AFTER = f"""
rm -r /etc/exports.d
rm -f /var/lib/trainwright/reboot.json
rm -rf {REGISTRY} /shared/images/base.sqsh /shared/images/pytorch.sqsh /shared/images/train.sqsh
rm -f /var/lib/trainwright/secrets/host_certs/node1*
scontrol delete reservation=workshop; scontrol delete reservation=maintenance
scontrol delete partition=course; scontrol delete partition=gpu
sacctmgr -i delete user carol,dave; sacctmgr -i delete account vision,speech
sacctmgr -i delete account lab; sacctmgr -i delete qos urgent,lab-urgent
sacctmgr -i delete cluster hpc2
if [ -d {KEPT}/slurm ]; then
    cat {KEPT}/hosts >/etc/hosts
    mv /etc/slurm {KEPT}/changed && mv {KEPT}/slurm /etc
fi
rm -rf {DEAD} {KEPT} /var/tmp/trainwright-support.* /opt/slurm /shared/data/alice
su alice -c 'rm -rf ~/.secrets ~/.config/trainwright ~/mine.sqsh'
rm -rf /shared/images/users/alice
rm -rf /shared/data/train /shared/data/nightly /shared/tests /shared/data/logs
scontrol reconfigure
scontrol update nodename=c[1-3] features= weight=1
scontrol update nodename=c[1-3] state=resume
"""
# The same for what config_files writes on its node.
BEFORE_FILES = (
    "cp -p /etc/pam.d/sshd /root/sshd.kept;"
    " su alice -c 'mkdir /tmp/mine; mksquashfs /tmp/mine ~/mine.sqsh -quiet -no-progress -noappend; rmdir /tmp/mine';"
    " mkdir -p /shared/images; mksquashfs /etc/hostname /shared/images/base.sqsh -quiet -no-progress -noappend"
)
AFTER_FILES = (
    "mv /root/sshd.kept /etc/pam.d/sshd; rm -f /etc/slurm/gres.conf /etc/sudoers.d/cluster"
)


def text_of(source: str) -> str:
    """The examples of a module, or all plays of the guide, as JSON."""
    page = (ROOT / GUIDE).read_text(encoding="utf-8")
    plays = "\n".join(re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S))
    return json.dumps(
        yaml.safe_load(plays if source == GUIDE else examples.block(source, "EXAMPLES"))
    )


def plays_of(source: str) -> list[dict[str, Any]]:
    """The plays that run a source, with all of their tasks whatever becomes of the others."""
    text = text_of(source)
    for name, other in STAND_INS.items():
        text = text.replace(name, other)
    given: list[dict[str, Any]] = json.loads(text)
    if source == GUIDE:
        # An error that is ignored is not rescued.
        return [{"ignore_errors": "'rescue'" not in str(play), **play} for play in given]
    given = [task for task in given if (source, task["name"]) not in LEFT_OUT]
    for task in given:
        # The collection needs root on the hosts of a cluster and nothing on the control node.
        task.setdefault("become", task.get("delegate_to") != "localhost")
        task["check_mode"] = (source, task["name"]) in CHECKED
    play = {"name": source, "hosts": HOSTS.get(source, "ctl1"), "gather_facts": False}
    user = "alice" if source == "slurm_job" else "root"
    token = {"vault_slurm_token": f"{{{{ tokens.{user} }}}}"}
    return [{**play, "ignore_errors": True, "vars": token, "tasks": given}] if given else []


def without_controller(play: dict[str, Any]) -> dict[str, Any]:
    """The play, for which no controller is there."""
    options = {"group/trainwright.slurm.slurm": {"slurm_conf": f"{DEAD}/slurm.conf"}}
    return {**play, "name": f"{play['name']}, without one", "module_defaults": options}


def state(site: Converged) -> list[str]:
    """The parts of the cluster that the examples could change."""
    on_the_controller = (
        "scontrol show partition; scontrol show reservation; sinfo -hN -o '%N %T %w %f %E';"
        "sacctmgr -nP show assoc; sacctmgr -nP show user; sacctmgr -nP show qos;"
        "sacctmgr -nP show cluster format=cluster; ls /opt /shared /root; ls /var/tmp | grep trainwright;"
        # But for the numbers of calls.
        "find /etc/slurm /etc/munge /var/lib/trainwright -type f ! -name .calls | sort | xargs sha256sum; id bob"
    )
    on_the_node = "ls -l /etc/slurm /etc/pam.d /etc/sudoers.d; sha256sum /etc/pam.d/sshd"
    shown = site.run("ctl1", on_the_controller) + site.run("c3", on_the_node)
    return shown.splitlines()


@dataclass
class Ran:
    """The results of all tasks, by play and task and then by host, and the state before them."""

    results: dict[tuple[str, str], dict[str, dict[str, Any]]]
    before: list[str]


@pytest.fixture(scope="module")
def ran(site: Converged, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All examples run, and what they made is taken away."""
    site.end_all_jobs()
    before = state(site)
    work = tmp_path_factory.mktemp("examples")
    (work / "parts").mkdir()
    (work / "train.sbatch").write_text(TRAIN, encoding="utf-8")
    (work / "run.json").write_text(as_text(simulated(2, "gpu0001")), encoding="utf-8")
    plays = [play for source in SOURCES for play in plays_of(source)]
    plays += [without_controller(play) for play in plays if "'rescue'" in str(play)]
    try:
        site.run("c3", BEFORE_FILES)
        site.run("ctl1", BEFORE)
        root = rest_token(site)
        done, played = run_plays(
            site,
            plays,
            environment={"SLURM_JWT": root},
            controller=site.cluster.addresses["ctl1"],
            work=str(work),
            tokens={"root": root, "alice": rest_token(site, "alice")},
            slurm_conf_text=site.run("ctl1", f"cat {KEPT}/slurm/slurm.conf") + "\n",
            vault_slurm_database_password="not-the-real-one",
            vault_hf_token="not-the-real-one",
        )
    finally:
        site.end_all_jobs()
        site.run("c3", AFTER_FILES)
        site.run("ctl1", AFTER, check=False)
        for host in site.cluster.hosts:
            # What the examples left is gone, so nothing is to be recorded of it.
            site.run(host, "rm -f /var/lib/trainwright/manifest/plays.yml-*")
    results = {
        (play["play"]["name"], task["task"]["name"]): task["hosts"]
        for play in played
        for task in play["tasks"]
    }
    assert results, tail(done.stdout + done.stderr, 60)
    return Ran(results, before)


def problem(task: dict[str, Any], hosts: dict[str, dict[str, Any]]) -> str:
    """Why a task of an example did not do what it is there for; "" if it did."""
    for host, result in hosts.items():
        if result.get("failed") or result.get("unreachable"):
            return f"{host}: {result.get('msg') or json.dumps(result)}"
        if result.get("skipped") and "when" not in task:
            return f"{host}: skipped"
    return "" if hosts else "not run"


@pytest.mark.parametrize("source", SOURCES)
def test_examples_run(ran: Ran, source: str) -> None:
    wrong = {}
    for play in plays_of(source):
        for task in examples.tasks(yaml.safe_dump([play])):
            rescues = task in [t for b in play["tasks"] for t in b.get("rescue", [])]
            name = without_controller(play)["name"] if rescues else play["name"]
            found = problem(task, ran.results.get((name, task["name"]), {}))
            if found:
                wrong[task["name"]] = found
    assert not wrong, json.dumps(wrong, indent=1)


def test_the_cluster_is_as_before(site: Converged, ran: Ran) -> None:
    """Nodes take a moment to register after a reconfigure."""
    with suppress(AssertionError):
        poll("all as before", lambda: state(site) == ran.before, 30)
    assert state(site) == ran.before


def test_exceptions_are_about_examples() -> None:
    text = "".join(text_of(source) for source in SOURCES)
    assert not [name for name in STAND_INS if name not in text]
    assert set(HOSTS) <= set(SOURCES)
    names = {
        (source, task["name"]) for source in SOURCES for task in examples.tasks(text_of(source))
    }
    assert not {*CHECKED, *LEFT_OUT} - names
