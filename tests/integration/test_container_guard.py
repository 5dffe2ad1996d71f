# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A container job runs in its container or fails, on every path: it never runs on the bare node.

Each attempt would leave a file in alice's home if it ran there. Afterwards the same node runs other jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import small_image
from .artifacts import REAL
from .conftest import Converged
from .site import SOAK, poll

IMAGE = "/shared/data/guard.sqsh"
PLUGINS = "/usr/lib/trainwright/pyxis"
OWN = "/etc/trainwright/plugstack.conf"
TASK = "sh -c ': >/home/alice/bare-$SLURMD_NODENAME'"
# Each takes the option of srun and sbatch.
WAYS = {
    "srun": f"srun -Q -w c1 {{}} {TASK}",
    "two nodes": f"srun -Q -w c1,c2 {{}} {TASK}",
    "step of sbatch": f"sbatch -Q -W -w c1 -o /dev/null <<'S'\n#!/bin/sh\nsrun {{}} {TASK}\nS",
    "sbatch": f"sbatch -Q -W -w c1 -o /dev/null {{}} <<'S'\n#!/bin/sh\n{TASK}\nS",
    "salloc": f"salloc -Q -w c1 srun {{}} {TASK}",
}
BY_VARIABLE = f"srun -Q -w c1 {TASK}"


def attempt(site: Converged, commands: dict[str, str]) -> dict[str, tuple[int, bool]]:
    """Run each as alice, one after the other; the exit code, and whether it ran on c1 outside of a container."""
    script = "cd; "
    for name, command in commands.items():
        script += f'rm -f bare-*; (\n{command}\n) >>guard.log 2>&1; echo "{name}=$? $(ls bare-c1 2>/dev/null)"\n'
    out = site.as_user("alice", script)
    found = {}
    for line in out.splitlines():
        name, _, rest = line.rpartition("=")
        code, _, ran = rest.partition(" ")
        found[name] = (int(code), ran == "bare-c1")
    assert list(found) == list(commands), out
    return found


def assert_refused(site: Converged, commands: dict[str, str]) -> None:
    """None of the commands starts, each ends with an error, and the nodes run other jobs."""
    plain = {
        "plain": "srun -Q -w c1,c2 true",
        "plain batch": "sbatch -Q -W -w c1 -o /dev/null --wrap true",
    }
    found = attempt(site, {**commands, **plain})
    assert {name for name in commands if found[name][0] == 0 or found[name][1]} == set(), found
    assert [found[name][0] for name in plain] == [0, 0], found
    assert all("drain" not in site.node_state(node) for node in ("c1", "c2"))


@pytest.fixture(scope="module")
def image(site: Converged) -> Iterator[str]:
    small_image.make(site, IMAGE)
    yield IMAGE
    site.run("login1", f"rm {IMAGE}")
    site.as_user("alice", "rm -f bare-* guard.log")


def test_an_image_that_is_not_there_stops_the_job(quiet_site: Converged, image: str) -> None:
    good = attempt(
        quiet_site,
        {
            "option": f"srun -Q -N2 --container-image={image} sh -c 'exit 0'",
            "variable": f"PYXIS_CONTAINER_IMAGE={image} srun -Q -w c1 sh -c 'exit 0'",
            "batch": f"sbatch -Q -W -w c1 -o /dev/null --container-image={image} --wrap 'exit 0'",
        },
    )
    assert {code for code, _ran in good.values()} == {0}, good
    ways = {name: way.format("--container-image=/nowhere.sqsh") for name, way in WAYS.items()}
    ways["variable"] = f"PYXIS_CONTAINER_IMAGE=/nowhere.sqsh {BY_VARIABLE}"
    # Pyxis itself ignores these two, and the job runs without a container.
    ways["long variable"] = f"PYXIS_CONTAINER_IMAGE=$(printf /%05000d 7) {BY_VARIABLE}"
    ways["wrong variable"] = f"PYXIS_CONTAINER_NAME=x:typo {BY_VARIABLE}"
    if REAL:
        here = f"srun -Q -w c1 --container-image={image}"
        ways["mount"] = f"{here} --container-mounts=/nowhere:/mnt {TASK}"
        ways["workdir"] = f"{here} --container-workdir=/nowhere {TASK}"
        ways["registry"] = f"srun -Q -w c1 --container-image=127.0.0.1:9#nothing {TASK}"
    assert_refused(quiet_site, ways)


def own_part(site: Converged, word: str) -> None:
    """Wait until c1's part of plugstack.conf ends with a word."""
    poll(f"{word} in {OWN}", lambda: word in site.run("c1", f"tail -n1 {OWN}"), 20)


@pytest.mark.systems("debian12")
def test_a_node_whose_plugin_goes_runs_other_jobs_only(quiet_site: Converged, image: str) -> None:
    """Removed under a running slurmd, by hand or with its package; then the same with slurmd started in that state."""
    site = quiet_site
    ways = {name: way.format(f"--container-image={image}") for name, way in WAYS.items()}
    ways["variable"] = f"PYXIS_CONTAINER_IMAGE={image} {BY_VARIABLE}"
    if not SOAK:
        ways = {name: ways[name] for name in ("srun", "two nodes", "sbatch", "variable")}
    some = ways if SOAK else {name: ways[name] for name in ("sbatch", "variable")}
    site.run("c1", f"rm -rf /root/plugins; cp -a {PLUGINS} /root/plugins; rm {PLUGINS}/*.so")
    own_part(site, " alone")
    assert_refused(site, ways)
    assert "container jobs fail here" in site.run("ctl1", "scontrol show node c1")
    site.run("c1", "systemctl restart slurmd; rm -r /run/pyxis")
    site.wait_node("c1", "idle")
    assert_refused(site, some)
    # As after an upgrade of Slurm: the package is whole, and for another release.
    site.run(
        "c1",
        f"cd {PLUGINS}; cp /root/plugins/*.so spank_pyxis-0.24.0-slurm20.11.so; sha256sum *.so >pyxis.sha256;"
        " systemctl restart slurmd",
    )
    site.wait_node("c1", "idle")
    assert_refused(site, some)
    site.run("c1", f"rm -r {PLUGINS}; mv /root/plugins {PLUGINS}; /usr/lib/trainwright/plugstack")
    own_part(site, "runtime_path=")
    assert attempt(site, {"good": f"srun -Q -w c1 --container-image={image} sh -c 'exit 0'"}) == {
        "good": (0, False)
    }
    assert "container jobs fail here" not in site.run("ctl1", "scontrol show node c1")


@pytest.mark.systems("debian13")
def test_the_package_leaves_plugstack_before_its_files_go(
    quiet_site: Converged, image: str
) -> None:
    """And without the guard slurmd does not start, as jobs could run outside of their containers."""
    site = quiet_site
    site.run("c1", "apt-get -qq remove -y trainwright-pyxis")
    own_part(site, " alone")
    assert_refused(site, {"srun": WAYS["srun"].format(f"--container-image={image}")})
    guard = "/usr/lib/trainwright/guard"
    site.run("c1", f"mv {guard} /root/guard; systemctl restart slurmd || true")
    assert site.run("c1", "systemctl is-active slurmd", check=False) != "active"
    assert "slurmd is not started -> run site.yml" in site.run("c1", "journalctl -u slurmd -n 20")
    site.run("c1", f"mv /root/guard {guard}; systemctl restart slurmd")
    run = site.play("site.yml", "--limit", "c1,slurm_controller", "--tags", "pyxis,slurmd")
    assert any(host == "c1" and "Install Pyxis" in task for host, task in run.changed)
    own_part(site, "runtime_path=")
