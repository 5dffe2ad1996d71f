"""Training on real nodes: from a description to a finished, resumable run, with its recipes.

PyTorch's CPU build, in a virtual environment on shared storage for the Python of Debian 12; where TRAINWRIGHT_ARTIFACTS
has the real Enroot and Pyxis, DDP and FSDP run in an image instead.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.test_finetune_recipe import MODEL

from .artifacts import REAL
from .conftest import Converged
from .site import ROOT, SOAK, poll
from .test_container_jobs import provide

pytestmark = pytest.mark.systems("debian12", only="the Python that the wheels are for")

TORCH = "2.13.0"
PYTHON = "3.11"  # of Debian 12
PACKAGES = ["numpy", "transformers", "accelerate"]
#: Packages that DeepSpeed needs to be built and to run.
DEEPSPEED = (
    "setuptools wheel einops hjson msgpack ninja packaging psutil py-cpuinfo pydantic tqdm".split()
)
WHEELS = ROOT / ".cache" / "wheels"
STEPS = 120
#: A GPU, as nvidia-smi prints it.
NVIDIA_SMI = """#!/bin/bash
asked=timestamp,name,utilization.gpu,memory.used,memory.total,temperature.gpu
[[ $* = --query-gpu=$asked* && $* = *'-l '* ]] || exit 2
while date '+%Y/%m/%d %H:%M:%S.%3N, NVIDIA H100 80GB HBM3, 87 %%, 71234 MiB, 81559 MiB, 61'; do
  sleep "${@: -1}"
done
"""
#: Differences of a loss between an unbroken run and one that was resumed (docs/training.md).
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def python(site: Converged) -> str:
    """A virtual environment with PyTorch for all nodes; its path. And the image, where one can be used.

    Whole from the beginning: a job that starts while packages are written there may find a half of one.
    """
    if REAL:
        provide(site)
    index = os.environ.get("TRAINWRIGHT_TORCH_INDEX", "")
    command = [sys.executable, "-m", "pip", "--quiet", "--quiet", "download", f"--dest={WHEELS}"]
    command += [f"--extra-index-url={index}"] if index else []
    wheels = ["--only-binary=:all:", f"--python-version={PYTHON}", f"torch=={TORCH}", *PACKAGES]
    wheels += DEEPSPEED if SOAK else []
    subprocess.run([*command, *wheels], check=True)
    if SOAK:
        # It does not offer wheels, and is built where PyTorch is installed.
        subprocess.run([*command, "--no-deps", "deepspeed"], check=True)
    target = site.cluster.local.directory / "shared" / "shared" / "wheels"
    target.mkdir(exist_ok=True)
    for wheel in WHEELS.iterdir():
        if not (target / wheel.name).exists():
            (target / wheel.name).hardlink_to(wheel)
    site.run("login1", "apt-get install -y -q python3-venv >/dev/null")
    site.run(
        "login1",
        "test -x /shared/venv/bin/accelerate || { python3 -m venv /shared/venv &&"
        f" /shared/venv/bin/pip install -q --no-index --find-links=/shared/wheels torch {' '.join(PACKAGES)}; }}",
    )
    return "/shared/venv"


def recipe(which: str, **changes: Any) -> dict[str, Any]:
    """A recipe's variables for this cluster: without GPUs, with little memory."""
    variables = yaml.safe_load((ROOT / "recipes" / which / "job.yml").read_text())
    files = [str(ROOT / "recipes" / which / name) for name in variables.pop("train_files", [])]
    job = variables["train_job"]
    job.pop("gpus_per_node", None)
    if REAL and which in ("ddp", "fsdp"):
        job.pop("hooks")
        job["container"] = {
            "image": "train.sqsh",
            "mounts": ["/shared:/shared"],
            "workdir": f"/shared/data/{which}",
        }
    job.update({"memory": "1500M", "time": "10", **changes})
    return {**variables, "train_files": files, "train_user": "alice"}


def losses(text: str) -> dict[int, float]:
    """Loss of each step in a log; of a step that ran twice the later one."""
    return {int(step): float(loss) for step, loss in re.findall(r"step (\d+)/\d+ loss (\S+)", text)}


def job_of(output: str) -> str:
    """Number of the job that a run of train.yml names."""
    match = re.search(r"job (\d+) submitted", output)
    assert match, output
    return match[1]


def log(site: Converged, name: str, job: str) -> str:
    return site.as_user("alice", f"cat /shared/data/{name}/logs/{name}-{job}.out")


