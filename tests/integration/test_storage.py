# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mounts whose server is away, late or hangs, by systemd's own automounts, and the directories on them.

The kernel of the tests does not have NFS. Its place takes a type with a mount program of ours, which waits for a file,
as mount.nfs does for its server, and then mounts a tmpfs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Converged
from .modules import run_plays, run_tasks
from .site import poll

pytestmark = pytest.mark.systems("debian13")

NODE = "c1"
UP = "/run/latefs-up"
PROGRAM = f"""#!/bin/sh
while [ ! -e {UP} ]; do sleep 0.1; done
exec mount -t tmpfs latefs "$2"
"""
NAMES = ("checkpoints", "outputs", "training_logs", "tensorboard")
DIRECTORIES = [
    {"path": f"/late/model{number}/{name}", "owner": "alice", "group": "alice", "mode": "2775"}
    for number in range(1, 8)
    for name in NAMES
]
MOUNT = {
    "path": "/late",
    "source": "server:/late",
    "fstype": "latefs",
    "options": "_netdev",
    "directories": DIRECTORIES,
}


def shared_mounts(deadline: int) -> dict[str, Any]:
    options = {"mounts": [MOUNT], "timeout": 1, "deadline": deadline}
    return {"trainwright.slurm.shared_mounts": options}


def shell(text: str) -> dict[str, Any]:
    return {"ansible.builtin.command": {"argv": ["bash", "-c", text]}}


@pytest.fixture
def node(site: Converged) -> Iterator[Converged]:
    """The cluster, and on one node a server of files that does not answer."""
    site.run(
        NODE,
        f"cp -p /etc/fstab /root/fstab.kept; cat >/sbin/mount.latefs <<'EOF'\n{PROGRAM}EOF\n"
        "chmod 0755 /sbin/mount.latefs",
    )
    yield site
    site.run(
        NODE,
        "systemctl stop late.automount late.mount; cat /root/fstab.kept >/etc/fstab; systemctl daemon-reload;"
        f" rm -f /root/fstab.kept /sbin/mount.latefs {UP}; rmdir /late",
    )


def test_a_mount_that_is_away_hangs_nothing_and_gets_no_directories(node: Converged) -> None:
    below = "systemctl stop late.automount late.mount; stat -c '%a %U' /late; ls -A /late"
    found = run_tasks(
        node,
        [
            {"name": "would", **shared_mounts(3), "check_mode": True},
            {"name": "away", **shared_mounts(3)},
            # Root itself writes nothing below the automount.
            {"name": "use", **shell("timeout 60 touch /late/lost")},
            {"name": "beneath", **shell(below)},
            {"name": "server", **shell(f"systemd-run --quiet --on-active=4 touch {UP}")},
            {"name": "late", **shared_mounts(60)},
            {"name": "again", **shared_mounts(60)},
            {"name": "check", **shared_mounts(60), "check_mode": True},
            {"name": "made", **shell("stat -c '%n %a %U:%G' /late/model*/*")},
            # As after a boot: the automount is there, and nobody has used it yet.
            {"name": "unused", **shell("umount /late && grep -c ' /late .*autofs' /proc/self/mountinfo")},
            {"name": "waits", **shared_mounts(60), "check_mode": True},
        ],
        host=NODE,
    )  # fmt: skip
    assert found["would"]["changed_paths"] == ["/etc/fstab", "/late"]
    assert found["away"]["failed"]
    message = found["away"]["msg"]
    assert message.startswith("not mounted within 3 s: /late (") and "\n" not in message
    assert "No directory was made there" in message and "shared_storage_deadline" in message
    assert found["use"]["rc"] == 1 and "cannot touch" in found["use"]["stderr"]
    assert found["beneath"]["stdout"] == "0 root"
    # The automount had been stopped, so it is started with the mount.
    assert len(found["late"]["changed_paths"]) == 29
    assert found["made"]["stdout"].splitlines() == [
        f"{one['path']} 2775 alice:alice"
        for one in sorted(DIRECTORIES, key=lambda one: one["path"])
    ]
    assert not found["again"]["changed"] and not found["check"]["changed"]
    assert found["unused"]["stdout"] == "1"
    assert len(found["waits"]["changed_paths"]) == 28  # the tmpfs is a new one
    line = node.run(NODE, "grep latefs /etc/fstab")
    assert (
        line
        == "server:/late /late latefs _netdev,x-systemd.automount,x-systemd.mount-timeout=1 0 0"
    )


