# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the reasons and remedies of failed tasks."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.plugin_utils.explain import explain


@pytest.mark.parametrize(
    ("result", "why", "remedy"),
    [
        ({"msg": "gpu07: no munge key -> run site.yml"}, "gpu07: no munge key", "run site.yml"),
        ({"msg": "bad", "remedy": "do better"}, "bad", "do better"),
        ({"msg": "two\n  lines"}, "two lines", ""),
        (
            {
                "msg": "2 problems found before anything was changed:\nc1: a: no -> yes\nc2: b: no -> write x"
            },
            "2 problems found before anything was changed: c1: a: no -> yes; c2: b: no",
            "write x",
        ),
        (
            {"msg": "3 problems found:\n" + f"c1: a: {'x' * 150} -> y\n" * 3},
            f"3 problems found: c1: a: {'x' * 150}",
            "y; 2 more in the message above",
        ),
        ({"msg": "1 problem found:\nc1: a: no -> yes"}, "1 problem found: c1: a: no", "yes"),
        ({"msg": "said:\n  a\n  b -> c"}, "said: a b", "c"),
        ({"censored": "hidden"}, "the task's result is hidden because it holds secrets", ""),
        (
            {"msg": "non-zero return code", "rc": 2, "stderr": "x\nsinfo: error: no controller"},
            "non-zero return code 2: sinfo: error: no controller",
            "",
        ),
        (
            {"msg": "items", "results": [{"msg": "fine"}, {"failed": True, "msg": "b -> c"}]},
            "b",
            "c",
        ),
        ({}, "no message", ""),
    ],
)
def test_failed(result: dict[str, t.Any], why: str, remedy: str) -> None:
    """The message is made one line and split at its remedy."""
    assert explain(result) == (why, remedy)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("ssh: connect to host x port 22: Connection timed out", "start the machine"),
        ("ssh: connect to host x port 22: Connection refused", "the machine is up"),
        ("root@x: Permission denied (publickey).", "check ansible_user"),
        ("ssh: Could not resolve hostname x: Name or service not known", "set ansible_host"),
        ("Host key verification failed.", "if the machine was installed anew"),
        ("something new", "try ssh"),
    ],
)
def test_unreachable(said: str, remedy: str) -> None:
    """What ssh says is turned into what to do."""
    assert explain({"msg": f"Failed to connect: {said}"}, unreachable=True)[1].startswith(remedy)


def test_a_cut_message_keeps_its_remedy() -> None:
    """A long reason never swallows the remedy."""
    why, remedy = explain({"msg": "x" * 1000 + " -> do this"})
    assert len(why) == 400
    assert remedy == "do this"


def test_a_reason_in_a_variable_is_shown_without_where_it_was_resolved() -> None:
    message = (
        "Task failed: Finalization of task args for 'trainwright.slurm.config_files' failed: Error while "
        "resolving value for 'directories': role slurmd needs the cluster model -> run role trainwright.slurm.cluster"
    )
    assert explain({"failed": True, "msg": message}) == (
        "role slurmd needs the cluster model",
        "run role trainwright.slurm.cluster",
    )


DENIED = (
    "slurmdbd: error: mysql_real_connect failed: 1045 Access denied for user 'slurm'@'localhost'"
)


@pytest.mark.parametrize(
    ("journal", "told"),
    [
        ([f"Nov 26 21:00:01 ctl1 slurmdbd[77]: {DENIED}"] * 9, DENIED),
        (
            [
                "Nov 26 21:00:01 ctl1 slurmctld[7]: slurmctld: fatal: CLUSTER ID MISMATCH.",
                "Nov 26 21:00:02 ctl1 slurmctld[7]: slurmctld: error: later",
                "Nov 26 21:00:03 ctl1 systemd[1]: slurmctld.service: Failed with result 'exit-code'.",
            ],
            "slurmctld: fatal: CLUSTER ID MISMATCH.",
        ),
        (
            [
                "Nov 26 21:00:01 ctl1 slurmctld[7]: slurmctld: fatal: CLUSTER ID MISMATCH.",
                "Nov 26 21:00:01 ctl1 slurmctld[7]: slurmctld has been started with another ID",
                "Nov 26 21:00:01 ctl1 slurmctld[7]: Remove clustername",
                "Nov 26 21:00:03 ctl1 systemd[1]: slurmctld.service: Failed with result 'exit-code'.",
            ],
            "slurmctld: fatal: CLUSTER ID MISMATCH. slurmctld has been started with another ID",
        ),
        (
            [
                "Nov 28 05:14:52 login1 slurmd[2347]: error: _fetch_child: failed to fetch remote configs: Zero Bytes",
                "Nov 28 05:14:52 login1 slurmd[2346]: error: _establish_configuration: failed to load configs",
                "Nov 28 05:14:52 login1 slurmd[2346]: error: slurmd initialization failed",
            ],
            "error: _fetch_child: failed to fetch remote configs: Zero Bytes",
        ),
        (
            ["Nov 28 05:14:52 login1 slurmd[2346]: error: slurmd initialization failed"],
            "error: slurmd initialization failed",
        ),
        (["Nov 26 21:00:01 ctl1 systemd[1]: x.service: Killed."], "x.service: Killed."),
        (["(nothing)"], "(nothing)"),
    ],
)
def test_a_service_that_failed_is_told_with_one_line_of_its_journal_and_its_remedy(
    journal: list[str], told: str
) -> None:
    """A whole journal would be cut before both."""
    lines = "\n".join(journal)
    message = (
        "slurmdbd.service: was not ready within 90 s: nothing listens on port 6819\n"
        f"Last lines of its journal:\n{lines}"
        "\nRemedy: fix what the journal names (`systemctl status slurmdbd.service` shows more) and run again"
    )
    why, remedy = explain({"failed": True, "msg": message})
    assert why.startswith(
        "slurmdbd.service: was not ready within 90 s: nothing listens on port 6819: "
    )
    assert why.endswith(told) and "Last lines" not in why
    assert remedy.startswith("fix what the journal names (")


def test_a_change_in_the_words_of_a_remedy_does_not_cut_it() -> None:
    message = "c1: it broke. Remedy: set KillWait: 30 -> 40 again"
    assert explain({"msg": message}) == ("c1: it broke.", "set KillWait: 30 -> 40 again")
