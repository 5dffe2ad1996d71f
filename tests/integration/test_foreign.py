# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Slurm that somebody else manages is used as it is: a stand-in for ParallelCluster, found by the plugin."""

from __future__ import annotations

import json
import os
import re
import shlex
import tarfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import fold_hosts

from . import artifacts
from .artifacts import REGISTRY
from .parallelcluster import CLUSTER, DYNAMIC, LATER, STATIC, ParallelCluster
from .site import ROOT, SOAK, Run, poll

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


def commands(section: str) -> list[list[str]]:
    """The commands of one section of the guide, as words."""
    page = (ROOT / "docs" / "parallelcluster.md").read_text(encoding="utf-8")
    (text,) = [part for part in page.split("\n## ") if part.startswith(section)]
    blocks = [textwrap.dedent(block) for kind, block in BLOCK.findall(text) if kind == "bash"]
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def follow(pc: ParallelCluster, words: list[str], *files: Path, **extra: Any) -> Run:
    """Run a playbook as the guide does; only the region's cluster and the place of files are others."""
    program, option, inventory, playbook, *arguments = words
    assert (program, option, inventory) == ("ansible-playbook", "-i", "~/pc"), words
    for file in files:
        arguments = [word.replace(file.name, str(file)) for word in arguments]
    return pc.play(f"{playbook.removeprefix('trainwright.slurm.')}.yml", *arguments, **extra)


