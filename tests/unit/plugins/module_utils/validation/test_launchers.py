# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The matrix of launchers: what a task gets, and the bandwidth, by mpirun, srun, and srun with Pyxis in two images."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Result, Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    own,
    plan,
    script,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import Check
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.course import Course, Ran
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.script import Work

from . import stand_in
from .parsers.recorded import FIXTURES
from .stand_in import Said, asked, drive, tasks

NAMES = ["c1", "c2"]
PROGRAMS = {"mpirun": "/x", "nvidia-smi": "/x", "all_reduce_perf": "/x"}
GPUS = {name: {"gres": "gpu:8"} for name in NAMES}
SITE = plan.Site(pyxis=frozenset(NAMES), image="/i.sqsh", ngc_image="nvcr.io#nvidia/pytorch:25.06")
KINDS = {
    "cpu": ("cpu_mpirun", "cpu_srun", "cpu_pyxis", "cpu_ngc"),
    "gpu": ("gpu_mpirun", "gpu_srun", "gpu_pyxis", "gpu_ngc"),
    "mpi": ("mpirun", "srun_pmix", "srun_pyxis", "srun_ngc"),
    "nccl": ("nccl_mpirun", "nccl_srun", "nccl_pyxis", "nccl_ngc"),
}
#: Programs in PATH of the rows that run in an image, as a fake.
NGC = "all_reduce_perf_mpi"


def nccl(factor: float = 1) -> str:
    """Return nccl-tests' real output of 8 GPUs with all times divided by a factor, and the bandwidths of these."""
    text = (FIXTURES / "nccl-tests-a100-allreduce.txt").read_text(encoding="utf-8")
    made = []
    for line in text.splitlines() if factor != 1 else []:
        words = line.split()
        if re.fullmatch(r"\d+", words[0] if words else "") and len(words) >= 12:
            # size count type redop time algbw busbw error time algbw busbw error
            for at in (4, 8):
                time = float(words[at]) / factor
                speed = int(words[0]) / time / 1000
                words[at : at + 3] = [f"{time:.2f}", f"{speed:.2f}", f"{speed * 7 / 4:.2f}"]
            line = " ".join(words)
        elif line.startswith("# Avg bus bandwidth"):
            head, _colon, value = line.partition(":")
            line = f"{head}: {float(value) * factor:.4f}"
        made.append(line)
    return "\n".join(made) + "\n" if made else text


def matrix(
    kind: str,
    said: t.Mapping[str, Said] | None = None,
    site: plan.Site = SITE,
    programs: t.Mapping[str, str] = PROGRAMS,
    nodes: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
) -> tuple[Course, list[Work]]:
    """Run the rows of one kind. said: what they print in place of what healthy nodes do."""
    wanted = [one for one in catalogue.load(stand_in.given()) if one.name in KINDS[kind]]
    wanted = [dataclasses.replace(one, largest="") for one in wanted]

    def fault(check: Check, names: tuple[str, ...]) -> Said | None:
        found = (said or {}).get(check.name)
        if found or check.parser != "nccl_tests":
            return found
        return nccl(), 0

    what = asked(
        NAMES, ["mpi"], nodes=GPUS if nodes is None else nodes, checks=tuple(wanted), site=site
    )
    frame = dataclasses.replace(
        what.frame, images={"site": site.image, "ngc": site.ngc_image}, mounts=("/v",)
    )
    return drive(dataclasses.replace(what, frame=frame), fault, programs)


def of(course: Course, name: str) -> list[Result]:
    return [one for one in course.results if one.check.split(".")[0] == name]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_started_by_each_launcher(kind: str) -> None:
    course, works = matrix(kind)
    work = works[-1]
    assert tuple(step.check.name for step in work.steps) == KINDS[kind]
    text = script.write(work, course.asked.frame)
    lines = {
        line.split()[1]: line
        for line in text.splitlines()
        if line.startswith("step ") and " -c " in line
    }
    by_mpirun, by_srun, by_pyxis, by_ngc = (lines[name] for name in KINDS[kind])
    assert " mpirun --host " in by_mpirun
    pmix = kind in ("mpi", "nccl")
    for line in (by_srun, by_pyxis, by_ngc):
        assert f" --mpi={'pmix' if pmix else 'none'} " in line, line
    assert "--container" not in by_srun
    assert " --container-image=/i.sqsh " in by_pyxis
    assert "nvcr.io#nvidia/pytorch:25.06" in by_ngc
    assert not [one for one in course.results if one.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)]


@pytest.mark.parametrize("kind", ["mpi", "nccl"])
def test_srun_with_pyxis_at_half_of_mpirun_is_a_finding(kind: str) -> None:
    slow = stand_in.transfer(0.5) if kind == "mpi" else nccl(0.5)
    pyxis = KINDS[kind][2]
    course, _works = matrix(kind, {pyxis: (slow, 0)})
    found = {one.check: one for one in course.results if one.check.endswith(".compared")}
    bad = found.pop(f"{pyxis}.compared")
    assert bad.verdict is Verdict.FAIL and bad.value == 50 and bad.unit == "%", bad
    assert len(found) == 3 and {one.verdict for one in found.values()} == {Verdict.PASS}