def test_a_type_without_a_client_is_refused_before_any_change(site: Converged) -> None:
    before = site.run(NODE, "stat -c %Z /etc/fstab")
    mount = {"path": "/fsx1", "source": "fs-1@tcp:/abc", "fstype": "lustre"}
    run = site.play(
        "site.yml", rc=2, cluster_mounts=[mount], slurm_state_save_location="/srv/cluster"
    )
    assert (
        "cluster_mounts[/fsx1].fstype: Debian GNU/Linux 13 (trixie) with the kernel" in run.output
    )
    assert "use a system that FSx has a Lustre client for" in run.output
    assert not run.changed
    assert site.run(NODE, "stat -c %Z /etc/fstab") == before


def test_the_policy_is_made_and_its_temporary_files_age(site: Converged) -> None:
    """On the first controller only; a link to a file elsewhere is removed, and the file is not."""
    tags = ("--tags", "shared_storage", "--limit", "slurm_controller")
    variables = {"shared_storage_tree": True, "shared_storage_tree_group": "alice"}
    names = ("checkpoints", "datasets", "logs", "optimizer", "tmp", "weights")
    paths = " ".join(f"/shared/{name}" for name in names)
    clean, unit = "/etc/trainwright/storage-clean.conf", "trainwright-storage-clean.timer"
    timer = f"systemctl is-enabled {unit}; systemctl is-active {unit}"
    try:
        site.play("site.yml", *tags, **variables)
        made = site.run("ctl1", f"stat -c '%n %a %U:%G' {paths}").splitlines()
        assert made == [
            f"/shared/{name} {'1777' if name == 'tmp' else '2775'} root:alice" for name in names
        ]
        assert site.run("ctl1", f"grep ^e {clean}") == "e /shared/tmp - - - 30d"
        assert site.run("ctl1", timer) == "enabled\nactive"
        # systemd-tmpfiles itself skips an automount that nobody has used yet.
        needs = "systemctl show --property=Requires --value trainwright-storage-clean"
        assert "shared.mount" in site.run("ctl1", needs).split()
        assert site.run("ctl2", timer, check=False) == "disabled\ninactive"
        site.as_user(
            "alice",
            "cd /shared/tmp && touch mine && ln -s /etc/passwd link && mkdir d && touch d/x",
        )
        site.run("ctl1", "systemctl start --wait trainwright-storage-clean")
        assert site.run("ctl1", "ls /shared/tmp").split() == ["d", "link", "mine"]
        site.run("ctl1", f"sed -i s/30d/1s/ {clean}")

        def removed() -> bool:
            site.run("ctl1", "systemctl start --wait trainwright-storage-clean")
            return not site.run("ctl1", "find /shared/tmp -mindepth 1")

        poll("old temporary files to be removed", removed, every=1)
        assert site.run("ctl1", "stat -c %U /etc/passwd /shared/tmp") == "root\nroot"
    finally:
        site.run("ctl1", f"rm -rf {paths}")
        site.play("site.yml", *tags)
    assert site.run("ctl1", timer, check=False) == "disabled\ninactive"


EXPORTS = [
    {"path": "/srv/nfs/data", "clients": ["10.1.0.0/16", "10.0.0.3"], "options": ["rw", "root_squash"]},
    {"path": "/srv/nfs/home", "clients": ["login1"], "options": ["ro", "root_squash", "mountpoint=/srv"]},
]  # fmt: skip
EXPORTED = {
    "exports": EXPORTS,
    "directories": [
        {"path": one["path"], "owner": "root", "group": "users", "mode": "2775"} for one in EXPORTS
    ],
}


