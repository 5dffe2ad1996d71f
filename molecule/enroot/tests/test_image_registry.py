# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A registry of the site's own: who may push and pull, and what others can read of it."""

from __future__ import annotations

import hashlib

import pytest
from testinfra.host import Host

URL = "https://localhost/v2"
CI = "-u 'ci:open sesame'"


def status(host: Host, rest: str) -> str:
    """Return the status of a request; the certificate is one that the host trusts."""
    return host.check_output(f"curl -sS -o /dev/null -w '%{{http_code}}' {rest}")


@pytest.mark.parametrize(
    ("login", "answer"), [("", "401"), ("-u ci:wrong", "401"), ("-u root:x", "401"), (CI, "200")]
)
def test_a_login_opens_it(host: Host, login: str, answer: str) -> None:
    assert status(host, f"{login} {URL}/") == answer


def test_what_is_pushed_is_served(host: Host) -> None:
    digest = f"sha256:{hashlib.sha256(b'a layer').hexdigest()}"
    place = host.check_output(
        f"curl -sS -D - -o /dev/null {CI} -X POST {URL}/team/train/blobs/uploads/"
        " | tr -d '\\r' | sed -n 's/^location: //Ip'"
    )
    pushed = f"{CI} -X PUT --data-binary 'a layer' -H 'Content-Type: application/octet-stream'"
    assert status(host, f"{pushed} '{place}&digest={digest}'") == "201"
    assert host.check_output(f"curl -sS {CI} {URL}/team/train/blobs/{digest}") == "a layer"
    assert status(host, f"{URL}/team/train/blobs/{digest}") == "401"
    assert host.file("/srv/images/docker/registry/v2/repositories/team").is_directory


def test_nobody_else_reads_the_key_or_the_images(host: Host) -> None:
    with host.sudo("nobody"):
        for name in ("trainwright.key", "trainwright.htpasswd"):
            assert host.run(f"cat /etc/docker/registry/{name}").rc == 1, name
        assert host.run("ls /srv/images").rc == 2


def test_it_runs_without_rights_and_serves_tls_alone(host: Host) -> None:
    pid = host.check_output("systemctl show -P MainPID docker-registry")
    assert host.check_output(f"stat -c %U /proc/{pid}") == "docker-registry"
    assert host.service("docker-registry").is_enabled
    assert status(host, "http://localhost:443/v2/") == "400"
    assert not host.socket("tcp://0.0.0.0:5000").is_listening
