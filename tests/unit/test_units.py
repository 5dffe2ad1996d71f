# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The units of Slurm's daemons restrict them, and what a site moves into a restricted place stays writable."""

from __future__ import annotations

import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.trainwright.slurm.plugins.filter.conf_pairs import conf_pairs
from ansible_collections.trainwright.slurm.plugins.filter.written_directories import (
    written_directories,
)
from ansible_collections.trainwright.slurm.plugins.plugin_utils.customise import files_stamp
from ansible_collections.trainwright.slurm.plugins.plugin_utils.drop_in import unit_drop_in

ROLES = Path(__file__).resolve().parents[2] / "roles"
# Where each unit's lines are, by daemon.
UNITS = {
    "slurmctld": ("slurmctld/vars/main/unit.yml", "__slurmctld_unit"),
    "slurmdbd": ("slurmdbd/vars/main/unit.yml", "__slurmdbd_unit"),
    "slurmrestd": ("slurmrestd/vars/main/unit.yml", "__slurmrestd_unit"),
    "slurmrestd-front": ("slurmrestd/vars/main/front.yml", "__slurmrestd_front_unit"),
    "sackd": ("slurm_login/vars/main/hardening.yml", "__slurm_login_hardening"),
}
EVERYWHERE = {
    "PrivateTmp": True,
    "PrivateDevices": True,
    "ProtectClock": True,
    "ProtectControlGroups": True,
    "ProtectHostname": True,
    "ProtectKernelLogs": True,
    "ProtectKernelModules": True,
    "ProtectKernelTunables": True,
    "LockPersonality": True,
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "RestrictNamespaces": True,
    "RestrictRealtime": True,
    "RestrictSUIDSGID": True,
    "SystemCallArchitectures": "native",
}


def drop_in(daemon: str, **variables: t.Any) -> list[str]:
    """The lines that the role writes for a daemon, with these variables."""
    path, name = UNITS[daemon]
    loader = DataLoader()
    lines = {}
    for source in [ROLES / path, *(ROLES / path).parent.glob("slurm*_conf.yml")]:
        lines |= loader.load_from_file(str(source), trusted_as_template=True)
    model = {
        "sbin": "/usr/sbin",
        "version": [24, 11],
        "slurm_conf": [["StateSaveLocation", "/var/spool/slurmctld"]],
        "slurm_conf_given": {},
        "slurmdbd_conf": [],
        **variables.pop("model", {}),
    }
    values = {
        "slurm_model": model,
        "slurmdbd_conf": {},
        "slurmrestd_threads": 10,
        "slurmrestd_max_connections": 300,
        "slurmrestd_socket": "/run/slurmrestd/slurmrestd.socket",
        "slurmrestd_tls_certificate": "",
        "__slurmrestd_environment_file": "/etc/default/slurmrestd",
        **variables,
    }
    templar = Templar(loader=loader, variables={**lines, **values})
    # A collection's filters are found by Ansible's import hook, which would replace that of the tests.
    for found in (conf_pairs, written_directories):
        templar.environment.filters[f"trainwright.slurm.{found.__name__}"] = found
    return unit_drop_in(templar.template(lines[name])).splitlines()


def given(**slurm_conf: str | None) -> dict[str, t.Any]:
    """The variables of a site with these lines of slurm.conf."""
    return {"model": {"slurm_conf_given": slurm_conf}}


def state(path: str) -> dict[str, t.Any]:
    return {"model": {"slurm_conf": [["StateSaveLocation", path]]}}


@pytest.mark.parametrize("daemon", UNITS)
def test_each_unit_is_restricted(daemon: str) -> None:
    wanted = unit_drop_in({"Service": EVERYWHERE}).splitlines()[1:]
    lines = drop_in(daemon)
    assert set(wanted) <= set(lines)
    assert any(line.startswith("CapabilityBoundingSet=") for line in lines)
    assert any(line in ("ProtectSystem=full", "ProtectSystem=strict") for line in lines)
    assert any(line in ("ProtectHome=read-only", "ProtectHome=yes") for line in lines)
    # The sendmail of a local mail server, which slurmctld runs, is setuid or setgid.
    assert ("NoNewPrivileges=yes" in lines) is (daemon != "slurmctld")


