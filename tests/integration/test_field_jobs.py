# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Jobs as people write them (tests/fixtures/jobs), as they stand and as their translations: Slurm reads the same
request in both, and those headed `run` run and print the same.

What they ask for is read by a slurmctld of its own, whose cluster has eighty nodes and more, and starts nothing.
They run on the local cluster, which is given their partitions, their interface and the programs of
tests/fixtures/jobs/site: GPUs, PyTorch and its launchers are stand-ins there, Slurm, srun, MPI and PMIx are real.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import values
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch import options
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.request import asked
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.script import parse
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import render, schema
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import translate

from .artifacts import REAL
from .conftest import Converged
from .site import ROOT, Site, poll

pytestmark = pytest.mark.systems("debian12")

FIXTURES = ROOT / "tests" / "fixtures" / "jobs"
JOBS = {path.stem: path.read_text() for path in sorted(FIXTURES.glob("*/*.sh"))}
RUN = {name for name, text in JOBS.items() if text.split("\n")[1] == "# run"}
#: Scripts that a comment cuts off: what is meant is not what runs, and they are not translated.
CUT_OFF = {"comment-after-backslash", "comment-line-in-command", "field-eighty-nodes"}
#: sbatch does not take it, which is its mistake; its translation is taken.
REFUSED = {"directives-not-read"}
PARTITIONS = ("gpu-queue", "compute-gpu", "c-nlp")
INTERFACES = ("lo", "eth0", "ens5")
PLACE = "/shared/field-jobs"


def bare(name: str) -> bool:
    """Whether a script is for the shell of a login node, and not for sbatch."""
    return not parse(JOBS[name]).directives


def translated(text: str, name: str) -> tuple[str, list[str]]:
    """The script that a translation is rendered to, and the directories that must be there before."""
    checked = schema.check(translate.translate(text, name, INTERFACES).job)
    made = [getattr(checked, key) for key in schema.DIRECTORIES if getattr(checked, key)]
    return render.render(checked), made


def stage(site: Site) -> Path:
    """An empty directory that all nodes see as PLACE; return what it is on this machine."""
    place = site.cluster.local.directory / "shared" / PLACE.lstrip("/")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place


# -- what they ask for ---------------------------------------------------------------------------------------------
OWN = "/tmp/trainwright-field"
#: The request of a job, as `scontrol show job` prints it.
ASKED = (
    "JobName Partition NumNodes NumTasks NumCPUs CPUs/Task TRES TresPerNode TresPerJob MinMemoryNode MinMemoryCPU "
    "TimeLimit Dependency OverSubscribe ReqNodeList ExcNodeList Features ArrayTaskId ArrayTaskThrottle Account QOS"
).split()


@pytest.fixture
def large(site: Converged) -> Iterator[Converged]:
    """A slurmctld of 96 nodes with 8 GPUs each beside that of the site; none of its nodes is there."""
    conf = f"""ClusterName=field
SlurmctldHost={site.run("ctl1", "hostname")}(127.0.0.1)
SlurmctldPort=7827
AuthType=auth/munge
CredType=cred/munge
SlurmUser=slurm
StateSaveLocation={OWN}/state
SlurmctldPidFile={OWN}/pid
SlurmctldLogFile={OWN}/log
SlurmdTimeout=0
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
NodeName=gpu[01-96] NodeAddr=127.0.0.1 CPUs=96 RealMemory=2000000 Gres=gpu:8
"""
    conf += "".join(
        f"PartitionName={name} Nodes=ALL Default={'YES' if name == PARTITIONS[0] else 'NO'}\n"
        for name in PARTITIONS
    )
    site.run(
        "ctl1",
        f"rm -rf {OWN}; mkdir -p {OWN}/state; cat >{OWN}/slurm.conf <<'EOF'\n{conf}EOF\n"
        f"chown -R slurm {OWN}; slurmctld -i -f {OWN}/slurm.conf",
    )
    try:
        poll(
            "slurmctld of 96 nodes",
            lambda: "is UP" in site.run("ctl1", f"SLURM_CONF={OWN}/slurm.conf scontrol ping", check=False),
            30,
        )  # fmt: skip
        yield site
    finally:
        site.run(
            "ctl1", f"[ ! -e {OWN}/pid ] || kill $(cat {OWN}/pid); rm -rf {OWN} {PLACE}", check=False
        )  # fmt: skip


