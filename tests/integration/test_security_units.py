# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The daemons run with few rights and work, and nobody stops slurmrestd or guesses a password by a stamp."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .conftest import Converged
from .site import ROOT, poll

# What systemd-analyze prints is 10 at worst.
EXPOSED = 6.0
UNITS = {"slurmctld": "ctl1", "slurmdbd": "ctl1", "slurmrestd": "ctl1", "sackd": "login1"}
# The one that runs the sendmail of a local mail server.
GAINS_PRIVILEGES = {"slurmctld"}

# Opens connections that never become a request, as one user, and keeps them for a minute.
HALF_OPEN = """
import socket, ssl, sys, time
port, begin = int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape").encode()
kept = []
for _ in range(200):
    try:
        one = socket.create_connection(("ctl1", port), 5)
        if "tls" in sys.argv:
            one = ssl._create_unverified_context().wrap_socket(one)
        one.sendall(begin)
        kept.append(one)
    except OSError:
        pass
print(len(kept), flush=True)
time.sleep(60)
"""


def exposure(site: Converged, host: str, unit: str) -> float:
    """How exposed systemd finds a unit, from 0 to 10."""
    output = site.run(host, f"systemd-analyze security --no-pager {unit} | tail -n 1")
    found = re.search(r"exposure level for \S+: ([0-9.]+)", output)
    assert found, output
    return float(found[1])


