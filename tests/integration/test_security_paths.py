"""Attacks of an ordinary user on root: links where root writes, and names of root's files where root reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import Converged
from .modules import run_plays, run_tasks

pytestmark = pytest.mark.systems("debian12")

TEAM = "/shared/security-team"
MINE = "/shared/security-alice"


@pytest.fixture
def places(quiet_site: Converged) -> Iterator[Converged]:
    """The cluster with a directory of alice's on shared storage, and the files of root's that she is after."""
    site = quiet_site
    site.run(
        "ctl1",
        f"install -d -o alice -g alice -m 0755 {TEAM} {MINE} && install -d -o alice {TEAM}/checkpoints",
    )
    site.run("login1", "echo precious > /root/victim")
    yield site
    site.run("ctl1", f"rm -rf {TEAM} {MINE}")
    site.run("login1", "rm -f /root/victim")


def test_a_directory_that_becomes_a_link_gives_a_user_nothing(places: Converged) -> None:
    directories = [
        {"path": TEAM, "owner": "alice", "group": "alice", "mode": "0750"},
        {"path": f"{TEAM}/checkpoints", "owner": "alice", "group": "alice", "mode": "0770"},
    ]
    # The call of role shared_storage for a cluster_mounts with these directories.
    make = {"trainwright.slurm.config_files": {"directories": directories}}
    swap = f"cd {TEAM} && stat -c '%U %a' checkpoints && rmdir checkpoints && ln -s /etc/security checkpoints"
    play = {
        "hosts": "ctl1",
        "gather_facts": False,
        "become": True,
        "tasks": [
            {"name": "make", **make},
            {"name": "swap", "ansible.builtin.command": {"argv": ["su", "alice", "-c", swap]}},
            {"name": "check", **make, "check_mode": True, "ignore_errors": True},
            {"name": "again", **make},
        ],
    }
    look = "stat -c '%U:%G %a %Z' /etc/security"
    before = places.run("ctl1", look)
    done, (played,) = run_plays(places, [play])
    found = {task["task"]["name"]: task["hosts"]["ctl1"] for task in played["tasks"]}
    assert done.returncode != 0 and found["swap"]["stdout"] == "alice 770"
    for name in ("check", "again"):
        assert f"{TEAM}/checkpoints: is a symbolic link of alice" in found[name]["msg"]
    # Also the time of its last change: nothing touched it.
    assert places.run("ctl1", look) == before


def test_root_reads_and_writes_as_the_owner_of_a_job(places: Converged) -> None:
    reads = places.sbatch("id", "-J readroot -o /etc/shadow")
    writes = places.sbatch("echo step 1/2 loss 2.5", f"-J writeroot -o {MINE}/log")
    places.wait_job(writes)
    places.wait_job(reads, ("FAILED",))
    places.as_user(
        "alice", f"cd {MINE} && ln -s /root/victim r.html.tmp && ln -s /root/victim r.html"
    )
    found = run_tasks(
        places,
        [
            {
                "name": "read",
                "trainwright.slurm.train_status": {
                    "job": reads,
                    "report": f"{MINE}/shadow.html",
                },
            },
            {
                "name": "tail",
                "trainwright.slurm.slurm_job": {
                    "id": int(reads),
                    "state": "completed",
                    "timeout": 0,
                    "fail_on_error": False,
                },
            },
            {
                "name": "write",
                "trainwright.slurm.train_status": {"job": writes, "report": f"{MINE}/r.html"},
            },
            {
                "name": "elsewhere",
                "trainwright.slurm.train_status": {"job": writes, "report": "/root/r.html"},
            },
        ],
        host="login1",
    )
    secret = places.run("login1", "grep -o '^root:[^:]*:[0-9]*' /etc/shadow")
    assert secret not in str(found)
    assert "Permission denied" in found["read"]["log_problem"]
    assert found["tail"]["id"] == int(reads) and found["tail"]["output_tail"] == ""
    assert found["write"]["progress"]["step"] == 1
    assert (
        found["elsewhere"]["failed"] and "alice, the owner of the job" in found["elsewhere"]["msg"]
    )
    seen = places.run(
        "login1",
        f"grep -cF -- {secret!r} {MINE}/shadow.html; cat /root/victim; test ! -e /root/r.html;"
        f" stat -c '%U %F' {MINE}/r.html {MINE}/shadow.html",
    )
    assert seen.splitlines() == ["0", "precious", "alice regular file", "alice regular file"]


def test_root_takes_on_the_rights_of_the_user_who_controls_a_path(places: Converged) -> None:
    """Playbooks that root was given a path of alice's: her links name a file of root's, which she is not to see."""
    script = "#!/bin/bash\n#SBATCH -N2 --mem=1G -t 60\nsrun python a.py\n"
    links = "".join(f" && ln -s /root/victim {name}" for name in ("job.sh", "job.yml", "set/x"))
    places.as_user("alice", f"cd {MINE} && mkdir set{links} && cat >train.sh <<'EOF'\n{script}EOF")
    shown = places.play("lint_job.yml", rc=2, lint_job_script=f"{MINE}/job.sh").output
    assert "job.sh: Permission denied" in shown and "precious" not in shown
    places.play(
        "lint_job.yml",
        lint_job_script=f"{MINE}/train.sh",
        lint_job_description=f"{MINE}/job.yml",
    )
    data = {
        "dataset_host": "login1",
        "dataset_source": f"{MINE}/set",
        "dataset_destination": f"{MINE}/copy",
    }
    judged = places.play(
        "dataset.yml", rc=2, **data, dataset_validator=["sh", "-c", "id -un; cat $0/x; exit 3"]
    ).output
    assert "ended with 3" in judged and "Permission denied" in judged and "precious" not in judged
    sent = places.play("dataset.yml", rc=2, **data).output
    assert "x: Permission denied -> run the task as a user who may" in sent
    places.as_user("alice", f"cd {MINE} && rm set/x && date > set/own")
    sent = places.play("dataset.yml", **data).output
    assert "1 files, " in sent and "1 verified by SHA256" in sent
    seen = places.run(
        "login1",
        f"cat /root/victim; grep -rl precious {MINE}; stat -c '%U %F' {MINE}/job.yml {MINE}/copy/own;"
        f" cmp {MINE}/set/own {MINE}/copy/own && ls ~/.ansible | grep -c dataset_sync",
        check=False,
    )
    assert seen.splitlines() == ["precious", "alice regular file", "alice regular file", "0"]


# A user entry that gives rwx, with its mask: what `setfacl -m u:UID:rwx` writes.
GRANT = """import os, struct, sys
entries = [(1, 7, -1), (2, 7, int(sys.argv[2])), (4, 5, -1), (16, 7, -1), (32, 5, -1)]
body = b"".join(struct.pack("<HHi", *entry) for entry in entries)
os.setxattr(sys.argv[1], "system.posix_acl_access", struct.pack("<I", 2) + body)"""


def test_what_an_access_list_opens_is_no_place_of_roots(places: Converged) -> None:
    """Her entry in the list lets alice put a link of root's, which root would follow, and her script there."""
    site, place = places, f"{TEAM}/checkpoints"
    site.run(
        "ctl1", f"cd {TEAM} && rmdir checkpoints && ln -s /etc/security link && chown root {TEAM}"
    )
    site.run("ctl1", f"python3 - {TEAM} $(id -u alice) <<'END'\n{GRANT}\nEND")
    script = "printf '#!/bin/sh\\ntouch ran\\n'"
    site.as_user("alice", f"cd {TEAM} && mv link checkpoints && {script} >job.sh", host="ctl1")
    look = "stat -c '%U:%G %a %Z' /etc/security; ls /etc/security; squeue -h"
    before = site.run("ctl1", look)
    job = {"name": "x", "force": True}
    found = run_tasks(site, [
        {"name": "make", "trainwright.slurm.config_files": {
            "directories": [{"path": place, "owner": "alice", "mode": "0750"}]}},
        {"name": "write", "trainwright.slurm.config_files": {
            "files": [{"path": f"{place}/x.conf", "content": "x"}]}},
        {"name": "only", "trainwright.slurm.config_files": {"root_only": [TEAM]}},
        {"name": "submit", "trainwright.slurm.slurm_job": {**job, "script": f"{TEAM}/job.sh"}},
    ])  # fmt: skip
    for name, said in (
        ("make", f"{place}: is a symbolic link"),
        ("write", f"{place}: is a symbolic link"),
        ("only", f"{TEAM} has the mode 0775, so others can write to it"),
        ("submit", f"{TEAM} has the mode 0775, so others can write to it"),
    ):
        assert found[name].get("failed") and said in found[name]["msg"], (name, found[name])
    assert site.run("ctl1", look) == before


def test_root_submits_no_file_that_a_users_link_names(places: Converged) -> None:
    """Its text would be in the job's record, in --diff and in what the job prints."""
    places.run(
        "login1", "printf '#!/bin/sh\\necho precious\\n' >/root/victim; chmod 600 /root/victim"
    )
    places.as_user("alice", f"ln -s /root/victim {MINE}/job.sh")
    submit = {"name": "readroot", "script": f"{MINE}/job.sh", "force": True}
    found = run_tasks(
        places,
        [{"name": "submit", "trainwright.slurm.slurm_job": submit, "diff": True}],
        host="login1",
    )
    assert found["submit"]["failed"] and "job.sh: Permission denied" in found["submit"]["msg"]
    assert "precious" not in str(found)
