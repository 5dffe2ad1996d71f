"""The end of a run proves that jobs run: a configuration with which they do not comes back, and the run fails.

The plugins here are files that are there, so that preflight has no objection, and that do not load.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .conftest import Converged
from .site import Run, tail

DIRECTORY = "$(dirname $(find /usr/lib -name proctrack_linuxproc.so))"
BAD = "proctrack_text.so"


@contextmanager
def plugin_that_does_not_load(site: Converged) -> Iterator[None]:
    """A file with the name of a plugin on every host, and text in it."""
    for host in site.cluster.hosts:
        site.run(host, f"echo text > {DIRECTORY}/{BAD}")
    try:
        yield
    finally:
        for host in site.cluster.hosts:
            site.run(host, f"rm -f {DIRECTORY}/{BAD}")


@contextmanager
def in_another_zone(site: Converged, host: str) -> Iterator[None]:
    """A host on which programs print times of Tokyo."""
    zone = site.run(host, "readlink /etc/localtime")
    site.run(host, "ln -sfn /usr/share/zoneinfo/Asia/Tokyo /etc/localtime; test -e /etc/localtime")
    try:
        yield
    finally:
        site.run(host, f"ln -sfn {zone} /etc/localtime")


def with_bad_plugin(site: Converged, *tags: str) -> Run:
    given = {**site.extra_vars.get("slurm_conf", {}), "ProctrackType": "proctrack/text"}
    run = site.play("site.yml", "--tags", ",".join(tags), rc=None, slurm_conf=given)
    assert run.rc == 2, tail(run.output, 40)
    return run


def assert_said(run: Run, *words: str) -> None:
    """The last lines have the words."""
    end = run.output[run.output.rindex("PLAY RECAP") :]
    missing = [word for word in words if word not in end]
    assert not missing, f"{missing} not in:\n{end}"


def assert_jobs_run(site: Converged, options: str) -> None:
    """Jobs run, and each slurmd starts again."""
    site.run("c1", "systemctl restart slurmd && systemctl is-active slurmd")
    site.wait_node("c1", "idle")
    site.wait_job(site.sbatch("srun true", options), timeout=90)


@pytest.mark.systems("debian13", only="a reconfigure gives the plugin to a running slurmd")
def test_a_plugin_that_does_not_load_comes_back_and_what_waits_is_named(
    quiet_site: Converged,
) -> None:
    site = quiet_site
    before = json.loads(site.run("ctl1", "cat /var/lib/trainwright/applied/proved.json"))
    assert set(before["nodes"]) >= {"c1", "c2"}
    held = site.sbatch("true", "-H")
    site.run("ctl1", "scontrol update nodename=c2 state=drain reason=$'fan \\033]0;x'")
    try:
        # slurmctld prints when each slurmd started, by which one that refused the configuration is found.
        with plugin_that_does_not_load(site), in_another_zone(site, "ctl1"):
            run = with_bad_plugin(site, "slurmctld")
        assert_said(
            run,
            "the new configuration does not run a step on c1",
            ": its slurmd did not take the configuration",
            "the one of the last proof is back and runs a step again on c1",
            "proctrack_text.so",
            "-> correct slurm_conf.ProctrackType",
            "Drained nodes, fan \\x1b]0;x: c2",
            "1 job is held by alice",
        )
        for host in (name for name in site.cluster.hosts if name.startswith("ctl")):
            assert "proctrack/text" not in site.run(host, "cat /etc/slurm/slurm.conf")
        shown = site.run("ctl1", "scontrol show partition trainwright_proof", check=False)
        assert "not found" in shown
    finally:
        site.run("ctl1", f"scancel {held}; scontrol update nodename=c2 state=resume")
    assert_jobs_run(site, "-N2 -w c1,c2")

    # A busy node is left out with a line.
    job = site.sbatch("sleep 300", "-w c2")
    site.wait_job(job, ["RUNNING"])
    try:
        run = site.play("site.yml", "--tags", "slurmctld")
        assert_said(run, "No step was run to prove c2: busy; the next run does it")
    finally:
        site.run("ctl1", f"scancel {job}")


@pytest.mark.systems("debian12", only="an older slurmd that a restart gives the plugin")
def test_the_configuration_comes_back_when_no_slurmd_starts(quiet_site: Converged) -> None:
    site = quiet_site
    with plugin_that_does_not_load(site):
        # Without its restart slurmd would run on, and not start again at the next boot.
        run = with_bad_plugin(site, "slurmctld")
        assert_said(
            run, "nothing was written; this needs a restart of every slurmd", "ProctrackType"
        )
        assert "proctrack/text" not in site.run("ctl1", "cat /etc/slurm/slurm.conf")
        run = with_bad_plugin(site, "slurmctld", "slurmd")
    assert_said(
        run,
        "its slurmd does not run; slurmd said: ",
        "proctrack_text.so",
        "the one of the last proof is back and runs a step again on c1, c2",
        "-> correct slurm_conf.ProctrackType",
    )
    assert_jobs_run(site, "-N2 -w c1,c2")
    site.play("site.yml", "--tags", "slurmctld,slurmd")


def listens(site: Converged, host: str, port: int) -> str:
    """The address of a daemon, which has what it read when it started."""
    line = site.run(host, f"ss -Hltn 'sport = :{port}'").split()
    return line[3].rpartition(":")[0]


@pytest.mark.systems("debian13", only="a setting that a daemon reads when it starts")
def test_after_a_failed_run_each_daemon_gets_the_configuration(quiet_site: Converged) -> None:
    """One that started with the old one did not count as started with the new one."""
    site, nodes = quiet_site, ("c1", "c2")
    given = {**site.extra_vars.get("slurm_conf", {}), "CommunicationParameters": "EnableIPv6"}
    old = {host: listens(site, host, 6818) for host in nodes}
    before = site.invocations()

    def kept() -> set[str]:
        after = site.invocations()
        return {unit for unit in before if before[unit] == after[unit]}

    # slurmctld does not have it, so slurmd would not get it.
    run = site.play("site.yml", "--tags", "slurmd", rc=2, slurm_conf=given)
    assert_said(run, "--tags: slurm.conf or cgroup.conf is to change", "add slurmctld to --tags")
    # A controller that fails early.
    script = "/etc/profile.d/cluster-ssh-key.sh"
    site.run("ctl1", f"mv {script} /root/kept.sh && mkdir -p {script}/full")
    try:
        run = site.play("site.yml", rc=2, slurm_conf=given)
        assert_said(run, "ctl1 failed above, so no daemon of Slurm was configured")
    finally:
        site.run("ctl1", f"rm -r {script} && mv /root/kept.sh {script}")
    assert {f"{host}:slurmd" for host in nodes} | {"ctl1:slurmctld"} <= kept()
    # A node whose slurmd does not start, so that the old configuration comes back.
    drop_in = "/etc/systemd/system/slurmd.service.d/zz-test.conf"
    site.run("c1", f"printf '[Service]\\nExecStartPre=/bin/false\\n' > {drop_in}")
    site.run("c1", "systemctl daemon-reload")
    try:
        run = site.play("site.yml", rc=2, slurm_conf=given)
        assert_said(run, "so the last one that was proved is in effect")
        assert listens(site, "c2", 6818) == old["c2"]
        assert "login1:sackd" in kept()
        site.run("c2", "test ! -e /var/lib/trainwright/manifest/.wanted")
    finally:
        site.run("c1", f"rm {drop_in}; systemctl daemon-reload")
    site.play("site.yml", slurm_conf=given)
    for host in nodes:
        assert listens(site, host, 6818) != old[host]
    site.wait_job(site.sbatch("srun true", "-N2 -w c1,c2"), timeout=90)
    run = site.play("drift.yml")
    assert "not known" not in run.output or "0 not known" in run.output, tail(run.output, 20)
    site.play("site.yml")
    assert {host: listens(site, host, 6818) for host in nodes} == old
    site.wait_job(site.sbatch("srun true", "-N2 -w c1,c2"), timeout=90)


@pytest.mark.soak("the unit tests put the files of a unit back with systemd's answers")
@pytest.mark.systems("debian13", only="systemd's part, which is the same")
def test_nodes_run_on_with_a_unit_that_does_not_start(quiet_site: Converged) -> None:
    site = quiet_site
    wrong = json.dumps({"slurmd_unit": {"Unit": {"ConditionPathExists": "/nonexistent"}}})
    run = site.play("site.yml", "--tags", "slurmd", "-e", wrong, rc=2)
    assert "runs with its files as they were before" in run.output, tail(run.output, 30)
    for host in ("c1", "c2"):
        assert site.run(host, "systemctl is-active slurmd").strip() == "active"
    site.wait_job(site.sbatch("srun true", "-N2 -w c1,c2"), timeout=90)
    site.play("site.yml", "--tags", "slurmd")
    site.wait_job(site.sbatch("srun true", "-N2 -w c1,c2"), timeout=90)


@pytest.mark.systems("debian13", only="a Slurm whose package has the plugin for Lua")
def test_a_script_in_lua_with_an_error_is_not_written(quiet_site: Converged) -> None:
    """slurmctld would run on without it, and not start again."""
    site, path = quiet_site, "/etc/slurm/job_submit.lua"
    given = {**site.extra_vars.get("slurm_conf", {}), "JobSubmitPlugins": "lua"}
    script = {"path": path, "mode": "0644", "content": "function slurm_job_submit(\n  return\n"}
    run = site.play(
        "site.yml", "--tags", "slurmctld", rc=2, slurm_conf=given, slurmctld_files=[script]
    )
    assert_said(run, "nothing was written", f"{path}, line 2: ", "(slurmctld_files)")
    site.run("ctl1", f"test ! -e {path} && ! grep -i JobSubmit /etc/slurm/slurm.conf")
    assert_jobs_run(site, "-N2 -w c1,c2")


@pytest.mark.soak("the unit tests have it with the answers of Slurm; this is with its daemons")
@pytest.mark.systems("debian13", only="Slurm itself, which is the same")
def test_jobs_of_a_user_whose_uid_has_changed_run_again(quiet_site: Converged) -> None:
    """slurmctld knows users by the uid of its start, and refused all their jobs until somebody reconfigured it."""
    site, user = quiet_site, "moved-uid"
    hosts = list(site.cluster.hosts)
    account = site.run("ctl1", "sacctmgr -nP show user alice format=defaultaccount").strip()
    try:
        for host in hosts:
            site.run(host, f"useradd -m -d /var/tmp/{user} -u 4321 {user}")
        site.run("ctl1", f"sacctmgr -i add user {user} account={account}")
        site.wait_job(site.sbatch("srun true", "-N2 -w c1,c2 -o /dev/null", user), timeout=90)
        for host in hosts:
            site.run(host, f"usermod -u 4322 {user}")
        refused = site.as_user(user, "sbatch --wrap true 2>&1", check=False)
        assert "Invalid account" in refused, refused
        run = site.play("site.yml", "--tags", "slurm_accounts")
        assert [host for host, _task in run.changed] == ["ctl1"], run.changed
        site.wait_job(site.sbatch("srun true", "-N2 -w c1,c2 -o /dev/null", user), timeout=90)
    finally:
        site.end_all_jobs()
        site.run("ctl1", f"sacctmgr -i delete user {user}", check=False)
        for host in hosts:
            site.run(host, f"userdel -r {user}", check=False)


@contextmanager
def damaged(site: Converged, host: str, plugin: str) -> Iterator[None]:
    """A file of a plugin without one in it. Not written over, since a process that runs has it in its memory."""
    path = f"{DIRECTORY}/{plugin}"
    site.run(host, f"mv {path} /root/kept.so && echo text >{path}")
    try:
        yield
    finally:
        site.run(host, f"mv /root/kept.so {path}")


def loads(site: Converged) -> dict[str, str]:
    """What each node said of its files when it ran its last step."""
    state = json.loads(site.run("ctl1", "cat /var/lib/trainwright/applied/proved.json"))
    return {name: stamp["loads"] for name, stamp in state["nodes"].items()}


@pytest.mark.systems("debian13")
def test_a_plugin_that_is_damaged_after_the_last_step_is_found(quiet_site: Converged) -> None:
    """As by a package that restarts no slurmd: the configuration, the version and slurmd's start are the same."""
    site = quiet_site
    before, invocations = loads(site), site.invocations()
    with damaged(site, "c1", "mpi_pmix.so"):
        run = site.play("site.yml", "--tags", "slurmd", rc=2)
        assert_said(run, "no step runs on c1", "no other configuration was proved", "-> correct")
        assert loads(site)["c1"] == before["c1"]
    site.wait_node("c1", "idle")
    site.run("c1", f"touch {DIRECTORY}/mpi_pmix.so")
    site.play("site.yml", "--tags", "slurmd")
    after = loads(site)
    assert after["c1"] != before["c1"] and after["c2"] == before["c2"]
    assert site.invocations() == invocations