def test_a_launcher_whose_tasks_get_few_cpus_is_a_finding() -> None:
    """As where orted, which srun starts with one task, gets one CPU of the node."""
    few = tasks(NAMES).replace("c2 of c1 c2: cpus=8", "c2 of c1 c2: cpus=1")
    course, _works = matrix("cpu", {"cpu_mpirun": (few, 0)}, nodes={})
    found = {one.check: one for one in course.results}
    assert found["cpu_mpirun"].value == 1 and found["cpu_srun"].value == 8
    bad = found["cpu_mpirun.compared"]
    assert bad.verdict is Verdict.FAIL and bad.value == 12 and "CPUs per task" in bad.remedy
    assert found["cpu_pyxis.compared"].verdict is Verdict.PASS


def test_a_launcher_that_starts_both_tasks_on_one_node_fails() -> None:
    twice = tasks(NAMES).replace("task c2", "task c1")
    course, _works = matrix("cpu", {"cpu_mpirun": (twice, 0)})
    (bad,) = [one for one in of(course, "cpu_mpirun") if one.verdict is Verdict.FAIL]
    assert bad.check == "cpu_mpirun.fault"
    assert bad.detail == "no task ran on c2: the launcher started them on c1"


def test_a_container_that_sees_fewer_gpus_than_declared_fails() -> None:
    course, _works = matrix("gpu", {"gpu_pyxis": (tasks(NAMES, gpus=0), 0)})
    (bad,) = of(course, "gpu_pyxis")
    assert (bad.verdict, bad.value, bad.threshold) == (Verdict.FAIL, 0, 8)
    assert "nvidia_container" in bad.remedy
    assert [one.verdict for one in of(course, "gpu_srun")] == [Verdict.PASS]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_declared_does_not_apply_and_what_is_declared_and_absent_is_incomplete(
    kind: str,
) -> None:
    pyxis, ngc = KINDS[kind][2:]
    course, _works = matrix(kind, site=plan.Site())
    for name in (pyxis, ngc):
        (one,) = of(course, name)
        assert one.verdict is Verdict.NOT_APPLICABLE and "slurm_pyxis" in one.detail, one
    # Pyxis without an image, and no image of NVIDIA's kind.
    course, _works = matrix(kind, site=dataclasses.replace(SITE, image="", ngc_image=""))
    assert {one.verdict for one in of(course, pyxis)} == {Verdict.INCOMPLETE}
    assert all("validate_image=NAME" in one.remedy for one in of(course, pyxis))
    (one,) = of(course, ngc)
    assert (one.verdict, one.detail) == (Verdict.NOT_APPLICABLE, "validate_ngc_image is empty")
    course, _works = matrix(kind, nodes={})
    if kind in ("gpu", "nccl"):
        assert {one.verdict for one in course.results} == {Verdict.NOT_APPLICABLE}
        assert {one.detail for one in course.results} == {"no node declares GPUs"}


def test_a_program_that_the_image_lacks_is_incomplete() -> None:
    lacks = "the image does not have all_reduce_perf of nccl-tests -> name an image that has it"
    course, _works = matrix("nccl", {"nccl_pyxis": (lacks, 127)})
    (one,) = of(course, "nccl_pyxis")
    assert one.verdict is Verdict.INCOMPLETE and "does not have all_reduce_perf" in one.detail
    assert one.remedy == "name an image that has it"


@pytest.mark.parametrize(
    ("there", "called"),
    [
        ((NGC, "all_reduce_perf"), f"{NGC} -b 8M -e 1G -f 2 -g 1"),
        (("all_reduce_perf",), "all_reduce_perf -b 8M -e 1G -f 2 -g 1"),
        ((), ""),
    ],
)
def test_the_program_of_an_image_is_found(
    there: tuple[str, ...], called: str, tmp_path: Path
) -> None:
    (check,) = [one for one in catalogue.load(stand_in.given()) if one.name == "nccl_ngc"]
    for name in there:
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*"\n')
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", check.command],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if called:
        assert (done.returncode, done.stdout.strip()) == (0, called)
    else:
        assert done.returncode == 127 and "does not have all_reduce_perf" in done.stdout


