# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Enroot and Pyxis on a cluster: installed, loaded, found when they are not, images by name.

With substitutes for both (artifacts.py) this tests real packages, a real compilation against this Slurm, a real
plugstack.conf; with the real ones the same, and test_container_jobs.py what they run.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from pathlib import Path

import pytest
import yaml

from .artifacts import REAL, REGISTRY
from .conftest import Converged
from .modules import run_tasks
from .site import tail

HOSTS = ("login1", "c1")
needs_stand_in = pytest.mark.skipif(
    REAL, reason="the real Enroot has no registry to import from here"
)


def test_srun_knows_container_image(site: Converged) -> None:
    print(f"Enroot and Pyxis: {'the real ones' if REAL else 'stand-ins'}")
    assert "--container-image" in site.as_user("alice", "srun --help")


def test_each_host_has_its_own_part_of_plugstack_conf(site: Converged) -> None:
    lines = site.run("ctl1", "grep -v '^#' /etc/slurm/plugstack.conf").splitlines()
    assert lines[-1] == "include /etc/trainwright/plugstack.conf"
    version = ".".join(site.run("c1", "slurmd -V").split()[1].split(".")[:2])
    # Before 23.11 a login host runs slurmd.
    for host, words in (("login1", ("optional", "required")), ("c1", ("required",))):
        lines = site.run(host, "grep -v '^#' /etc/trainwright/plugstack.conf").splitlines()
        word, plugin = lines[0].split()[:2]
        assert word in words and plugin.startswith("/usr/lib/trainwright/pyxis/spank_pyxis-")
        assert f"-slurm{version}.so runtime_path=/run/pyxis" in lines[0]
        assert "container_scope=global" in lines[0] and "use_squashfuse=1" in lines[0]
    assert lines[1].startswith(
        f"required /usr/lib/trainwright/guard/spank_guard-slurm{version}.so "
    )


@pytest.mark.systems("debian12")
def test_directories_are_there_before_slurmd(site: Converged) -> None:
    for path in ("/run/enroot", *(f"/var/lib/enroot/{kind}" for kind in ("data", "cache", "tmp"))):
        assert site.run("c1", f"stat -c '%U %a' {path}") == "root 755"
    order = site.run("c1", "systemctl show -P After slurmd")
    assert "enroot-directories.service" in order
    wants = site.run("c1", "systemctl show -P RequiresMountsFor enroot-directories")
    assert "/var/lib/enroot" in wants


@pytest.mark.systems("debian12")
def test_what_serves_an_image_bears_the_signals_of_its_job(site: Converged) -> None:
    """The first one in the PATH of slurmd, which Pyxis uses, ignores them."""
    path = site.run("c1", "tr '\\0' '\\n' </proc/$(pgrep -o slurmd)/environ | grep ^PATH=")
    for name in ("squashfuse", "fuse-overlayfs"):
        assert site.run("c1", f"{path} command -v {name}") == f"/usr/local/sbin/{name}"
        assert "usage" in site.run("c1", f"{path} {name} --help 2>&1", check=False).lower()


@pytest.mark.skipif(
    REAL, reason="the stand-in prints what it was given; test_container_jobs.py runs images"
)
def test_a_job_on_two_nodes_gets_its_image(quiet_site: Converged) -> None:
    site = quiet_site
    site.run("ctl1", "touch /shared/data/x.sqsh")
    out = site.as_user(
        "alice",
        "srun -Q -N2 --container-image=/shared/data/x.sqsh sh -c 'echo image $FIXTURE_IMAGE'",
    )
    assert out.count("image /shared/data/x.sqsh") == 2


