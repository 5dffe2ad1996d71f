# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The time servers of role node_base: chrony reads the file that the role writes, on each family of systems."""

from __future__ import annotations

import hashlib
import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from tests.unit.cluster import ROOT

LOADER = DataLoader()
ROLE = ROOT / "roles" / "node_base"
SERVERS = ["ntp1.example.com", "ntp2.example.com"]


def render(
    name: str, like: str, servers: list[str], virtualization: str = "none"
) -> list[dict[str, t.Any]]:
    """Return a list of the role's variables, for a host of this family with these time servers."""
    variables: dict[str, t.Any] = {}
    for path in (ROLE / "defaults/main.yml", *sorted((ROLE / "vars/main").glob("*.yml"))):
        variables.update(LOADER.load_from_file(str(path), trusted_as_template=True))
    # These need lookups of the collection, and the tests are not about them.
    file = {**variables["__node_base_chrony_file"], "content": "server a iburst"}
    node = {
        "os": {"like": like, "id": "debian" if like == "debian" else "rocky", "version": "9"},
        "arch": "x86_64",
        "virtualization": virtualization,
    }
    variables.update(
        __node_base_sysctl="",
        __node_base_plain_files=[],
        __node_base_hidepid_files=[],
        __node_base_hidepid_link={"path": "/link"},
        __node_base_chrony_file=file,
        node_base_time_servers=servers,
        slurm_facts={"node": node},
    )
    return list(Templar(loader=LOADER, variables=variables).template(variables[name]))


def chrony(like: str, servers: list[str], virtualization: str = "none") -> dict[str, t.Any]:
    """Return the unit of chrony."""
    units = render("__node_base_units", like, servers, virtualization)
    return next((one for one in units if one["name"].startswith("chrony")), {})


def test_chrony_of_rhel_reads_the_directory_of_the_file() -> None:
    """Its stock configuration names /run/chrony-dhcp alone."""
    files = {one["path"]: one for one in render("__node_base_files", "rhel", SERVERS)}
    assert "/etc/chrony.d/cluster.sources" in files
    conf = files["/etc/chrony.conf"]
    assert conf["block"]["marker"] and conf["content"] == "sourcedir /etc/chrony.d"
    # The owner, the mode and the other lines stay those of the package.
    assert set(conf) == {"path", "block", "content"}


def test_chrony_of_debian_reads_it_already() -> None:
    files = {one["path"] for one in render("__node_base_files", "debian", SERVERS)}
    assert "/etc/chrony/sources.d/cluster.sources" in files
    assert not files & {"/etc/chrony.conf", "/etc/chrony/chrony.conf"}


@pytest.mark.parametrize(
    ("servers", "virtualization"), [([], "none"), (SERVERS, "container"), ([], "container")]
)
def test_without_time_servers_chrony_stays_as_it_is(
    servers: list[str], virtualization: str
) -> None:
    files = {one["path"] for one in render("__node_base_files", "rhel", servers, virtualization)}
    assert not any("chrony" in path for path in files)


def test_chrony_starts_again_with_the_new_line_and_on_debian_not_for_this_release() -> None:
    def old_stamp(servers: str) -> str:
        return hashlib.sha256(servers.encode()).hexdigest()

    servers = '["ntp1.example.com", "ntp2.example.com"]'
    unit = chrony("rhel", SERVERS)
    assert unit["stamp"] != old_stamp(servers) and unit["watch"] == ["/etc/chrony.conf"]
    assert chrony("debian", SERVERS)["stamp"] == old_stamp(servers)
    assert chrony("debian", SERVERS)["watch"] == []
    assert chrony("rhel", [])["stamp"] == old_stamp("[]") and chrony("rhel", [])["watch"] == []
    assert chrony("rhel", SERVERS, "container") == {}


def test_chrony_is_asked_whether_a_server_sets_the_clock() -> None:
    for like in ("rhel", "debian"):
        asked = chrony(like, SERVERS)["asked"]
        assert asked["command"] == "chronyc -n waitsync 1" and asked["timeout"] == 15
        assert "ntp1.example.com, ntp2.example.com" in asked["remedy"]
        # The system's own servers are not this role's.
        assert chrony(like, [])["asked"] is None
