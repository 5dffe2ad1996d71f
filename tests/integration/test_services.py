"""The state of the daemons: users, permissions, tokens, limits."""

from __future__ import annotations

import json
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .conftest import Converged
from .pages import blocks
from .site import poll


def test_daemons_run_enabled_and_as_their_users(site: Converged) -> None:
    expected = {
        "ctl1": {
            "slurmctld": "slurm",
            "slurmdbd": "slurm",
            "mariadb": "mysql",
            "munge": "munge",
            "slurmrestd": "slurmrestd",
        },
        "c1": {"slurmd": "root", "munge": "munge"},
    }
    for name, units in expected.items():
        host = site.testinfra(name)
        for unit, user in units.items():
            service = host.service(unit)
            assert service.is_running, f"{unit} does not run on {name}"
            assert service.is_enabled, f"{unit} is not enabled on {name}"
            assert host.process.get(pid=int(site.pid(name, unit))).user == user


#: The daemons of the cluster, each on one of its hosts.
DAEMONS = {
    "ctl1": ["slurmctld", "slurmdbd", "mariadb", "slurmrestd"],
    "ctl2": ["slurmctld"],
    "login1": ["sackd"],
    "c1": ["slurmd"],
    "c2": ["munge"],
}
# Kills the unit's process, and waits until systemd has another one active.
KILL = """before=$(systemctl show -P MainPID {0}); kill -9 $before
for i in $(seq 600); do
  sleep 0.1
  now=$(systemctl show -P MainPID {0})
  [ $now != 0 ] && [ $now != $before ] && systemctl is-active -q {0} && exit 0
done
systemctl status {0}; exit 1"""


@pytest.mark.systems("debian13", only="sackd and a second controller")
def test_a_daemon_that_is_killed_comes_back_twice_in_a_row(quiet_site: Converged) -> None:
    site = quiet_site
    victims = [(host, unit) for host, units in DAEMONS.items() for unit in units]

    def kill_twice(victim: tuple[str, str]) -> None:
        for _ in range(2):
            site.run(victim[0], KILL.format(victim[1]))

    with ThreadPoolExecutor(len(victims)) as pool:
        list(pool.map(kill_twice, victims))
    # One that dies whenever it is started is left alone in the end.
    for unit in ("slurmctld", "slurmdbd"):
        assert site.run("ctl1", f"systemctl show -P StartLimitBurst {unit}") == "5"
    poll("both controllers", lambda: site.run("ctl1", "scontrol ping").count(" is UP") == 2)
    site.wait_job(site.sbatch("srun hostname", "-N2 -w c1,c2"))


@pytest.mark.systems("debian12")
def test_a_database_that_refuses_slurmdbd_is_said_at_once(quiet_site: Converged) -> None:
    """And the run of its role mends it."""
    site = quiet_site
    site.run("ctl1", "mariadb -e \"ALTER USER slurm@localhost IDENTIFIED BY 'another'\"")
    site.run("ctl1", "systemctl stop slurmdbd")
    try:
        done = site.play("site.yml", "--tags", "slurmdbd", rc=None)
        assert done.rc != 0
        (told,) = [line for line in done.output.splitlines() if line.startswith("ctl1: FAILED")]
        assert "does not become ready: nothing listens on port 6819" in told
        assert "1045 Access denied for user 'slurm'@'localhost'" in told
        assert " -> fix what the journal names" in told
    finally:
        site.play("site.yml", "--tags", "mariadb,slurmdbd")
    site.wait_job(site.sbatch("srun hostname", "-N2 -w c1,c2"))


@pytest.mark.systems("debian12", only="munge")
def test_a_login_host_that_slurmctld_does_not_know_is_said(site: Converged) -> None:
    key, part = "/etc/munge/munge.key", ("--tags", "slurm_login", "--limit", "ctl1,login1")
    another = f"cp -p {key} /root; head -c 1024 /dev/urandom >{key}; systemctl restart munge"
    # The run below is not to restart the daemon for a change of an earlier test.
    site.play("site.yml", *part, site_full=True)
    site.run("login1", another)
    try:
        done = site.play("site.yml", *part, rc=None, site_full=True)
        assert done.rc == 2
        (told,) = [line for line in done.output.splitlines() if line.startswith("login1: FAILED")]
        assert "login1: no user can submit a job from here: sbatch says: " in told
        assert " -> compare `systemctl status munge " in told
    finally:
        site.run("login1", f"mv /root/munge.key {key}; systemctl restart munge")
    site.play("site.yml", *part, site_full=True)


