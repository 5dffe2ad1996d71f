# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""validate.yml on a real cluster: all stages that work without GPUs, a run that is killed, a slow node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from . import small_image
from .artifacts import REAL
from .conftest import Converged
from .site import ROOT, Nodes, Site, poll
from .test_kills import kill_tree

pytestmark = pytest.mark.systems("debian13")
STAGES = ("static", "node", "pairwise", "collective", "storage", "container", "mpi", "training")
IMAGE = "/shared/validation.sqsh"


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
    """Nodes whose interface has a fault: by name `tbf 50mbit` (a rate) or `loss 20` (percent of what arrives)."""
    try:
        for host, fault in hosts.items():
            word, value = fault.split()
            if word == "tbf":
                command = f"tc qdisc add dev eth0 root tbf rate {value} burst 64kb latency 50ms"
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
            site.run(host, "tc qdisc del dev eth0 root; nft delete table inet faulty", check=False)


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
    left_out: dict[str, Any] = {"srun_pyxis": None, **({} if REAL else {"container_start": None})}
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
        ("c[1-2]", "srun_pmix.busbw"), ("c[1-2]", "training_cpu"),
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