@pytest.mark.systems("debian13")
def test_a_plugin_that_does_not_fit_is_found_and_mended_and_stops_no_job(
    quiet_site: Converged,
) -> None:
    """The state after an upgrade of Slurm without Pyxis, or with a damaged file."""
    site = quiet_site
    plugin = site.run("c1", "readlink -f /usr/lib/trainwright/spank_pyxis.so")
    before = site.run("c1", f"sha256sum < {plugin}")
    site.run("c1", f"echo no plugin >{plugin}; systemctl restart slurmd")
    site.wait_node("c1", "idle")
    assert site.as_user("alice", "srun -Q -w c1 hostname") == "c1"
    refused = site.as_user(
        "alice", f"srun -Q -w c1 --container-image={plugin} sh -c ': >bare'; echo rc $?"
    )
    assert "rc 1" in refused.splitlines() and "is not started" in refused
    assert not site.as_user("alice", "ls bare 2>/dev/null || true")
    limit = ("--limit", "c1,slurm_controller")
    run = site.play("site.yml", "--check", *limit, "--tags", "pyxis")
    assert any(host == "c1" and "Install Pyxis" in task for host, task in run.changed)
    registry = {"user": "alice", "registry": "nvcr.io", "login": "$oauthtoken"}
    secret = secrets.token_hex(8)
    run = site.play(
        "site.yml", "-vvv", *limit, enroot_credentials=[{**registry, "password": secret}]
    )
    assert any(host == "c1" and "Install Pyxis" in task for host, task in run.changed)
    assert site.run("c1", f"sha256sum < {plugin}") == before
    # On the way: a login to a registry, once for all nodes, and never in a log.
    path = "/home/alice/.config/enroot/.credentials"
    assert site.run("c1", f"stat -c '%U %a' {path}") == "alice 600"
    line = f"machine nvcr.io login $oauthtoken password {secret}"
    assert line in site.run("c1", f"cat {path}").splitlines()
    assert secret not in run.output
    site.run("c1", f"rm {path}")


@pytest.mark.systems("debian12")
def test_without_its_plugin_verify_says_what_is_wrong(site: Converged) -> None:
    module = "trainwright.slurm.container_runtime_info"
    task = {"name": "look", module: {"fail": True, "plugin": "/usr/lib/nowhere.so"}}
    result = run_tasks(site, [task], host="c1")["look"]
    assert result["failed"] and "-> run site.yml" in result["msg"]


#: Prints the status of the catalogue of images without a login, with a wrong one, with the right one.
ASK = """
import base64, urllib.error, urllib.request
for login in "", "ci:wrong", "ci:open sesame":
    asked = urllib.request.Request("https://ctl1:5000/v2/_catalog")
    if login:
        asked.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    try:
        print(urllib.request.urlopen(asked).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""


@pytest.mark.systems("debian12")
def test_a_host_becomes_the_registry_of_the_cluster(site: Converged, tmp_path: Path) -> None:
    """Nodes trust its certificate, of an authority of the site, and it asks for a login."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-subj", "/CN=ctl1",
         "-addext", "subjectAltName=DNS:ctl1", "-keyout", tmp_path / "key", "-out", tmp_path / "crt"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    groups = {"all": {"children": {"slurm_registry": {"hosts": {"ctl1": {}}}}}}
    (tmp_path / "groups.yml").write_text(yaml.safe_dump(groups))
    hashed = "$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW"  # open sesame
    given = {
        "image_registry_storage": "/srv/images",
        "image_registry_certificate": str(tmp_path / "crt"),
        "image_registry_key": str(tmp_path / "key"),
        "image_registry_ca": str(tmp_path / "crt"),
        "image_registry_users": [{"name": "ci", "password_hash": hashed}],
    }
    arguments = ("image_registry.yml", "-i", str(tmp_path / "groups.yml"))
    hosts = ("ctl1", "login1", "c1")
    try:
        first = site.play(*arguments, **given)
        assert {host for host, _task in first.changed} >= set(hosts)
        for host in hosts:
            assert site.run(host, f"python3 -c '{ASK}'").split() == ["401", "401", "200"], host
        assert site.play(*arguments, **given).changed == set()
    finally:
        # A purge would also remove empty directories in /etc/systemd/system that roles made.
        site.run("ctl1", "apt-get remove -qqy docker-registry >/dev/null 2>&1; rm -rf /srv/images")
        # The record too: where something of it is missing, each later run walks over the host.
        undo = (
            "rm -f /usr/local/share/ca-certificates/trainwright-* /var/lib/trainwright/manifest/image_registry-*;"
            " update-ca-certificates >/dev/null 2>&1"
        )
        for host in site.cluster.hosts:
            site.run(host, undo)
        site.run(
            "ctl1",
            "rm -rf /etc/docker/registry /etc/systemd/system/docker-registry.service.d; systemctl daemon-reload",
        )