@pytest.fixture(scope="module")
def guide(
    pc: ParallelCluster, before: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    """The commands of the guide's first section, run in their order."""
    page = (ROOT / "docs" / "parallelcluster.md").read_text(encoding="utf-8")
    blocks = [textwrap.dedent(text) for kind, text in BLOCK.findall(page) if kind == "yaml"]
    (described,) = [text for text in blocks if "train_job" in text]
    (plugin,) = [text for text in blocks if "plugin:" in text]
    written = yaml.safe_load((pc.inventory / "aws.yml").read_text(encoding="utf-8"))
    assert yaml.safe_load(plugin).items() <= written.items()
    job = tmp_path_factory.mktemp("guide") / "job.yml"
    job.write_text(described, encoding="utf-8")
    return {
        words[3].removeprefix("trainwright.slurm."): follow(pc, words, job)
        for words in commands("From a fresh cluster to a finished job")
    }


def test_the_guide_begins_with_what_can_be_used(pc: ParallelCluster, guide: dict[str, Run]) -> None:
    made = guide["preflight"]
    assert {pc.name("head"), pc.name(STATIC), pc.name(DYNAMIC)} <= made.hosts
    assert re.search(
        r"Slurm 24\.11\.\d+ below /opt/slurm, managed by AWS ParallelCluster", made.output
    )
    for line in (
        f"train, train_status, first_job, validate, lint_job, dataset, results: available, on {pc.name('head')}",
        "accounts: not available: this Slurm does not have accounting -> write Database",
        "containers: available",
        "site, remove_nodes, image, reboot: not available",
        "Prolog: /opt/slurm/etc/scripts/prolog.d/*; it is left as it is",
        # For EC2 they are p5.48xlarge, and the containers show two GPUs.
        "FAIL: 2 of 8 GPUs, by machine type p5.48xlarge -> ",
        "machines: nothing was drained -> drain.yml drains a node; AWS ParallelCluster terminates it then",
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


def test_validate_tests_what_is_there(
    pc: ParallelCluster, before: str, guide: dict[str, Run], tmp_path: Path
) -> None:
    """Nothing there is ours: neither the agent, nor the directories, nor the names of the inventory."""
    left_out = {
        # The containers lack what the image of ParallelCluster has for p5.48xlarge, and would be left out as faulty.
        name: None
        for name in ("efa_files", "ofi_nccl", "memlock")
    }
    made = pc.play(
        "validate.yml",
        *("--tags", "static,node,pairwise"),
        rc=2,
        validate_user="ubuntu",
        validate_wake=True,
        validate_checks=left_out,
        validate_report=str(tmp_path),
    )
    (path,) = tmp_path.glob("*/validate.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["verdict"] == "INCOMPLETE", made.output
    assert not [one for one in found["results"] if one["verdict"] == "FAIL"], made.output
    told = {(one["host"], one["check"]): one for one in found["results"]}
    for node in (STATIC, DYNAMIC):
        for check in ("node_state", "open_files", "kernel"):
            assert told[node, check]["verdict"] == "PASS", told[node, check]
        # Declared, by the type of the instance with the node's address, and not there.
        one = told[node, "gpus"]
        assert one["verdict"] == "INCOMPLETE" and "validate_path" in one["remedy"], one
        assert one["detail"].startswith("nvidia-smi is not installed"), one
        assert told[node, "pair_sockets"]["value"] > 0, told[node, "pair_sockets"]
    # For EC2, these instances have no interface of EFA.
    for check in (
        "node_health",
        "mounts",
        "pair_mpi",
        "pair_infiniband",
        "efa_domains",
        "pair_efa",
    ):
        one = told["cluster", check]
        assert one["verdict"] == "NOT_APPLICABLE" and one["detail"], one
    assert {one["kind"] for one in found["measurements"]} >= {"pair"}


def test_a_job_that_fails_or_does_not_fit_is_reported(pc: ParallelCluster, before: str) -> None:
    failed = pc.play("train.yml", rc=2, train_user="ubuntu", train_job=JOB)
    assert "FAILED" in failed.output
    if SOAK:  # the unit tests have it
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


@pytest.mark.parametrize(
    "playbook",
    [
        "site.yml",
        pytest.param("remove_nodes.yml", marks=pytest.mark.soak("the same refusal once more")),
    ],
)
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


@pytest.mark.soak("the unit tests of the facts look for it")
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


def test_a_person_drains_and_resumes_a_node(pc: ParallelCluster, before: str) -> None:
    """Slurm keeps the reason of a cloud node beside a state that is idle again."""
    show = f"sinfo -hN -n {DYNAMIC} -o %T"
    pc.play("drain.yml", nodes=DYNAMIC, reason="rack 4: new switch")
    assert pc.on("head", f"{show}:%E").startswith("drain")
    assert pc.on("head", f"{show}:%E").endswith(":rack 4: new switch")
    resumed = pc.play("resume.yml", nodes=DYNAMIC)
    assert f"{DYNAMIC}: " in resumed.output and "(changed)" in resumed.output
    assert pc.on("head", show).startswith("idle")


def test_an_inventory_of_pcs(pc: ParallelCluster, before: str, tmp_path: Path) -> None:
    """The same playbooks, with the groups and the prefix that the plugin makes of PCS' answers."""
    with pc.as_pcs(tmp_path):
        report = pc.play("preflight.yml", inventory=tmp_path).output
        prefix = "/opt/aws/pcs/scheduler/slurm-24.11"
        assert re.search(rf"Slurm 24\.11\.\d+ below {prefix}, managed by AWS PCS", report), report
        assert "accounts: not available: this Slurm does not have accounting -> switch" in report
        assert "containers: not available: slurm_controller without a host" in report
        job = {**JOB, "name": "pcs", "command": "echo step 1/1 loss 0.5"}
        made = pc.play("train.yml", inventory=tmp_path, train_user="ubuntu", train_job=job)
        assert re.search(r"job \d+ \(pcs\): COMPLETED", made.output)
        refused = pc.play("site.yml", inventory=tmp_path, rc=2)
        assert "managed by AWS PCS: change its configuration instead" in refused.output
        if SOAK:
            use_all_of_pcs(pc, tmp_path)


def use_all_of_pcs(pc: ParallelCluster, inventory: Path) -> None:
    """Run the other playbooks of the guide's table, as the tests above do with ParallelCluster."""
    data = "/home/ubuntu/data"
    sent = {
        "host": pc.name("head"),
        "user": "ubuntu",
        "source": data,
        "destination": f"{data}2",
        "mount": f"{data}2",
    }
    pc.as_ubuntu(f"mkdir -p data; echo some >data/a; cat >hello.sbatch <<'EOF'\n{SCRIPT}EOF")
    for playbook, code, said, variables in (
        ("first_job", 0, "COMPLETED", {"first_job_user": "ubuntu"}),
        ("train_status", 0, "(pcs): COMPLETED", {"train_status_user": "ubuntu", "train_status_job": "pcs"}),
        ("lint_job", 0, "[memory-missing]", {"lint_job_script": "/home/ubuntu/hello.sbatch"}),
        ("dataset", 0, "1 sent", {f"dataset_{name}": value for name, value in sent.items()}),
        ("results", 2, "no directory is known to be exported", {}),
        ("drain", 0, "(changed)", {"nodes": STATIC, "reason": "a new switch"}),
        ("resume", 0, "(changed)", {"nodes": STATIC}),
        ("support_bundle", 0, ".tar.gz", {"support_bundle_directory": str(inventory.parent / "bundle")}),
        ("accounts", 2, "AccountingStorageType", {"accounting": {"accounts": [{"name": "research"}]}}),
        ("containers", 2, "slurm_controller need a host each", {}),
        ("remove_nodes", 2, "managed by AWS PCS", {"nodes": STATIC, "confirm": "yes"}),
    ):  # fmt: skip
        made = pc.play(f"{playbook}.yml", inventory=inventory, rc=code, **variables)
        assert said in made.output, made.output


# -- containers ----------------------------------------------------------------------------------------------------
IMAGE = "ubuntu.sqsh"
DIGEST = f"sha256:{'7' * 64}"
OTHER = "/opt/slurm/etc/plugstack.conf.d/site.conf"


def test_a_second_pyxis_is_refused(pc: ParallelCluster, before: str) -> None:
    """As in the samples of ParallelCluster's image, once somebody has copied them."""
    conf = "/opt/slurm/etc/plugstack.conf"
    pc.on("head", f"mkdir -p $(dirname {OTHER}); echo 'optional /none/spank_pyxis.so' > {OTHER}")
    pc.on("head", f"echo 'include {OTHER}' > {conf}")
    try:
        made = pc.play("containers.yml", rc=2)
    finally:
        pc.on("head", f"rm -r {conf} $(dirname {OTHER})")
    assert "plugstack.conf loads /none/spank_pyxis.so already" in made.output
    assert made.changed == set()


@pytest.fixture(scope="module")
def containers(
    pc: ParallelCluster, before: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The stand-in after the guide's section about containers, with a plugstack.conf as in ParallelCluster's image."""
    pc.on("head", f"mkdir -p $(dirname {OTHER}); echo '# of the site' > {OTHER}")
    pc.on(
        "head", "echo 'include /opt/slurm/etc/plugstack.conf.d/*' > /opt/slurm/etc/plugstack.conf"
    )
    directory = tmp_path_factory.mktemp("artifacts")
    variables = {
        **({} if artifacts.REAL else artifacts.make(directory)),
        "artifact_cache": str(directory / "cache"),
    }
    install, image, job = commands("Jobs in containers")
    follow(pc, install, **variables)
    if not artifacts.REAL:
        # The image of the guide, where the substitute for Enroot finds registries.
        pc.on(
            "head",
            f"ln -sfn /srv/cluster /shared; mkdir -p {REGISTRY}/{DIGEST}/etc;"
            f" echo ID=guide >{REGISTRY}/{DIGEST}/etc/os-release; echo {DIGEST} >{REGISTRY}/ubuntu:24.04",
        )
        follow(pc, image)
        assert "ID=" in pc.as_ubuntu(shlex.join(job))
    return {**variables, "enroot_images_path": "/home/images"}


def in_container(pc: ParallelCluster, node: str, image: str = IMAGE) -> tuple[int, str]:
    """Run a step in a container on a node, which leaves a file if it runs at all."""
    pc.as_ubuntu("rm -f ran")
    queue = node.partition("-")[0]
    command = (
        f"srun -Q -p {queue} -w {node} --container-image={image} sh -c 'echo $FIXTURE_IMAGE > ran'"
    )
    done = pc.as_ubuntu(f"{command}; echo rc=$?", check=False)
    (code,) = re.findall(r"^rc=(\d+)$", done, re.MULTILINE)
    return int(code), done


def test_container_jobs_run_on_both_nodes(pc: ParallelCluster, containers: dict[str, Any]) -> None:
    if artifacts.REAL:
        pytest.skip("the image is one for the substitutes")
    for node in (STATIC, DYNAMIC):
        code, said = in_container(pc, node)
        assert code == 0, said
        assert pc.as_ubuntu("cat ran").startswith("/home/images/")
    code, said = in_container(pc, STATIC, "/home/ubuntu/none.sqsh")
    assert code != 0 and not pc.as_ubuntu("ls ran 2>/dev/null || true"), said
    directory = Path(OTHER).parent
    assert pc.on("head", f"cat /opt/slurm/etc/plugstack.conf {OTHER}").splitlines() == [
        f"include {directory}/*",
        "# of the site",
    ]
    assert pc.on("head", f"ls -A {directory}").split() == ["site.conf", "trainwright.conf"]


@pytest.mark.soak("two more runs; the unit tests have the places of plugstack.conf")
def test_the_plugstack_conf_that_slurm_conf_names(
    pc: ParallelCluster, containers: dict[str, Any]
) -> None:
    """Without our lines preflight does not call container jobs available; with them twice, a run leaves one place.

    Twice, each job would load Pyxis twice: an include was removed, containers run, and the include added again.
    """
    slurm_conf, conf = "/opt/slurm/etc/slurm.conf", "/opt/slurm/etc/site/spank.conf"
    directory = f"{Path(conf).parent}/plugstack.conf.d"
    own = str(Path(OTHER).with_name("trainwright.conf"))
    pc.on("head", f"cp -p {slurm_conf} /root/conf; echo PlugStackConfig={conf} >>{slurm_conf}")
    try:
        pc.on("head", f"mkdir -p {directory}; echo 'include {directory}/*' >{conf}")
        report = pc.play("preflight.yml").output
        (said,) = re.findall("container jobs: not available: (.*) -> run containers.yml", report)
        hosts = fold_hosts([pc.name(host) for host in (STATIC, DYNAMIC, "head")])
        assert said == f"{hosts}: plugstack.conf does not name Pyxis"
        pc.on("head", f"cat {own} >>{conf}; cp {own} {directory}/")
        made = pc.play("containers.yml", **containers)
        (task,) = made.changed
        assert task[1].endswith("Remove them from the place of an earlier run")
        assert not pc.on("head", f"cat {directory}/trainwright.conf 2>/dev/null || true")
        assert pc.on("head", f"cat {conf}").count("include /etc/trainwright/plugstack.conf") == 1
        pc.on("head", "scontrol reconfigure")
        if not artifacts.REAL:
            assert in_container(pc, STATIC)[0] == 0
    finally:
        pc.on("head", f"cp -p /root/conf {slurm_conf}; rm -r /root/conf {Path(conf).parent}")
        pc.on("head", "scontrol reconfigure")


def test_a_node_that_started_since_refuses_container_jobs(
    pc: ParallelCluster, containers: dict[str, Any]
) -> None:
    """Slurm would run them outside of a container there, also where its own part is empty; all other jobs run."""
    own = "/etc/trainwright/plugstack.conf"
    # A start of slurmd writes its own part again.
    pc.as_ubuntu(f"srun -Q -w {DYNAMIC} true")
    pc.on(DYNAMIC, f"mv {own} {own}.kept")
    try:
        for variable in ("", f"PYXIS_CONTAINER_IMAGE={IMAGE} "):
            pc.as_ubuntu("rm -f ran")
            option = "" if variable else f"--container-image={IMAGE} "
            job = f"{variable}srun -Q -w {DYNAMIC} {option}sh -c 'echo > ran'"
            said = pc.as_ubuntu(f"{job}; echo rc=$?", check=False)
            assert (
                not re.search("^rc=0$", said, re.MULTILINE)
                and "asks for a container and has none" in said
            ), said
            assert not pc.as_ubuntu("ls ran 2>/dev/null || true")
            # As after a full disk.
            pc.on(DYNAMIC, f": >{own}")
        assert pc.as_ubuntu(f"srun -Q -w {DYNAMIC} hostname") == DYNAMIC
        pc.wait_for_node(DYNAMIC)
    finally:
        pc.on(DYNAMIC, f"mv {own}.kept {own}")


@pytest.fixture(scope="module")
def bootstrap(pc: ParallelCluster, containers: dict[str, Any]) -> str:
    """The script that nodes call, after the guide's section; the run changed nothing that containers.yml has made."""
    (made, called) = commands("Nodes that start later")
    done = follow(pc, made, **containers)
    assert done.changed == {
        (pc.name("head"), f"Make what a node runs when it starts | {task}")
        for task in ("Make the directory", "Copy the bundle", "Write the script")
    }
    assert called[0] in done.output
    return called[0]


def test_a_node_that_starts_later_sets_itself_up(pc: ParallelCluster, bootstrap: str) -> None:
    """As OnNodeConfigured of ParallelCluster does: before slurmd starts, and nobody runs Ansible elsewhere."""
    assert not pc.on(LATER, "ls /etc/trainwright /usr/bin/enroot 2>/dev/null || true")
    said = pc.on(LATER, f"env -i {bootstrap} 2>&1; echo rc $?", check=False)
    assert said.endswith("container jobs can run on this node\nrc 0"), said
    code, said = in_container(pc, LATER)
    assert code == 0, said
    assert pc.as_ubuntu("cat ran").startswith("/home/images/")
    assert pc.on(LATER, "systemctl is-active slurmd enroot-directories") == "active\nactive"
    again = pc.on(LATER, f"{bootstrap} 2>&1")
    assert re.search(r"localhost +: ok=\d+ +changed=0 ", again), again
    state = "/var/lib/trainwright/bootstrap"
    assert pc.on(LATER, f"stat -c '%U %a' {state}") == "root 700"
    assert not pc.on(LATER, f"find {state} /usr/lib/trainwright /etc/trainwright ! -user root")


def test_a_bundle_that_was_changed_is_refused(pc: ParallelCluster, bootstrap: str) -> None:
    """Before anything of it is unpacked; the one that is there stays. So does a user who is not root."""
    (bundle,) = pc.on("head", f"ls {Path(bootstrap).parent}/*.tar.gz").split()
    state = "/var/lib/trainwright/bootstrap"
    pc.on(STATIC, f"cp {bundle} /root/other; echo >>/root/other")
    try:
        said = pc.on(STATIC, f"{bootstrap} /root/other 2>&1; echo rc $?", check=False)
        assert "is not the bundle that this script was made with" in said and said.endswith("rc 1")
        assert set(pc.on(STATIC, f"ls {state}").split()) <= {"lock", "work"}
        gone = pc.on(STATIC, f"{bootstrap} /root/none 2>&1; echo rc $?", check=False)
        assert "/root/none: cannot be read -> give the path" in gone and gone.endswith("rc 1")
        pc.on("head", f"install -m 0755 {bootstrap} /home/ubuntu/copy-of-it")
        other = pc.as_ubuntu("./copy-of-it 2>&1; echo rc $?", check=False)
        assert "user ubuntu is not root -> run it as root" in other and other.endswith("rc 1")
    finally:
        pc.on(STATIC, f"rm -rf {state} /root/other /home/ubuntu/copy-of-it")


def test_a_second_run_changes_nothing(
    pc: ParallelCluster, bootstrap: str, containers: dict[str, Any]
) -> None:
    assert pc.play("node_bootstrap.yml", **containers).changed == set()
    report = pc.play("preflight.yml").output
    assert "container_image, container jobs: available" in report
    assert "containers: available" in report


def test_job_hooks_run_after_the_scripts_of_that_slurm(pc: ParallelCluster, before: str) -> None:
    there = files(pc)
    scripts = "/opt/slurm/etc/scripts/prolog.d"
    own = "#!/bin/sh\n/bin/date +%s%N >/run/own"
    part = {"name": "mine", "kind": "prolog", "text": "#!/bin/sh\ndate +%s%N >/run/ours\n"}
    pc.on(
        "head",
        f"printf '{own.replace('%', '%%')}\n' >{scripts}/50_mine; chmod 755 {scripts}/50_mine",
    )
    try:
        made = pc.play("job_hooks.yml", job_hooks_parts=[part])
        assert {host for host, _task in made.changed} == {pc.name("head")}
        assert not pc.play("job_hooks.yml", job_hooks_parts=[part]).changed
        pc.as_ubuntu(f"srun -w {STATIC} true")
        first, second = (int(pc.on(STATIC, f"cat /run/{name}")) for name in ("own", "ours"))
        assert first < second
        assert '"prolog.mine", "verdict": "PASS"' in pc.on(
            STATIC, "cat /var/lib/trainwright/results/hooks.json"
        )
        # Without parts there is nothing left of it.
        off = {f"job_hooks_{name}": False for name in ("end_processes", "enroot", "gpu")}
        pc.play("job_hooks.yml", **off)
    finally:
        pc.on("head", f"rm -f {scripts}/50_mine")
    assert files(pc) == there


def test_nothing_of_that_slurm_was_changed(
    pc: ParallelCluster, before: str, containers: dict[str, Any]
) -> None:
    """The last one, after all playbooks that use it. Containers added the line and the guard."""
    after = files(pc).splitlines()
    assert set(before.splitlines()) <= set(after)
    added = {line.split()[1] for line in after} - {line.split()[1] for line in before.splitlines()}
    bundle = {name for name in added if "/bootstrap/node-bundle-" in name}
    assert len(bundle) == 1
    assert added - bundle == {
        "/opt/slurm/etc/plugstack.conf",
        OTHER,
        "/opt/slurm/etc/plugstack.conf.d/trainwright.conf",
        "/opt/slurm/etc/trainwright/bootstrap/node-bootstrap",
        "/opt/slurm/etc/trainwright/spank_guard-slurm24.11.so",
    }
    assert pc.on("head", "ls /etc/slurm 2>&1", check=False).startswith("ls: cannot access")
    for host in ("head", STATIC, DYNAMIC, LATER):
        assert "slurm" not in pc.on(host, "dpkg-query -W -f '${Package}\\n' | grep slurm || true")


def test_accounts_are_made_once_there_is_an_accounting(pc: ParallelCluster, before: str) -> None:
    """After the comparison of files: an update of the cluster changes its own."""
    pc.on("head", "/srv/cluster/accounting")
    poll("slurmctld to answer", lambda: "UP" in pc.on("head", "scontrol ping", check=False))
    tree = {"accounts": [{"name": "research", "fairshare": 3, "users": ["ubuntu"]}]}
    assert pc.play("accounts.yml", accounting=tree).changed
    assert pc.play("accounts.yml", accounting=tree).changed == set()
    shown = pc.on("head", "sacctmgr -nP show assoc account=research format=cluster,user,share")
    assert shown.splitlines() == ["training||3", "training|ubuntu|1"]
    report = pc.play("preflight.yml").output
    assert f"accounts: available, slurmdbd is on {pc.head}" in report