@pytest.mark.parametrize(
    ("daemon", "variables", "writable"),
    [
        ("slurmctld", {}, set()),
        ("slurmctld", state("/shared/slurmctld"), set()),
        ("slurmctld", state("/home/slurm/state"), {"-/home/slurm/state"}),
        ("slurmctld", given(SlurmctldLogFile=None), set()),
        ("slurmctld", given(slurmctldLOGfile="/usr/local/log/a.log"), {"-/usr/local/log"}),
        ("slurmctld", given(SlurmSchedLogFile="/root/sched.log"), {"-/root"}),
        ("slurmctld", given(SlurmctldPidFile="/home/a b/50%.pid/pid"), {'"-/home/a b/50%%.pid"'}),
        (
            "slurmctld",
            given(JobCompType="jobcomp/filetxt", JobCompLoc="/home/slurmlogs/jobcomp.txt"),
            {"-/home/slurmlogs"},
        ),
        # The program of jobcomp/script is not written to.
        ("slurmctld", given(JobCompType="jobcomp/script", JobCompLoc="/usr/local/bin/a"), set()),
        ("slurmdbd", {"slurmdbd_conf": {"LogFile": "/var/log/x/slurmdbd.log"}}, set()),
        ("slurmdbd", {"slurmdbd_conf": {"LogFile": None, "PidFile": None}}, set()),
        (
            "slurmdbd",
            {"slurmdbd_conf": {"logfile": "/root/log/a.log", "archivedir": "/home/archive"}},
            {"-/root/log", "-/home/archive"},
        ),
        ("slurmdbd", {"slurmdbd_conf": {"PidFile": "/etc/slurm/pid"}}, {"-/etc/slurm"}),
        ("slurmrestd", {}, set()),
        ("slurmrestd-front", {"slurmrestd_socket": "/srv/rest/x.socket"}, {"-/srv/rest"}),
    ],
)
def test_the_daemon_can_write_where_the_site_wants_it(
    daemon: str, variables: dict[str, t.Any], writable: set[str]
) -> None:
    lines = drop_in(daemon, **variables)
    found = {line.partition("=")[2] for line in lines if line.startswith("ReadWritePaths=")}
    assert found == writable


def test_the_front_of_slurmrestd_can_open_its_connections_and_reads_a_copy_of_the_certificate() -> (
    None
):
    lines = drop_in("slurmrestd-front")
    # 300 by TCP and 200 by the socket, each with one to slurmrestd.
    assert "LimitNOFILE=2024" in lines
    assert not any(line.startswith("ExecStartPre=") for line in lines)
    copy = "+/usr/bin/install -T -m 0400 -o slurmrestd /etc/a.pem /run/slurmrestd-front/certificate.pem"
    lines = drop_in("slurmrestd-front", slurmrestd_tls_certificate="/etc/a.pem")
    assert f"ExecStartPre={copy}" in lines and f"ExecReload={copy}" in lines


def test_root_copies_the_certificate_into_no_directory_that_the_front_links(tmp_path: Path) -> None:
    """The directory of the copy belongs to slurmrestd."""
    lines = drop_in("slurmrestd-front", slurmrestd_tls_certificate=str(tmp_path / "rest.pem"))
    words = next(one for one in lines if one.startswith("ExecReload=+")).partition("+")[2].split()
    (tmp_path / "rest.pem").write_text("key")
    (tmp_path / "etc").mkdir()
    (tmp_path / "copy.pem").symlink_to(tmp_path / "etc")
    words = ["install", *words[1:-1], str(tmp_path / "copy.pem")]
    words[words.index("slurmrestd")] = str(os.getuid())
    subprocess.run(words, check=True)
    assert not list((tmp_path / "etc").iterdir())
    assert (tmp_path / "copy.pem").read_text() == "key"


def units_of_rest(**model: t.Any) -> list[dict[str, t.Any]]:
    """The units of role slurmrestd as it gives them to the module services."""
    loader = DataLoader()
    path = ROLES / "slurmrestd/vars/main/files.yml"
    lines = loader.load_from_file(str(path), trusted_as_template=True)
    values = {
        "slurm_model": {"clients_digest": "1", "conf_behind": [], **model},
        "inventory_hostname": "rest1",
        "__slurmrestd_own_socket": "/run/slurmrestd-daemon/slurmrestd.socket",
        "__slurmrestd_files": [{"path": "/etc/default/slurmrestd", "content": "A=1\n"}],
    }
    templar = Templar(loader=loader, variables={**lines, **values})
    templar.environment.filters["trainwright.slurm.files_stamp"] = files_stamp
    return list(templar.template(lines["__slurmrestd_units"]))


def test_slurmrestd_is_restarted_for_the_lines_that_clients_read_and_its_front_is_not() -> None:
    daemon, front = units_of_rest()
    other_daemon, other_front = units_of_rest(clients_digest="2")
    assert (daemon["name"], front["name"]) == ("slurmrestd", "slurmrestd-front")
    assert daemon["stamp"] != other_daemon["stamp"] and front == other_front
    assert not daemon["restart"]
    # Its host had an old slurm.conf, which sackd or slurmd fetches again in this run.
    assert units_of_rest(conf_behind=["rest1"])[0]["restart"]
