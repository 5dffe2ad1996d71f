# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the commands as a transport: what is called, in which environment, what a refusal becomes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import cli
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.cli import Cli
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

PARTITION = """PartitionName=batch
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO
   Nodes=c[1-2]
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   State=UP TotalCPUs=8 TotalNodes=2
"""
NODES = {"nodes": [{"name": "c1", "state": ["IDLE", "DRAIN"], "reason": "x"}], "errors": []}
DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


class Fake:
    """A prefix whose commands print what a test says, and remember how they were called."""

    def __init__(self, directory: Path) -> None:
        self.prefix = directory
        self.bin = directory / "bin"
        self.bin.mkdir()
        self.version("22.05.8")

    def command(self, name: str, *answers: tuple[t.Any, ...]) -> None:
        """answers: pattern of the arguments, what it prints, exit status, what it complains about."""
        cases = []
        for pattern, out, *more in answers:
            code, complaint = [*more, *(0, "")[len(more) :]]
            cases.append(
                f"{pattern}) printf '%s' {shlex.quote(out)}; "
                f"printf '%s' {shlex.quote(complaint)} >&2; exit {code} ;;"
            )
        script = (
            "#!/bin/sh\n"
            f'echo {name} "$@" >> {self.prefix}/calls\n'
            f"env > {self.prefix}/environment; cat > {self.prefix}/stdin; pwd > {self.prefix}/pwd\n"
            'case "$*" in\n' + "\n".join(cases) + "\n*) echo unexpected: $* >&2; exit 99 ;;\nesac\n"
        )
        path = self.bin / name
        path.write_text(script)
        path.chmod(0o755)

    def version(self, version: str, *answers: tuple[t.Any, ...]) -> None:
        self.command("scontrol", ("--version", f"slurm-wlm {version}\n"), *answers)

    @property
    def calls(self) -> list[str]:
        path = self.prefix / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line != "scontrol --version"]

    @property
    def environment(self) -> dict[str, str]:
        lines = (self.prefix / "environment").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def cli(self, **params: t.Any) -> Cli:
        return Cli.from_params({"slurm_prefix": str(self.prefix), **params})


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


