# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""validate.yml on a real cluster: all stages that work without GPUs, a run that is killed, a slow node."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.aws.s3 import Store

from . import small_image
from .artifacts import REAL
from .conftest import Converged
from .site import ROOT, Nodes, Site, poll
from .test_kills import kill_tree

pytestmark = pytest.mark.systems("debian13", only="three compute nodes")
STAGES = ("static", "node", "pairwise", "collective", "storage", "container", "mpi", "training")
IMAGE = "/shared/validation.sqsh"
#: The program that delays packets: the kernel of this machine may be without netem.
LATE = Path(__file__).with_name("late.py").read_text(encoding="utf-8")


def checks() -> dict[str, Any]:
    """The checks of the role, by name."""
    found: dict[str, Any] = {}
    for stage in STAGES:
        text = (ROOT / "roles/validate/vars/main" / f"{stage}.yml").read_text(encoding="utf-8")
        found.update(yaml.safe_load(text)[f"__validate_{stage}"])
    return found


#: Left out where the cluster declares GPUs that its nodes do not have.
WITHOUT_GPUS = {
    name: None
    for name, keys in checks().items()
    if {"gpus", "several_gpus"} & set(keys.get("needs", []))
}


def report(directory: Path, run: str = "*") -> dict[str, Any]:
    """The JSON of the newest report in a directory."""
    newest = max(directory.glob(f"{run}/validate.json"), key=lambda path: path.stat().st_mtime)
    assert (newest.parent / "validate.html").stat().st_size > 10_000
    return json.loads(newest.read_text(encoding="utf-8"))


def of(document: dict[str, Any], *verdicts: str) -> set[tuple[str, str]]:
    """The hosts and checks with one of the verdicts."""
    return {
        (one["host"], one["check"]) for one in document["results"] if one["verdict"] in verdicts
    }


def submitted(site: Site) -> list[str]:
    """Names of the jobs of validations that were submitted in the last half hour."""
    said = site.run("ctl1", "sacct -nPX -u alice -S now-30minutes -o JobName%120")
    return [line.strip() for line in said.splitlines() if line.strip().startswith("validate-")]


@contextmanager
def shaped(site: Site, hosts: dict[str, str]) -> Iterator[None]:
    """Nodes whose interface has a fault, by name.

    `tbf 50mbit` (a rate), `loss 20` (percent of what arrives) or `delay 5` (milliseconds of what is sent).
    """
    try:
        for host, fault in hosts.items():
            word, value = fault.split()
            if word == "tbf":
                command = f"tc qdisc add dev eth0 root tbf rate {value} burst 64kb latency 50ms"
            elif word == "delay":
                command = (
                    f"cat >/run/late.py <<'END'\n{LATE}END\n"
                    f"systemd-run -q --collect --unit=late python3 /run/late.py {value};"
                    " sleep 1; systemctl is-active late"
                )
            else:
                rule = f"iif eth0 tcp {{}} 20000-29999 numgen random mod 100 '<' {value} drop"
                command = (
                    "nft add table inet faulty; nft add chain inet faulty in '{type filter hook input priority 0;}'; "
                    + "; ".join(
                        f"nft add rule inet faulty in {rule.format(end)}"
                        for end in ("dport", "sport")
                    )
                )
            site.run(host, command)
        yield
    finally:
        for host in hosts:
            undo = "tc qdisc del dev eth0 root; nft delete table inet faulty; systemctl stop late"
            site.run(host, undo, check=False)