@pytest.mark.systems("debian12")
def test_bad_input_is_refused_before_anything_is_changed(site: Converged) -> None:
    run = site.play("site.yml", rc=2, pyxis_options={"use_squashfs": True})
    assert "pyxis_options.use_squashfs: is not an argument of Pyxis" in run.output, tail(
        run.output, 30
    )
    run = site.play("site.yml", rc=2, pyxis_version="0.20.0", pyxis_options={"importer": "/bin/x"})
    assert "came with Pyxis 0.21" in run.output, tail(run.output, 30)
    if not REAL:
        run = site.play("site.yml", rc=2, enroot_sha256={})
        assert "does not have a SHA-256" in run.output and not run.changed, tail(run.output, 30)


@pytest.mark.systems("debian12")
@needs_stand_in
def test_an_image_by_name_from_import_to_job(quiet_site: Converged, tmp_path: Path) -> None:
    """container_image.yml imports and stages; image-import does it for a user; a job finds both by name."""
    site = quiet_site
    digest = f"sha256:{secrets.token_hex(32)}"
    site.run(
        "ctl1",
        f"mkdir -p {REGISTRY}/{digest} {REGISTRY}/cache {REGISTRY}/temp; chmod 1777 {REGISTRY}/temp;"
        f" echo one >{REGISTRY}/{digest}/data; echo {digest} >{REGISTRY}/team_train:main;"
        f" : >{REGISTRY}/log; chmod 666 {REGISTRY}/log",
    )
    reference = "docker://team/train:main"
    name = f"train-{secrets.token_hex(3)}"
    options = {"container_image_name": name, "container_image_reference": reference}
    site.play("container_image.yml", container_image_stage=True, **options)
    again = site.play("container_image.yml", container_image_stage=True, **options)
    assert again.changed == set()
    assert site.run("ctl1", f"grep -c '^import' {REGISTRY}/log") == "1"
    show = "srun -Q -N2 --container-image={}.sqsh sh -c 'echo image $FIXTURE_IMAGE'"
    out = site.as_user("alice", show.format(name))
    assert out.count("image /var/lib/trainwright/images/") == 2, out
    # A user's own.
    site.as_user("alice", f"image-import {reference} mine")
    out = site.as_user("alice", show.format("mine"))
    assert out.count("image /shared/images/users/alice/") == 2 and "container:" not in out, out
    # One of the cluster's name hides it, which the first node of a step says, and nobody else's does.
    site.as_user("alice", f"image-import {reference} {name}")
    out = site.as_user("alice", show.format(name))
    assert out.count("image /shared/images/users/alice/") == 2, out
    note = f"container: {name}.sqsh is your own image of that name, not the cluster's -> `image-import --remove {name}`"
    assert out.count(note) == 1, out
    assert "note" not in site.run("c1", "ls /run/pyxis/$(id -u alice)")
    site.as_user("alice", f"image-import --remove {name}")
    assert "container:" not in site.as_user("alice", show.format(name))
    wrong = site.as_user("alice", show.format(name[1:]), check=False)
    assert name in wrong and "image /" not in wrong
    # A training brings its image itself, with the rights of its owner, and never replaces one of the cluster.
    secret, evil = (f"/shared/data/{kind}-{name}.sqsh" for kind in ("secret", "evil"))
    site.run(
        "login1",
        f"cd {REGISTRY}/{digest} && mksquashfs . {secret} -quiet -no-progress && cp {secret} {evil}"
        f" && chown bob {secret} && chmod 600 {secret} && chown alice {evil}",
    )
    show_store = "readlink -f /shared/images/*.sqsh; ls /shared/images/.images; cat /shared/images/*.sqsh | sha256sum"
    before = site.run("login1", show_store)

    def job(kind: str, image: str, source: str) -> dict[str, object]:
        return {"name": kind, "launcher": "srun", "command": "sh -c 'echo image $FIXTURE_IMAGE'", "nodes": 2,
                "memory": "100M", "time": "5", "logs": "/home/alice",
                "container": {"image": f"{image}.sqsh", "source": source}}  # fmt: skip

    file = tmp_path / "job.yml"
    file.write_text(yaml.safe_dump({"train_job": job("image", f"{name}-2", secret)}))
    run = site.play("train.yml", "-e", f"train_job_file={file}", rc=2, train_user="alice")
    assert f"{secret}: Permission denied" in run.output, tail(run.output, 30)
    jobs = [job("image-theirs", name, evil), job("image-hers", f"{name}-2", reference)]
    run = site.play("train.yml", train_user="alice", train_jobs=jobs, train_together=False)
    # Ansible wraps warnings, at hyphens too.
    assert f"{name}.sqsh:isthecluster'simageof{reference}" in "".join(run.output.split())
    places = {"theirs": "/var/lib/trainwright/images/", "hers": "/shared/images/users/alice/"}
    for kind, place in places.items():
        out = site.as_user("alice", f"cat image-{kind}-*.out")
        assert out.count(f"image {place}") == 2, out
    assert site.run("login1", show_store) == before
    site.run("login1", f"rm {secret} {evil}")
    site.as_user("alice", f"rm -f image-*; image-import --remove {name}-2")
    listed = json.loads(site.run("c1", "cat /etc/trainwright/images.json"))
    assert listed["store"] == "/shared/images"
    site.as_user("alice", "image-import --remove mine")
    site.run("ctl1", f"rm -r {REGISTRY}")
    site.play("container_image.yml", container_image_name=name, container_image_state="absent")


