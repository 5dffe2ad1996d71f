# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the runner of job hooks: as a module, and as the program that nodes have."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks import result
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import RESULTS
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks import plan, program, runner

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "2001", "SLURM_JOB_GID": "2001"}


def site_part(name: str, text: str, **more: t.Any) -> plan.Part:
    given = {"kind": "prolog", "order": 70, "deadline": 5.0, "policy": "drain", **more}
    return plan.Part(name=name, text=text, **given)


class Node:
    """A node on which the program of a hook runs, with its own journal and results."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.results = directory / "results"
        self.journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.journal.bind(str(directory / "journal"))
        self.journal.setblocking(False)
        self.seconds = 0.0
        self.proc = "/proc"

    def run(
        self, *parts: plan.Part, kind: str = "prolog", mode: str = "enforce", **env: str
    ) -> subprocess.CompletedProcess[str]:
        text = program.program(kind, mode, sorted(parts, key=lambda part: part.order), str)
        text = text.replace(RESULTS, str(self.results))
        text = text.replace(runner.JOURNAL, str(self.directory / "journal"))
        text = text.replace('proc: str = "/proc"', f'proc: str = "{self.proc}"')
        path = self.directory / kind
        path.write_text(text.replace("/usr/bin/python3 -IS", f"{sys.executable} -IS"))
        path.chmod(0o755)
        started = time.monotonic()
        done = subprocess.run(
            [path],
            env={**JOB, "SLURMD_NODENAME": "c1", **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        self.seconds = time.monotonic() - started
        return done

    @property
    def document(self) -> dict[str, t.Any]:
        return json.loads((self.results / "hooks.json").read_text())

    @property
    def drain(self) -> dict[str, t.Any]:
        return self.document["hooks"]["drain"]

    def verdicts(self) -> dict[str, str]:
        return {item["check"]: item["verdict"] for item in self.document["results"]}

    def lines(self) -> list[dict[str, str]]:
        """The lines in the journal since the last call."""
        found = []
        while True:
            try:
                data = self.journal.recv(65536).decode()
            except BlockingIOError:
                return found
            found.append(dict(line.split("=", 1) for line in data.splitlines()))


def assert_gone(process: int) -> None:
    """The process has ended; nobody may have asked a zombie for it."""
    stat, until = Path(f"/proc/{process}/stat"), time.monotonic() + 5
    while time.monotonic() < until:
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError(f"{process} runs")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_part_that_passes_is_logged_and_kept(node: Node) -> None:
    done = node.run(site_part("mine", "#!/bin/sh\necho fine\n"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    [line] = node.lines()
    assert line["MESSAGE"].startswith("prolog mine: PASS in 0.") and line["PRIORITY"] == "6"
    assert line["SLURM_JOB_ID"] == "7" and line["TRAINWRIGHT_OUTPUT"] == "fine"
    found = node.document
    assert found.pop("hooks")["drain"] == {}
    # The document is one of the schema that all checks share.
    assert found == result.document("hooks", result.from_json(found["results"]))
    assert node.verdicts() == {"prolog.mine": "PASS"}


def test_a_part_that_fails_drains_with_our_reason_and_the_ones_after_it_do_not_run(
    node: Node,
) -> None:
    mark = node.directory / "ran"
    done = node.run(
        site_part("mine", "echo no disk >&2; exit 3", order=1, remedy="mount it"),
        site_part("late", f"touch {mark}", order=2),
    )
    assert done.returncode == 1 and not mark.exists()
    assert node.drain["reason"] == "tw:hook:mine: exit code 3: no disk -> mount it"
    assert node.drain["reason"] in done.stdout
    assert node.verdicts() == {"prolog.mine": "FAIL"}
    [found] = result.from_json(node.document["results"])
    assert (found.what, found.remedy) == ("exit code 3: no disk", "mount it")
    assert node.lines()[0]["PRIORITY"] == "3"


def test_the_reason_stays_until_its_own_part_passes(node: Node) -> None:
    node.run(site_part("mine", "exit 1"))
    node.run(site_part("mine", "exit 0", kind="epilog"), kind="epilog", SLURM_JOB_ID="8")
    assert node.drain["check"] == "prolog.mine" and node.drain["job"] == "7"
    node.run(site_part("mine", "exit 0"), SLURM_JOB_ID="9")
    assert node.drain == {}


def test_a_part_that_is_taken_away_leaves_neither_result_nor_reason(node: Node) -> None:
    node.run(site_part("old", "exit 1"), site_part("mine", "exit 0", order=1))
    node.run(site_part("after", "exit 1", kind="epilog", policy="warn"), kind="epilog")
    assert node.drain["check"] == "prolog.old"
    node.run(site_part("mine", "exit 0"))
    assert node.drain == {}
    assert node.verdicts() == {"epilog.after": "WARN", "prolog.mine": "PASS"}
    assert node.document["verdict"] == "WARN"


def test_a_warn_part_that_fails_does_not_drain(node: Node) -> None:
    mark = node.directory / "ran"
    done = node.run(
        site_part("mine", "exit 1", order=1, policy="warn"),
        site_part("late", f"touch {mark}", order=2),
    )
    assert done.returncode == 0 and mark.exists() and node.drain == {}
    assert node.verdicts() == {"prolog.mine": "WARN", "prolog.late": "PASS"}
    assert [line["PRIORITY"] for line in node.lines()] == ["4", "6"]


def test_in_observe_mode_nothing_fails_and_all_parts_run(node: Node) -> None:
    mark = node.directory / "ran"
    done = node.run(
        site_part("mine", "exit 1", order=1),
        site_part("late", f"touch {mark}", order=2),
        mode="observe",
    )
    assert done.returncode == 0 and mark.exists() and not done.stdout
    assert node.verdicts()["prolog.mine"] == "FAIL"
    # What enforce would have done; whoever drains reads the mode.
    assert node.drain["reason"].startswith("tw:hook:mine:") and node.drain["mode"] == "observe"


@pytest.mark.parametrize("policy", ["drain", "warn"])
def test_a_part_that_hangs_is_killed_with_all_that_it_started(node: Node, policy: str) -> None:
    pids = node.directory / "pids"
    text = f"sleep 600 & echo $! >{pids}; trap '' TERM; sleep 600"
    done = node.run(site_part("slow", text, deadline=0.5, policy=policy))
    assert node.seconds < 3
    assert done.returncode == (1 if policy == "drain" else 0)
    assert node.document["results"][0]["detail"] == "did not end within 0.5 s"
    assert float(node.lines()[0]["TRAINWRIGHT_SECONDS"]) >= 0.5
    assert_gone(int(pids.read_text()))


def test_at_its_deadline_a_part_loses_what_has_left_its_session_too(node: Node) -> None:
    pids = node.directory / "pids"
    text = f"setsid sh -c 'echo $$ >{pids}; sleep 600' & sleep 600"
    assert node.run(site_part("slow", text, deadline=0.7)).returncode == 1
    assert_gone(int(pids.read_text()))


def test_at_its_deadline_a_part_loses_what_has_left_its_group_without_its_environment(
    node: Node,
) -> None:
    pids = node.directory / "pids"
    text = f"#!/bin/bash\nset -m; env -i sleep 600 & echo $! >{pids}; sleep 600"
    assert node.run(site_part("slow", text, deadline=0.7)).returncode == 1
    assert_gone(int(pids.read_text()))


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_process_whose_memory_does_not_answer_does_not_hold_the_hook_up(
    node: Node, mode: str
) -> None:
    # As with a page of a FUSE file system of the user's.
    node.proc = str(node.directory / "proc")
    process = node.directory / "proc" / "4194304"
    process.mkdir(parents=True)
    (process / "stat").write_text("4194304 (user's) S 1 1 1" + " 9" * 46)
    os.mkfifo(process / "environ")
    parts = [site_part("slow", "sleep 60", deadline=0.3, policy="warn"), site_part("after", "")]
    assert node.run(*parts, mode=mode).returncode == 0
    assert node.seconds < 4
    assert node.verdicts() == {"prolog.after": "PASS", "prolog.slow": "WARN"}
    assert node.drain == {}


def test_parts_that_miss_their_deadlines_share_the_time_for_what_they_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert runner.SPARE + runner.LET_GO + runner.NOTE + runner.LOCK + 2 < plan.MARGIN
    kill = runner.kill
    left: list[int] = []
    monkeypatch.setattr(runner, "kill", left.append)
    monkeypatch.setattr(runner, "kill_marked", lambda _child, _mark, most: time.sleep(most))
    monkeypatch.setattr(runner, "_SPARE", [0.5])
    part = {"name": "slow", "deadline": 0.1, "policy": "warn", "text": "#!/bin/sh\nsleep 20"}
    started = time.monotonic()
    try:
        for _number in range(3):
            assert runner.run_part(part, {"PATH": runner.PATH}).verdict == "WARN"
        assert time.monotonic() - started < 2
    finally:
        for group in left:
            kill(group)
            os.waitpid(-group, 0)


def test_a_part_that_the_kernel_does_not_let_go_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A process in an uninterruptible sleep: SIGKILL does nothing.
    kill = runner.kill
    left: list[int] = []
    monkeypatch.setattr(runner, "kill", left.append)
    monkeypatch.setattr(runner, "kill_marked", lambda _child, _mark, _most: None)
    started = time.monotonic()
    part = {"name": "slow", "deadline": 0.2, "policy": "drain", "text": "#!/bin/sh\nsleep 20"}
    try:
        outcome = runner.run_part(part, {"PATH": runner.PATH})
        assert outcome.fault == "did not end within 0.2 s"
        assert time.monotonic() - started < 5
    finally:
        kill(left[0])
        os.waitpid(-left[0], 0)


def test_a_part_that_leaves_a_process_behind_does_not_hold_the_job_up(node: Node) -> None:
    done = node.run(site_part("mine", "sleep 600 & exit 0"))
    assert done.returncode == 0 and node.seconds < 3


def test_a_part_that_writes_10_mb_is_cut_short_and_passes(node: Node) -> None:
    done = node.run(site_part("loud", "head -c 10000000 /dev/zero | tr '\\0' x; exit 0"))
    assert done.returncode == 0 and node.verdicts() == {"prolog.loud": "PASS"}
    assert (node.results / "hooks.json").stat().st_size < 4000
    assert len(node.lines()[0]["TRAINWRIGHT_OUTPUT"]) <= 1000
    node.run(site_part("loud", "head -c 10000000 /dev/urandom; exit 1"))
    assert len(node.drain["reason"]) <= 300 and node.drain["reason"].isprintable()


def test_a_part_that_is_killed_by_a_signal(node: Node) -> None:
    done = node.run(site_part("mine", "kill -SEGV $$"))
    assert done.returncode == 1
    assert node.drain["reason"].startswith("tw:hook:mine: was killed by SIGSEGV")


@pytest.mark.parametrize(
    ("mode", "fault"), [(0o644, "is not an executable file"), (0o777, "others than root can")]
)
def test_a_program_on_the_node_that_cannot_be_run(node: Node, mode: int, fault: str) -> None:
    if os.geteuid():
        pytest.skip("root alone refuses what others can change")
    path = Path("/usr/local/lib/trainwright-test-part")
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(mode)
    try:
        part = plan.Part("mine", "prolog", 1, 5.0, "drain", path=str(path))
        assert node.run(part).returncode == 1
        assert fault in node.drain["reason"]
        path.chmod(0o755)
        assert node.run(part).returncode == 0
        path.unlink()
        assert node.run(part).returncode == 1
        assert "No such file or directory" in node.drain["reason"]
    finally:
        path.unlink(missing_ok=True)


def test_a_hook_of_slurmctld_runs_no_program_that_a_user_can_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid():
        pytest.skip("root alone can give a file away")
    directory = Path("/usr/local/lib/trainwright-test-directory")
    directory.mkdir()
    path = directory / "part"
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    part = {"name": "mine", "deadline": 5.0, "policy": "requeue", "path": str(path)}
    # Slurm's own user.
    monkeypatch.setattr(os, "geteuid", lambda: 64030)
    try:
        assert runner.run_part(part, {"PATH": runner.PATH}).fault == ""
        os.chown(path, 2001, 2001)
        assert "others than root can change" in runner.run_part(part, {}).fault
        os.chown(path, 64030, 64030)
        assert runner.run_part(part, {"PATH": runner.PATH}).fault == ""
        directory.chmod(0o777)
        assert "others than root can change" in runner.run_part(part, {}).fault
    finally:
        path.unlink()
        directory.rmdir()


def test_results_that_cannot_be_written_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_paths: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        runner.save([], {}, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["hooks.json.lock"]


def test_an_interpreter_that_only_one_node_lacks(node: Node) -> None:
    assert node.run(site_part("mine", "#!/opt/none/python\n")).returncode == 1
    assert "cannot be executed: No such file or directory" in node.drain["reason"]


def test_an_interpreter_gets_its_argument_and_the_whole_text(node: Node) -> None:
    text = "#!/bin/sh -e\n" + "# a comment\n" * 20000 + "false\necho never\n"
    assert node.run(site_part("mine", text)).returncode == 1


def test_parts_run_in_order_and_get_a_path_and_the_job(node: Node) -> None:
    seen = node.directory / "seen"
    text = f'echo "$0 $SLURM_JOB_ID $PATH" >>{seen}; id >/dev/null'
    node.run(site_part("b", text, order=1), site_part("a", text.replace("$0", "last"), order=2))
    first, second = seen.read_text().splitlines()
    assert first.startswith("/proc/self/fd/") and first.split()[1:] == ["7", runner.PATH]
    assert second.startswith("last 7")


def test_all_parts_of_an_epilog_run(node: Node) -> None:
    mark = node.directory / "ran"
    parts = [
        site_part("mine", "exit 1", kind="epilog", order=1),
        site_part("late", f"touch {mark}", kind="epilog", order=2),
    ]
    assert node.run(*parts, kind="epilog").returncode == 1
    assert mark.exists() and node.drain["check"] == "epilog.mine"


def test_a_task_prolog_hands_its_lines_to_slurm_and_never_fails(node: Node) -> None:
    parts = [
        site_part("mine", "echo export A=1; echo noise >&2", kind="task_prolog", policy="warn"),
        site_part("bad", "echo print no; exit 1", kind="task_prolog", policy="warn", order=80),
    ]
    done = node.run(*parts, kind="task_prolog")
    assert (done.returncode, done.stdout) == (0, "export A=1\n")
    assert not node.results.exists()


@pytest.mark.parametrize(("policy", "code"), [("requeue", 1), ("warn", 0)])
def test_a_part_of_slurmctld_requeues_by_its_exit_code(node: Node, policy: str, code: int) -> None:
    part = site_part("mine", "exit 1", kind="prolog_slurmctld", policy=policy)
    assert node.run(part, kind="prolog_slurmctld").returncode == code
    assert not node.results.exists()


def test_a_part_of_ours_that_breaks_could_not_tell_and_never_drains(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = plan.Part("gpu", "prolog", 1, 5.0, "drain", shipped="gpu")
    texts = {
        "def run(e, o):\n    raise OSError(2, 'No nvidia-smi')\n": ("INCOMPLETE", 0),
        "def run(e, o):\n    import time\n    time.sleep(60)\n": ("INCOMPLETE", 0),
        "def run(e, o):\n    return 'GPU 3 is used'\n": ("FAIL", 1),
        "def run(e, o):\n    return ''\n": ("PASS", 0),
    }
    for text, (verdict, code) in texts.items():
        monkeypatch.setattr(program, "source_of", lambda _name, text=text: text)
        done = node.run(part._replace(deadline=0.5))
        assert (node.verdicts()["prolog.gpu"], done.returncode) == (verdict, code), text


def test_a_part_is_left_out_without_the_variable_that_it_needs(node: Node) -> None:
    part = plan.Part("gpu", "prolog", 1, 5.0, "drain", shipped="gpu", needs="SLURM_JOB_GPUS")
    assert node.run(part).returncode == 0
    assert node.document["results"] == []


def test_many_jobs_at_once_keep_one_whole_document(node: Node) -> None:
    node.run(site_part("mine", "exit 0"))
    path = node.directory / "prolog"
    running = [
        subprocess.Popen([path], env={**JOB, "SLURMD_NODENAME": "c1"}) for _number in range(12)
    ]
    assert [process.wait(30) for process in running] == [0] * 12
    assert node.verdicts() == {"prolog.mine": "PASS"}
    assert sorted(os.listdir(node.results)) == ["hooks.json", "hooks.json.lock"]


def test_a_broken_document_and_a_missing_directory_do_not_matter(node: Node) -> None:
    node.results.mkdir()
    (node.results / "hooks.json").write_text("{half")
    assert node.run(site_part("mine", "exit 0")).returncode == 0
    assert node.verdicts() == {"prolog.mine": "PASS"}
    (node.results / "hooks.json").write_text('{"results": 3}')
    assert node.run(site_part("mine", "exit 0")).returncode == 0


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("out-%j.txt", "/home/ada/out-7.txt"),
        ("/shared/%u/%8j.out", "/shared/ada/00000007.out"),
        ("%A_%a.out", "/home/ada/7_.out"),
        ("100%%-%N", "/home/ada/100%-c1"),
        ("%99999999999999j", "/home/ada/0000000007"),  # as Slurm, which pads to 10
        (f"%{'0' * 5000}8j", "/home/ada/00000007"),
        (f"%{'9' * 5000}j", "/home/ada/0000000007"),
        ("%x.out", ""),  # the job's name, which a Prolog does not have
        ("/dev/null", ""),
        ("", ""),
    ],
)
def test_the_file_of_a_jobs_output(name: str, path: str) -> None:
    job = {**JOB, "SLURM_JOB_WORK_DIR": "/home/ada", "SLURM_JOB_USER": "ada"}
    assert runner.output_file({**job, "SLURMD_NODENAME": "c1", "SLURM_JOB_STDOUT": name}) == path


def test_the_jobs_user_reads_why_in_the_jobs_output_and_root_writes_nothing_there(
    node: Node, tmp_path: Path
) -> None:
    if os.geteuid():
        pytest.skip("root alone becomes another user")
    home = Path("/tmp") / f"trainwright-home-{os.getpid()}"
    home.mkdir(mode=0o700)
    os.chown(home, 2001, 2001)
    secret = tmp_path / "secret"
    secret.write_text("root's")
    try:
        given = {"SLURM_JOB_WORK_DIR": str(home), "SLURM_JOB_STDOUT": "out-%j"}
        node.run(site_part("mine", "exit 1"), **given)
        out = home / "out-7"
        assert out.read_text() == (
            "c1: this job could not start here: tw:hook:mine: exit code 1 -> repair this node, then resume it\n"
        )
        assert out.stat().st_uid == 2001
        # A link to what only root can write.
        out.unlink()
        out.symlink_to(secret)
        node.run(site_part("mine", "exit 1"), **given)
        assert secret.read_text() == "root's"
        # A pipe that nobody reads does not hold the node up.
        out.unlink()
        os.mkfifo(out)
        os.chown(out, 2001, 2001)
        assert node.run(site_part("mine", "exit 1"), **given).returncode == 1
        assert node.seconds < 4
    finally:
        for path in home.iterdir():
            path.unlink()
        home.rmdir()


@pytest.mark.parametrize("name", ["%99999999999999j", f"%{'9' * 5000}j"])
def test_the_name_of_a_jobs_output_does_not_start_a_job_on_a_bad_node(
    node: Node, name: str
) -> None:
    done = node.run(site_part("mine", "exit 1"), SLURM_JOB_STDOUT=name)
    assert done.returncode == 1 and node.document["hooks"]["drain"]


def test_a_note_that_cannot_be_written_does_not_start_a_job_on_a_bad_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_given: t.Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(runner, "tell_user", full)
    part = {"name": "mine", "policy": "drain", "deadline": 5.0, "text": "exit 1"}
    assert runner.guarded({"kind": "prolog", "mode": "enforce", "parts": [part]}) == 1
    assert "temporarily unavailable" in capsys.readouterr().err


def test_slurms_own_deadline_leaves_nothing_behind(node: Node) -> None:
    pids = node.directory / "pids"
    node.run(site_part("mine", "exit 0"))
    text = program.program(
        "prolog", "enforce", [site_part("slow", f"echo $$ >{pids}; sleep 600", deadline=60)], str
    ).replace(RESULTS, str(node.results))
    path = node.directory / "prolog"
    path.write_text(text.replace("/usr/bin/python3", sys.executable))
    process = subprocess.Popen([path], env=JOB)
    until = time.monotonic() + 10
    while not (pids.exists() and pids.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    process.terminate()
    assert process.wait(10) == 1
    assert_gone(int(pids.read_text()))


def test_a_fault_of_the_program_itself_does_not_drain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert runner.guarded({"kind": "prolog", "mode": "enforce", "parts": [{}]}) == 0
    assert "KeyError" in capsys.readouterr().err


def test_the_program_is_the_same_for_the_same_parts() -> None:
    parts = plan.parts_of({"job_hooks_gpu": True, "job_hooks_end_processes": True})
    texts = {program.program("epilog", "enforce", parts, str) for _number in range(2)}
    assert len(texts) == 1
    [text] = texts
    assert text.startswith("#!/usr/bin/python3 -IS\n")
    compile(text, "epilog", "exec")
    for word in ("scontrol", "squeue", "sinfo"):
        assert word not in text


def test_it_imports_nothing_that_takes_long_to_start() -> None:
    code = program.program("prolog", "enforce", [], str).partition("\nMANIFEST")[0]
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-"],
        input=f"{code}\nprint(*sorted(set(sys.modules)))\n",
        capture_output=True,
        text=True,
        check=True,
    )
    slow = {"typing", "re", "enum", "json", "subprocess", "socket", "signal", "dataclasses"}
    assert "os" in done.stdout.split() and not slow & set(done.stdout.split())
