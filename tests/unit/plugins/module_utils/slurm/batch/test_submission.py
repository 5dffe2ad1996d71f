# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of a job's options as arguments of sbatch and as documents for slurmrestd."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch import submission
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.options import SBATCH
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from hypothesis import given
from hypothesis import strategies as st

NEW = ("v0.0.39", "v0.0.40", "v0.0.41", "v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45")
SCRIPT = "#!/bin/bash\ntrue\n"
OPTIONS = {
    "job_name": "train",
    "nodes": "2-4",
    "ntasks_per_node": "8",
    "time": "1-02:03:04",
    "mem": "4G",
    "gpus_per_node": "h100:8",
    "exclusive": True,
    "chdir": "/shared",
    "output": "%j.out",
    "environment": {"EPOCHS": 3},
    "arguments": ["--fast", "a b"],
}


def job(api: str = "v0.0.42", version: str = "24.11.5", **options: t.Any) -> dict[str, t.Any]:
    """The job of the document for these options."""
    given = {"job_name": "x", "chdir": "/data", **options}
    found: dict[str, t.Any] = submission.body(SCRIPT, given, api, "", version)["job"]
    return found


def refused(kind: str, **options: t.Any) -> str:
    api = options.pop("api", "v0.0.42")
    with pytest.raises(SlurmError) as raised:
        job(api, **options)
    assert raised.value.kind == kind and " -> " in str(raised.value)
    return str(raised.value)


# -- sbatch ----------------------------------------------------------------------------------------
def test_arguments_are_long_options_and_the_script_comes_by_standard_input() -> None:
    assert submission.arguments(OPTIONS) == [
        "--chdir=/shared",
        "--exclusive",
        "--gpus-per-node=h100:8",
        "--job-name=train",
        "--mem=4G",
        "--nodes=2-4",
        "--ntasks-per-node=8",
        "--output=%j.out",
        "--time=1-02:03:04",
        "/dev/stdin",
        "--fast",
        "a b",
    ]
    assert submission.environment(OPTIONS) == {"EPOCHS": "3"}
    assert submission.arguments({"hold": False, "qos": None}) == ["/dev/stdin"]


WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


OPTION_NAMES = sorted(name.replace("-", "_") for name in SBATCH.known)


@given(st.dictionaries(st.sampled_from(OPTION_NAMES), WORDS))
def test_a_value_never_becomes_an_option_of_its_own(options: dict[str, str]) -> None:
    words = submission.arguments(options)
    assert len(words) == len(set(options) - {"quiet"}) + 1
    assert all(word.startswith("--") and "=" in word for word in words[:-1])


# -- the script's own lines ------------------------------------------------------------------------
def test_directives_in_all_their_forms() -> None:
    script = (
        "#!/bin/bash\n"
        "#SBATCH --nodes=2 -n4\n"
        "# SBATCH --nodes=9\n"
        "\n"
        "#SBATCH -t 10 --exclusive # a comment\n"
        '#SBATCH --comment="two words" --ntasks-per-node 3\n'
        "#SBATCH -H\n"
        "hostname\n"
        "#SBATCH --nodes=99\n"
    )
    assert submission.directives(script) == {
        "nodes": "2",
        "ntasks": "4",
        "time": "10",
        "exclusive": True,
        "comment": "two words",
        "ntasks_per_node": "3",
        "hold": True,
    }


@pytest.mark.parametrize(
    "line", ["hetjob", "-N", "--time", "--comment='x", "-?", "-N 2 x", "--oops"]
)
def test_a_directive_that_cannot_be_read(line: str) -> None:
    with pytest.raises(SlurmError, match="#SBATCH .* -> "):
        submission.directives(f"#!/bin/sh\n#SBATCH {line}\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-Q", {"quiet": True}),
        ("--wait", {"wait": True}),
        ("-W", {"wait": True}),
        ("--stepmgr", {"stepmgr": True}),
        ("--ignore-pbs", {"ignore_pbs": True}),
        ("--container-mount-home", {"container_mount_home": True}),
        ("--nice", {"nice": True}),
        ("--parti=gpu", {"partition": "gpu"}),
    ],
)
def test_a_flag_does_not_take_the_option_after_it_for_its_value(
    line: str, expected: dict[str, t.Any]
) -> None:
    for script in (f"#SBATCH {line} --chdir=/data/run", f"#SBATCH {line}\n#SBATCH -D /data/run"):
        assert submission.directives(f"#!/bin/sh\n{script}\n") == {
            **expected,
            "chdir": "/data/run",
        }