def test_a_killed_run_is_continued_and_ends_green(quiet_site: Converged, tmp_path: Path) -> None:
    site = quiet_site
    for host in ("c1", "c2", "c3"):
        site.run(
            host,
            "command -v mpirun >/dev/null && command -v fio >/dev/null || DEBIAN_FRONTEND=noninteractive"
            " apt-get install -y -q --no-install-recommends openmpi-bin fio >/dev/null 2>&1",
        )
    small_image.make(site, IMAGE)
    earlier = set(submitted(site))
    planned = site.play("validate.yml", "--check", validate_report=str(tmp_path))
    assert "pairwise: pair_mpi" in planned.output and set(submitted(site)) == earlier

    # The image does not have Python and MPI. The stand-in for Pyxis takes an image and nothing else.
    left_out: dict[str, Any] = {"srun_pyxis": None}
    left_out |= {} if REAL else {"container_start": None, "cpu_pyxis": None}
    # Nodes that share two cores say nothing about launchers.
    left_out["srun_pmix"] = {"compare": ""}
    options = {
        "validate_checks": {**WITHOUT_GPUS, **left_out},
        "validate_image": IMAGE,
        "validate_report": str(tmp_path),
        "validate_user": "alice",
    }
    process = site.start_playbook("validate.yml", **options)
    running = "squeue -h -u alice -t R -o %j | grep -q -- -collective- && echo yes || true"
    poll(
        "the collectives to run",
        lambda: site.run("ctl1", running) == "yes" or process.poll() is not None,
        180,
    )
    refused = site.play("validate.yml", rc=2, **options)
    assert "tests this cluster now" in refused.output and process.poll() is None
    kill_tree(process)
    before = set(submitted(site)) - earlier
    assert any("-pairwise-" in name for name in before), before

    done = site.play("validate.yml", **options)
    assert "continues a run that was interrupted" in done.output
    names = [name for name in submitted(site) if name not in earlier]
    assert len(names) == len(set(names)) and len(names) > len(before), names
    found = report(tmp_path)
    assert found["verdict"] in ("PASS", "WARN"), of(found, "FAIL", "INCOMPLETE")
    done_stages = {stage["name"] for stage in found["run"]["stages"] if stage["state"] == "done"}
    assert done_stages >= set(STAGES) - (set() if REAL else {"container"})
    passed = of(found, "PASS", "WARN", "NOT_APPLICABLE")
    for host, check in (
        ("c1", "kernel"), ("c3", "mounts"), ("c[1-2]", "mpi_all_reduce.2"),
        ("c[1-3]", "mpi_all_reduce.3"), ("c1", "fio.shared.write"), ("c[1-2]", "mpirun.busbw"),
        ("c[1-2]", "srun_pmix.busbw"), ("c[1-2]", "training_cpu"), ("cluster", "cpu_srun.compared"),
    ):  # fmt: skip
        assert (host, check) in passed, (host, check)
    assert not REAL or ("c2", "container_start") in passed
    assert found["measurements"] and found["search"]["rounds"] >= 1
    assert "validate: " in done.output.splitlines()[-1] or "validate.html" in done.output


def test_declared_gpus_that_are_absent_are_incomplete(
    quiet_site: Converged, tmp_path: Path
) -> None:
    site = quiet_site
    done = site.play("validate.yml", "--tags", "static", rc=2, validate_report=str(tmp_path))
    found = report(tmp_path)
    assert found["verdict"] == "INCOMPLETE" and ("c1", "gpus") in of(found, "INCOMPLETE")
    assert "nvidia-smi is not installed there" in done.output and "validate.html" in done.output
    allowed = site.play(
        "validate.yml",
        "--tags",
        "static",
        validate_report=str(tmp_path),
        validate_allow_incomplete=True,
    )
    assert "INCOMPLETE" in allowed.output
    refused = site.play("validate.yml", "--tags", "statik", rc=2, validate_report=str(tmp_path))
    assert "statik: no such stage" in refused.output


def test_the_slow_node_is_named_and_drained_if_asked(quiet_site: Converged, tmp_path: Path) -> None:
    site = quiet_site
    options = {
        "validate_stages": "pairwise",
        "validate_report": str(tmp_path),
        "validate_checks": {
            **WITHOUT_GPUS, "pair_mpi": None, "pair_sockets": {"references": {"busbw": 0.2}},
        },
    }  # fmt: skip
    try:
        with shaped(site, {"c3": "tbf 50mbit"}):
            done = site.play("validate.yml", rc=2, validate_enforce=True, **options)
        found = report(tmp_path)
        assert found["search"]["bad_nodes"] == ["c3"] and not found["search"]["bad_links"]
        assert {host for host, _check in of(found, "FAIL")} == {"c3"}
        assert "validate: FAIL" in done.output and "c3: pair_sockets" in done.output
        reason = site.run("ctl1", "scontrol show node c3 | grep Reason=")
        assert "tw:validate:pair_sockets: " in reason
    finally:
        site.run("ctl1", "scontrol update nodename=c3 state=resume", check=False)
    site.wait_node("c3", "idle")


# -- an object store --------------------------------------------------------------------------------
SECRET = "Sesame-77-open"
Fault = Callable[[Store], None]


def stored(site: Site, variables: dict[str, str]) -> str:
    """Run the program of the check on c1 as a job of alice; return what it prints, and `rc N` in the last line."""
    given = " ".join(f"{name}={value}" for name, value in variables.items())
    command = "python3 ~/validation/programs/objects.py --seconds=60"
    return site.as_user(
        "alice", f"srun -Q -w c1 env {given} {command} 2>&1; echo rc $?", check=False
    )


def replies(operation: str, data: bytes) -> Fault:
    """A store that answers an operation with 200 and these bytes."""
    return lambda store: setattr(store, f"_{operation}", lambda _asked: ({"ETag": '"x"'}, data))