def as_batch(text: str) -> str:
    """A script as sbatch takes it without Pyxis: what is typed gets the directives that its srun has as options."""
    script = parse(text)
    lines = [line for line in text.split("\n") if not re.match(r"#SBATCH --container-", line)]
    if not script.directives:
        asks = [
            f"#SBATCH {one.text}"
            for launch in script.launches
            for one in launch.options
            if one.name in options.SBATCH.known - options.PYXIS - {"export"}
        ]
        lines[1:1] = asks
    return "\n".join(lines)


def records(output: str) -> dict[str, dict[str, str]]:
    """The fields of each job by its number; of an array, those of its first record."""
    found: dict[str, dict[str, str]] = {}
    for line in output.splitlines():
        fields = dict(item.split("=", 1) for item in line.split() if "=" in item)
        if "JobId" in fields:
            found.setdefault(fields.get("ArrayJobId", fields["JobId"]), fields)
    return found


def expected(asked: dict[str, str]) -> dict[str, object]:
    """The request that Slurm should have read, by our parser; :func:`read` has the same form."""
    found: dict[str, object] = {}
    nodes = int(asked.get("nodes", "1").split("-")[0])
    found["nodes"] = nodes
    found["tasks"] = int(asked.get("ntasks") or nodes * int(asked["ntasks-per-node"]))
    found["partition"] = asked.get("partition", PARTITIONS[0])
    found["seconds"] = int(asked["time"]) if "time" in asked else None
    found["gpus"] = int(asked["gpus-per-node"].split(":")[-1]) if "gpus-per-node" in asked else 0
    found["memory"] = int(asked.get("mem", 0))
    found["cpus"] = int(asked.get("cpus-per-task", 1))
    found["exclusive"] = "exclusive" in asked
    found["singleton"] = "singleton" in asked.get("dependency", "")
    found["array"] = asked.get("array", "")
    found["nodelist"] = sorted(values.expand(asked.get("nodelist", "")))
    return found


def read(fields: dict[str, str]) -> dict[str, object]:
    """The request that Slurm read, in the form of :func:`expected`."""

    def given(name: str) -> str:
        value = fields.get(name, "")
        return "" if value == "(null)" else value

    limit = fields["TimeLimit"]
    return {
        "nodes": int(fields["NumNodes"].split("-")[0]),
        "tasks": int(fields["NumTasks"]),
        "partition": fields["Partition"],
        "seconds": None if limit in ("UNLIMITED", "Partition_Limit") else values.seconds(limit),
        "gpus": max(int(one.rpartition(":")[2] or 0) for one in given("TresPerNode").split(",")),
        "memory": values.mebibytes(fields.get("MinMemoryNode", "0")),
        "cpus": int(fields["CPUs/Task"]),
        "exclusive": fields["OverSubscribe"] == "NO",
        "singleton": "singleton" in given("Dependency"),
        "array": given("ArrayTaskId"),
        "nodelist": sorted(values.expand(given("ReqNodeList"))),
    }