def train(
    site: Converged, which: str, rc: int = 0, wait: bool = True, **changes: Any
) -> tuple[str, str]:
    """Run train.yml with a recipe; return the job's number and the output."""
    try:
        run = site.play("train.yml", rc=rc, **{**recipe(which, **changes), "train_wait": wait})
    except AssertionError:
        # The cause is in the log of the job, which is gone with the cluster.
        print(site.run("login1", f"tail -n 80 /shared/data/{which}/logs/*.out", check=False))
        raise
    return job_of(run.output), run.output


def test_the_recipe_for_cpus_runs_as_it_is(site: Converged) -> None:
    """The first job of docs/training.md, without an environment with PyTorch."""
    site.run("login1", "rm -rf /shared/data/cpu")
    path = str(ROOT / "recipes" / "cpu" / "job.yml")
    output = site.play("train.yml", train_job_file=path, train_user="alice").output
    text = log(site, "cpu", job_of(output))
    assert text.count("2 ranks, beginning at step 0") == 1 and "COMPLETED" in output
    found = losses(text)
    assert list(found) == list(range(1, 201)) and found[200] < found[1] / 100


@pytest.fixture(scope="module")
def unbroken(site: Converged, python: str) -> dict[int, float]:
    """Losses of a DDP run that nothing disturbs."""
    site.run("login1", "rm -rf /shared/data/ddp")
    job, output = train(site, "ddp", arguments=["--steps", str(STEPS), "--save-every", "20"])
    # Progress on the screen, and where it ends.
    assert re.search(rf"step \d+/{STEPS}", output), output
    assert "COMPLETED" in output
    text = log(site, "ddp", job)
    assert "2 ranks, beginning at step 0" in text
    found = losses(text)
    assert list(found) == list(range(1, STEPS + 1))
    return found


def check_resumed(site: Converged, name: str, job: str, unbroken: dict[int, float]) -> None:
    """The log has another beginning, and the same losses as the unbroken run."""
    text = log(site, name, job)
    begins = [int(step) for step in re.findall(r"(?:beginning at|going on after) step (\d+)", text)]
    assert len(begins) > 1 and begins[0] == 0 and 0 < begins[1] < STEPS, begins
    found = losses(text)
    assert set(found) == set(unbroken)
    apart = {step: abs(found[step] - unbroken[step]) for step in found}
    assert max(apart.values()) <= TOLERANCE, max(apart.items(), key=lambda item: item[1])


def test_ddp_learns_and_leaves_a_complete_checkpoint(
    site: Converged, unbroken: dict[int, float]
) -> None:
    assert unbroken[STEPS] < 0.5 * unbroken[1]
    status = site.play("train_status.yml", train_status_job="ddp", train_status_user="alice",
                       train_status_checkpoints="/shared/data/ddp/checkpoints")  # fmt: skip
    assert f"step-{STEPS:06d}.pt" in status.output and "complete" in status.output, status.output
    page = site.as_user("alice", "cat /shared/data/ddp/logs/ddp-*.html")
    assert "<svg" in page and "loss" in page
    run = site.play("train.yml", "--check", "--diff", **recipe("ddp", nodes="idle"))
    assert "+#SBATCH --nodelist=c[1-2]" in run.output, run.output
    script = site.as_user("alice", "cat /shared/data/ddp/logs/ddp.sbatch")
    assert "#SBATCH --requeue" in script and "torchrun" in script


def test_a_node_that_fails_does_not_change_the_curve(
    site: Converged, unbroken: dict[int, float]
) -> None:
    site.run("login1", "rm -rf /shared/data/ddp/checkpoints")
    arguments = ["--steps", str(STEPS), "--save-every", "20", "--pause", "0.3"]
    job, _ = train(site, "ddp", wait=False, arguments=arguments)
    poll(
        "a checkpoint",
        lambda: site.run("login1", "ls /shared/data/ddp/checkpoints/*.pt", check=False).startswith(
            "/"
        ),
        90,
    )
    # The remains of a step on a node that lost its power, which would prevent the same step from starting there.
    left = "/var/spool/slurmd/stepd.slurm.pmix.999.0"
    site.run("c2", f"touch {left}")
    site.cluster.kill("c2")
    try:
        # slurmctld only notices after SlurmdTimeout; an administrator is faster.
        site.run("ctl1", "scontrol update node=c2 state=down reason=killed")
        poll("the job to wait again", lambda: site.job(job).get("Restarts") == "1", 60)
    finally:
        site.cluster.start("c2")
        site.run("ctl1", "scontrol update node=c2 state=resume", check=False)
    assert site.run("c2", f"ls {left}", check=False).endswith("No such file or directory")
    assert site.see_through(job, 300) == "COMPLETED"
    check_resumed(site, "ddp", job, unbroken)


