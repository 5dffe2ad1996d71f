# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The batch script of a job, run by bash with a stand-in for srun, and its log taken apart again."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    collect,
    own,
    script,
    verdicts,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import Check
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import registry
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.plan import Host
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.script import (
    Each,
    Frame,
    Step,
    Work,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.verdicts import Place

from . import stand_in
from .stand_in import ROOT, RUN

PROGRAMS = ROOT / "roles" / "validate" / "files"
C1, C2 = Host("c1", "127.0.0.1"), Host("c2", "127.0.0.1")
# Runs a step's tasks on this machine, one for each node, and labels their lines if it is asked to.
SRUN = """#!/bin/bash
echo "$*" >> "$SEEN"
label= nodes= tasks=()
while [[ $1 = --* ]]; do
  case $1 in --label) label=1 ;; --nodelist=*) nodes=${1#*=} ;; esac
  shift
done
number=0
for node in ${nodes//,/ }; do
  if [ "$label" ]; then
    SLURMD_NODENAME=$node SLURM_PROCID=$number SLURM_JOB_ID=7 SLURM_STEP_ID=1 "$@" | sed "s/^/$number: /" &
  else
    SLURMD_NODENAME=$node SLURM_PROCID=$number SLURM_JOB_ID=7 SLURM_STEP_ID=1 "$@" &
  fi
  tasks+=($!)
  number=$((number + 1))
done
code=0
for task in "${tasks[@]}"; do wait "$task" || code=$?; done
exit $code
"""


def run(
    work: Work,
    path: Path,
    frame: Frame | None = None,
    login: dict[str, str] | None = None,
    srun: str = SRUN,
    shell: tuple[str, ...] = ("/bin/bash", "-s"),
) -> tuple[str, str]:
    """Run a job's script; return its log, and the arguments of srun. login: variables of whoever submits it."""
    (path / "bin").mkdir(exist_ok=True)
    (path / "bin" / "srun").write_text(srun)
    (path / "bin" / "srun").chmod(0o755)
    frame = frame or Frame(RUN, str(PROGRAMS), str(path))
    text = script.write(work, frame)
    environment = {
        "PATH": f"{path}/bin:{os.environ['PATH']}",
        "SEEN": f"{path}/seen",
        "HOME": str(path),
        **(login or {}),
    }
    done = subprocess.run(
        shell,
        input=text,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout, (path / "seen").read_text() if (path / "seen").exists() else ""


def check(command: str, **more: object) -> Check:
    return Check(**{"name": "one", "stage": "static", "title": "x", "command": command, **more})  # type: ignore[arg-type]


def test_each_node_runs_its_checks_and_says_how_they_ended(tmp_path: Path) -> None:
    checks = (
        (check("echo $SLURMD_NODENAME is here"), ("c1", "c2")),
        (check("printf 'no line break'; exit 3", name="two"), ("c2",)),
        (check("sleep 9", name="slow", deadline=1), ("c1",)),
        (check("nobody-has-this", name="lacks"), ("c1",)),
        (check("cat", name="reads"), ("c1",)),
    )
    work = Work("validate-x", "static", (C1, C2), each=Each(checks, (C1, C2)))
    log, seen = run(work, tmp_path)
    assert collect.complete(log, RUN, "validate-x") and collect.ended(log, RUN) == 1
    found = collect.by_node(collect.steps(log, RUN)["each"], RUN)
    assert set(found) == {"c1", "c2"} and set(found["c2"]) == {"one", "two"}
    assert found["c1"]["one"].text.strip() == "c1 is here" and found["c1"]["one"].code == 0
    assert found["c2"]["two"].text.strip() == "no line break" and found["c2"]["two"].code == 3
    assert found["c1"]["slow"].code == 124 and "within its deadline" in found["c1"]["slow"].why
    assert "missing" in found["c1"]["lacks"].why
    assert found["c1"]["reads"].code == 0
    assert "--label" in seen and "--mpi=none" in seen and "--nodelist=c1,c2" in seen


def test_steps_run_beside_each_other_and_their_outputs_stay_apart(tmp_path: Path) -> None:
    steps = tuple(
        Step(
            f"one/{number}",
            check("for i in 1 2 3; do echo $N; sleep 0.05; done"),
            (C1,),
            variables={"N": str(number)},
        )
        for number in range(6)
    )
    log, _seen = run(Work("validate-x", "static", (C1,), steps=steps, parallel=4), tmp_path)
    found = collect.steps(log, RUN)
    assert {name: one.text.split() for name, one in found.items()} == {
        f"one/{number}": [str(number)] * 3 for number in range(6)
    }
    assert all(one.code == 0 for one in found.values())


def test_variables_and_options_of_the_site_reach_the_steps(tmp_path: Path) -> None:
    frame = Frame(
        RUN,
        str(PROGRAMS),
        str(tmp_path),
        {"NCCL_DEBUG": "INFO", "WITH": "a 'quote'"},
        {"network": "sn_all", "mpi": "pmi2"},
    )
    step = Step(
        "one", check('echo "$NCCL_DEBUG,$WITH,$VALIDATION_NODES"', environment={"X": "1"}), (C1, C2)
    )
    log, seen = run(Work("validate-x", "static", (C1, C2), steps=(step,)), tmp_path, frame)
    assert "INFO,a 'quote',c1 c2" in collect.steps(log, RUN)["one"].text
    assert "--network=sn_all" in seen and "--mpi=pmi2" in seen and "--mpi=none" not in seen


def test_sockets_measure_between_two_tasks(tmp_path: Path) -> None:
    step = Step(
        "pair/c1,c2", check('exec python3 "$VALIDATION/sockets.py" --seconds 0.2'), (C1, C2)
    )
    log, _seen = run(Work("validate-x", "pairwise", (C1, C2), steps=(step,)), tmp_path)
    output = collect.steps(log, RUN)["pair/c1,c2"]
    assert output.code == 0, output
    parsed = registry.read("transfer", output.text + "\n")
    assert parsed.figures["busbw"] > 0.05 and 0 < parsed.figures["latency_us"] < 100_000
    assert 0 <= parsed.figures["resent_percent"] < 100


TOKEN = "a5" * 16
PAIR = {"VALIDATION_TOKEN": TOKEN, "VALIDATION_NODES": "c1 c2", "VALIDATION_SERVER": "c1"}


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """The program sockets.py as a module."""
    spec = importlib.util.spec_from_file_location("sockets_of_role", PROGRAMS / "sockets.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def task(node: str, patience: float = 20) -> subprocess.Popen[str]:
    """Start sockets.py as the task of a node."""
    given = {**os.environ, **PAIR, "VALIDATION_ADDRESS": "127.0.0.1", "SLURMD_NODENAME": node}
    return subprocess.Popen(
        [sys.executable, PROGRAMS / "sockets.py", "--seconds=0.05", f"--patience={patience}"],
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_port(sockets: t.Any) -> int:
    return next(sockets.ports(sockets.proof(bytes.fromhex(TOKEN), b"pair", b"c1 c2")))


@pytest.mark.parametrize("says", [b"", b"p" * 17, b"x" * 4096])
def test_a_stranger_who_connects_first_spoils_no_pair(sockets: t.Any, says: bytes) -> None:
    """He is silent, gives an order as the client would, or writes anything; several of them at the same time."""
    server = task("c1")
    port = first_port(sockets)
    strangers: list[socket.socket] = []
    while len(strangers) < 5:
        try:
            one = socket.create_connection(("127.0.0.1", port), timeout=5)
        except ConnectionRefusedError:
            time.sleep(0.02)
            continue
        one.sendall(says)
        strangers.append(one)
    said, error = task("c2").communicate(timeout=60)
    assert registry.read("transfer", said).figures["busbw"] > 0, error
    assert server.wait(30) == 0
    for one in strangers:
        one.close()


@pytest.mark.parametrize("answers", [False, True])
def test_a_stranger_who_listens_first_is_not_measured(sockets: t.Any, answers: bool) -> None:
    """Both tasks pass over his port; without the secret he cannot answer as the server does."""
    with socket.create_server(("127.0.0.1", first_port(sockets))) as taken:

        def serve() -> None:
            while True:
                try:
                    one, _address = taken.accept()
                except OSError:
                    return
                one.recv(100)
                if answers:
                    one.sendall(bytes(4096))
                one.close()

        threading.Thread(target=serve, daemon=True).start()
        tasks = [task("c1"), task("c2")]
        said, error = tasks[1].communicate(timeout=60)
        assert registry.read("transfer", said).figures["busbw"] > 0, error
        assert tasks[0].wait(30) == 0
        taken.shutdown(socket.SHUT_RDWR)


def test_without_the_other_node_it_ends_in_time(sockets: t.Any) -> None:
    for node, words in (("c1", "did not connect"), ("c2", "may the nodes reach each other")):
        one = task(node, patience=0.5)
        said, error = one.communicate(timeout=30)
        assert one.returncode == 1 and words in error and not said


def test_the_secret_of_a_job_reaches_its_tasks_and_nobody_else(tmp_path: Path) -> None:
    """Files and command lines are for everybody to read."""
    step = Step("one", check('echo "token $VALIDATION_TOKEN port $VALIDATION_PORT"'), (C1, C2))
    work = Work("validate-x", "static", (C1, C2), steps=(step,))
    log, seen = run(work, tmp_path)
    again, _seen = run(work, tmp_path)
    said = set(re.findall(r"token ([0-9a-f]{32}) port (\d+)", log))
    ((token, port),) = said
    assert 20000 <= int(port) < 30000
    assert token not in seen and token not in script.write(work, Frame(RUN, "/p", "/d"))
    assert token not in again
    by_mpi = Step("two", check("true", launch="mpirun"), (C1, C2))
    text = script.write(Work("x", "mpi", (C1, C2), steps=(by_mpi,)), Frame(RUN, "/p", "/d"))
    assert "-x VALIDATION_TOKEN" not in text and "-x PATH " in text


def test_a_login_puts_nothing_in_front_of_what_is_tested(tmp_path: Path) -> None:
    """Programs in its PATH, functions, a file that each bash reads, libraries, modules of Python."""
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    for name in ("fio", "mpirun", "nvidia-smi", "fi_info", "python3", "timeout", "bash", "ls"):
        (fakes / name).write_text("#!/bin/sh\necho a fake\n")
        (fakes / name).chmod(0o755)
    (tmp_path / "rc").write_text("timeout() { echo a fake; }\nexport -f timeout\n")
    (fakes / "json.py").write_text("raise SystemExit('a fake')\n")
    login = {
        "PATH": f"{fakes}:{tmp_path}/bin:{os.environ['PATH']}",
        "BASH_ENV": f"{tmp_path}/rc",
        "BASH_FUNC_ls%%": "() { echo a fake; }",
        "PYTHONPATH": str(fakes),
        "LD_LIBRARY_PATH": str(fakes),
        "SLURM_EXPORT_ENV": "NONE",
    }
    tested = (
        "type -P ls timeout; ls / > /dev/null && python3 -c 'import json' && echo fine; "
        'for one in fio mpirun nvidia-smi fi_info; do type -P $one; done; echo "$LD_LIBRARY_PATH$SLURM_EXPORT_ENV."'
    )
    checks = Each(((check(tested), ("c1",)),), (C1,))
    steps = (Step("group", check(tested), (C1, C2)),)
    log, _seen = run(
        Work("validate-x", "static", (C1, C2), each=checks, steps=steps), tmp_path, login=login
    )
    outputs = collect.steps(log, RUN)
    texts = [
        outputs["group"].text, collect.by_node(outputs["each"], RUN)["c1"]["one"].text,
    ]  # fmt: skip
    for text in texts:
        assert "fine" in text and "/usr/bin/ls" in text and text.strip().endswith("."), text
        assert "a fake" not in text and str(fakes) not in text


def test_directories_of_the_site_come_first(tmp_path: Path) -> None:
    place = tmp_path / "opt"
    place.mkdir()
    (place / "ior").write_text("#!/bin/sh\necho IOR of the site\n")
    (place / "ior").chmod(0o755)
    frame = Frame(RUN, str(PROGRAMS), str(tmp_path), path=(str(place), "/usr/bin", "/bin"))
    probe = check('exec python3 "$VALIDATION/probe.py" ior mpirun', name="probe", parser="ours")
    each = Each(((probe, ("c1",)),), (C1,))
    step = Step("one", check("ior"), (C1,))
    log, _seen = run(Work("validate-x", "static", (C1,), each=each, steps=(step,)), tmp_path, frame)
    outputs = collect.steps(log, RUN)
    assert outputs["one"].text.strip() == "IOR of the site"
    found = own.parse(collect.by_node(outputs["each"], RUN)["c1"]["probe"].text + "\n").facts
    assert found["programs"]["ior"] == f"{place}/ior"


def test_conda_in_a_login_is_found_and_not_used(tmp_path: Path) -> None:
    conda = tmp_path / "miniconda" / "bin"
    conda.mkdir(parents=True)
    (conda / "mpirun").write_text("#!/bin/sh\n")
    (conda / "mpirun").chmod(0o755)
    (tmp_path / ".bash_profile").write_text(f"echo welcome\nPATH={conda}:/usr/bin:/bin\n")
    probe = check('exec python3 "$VALIDATION/probe.py" mpirun', name="probe", parser="ours")
    conda_check = next(
        one for one in catalogue.load(stand_in.given()) if one.name == "conda_mpirun"
    )
    each = Each(((probe, ("c1",)), (conda_check, ("c1",))), (C1,))
    log, _seen = run(Work("validate-x", "static", (C1,), each=each), tmp_path)
    found = collect.by_node(collect.steps(log, RUN)["each"], RUN)["c1"]
    facts = own.parse(found["probe"].text + "\n").facts
    assert (
        facts["login_mpirun"] == f"{conda}/mpirun"
        and facts["programs"]["mpirun"] != f"{conda}/mpirun"
    )
    assert found["conda_mpirun"].text.strip() == f"{conda}/mpirun"


PAIR_TOOL = """#!/bin/bash
# Listens where it is not given an address; the client fails until then.
echo "$0 $*" >> "$SEEN"
if [ "${!#}" != 127.0.0.1 ]; then sleep 0.8; touch "$HOME/listens"; sleep 1; echo of the server; exit; fi
[ -e "$HOME/listens" ] || { echo "Couldn't connect"; exit 1; }
echo of the client
"""


@pytest.mark.parametrize(
    ("tool", "options"), [("ib_write_bw", ("-p", "-p")), ("fi_pingpong", ("-B", "-P"))]
)
def test_a_tool_of_pairs_waits_for_its_server(
    tool: str, options: tuple[str, str], tmp_path: Path
) -> None:
    """By its name: Slurm numbers the tasks in its own order. The port is the job's."""
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / tool).write_text(PAIR_TOOL)
    (tmp_path / "opt" / tool).chmod(0o755)
    frame = Frame(RUN, str(PROGRAMS), str(tmp_path), path=(f"{tmp_path}/opt", "/usr/bin", "/bin"))
    command = f'echo "$VALIDATION_PORT" > "$HOME/port"; exec bash "$VALIDATION/pair.sh" {tool} -a'
    # The first host of the step has task 1.
    step = dataclasses.replace(Step("pair", check(command), (C2, C1)))
    swapped = SRUN.replace("for node in ${nodes//,/ }", "for node in c1 c2")
    log, seen = run(
        Work("validate-x", "pairwise", (C1, C2), steps=(step,)), tmp_path, frame, srun=swapped
    )
    output = collect.steps(log, RUN)["pair"]
    assert output.code == 0 and output.text.split("\n")[-2:] == ["of the client", ""], output
    port = (tmp_path / "port").read_text().strip()
    calls = [line.split()[1:] for line in seen.splitlines() if f"/opt/{tool} " in line]
    assert calls[0] == ["-a", options[0], port] or calls[1] == ["-a", options[0], port]
    assert ["-a", options[1], port, "127.0.0.1"] in calls


def test_a_tool_of_pairs_without_a_server_ends_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "ib_write_bw").write_text('#!/bin/sh\necho "Couldn\'t connect"; exit 3\n')
    (tmp_path / "ib_write_bw").chmod(0o755)
    (tmp_path / "sleep").symlink_to("/bin/true")
    given = {**PAIR, "VALIDATION_PORT": "20001", "VALIDATION_ADDRESS": "192.0.2.1"}
    done = subprocess.run(
        ["bash", PROGRAMS / "pair.sh", "ib_write_bw"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURMD_NODENAME": "c2", **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "Couldn't connect\n")


def test_a_container_sees_the_mount_that_it_measures(tmp_path: Path) -> None:
    """As where IOR is in an image."""
    step = Step(
        "ior", check("ior", launch="container"), (C1,), variables={"VALIDATION_MOUNT": "/fsx"}
    )
    frame = Frame(RUN, "/p", "/d", images={"site": "ior.sqsh"}, mounts=("/d",))
    text = script.write(Work("x", "storage", (C1,), steps=(step,)), frame)
    assert "--container-mounts=/d:/d,/fsx:/fsx" in text


@pytest.mark.parametrize("name", ["ior", "mdtest", "fio", "stream"])
def test_what_was_written_on_a_mount_is_removed_also_after_the_deadline(
    name: str, tmp_path: Path
) -> None:
    asks = next(one for one in catalogue.load(stand_in.given()) if one.name == name)
    place = tmp_path / "mount"
    (tmp_path / "opt").mkdir()
    place.mkdir()
    for tool in ("ior", "mdtest", "fio"):
        text = f"#!/bin/sh\ntouch {place}/validation-7/data; touch {tmp_path}/ran; exec sleep 30\n"
        (tmp_path / "opt" / tool).write_text(text)
        (tmp_path / "opt" / tool).chmod(0o755)
    if name == "stream":
        shutil.copy(PROGRAMS / "place.py", tmp_path / "place.py")
        (tmp_path / "storage.py").write_text(
            "import sys, time\nopen(sys.argv[1] + '/data', 'w').close()\n"
            f"open('{tmp_path}/ran', 'w').close()\ntime.sleep(30)\n"
        )
    # Long enough for a busy machine to come to the write.
    asks = dataclasses.replace(asks, launch="srun", deadline=5)
    variables = {"VALIDATION_MOUNT": str(place), "VALIDATION_PLACES": str(place)}
    frame = Frame(
        RUN, str(tmp_path if name == "stream" else PROGRAMS), str(tmp_path),
        path=(f"{tmp_path}/opt", "/usr/bin", "/bin"),
    )  # fmt: skip
    step = Step(name, asks, (C1,), variables=variables)
    log, _seen = run(Work("x", "storage", (C1,), steps=(step,)), tmp_path, frame)
    assert collect.steps(log, RUN)[name].code == 124 and (tmp_path / "ran").exists()
    assert not list(place.iterdir())


def test_storage_writes_reads_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "mount"
    place.mkdir()
    command = (
        'place=$(python3 "$VALIDATION/place.py") || exit\n'
        "trap 'rmdir \"$place\" 2> /dev/null' EXIT\n"
        'python3 "$VALIDATION/storage.py" "$place" --mebibytes 4'
    )
    variables = {"VALIDATION_MOUNT": str(place), "VALIDATION_PLACES": f"/nowhere:{place}"}
    step = Step("storage", check(command), (C1,), variables=variables)
    log, _seen = run(Work("validate-x", "storage", (C1,), steps=(step,)), tmp_path)
    output = collect.steps(log, RUN)["storage"]
    assert output.code == 0, output
    assert set(own.parse(output.text + "\n").figures) == {"write", "read"}
    assert not list(place.iterdir())


def test_a_user_who_may_not_write_on_a_mount_is_told(tmp_path: Path) -> None:
    step = Step(
        "storage",
        check('place=$(python3 "$VALIDATION/place.py") || exit; echo "$place"'),
        (C1,),
        variables={"VALIDATION_MOUNT": "/data", "VALIDATION_PLACES": "/nowhere"},
    )
    log, _seen = run(Work("validate-x", "storage", (C1,), steps=(step,)), tmp_path)
    output = collect.steps(log, RUN)["storage"]
    assert output.code == 1 and "cluster_mounts[].directories" in output.why


def test_an_output_of_which_only_the_beginning_is_kept_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest may have the very words that an output has to lack."""
    monkeypatch.setattr(script, "_KEPT", 200)
    noisy = "printf 'x%.0s' {1..300}; echo; echo broken"
    asks = check(noisy, expect={"lacks": "broken"}, name="noisy")
    other = check("echo fine; exit 3", name="other")
    steps = (Step("noisy", asks, (C1,)), Step("other", other, (C1,)))
    each = Each(((asks, ("c1",)), (other, ("c1",))), (C1,))
    log, _seen = run(Work("validate-x", "static", (C1,), each=each, steps=steps), tmp_path)
    outputs = collect.steps(log, RUN)
    assert outputs["noisy"].code == 0 and "broken" not in outputs["noisy"].text
    assert outputs["other"].why == "ended with 3: fine"
    of_node = collect.by_node(outputs["each"], RUN)["c1"]
    for output in (outputs["noisy"], of_node["noisy"]):
        reading = verdicts.read(asks, output)
        assert reading.why.startswith("printed more than the log keeps") and not reading.failed
        (found,) = verdicts.expected(asks, {"c1": Place((C1,))}, {"c1": reading})
        assert found.verdict is Verdict.INCOMPLETE and found.remedy == "print less"


def test_an_output_on_a_full_disk_says_nothing(tmp_path: Path) -> None:
    """Neither a pass of what it should lack nor a failure that would name a node."""
    (tmp_path / "small").mkdir()
    mount = f"mount -t tmpfs -o size=16k none {tmp_path}/small"
    inside = ("unshare", "--mount", "/bin/bash", "-c")
    if subprocess.run([*inside, mount], capture_output=True, check=False).returncode:
        pytest.skip("needs root: a full file system")
    fills = "head -c 200000 /dev/zero | tr '\\0' x; echo; echo broken; exit 3"
    asks = check(fills, expect={"lacks": "broken"}, name="fills")
    steps = (Step("fills", asks, (C1,)), Step("fine", check("echo fine"), (C1,)))
    log, _seen = run(
        Work("validate-x", "static", (C1,), steps=steps),
        tmp_path,
        login={"TMPDIR": f"{tmp_path}/small"},
        shell=(*inside, f"{mount} && exec /bin/bash -s"),
    )
    outputs = collect.steps(log, RUN)
    reading = verdicts.read(asks, outputs["fills"])
    assert "the disk of the first node of the job is full -> make room" in reading.why
    assert not reading.failed
    # Its output was removed, and the next one is whole.
    assert outputs["fine"].code == 0 and not outputs["fine"].cut


@pytest.mark.parametrize("cut", range(0, 10))
def test_a_log_that_is_cut_never_has_a_whole_step_too_much(tmp_path: Path, cut: int) -> None:
    step = Step("one", check("echo result"), (C1,))
    log, _seen = run(Work("validate-x", "static", (C1,), steps=(step,)), tmp_path)
    part = log[: len(log) * cut // 10]
    found = collect.steps(part, RUN)
    assert not collect.complete(part, RUN, "validate-x")
    assert all(one.code is None or one.text.strip() == "result" for one in found.values())