STORES: list[tuple[Fault, str, int]] = [
    (lambda store: store.fail("PutObject", "AccessDenied", 403), "write: permission is denied", 1),
    (lambda store: store.fail("GetObject", "AccessDenied", 403), "read: permission is denied", 1),
    (lambda store: store.objects.clear(), "there is no such bucket", 1),
    (lambda store: store.on("GetObject", lambda _asked: time.sleep(25)), "did not answer in time", 124),
    (replies("GetObject", b"<html>welcome</html>"), "other data than was written", 1),
    (replies("PutObject", b""), "the object that was written is not there", 1),
]  # fmt: skip


def test_an_object_store_is_used_from_a_node_and_never_believed(
    quiet_site: Converged, tmp_path: Path
) -> None:
    site = quiet_site
    site.run(
        "c1",
        "command -v aws >/dev/null || { apt-get update -q; DEBIAN_FRONTEND=noninteractive"
        " apt-get install -y -q --no-install-recommends awscli; } >/dev/null 2>&1",
    )
    # The address of this machine on the cluster's network.
    address = site.cluster.addresses["c1"].rpartition(".")[0] + ".1"
    seen: list[str] = []
    lines = f"[default]\naws_access_key_id = AKIASESAME\naws_secret_access_key = {SECRET}\n"
    site.as_user(
        "alice", f"umask 077; mkdir -p .aws; printf {shlex.quote(lines)} > .aws/credentials"
    )
    try:
        with Store(address=address) as store:
            place = {"AWS_ENDPOINT_URL": store.url, "AWS_DEFAULT_REGION": "eu-west-1"}
            options = {
                "validate_user": "alice",
                "validate_nodes": "c1",
                "validate_only": ["object_store"],
                "validate_buckets": ["s3://bucket/some"],
                "validate_exports": place,
                "validate_report": str(tmp_path),
                "validate_again": True,
            }
            # While a request is answered: the command lines of all processes there.
            store.on("PutObject", lambda _asked: seen.append(site.run("c1", "ps -eo args")), 1)
            done = site.play("validate.yml", "-v", **options)
            found = report(tmp_path)
            assert ("c1", "object_store") in of(found, "PASS"), found["results"]
            assert not store.bucket and store.count["DeleteObject"] == 1
            assert "objects.py" in seen[0] and "aws" in seen[0]
            kept = site.run(
                "login1", f"grep -rlE '{SECRET}|AKIASESAME' /home/alice/validation || true"
            )
            logs = site.run("c1", f"grep -rlE '{SECRET}|AKIASESAME' /var/log || true")
            assert not kept and not logs
            for text in (seen[0], done.output, json.dumps(found)):
                assert SECRET not in text and "AKIASESAME" not in text

            # A proxy that answers everything with 200.
            replies("GetObject", b"<html>welcome</html>")(store)
            done = site.play("validate.yml", rc=2, **options)
            (bad,) = [one for one in report(tmp_path)["results"] if one["check"] == "object_store"]
            assert bad["verdict"] == "FAIL" and "other data than was written" in bad["detail"]
            assert "a proxy" in bad["remedy"] and "other data" in done.output and not store.bucket

        refused = options | {"validate_exports": {**place, "AWS_SECRET_ACCESS_KEY": SECRET}}
        done = site.play("validate.yml", rc=2, **refused)
        assert "AWS_SECRET_ACCESS_KEY looks like a secret" in done.output

        given = {"VALIDATION_BUCKETS": "s3://bucket/some", "AWS_DEFAULT_REGION": "eu-west-1"}
        for fault, words, code in STORES:
            with Store(address=address) as store:
                fault(store)
                said = stored(site, {**given, "AWS_ENDPOINT_URL": store.url})
                assert words in said and " -> " in said and said.endswith(f"rc {code}"), said
                assert not store.objects.get("bucket"), said
        # Nothing listens there any more.
        said = stored(site, {**given, "AWS_ENDPOINT_URL": store.url})
        assert "the store cannot be reached" in said and said.endswith("rc 1"), said
    finally:
        site.as_user("alice", "rm -rf .aws")


# -- tools of libfabric and a login profile -----------------------------------------------------------
LIBFABRIC = {
    **WITHOUT_GPUS,
    "pair_mpi": None,
    # The provider of TCP stands in for that of EFA, and what healthy nodes reach is far above the threshold.
    "pair_efa": {
        "needs": [],
        "command": 'exec bash "$VALIDATION/pair.sh" fi_pingpong -p tcp -e rdm -S 1048576',
        "environment": {"FI_TCP_IFACE": "eth0"},
        "references": {"bandwidth": 0.001},
    },
}