def status(site: Converged, url: str, *options: str, host: str = "ctl1") -> str:
    """The HTTP status of a request, 000 without an answer within 5 s."""
    site.run(host, "command -v curl >/dev/null || apt-get install -y -q curl >/dev/null 2>&1")
    argv = ["curl", "-sk", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", *options, url]
    return site.run(host, shlex.join(argv), check=False)


def token(site: Converged) -> list[str]:
    """The headers of a request as alice."""
    made = site.run("ctl1", "scontrol token username=alice lifespan=120").split("=", 1)[1]
    return ["-H", "X-SLURM-USER-NAME: alice", "-H", f"X-SLURM-USER-TOKEN: {made}"]


@contextmanager
def half_open(site: Converged, port: int, begin: str, *more: str) -> Iterator[int]:
    """200 connections of alice that have sent the beginning of a request; yields how many stay open."""
    site.run("login1", f"cat >/tmp/half_open.py <<'EOF'\n{HALF_OPEN}EOF")
    words = shlex.join(["/tmp/half_open.py", str(port), begin, *more])
    site.as_user("alice", f"nohup python3 {words} >half_open.out 2>&1 </dev/null &")
    try:
        count = poll(
            "the connections", lambda: site.run("login1", "cat ~alice/half_open.out", check=False)
        )
        yield int(count)
    finally:
        site.run("login1", "pkill -u alice -f half_open.py", check=False)
        site.run("login1", "rm -f /tmp/half_open.py ~alice/half_open.out")


@pytest.mark.systems("debian13")
def test_daemons_have_few_rights(site: Converged) -> None:
    for unit, host in UNITS.items():
        assert exposure(site, host, unit) <= EXPOSED, unit
        pid = site.pid(host, unit)
        flag = site.run(host, f"grep NoNewPrivs /proc/{pid}/status").split()[1]
        assert flag == ("0" if unit in GAINS_PRIVILEGES else "1"), unit
        # As root would, if it got into the daemon's place.
        for path in ("/etc/slurm/x", "/usr/bin/x", "/home/x", "/root/x"):
            said = site.run(host, f"nsenter -t {pid} -m touch {path}", check=False)
            assert re.search("Read-only file system|Permission denied|No such file", said), (
                unit,
                path,
            )
            assert site.run(host, f"test ! -e {path} && echo none") == "none"
        site.run(host, f"nsenter -t {pid} -m touch /tmp/of_{unit}")
        assert site.run(host, f"test ! -e /tmp/of_{unit} && echo none") == "none"
        site.run(host, f"nsenter -t {pid} -m rm /tmp/of_{unit}")


@pytest.mark.systems("debian13")
def test_daemons_work_after_a_restart_while_a_job_runs(quiet_site: Converged) -> None:
    site = quiet_site
    job = site.sbatch("sleep 6", "-J hardened")
    site.wait_job(job, ["RUNNING"])
    before = site.invocations()
    for unit, host in UNITS.items():
        site.run(host, f"systemctl restart {unit}")
    after = site.invocations()
    assert all(before[f"{host}:{unit}"] != after[f"{host}:{unit}"] for unit, host in UNITS.items())
    # The state was kept: slurmctld still knows the job, and the accounting stores its end.
    poll("slurmctld to answer", lambda: site.job(job).get("JobState"))
    site.wait_job(job)
    poll("the accounting", lambda: site.sacct(job, "JobName,State") == "hardened|COMPLETED")
    assert site.as_user("alice", "srun -n 1 echo by_srun") == "by_srun"
    url = "http://localhost/slurm/v0.0.42/job/" + job
    answer = status(site, url, "--unix-socket", "/run/slurmrestd/slurmrestd.socket", *token(site))
    assert answer == "200"


@pytest.mark.systems("debian13", only="before 23.02, slurmrestd accepts 124 connections")
def test_half_open_requests_do_not_stop_slurmrestd(site: Converged) -> None:
    headers = token(site)
    path = "/slurm/v0.0.42/nodes"
    with half_open(site, 6820, f"GET {path} HTTP/1.1\r\nHost: x\r\nX-A: ") as count:
        assert count == 200
        assert status(site, f"http://ctl1:6820{path}", *headers) == "200"
        assert status(site, f"http://ctl1:6820{path}") == "401"
        local = ["--unix-socket", "/run/slurmrestd/slurmrestd.socket"]
        assert status(site, f"http://localhost{path}", *local, *headers) == "200"


@pytest.fixture
def proxied(site: Converged) -> Iterator[Converged]:
    """The REST host with the proxy of docs/rest.md."""
    page = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```text\n(global\n.*?)```", page, re.S)
    (certificate,) = re.findall(r"^\(umask 077; openssl .*$", page, re.M)
    site.run("ctl1", "apt-get install -y -q haproxy >/dev/null 2>&1")
    try:
        site.run("ctl1", f"cat >/etc/haproxy/haproxy.cfg <<'EOF'\n{text}EOF")
        site.run("ctl1", f"{certificate} && systemctl restart haproxy")
        assert site.run("ctl1", "stat -c %a /etc/haproxy/rest.pem") == "600"
        yield site
    finally:
        site.run(
            "ctl1",
            "apt-get purge -y -q haproxy >/dev/null 2>&1; rm -rf /etc/haproxy /var/lib/haproxy",
        )


@pytest.mark.systems("debian12")
def test_half_open_requests_do_not_pass_the_documented_proxy(proxied: Converged) -> None:
    site = proxied
    headers = token(site)
    path = "/slurm/v0.0.38/nodes" if site.os == "debian12" else "/slurm/v0.0.42/nodes"
    with half_open(site, 6443, f"GET {path} HTTP/1.1\r\nHost: x\r\nX-A: ", "tls") as count:
        # The rest was refused: it is one client.
        assert 90 <= count <= 101
        assert status(site, f"https://ctl1:6443{path}", *headers) == "200"
        assert status(site, f"https://ctl1:6443{path}") == "401"
        assert status(site, f"http://ctl1:6820{path}", *headers) == "200"


@pytest.mark.systems("debian12")
def test_no_stamp_is_a_digest_that_others_can_compute(site: Converged) -> None:
    shown = site.run("ctl1", "cd /var/lib/trainwright/stamps && stat -c '%a %n' .key *.service")
    assert {line.split()[0] for line in shown.splitlines()} == {"600"}
    kept = site.run("ctl1", "cat /var/lib/trainwright/stamps/*.service").splitlines()
    assert kept and all(re.fullmatch("hmac:[0-9a-f]{64}", line) for line in kept)
    # The modules' arguments are in the journal, the stamps are not.
    calls = "journalctl -b --no-pager | grep 'ansible-trainwright.slurm.services'"
    logged = site.run("ctl1", calls)
    assert "'name': 'slurmdbd'" in logged
    assert not re.search(r"'stamp': '[^']*[0-9a-f]{64}", logged)
