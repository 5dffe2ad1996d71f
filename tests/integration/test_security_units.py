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
from .site import SOAK, poll

# What systemd-analyze prints is 10 at worst.
EXPOSED = 6.0
UNITS = {
    **{"slurmctld": "ctl1", "slurmdbd": "ctl1", "slurmrestd": "ctl1", "slurmrestd-front": "ctl1"},
    "sackd": "login1",
}
LOCAL = ["--unix-socket", "/run/slurmrestd/slurmrestd.socket"]
# The one that runs the sendmail of a local mail server.
GAINS_PRIVILEGES = {"slurmctld"}

# With its full number, one client has as many as it may have.
HALF_OPEN_REQUESTS = 1000 if SOAK else 200

# Opens connections that never become a request, as one user, and keeps them for a minute.
HALF_OPEN = """
import socket, sys, time
begin = sys.argv[2].encode().decode("unicode_escape").encode() + int(sys.argv[3]) * b"a"
kept = []
for _ in range(int(sys.argv[1])):
    try:
        one = socket.create_connection(("ctl1", 6820), 5)
        one.sendall(begin)
        kept.append(one)
    except OSError:
        pass
print(len(kept), flush=True)
time.sleep(60)
"""

# Sends as many requests at once, and prints how many had each status.
AT_ONCE = """
import collections, http.client, sys, threading
count, path, headers = int(sys.argv[1]), sys.argv[2], dict(one.split(": ") for one in sys.argv[3:])
found, start = collections.Counter(), threading.Barrier(count)
def ask():
    start.wait()
    one = http.client.HTTPConnection("ctl1", 6820, timeout=30)
    one.request("GET", path, headers=headers)
    found[one.getresponse().status] += 1
threads = [threading.Thread(target=ask) for _ in range(count)]
for one in threads: one.start()
for one in threads: one.join()
print(dict(found))
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


def nodes(site: Converged) -> str:
    """The path of a request that needs slurmctld."""
    return f"/slurm/{'v0.0.38' if site.os == 'debian12' else 'v0.0.42'}/nodes"


@contextmanager
def half_open(site: Converged, begin: str, more: int) -> Iterator[int]:
    """Connections of alice that have sent this, and so many bytes, of a request; yields how many stay open."""
    site.run("login1", f"cat >/tmp/half_open.py <<'EOF'\n{HALF_OPEN}EOF")
    words = shlex.join(["/tmp/half_open.py", str(HALF_OPEN_REQUESTS), begin, str(more)])
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
    assert status(site, url, *LOCAL, *token(site)) == "200"


BEGINNINGS = {
    "headers": ("GET /slurm/ HTTP/1.1\\r\\nHost: x\\r\\nX-A: ", 0),
    # It has the form of a request with a token, and a body too large to be read before slurmrestd gets it.
    "body": (
        "POST /slurm/v0.0.38/job/submit HTTP/1.1\\r\\nHost: x\\r\\nX-SLURM-USER-TOKEN: x\\r\\n"
        "Content-Length: 900000\\r\\n\\r\\n",
        70_000,
    ),
}


@pytest.mark.parametrize("part", BEGINNINGS)
def test_half_open_requests_do_not_stop_the_rest_service(site: Converged, part: str) -> None:
    headers, url, before = token(site), nodes(site), site.invocations()
    with half_open(site, *BEGINNINGS[part]) as count:
        assert count == HALF_OPEN_REQUESTS
        for place, more in ((f"http://ctl1:6820{url}", []), (f"http://localhost{url}", LOCAL)):
            # Within a second.
            assert status(site, place, *more, *headers, "-m", "1") == "200"
            assert status(site, place, *more, "-m", "1") == "401"
    after = site.invocations()
    for unit in ("ctl1:slurmrestd", "ctl1:slurmrestd-front"):
        assert before[unit] == after[unit], unit


@pytest.mark.systems("debian13")
def test_nobody_passes_by_the_front(site: Converged) -> None:
    assert site.run("ctl1", "stat -c '%a %U' /run/slurmrestd-daemon") == "700 slurmrestd"
    listening = site.run("ctl1", "ss -Hlntp 'sport = :6820'; ss -Hlxp | grep slurmrestd")
    assert "haproxy" in listening.splitlines()[0]
    own = [line for line in listening.splitlines() if '"slurmrestd"' in line]
    assert own and all("/run/slurmrestd-daemon/" in line for line in own), listening


@pytest.mark.systems("debian12")
def test_one_client_may_send_many_requests_at_once(site: Converged) -> None:
    headers = token(site)[1::2]
    words = shlex.join(["python3", "-c", AT_ONCE, "200", nodes(site), *headers])
    assert site.run("login1", words) == "{200: 200}"


@pytest.mark.systems("debian12")
def test_with_a_certificate_the_port_speaks_https_alone(site: Converged) -> None:
    path = "/etc/ssl/private/rest.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ctl1 -addext subjectAltName=DNS:ctl1"
    put = f"{make} -keyout {path} -out /tmp/rest.crt 2>/dev/null && cat /tmp/rest.crt >>{path}"
    site.run("ctl1", f"umask 077; {put}")
    only = ["--tags", "slurmrestd"]
    headers, url = token(site), nodes(site)
    try:
        none = "/etc/ssl/private/none.pem"
        refused = site.play("site.yml", *only, rc=2, slurmrestd_tls_certificate=none)
        assert none in refused.output
        assert status(site, f"http://ctl1:6820{url}", *headers) == "200"
        site.play("site.yml", *only, slurmrestd_tls_certificate=path)
        checked = ["--cacert", "/tmp/rest.crt", "--no-insecure"]
        assert status(site, f"https://ctl1:6820{url}", *checked, *headers) == "200"
        assert status(site, f"https://ctl1:6820{url}", *checked) == "401"
        assert status(site, f"http://ctl1:6820{url}", *headers) == "000"
        assert status(site, f"http://localhost{url}", *LOCAL, *headers) == "200"
        copy = site.run("ctl1", "stat -c '%a %U' /run/slurmrestd-front/certificate.pem")
        assert copy == "400 slurmrestd"
    finally:
        site.play("site.yml", *only)
        site.run("ctl1", f"rm {path} /tmp/rest.crt")
    assert status(site, f"http://ctl1:6820{url}", *headers) == "200"


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
