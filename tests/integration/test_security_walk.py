# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts as an ordinary user finds them: no secret, nothing to change, every mode as declared, no other port.

`node_walk.py` runs once on each kind of host; docs/security.md has the tables of ports and secrets.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .conftest import Converged
from .declared import Rights, declared
from .site import ROOT, VENV_BIN, poll

GUIDE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
WALK = (ROOT / "tests" / "integration" / "node_walk.py").read_text(encoding="utf-8")
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())
BOTH = {"debian12", "debian13"}
MARK = "only-bob-may-read-this-batch-script"

# What everybody may write: on which system, and why. A row that no host needs any more fails: remove it.
WRITABLE = [
    (r"/run/munge/munge\.socket\.2", BOTH, "munge signs who asks, by the caller's own uid"),
    (r"/run/(slurm|slurmctld|slurmdbd)/sack\.socket", {"debian13"}, "the same of auth/slurm"),
    (r"/run/mysqld/mysqld\.sock", BOTH, "MariaDB asks for a password, or knows root by his uid"),
    (r"/run/slurmrestd/slurmrestd\.socket", BOTH, "slurmrestd asks for a token"),
    (r"/run/slurmrestd-daemon/slurmrestd\.socket", BOTH, "only slurmrestd enters its directory"),
    (
        r"/var/spool/slurmd/c1_\d+\.\d+",
        BOTH,
        "slurmstepd, for a job; asks for a credential of Slurm",
    ),
    (r"/run/slurm-oci", BOTH, "sticky; a directory for each job"),
    (r"/shared/data", BOTH, "sticky; the test clusters' inventory declares it"),
    (
        r"/run/trainwright-enroot/\S+",
        BOTH,
        "makes the directories of who asks, by the caller's own uid",
    ),
]
# The system's own, in containers: a server's /run is not writable.
SYSTEMS_WRITABLE = re.compile(
    r"/tmp(/\.(font|XIM|ICE|X11)-unix)?|/var/tmp|/run|/run/lock|/run/(systemd|dbus|ssh-unix-local)/.+"
    r"|/(var/)?tmp/systemd-private-[^/]+/tmp|/var/lib/php/sessions"
)
# What the collection's programs write when they run, beside what roles declare. The first row that fits decides.
WRITTEN = [
    (
        "directory",
        r"/var/lib/trainwright/(applied|proved|manifest|secrets|secrets/\w+|enroot\S*)",
        "0700",
    ),
    ("directory", r"/var/lib/trainwright/(stamps|images|build)|/etc/enroot", "0755"),
    ("directory", r"/usr/lib/trainwright/node_tools(/\w+)*", "0755"),
    ("directory", r"/var/lib/enroot(/\w+)?", "0755"),
    ("file", r"/var/lib/trainwright/secrets/.+\.(pub|krl)", "0644"),
    ("file", r"/etc/trainwright/plugstack\.conf", "0644"),
    # Their paths are those of a table in Python.
    ("file", r"/etc/trainwright/training(-mpi)?\.sh", "0644"),
    ("file", r"/var/lib/trainwright/(stamps|applied|proved|manifest|secrets)/.+", "0600"),
    ("file", r"/var/lib/trainwright/(results|health)/[\w.]*lock", "0600"),
    ("file", r"/var/lib/trainwright/(results|health)/\w+\.json", "0644"),
    ("file", r"/var/lib/trainwright/reboot\.json", "0600"),
    # Those of a cluster that has hooks no more: nothing names them.
    ("file", r"/usr/lib/trainwright/hooks/\w+", "0755"),
    ("file", r"/usr/lib/trainwright/node_tools/.+\.py", "0644"),
]
# What the system and users write below the same directories: packages' scripts, the boot, staged images.
SYSTEM = re.compile(
    r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?|/etc/(\.pwd\.lock|\.updated|ld\.so\.cache|mtab|shells)"
    r"|/etc/(hosts|hostname|resolv\.conf|machine-id|motd|fstab|locale\.conf|vconsole\.conf)"
    r"|/etc/(alternatives|ssl|pam\.d/common-|rc\w\.d|systemd/(system|user)/[^/]+\.(wants|requires)|apt|mysql/debian\.cnf)\S*"
    r"|/etc/ssh/(ssh_host_ed25519_key(\.pub)?|sshd_config)|/etc/default/(sysstat|locale)|/etc/perl\S*"
    r"|/etc/tmpfiles\.d/local-cluster\.conf"
    r"|/var/lib/(apt|dpkg|haproxy|systemd|pam|ucf|munge|mysql|private|polkit-1|logrotate|python|wtmpdb|misc|sgml-base|xml-core|shells)\S*"
    r"|/usr/local(/s?bin|/share(/ca-certificates)?)?|/var/lib/enroot/\w+/user-\d+(/.*)?|/var/lib/trainwright/images/.+"
    r"|/var/lib/trainwright-health(/.*)?"
    r"|/usr/(lib|share)/\S+/__pycache__\S*|/usr/lib/\S+\.cache|/usr/share/(mime|man|info|applications)\S*"
)
# What an ordinary user may not open, beside the secrets of the guide.
CLOSED = [
    *("/root", "/root/.ssh/*", "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-"),
    *("/etc/sudoers", "/etc/security/opasswd", "/etc/mysql/debian.cnf", "/etc/ssh/ssh_host_*_key"),
    *("/etc/munge", "/etc/tmpfiles.d/local-cluster.conf"),
    *("/var/lib/trainwright/secrets", "/var/lib/trainwright/secrets/host_certs"),
    *("/var/lib/trainwright/applied", "/var/lib/trainwright/applied/*"),
    *("/var/lib/trainwright/proved", "/var/lib/trainwright/proved/*"),
    *(f"/var/lib/trainwright/manifest{name}" for name in ("", "/*", "/.key")),
    "/var/lib/trainwright/reboot.json",
    *("/var/lib/trainwright/stamps/*", "/var/lib/munge", "/var/lib/mysql/slurm_acct_db"),
    *(
        "/var/lib/mysql/mysql",
        "/var/lib/mysql/*/*.ibd",
        "/var/lib/mysql/ib*",
        "/var/log/slurm/*.log",
    ),
    *(
        "/var/log/munge",
        "/var/log/munge/*",
        "/var/log/private",
        "/var/log/btmp",
        "/var/log/auth.log",
    ),
    *("/shared/slurmctld", "/shared/slurmctld/*", "/var/spool/slurmctld", "/var/spool/slurmctld/*"),
    *("/var/spool/slurmd/job*/*", "/var/spool/slurmd/cred_state", "/home/bob", "/home/bob/.ssh/*"),
    *("/run/munge/munge.socket.2.lock", "/run/sudo/ts", "/proc/1/environ", "/proc/1/root"),
]


