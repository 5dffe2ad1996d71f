# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What one user cannot do to the containers of another, or of the cluster: attacks as ordinary users."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator

import pytest

from .artifacts import REAL
from .conftest import Converged
from .modules import run_tasks

needs_stand_in = pytest.mark.skipif(REAL, reason="the stand-in prints the paths of enroot.conf")
BASE = "/var/lib/enroot"
PARENTS = (f"{BASE}/data", f"{BASE}/cache", f"{BASE}/tmp", "/run/enroot")
ROOT_OWN = "/var/lib/trainwright/enroot-root"
# What Enroot does first, whatever it is asked for.
ENROOT_LINE = 'umask 077 && mkdir -p "{}"'


def _uid(site: Converged, user: str, host: str = "c1") -> str:
    return site.run(host, f"id -u {user}")


def _forget(site: Converged, host: str, uid: str) -> None:
    site.run(host, "rm -rf " + " ".join(f"{parent}/user-{uid}" for parent in PARENTS))


@needs_stand_in
@pytest.mark.systems("debian12")
def test_enroot_has_directories_of_the_user_wherever_it_runs(quiet_site: Converged) -> None:
    """In a step, in a batch script without Pyxis, in a login session; and again after a reboot emptied /run."""
    site = quiet_site
    uid = _uid(site, "bob")
    own = {f"{parent}/user-{uid}" for parent in PARENTS}

    def check(host: str, shown: str) -> None:
        paths = set(re.findall(r"ENROOT_(?:CACHE|TEMP)_PATH=(\S+)", shown))
        assert paths == {f"{BASE}/cache/user-{uid}", f"{BASE}/tmp/user-{uid}"}, shown
        for path in own:
            assert site.run(host, f"stat -c '%U %a' {path}") == "bob 700"

    for host in ("c1", "login1"):
        _forget(site, host, uid)
    check("c1", site.as_user("bob", "srun -Q -w c1 enroot info"))
    _forget(site, "c1", uid)
    job = site.sbatch("enroot info", "-w c1 -o /home/bob/enroot.out", user="bob")
    site.wait_job(job)
    check("c1", site.as_user("bob", "cat enroot.out; rm enroot.out"))
    check("login1", site.as_user("bob", "enroot info"))
    site.run("c1", "rm -r /run/enroot; systemctl restart enroot-directories")
    check("c1", site.as_user("bob", "srun -Q -w c1 enroot info"))
    # Root's are elsewhere, where no user comes to.
    assert f"ENROOT_CACHE_PATH={ROOT_OWN}/cache" in site.run("login1", "enroot info")
    for path in (ROOT_OWN, f"{ROOT_OWN}/cache"):
        assert site.run("login1", f"stat -c '%U %a' {path}") == "root 700"
    for host in ("c1", "login1"):
        _forget(site, host, uid)


@pytest.mark.systems("debian12")
def test_nobody_makes_the_directories_of_another(site: Converged) -> None:
    bob = _uid(site, "bob")
    for host in ("c1", "login1"):
        paths = [f"{parent}/user-{uid}" for parent in PARENTS for uid in (bob, "0")]
        paths += [
            f"{ROOT_OWN}/cache/layers",
            "/shared/images/users/bob",
            "/shared/images/users/carol",
        ]
        _forget(site, host, bob)
        site.run(host, "rm -rf /shared/images/users/bob")
        tried = "; ".join(f"({ENROOT_LINE.format(path)}) && echo MADE" for path in paths)
        shown = site.as_user("alice", f"{tried}; true", host=host)
        assert "MADE" not in shown and shown.count("Permission denied") == len(paths), shown
        site.run(host, " && ".join(f"! test -e {path}" for path in paths))
        places = f"{BASE} /run/enroot /run/trainwright-enroot /var/lib/trainwright /shared/images"
        assert not site.run(host, f"find {places} -type d -perm -0002")


