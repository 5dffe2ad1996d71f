# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Words that a Slurm ignores in SchedulerParameters and the like, with the word that was meant where it is near."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import releases
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import (
    parameters,
    word_tables,
    words,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.valid import in_release


@pytest.mark.parametrize(
    ("one", "other", "off"),
    [("", "", 0), ("defer", "defer", 0), ("defre", "defer", 1), ("bf_window", "bf_windows", 1),
     ("bfcontinue", "bf_continue", 1), ("kitten", "sitting", 3), ("ab", "", 2)],
)  # fmt: skip
def test_letters(one: str, other: str, off: int) -> None:
    assert words.letters_off(one, other) == words.letters_off(other, one) == off


@pytest.mark.parametrize(
    ("name", "text", "version", "found"),
    [
        ("SchedulerParameters", "bf_continue,BF_Interval=30, defer", "22.05", []),
        ("SchedulerParameters", "bf_yield_rpc_cnt=3", "24.11", [("bf_yield_rpc_cnt", "", "25.05-")]),
        ("SchedulerParameters", "bf_yield_rpc_cnt=3", "25.05", []),
        ("SchedulerParameters", "no_env_cache", "25.05", [("no_env_cache", "", "-24.11")]),
        ("SlurmctldParameters", "enable_job_state_cache", "24.05",
         [("enable_job_state_cache", "", "23.11-23.11")]),
        # Words that are near each other.
        ("SchedulerParameters", "sched_interval=5,interval=5,bf_interval=5", "22.05", []),
        ("schedulerparameters", "bf_contineu", "22.05", [("bf_contineu", "bf_continue", "")]),
        ("SchedulerParameters", "site_word=1", "22.05", [("site_word", "", "")]),
        ("AuthInfo", "tls=5", "24.11", [("tls", "", "")]),
        ("AuthInfo", "top=5", "24.11", [("top", "", "")]),
        # Newer than the table, of an unknown release, and an option without a table.
        ("SchedulerParameters", "bf_contineu", "27.05", []),
        ("SchedulerParameters", "bf_yield_rpc_cnt=3,defre", "", [("defre", "defer", "")]),
        ("SwitchParameters", "def_txqs=3", "24.11", []),
    ],
)  # fmt: skip
def test_words(name: str, text: str, version: str, found: list[tuple[str, str, str]]) -> None:
    assert [tuple(one) for one in words.ignored(name, text, version)] == found


def test_tables_are_of_options_and_releases_that_exist() -> None:
    known = {*parameters.ALWAYS["slurm.conf"], *parameters.SOME["slurm.conf"]}
    assert set(word_tables.WORDS) <= known
    for table in word_tables.WORDS.values():
        for entry in table.split():
            span = entry.partition(":")[2]
            assert {one for one in span.split("-") if one} <= set(releases.KNOWN), entry
    # What the collection itself writes is never called unknown.
    ours = {"SlurmctldParameters": {"enable_configless", "rl_enable"}, "SlurmdParameters": {"config_overrides"},
            "AuthAltParameters": {"jwt_key", "max_token_lifespan", "disable_token_creation"}}  # fmt: skip
    for name, needed in ours.items():
        assert needed <= set(in_release(word_tables.WORDS[name], "23.02"))
