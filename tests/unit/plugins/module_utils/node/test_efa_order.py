# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which steps run on a host, and what an order has. tests/unit/plugins/modules/test_efa_installer.py has its life."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.health.host import Host
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    efa,
    efa_order,
    kernel_modules,
    reboots,
)


def test_steps_are_those_of_jobs(tmp_path: Path) -> None:
    """The titles are those of Slurm 24.11 in `ps`; the one without a step keeps Slurm's cgroup."""
    titles = {
        "11": "slurmstepd: [42.batch]\0",
        "12": "slurmstepd: [7.0]",
        "13": "/usr/sbin/slurmstepd\0infinity\0",
        "14": "grep\0slurmstepd: [\0",
        "self": "slurmstepd: [8.0]",
    }
    for pid, title in titles.items():
        process(tmp_path, pid, title)
    assert efa_order.steps(str(tmp_path)) == ["42.batch", "7.0"]


def process(
    root: Path, pid: str, title: str, uids: str = "0\t1000", exe: str = "/usr/sbin/slurmstepd"
) -> None:
    """Make a process in /proc; slurmstepd's effective user is the job's for a while."""
    directory = root / "proc" / pid
    directory.mkdir(parents=True)
    (directory / "cmdline").write_text(title)
    (directory / "comm").write_text("slurmstepd\n")
    (directory / "status").write_text(f"Name:\tslurmstepd\nUid:\t{uids}\t0\t0\nGid:\t0\t0\t0\t0\n")
    if exe:
        (directory / "exe").symlink_to(exe)


@pytest.mark.parametrize(
    ("given", "is_step"),
    [
        ({"uids": "1000\t1000", "exe": "/home/user/slurmstepd"}, False),
        # exec -a 'slurmstepd: [1.0]' of a program with the set-user-id bit.
        ({"uids": "1000\t0", "exe": "/usr/bin/su"}, False),
        ({"uids": "0\t0", "exe": "/usr/bin/dash"}, False),
        ({"uids": "0\t0", "exe": "/usr/sbin/slurmstepd (deleted)"}, True),
        ({"uids": "0\t0", "exe": ""}, True),
    ],
)
def test_a_name_that_any_user_can_give_is_not_a_step(
    tmp_path: Path, given: dict[str, str], is_step: bool
) -> None:
    process(tmp_path, "11", "slurmstepd: [1.0]", **given)
    assert efa_order.steps(str(tmp_path)) == (["1.0"] if is_step else [])


@pytest.mark.parametrize(("uids", "is_step"), [("0\t0", True), ("1000\t1000", False)])
def test_the_agent_does_not_believe_the_name_either(
    tmp_path: Path, uids: str, is_step: bool
) -> None:
    process(tmp_path, "11", "slurmstepd: [1.0]", uids)
    assert Host({}, root=str(tmp_path)).has_jobs() == is_step


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_an_order_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "order"
    assert efa_order.waiting(str(path)) == {}
    path.write_text(text)
    assert efa_order.waiting(str(path)) == {}


def test_an_order_has_what_the_installer_needs(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    params = {key: key for key in efa_order.KEYS}
    path = tmp_path / "order"
    efa_order.write(efa_order.order({**params, "src": "/on/the/control/node"}), str(path))
    assert json.loads(path.read_text()) == efa_order.waiting(str(path)) == params
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_reason_is_one_that_slurm_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efa, "manifest", lambda: efa.Manifest("1.46.0"))
    older = efa.Decision("install", "EFA 1.46.0 is older than 1.47.0")
    text = efa_order.reason("1.47.0", older)
    assert text == reboots.plain(text) == "EFA 1.47.0 instead of 1.46.0, which jobs may use"
    again = efa.Decision("install", "packages of EFA 1.46.0 are missing: rdma-core")
    assert (
        efa_order.reason("1.46.0", again)
        == "EFA 1.46.0 again, since packages of EFA 1.46.0 are missing: rdma-core"
    )


@pytest.mark.parametrize("held", [False, True])
def test_a_boot_loads_the_new_module_or_asks_for_another_one(
    monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    loaded, calls, asked = ["2.8.0"], [], []

    def run(argv: list[str], _seconds: float) -> None:
        calls.append(argv)
        if argv[-2:] == ["modprobe", "efa"] and not held:
            loaded[0] = "3.0.0"

    monkeypatch.setattr(efa_order, "run", run)
    monkeypatch.setattr(kernel_modules, "loaded_version", lambda _name: loaded[0])
    monkeypatch.setattr(kernel_modules, "installed_version", lambda _name: "3.0.0")
    monkeypatch.setattr(efa, "ask_for_reboot", lambda why, **_given: asked.append(why))
    efa_order._load_new_module()
    assert calls == [["modprobe", "--remove", "efa"], ["modprobe", "efa"]]
    assert asked == (["kernel module efa 2.8.0 is loaded, 3.0.0 is installed"] if held else [""])