@needs_stand_in
@pytest.mark.systems("debian12")
def test_a_run_closes_what_an_earlier_release_left_open(site: Converged) -> None:
    """A foreign directory is named and not used; what belongs to the right user stays."""
    alice, bob = _uid(site, "alice"), _uid(site, "bob")
    own, planted = f"{BASE}/data/user-{alice}", f"{BASE}/cache/user-{bob}"
    for uid in (alice, bob):
        _forget(site, "c1", uid)
    site.run("c1", f"chmod 1777 {' '.join(PARENTS)}")
    site.as_user(
        "alice",
        f"umask 0; mkdir -p {planted}; echo hers >{planted}/layer; mkdir -m 700 {own}; echo kept >{own}/file",
        host="c1",
    )
    shown = site.as_user("bob", "enroot info && echo USED", host="c1", check=False)
    assert "USED" not in shown and f"{planted} is not a directory of user {bob}" in shown
    # As an update does: the service starts again, with the run that brings it.
    site.run("c1", "rm /var/lib/trainwright/stamps/enroot-directories.service")
    run = site.play("site.yml", "--tags", "enroot", "--limit", "c1,ctl1")
    assert any(host == "c1" for host, _task in run.changed)
    for parent in PARENTS:
        assert site.run("c1", f"stat -c '%U %a' {parent}") == "root 755"
    journal = site.run("c1", "journalctl -u enroot-directories --no-pager -o cat")
    assert f"{planted}: belongs to alice and is not used" in journal
    assert site.run("c1", f"cat {own}/file") == "kept"
    assert f"ENROOT_CACHE_PATH={planted}" in site.as_user("bob", "enroot info", host="c1")
    assert site.run("c1", f"stat -c '%U %a' {planted}; ls -A {planted}") == "bob 700"
    site.run("c1", f"rm -r {BASE}/cache/not-used-user-{bob}-*")
    for uid in (alice, bob):
        _forget(site, "c1", uid)


@contextlib.contextmanager
def _stores(site: Converged) -> Iterator[list[str]]:
    """Images that can go, in the cluster's store and in bob's; yields their paths."""
    hexed = secrets.token_hex(32)
    places = ("/shared/images", "/shared/images/users/bob")
    paths = [f"{place}/.images/sha256-{hexed}.sqsh" for place in places]
    site.run(
        "login1",
        "mkdir -p /shared/images/.images; install -d -o bob /shared/images/users/bob{,/.images}",
    )
    site.run("login1", "install -d -o alice /shared/images/users/alice{,/.images}")
    for path in paths:
        site.run(
            "login1", f"echo old >{path}; touch -d '2 days ago' {path.removesuffix('sqsh')}unlinked"
        )
    site.run("login1", "chown -R bob /shared/images/users/bob")
    yield paths
    site.run(
        "login1", f"rm -rf {' '.join(paths)} /shared/images/users/alice /shared/images/users/bob"
    )


@pytest.mark.systems("debian12")
def test_a_trap_in_alices_store_ends_no_collection(quiet_site: Converged) -> None:
    site = quiet_site
    collect = {"collect": {"max_age": 0, "min_age": 0}}
    with _stores(site) as paths:
        # In place of the lock that an image of hers has left there.
        trap = "/shared/images/users/alice/.images/.lock-links"
        site.as_user("alice", f"rm -f {trap} && mkdir {trap}")
        task = {"name": "collect", "trainwright.slurm.enroot_image": collect}
        result = run_tasks(site, [task], host="login1", stop=True)["collect"]
        assert {row["image"] for row in result["collected"]["removed"]} >= set(paths)
        site.run("login1", " && ".join(f"! test -e {path}" for path in paths))
        (skipped,) = result["collected"]["skipped"]
        assert skipped["store"] == "/shared/images/users/alice"
        assert ".lock-links: Is a directory" in skipped["why"]
        assert any("/shared/images/users/alice" in line for line in result["warnings"])
        # Nobody who may not write a lock of root may hold it.
        lock = "/shared/images/.images/.lock-links"
        assert site.run("login1", f"stat -c '%U %a' {lock}") == "root 600"
        held = site.as_user("alice", f"flock -n {lock} echo held", check=False)
        assert "held" not in held and "Permission denied" in held


@pytest.mark.systems("debian12")
def test_published_packages_of_a_user_are_refused_on_each_host(site: Converged) -> None:
    """Before anything is read from there as trusted; /shared/data is open to all, as the inventory says."""
    place = f"/shared/data/{secrets.token_hex(4)}"
    facts = {"name": "facts", "trainwright.slurm.node_facts": {}, "register": "slurm_facts"}
    role = {
        "name": "trainwright.slurm.slurm_build",
        "tasks_from": "deploy",
        "apply": {"ignore_errors": True},
    }
    deploy = {"name": "deploy", "ansible.builtin.include_role": role}
    site.run("ctl1", f"install -d {place}")
    variables = {
        "slurm_build_publish_directory": place,
        "slurm_version": "24.11.5",
        "slurm_model": {"installed_version": "24.11.5"},
        "slurm_build_url": "https://example.org/slurm-24.11.5.tar.bz2",
        "slurm_build_sha256": "0" * 64,
    }
    refuse = "Refuse published packages that somebody other than root could change"
    for owner, failed in (("root", False), ("alice", True)):
        site.run("ctl1", f"install -d -o {owner} {place}/trainwright")
        results = run_tasks(site, [facts, deploy], host="c1", **variables)
        found = next(result for name, result in results.items() if refuse in name)
        assert found.get("failed", False) is failed, found
        if failed:
            assert f"{place}/trainwright belongs to alice" in found["msg"]
    site.run("ctl1", f"rm -r {place}")