def test_slurm_reads_what_they_ask_for_and_the_same_in_their_translations(large: Converged) -> None:
    site = large
    scripts = {("written", name): as_batch(text) for name, text in JOBS.items()}
    for name in sorted(set(JOBS) - CUT_OFF):
        scripts["translated", name] = as_batch(translated(JOBS[name], name)[0])
    place = stage(site)
    for (way, name), text in scripts.items():
        (place / way).mkdir(exist_ok=True)
        (place / way / name).write_text(text)
    said = site.as_user(
        "alice",
        f"export SLURM_CONF={OWN}/slurm.conf; cd {PLACE}; for script in */*; do "
        'echo "$script $(sbatch -H --parsable $script 2>&1 | tail -n 1)"; done; scontrol show job -o',
        host="ctl1",
    )
    ids = dict(line.split(" ", 1) for line in said.splitlines() if "/" in line.split(" ")[0])
    assert len(ids) == len(scripts)
    known = records(said)
    for name in JOBS:
        written = ids[f"written/{name}"]
        if name in REFUSED:
            assert written == 'Try "sbatch --help" for more information', written
            continue
        assert written.isdigit(), f"{name}: {written}"
        wanted = asked(parse(scripts["written", name]))
        assert read(known[written]) == expected(wanted), f"{name}: {known[written]}"
    for name in sorted(set(JOBS) - CUT_OFF):
        ours = ids[f"translated/{name}"]
        assert ours.isdigit(), f"{name}: {ours}\n{scripts['translated', name]}"
        wanted = asked(parse(scripts["translated", name]))
        assert read(known[ours]) == expected(wanted), f"{name}: {known[ours]}"
        if name in REFUSED:
            continue
        one, two = known[ids[f"written/{name}"]], known[ours]
        other = {key: (one.get(key), two.get(key)) for key in ASKED if one.get(key) != two.get(key)}
        if name == "gpus-and-tasks":
            assert other.pop("TresPerNode") == ("gres:gpu:8,gres:gpu:4", "gres:gpu:8")
        assert not other, name


# -- that they run -------------------------------------------------------------------------------------------------
def ranks(world: int, told: str = "") -> list[str]:
    """The output of train.py, or of the MPI program, of each rank."""
    return [f"rank {rank} of {world}{told}" for rank in range(world)]


MPI = ranks(2, ", sum 1")
TRAIN = ranks(2)
#: Lines that a job prints, all of them; a text alone must be in what it prints.
PRINTS: dict[str, list[str] | str] = {
    "accelerate": ranks(4, ": --model gpt2"),
    "accounting": "alice",
    "array-sweep": [
        f"rank 0 of 1: --lr {rate} --seed {seed}"
        for seed, rate in enumerate("1e-3 3e-4 1e-4 3e-5 1e-3 3e-4 1e-4 3e-5".split())
    ],
    "background-steps": "started",
    "bare-gpu-list": ["0: GPU 0: none (UUID: GPU-0)", "1: GPU 0: none (UUID: GPU-0)"],
    "bare-srun": "1: ID=debian",
    "container-bare": "PRETTY_NAME=",
    "container-os-release": "PRETTY_NAME=",
    "heredoc-and-check": [
        "rank 0 of 1: --config config.yml", "#SBATCH --this is text", "data: $DATA", "rank: $SLURM_PROCID",
        "ended with 0",
    ],
    "history": "Elapsed",
    "long-without-signal": TRAIN,
    "monitor-one-node": TRAIN,
    "mpi-mpirun": MPI,
    "mpi-mpirun-hosts": MPI,
    "mpi-srun-export": MPI,
    "mpi-srun-pmix": ranks(4, ", sum 6"),
    "no-memory": TRAIN,
    "no-such-interface": TRAIN,
    "nodes-os-release": "1: ID=debian",
    "obsolete-environment": TRAIN,
    "output-directory": TRAIN,
    "output-made-too-late": TRAIN,
    "rank-expanded-early": TRAIN,
    "rank-in-batch": TRAIN,
    "set-e": ranks(1),
    "shebang-comment": TRAIN,
    "signal-requeue": ranks(2, ": --resume"),
    "sinfo": "c2",
    "time-short": TRAIN,
    "torchrun-arrays": [
        f"{rank // 2}: rank {rank} of 4: --num_layers=32 --checkpoint_dir=/shared/checkpoints" for rank in range(4)
    ],
    "watching": "llama_v2-200steps",
}  # fmt: skip
#: The result of a mistake before it is fixed: the state in which the job ends, or its output instead.
MISTAKES: dict[str, str | list[str]] = {
    "comment-after-backslash": "FAILED",
    "comment-line-in-command": "FAILED",
    "output-directory": "FAILED",
    "output-made-too-late": "FAILED",
    "shebang-comment": "FAILED",
    "rank-expanded-early": ["rank 0 of 2"] * 2,
    "rank-in-batch": ["rank 0 of 2"] * 2,
}
#: Their output changes with the time.
VARYING = {"accounting", "background-steps", "history", "sinfo", "watching"}


