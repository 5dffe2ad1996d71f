# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Slurm that somebody else manages is used as it is: a stand-in for ParallelCluster, found by the plugin."""

from __future__ import annotations

import os
import re
import shlex
import tarfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .parallelcluster import CLUSTER, DYNAMIC, STATIC, ParallelCluster
from .site import ROOT, Run

KEEP = bool(os.environ.get("TRAINWRIGHT_KEEP"))
SCRIPT = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=5\nsrun hostname\n"
BLOCK = re.compile(r"^ *```(bash|yaml)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
JOB = {
    "name": "bad",
    "command": "exit 3",
    "launcher": "srun",
    "nodes": 1,
    "tasks_per_node": 1,
    "workdir": "/home/ubuntu/run",
}


@pytest.fixture(scope="module")
def pc() -> Iterator[ParallelCluster]:
    """The stand-in, made once for this file."""
    made = ParallelCluster("pc")
    local = made.cluster.local
    if not (KEEP and local.exists):
        local.destroy()
        made.start()
    try:
        with made.answered():
            yield made
    finally:
        if not KEEP:
            local.destroy()


@pytest.fixture(scope="module")
def before(pc: ParallelCluster) -> str:
    """The checksums of all files of Slurm before a playbook ran."""
    return files(pc)


def files(pc: ParallelCluster) -> str:
    """Checksums of the configuration and of the programs of the Slurm that is not ours."""
    return pc.on("head", "find /opt/slurm -type f | sort | xargs sha256sum")


@pytest.fixture(scope="module")
def guide(
    pc: ParallelCluster, before: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    """The commands of the guide, run in their order; only the region's cluster is another one."""
    page = (ROOT / "docs" / "parallelcluster.md").read_text(encoding="utf-8")
    blocks = [(kind, textwrap.dedent(text)) for kind, text in BLOCK.findall(page)]
    (described,) = [text for kind, text in blocks if kind == "yaml" and "train_job" in text]
    (plugin,) = [text for kind, text in blocks if kind == "yaml" and "plugin:" in text]
    written = yaml.safe_load((pc.inventory / "aws.yml").read_text(encoding="utf-8"))
    assert yaml.safe_load(plugin).items() <= written.items()
    job = tmp_path_factory.mktemp("guide") / "job.yml"
    job.write_text(described, encoding="utf-8")
    done = {}
    for line in (line for kind, text in blocks if kind == "bash" for line in text.splitlines()):
        program, option, inventory, playbook, *arguments = shlex.split(line)
        assert (program, option, inventory) == ("ansible-playbook", "-i", "~/pc"), line
        name = playbook.removeprefix("trainwright.slurm.")
        arguments = [word.replace("job.yml", str(job)) for word in arguments]
        done[name] = pc.play(f"{name}.yml", *arguments)
    return done


def test_the_guide_begins_with_what_can_be_used(pc: ParallelCluster, guide: dict[str, Run]) -> None:
    made = guide["preflight"]
    assert {pc.name("head"), pc.name(STATIC), pc.name(DYNAMIC)} <= made.hosts
    assert re.search(
        r"Slurm 24\.11\.\d+ below /opt/slurm, managed by AWS ParallelCluster", made.output
    )
    for line in (
        f"train, train_status, first_job, lint_job, dataset, results: available, on {pc.name('head')}",
        "accounts: not available: this Slurm does not have accounting -> write Database",
        "containers: available",
        "site, remove_nodes: not available",
        "Prolog: /opt/slurm/etc/scripts/prolog.d/*; it is left as it is",
    ):
        assert line in made.output, made.output


def test_the_guide_s_first_job_starts_a_dynamic_node(guide: dict[str, Run]) -> None:
    """Its script calls srun, and nothing but the login profile of ParallelCluster names /opt/slurm/bin."""
    made = guide["first_job"]
    assert "all 2 nodes took part" in made.output and "COMPLETED" in made.output
    assert f"{DYNAMIC} is host {DYNAMIC}" in made.output and f"{STATIC} is host" in made.output


def test_the_guide_s_training_job_is_submitted_and_watched(guide: dict[str, Run]) -> None:
    job = re.search(r"job (\d+) \(hello\): COMPLETED", guide["train"].output)
    assert job and "step 1/1 (100 %), loss 0.5" in guide["train"].output
    assert f"job {job[1]} (hello): COMPLETED on {STATIC}" in guide["train_status"].output


def test_a_job_that_fails_or_does_not_fit_is_reported(pc: ParallelCluster, before: str) -> None:
    failed = pc.play("train.yml", rc=2, train_user="ubuntu", train_job=JOB)
    assert "FAILED" in failed.output
    large = pc.play("train.yml", rc=2, train_user="ubuntu", train_job={**JOB, "nodes": 9})
    assert "job bad.nodes: wants 9, and 2 of 2 nodes can take it" in large.output


def test_scripts_and_data_are_checked_on_the_head_node(pc: ParallelCluster, before: str) -> None:
    pc.as_ubuntu(
        f"rm -rf copy; mkdir -p data && echo some > data/a && cat > hello.sbatch <<'EOF'\n{SCRIPT}EOF"
    )
    linted = pc.play("lint_job.yml", lint_job_script="/home/ubuntu/hello.sbatch")
    assert "[memory-missing]" in linted.output
    sent = pc.play(
        "dataset.yml",
        dataset_host=pc.name("head"),
        dataset_user="ubuntu",
        dataset_source="/home/ubuntu/data",
        dataset_destination="/home/ubuntu/copy",
        dataset_mount="/home/ubuntu/copy",
    )
    assert "1 sent" in sent.output
    assert pc.on("head", "cat /home/ubuntu/copy/a") == "some"
    missing = pc.play("results.yml", rc=2)
    assert "no directory is known to be exported" in missing.output


def test_accounts_need_an_accounting(pc: ParallelCluster, before: str) -> None:
    made = pc.play("accounts.yml", rc=2, accounting={"accounts": [{"name": "research"}]})
    assert "AccountingStorageType=accounting_storage/slurmdbd" in made.output


def test_a_support_bundle_has_this_slurm_and_no_password(
    pc: ParallelCluster, before: str, tmp_path: Path
) -> None:
    conf = "/opt/slurm/etc/slurm_parallelcluster_slurmdbd.conf"
    pc.on(
        "head",
        f"printf 'StoragePass=Sesame-77-open\\n' > {conf}; echo Sesame-77-open > /var/log/slurmdbd.log",
    )
    try:
        pc.play("support_bundle.yml", support_bundle_directory=str(tmp_path))
    finally:
        pc.on("head", f"rm {conf} /var/log/slurmdbd.log")
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as bundle:
        texts = {
            member.name: bundle.extractfile(member).read().decode(errors="replace")  # type: ignore[union-attr]
            for member in bundle
            if member.isfile()
        }
    assert not [name for name, text in texts.items() if "Sesame-77-open" in text]
    for end, said in (
        ("files/opt/slurm/etc/slurm_parallelcluster.conf", "SuspendExcNodes"),
        ("files/opt/slurm/etc/pcluster/slurm_parallelcluster_gpu_partition.conf", DYNAMIC),
        ("commands/scontrol-config.txt", f"ClusterName             = {CLUSTER}"),
        ("files/var/log/slurmctld.log", "Running as primary controller"),
        ("files/var/log/parallelcluster/clustermgtd", "standing in"),
    ):
        assert [name for name, text in texts.items() if name.endswith(end) and said in text], end


@pytest.mark.parametrize("playbook", ["site.yml", "remove_nodes.yml"])
def test_what_changes_slurm_refuses(pc: ParallelCluster, before: str, playbook: str) -> None:
    made = pc.play(playbook, rc=2, nodes=STATIC, confirm="yes")
    assert "managed by AWS ParallelCluster: change its configuration instead" in made.output
    assert pc.on("head", f"sinfo -hN -n {STATIC} -o %T") == "idle"


def test_a_host_of_parallelcluster_in_slurm_cluster_is_refused(
    pc: ParallelCluster, before: str, tmp_path: Path
) -> None:
    """Somebody follows an older remedy, and puts the hosts into slurm_cluster."""
    connection = (pc.inventory / "group_vars" / "all.yml").read_text(encoding="utf-8")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(connection, encoding="utf-8")
    lines = ["[slurm_controller]", f"head ansible_host={pc.addresses['head']}",
             "[slurm_compute]", f"{STATIC} ansible_host={pc.addresses[STATIC]}",
             "[slurm_cluster:children]", "slurm_controller", "slurm_compute"]  # fmt: skip
    (tmp_path / "hosts").write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = pc.play("site.yml", inventory=tmp_path, rc=2)
    assert "is managed by AWS ParallelCluster, and a second Slurm would be installed" in made.output
    assert "before anything was changed" in made.output


def test_a_prefix_in_another_place_is_given(
    pc: ParallelCluster, before: str, tmp_path: Path
) -> None:
    """By hand, as for a site's own Slurm; without the variable, the daemon that runs tells."""
    (tmp_path / "group_vars").mkdir()
    connection = (pc.inventory / "group_vars" / "all.yml").read_text(encoding="utf-8")
    (tmp_path / "group_vars" / "all.yml").write_text(connection, encoding="utf-8")
    lines = ["[slurm_controller]", f"head ansible_host={pc.addresses['head']}",
             "[slurm_foreign:children]", "slurm_controller"]  # fmt: skip
    (tmp_path / "hosts").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = pc.play("preflight.yml", inventory=tmp_path)
    assert "below /opt/slurm, managed by AWS ParallelCluster" in found.output
    pc.on("head", "mkdir -p /srv/site && ln -sfn /opt/slurm /srv/site/slurm")
    given = pc.play("preflight.yml", inventory=tmp_path, slurm_prefix="/srv/site/slurm")
    assert "below /srv/site/slurm, managed by" in given.output
    wrong = pc.play("preflight.yml", inventory=tmp_path, rc=2, slurm_prefix="/srv/none")
    assert "Slurm was not found" in wrong.output and "slurm_prefix" in wrong.output


def test_nothing_of_that_slurm_was_changed(pc: ParallelCluster, before: str) -> None:
    """The last one, after all playbooks that use it."""
    assert files(pc) == before
    assert pc.on("head", "ls /etc/slurm 2>&1", check=False).startswith("ls: cannot access")
    for host in ("head", STATIC, DYNAMIC):
        assert "slurm" not in pc.on(host, "dpkg-query -W -f '${Package}\\n' | grep slurm || true")
    assert (ROOT / ".cache" / "parallelcluster").is_dir()