def table(title: str) -> list[list[str]]:
    """The rows of the table below a heading of the guide, without its own heading."""
    section = GUIDE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def secret_files() -> dict[str, Rights]:
    """The paths of the guide's table of secrets, as patterns, with owner, group and mode."""
    found: dict[str, Rights] = {}
    for _secret, where, rights, _how in table("Secrets"):
        owner, group, mode = re.fullmatch(r"(\w+):(\w+) (\d{4})", rights).groups()  # type: ignore[union-attr]
        found |= {path: Rights(owner, group, mode) for path in re.findall(r"`(/[^`]+)`", where)}
    return found


def needles(secrets: dict[str, bytes]) -> list[tuple[str, str]]:
    """Texts that betray a secret: its first bytes as they are, in base64 and in hexadecimal."""
    found = []
    for name, secret in secrets.items():
        part = secret[:30]
        if b"PRIVATE KEY" in secret:
            # OpenSSH's form of an Ed25519 key has the public half at the bytes 62, 125 and 193, and the private one
            # at 161. Certificates and known_hosts have the public one.
            body = b"".join(line for line in secret.splitlines() if not line.startswith(b"-----"))
            assert len(body) < 600, f"{name}: is not an Ed25519 key"
            part = body[216:246]
        forms = [part, base64.b64encode(part), part.hex().encode(), part.hex().upper().encode()]
        found += [(name, base64.b64encode(form).decode()) for form in forms]
    return found


def kinds(site: Converged) -> list[str]:
    """One host of each kind, and each controller."""
    return [host for host in site.cluster.hosts if host not in ("c2", "c3")]


def groups(site: Converged, host: str) -> set[str]:
    controller, compute = (
        host.startswith("ctl"),
        host.startswith("c") and not host.startswith("ctl"),
    )
    found = {"every host", "controllers"} if controller else {"every host"}
    if host == "ctl1":
        found |= {"database", "REST"}
    return found | ({"compute"} if compute else set()) | ({"login"} if host == "login1" else set())