@pytest.fixture
def field(quiet_site: Converged) -> Iterator[Converged]:
    """The site with the partitions of these jobs, ens5 on its compute nodes, an MPI compiler, and their programs."""
    site = quiet_site
    apt = "DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends"
    try:
        for host, program, packages in (
            ("login1", "mpicc", "gcc libc6-dev libopenmpi-dev"),
            ("c1", "mpirun", "openmpi-bin"),
            ("c2", "mpirun", "openmpi-bin"),
        ):
            site.run(host, f"command -v {program} || {apt} {packages} >/dev/null 2>&1")
        for number, (host, other) in enumerate((("c1", "c2"), ("c2", "c1")), 1):
            # An interface with an address of its own; what goes to the other's takes the way over eth0.
            site.run(
                host,
                "ip link add ens5 type veth peer name ens5-peer && ip link set ens5-peer up && "
                f"ip link set ens5 up && ip addr add 10.98.0.{number}/24 dev ens5 && "
                f"ip route add 10.98.0.{3 - number} via {site.cluster.addresses[other]} && "
                f"ln -sfn {PLACE}/fsx3 /fsx3",
            )
        for name in PARTITIONS:
            # As the partition of those that name none, so that these do not preempt.
            level = "prioritytier=10 preemptmode=off"
            site.run("ctl1", f"scontrol create partitionname={name} nodes=c1,c2 {level}")
        yield site
    finally:
        site.end_all_jobs()
        for name in PARTITIONS:
            site.run("ctl1", f"scontrol delete partitionname={name}", check=False)
        for host in ("c1", "c2"):
            site.run(
                host, "ip link del ens5; ip route flush root 10.98.0.0/24; rm -f /fsx3", check=False
            )
        site.run("login1", f"rm -rf {PLACE} /shared/new ~alice/.openmpi", check=False)


def provide(site: Site, place: Path) -> None:
    """Put what the jobs need beside them: programs, an image, how MPI finds its way in containers."""
    shutil.copytree(FIXTURES / "site", place / "site")
    shutil.copy(place / "site" / "bin" / "torchrun", place / "site" / "bin" / "accelerate")
    shutil.copy(place / "site" / "train.py", place / "site" / "run_clm.py")
    image = place / "site" / "alpine.sqsh"
    if REAL:
        from .test_container_jobs import build

        shutil.copyfile(build(), image)
    else:
        image.touch()
    site.run(
        "login1",
        f"cd {PLACE}/site && chmod +x bin/* && mpicc -o mpic mpic.c && chown -R alice {PLACE} && "
        "install -d -o alice ~alice/.openmpi && "
        "printf 'pml = ob1\\nbtl = tcp,self\\n' >~alice/.openmpi/mca-params.conf",
    )


@dataclass
class Ended:
    """How a job ended: its state, and the lines that it printed in some order."""

    state: str
    lines: list[str]


#: Open MPI 4.1 crashes where a connection waits too long, as it may beside fifty other jobs.
CRASHES = ("Operation now in progress (115)", "Signal: Segmentation fault (11)")


def run_all(site: Site, place: Path, way: str, scripts: dict[str, str]) -> dict[str, Ended]:
    """Run scripts side by side, each in a directory of its own; those that are typed as written in a shell."""
    found = run(site, place, way, scripts)
    late = {
        name: scripts[name]
        for name, ended in found.items()
        if any(words in line for line in ended.lines for words in CRASHES)
    }
    if late:
        for name in late:
            shutil.rmtree(place / way / name)
        found |= run(site, place, way, late)
    return found


