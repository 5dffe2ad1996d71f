# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What Slurm reads is allowed, by release; what it cannot read is not."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import releases
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import (
    parameters,
    valid,
    value_tables,
)

NEWEST = releases.KNOWN[-1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("KillWait", "30"),
        ("KillWait", "0x1e"),
        ("MaxJobCount", "100000"),
        ("DefMemPerCPU", "UNLIMITED"),
        ("DefMemPerNode", "64K"),
        ("TrackWCKey", "Yes"),
        ("PriorityMaxAge", "14-0"),
        ("PreemptExemptTime", "-1"),
        ("PreemptMode", "SUSPEND,GANG"),
        ("SlurmdDebug", "debug2"),
        ("PrologFlags", "alloc,x11"),
        ("SelectTypeParameters", "CR_Core_Memory,CR_LLN"),
        ("SchedulerParameters", "bf_window=4320,anything"),
        ("EnforcePartLimits", "ALL"),
    ],
)
def test_what_every_slurm_reads(name: str, text: str) -> None:
    for version in releases.KNOWN:
        assert valid.fault("slurm.conf", name, text, version) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("State", "UP"),
        ("OverSubscribe", "FORCE:4"),
        ("OverSubscribe", "no"),
        ("MaxTime", "7-00:00:00"),
        ("MaxTime", "INFINITE"),
        ("DefaultTime", "1:30:00"),
        ("MaxNodes", "UNLIMITED"),
        ("OverTimeLimit", "UNLIMITED"),
        ("GraceTime", "120"),
        ("LLN", "true"),
    ],
)
def test_what_a_partition_may_have(name: str, text: str) -> None:
    assert valid.fault("PartitionName", name, text, "24.11.5") is None


def test_words_have_their_releases() -> None:
    assert valid.fault("slurm.conf", "PreemptMode", "REQUEUE,PRIORITY", "26.05.1") is None
    assert valid.fault("slurm.conf", "PreemptMode", "REQUEUE,PRIORITY", "22.05.8")
    assert valid.fault("cgroup.conf", "CgroupPlugin", "disabled", "23.11.1")
    assert valid.fault("cgroup.conf", "CgroupPlugin", "disabled", "24.11.5") is None


def test_a_newer_slurm_may_have_more() -> None:
    assert valid.fault("slurm.conf", "PreemptMode", "REQUEUE,NEW", "27.11") is None
    assert list(valid.unknown_plugins("ProctrackType", "proctrack/new", "27.11")) == []
    assert valid.fault("slurm.conf", "KillWait", "soon", "27.11")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ProctrackType", "proctrack/linuxproc"),
        ("TaskPlugin", "task/affinity,cgroup"),
        ("MpiDefault", "pmix_v4"),
        ("JobSubmitPlugins", "lua,require_timelimit"),
        ("AccountingStorageType", "accounting_storage/slurmdbd"),
        ("TopologyPlugin", "topology/tree"),
        ("MCSPlugin", "mcs/none"),
        ("JobContainerType", "job_container/tmpfs"),
        ("HashPlugin", "k12"),
    ],
)
def test_plugins_of_every_slurm(name: str, text: str) -> None:
    for version in releases.KNOWN:
        assert list(valid.unknown_plugins(name, text, version)) == []


def test_a_plugin_is_a_file_or_no_name_at_all() -> None:
    assert list(valid.unknown_plugins("ProctrackType", "proctrack/site", NEWEST)) == [
        ("proctrack/site", "proctrack_site", "")
    ]
    assert list(valid.unknown_plugins("ProctrackType", "cgroup", NEWEST)) == [
        ("cgroup", "", "; did you mean proctrack/cgroup?")
    ]
    assert next(valid.unknown_plugins("SelectType", "select/../x", NEWEST))[1] == ""


def test_the_tables_name_options_that_exist() -> None:
    known = {
        name.lower()
        for file in parameters.ALWAYS
        for name in (*parameters.ALWAYS[file], *parameters.SOME.get(file, {}))
    }
    named = [name for names in value_tables.TYPES.values() for name in names.split()]
    named += [name for _file, name in value_tables.CHOICES]
    named += [*value_tables.PLUGIN_OPTIONS, *value_tables.PROGRAMS, *value_tables.JOINED]
    assert {name for name in named if name.lower() not in known} == set()
    assert set(value_tables.NEEDED) <= set(value_tables.JOINED)
    kinds = {kind for kind, _several in value_tables.PLUGIN_OPTIONS.values()}
    assert kinds == set(value_tables.PLUGINS) >= set(value_tables.SHORT)