def test_an_nfs_server_is_configured_as_its_programs_read_it(site: Converged) -> None:
    """Without its kernel part, which a container does not have; the machines' tests mount its exports."""
    role = {"name": "trainwright.slurm.nfs_server", "tasks_from": "configure"}
    runs = [
        {"name": name, "block": [{"name": name, "ansible.builtin.import_role": role}], "check_mode": check}
        for name, check in (("would", True), ("real", False), ("again", False), ("check", True))
    ]  # fmt: skip
    play = {
        "hosts": NODE,
        "gather_facts": False,
        "become": True,
        "tasks": [
            {
                "name": "Install",
                "trainwright.slurm.deb_packages": {"names": ["nfs-kernel-server"]},
            },
            *runs,
        ],
    }
    try:
        done, plays = run_plays(
            site,
            [play],
            slurm_model={"nfs_exports": {NODE: EXPORTED}},
            slurm_facts={"node": {"cpus": 4}},
        )
        assert done.returncode == 0, done.stdout
        changed = [task["hosts"][NODE]["changed"] for task in plays[0]["tasks"][1:]]
        assert changed == [True] * 4 + [False] * 4  # two tasks in each of the four runs
        site.run(NODE, "exportfs -ra")
        found = {
            line.partition("(")[0].replace("\t", " "): line.partition("(")[2].rstrip(")").split(",")
            for line in site.run(NODE, "cat /var/lib/nfs/etab").splitlines()
        }
        assert found.keys() == {
            *("/srv/nfs/data 10.1.0.0/16", "/srv/nfs/data 10.0.0.3", "/srv/nfs/home login1")
        }
        assert all("root_squash" in options for options in found.values())
        assert {"ro", "mountpoint=/srv"} <= set(found["/srv/nfs/home login1"])
        asked = "; ".join(
            f"nfsconf --get nfsd {name}" for name in ("vers3", "vers4.1", "vers4.2", "threads")
        )
        assert site.run(NODE, asked).split() == ["n", "n", "y", "32"]
        assert site.run(NODE, "stat -c '%a %G' /srv/nfs/data") == "2775 users"
    finally:
        site.run(
            NODE,
            "apt-get -qq purge -y nfs-kernel-server >/dev/null; rm -rf /srv/nfs /etc/exports.d /etc/nfs.conf.d"
            " /var/lib/nfs/etab",
        )


def test_an_export_for_everybody_is_refused_before_any_change(
    site: Converged, tmp_path: Path
) -> None:
    hosts = {NODE: {"nfs_server_exports": [{"path": "/srv/nfs", "mount": "/", "clients": ["*"]}]}}
    inventory = {"slurm_cluster": {"children": {"slurm_nfs_server": {"hosts": hosts}}}}
    (tmp_path / "server.yml").write_text(yaml.safe_dump(inventory))
    run = site.play("site.yml", "-i", str(tmp_path / "server.yml"), rc=2)
    assert "nfs_server_exports[/srv/nfs].clients: * lets everybody who reaches" in run.output
    assert "cannot serve NFS (it does not have nfsd)" in run.output
    assert not run.changed
    assert site.run(NODE, "ls -d /srv/nfs", check=False).endswith("No such file or directory")


# FUSE whose program reads no request: each look at the path waits for the answer, as at an NFS server that is down.
DEAD = """
mkdir -p /dead
systemd-run --quiet --unit=deadfs --property=KillMode=process bash -c '
exec 3<>/dev/fuse
mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 deadfs /dead
exec sleep 600'
until grep -q " /dead " /proc/self/mountinfo; do sleep 0.1; done
"""


def test_a_dead_server_below_a_directory_of_slurm_is_named_within_seconds(site: Converged) -> None:
    site.run(NODE, DEAD)
    try:
        run = site.play("preflight.yml", rc=2, slurm_spool_dir="/dead/spool")
    finally:
        site.run(NODE, "systemctl stop deadfs; umount -l /dead; rmdir /dead")
    words = f"{NODE}: /dead: the file system of /dead/spool (fuse) does not answer -> start"
    assert words in run.output
    assert run.seconds < 60