def variables(site: Converged) -> dict[str, Any]:
    """What the roles' paths depend on, for these clusters."""
    facts = {
        "os": {"like": "debian", "id": "debian", "version": site.os.removeprefix("debian")},
        **{"arch": "x86_64", "gpus": [1], "virtualization": "container"},
    }
    return {
        "slurm_model": {
            **{"config_dir": "/etc/slurm", "spool_dir": "/var/spool/slurmd"},
            "topology": {"file": "topology.conf"},
        },
        "slurm_facts": {"node": facts},
        # Roles that work alone read the facts themselves.
        **{f"__{role}_node": facts for role in ("enroot", "mariadb", "node_base", "slurm_login")},
        "node_base_log_user": "slurm",
        "__enroot_images": "/shared/images",
        "__slurm_login_daemon": "sackd" if site.os == "debian13" else "slurmd",
        "__openmpi_conf_directory": "/etc/openmpi",
        "__slurmrestd_environment_file": "/etc/default/slurmrestd",
    }


@pytest.fixture(scope="module")
def roles_files(site: Converged) -> dict[str, Rights]:
    """Every path that a role declares, with its rights."""
    found: dict[str, Rights] = {}
    for role in ROLES:
        paths, unknown = declared(role, variables(site))
        assert not unknown, f"{role}: add what these depend on to variables(): {unknown}"
        found |= paths
    assert len(found) > 50
    return found


@pytest.fixture(scope="module")
def walks(site: Converged, roles_files: dict[str, Rights]) -> Iterator[dict[str, Any]]:
    """What the walk found, by host, while a job of bob runs on c1."""
    site.end_all_jobs()
    job = site.sbatch(f"# {MARK}\nsleep 300", "-w c1", user="bob")
    site.wait_job(job, ["RUNNING"])
    poll("the script on c1", lambda: site.run("c1", "ls /var/spool/slurmd/job*/*", check=False))
    kept = [*secret_files(), "/home/bob/.ssh/id_ed25519", "/var/spool/slurmd/job*/slurm_script"]

    def text(host: str) -> dict[str, bytes]:
        listed = (
            f'for f in {" ".join(kept)}; do [ -f $f ] && echo "$f $(base64 -w0 $f)"; done; true'
        )
        lines = site.run(host, listed).splitlines()
        return {
            path: base64.b64decode(content) for path, content in (line.split() for line in lines)
        }

    hosts = kinds(site)
    secrets = {path: content for host in hosts for path, content in text(host).items()}
    secrets |= {"bob's batch script": MARK.encode()}
    # A password is only a part of these.
    for name in ("/etc/slurm/slurmdbd.conf", "/var/lib/trainwright/proved/slurmdbd.service.json"):
        secrets.pop(name)
    given = {
        "user": "alice",
        "needles": needles({name: value for name, value in secrets.items() if "job" not in name}),
        "kept": kept,
        "tries": [*CLOSED, *kept],
        "declared": [*roles_files],
        # The shared directory is mounted twice; its users' own part is theirs.
        "leave_out": ["/proc", "/sys", "/dev", "/srv/cluster"],
    }

    def walk(host: str) -> dict[str, Any]:
        command = f"python3 -I -c {shlex.quote(WALK)}"
        done = site.cluster.local.ssh(host, command, input=json.dumps(given), timeout=60)
        return json.loads(done.stdout)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(hosts, pool.map(walk, hosts)))
    yield found
    site.run("ctl1", f"scancel {job}")


def test_no_user_finds_a_secret(site: Converged, walks: dict[str, Any]) -> None:
    """Files that are readable, command lines and environments; the same search finds them as root."""
    for host, found in walks.items():
        assert found["secrets"] == [], host
        assert found["read"] > 100, host
    assert set(walks["ctl1"]["kept"]) >= {
        *("/etc/munge/munge.key", "/etc/slurm/jwt_hs256.key", "/home/bob/.ssh/id_ed25519"),
        *("/var/lib/trainwright/secrets/database_password", "/var/lib/trainwright/secrets/ssh_ca"),
    }
    assert "bob's batch script" in walks["c1"]["kept"]


def test_no_user_opens_what_is_closed(site: Converged, walks: dict[str, Any]) -> None:
    for host, found in walks.items():
        assert found["opened"] == [], host
    assert len(walks["ctl1"]["tried"]) > 60


def test_secrets_are_where_the_guide_has_them(site: Converged, walks: dict[str, Any]) -> None:
    rights = secret_files()
    seen = set()
    for host, found in walks.items():
        for path in set(rights) & set(found["tried"]):
            assert found["files"][path] == ["file", *rights[path]], f"{host}: {path}"
            seen.add(path)
    missing = {path.rpartition("/")[2] for path in set(rights) - seen}
    assert missing == ({"slurm.key"} if site.os == "debian12" else set())


