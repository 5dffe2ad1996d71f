# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the parts that the collection ships."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks import plan, program
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks.parts import (
    cpu_governor,
    dcgm_job_map,
    enroot,
    gpu,
    gpu_mig,
    gpu_mps,
    job_processes,
    page_cache,
)

JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_UID": "2001",
    "SLURM_JOB_GID": "2001",
    "SLURM_JOB_GPUS": "0,3",
}
BEFORE, AFTER = {"kind": "prolog", "value": True}, {"kind": "epilog", "value": True}


def test_every_part_is_whole_in_itself() -> None:
    """A node has nothing else of the collection."""
    for name in plan.SHIPPED:
        text = program.source_of(name)
        assert (
            "ansible" not in text.replace("ansible_collections/trainwright", "")
            and "from ." not in text
        )
        assert callable(importlib.import_module(gpu.__name__.replace(".gpu", f".{name}")).run)
        for word in ("scontrol", "squeue", "sinfo", "sacct"):
            assert word not in text


# --- processes ---------------------------------------------------------------------------------------------------
def process(
    proc: Path, number: int, cgroup: str, *variables: str, state: str = "S", fd: str = ""
) -> None:
    place = proc / str(number)
    (place / "fd").mkdir(parents=True)
    (place / "cgroup").write_text(f"0::{cgroup}\n")
    (place / "environ").write_bytes(b"".join(f"{item}\0".encode() for item in variables))
    (place / "stat").write_text(f"{number} (a) b) {state} 1 1\n")
    if fd:
        (place / "fd" / "3").symlink_to(fd)


STEP = "/system.slice/slurmstepd.scope/job_{}/step_0/user/task_0"
SERVICE = "/system.slice/slurmd.service"


def test_only_processes_of_this_job_are_left_over(tmp_path: Path) -> None:
    process(tmp_path, 10, STEP.format(7))
    process(
        tmp_path, 11, STEP.format(8), "SLURM_JOB_ID=7"
    )  # of another job, whatever it says of itself
    process(tmp_path, 12, STEP.format(77))
    process(tmp_path, 13, SERVICE, "SLURM_JOB_ID=7", "A=1")
    process(tmp_path, 14, SERVICE, "SLURM_JOB_ID=8")
    process(tmp_path, 15, SERVICE, "SLURM_JOB_ID=77")
    process(
        tmp_path, 16, "/user.slice/user-2001.slice/session-3.scope", "SLURM_JOB_ID=7"
    )  # salloc's shell
    process(tmp_path, 17, SERVICE)
    process(tmp_path, 18, STEP.format(7), state="Z")
    process(
        tmp_path, 19, STEP.format(7), fd="/dev/fuse"
    )  # serves an image that another job may use
    assert job_processes.left_over("7", os.getuid(), str(tmp_path)) == [10, 13]
    assert job_processes.left_over("7", os.getuid() + 1, str(tmp_path)) == []


def test_processes_end_and_a_job_of_root_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        found = iter([[sleeper.pid], []])
        monkeypatch.setattr(job_processes, "left_over", lambda *_given: next(found))
        assert job_processes.run(JOB, AFTER) == ""
        assert sleeper.wait(5) == -9
        assert job_processes.run({**JOB, "SLURM_JOB_UID": "0"}, AFTER) == ""
    finally:
        sleeper.kill()


def test_a_process_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_processes, "left_over", lambda *_given: [2**22 - 7])
    clock = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    assert "job 7 has left processes that do not end: 4194297" in job_processes.run(JOB, AFTER)


# --- GPUs --------------------------------------------------------------------------------------------------------
@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Path]:
    """Make a program in PATH that writes its arguments down and prints a text."""
    calls = tmp_path / "calls"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def make(name: str, text: str = "", code: int = 0) -> Path:
        path = tmp_path / name
        path.write_text(
            f'#!/bin/sh\necho "$@" >>{calls}\n'
            f"case \"$*\" in *query*) printf '%s' '{text}';; esac\nexit {code}\n"
        )
        path.chmod(0o755)
        return calls

    return make


@pytest.fixture
def driver(tmp_path: Path) -> str:
    path = tmp_path / "version"
    path.write_text("NVRM version")
    return str(path)


