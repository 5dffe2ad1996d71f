# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values with which users cannot work: what is accepted or only reported. bad_more_values.py has the refusals."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks import lockouts
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.ignored_words import (
    messages,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.needed_files import (
    needed_files,
)

from tests.unit.cluster import ROOT, inputs


def of(slurm_conf: dict[str, t.Any], **settings: t.Any) -> list[str]:
    given = inputs(2, slurm_conf=slurm_conf, **settings)
    return [str(problem) for check in lockouts.CHECKS for problem in check(given)]


@pytest.mark.parametrize(
    "slurm_conf",
    [
        {
            "SlurmctldParameters": "rl_bucket_size=1,rl_refill_rate=1,rl_refill_period=10,rl_log_freq=-1"
        },
        {
            "SlurmdTimeout": 0,
            "SlurmctldTimeout": 2,
        },  # 0: other programs look after nodes; one controller
        {"SlurmdTimeout": 30, "UnkillableStepTimeout": 30},
        {"SlurmdTimeout": 20, "MessageTimeout": 20},
        {"SlurmdTimeout": None, "InteractiveStepOptions": None, "SlurmctldParameters": None},
        {"InteractiveStepOptions": '"--interactive --preserve-env --pty $SHELL -l"'},
        {
            "InteractiveStepOptions": "--interactive --mem-per-cpu=0 --gres gpu:0 -n1 --pty bash -c 'exec x'"
        },
    ],
)
def test_what_is_accepted(slurm_conf: dict[str, t.Any]) -> None:
    assert of(slurm_conf) == []


def test_an_option_of_a_plugin_of_the_sites_own_is_accepted() -> None:
    conf = {"InteractiveStepOptions": "--interactive --site-option=1 --pty bash"}
    assert len(of(conf)) == 1
    assert of(conf, slurm_plugstack=["optional /opt/site/x.so"]) == []


@pytest.mark.parametrize(
    ("nodes", "refused"),
    [
        ("ALL", 0),
        ("all", 0),
        ("login1", 0),
        ("c[1-2],login1", 0),
        ("c1", 1),
        ("ctl1", 1),
        ("login[2-9]", 1),
    ],
)
def test_hosts_that_submit(nodes: str, refused: int) -> None:
    spec = {
        "name": "batch",
        "groups": ["slurm_compute"],
        "default": True,
        "options": {"allocnodes": nodes},
    }
    assert len(of({}, slurm_partitions=[spec])) == refused


def test_a_cluster_without_login_hosts_names_what_it_likes() -> None:
    spec = {
        "name": "batch",
        "groups": ["slurm_compute"],
        "default": True,
        "options": {"AllocNodes": "ctl1"},
    }
    given = inputs(2, slurm_partitions=[spec])
    given["groups"]["slurm_login"] = []
    assert list(lockouts.allocating(given)) == []


def test_the_timeout_of_messages_is_that_of_the_role() -> None:
    lines = yaml.safe_load((ROOT / "roles/slurmctld/vars/main/slurm_conf.yml").read_text("utf-8"))
    values = {
        key: value for row in lines.values() if isinstance(row, dict) for key, value in row.items()
    }
    assert values["MessageTimeout"] == lockouts.MESSAGE_TIMEOUT


def test_what_is_ignored_is_reported_and_not_refused() -> None:
    conf = {
        "LaunchParameters": "site_word,srun_exclusive_allocation",
        "SchedulerParameters": {"x": 1},
        "KillWait": 30,
    }
    said = (
        "slurm_conf.LaunchParameters: Slurm 24.11 ignores site_word (in no release that is known here),"
        " srun_exclusive_allocation (from 26.05)"
    )
    assert messages({"slurm_conf": conf}, "24.11") == [said]
    assert messages({"slurm_conf": {"LaunchParameters": "mem_sort"}}, "26.05") == [
        "slurm_conf.LaunchParameters: Slurm 26.05 ignores mem_sort (until 25.11)"
    ]
    del conf["SchedulerParameters"]
    given = inputs(2, slurm_conf=conf)
    assert problems(given) == []
    (found,) = [one for one in build_model(given)["messages"] if "site_word" in one]
    assert found.startswith("slurm_conf.LaunchParameters: Slurm ")


def test_a_script_of_the_commands_in_another_place() -> None:
    """Without CliFilterParameters (25.11), the hosts get that of the controllers."""
    conf = {
        "CliFilterPlugins": "lua",
        "CliFilterParameters": "cli_filter_lua_path=/opt/site/filter.lua",
    }
    (found,) = needed_files(conf, [], "25.11")
    assert found.paths == ("/opt/site/filter.lua",) and "slurm_login" in found.groups
    (found,) = needed_files({"CliFilterPlugins": ["user_defaults", "cli_filter/lua"]}, [], "25.11")
    assert found.paths == ("/etc/slurm/cli_filter.lua",) and found.groups == ("slurm_controller",)