def test_no_user_changes_what_is_not_his(site: Converged, walks: dict[str, Any]) -> None:
    used = set()
    for host, found in walks.items():
        for path in {*found["writable"], *found["changeable"]}:
            row = next((row for row in WRITABLE if re.fullmatch(row[0], path)), None)
            if row:
                used.add(row[0])
                kind, owner, _group, mode = found["files"][path]
                assert kind == "socket" or (owner == "root" and mode == "1777"), f"{host}: {path}"
            elif not SYSTEMS_WRITABLE.fullmatch(path):
                assert path.startswith(("/home/", "/shared/data/")), f"{host}: {path}"
    assert {row[0] for row in WRITABLE if site.os in row[1]} == used


def test_files_are_as_the_roles_declare_them(
    site: Converged, walks: dict[str, Any], roles_files: dict[str, Rights]
) -> None:
    """And every file that came after the host's first start is declared, a package's, or the system's."""
    for host, found in walks.items():
        own = {path: row for path, row in found["files"].items() if path in roles_files}
        wrong = {path: row for path, row in own.items() if tuple(row[1:]) != roles_files[path]}
        assert not wrong, host
        assert len(own) > 10, host
        unknown = []
        for path in found["new"]:
            if path in roles_files or not path.startswith(("/etc/", "/usr/", "/opt/", "/var/lib/")):
                continue
            kind, *rights = found["files"][path]
            modes = [row[2] for row in WRITTEN if row[0] == kind and re.fullmatch(row[1], path)]
            if modes and path not in found["writable"]:
                assert rights == ["root", "root", modes[0]], f"{host}: {path}"
            elif not modes and not SYSTEM.fullmatch(path):
                unknown.append(path)
        assert unknown == [], host


def test_no_program_of_ours_runs_with_more_rights(site: Converged, walks: dict[str, Any]) -> None:
    """No set-id bit and no capability on what no package brought; nobody but root changes what is in PATH."""
    for host, found in walks.items():
        assert found["privileged"] == [], host
        for name in ("path_of_root", "path_of_alice"):
            directories = found[name].split(":")
            assert "/usr/bin" in directories and all(path.startswith("/") for path in directories)
            changeable = {path.rpartition("/")[0] for path in found["changeable"]}
            assert not ({*found["changeable"], *changeable} & {*directories}), host


def test_only_the_documented_ports_listen(site: Converged, walks: dict[str, Any]) -> None:
    rows = table("Ports")
    seen = set()
    for host, found in walks.items():
        for line in found["listening"]:
            protocol, _state, _in, _out, local, *_rest = line.split()
            address, _, port = local.rpartition(":")
            program = line.split('(("')[1].split('"')[0]
            row = next(
                (
                    row
                    for row in rows
                    if row[0] == f"{port}/{protocol}"
                    and row[1] == program
                    and groups(site, host) & {*row[2].split(", ")}
                ),
                None,
            )
            assert row, f"{host}: {line}"
            assert row[3] != "127.0.0.1" or address in ("127.0.0.1", "[::1]"), f"{host}: {line}"
            seen.add((row[0], row[1], row[2]))
    # 22.05 does not have sackd; srun listens while it runs.
    missing = {(row[0], row[1], row[2]) for row in rows} - seen
    assert {program for _port, program, _hosts in missing} <= {"srun", "sackd", "slurmd"}


@pytest.mark.systems("debian12")
def test_the_guide_revokes_all_tokens(site: Converged, walks: dict[str, Any]) -> None:
    """The commands of the guide as printed, except that site.yml only does the part of the keys."""
    section = GUIDE.split("\n## Revoke all tokens\n")[1].split("\n## ")[0]
    remove, renew = re.findall(r"^```bash\n(.*?)^```", section, re.M | re.S)
    playbook, *restarts = renew.splitlines()
    assert playbook == "ansible-playbook -i ~/cluster trainwright.slurm.site"
    token = site.run("ctl1", "scontrol token username=alice lifespan=600")

    def answer() -> str:
        return site.run("ctl1", f"env {token} squeue --noheader --me; echo $?", check=False)

    assert answer().splitlines()[-1] == "0"
    before = site.run("ctl1", "squeue --noheader --format='%u %T'")
    site.run("ctl1", remove)
    site.play("site.yml", "--tags", "slurm_auth")
    for line in restarts:
        words = shlex.split(line.replace("~/cluster", str(site.inventory)))
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        subprocess.run([VENV_BIN / words[0], *words[1:]], check=True, env=environment)
    poll("the controller", lambda: "is UP" in site.run("ctl1", "scontrol ping", check=False))
    assert answer().splitlines()[-1] != "0"
    assert site.run("ctl1", "squeue --noheader --format='%u %T'") == before == "bob RUNNING"