@pytest.mark.soak("the unit tests have the restart for a newer key; this is with the key of Slurm")
@pytest.mark.systems(
    "debian13", only="auth/slurm: a key that the daemons read only when they start"
)
def test_a_daemon_that_started_with_another_key_gets_its_own_again(quiet_site: Converged) -> None:
    site = quiet_site
    key = "/etc/slurm/slurm.key"
    # It never gets ready with this one.
    site.run("c1", f"head -c 32 /dev/urandom >{key}; systemctl restart --no-block slurmd")
    before = site.invocations()
    checked = site.play("site.yml", "--check")
    run = site.play("site.yml")
    assert checked.changed == run.changed
    after = site.invocations()
    # And the role's own units, as for any of its files that is put back.
    restarted = {unit for unit in before if before[unit] != after[unit]}
    assert restarted == {"c1:slurmd", "c1:munge", "c1:ssh"}
    site.wait_job(site.sbatch("srun hostname", "-N2 -w c1,c2"))


def test_logs_are_rotated_and_daemons_write_new_ones(site: Converged) -> None:
    """Debian's packages of Slurm name some of them, too, which logrotate takes for an error of ours."""
    for host, daemon in (("ctl1", "slurmctld"), ("ctl1", "slurmdbd"), ("c1", "slurmd")):
        site.run(host, "logrotate --debug /etc/logrotate.conf 2>&1 | (! grep -A2 '^error')")
        log = f"/var/log/slurm/{daemon}.log"
        site.run(host, f"logrotate --force /etc/logrotate.conf && test -s {log}.1 && test -f {log}")
        site.run(host, f"systemctl reload {daemon}")
        poll(f"{log} of {host}", lambda host=host, log=log: site.run(host, f"cat {log}"), 30)


def test_secrets_are_readable_by_their_owner_only(site: Converged) -> None:
    files = {
        "ctl1": {
            "/etc/munge/munge.key": "munge 400",
            "/etc/slurm/slurmdbd.conf": "slurm 600",
            "/etc/slurm/jwt_hs256.key": "slurm 400",
            "/var/lib/trainwright/secrets": "root 700",
        },
        "c1": {"/etc/munge/munge.key": "munge 400"},
    }
    if site.extra_vars.get("slurm_auth_type") == "slurm":
        files["c1"]["/etc/slurm/slurm.key"] = "slurm 400"
    for host, modes in files.items():
        for path, mode in modes.items():
            assert site.run(host, f"stat -c '%U %a' {path}") == mode, f"{host}:{path}"


@pytest.mark.systems("debian12")
def test_a_damaged_secret_is_named_with_its_remedy(site: Converged) -> None:
    """The task that reads it shows nothing, or it would show the others."""
    key = "/var/lib/trainwright/secrets/munge.key"
    site.run("ctl1", f"cp -a {key} /root/munge.key && truncate -s 5 {key}")
    try:
        done = site.play("site.yml", "--tags", "slurm_auth", rc=2, site_full=True)
        assert f"ctl1: cluster_secrets: {key}: 5 bytes, at least 32 are needed; put" in done.output
        assert site.run("ctl1", f"stat -c %s {key}") == "5"
    finally:
        site.run("ctl1", f"mv /root/munge.key {key}")


def rest(
    site: Converged,
    path: str,
    headers: str = "",
    where: str = "--unix-socket /run/slurmrestd/slurmrestd.socket http://localhost",
) -> tuple[int, str]:
    site.run("ctl1", "command -v curl >/dev/null || apt-get install -y -q curl >/dev/null 2>&1")
    output = site.run("ctl1", f"curl -s -w '\\n%{{http_code}}' {headers} {where}{path}")
    body, _, code = output.rpartition("\n")
    return int(code), body


@pytest.mark.parametrize(
    "where",
    ["--unix-socket /run/slurmrestd/slurmrestd.socket http://localhost", "http://ctl1:6820"],
)
def test_rest_answers_with_a_token_and_never_without(site: Converged, where: str) -> None:
    version = "v0.0.38" if site.os == "debian12" else "v0.0.42"
    path = f"/slurm/{version}/nodes"
    assert rest(site, path, where=where)[0] == 401
    assert rest(site, path, "-H 'X-SLURM-USER-NAME: alice' -H 'X-SLURM-USER-TOKEN: bad'", where)[
        0
    ] in (401, 500, 511)
    token = site.run("ctl1", "scontrol token username=alice lifespan=60").split("=", 1)[1]
    code, body = rest(
        site, path, f"-H 'X-SLURM-USER-NAME: alice' -H 'X-SLURM-USER-TOKEN: {token}'", where
    )
    assert code == 200
    assert {node["name"] for node in json.loads(body)["nodes"]} >= {"c1", "c2"}


@pytest.mark.systems("debian13")
def test_the_commands_of_the_guide_work_on_the_controller(site: Converged) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "rest.md"
    script = "\n".join(text for text, _ in blocks(page.read_text(encoding="utf-8")))
    output = site.run("ctl1", f"bash -ec {shlex.quote(script)}")
    assert re.search(r'"name": ?"c1"', output)
    # The answer to the last command is that of job/submit.
    job = re.findall(r'"job_id": ?(\d+)', output)[-1]
    state = f"sacct --noheader --allocations --jobs {job} --format State"
    poll("the job has ended", lambda: "COMPLETED" in site.run("ctl1", state))