@pytest.mark.parametrize("line", ["-Q", "--wait", "--ignore-pbs", "--parsable"])
@pytest.mark.parametrize("api", ["v0.0.38", *NEW])
def test_what_only_sbatch_acts_on_does_not_reach_slurmrestd(api: str, line: str) -> None:
    script = f"#!/bin/sh\n#SBATCH {line} --chdir=/data/run\ntrue\n"
    found = submission.body(script, {"job_name": "x"}, api, "/home/alice")["job"]
    assert set(found) == {"name", "current_working_directory", "environment"}
    assert found["current_working_directory"] == "/data/run"


def test_stepmgr_is_a_flag_from_24_05_on() -> None:
    assert job("v0.0.41", stepmgr=True)["flags"] == ["STEPMGR_ENABLED"]
    for api in ("v0.0.38", "v0.0.40"):
        assert "--stepmgr" in refused("impossible", api=api, stepmgr=True)


def test_an_option_of_pyxis_is_named_where_slurmrestd_has_no_field() -> None:
    script = "#!/bin/sh\n#SBATCH --container-mount-home --chdir=/data/run\n"
    with pytest.raises(
        SlurmError, match="--container-mount-home: slurmrestd's v0.0.42 has no field"
    ):
        submission.body(script, {"job_name": "x"}, "v0.0.42", "/home/alice")


def test_sbatch_gets_a_script_that_lets_it_answer_at_once() -> None:
    script = (
        "#!/bin/sh\n#SBATCH -QN2 --comment 'a b'\n#SBATCH --wait\n\n#SBATCH -n1 # one\nsrun x\n"
    )
    sent = submission.for_sbatch(script)
    assert sent.split("\n")[1:5] == [
        "#SBATCH --nodes=2 '--comment=a b'",
        "#SBATCH",
        "",
        "#SBATCH -n1 # one",
    ]
    wanted = submission.directives(script)
    assert submission.directives(sent) == {
        name: value for name, value in wanted.items() if name not in ("quiet", "wait")
    }
    for untouched in (SCRIPT, "#!/bin/sh\n#SBATCH --wait --new-option=1\n", "#!/bin/sh\n --wait\n"):
        assert submission.for_sbatch(untouched) == untouched


def test_lines_that_sbatch_ignores_are_not_in_the_way() -> None:
    script = "#!/bin/sh\n #SBATCH --tim=1\n#sbatch -N 3\n#SBATCH -N2\ntrue\n#SBATCH --oops\n"
    assert submission.directives(script) == {"nodes": "2"}


def test_options_of_the_module_go_before_the_script_s() -> None:
    script = "#!/bin/sh\n#SBATCH -N 9 --qos=low -D /data\n"
    found = submission.body(script, {"job_name": "x", "nodes": "1"}, "v0.0.42", "/home/alice")[
        "job"
    ]
    assert (found["nodes"], found["qos"]) == ("1", "low")
    assert found["current_working_directory"] == "/data"
    found = submission.body(SCRIPT, {"job_name": "x"}, "v0.0.42", "/home/alice")["job"]
    assert found["current_working_directory"] == "/home/alice"


