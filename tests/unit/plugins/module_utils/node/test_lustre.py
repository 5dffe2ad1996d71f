# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tuning with a stand-in of lctl, in the forms of release 2.15."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.filter.lustre_tuning import lustre_tuning
from ansible_collections.trainwright.slurm.plugins.filter.mount_units import mount_units
from ansible_collections.trainwright.slurm.plugins.module_utils.node import lustre, reboots

ROOT = Path(__file__).resolve().parents[5]
LCTL = """#!/bin/sh
cd {directory}
name=${{2%%=*}}
case $1 in
    get_param) [ -e "$3" ] || {{ echo "error: get_param: param_path '$3': No such file or directory" >&2; exit 2; }}
        cat "$3"; cat "$3" ;;
    set_param) [ -w "$name" ] && [ "$name" != refused ] && case $name in *statahead_agl) false ;; esac &&
        echo "${{2#*=}}" >"$name" || {{ echo "error: set_param: $name: Invalid argument" >&2; exit 22; }} ;;
esac
echo "$*" >>calls
"""


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one file for each parameter; two file systems have the same values."""
    (tmp_path / "lctl").write_text(LCTL.format(directory=tmp_path))
    (tmp_path / "lctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for row in lustre.TABLE:
        (tmp_path / row.name).write_text("8\n")
    (tmp_path / "llite.*.statahead_agl").write_text("1\n")
    return tmp_path


def test_a_large_machine_gets_all_of_it_once(client: Path) -> None:
    changed, told = lustre.tune(192, 2_000_000, False)
    assert not told
    assert changed == [
        "ldlm.namespaces.*.lru_max_age=600000",
        "ldlm.namespaces.*.lru_size=19200",
        "osc.*OST*.max_rpcs_in_flight=32",
        "mdc.*.max_rpcs_in_flight=64",
        "mdc.*.max_mod_rpcs_in_flight=50",
        "llite.*.statahead_max=512",
        "llite.*.statahead_xattr=1",
    ]
    assert (client / "ldlm.namespaces.*.lru_size").read_text() == "19200\n"
    assert lustre.tune(192, 2_000_000, False) == ([], [])
    assert lustre.tune(192, 2_000_000, True) == ([], [])


def test_check_mode_sets_nothing(client: Path) -> None:
    assert len(lustre.tune(192, 2_000_000, True)[0]) == 7
    assert "set_param" not in (client / "calls").read_text()


def test_a_small_machine_reads_ahead_only(client: Path) -> None:
    changed, _told = lustre.tune(64, 64 * 1024, False)
    assert changed == ["llite.*.statahead_max=512", "llite.*.statahead_xattr=1"]


def test_a_client_without_a_parameter(client: Path) -> None:
    (client / "llite.*.statahead_xattr").unlink()
    (client / "llite.*.statahead_max").unlink()
    changed, told = lustre.tune(2, 4000, False)
    assert not changed
    assert told == [
        "lctl get_param llite.*.statahead_max: no answer; it is not tuned -> look at lctl dl"
    ]


def test_a_value_that_is_not_taken_is_named(client: Path) -> None:
    (client / "llite.*.statahead_agl").write_text("0\n")
    told = lustre.tune(2, 4000, False)[1]
    assert len(told) == 1
    assert told[0].startswith("lctl set_param llite.*.statahead_agl=1: the client has 0 (error: ")


def test_options_of_modules_that_are_loaded_ask_for_a_reboot(tmp_path: Path) -> None:
    for one, value in zip(lustre.OPTIONS, ("32", "256")):
        path = tmp_path / "sys/module" / one.module / "parameters"
        path.mkdir(parents=True)
        (path / one.name).write_text(f"{value}\n")
    assert lustre.ask_for_reboot(64, False, str(tmp_path)) == []
    assert lustre.ask_for_reboot(192, True, str(tmp_path)) == ["ksocklnd credits=2560"]
    assert reboots.reboot_reasons(str(tmp_path)) == []
    assert lustre.ask_for_reboot(192, False, str(tmp_path)) == ["ksocklnd credits=2560"]
    (found,) = reboots.reboot_reasons(str(tmp_path))
    assert found == {
        "part": "lustre",
        "reason": "options of Lustre's modules: ksocklnd credits 2560".replace("'", "."),
    }
    assert lustre.ask_for_reboot(192, False, str(tmp_path)) == []


def test_the_unit_sets_what_the_run_reads_back() -> None:
    found = lustre_tuning({"cpus": 192, "memory_mb": 2_000_000})
    assert len(found["commands"]) == len(lustre.TABLE)
    assert found["commands"][1] == "-/usr/sbin/lctl set_param ldlm.namespaces.*.lru_size=19200"
    assert found["modules"] == [
        "options ptlrpc ptlrpcd_per_cpt_max=32",
        "options ksocklnd credits=2560",
    ]
    assert lustre_tuning({"cpus": 64, "memory_mb": 8000})["modules"] == []
    assert mount_units(["/fsx1", "/data/a-b"], "tune", False) == [
        {"name": "tune@fsx1.service", "enabled": False},
        {"name": "tune@data-a\\x2db.service", "enabled": False},
    ]


def test_the_guide_has_the_table() -> None:
    text = (ROOT / "docs/storage.md").read_text("utf-8")
    part = text.split("## Tuning of Lustre's client")[1].split("\n## ")[0]
    for row in (*lustre.TABLE, *lustre.OPTIONS):
        (line,) = [
            line for line in part.splitlines() if re.search(rf"\b{row.name.split('.')[-1]}`", line) and (
                "mdc" in line) == row.name.startswith("mdc")
        ]  # fmt: skip
        assert str(row.value) in line