# A mount program that mounts a tmpfs in place of Lustre, and an lctl whose parameters are lost with the mount.
# No disk and no memory is mounted, which would be refused in the place of Lustre.
LUSTRE = r"""
cat >/sbin/mount.lustre <<'EOF'
#!/bin/sh
mkdir -p /run/lctl && rm -f /run/lctl/* && exec mount --bind /proc/sys "$2"
EOF
cat >/usr/sbin/lctl <<'EOF'
#!/bin/sh
cd /run/lctl || exit 1
case $1 in
    get_param) cat "$3" 2>/dev/null || echo 0 ;;
    set_param) echo "${2#*=}" >"${2%%=*}" ;;
esac
EOF
chmod 0755 /sbin/mount.lustre /usr/sbin/lctl
cp -p /etc/fstab /root/fstab.kept
"""
LUSTRE_GONE = """
systemctl disable --quiet trainwright-lustre@fsx1
systemctl stop fsx1.automount fsx1.mount
cat /root/fstab.kept >/etc/fstab
rm -rf /root/fstab.kept /sbin/mount.lustre /usr/sbin/lctl /run/lctl /etc/modprobe.d/trainwright-lustre.conf
rm -f /etc/systemd/system/trainwright-lustre@.service /etc/apt/preferences.d/trainwright-lustre
systemctl daemon-reload
rmdir /fsx1
"""


def test_lustre_is_tuned_after_each_mount(site: Converged) -> None:
    """In the run, and when somebody uses the path after a reboot."""
    mount = {"path": "/fsx1", "source": "fs-1@tcp:/abc", "fstype": "lustre", "options": "noatime"}
    role = {"name": "trainwright.slurm.lustre_client"}
    storage = {"trainwright.slurm.shared_mounts": {"mounts": [mount], "deadline": 30}}
    tasks = [
        {"name": "client", "ansible.builtin.import_role": role},
        {"name": "storage", **storage},
        {"name": "client again", "ansible.builtin.import_role": role},
        {"name": "storage again", **storage},
    ]
    model = {"mounts": [{**mount, "directories": []}]}
    facts = {
        "node": {
            "cpus": 192,
            "memory_mb": 2_000_000,
            "kernel": "rt-amd64",
            "os": {"like": "debian"},
        }
    }
    site.run(NODE, LUSTRE)
    try:
        play = {"hosts": NODE, "gather_facts": False, "become": True, "tasks": tasks}
        done, plays = run_plays(site, [play], slurm_model=model, slurm_facts=facts)
        assert done.returncode == 0, done.stdout
        results = [
            task["hosts"][NODE]
            for task in plays[0]["tasks"]
            if "Validating" not in task["task"]["name"]
        ]
        assert [result["changed"] for result in results] == [True] * 3 + [False] * 3
        assert "/fsx1" in results[2]["changed_paths"]
        # As after a boot: nothing is mounted or tuned until the path is used.
        site.run(NODE, "systemctl stop fsx1.mount && rm -f /run/lctl/* && ls /fsx1")
        poll("the unit to tune", lambda: site.run(NODE, "ls /run/lctl | wc -l") == "8", timeout=20)
        assert site.run(NODE, "cat '/run/lctl/ldlm.namespaces.*.lru_size'") == "19200"
        # By hand to another value, which the next run finds.
        site.run(NODE, "echo 1 >'/run/lctl/llite.*.statahead_max'")
        found = run_tasks(site, [{"name": "storage", **storage}], host=NODE)["storage"]
        assert found["changed_paths"] == ["llite.*.statahead_max=512"]
        # Packages of the kernel that runs may be installed; no other kernel may.
        kernels = "apt-cache policy linux-image-rt-amd64 linux-image-amd64 | grep Candidate"
        assert [line.endswith("(none)") for line in site.run(NODE, kernels).splitlines()] == [
            False,
            True,
        ]
        options = site.run(NODE, "grep -v ^# /etc/modprobe.d/trainwright-lustre.conf")
        assert options.splitlines() == [
            "options ptlrpc ptlrpcd_per_cpt_max=32",
            "options ksocklnd credits=2560",
        ]
    finally:
        site.run(NODE, LUSTRE_GONE)
