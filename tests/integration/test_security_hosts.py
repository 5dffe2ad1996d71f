"""A compute node that somebody took over cannot make itself another host for the others."""

from __future__ import annotations

import datetime

import pytest

from .conftest import Converged

LIAR = "c2"
OTHERS = ("login1", "c1", "ctl1")
TAGS = ("--tags", "slurm_auth,node_base")


def certificate(site: Converged, host: str) -> tuple[set[str], datetime.datetime]:
    """The principals of a host's certificate, and when it expires."""
    text = site.run(host, "ssh-keygen -L -f /etc/ssh/ssh_host_ed25519_key-cert.pub")
    principals = text.split("Principals:")[1].split("Critical Options")[0].split()
    return set(principals), datetime.datetime.fromisoformat(text.split(" to ")[1].split()[0])


def days_left(site: Converged, host: str) -> int:
    now = datetime.datetime.fromisoformat(site.run(host, "date +%FT%T"))
    return (certificate(site, host)[1] - now).days


@pytest.mark.systems("debian13")
def test_a_node_that_calls_itself_a_mirror_is_that_for_nobody(site: Converged) -> None:
    """Two runs, which also change the validity of the certificates and change it back."""
    assert days_left(site, LIAR) > 300
    site.run(LIAR, "cp -p /etc/hosts /root/hosts.kept; hostname mirror.example")
    try:
        site.run(LIAR, "echo '127.0.1.1 mirror.example mirror ctl1.mirror.example' >>/etc/hosts")
        site.play("site.yml", *TAGS, slurm_auth_certificate_days=7)
        for host in OTHERS:
            assert site.run(host, "getent hosts mirror.example mirror", check=False) == ""
            assert "mirror" not in site.run(host, "cat /etc/hosts /etc/ssh/ssh_known_hosts")
        assert certificate(site, LIAR)[0] == {LIAR, site.cluster.addresses[LIAR]}
        assert {days_left(site, host) for host in ("login1", LIAR)} <= {6, 7}
        # The authority vouches for the cluster's names only, and each certificate for its host's.
        found = "for name in c1 c2 c99 mirror.example deb.debian.org; do"
        found += " ssh-keygen -F $name -f /etc/ssh/ssh_known_hosts | grep -q 'CA$' && echo $name; done; true"
        assert site.run("login1", found).split() == ["c1", "c2", "c99"]
        for name, believed in ((LIAR, True), ("mirror.example", False), ("login1", False)):
            command = f"ssh -o BatchMode=yes -o HostKeyAlias={name} {LIAR} true; echo rc=$?"
            answer = site.as_user("alice", command)
            assert ("Host key verification failed" in answer) is not believed, answer
            assert "rc=255" in answer, answer  # she does not have a job there
    finally:
        site.run(LIAR, f"hostname {LIAR}; cat /root/hosts.kept >/etc/hosts; rm /root/hosts.kept")
        site.play("site.yml", *TAGS)
    assert days_left(site, LIAR) > 300