# --- where the commands are -----------------------------------------------------------------------
def test_the_prefix_of_a_daemon_is_the_last_place(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the hosts of PCS, where no usual place has the commands."""
    monkeypatch.setattr(cli, "DIRECTORIES", ())
    monkeypatch.setattr(cli, "command_directories", lambda: [str(fake.bin)])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert Cli.from_params({}).version == "22.05.8"


def test_a_job_finds_srun_where_its_submission_did_not(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    fake.command("sbatch", ("*", "7\n"))
    fake.cli().command("sbatch", "job")
    assert fake.environment["PATH"] == f"/usr/bin:/bin:{fake.bin}"
    fake.command("srun", ("*", ""))
    monkeypatch.setenv("PATH", f"{fake.bin}:/usr/bin:/bin")
    fake.cli().command("sbatch", "job")
    assert fake.environment["PATH"] == f"{fake.bin}:/usr/bin:/bin"


def test_a_prefix_is_the_only_place(fake: Fake, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert fake.cli().version == "22.05.8"
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(
        SlurmError, match=f"scontrol is not in {empty}/bin -> .* rest_url"
    ) as caught:
        Cli.from_params({"slurm_prefix": str(empty)})
    assert caught.value.kind == "missing"


def test_without_a_prefix_it_is_path_and_then_the_usual_places(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "DIRECTORIES", ())
    monkeypatch.setattr(cli, "command_directories", list)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SlurmError, match="scontrol is neither in PATH nor /opt/slurm/bin"):
        Cli.from_params({})
    monkeypatch.setattr(cli, "DIRECTORIES", (str(fake.bin),))
    monkeypatch.setenv("PATH", "/nowhere:/usr/bin:/bin")
    assert Cli.from_params({}).version == "22.05.8"


def test_a_command_that_a_host_lacks_is_missed_when_it_is_called(fake: Fake) -> None:
    with pytest.raises(SlurmError, match="sacctmgr is not in") as caught:
        fake.cli().accounting_rows(["qos"], "x", {"qos": ["Name"]})
    assert caught.value.kind == "missing"


def test_something_that_is_not_slurm_is_said(fake: Fake) -> None:
    fake.command("scontrol", ("--version", "hello"))
    with pytest.raises(SlurmError, match="prints hello and no version"):
        _ = fake.cli().version


# --- how they are called --------------------------------------------------------------------------
def test_formats_and_time_zone_are_fixed_whatever_the_user_has_set(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SLURM_JSON", "x")
    fake.version("22.05.8", ("'show config'", "ClusterName = t\n"))
    fake.cli(slurm_conf="/etc/other.conf").configuration()
    seen = fake.environment
    assert (seen["TZ"], seen["LC_ALL"], seen["SLURM_TIME_FORMAT"]) == (
        "UTC",
        "C.UTF-8",
        "standard",
    )
    assert seen["SLURM_CONF"] == "/etc/other.conf" and "SLURM_JSON" not in seen
    assert (fake.prefix / "stdin").read_text() == ""


def test_a_command_that_does_not_answer_counts_as_down(fake: Fake) -> None:
    fake.version("22.05.8")
    (fake.bin / "scontrol").write_text("#!/bin/sh\nexec sleep 9\n")
    slow = Cli(str(fake.prefix), timeout=0.2)
    with pytest.raises(SlurmError, match="scontrol ping: .*no answer within 0.2 s") as caught:
        slow.controllers()
    assert caught.value.kind == "down" and caught.value.passing


# --- reading --------------------------------------------------------------------------------------
def test_22_05_is_read_as_text(fake: Fake) -> None:
    fake.version("22.05.8", ("'-a -d show partitions'", PARTITION), ("'-a -d show nodes'", "\n"))
    one = fake.cli()
    assert [(p.name, p.nodes, p.default) for p in one.partitions()] == [("batch", "c[1-2]", True)]
    assert one.nodes() == []
    assert fake.calls == ["scontrol -a -d show partitions", "scontrol -a -d show nodes"]


@pytest.mark.parametrize(
    ("version", "option"),
    [("24.11.5", "--json=v0.0.42"), ("26.05.5", "--json=v0.0.45"), ("27.05.0", "--json")],
)
def test_json_is_asked_for_by_the_name_of_its_version(
    fake: Fake, version: str, option: str
) -> None:
    fake.version(version, (f"'-a {option} show nodes'", json.dumps(NODES)))
    (node,) = fake.cli().nodes()
    assert (node.name, node.shown, node.reason) == ("c1", "IDLE+DRAIN", "x")


@pytest.mark.parametrize(
    "answer",
    [
        ("", 1, "scontrol: fatal: JSON plugin load failure"),
        ("no json", 0),
        ("[]", 0),
        (json.dumps({"nodes": [], "errors": [{"error": "Invalid parser requested"}]}), 0),
    ],
)
def test_json_that_does_not_work_is_tried_once(fake: Fake, answer: tuple[t.Any, ...]) -> None:
    text = "NodeName=c1 CoresPerSocket=1\n   CPUAlloc=0 CPUTot=1\n   State=IDLE Weight=1\n"
    fake.version("24.11.5", ("*--json*", *answer), ("'-a -d show nodes'", text))
    one = fake.cli()
    assert [node.name for node in one.nodes()] == ["c1"] == [node.name for node in one.nodes()]
    assert [("--json" in call) for call in fake.calls] == [True, False, False]


def test_a_controller_that_is_down_is_no_missing_json(fake: Fake) -> None:
    fake.version("24.11.5", ("*", "", 1, DOWN))
    with pytest.raises(SlurmError) as caught:
        fake.cli().nodes()
    assert caught.value.kind == "down" and len(fake.calls) == 1


def test_an_empty_list_of_jobs_is_not_believed_while_the_controller_is_down(fake: Fake) -> None:
    """23.11 to 26.05 print "jobs": [] and end with 0 then."""
    empty = json.dumps({"jobs": [], "errors": []})
    fake.version("24.11.5", ("*--json*", empty), ("'-a -d show jobs 7'", "", 1, DOWN))
    with pytest.raises(SlurmError) as caught:
        fake.cli().jobs(7)
    assert caught.value.kind == "down"


@pytest.mark.parametrize("version", ["22.05.8", "24.11.5"])
def test_a_job_that_slurmctld_does_not_know_is_no_job(fake: Fake, version: str) -> None:
    fake.version(version, ("*", "", 1, "slurm_load_jobs error: Invalid job id specified"))
    assert fake.cli().jobs(7) == []


def test_controllers_of_which_none_is_up_are_an_answer(fake: Fake) -> None:
    fake.version("22.05.8", ("ping", "Slurmctld(primary) at ctl1 is DOWN\n", 1))
    assert [(c.host, c.up) for c in fake.cli().controllers()] == [("ctl1", False)]
    fake.version("22.05.8", ("ping", "", 1, "Could not establish a configuration source"))
    with pytest.raises(SlurmError) as caught:
        fake.cli().controllers()
    assert caught.value.kind == "missing"


def test_one_ping_without_an_answer_is_not_believed(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "Slurmctld(primary) at ctl1 is {}\n"
    answers = [line.format("DOWN"), line.format("UP")]

    def run(_cli: Cli, _program: str, argv: list[str]) -> subprocess.CompletedProcess[str]:
        text = answers.pop(0)
        return subprocess.CompletedProcess(argv, 0 if "UP" in text else 1, text, "")

    monkeypatch.setattr(Cli, "_run", run)
    (found,) = fake.cli().controllers()
    assert found.up and answers == []
    answers = [line.format("DOWN")] * 2
    assert not fake.cli().controllers()[0].up and answers == []


def test_events_of_a_time(fake: Fake) -> None:
    fake.command("sacctmgr", ("*", ""))
    fake.cli().events(1795190400)
    assert fake.calls[0].startswith("sacctmgr -nP show event start=2026-11-20T16:00:00 format=")


# --- changing -------------------------------------------------------------------------------------
def test_what_changes_slurmctlds_objects(fake: Fake) -> None:
    fake.version("22.05.8", ("*", ""))
    one = fake.cli()
    one.update_nodes(["c1", "c2", "c3"], {"State": "DRAIN", "Reason": "rack 4"})
    one.reboot_nodes(["c1"], True, "RESUME", "kernel")
    one.reboot_nodes(["c1", "c2"], False, "", "")
    one.create_partition("p", {"Nodes": "c1"})
    one.update_partition("p", {"MaxTime": "60"})
    one.delete_partition("p")
    one.create_reservation("r", {"StartTime": "now"})
    one.update_reservation("r", {"Duration": "5"})
    one.delete_reservation("r")
    assert fake.calls == [
        "scontrol update NodeName=c[1-3] State=DRAIN Reason=rack 4",
        "scontrol reboot ASAP nextstate=RESUME reason=kernel c1",
        "scontrol reboot c[1-2]",
        "scontrol create PartitionName=p Nodes=c1",
        "scontrol update PartitionName=p MaxTime=60",
        "scontrol delete PartitionName=p",
        "scontrol create ReservationName=r StartTime=now",
        "scontrol update ReservationName=r Duration=5",
        "scontrol delete ReservationName=r",
    ]


def test_a_refusal_says_what_who_why_and_what_to_do(fake: Fake) -> None:
    fake.version("22.05.8", ("*", "", 1, "slurm_update error: Invalid user id\n"))
    one = fake.cli()
    with pytest.raises(SlurmError) as caught:
        one.update_nodes(["c1"], {"State": "DRAIN"})
    assert caught.value.kind == "denied"
    assert str(caught.value).startswith(
        f"scontrol update NodeName=c1 State=DRAIN (as {one.user}): Invalid user id -> only root"
    )


def test_a_job_gets_the_users_environment_and_not_that_of_the_other_commands(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.delenv("SLURM_TIME_FORMAT", raising=False)
    fake.command("sbatch", ("--parsable*", "42;cluster\n"))
    work = tmp_path / "work"
    work.mkdir()
    options = {"job_name": "x", "chdir": str(work), "environment": {"A": "1"}}
    assert fake.cli().submit_job("#!/bin/sh\ntrue\n", options) == 42
    assert (fake.prefix / "stdin").read_text() == "#!/bin/sh\ntrue\n"
    assert fake.environment["TZ"] == "Asia/Tokyo" and fake.environment["A"] == "1"
    assert "SLURM_TIME_FORMAT" not in fake.environment
    assert os.path.samefile((fake.prefix / "pwd").read_text().strip(), work)


def test_the_script_alone_names_the_directory_where_the_options_do_not(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    fake.command("sbatch", ("'--parsable --job-name=x /dev/stdin'", "42\n"))
    script = "#!/bin/sh\n#SBATCH --option-of-2030\n#SBATCH --chdir=/data/run\n"
    assert fake.cli().submit_job(script, {"job_name": "x"}) == 42
    assert (fake.prefix / "stdin").read_text() == script
    assert os.path.samefile((fake.prefix / "pwd").read_text().strip(), tmp_path)


def test_sbatch_tells_the_number_of_the_job_at_once_whatever_the_script_wants(fake: Fake) -> None:
    fake.command("sbatch", ("'--parsable --job-name=x /dev/stdin'", "42\n"))
    script = "#!/bin/sh\n#SBATCH -Q --wait -N2\ntrue\n"
    options = {"job_name": "x", "quiet": True}
    assert fake.cli().submit_job(script, options) == 42
    assert (fake.prefix / "stdin").read_text() == "#!/bin/sh\n#SBATCH --nodes=2\ntrue\n"


def test_variables_of_the_user_do_not_replace_what_the_script_asks_for(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sbatch prefers them to #SBATCH lines: a training would end early, and not return to the queue at its limit."""
    for name in ("TIMELIMIT", "NO_REQUEUE", "MEM_PER_CPU", "PARTITION", "WAIT", "ACCOUNT", "QOS"):
        monkeypatch.setenv(f"SBATCH_{name}", "1")
    fake.command("sbatch", ("--parsable*", "42\n"))
    script = "#!/bin/sh\n#SBATCH --time=7-0\n#SBATCH --requeue\n#SBATCH --mem=0 -p gpu\ntrue\n"
    assert fake.cli().submit_job(script, {"environment": {"SBATCH_QOS": "high"}}) == 42
    kept = {name: one for name, one in fake.environment.items() if name.startswith("SBATCH_")}
    assert kept == {"SBATCH_ACCOUNT": "1", "SBATCH_QOS": "high"}


def test_a_job_that_is_only_tested_has_no_id(fake: Fake) -> None:
    fake.command("sbatch", ("*", "", 0, "sbatch: Job 7 to start at 2026-11-20T16:00:00"))
    assert fake.cli().submit_job("#!/bin/sh\n", {"test_only": True}) == 0


def test_an_answer_without_an_id_is_an_error(fake: Fake) -> None:
    fake.command("sbatch", ("*", "hello"))
    with pytest.raises(SlurmError, match="sbatch: hello -> it printed no job id"):
        fake.cli().submit_job("#!/bin/sh\n", {})


def test_the_script_of_a_job(fake: Fake) -> None:
    fake.command("scontrol", ("'write batch_script 7 -'", "#!/bin/sh\ntrue\n"))
    assert fake.cli().batch_script(7) == "#!/bin/sh\ntrue\n"


def test_cancelling_a_job_that_has_ended_is_no_error(fake: Fake) -> None:
    ended = "scancel: error: Kill job error on job id 7: Job/step already completing or completed"
    fake.command("scancel", ("'--signal=TERM 7'", ""), ("7", "", 1, ended))
    fake.cli().cancel_job(7)
    fake.cli().cancel_job(7, "TERM")
    fake.command("scancel", ("7", "", 1, "scancel: error: Access/permission denied"))
    with pytest.raises(SlurmError) as caught:
        fake.cli().cancel_job(7)
    assert caught.value.kind == "denied"


def test_a_database_that_is_down_is_seen_although_sacctmgr_ends_with_0(fake: Fake) -> None:
    complaint = "sacctmgr: error: x: failed to open persistent connection to host:db:6819: y"
    fake.command("sacctmgr", ("*", "", 0, complaint))
    with pytest.raises(SlurmError) as caught:
        fake.cli().command("sacctmgr", "-nP", "show", "user")
    assert caught.value.kind == "database"
    fake.command("sacctmgr", ("*", "alice\n", 0, "sacctmgr: warning: something else"))
    assert fake.cli().command("sacctmgr", "-nP", "show", "user") == "alice\n"


def test_the_echo_of_sacctmgrs_input_is_no_reason(fake: Fake) -> None:
    out = "sacctmgr: add account a\n Unknown option: b\nsacctmgr: exit\n"
    fake.command("sacctmgr", ("*", out, 1))
    with pytest.raises(SlurmError, match=r"sacctmgr -i: Unknown option: b -> ") as caught:
        fake.cli().command("sacctmgr", "-i", given="add account a\n")
    assert caught.value.kind == "invalid"