@pytest.mark.soak("the proof of the compute nodes on one more kind of host")
@pytest.mark.systems("debian13", only="auth/slurm is the plugin that is damaged")
def test_a_plugin_that_only_a_login_host_cannot_load(quiet_site: Converged) -> None:
    site = quiet_site
    filters = {"CliFilterPlugins": "cli_filter/user_defaults"}
    given = {**site.extra_vars.get("slurm_conf", {}), **filters}
    with damaged(site, "login1", "cli_filter_user_defaults.so"):
        run = site.play("site.yml", "--tags", "slurmctld", rc=None, slurm_conf=given)
        assert run.rc == 2, tail(run.output, 40)
        assert_said(
            run,
            "no command of Slurm starts on login1 with the new configuration",
            "the one of the last proof is back, and they work again. login1: ",
            "cli_filter_user_defaults.so",
            "-> correct slurm_conf.CliFilterPlugins, or install or repair on login1",
        )
        site.wait_job(site.sbatch("true", "-w c1"))
    # One that went missing later, with the configuration of the last proof.
    with damaged(site, "login1", "auth_slurm.so"):
        run = site.play("site.yml", "--tags", "slurm_login,slurmd", rc=None)
        assert run.rc == 2, tail(run.output, 40)
        assert_said(run, "no command of Slurm starts on login1: login1: ", "auth_slurm.so")
    site.wait_job(site.sbatch("true", "-w c1"))