@pytest.fixture(scope="module")
def limited(site: Converged, python: str) -> str:
    """A DDP run that takes longer than it may; it runs beside the tests that follow."""
    site.run("login1", "rm -rf /shared/data/limited")
    # Slurm sends the signal half a minute to a minute early. The signal's checkpoint is the only one.
    return train(
        site, "ddp", wait=False, name="limited", time="2", signal={"name": "USR1", "seconds": 30},
        workdir="/shared/data/limited", checkpoints="/shared/data/limited/checkpoints",
        logs="/shared/data/limited/logs",
        arguments=["--steps", str(STEPS), "--save-every", "1000", "--pause", "0.8"],
    )[0]  # fmt: skip


def test_fsdp_learns_and_leaves_a_complete_checkpoint(site: Converged, limited: str) -> None:
    site.run("login1", "rm -rf /shared/data/fsdp")
    job, output = train(site, "fsdp", arguments=["--steps", "40", "--save-every", "20"])
    found = losses(log(site, "fsdp", job))
    assert list(found) == list(range(1, 41)) and found[40] < 0.8 * found[1], found
    assert "step-000040" in output and "complete" in output
    files = site.as_user("alice", "ls -A /shared/data/fsdp/checkpoints/step-000040").split()
    assert ".metadata" in files and len([name for name in files if name.endswith(".distcp")]) == 2


def test_a_job_that_fails_says_why_in_three_lines(site: Converged, python: str) -> None:
    program = """import os, time
time.sleep(30 * (os.environ["RANK"] == "0"))
raise ValueError("no data for rank " + os.environ["RANK"])
"""
    site.run("login1", "rm -rf /shared/data/ddp/checkpoints")
    site.as_user("alice", f"cat > /shared/data/ddp/wrong.py <<'EOF'\n{program}EOF")
    _, output = train(site, "ddp", rc=2, script="wrong.py", arguments=[], launcher="srun",
                      tasks_per_node=1, signal=None, retries=0)  # fmt: skip
    said = re.findall(r"exit code 1|c2.*\b(?:task|rank) 1|ValueError: no data for rank 1", output)
    assert len({text.split()[0] for text in said}) == 3, output


def test_a_plan_that_does_not_fit_is_refused_with_what_is_missing(site: Converged) -> None:
    variables = yaml.safe_load((ROOT / "recipes" / "many_models" / "job.yml").read_text())
    variables["train_defaults"] = {
        "command": "train.py",
        "nodes": 1,
        "exclusive": True,
        "memory": "100M",
    }
    jobs = [{"name": f"model{number}"} for number in (1, 2, 3)]
    run = site.play("train.yml", rc=2, **{**variables, "train_jobs": jobs, "train_user": "alice"})
    assert "wants 1 node beside the 2 others; 0 of the 2 that could take it are left" in run.output
    assert not site.as_user("alice", "squeue -h -n model1,model2,model3")
    bad = site.play("train.yml", rc=2, train_user="alice",
                    train_job={"name": "a b", "command": "x", "nodse": 2, "partition": "nowhere"})  # fmt: skip
    assert "did you mean nodes?" in bad.output


def test_check_mode_shows_the_script_and_submits_nothing(site: Converged) -> None:
    site.run("login1", "rm -rf /shared/data/mpi")
    run = site.play("train.yml", "--check", "--diff", **recipe("mpi"))
    assert "+#SBATCH --ntasks-per-node=4" in run.output and "+srun" in run.output, run.output
    assert not site.as_user("alice", "squeue -h -n mpi; test ! -e /shared/data/mpi")
    # Storage of root's, where alice cannot make a directory: refused before anything is made.
    refused = site.play(
        "train.yml", "--check", rc=2, **recipe("mpi", workdir="/shared/mpi-of-alice")
    )
    assert (
        "job mpi.workdir: alice cannot make /shared/mpi-of-alice: /shared is root's"
        in refused.output
    )
    assert "use a directory of yours such as /shared/data/mpi-of-alice" in refused.output
    site.run("login1", "test ! -e /shared/mpi-of-alice && test ! -e /shared/data/mpi")