# -- slurmrestd ------------------------------------------------------------------------------------
def test_the_document_of_22_05() -> None:
    with pytest.raises(SlurmError, match="arguments: .*23.02"):
        submission.body(SCRIPT, OPTIONS, "v0.0.38", "", "22.05.8")
    options = {**OPTIONS, "arguments": []}
    document = submission.body(SCRIPT, options, "v0.0.38", "", "22.05.8")
    assert document["script"] == SCRIPT
    variables = document["job"].pop("environment")
    assert document["job"] == {
        "name": "train",
        "nodes": "2-4",
        "tasks_per_node": "8",
        "time_limit": "1-02:03:04",
        "memory_per_node": "4G",
        "gpus_per_node": "h100:8",
        "exclusive": "exclusive",
        "current_working_directory": "/shared",
        "standard_output": "/shared/%j.out",
    }
    assert variables == {
        "PATH": submission.DEFAULT_PATH,
        "EPOCHS": "3",
        "SLURM_SUBMIT_DIR": "/shared",
        "SLURM_JOB_NAME": "train",
        "SLURM_NTASKS_PER_NODE": "8",
        "SLURM_GPUS_PER_NODE": "h100:8",
    }


@pytest.mark.parametrize("api", NEW)
def test_the_document_of_later_releases(api: str) -> None:
    document = submission.body(SCRIPT, OPTIONS, api, "", "24.11.5")
    variables = document["job"].pop("environment")
    assert document["job"] == {
        "name": "train",
        "nodes": "2-4",
        "tasks_per_node": 8,
        "time_limit": {"set": True, "infinite": False, "number": 1564},
        "memory_per_node": {"set": True, "infinite": False, "number": 4096},
        "tres_per_node": "gres/gpu:h100:8",
        "shared": ["none"],
        "current_working_directory": "/shared",
        "standard_output": "/shared/%j.out",
        "argv": ["train", "--fast", "a b"],
    }
    assert "EPOCHS=3" in variables and f"PATH={submission.DEFAULT_PATH}" in variables
    json.dumps(document)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"time": "30"}, {"time_limit": {"set": True, "infinite": False, "number": 30}}),
        ({"time": "0:30"}, {"time_limit": {"set": True, "infinite": False, "number": 1}}),
        ({"time": "UNLIMITED"}, {"time_limit": {"set": False, "infinite": True, "number": 0}}),
        ({"mem": "0"}, {"memory_per_node": {"set": True, "infinite": False, "number": 0}}),
        ({"mem_per_cpu": "1.5G"}, {"memory_per_cpu": {"set": True, "infinite": False, "number": 1536}}),
        ({"mem_per_gpu": "2G"}, {"memory_per_tres": "gres/gpu:2048"}),
        ({"gpus": "4"}, {"tres_per_job": "gres/gpu:4"}),
        ({"gpus_per_node": "2", "gres": "nvme:1,gres/x"}, {"tres_per_node": "gres/gpu:2,gres/nvme:1,gres/x"}),
        ({"gpus_per_task": "h100:2"}, {"tres_per_task": "gres/gpu:h100=2"}),
        ({"cpus_per_gpu": "3"}, {"cpus_per_tres": "gres/gpu:3"}),
        ({"nodelist": "c[1-2],d1"}, {"required_nodes": ["c[1-2],d1"]}),
        ({"exclude": "c3"}, {"excluded_nodes": ["c3"]}),
        ({"exclusive": "user"}, {"shared": ["user"]}),
        ({"oversubscribe": True}, {"shared": ["oversubscribe"]}),
        ({"requeue": True}, {"requeue": True}),
        ({"no_requeue": True}, {"requeue": False}),
        ({"no_kill": True}, {"kill_on_node_fail": False}),
        ({"hold": True}, {"hold": True}),
        ({"wait_all_nodes": "0"}, {"wait_all_nodes": False}),
        ({"spread_job": True}, {"flags": ["SPREAD_JOB"]}),
        ({"gres_flags": "disable-binding"}, {"flags": ["GRES_BINDING_DISABLED"]}),
        ({"kill_on_invalid_dep": "no"}, {"flags": ["NO_KILL_INVALID_DEPENDENCY"]}),
        ({"mail_type": "END,time_limit_80"}, {"mail_type": ["END", "TIME=80%"]}),
        ({"mail_type": "NONE"}, {"mail_type": []}),
        ({"open_mode": "append"}, {"open_mode": ["APPEND"]}),
        ({"priority": "7"}, {"priority": {"set": True, "infinite": False, "number": 7}}),
        ({"nice": "-5"}, {"nice": -5}),
        ({"nice": True}, {"nice": 100}),
        (
            {"signal": "B:USR1@120"},
            {
                "kill_warning_signal": "USR1",
                "kill_warning_flags": ["BATCH_JOB"],
                "kill_warning_delay": {"set": True, "infinite": False, "number": 120},
            },
        ),
        (
            {"switches": "2@60"},
            {
                "required_switches": {"set": True, "infinite": False, "number": 2},
                "wait_for_switch": 3600,
            },
        ),
        ({"begin": "now+1hour"}, {"begin_time": "now+1hour"}),
        ({"begin": "1795190400"}, {"begin_time": {"set": True, "infinite": False, "number": 1795190400}}),
        ({"tmp": "1G"}, {"temporary_disk_per_node": 1024}),
        ({"export": "NONE", "verbose": True}, {}),
    ],
)  # fmt: skip
def test_each_kind_of_value(options: dict[str, t.Any], expected: dict[str, t.Any]) -> None:
    found = job(**options)
    plain = job()
    assert {k: v for k, v in found.items() if plain.get(k) != v and k != "environment"} == expected