@pytest.mark.soak("packages of libfabric on each node, and a run under a hostile login")
def test_libfabric_measures_pairs_whatever_the_login_of_the_user_does(
    quiet_site: Converged, tmp_path: Path
) -> None:
    """Its profile puts fakes in front of the tools, and the site has sbatch take the environment of a login."""
    site = quiet_site
    for host in ("c1", "c2", "c3"):
        site.run(
            host,
            "command -v fi_pingpong >/dev/null || { apt-get update -q; DEBIAN_FRONTEND=noninteractive"
            " apt-get install -y -q --no-install-recommends libfabric-bin; } >/dev/null 2>&1",
        )
    fakes = "fi_pingpong python3 timeout bash od"
    profile = "export PATH=$HOME/fakes:$PATH BASH_ENV=$HOME/fakes/rc"
    site.as_user(
        "alice",
        f"mkdir -p fakes; cp -p .profile fakes/kept 2>/dev/null; echo 'timeout() {{ echo a fake; }}' > fakes/rc;"
        f" for one in {fakes}; do printf '#!/bin/sh\\necho a fake\\n' > fakes/$one; chmod 755 fakes/$one; done;"
        f" echo '{profile}' >> .profile; cp .profile .bash_profile",
    )
    common = {"validate_user": "alice", "validate_report": str(tmp_path), "validate_again": True}
    # PAM gives it to whoever submits, and slurmd then takes the job's environment from a login.
    site.run("login1", "echo SBATCH_EXPORT=NONE >> /etc/environment")
    try:
        found = {}
        for checks in (LIBFABRIC, {**LIBFABRIC, "pair_efa": None}):
            site.play("validate.yml", validate_stages="pairwise", validate_checks=checks, **common)
            found.update({one["check"]: one for one in report(tmp_path)["measurements"]})
            assert not of(report(tmp_path), "FAIL", "INCOMPLETE")
    finally:
        site.run("login1", "sed -i /^SBATCH_EXPORT=/d /etc/environment")
        site.as_user(
            "alice",
            "rm -f .bash_profile; [ -e fakes/kept ] && mv fakes/kept .profile || rm -f .profile; rm -rf fakes",
        )
    # sockets.py stood in once there was nothing better, on a port that only the job knows.
    for check in ("pair_efa", "pair_sockets"):
        assert found[check]["kind"] == "pair" and found[check]["value"] > 0, found
        assert "a fake" not in site.run("login1", f"cat {found[check]['log']}")


# -- six nodes on three switches -------------------------------------------------------------------
NAMES = [f"c{number}" for number in range(1, 7)]
SWITCHES = {f"leaf{n // 2 + 1}": NAMES[n : n + 2] for n in range(0, 6, 2)}


@pytest.fixture(scope="module")
def six() -> Iterator[Site]:
    """A cluster of six compute nodes."""
    cluster = Nodes("val6")
    made = Site(cluster)
    cluster.local.destroy()
    cluster.local.create(os="debian13", compute=6)
    made.play("site.yml")
    for host in NAMES:
        made.run(
            host, "command -v nft >/dev/null || apt-get install -y -q nftables >/dev/null 2>&1"
        )
    yield made
    cluster.local.destroy()


@pytest.mark.soak("a cluster of its own")
@pytest.mark.parametrize(
    ("faults", "nodes", "switches"),
    [
        ({}, [], []),
        ({"c3": "tbf 100mbit"}, ["c3"], []),
        ({"c4": "delay 5"}, ["c4"], []),
        ({"c5": "loss 20"}, ["c5"], []),
        ({"c5": "loss 3"}, ["c5"], []),
        ({"c2": "tbf 100mbit", "c6": "loss 20"}, ["c2", "c6"], []),
        ({"c3": "tbf 100mbit", "c4": "tbf 100mbit"}, [], ["leaf2"]),
    ],
)  # fmt: skip
def test_faults_of_interfaces_are_named_and_nothing_else(
    six: Site, tmp_path: Path, faults: dict[str, str], nodes: list[str], switches: list[str]
) -> None:
    described = [{"name": name, "nodes": members} for name, members in SWITCHES.items()]
    with shaped(six, faults):
        six.play(
            "validate.yml",
            rc=2 if faults else 0,
            validate_stages="pairwise",
            validate_report=str(tmp_path),
            slurm_topology={"plugin": "none", "switches": described},
        )
    found = report(tmp_path)
    search = found["search"]
    assert (search["bad_nodes"], search["bad_switches"], search["bad_links"]) == (
        nodes,
        switches,
        [],
    )
    # 3 + 2 x log2(6), and 2 for each bad node.
    assert search["rounds"] <= 3 + 2 * 2.585 + 2 * len(faults), search