def test_mpi(site: Converged) -> None:
    site.run("login1", "rm -rf /shared/data/mpi")
    for host in ("c1", "c2"):
        site.run(host, "apt-get install -y -q gcc libc6-dev libopenmpi-dev openmpi-bin >/dev/null")
    job, _ = train(site, "mpi", command="./allreduce 8", tasks_per_node=1)
    assert "2 ranks, 8 MiB:" in (text := log(site, "mpi", job)) and "the sum is right" in text


def test_an_interactive_session_outlives_its_terminal(site: Converged) -> None:
    job, _ = train(site, "interactive", wait=False, memory="100M", time="5")
    site.wait_job(job, ["RUNNING"])
    say = "echo session of $SLURM_JOB_ID on $(hostname) $(tty)"
    for _time in range(2):
        # srun wants a terminal, which script(1) gives it.
        session = f"srun --jobid={job} --overlap --pty bash -ic '{say}'"
        said = site.as_user("alice", f"script -qec {shlex.quote(session)} /dev/null </dev/null")
        assert re.search(rf"session of {job} on c[12] /dev/pts/\d", said), said
    assert site.job(job)["JobState"] == "RUNNING"
    site.as_user("alice", f"scancel {job}")


def test_gpus_are_sampled_on_every_node(site: Converged) -> None:
    """With what stands in for nvidia-smi: the job's two steps run beside each other, and the status reads the files."""
    site.run(
        "login1",
        "rm -rf /shared/data/gpus && install -d -o alice -g alice /shared/data/gpus /shared/data/gpus/bin &&"
        f" cat >/shared/data/gpus/bin/nvidia-smi <<'EOF'\n{NVIDIA_SMI}EOF\nchmod 755 /shared/data/gpus/bin/nvidia-smi",
    )
    job = {"name": "gpus", "launcher": "srun", "command": "sleep 5", "nodes": 2, "gpus_per_node": 1, "gpu_samples": 1,
           "memory": "100M", "time": "5", "workdir": "/shared/data/gpus", "logs": "/shared/data/gpus/logs",
           "hooks": {"pre": "export PATH=/shared/data/gpus/bin:$PATH"}}  # fmt: skip
    number = job_of(site.play("train.yml", train_user="alice", train_job=job).output)
    for node in ("c1", "c2"):
        rows = site.as_user(
            "alice", f"cat /shared/data/gpus/logs/gpu-{node}-{number}.csv"
        ).splitlines()
        assert len(rows) >= 3 and all(row.count(",") == 5 for row in rows), rows
    status = site.play("train_status.yml", train_status_job="gpus", train_status_user="alice")
    for node in ("c1", "c2"):
        said = f"GPUs of {node}: 1, 87 % busy on average, at most 71234 MiB of 81559 MiB"
        assert said in status.output, status.output
    # The samplers end with the job.
    for node in ("c1", "c2"):
        assert not site.run(node, "pgrep -fa '/shared/data/gpus/bin/nvidia-sm[i]' || true")


SECRET = 'hf_Wq7ZkL0 it\'s $HOME "quoted"'