@pytest.mark.systems("debian13")
@needs_stand_in
def test_collection_spares_the_image_of_a_running_job(quiet_site: Converged) -> None:
    """The name went while the job runs: the image stays until no job is left that could have taken it."""
    site = quiet_site
    site.run(
        "login1",
        "rm -rf /tmp/gc; mkdir /tmp/gc; head -c 4096 /dev/urandom >/tmp/gc/data;"
        " mksquashfs /tmp/gc /shared/data/gc.sqsh -quiet -no-progress -noappend;"
        " image-import /shared/data/gc.sqsh gc",
    )
    image = site.run("login1", "readlink -f /shared/images/gc.sqsh")
    job = site.sbatch("srun --container-image=gc.sqsh sleep 300", "-N2")
    site.wait_job(job, ["RUNNING"])
    site.run("login1", "image-import --remove gc")
    module = "trainwright.slurm.enroot_image"
    collect = {"name": "collect", module: {"collect": {"max_age": 0, "min_age": 0}}}

    def collected() -> list[list[str]]:
        result = run_tasks(site, [collect], host="login1", stop=True)["collect"]["collected"]
        return [[row["image"] for row in result[key]] for key in ("removed", "spared")]

    for _ in range(2):
        removed, spared = collected()
        assert image not in removed and image in spared
    site.end_all_jobs()
    # As if it had been without a name since before any job of now.
    site.run("login1", f"touch -d '1 hour ago' {image.removesuffix('sqsh')}unlinked")
    assert image in collected()[0]
    assert site.run("login1", f"ls {image}", check=False).endswith("No such file or directory")