def said_by_task(tmp_path: Path, smi: str = "", **more: str) -> str:
    """Run task.sh with no other program than perhaps a fake nvidia-smi, on one CPU."""
    if smi:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    program = stand_in.ROOT / "roles" / "validate" / "files" / "task.sh"
    given = {"PATH": str(tmp_path), "SLURMD_NODENAME": "c1", "VALIDATION_NODES": "c1 c2", **more}
    first = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [
            "taskset",
            "-c",
            str(first),
            "env",
            "-i",
            *(f"{k}={v}" for k, v in given.items()),
            "/bin/sh",
            str(program),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return done.stdout


def test_a_task_counts_its_cpus_and_gpus(tmp_path: Path) -> None:
    said = said_by_task(tmp_path, OMP_NUM_THREADS="7")
    assert said == "task c1 of c1 c2: cpus=1 gpus=0\n"
    two = "echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'; echo 'GPU 1: NVIDIA H100 (UUID: GPU-2)'"
    assert said_by_task(tmp_path, two).endswith(" gpus=2\n")
    assert said_by_task(tmp_path, "echo 'GPU access blocked'; exit 9").endswith(" gpus=0\n")
    figures = own.parse_tasks(said + "task c2 of c1 c2: cpus=4 gpus=0\n").figures
    assert figures == {"cpus": 1.0, "gpus": 0.0}


@pytest.mark.parametrize("text", ["", "c1\n", "task c1 of c1 c2: \n", "task c1: cpus=8\n"])
def test_what_no_task_printed_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        own.parse_tasks(text)


# -- the script of the stage, with launchers that run here ----------------------------------------------
#: Runs a command once for each task of each host of --host c1:8,c2:8, as mpirun does by Slurm.
MPIRUN = """#!/bin/bash
hosts=
while [[ $1 = -* ]]; do
  case $1 in
    --host) hosts=$2; shift 2 ;;
    --map-by | --bind-to | -x) shift 2 ;;
  esac
done
for host in ${hosts//,/ }; do
  SLURMD_NODENAME=${host%:*} "$@" &
done
wait
"""
#: As in test_script, with a container whose image has programs of its own.
SRUN = """#!/bin/bash
image= nodes=
while [[ $1 = --* ]]; do
  case $1 in --nodelist=*) nodes=${1#*=} ;; --container-image=*) image=${1#*=} ;; esac
  shift
done
if [[ $image = /* && ! -e $image ]]; then
  echo "pyxis: failed to import docker image" >&2
  echo "srun: error: c1: task 0: Exited with exit code 1" >&2
  exit 1
fi
[[ $image ]] && PATH=$(dirname "$0")/inside:$PATH
for node in ${nodes//,/ }; do SLURMD_NODENAME=$node "$@" & done
wait
"""


def fake(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("image", ["there", "missing"])
def test_the_script_of_the_stage_runs_every_row(image: str, tmp_path: Path) -> None:
    place = tmp_path / "bin"
    fake(place / "srun", SRUN)
    fake(place / "mpirun", MPIRUN)
    fake(place / "nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA A100 (UUID: GPU-1)'\n")
    (tmp_path / "fast").write_text(nccl(), encoding="utf-8")
    (tmp_path / "slow").write_text(nccl(0.5), encoding="utf-8")
    first = 'case $SLURMD_NODENAME in c1) cat "{}" ;; esac'
    fake(place / "all_reduce_perf", f"#!/bin/sh\n{first.format(tmp_path / 'fast')}\n")
    fake(place / f"inside/{NGC}", f"#!/bin/sh\n{first.format(tmp_path / 'slow')}\n")
    if image == "there":
        (tmp_path / "i.sqsh").write_text("hsqs")
    wanted = [one for kind in ("cpu", "gpu", "nccl") for one in KINDS[kind]]
    checks = [one for one in catalogue.load(stand_in.given()) if one.name in wanted]
    site = dataclasses.replace(SITE, image=str(tmp_path / "i.sqsh"))
    what = asked(
        NAMES,
        ["mpi"],
        nodes={name: {"gres": "gpu:1"} for name in NAMES},
        checks=tuple(dataclasses.replace(one, largest="") for one in checks),
        site=site,
    )
    frame = dataclasses.replace(
        what.frame,
        programs=str(stand_in.ROOT / "roles/validate/files"),
        directory=str(tmp_path),
        images={"site": site.image, "ngc": site.ngc_image},
        path=(str(place), "/usr/bin", "/bin"),
    )

    def ran(work: Work) -> Ran | None:
        if work.stage != "mpi":
            return None
        done = subprocess.run(
            ["/bin/bash", "-s"],
            input=script.write(work, frame),
            env={"PATH": f"{place}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not done.stderr, done.stderr
        return Ran(done.stdout, id=7)

    course, _works = drive(dataclasses.replace(what, frame=frame), programs=PROGRAMS, ran=ran)
    found = {one.check: one for one in course.results}
    assert found["cpu_ngc.compared"].verdict is Verdict.PASS, found
    assert found["gpu_mpirun"].verdict is Verdict.PASS and found["gpu_ngc"].value == 1
    assert found["nccl_srun.compared"].verdict is Verdict.PASS
    bad = found["nccl_ngc.compared"]
    assert (bad.verdict, bad.value) == (Verdict.FAIL, 50)
    if image == "there":
        assert found["nccl_pyxis.compared"].value == 50
        assert found["gpu_pyxis"].verdict is Verdict.PASS
    else:
        for name in ("cpu_pyxis", "gpu_pyxis", "nccl_pyxis"):
            one = found[name]
            assert one.verdict is Verdict.INCOMPLETE and "failed to import" in one.detail, one