def failed_units(site: Converged, host: str) -> set[str]:
    failed = site.run(host, "systemctl --failed --plain --no-legend | awk '{print $1}'").split()
    return {*failed} - {"systemd-modules-load.service"}


def test_no_hook_or_unit_failed(site: Converged) -> None:
    for host in site.cluster.hosts:
        failed = failed_units(site, host)
        # The agent works every 30 s: a run of it while a test had the controller down is over with the next one.
        if failed == {"trainwright-health-agent.service"}:
            poll("the next run of the agent", lambda host=host: not failed_units(site, host), 60, 5)  # type: ignore[misc]
        elif failed:
            units = " ".join(f"-u {unit}" for unit in failed)
            said = site.run(host, f"systemctl --failed; journalctl --no-pager -n 30 -o cat {units}")
            raise AssertionError(f"{host}: {said}")


def test_effective_configuration(site: Converged) -> None:
    shown = dict(
        (part.strip() for part in line.split("=", 1))
        for line in site.run("ctl1", "scontrol show config").splitlines()
        if "=" in line
    )
    assert shown["SelectType"] == "select/cons_tres"
    assert shown["SelectTypeParameters"] == "CR_CORE_MEMORY"
    assert shown["AccountingStorageEnforce"].split(",")[:1] == ["associations"]
    assert shown["MpiDefault"].startswith("pmix")
    assert shown["PriorityType"] == "priority/multifactor"
    assert "Contain" in shown["PrologFlags"]
    assert shown["SrunPortRange"] == "60001-63000"
    assert shown["DisableRootJobs"].lower() == "yes"
    assert "max_token_lifespan=604800" in shown["AuthAltParameters"].split(",")
    limited = "rl_enable" in shown["SlurmctldParameters"].split(",")
    assert limited is (site.os == "debian13")  # from Slurm 23.02


@pytest.mark.systems("debian12")
def test_the_run_says_why_jobs_are_not_confined_by_cgroups(site: Converged) -> None:
    output = " ".join(site.play("preflight.yml").output.split())
    confined = "proctrack/cgroup" in site.run("ctl1", "scontrol show config | grep ProctrackType")
    assert ("jobs are not confined by cgroups" in output) is not confined


def test_innodb_is_tuned(site: Converged) -> None:
    expected = {
        "innodb_lock_wait_timeout": 900,
        "innodb_buffer_pool_size": 128 << 20,
        "max_allowed_packet": 16 << 20,
    }
    names = "', '".join(expected)
    query = f"show variables where variable_name in ('{names}')"
    shown = site.run("ctl1", f'mariadb -N -e "{query}"')
    values = dict(line.split("\t") for line in shown.splitlines())
    assert values == {name: str(value) for name, value in expected.items()}


@pytest.mark.systems("debian13")
def test_support_bundle_has_no_secrets(site: Converged, tmp_path) -> None:
    site.play("support_bundle.yml", "--check", support_bundle_directory=str(tmp_path))
    assert not list(tmp_path.iterdir())
    site.play("support_bundle.yml", support_bundle_directory=str(tmp_path))
    archives = list(tmp_path.glob("*.tar.gz"))
    assert len(archives) == 1
    import tarfile

    password = site.run("ctl1", "grep -oP 'StoragePass=\\K.*' /etc/slurm/slurmdbd.conf")
    with tarfile.open(archives[0]) as tar:
        names = tar.getnames()
        content = b"".join(tar.extractfile(m).read() for m in tar.getmembers() if m.isfile())  # type: ignore[union-attr]
    assert any("slurm.conf" in name for name in names)
    assert password.encode() not in content


@pytest.mark.systems("debian12")
def test_a_slurmdbd_that_refuses_its_new_file_goes_on_with_the_old_one(site: Converged) -> None:
    before = site.run("ctl1", "sha256sum /etc/slurm/slurmdbd.conf")
    wrong = {"slurmdbd_conf": {"PluginDir": "/nonexistent"}}
    failed = site.play("site.yml", "--tags", "slurmdbd", "-e", json.dumps(wrong), rc=2)
    assert "runs with its files as they were before" in failed.output, failed.output[-3000:]
    assert site.run("ctl1", "sha256sum /etc/slurm/slurmdbd.conf") == before
    assert "research" in site.run("ctl1", "sacctmgr -nP show account format=account")
    assert site.run("ctl1", "stat -c %a /var/lib/trainwright/proved") == "700"
    again = site.play("site.yml", "--tags", "slurmdbd")
    assert site.run("ctl1", "systemctl is-active slurmdbd") == "active"
    assert not {name for host, name in again.changed if "slurmdbd.conf" in name}