def run(site: Site, place: Path, way: str, scripts: dict[str, str]) -> dict[str, Ended]:
    typed = {name for name in scripts if way == "written" and bare(name)}
    commands = [f"export PATH={PLACE}/site/bin:$PATH"]
    for name, text in scripts.items():
        directory = place / way / name
        directory.mkdir(parents=True)
        (directory / "job").write_text(re.sub(r"\bgpu0([12])\b", r"c\1", text))
        here = f"cd {PLACE}/{way}/{name} && ln -s {PLACE}/site/* ."
        if name in typed:
            ends = "bash job && echo COMPLETED >state || echo FAILED >state"
            commands.append(f"({here}; exec >job.out 2>&1; {ends}) &")
        else:
            commands.append(f"({here} && echo {name} $(sbatch --parsable job 2>&1))")
    site.run("login1", f"chown -R alice {PLACE}/{way}")
    said = site.as_user("alice", "\n".join([*commands, "wait"]))
    ids = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    wrong = {
        name: ids.get(name) for name in set(scripts) - typed if not ids.get(name, "").isdigit()
    }
    assert not wrong
    poll("the jobs to end", lambda: not site.run("ctl1", "squeue -h -u alice"), 120)
    states: dict[str, set[str]] = {}
    for line in site.run("ctl1", "scontrol show job -o").splitlines():
        fields = dict(item.split("=", 1) for item in line.split() if "=" in item)
        number = fields.get("ArrayJobId", fields.get("JobId", ""))
        states.setdefault(number, set()).add(fields.get("JobState", ""))
    found = {}
    for name in scripts:
        directory = place / way / name
        outputs = sorted(
            {*directory.glob("*.out"), *directory.glob("*.err"), *elsewhere(place, name, way)}
        )
        text = "".join(path.read_text() for path in outputs)
        state = (
            (directory / "state").read_text().strip()
            if name in typed
            else "/".join(states[ids[name]])
        )
        # Slurm's own messages are not output of the job: about its wait, or about steps that a script ends.
        lines = [
            line for line in text.splitlines() if not line.startswith(("srun: ", "slurmstepd"))
        ]
        if way == "translated" and not labelled(name):
            lines = [re.sub(r"^\d+: ", "", line) for line in lines]
        found[name] = Ended(state, sorted(lines))
    return found


def labelled(name: str) -> bool:
    """Whether the tasks' numbers precede their output; rendered scripts always have them."""
    return any(one.option("label") is not None for one in parse(JOBS[name]).launches)


def elsewhere(place: Path, name: str, way: str) -> list[Path]:
    """Outputs that are not beside the script."""
    directories = {
        "output-directory": place / "fsx3" / "logs" / "train",
        "output-made-too-late": place.parent / "new",
    }
    return sorted(directories[name].glob("*.out")) if name in directories else []


def test_they_run_and_their_translations_print_the_same(field: Converged) -> None:
    site = field
    place = stage(site)
    provide(site, place)
    assert set(PRINTS) | CUT_OFF & RUN == RUN, "a job without what it should print"
    written = run_all(site, place, "written", {name: JOBS[name] for name in sorted(RUN)})
    wrong = {}
    for name, ended in written.items():
        mistake = MISTAKES.get(name)
        if isinstance(mistake, str):
            right = ended.state == mistake
        else:
            right = ended.state == "COMPLETED" and printed(mistake or PRINTS[name], ended)
        if not right:
            wrong[name] = ended
    assert not wrong

    scripts, directories = {}, []
    for name in sorted(RUN - CUT_OFF):
        scripts[name], more = translated(JOBS[name], name)
        directories += more
    (place / "fsx3").mkdir()
    made = " ".join(map(shlex.quote, sorted(set(directories))))
    site.run("c1", f"install -d -m 1777 {made}")
    for name, ended in run_all(site, place, "translated", scripts).items():
        right = ended.state == "COMPLETED" and printed(PRINTS[name], ended)
        alike = name in {*MISTAKES, *VARYING} or ended == written[name]
        if not right or not alike:
            wrong[name] = ended
    assert not wrong


def printed(expected: list[str] | str, ended: Ended) -> bool:
    """Whether a job printed what it should."""
    if isinstance(expected, str):
        return any(expected in line for line in ended.lines)
    return ended.lines == sorted(expected)
