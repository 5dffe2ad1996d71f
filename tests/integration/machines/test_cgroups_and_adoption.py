# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Jobs stay within their memory, cores and GPUs, and SSH sessions live and die with a job of their user."""

from __future__ import annotations

import subprocess

import pytest

from ..site import poll
from .conftest import Node, as_alice

ALLOCATE = "print(len(b'x' * ({megabytes} << 20)))"

# The cores that the job may use, after it asked for all of them: with affinity alone it could widen its own set.
CORES = """
import json, os
os.sched_setaffinity(0, range(os.cpu_count()))
print(json.dumps(sorted(os.sched_getaffinity(0))))
"""

# What opening each GPU answers. There is no driver behind the device nodes: ENXIO means that the kernel
# looked for one, so the cgroup had let the job through; EPERM means that it had not.
GPUS = """
import errno, json, os

def answer(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return errno.errorcode[error.errno]
    return "opened"

print(json.dumps([answer(f"/dev/nvidia{index}") for index in range(2)]))
"""
DENIED, GRANTED = "EPERM", "ENXIO"


def test_the_machine_has_what_the_roles_should_use(converged: Node) -> None:
    """A pure cgroup v2 tree, so Slurm constrains by cgroup/v2 and tracks processes by cgroup."""
    assert converged.run("cat /proc/self/cgroup").stdout.startswith("0::/")
    settings = converged.run("scontrol show config").stdout
    for wanted in ("proctrack/cgroup", "task/cgroup", "cgroup/v2", "jobacct_gather/cgroup"):
        assert wanted in settings, settings
    for name in ("ConstrainCores", "ConstrainDevices", "ConstrainRAMSpace"):
        (line,) = [line for line in settings.splitlines() if line.startswith(name)]
        assert line.endswith("= yes"), line


def test_a_job_within_its_memory_runs(node: Node) -> None:
    done = node.srun("--mem=400M", ALLOCATE.format(megabytes=300))
    assert (done.returncode, done.stdout.strip()) == (0, str(300 << 20)), done


def test_a_job_beyond_its_memory_is_killed(node: Node) -> None:
    done = node.srun("--mem=100M --job-name=greedy", ALLOCATE.format(megabytes=300))
    assert done.returncode != 0, done
    assert not done.stdout.strip(), done
    assert "oom" in done.stderr.lower(), done.stderr

    def state() -> str:
        lines = node.run("sacct -nPX --user=alice --name=greedy --format=State").stdout.split()
        return lines[-1] if lines else ""

    poll(
        "the accounting to say OUT_OF_MEMORY",
        lambda: state() == "OUT_OF_MEMORY",
        timeout=30,
        every=1,
    )


@pytest.mark.parametrize("cores", [1, 2])
def test_a_job_uses_only_its_cores(node: Node, cores: int) -> None:
    assert len(node.report(f"--mem=100M --ntasks=1 --cpus-per-task={cores}", CORES)) == cores


def test_a_job_without_gpus_opens_none(node: Node) -> None:
    assert node.report("--mem=100M", GPUS) == [DENIED, DENIED]


def test_a_job_opens_only_the_gpus_it_was_granted(node: Node) -> None:
    first = node.report("--mem=100M --gres=gpu:1", GPUS)
    assert sorted(first) == sorted([DENIED, GRANTED])
    assert node.report("--mem=100M --gres=gpu:2", GPUS) == [GRANTED, GRANTED]
    # While another job holds a GPU, only the other one is to be had.
    node.start_job("--mem=100M --gres=gpu:1")
    held = node.run("scontrol --details show job | grep -o 'IDX:[01]'").stdout.strip()
    expected = [DENIED, GRANTED] if held == "IDX:0" else [GRANTED, DENIED]
    assert node.report("--mem=100M --gres=gpu:1", GPUS) == expected, held


def test_a_user_without_a_job_is_refused(node: Node) -> None:
    done = node.login("alice")
    assert done.returncode == 255, done
    assert "Access denied by pam_slurm_adopt: you have no active jobs on this node" in done.stderr


@pytest.mark.parametrize("user", ["carol", "root"])
def test_an_administrator_needs_no_job(node: Node, user: str) -> None:
    done = node.login(user, "id -un")
    assert (done.returncode, done.stdout.strip()) == (0, user), done


def test_a_session_joins_the_job_and_ends_with_it(node: Node) -> None:
    job = node.start_job("--mem=100M")
    done = node.login("alice", "cat /proc/self/cgroup")
    assert done.returncode == 0, done
    assert f"/job_{job}/" in done.stdout, f"the session is not in the job: {done.stdout}"

    # The job's limits apply to the session.
    done = node.login("alice", f"python3 - <<'EOF'\n{GPUS}\nEOF\n")
    assert done.stdout.strip() == f'["{DENIED}", "{DENIED}"]', done

    # Another user's job admits nobody else.
    assert node.login("bob").returncode == 255

    with subprocess.Popen(
        node.login_command("alice", "echo ready; exec sleep 900"),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as session:
        try:
            assert session.stdout is not None
            assert session.stdout.readline().strip() == "ready"
            node.run(as_alice(f"scancel {job}"))
            session.wait(timeout=90)
        finally:
            session.kill()
    left = node.run("pgrep -u alice --list-full", check=False).stdout
    assert not left, f"processes of the session outlived the job: {left}"
    # The job's last step ends a moment after its processes.
    poll("the login to be refused", lambda: node.login("alice").returncode == 255, 60, 1)