def test_a_secret_is_in_its_file_and_nowhere_else(site: Converged) -> None:
    """Files of Slurm on all hosts, logs, the journal, records, command lines, Ansible's output at -vvv."""
    site.run("login1", "rm -rf /shared/data/secret")
    job = {
        "name": "secret",
        "launcher": "srun",
        "command": "bash -c 'sha256sum <<< $TOKEN; until [ -e over ]; do sleep 0.2; done; [ -n \"$TOKEN\" ]'",
        "nodes": 2,
        "memory": "100M",
        "time": "5",
        "workdir": "/shared/data/secret",
        "logs": "/shared/data/secret",
        "secrets": [{"name": "TOKEN"}],
    }
    site.run("login1", "su - alice -c 'rm -rf ~/.config/trainwright'")
    environment = {"train_job": job, "train_user": "alice", "train_wait": False}
    # As from a vault: a file of variables, not the command line.
    variables = Path(site.inventory) / "secret.yml"
    variables.write_text(yaml.safe_dump({"train_secrets": {"TOKEN": SECRET}}))
    try:
        run = site.play("train.yml", "-vvv", f"-e@{variables}", **environment)
    finally:
        variables.unlink()
    number = job_of(run.output)
    part = SECRET.split()[0]
    assert part not in run.output
    site.wait_job(number, ["RUNNING"])
    place = f"/home/alice/.config/trainwright/secrets/{number}"
    assert site.run("login1", f"stat -c '%a %U' {place}") == "600 alice"
    search = (
        f"grep -rlsaF -e '{part}' /var/spool /var/log /var/lib/slurm* /run/slurm* /etc /tmp /home /root /shared"
        " --exclude-dir=venv --exclude-dir=wheels; journalctl -q | grep -F -e '{0}';"
        " for p in /proc/[0-9]*; do { tr '\\0' ' ' < $p/cmdline; } 2>/dev/null | grep -F -e '{0}'; done; true"
    ).replace("{0}", part)
    # The pattern itself is in this shell's command line: from a file it is not.
    for host in site.cluster.hosts:
        site.run(host, f"umask 077; cat > /root/pattern <<'EOF'\n{part}\nEOF")
        found = site.run(
            host, search.replace(f"-e '{part}'", "-f /root/pattern") + "; rm /root/pattern"
        )
        assert set(found.split()) <= {place, "/root/pattern"}, f"{host}: {found}"
        assert place in found or host.startswith("ctl"), (
            f"{host}: the search does not find what is there: {found}"
        )
    for command in (f"scontrol show job -dd {number}", f"scontrol write batch_script {number} -",
                    f"sacct -j {number} -o all -P", f"scontrol listpids {number}"):  # fmt: skip
        assert part not in site.run("ctl1", command, check=False)
    site.as_user("alice", "touch /shared/data/secret/over")
    site.wait_job(number)
    assert not site.run("login1", f"ls {place} 2>/dev/null || true")
    text = site.as_user("alice", f"cat /shared/data/secret/secret-{number}.out")
    assert part not in text and len(re.findall(r"[0-9a-f]{64}", text)) == 2


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("transformers", "accelerate"),
        pytest.param(
            *("deepspeed", "deepspeed"),
            marks=pytest.mark.soak("it compiles for a minute on each node"),
        ),
    ],
)
def test_recipes_with_other_libraries(
    site: Converged, limited: str, name: str, second: str
) -> None:
    """They learn, and a second job, by the second launcher, continues where the first one ended."""
    if name == "deepspeed":
        site.run(
            "login1",
            "/shared/venv/bin/pip install -q --no-index --find-links=/shared/wheels --no-build-isolation deepspeed",
        )
        for host in ("c1", "c2"):
            site.run(host, "apt-get install -y -q g++ python3-dev >/dev/null")
    site.run("login1", f"rm -rf /shared/data/{name}")
    train(site, name, arguments=["--steps", "20", "--save-every", "10"])
    arguments = ["--steps", "30", "--save-every", "10"]
    _, output = train(site, name, launcher=second, arguments=arguments)
    states = site.as_user(
        "alice", f"ls /shared/data/{name}/checkpoints/*30/rng_state_*.pth", check=False
    )
    assert name != "transformers" or states.count("rng_state") == 2, states
    assert re.search(r"checkpoint \S*30\b.*complete", output) and "COMPLETED" in output, output


@pytest.mark.soak("one more recipe with transformers")
def test_a_named_model_on_json_lines(site: Converged, python: str) -> None:
    """The recipe `finetune` with a tiny model and tiny texts, which are made here."""
    place = "/shared/data/finetune"
    site.as_user("alice", f"rm -rf {place}; mkdir -p {place}/data")
    site.as_user("alice", f"cd {place} && {python}/bin/python - <<'EOF'\n{MODEL}EOF")
    rows = "\n".join(
        json.dumps({"text": " ".join(f"w{(n + k) % 62}" for k in range(20))}) for n in range(50)
    )
    site.as_user("alice", f"cat >{place}/data/a.jsonl <<'EOF'\n{rows}\nEOF")
    arguments = [
        *("--model", f"{place}/model", "--from-scratch", "--length", "16", "--lr", "0.01"),
        *("--save-every", "10", "--steps"),
    ]
    first, _ = train(site, "finetune", arguments=[*arguments, "20"])
    found = losses(log(site, "finetune", first))
    assert list(found) == list(range(1, 21)) and found[20] < found[1]
    second, output = train(site, "finetune", arguments=[*arguments, "30"])
    assert list(losses(log(site, "finetune", second))) == list(range(21, 31))
    assert "COMPLETED" in output and "checkpoint checkpoint-30" in output, output
    assert site.as_user("alice", f"ls {place}/results").count("model.safetensors") == 1


def test_the_time_limit_does_not_change_the_curve(
    site: Converged, limited: str, unbroken: dict[int, float]
) -> None:
    ended = site.see_through(limited, 300)
    assert ended == "COMPLETED", log(site, "limited", limited)
    check_resumed(site, "limited", limited, unbroken)