@pytest.mark.soak("the unit tests have it with the answers of Slurm; this is with its daemons")
@pytest.mark.systems("debian13", only="a slurmd that is a new process after a reconfigure")
def test_a_node_that_missed_the_configuration_is_told_again_behind_a_killed_proof(
    quiet_site: Converged,
) -> None:
    site = quiet_site
    given = {**site.extra_vars.get("slurm_conf", {}), "KillWait": 37}
    route = f"unreachable {site.run('ctl1', 'hostname -I').split()[0]}"
    site.run("c2", f"ip route add {route}")
    try:
        site.play(
            "site.yml",
            "--tags",
            "slurmctld",
            "--limit",
            "slurm_controller,c1,login1",
            slurm_conf=given,
        )
    finally:
        site.run("c2", f"ip route del {route}")
    # The job of a proof that was killed: with it the partition can be neither removed nor made.
    site.run(
        "ctl1", "scontrol create PartitionName=trainwright_proof Nodes=c1 RootOnly=YES State=UP"
    )
    left = "sbatch -A root -p trainwright_proof --mem=64 -D / -o /dev/null --wrap 'sleep 900'"
    site.run("ctl1", f"runuser -u slurm -- {left}")
    run = site.play("site.yml", "--tags", "slurmctld", slurm_conf=given)
    assert "No step was run to prove" not in run.output
    assert "KillWait=37" in site.run("c2", "cat /run/slurm/conf/slurm.conf")
    proved = json.loads(site.run("ctl1", "cat /var/lib/trainwright/applied/proved.json"))
    stamps = {proved["nodes"][name]["conf"] for name in ("c1", "c2")}
    assert stamps == {proved["digest"]}
    assert "sleep" not in site.run("ctl1", "squeue -ah -p trainwright_proof 2>&1", check=False)
    site.play("site.yml", "--tags", "slurmctld")