def test_generic_resources_of_older_releases() -> None:
    assert job("v0.0.39", "23.02.7", gres="gpu:2")["tres_per_node"] == "gres:gpu:2"
    assert job("v0.0.40", "23.11.4", gpus_per_task="2")["tres_per_task"] == "gres/gpu:2"
    assert job("v0.0.39", "23.11.4", gres="gpu:2")["tres_per_node"] == "gres/gpu:2"


def test_a_begin_for_23_02() -> None:
    assert job("v0.0.39", begin="1795190400")["begin_time"] == 1795190400
    assert isinstance(job("v0.0.39", begin="2026-11-20T16:00:00")["begin_time"], int)
    refused("invalid", api="v0.0.39", begin="now+1hour")


def test_what_a_job_of_slurmrestd_knows_of_its_user() -> None:
    document = submission.body(
        SCRIPT, {"job_name": "x"}, "v0.0.42", "/home/alice", "24.11.5", "alice"
    )
    variables = document["job"]["environment"]
    assert {"HOME=/home/alice", "USER=alice", "LOGNAME=alice"} <= set(variables)
    assert not any(variable.startswith("HOME=") for variable in job()["environment"])


def test_the_user_s_environment_on_demand() -> None:
    assert "SLURM_GET_USER_ENV=1" in job(get_user_env=True)["environment"]


@pytest.mark.parametrize("api", ["v0.0.38", "v0.0.42"])
def test_an_option_without_a_field_is_named(api: str) -> None:
    assert "--propagate" in refused("impossible", api=api, propagate="ALL")


@pytest.mark.parametrize(
    "option, value",
    [
        ("time", "soon"),
        ("mem", "much"),
        ("ntasks", "two"),
        ("signal", "@60"),
        ("gres_flags", "x"),
        ("switches", "many"),
    ],
)
def test_a_value_that_is_none_is_refused(option: str, value: str) -> None:
    assert value in refused("invalid", **{option: value})


# Names that begin with SLURM_ are Slurm's own: it sets them whatever is given.
@given(
    st.sampled_from(["v0.0.37", "v0.0.38", *NEW]),
    st.dictionaries(WORDS.filter(lambda name: not name.startswith("SLURM_")), WORDS),
)
def test_any_environment_arrives(api: str, variables: dict[str, str]) -> None:
    found = job(api, environment=variables)["environment"]
    if isinstance(found, list):
        assert api in NEW
        assert {f"{k}={v}" for k, v in variables.items() if k not in ("PATH",)} <= set(found)
    else:
        assert variables.items() <= found.items()