def test_gpus_are_prepared_and_an_idle_one_passes(tools: t.Any, driver: str) -> None:
    calls = tools("nvidia-smi")
    assert gpu.run(JOB, BEFORE, driver) == ""
    assert calls.read_text().splitlines()[:2] == ["-i 0,3 -pm 1", "-i 0,3 -rgc"]
    calls.unlink()
    assert gpu.run(JOB, AFTER, driver) == "" and "-pm" not in calls.read_text()


def test_a_process_on_a_gpu_of_the_job_is_named(tools: t.Any, driver: str) -> None:
    tools("nvidia-smi", "4242, python\n[Not Found]\n")
    assert gpu.run(JOB, BEFORE, driver) == "GPU 0,3: in use before this job by process 4242, python"


def test_a_job_without_gpus_or_a_node_without_a_driver_is_not_looked_at(
    tools: t.Any, driver: str
) -> None:
    calls = tools("nvidia-smi")
    assert gpu.run({**JOB, "SLURM_JOB_GPUS": ""}, BEFORE, driver) == ""
    assert gpu.run({**JOB, "SLURM_JOB_GPUS": "0;reboot"}, BEFORE, driver) == ""
    assert gpu.run(JOB, BEFORE, "/none") == "" and not calls.exists()


def test_a_missing_tool_is_not_a_fault_of_the_gpu(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(OSError, match="nvidia-smi"):
        gpu.run(JOB, BEFORE, driver)


@pytest.mark.parametrize(
    ("text", "wanted", "fault"),
    [
        ("0, Enabled\n3, Disabled\n", "disabled", "GPU 0: MIG is not disabled"),
        ("0, Enabled\n3, Disabled\n", "enabled", "GPU 3: MIG is not enabled"),
        ("0, [N/A]\n3, [N/A]\n", "disabled", ""),
    ],
)
def test_the_mig_mode(tools: t.Any, driver: str, text: str, wanted: str, fault: str) -> None:
    tools("nvidia-smi", text)
    assert gpu_mig.run(JOB, {"kind": "prolog", "value": wanted}, driver) == fault


def test_mps_is_of_one_job_and_its_user(
    tools: t.Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.geteuid():
        pytest.skip("root alone starts it as the user")
    tmp_path.chmod(0o777)
    for place in tmp_path.parents:
        if place != Path("/tmp"):
            place.chmod(place.stat().st_mode | 0o011)
    calls = tools("nvidia-cuda-mps-control")
    calls.touch()
    calls.chmod(0o666)
    base, job = str(tmp_path / "mps"), {**JOB, "PATH": os.environ["PATH"]}
    assert gpu_mps.run(job, {"kind": "task_prolog", "value": True}, base) == ""
    assert capsys.readouterr().out == ""
    assert gpu_mps.run(job, BEFORE, base) == ""
    assert calls.read_text() == "-d\n" and os.stat(f"{base}/7/pipe").st_uid == 2001
    gpu_mps.run(job, {"kind": "task_prolog", "value": True}, base)
    assert f"export CUDA_MPS_PIPE_DIRECTORY={base}/7/pipe" in capsys.readouterr().out
    assert gpu_mps.run(job, AFTER, base) == "" and not os.path.exists(f"{base}/7")
    tools("nvidia-cuda-mps-control", code=1)
    assert gpu_mps.run(job, BEFORE, base).startswith("nvidia-cuda-mps-control")


def test_the_map_of_dcgm_has_the_jobs_of_each_gpu(tmp_path: Path) -> None:
    options = {"value": str(tmp_path / "jobs")}
    for job in ("7", "8"):
        assert dcgm_job_map.run({**JOB, "SLURM_JOB_ID": job}, {**options, "kind": "prolog"}) == ""
    assert (tmp_path / "jobs/3").read_text() == "7\n8\n"
    dcgm_job_map.run(JOB, {**options, "kind": "epilog"})
    assert (tmp_path / "jobs/0").read_text() == "8\n"
    dcgm_job_map.run({**JOB, "SLURM_JOB_ID": "8"}, {**options, "kind": "epilog"})
    assert os.listdir(tmp_path / "jobs") == []


# --- the node ----------------------------------------------------------------------------------------------------
def test_the_governor_of_each_cpu(tmp_path: Path) -> None:
    for cpu in ("cpu0", "cpu1"):
        (tmp_path / cpu / "cpufreq").mkdir(parents=True)
        (tmp_path / cpu / "cpufreq/scaling_governor").write_text("powersave\n")
    (tmp_path / "cpu2").mkdir()
    (tmp_path / "cpufreq").mkdir()
    options = {"kind": "prolog", "value": "performance"}
    assert cpu_governor.run(JOB, options, str(tmp_path)) == ""
    assert (tmp_path / "cpu1/cpufreq/scaling_governor").read_text() == "performance"


def test_the_page_cache(tmp_path: Path) -> None:
    assert page_cache.run(JOB, AFTER, str(tmp_path / "drop_caches")) == ""
    assert (tmp_path / "drop_caches").read_text() == "1"


# --- Enroot ------------------------------------------------------------------------------------------------------
def test_only_unnamed_containers_of_this_job_are_removed(tmp_path: Path) -> None:
    for name in (
        "pyxis_7.0",
        "pyxis_7.1",
        "pyxis_77.0",
        "pyxis_7.mine",
        "pyxis_mine",
        "pyxis_7",
        "mine",
    ):
        (tmp_path / name / "usr/share").mkdir(parents=True)
        (tmp_path / name / "usr/share").chmod(0o555)
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (tmp_path / "pyxis_7.0/link").symlink_to(outside)
    mounts = tmp_path.parent / f"{tmp_path.name}-mounts"
    # Before it, one that a user has named in bytes that are not UTF-8, with a carriage return.
    mounts.write_bytes(
        b"4 2 0:9 / /home/eve/\xff\ry rw - fuse.x eve rw\n"
        + f"1 2 0:3 / {tmp_path}/pyxis_7.1/usr rw - fuse squashfuse rw\n".encode()
    )
    fault = enroot.remove_left(str(tmp_path), "7", str(mounts))
    assert fault == "containers of job 7 are left: pyxis_7.1 (mounted)"
    assert sorted(os.listdir(tmp_path)) == [
        "mine",
        "pyxis_7",
        "pyxis_7.1",
        "pyxis_7.mine",
        "pyxis_77.0",
        "pyxis_mine",
    ]
    assert (outside / "kept").read_text() == "kept"
    assert enroot.remove_left("/none", "7") == ""


def test_the_directory_comes_from_enroot_conf(tmp_path: Path) -> None:
    conf = tmp_path / "enroot.conf"
    conf.write_text(
        "ENROOT_DATA_PATH $(/usr/lib/trainwright/enroot-directory /scratch/enroot/data /var/lib/x/data)\n"
    )
    assert enroot.data_path(str(conf)) == "/scratch/enroot/data"
    conf.write_text("ENROOT_DATA_PATH /somewhere\n")
    assert enroot.data_path(str(conf)) == "" and enroot.data_path("/none") == ""


def test_it_works_as_the_user(tmp_path: Path) -> None:
    """Root's own files stay, also in the user's directory."""
    if os.geteuid():
        pytest.skip("root alone becomes the user")
    base = Path("/tmp") / f"trainwright-data-{os.getpid()}"
    home = base / "user-2001"
    (home / "pyxis_7.0").mkdir(parents=True)
    (home / "pyxis_7.1").mkdir()
    os.chown(home, 2001, 2001)
    os.chown(home / "pyxis_7.0", 2001, 2001)
    (home / "pyxis_7.1/roots").write_text("x")
    conf = tmp_path / "enroot.conf"
    conf.write_text(f"ENROOT_DATA_PATH $(/usr/lib/x {base} /y)\n")
    code = (
        f"{program.source_of('enroot')}\nimport sys\n"
        f"print(run({JOB!r}, {{'kind': 'epilog'}}, {str(conf)!r}))"
    )
    tmp_path.chmod(0o755)
    for place in tmp_path.parents:
        if place != Path("/tmp"):
            place.chmod(place.stat().st_mode | 0o011)
    try:
        done = subprocess.run(
            ["/usr/bin/python3", "-IS", "-c", code], capture_output=True, text=True, check=False
        )
        assert done.stdout == "containers of job 7 are left: pyxis_7.1\n", done.stderr
        assert (home / "pyxis_7.1/roots").exists() and not (home / "pyxis_7.0").exists()
    finally:
        subprocess.run(["rm", "-r", str(base)], check=True)


def test_the_interpreter_of_nodes_compiles_them() -> None:
    assert sys.version_info >= (3, 9)
    for name in plan.SHIPPED:
        compile(program.source_of(name), name, "exec")
