# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outputs become results: expectations, gates, broken measurements, the network of NCCL."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Result, Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware import thresholds
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    expectation,
    judge,
    own,
    references,
    verdicts,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import Check
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.collect import Output
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.plan import Host
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.verdicts import Place

from .stand_in import transfer

HOSTS = {name: Host(name, declared={"gpus": 8, "machine_type": "t"}) for name in ("a", "b", "c")}


def check(**more: t.Any) -> Check:
    return Check(**{"name": "one", "stage": "node", "title": "x", "command": "y", **more})


def judged(expect: t.Any, **found: t.Any) -> dict[str, Result]:
    return {one.host: one for one in expectation.judge(check(expect=expect), HOSTS, found)}


@pytest.mark.parametrize(
    ("expect", "value", "good"),
    [
        ({"is": "unlimited"}, "unlimited\n", True),
        ({"is": "unlimited"}, "64", False),
        ({"is": 2}, "2", True),
        ({"is": 2}, "two", False),
        ({"least": 1024}, "1024", True),
        ({"least": 1024}, "1023", False),
        ({"least": 1}, "", False),
        ({"least": 1}, "nan", False),
        ({"most": 5}, "4.9", True),
        ({"most": 5}, "inf", False),
        ({"declared": "gpus"}, "8", True),
        ({"declared": "gpus"}, "7", False),
        ({"declared": "efa"}, "1", False),
        ({"declared": "machine_type"}, "t", True),
        ({"matches": "^in"}, "inside", True),
        ({"matches": "^in"}, "outside", False),
        ({"lacks": "."}, "", True),
        ({"lacks": "."}, "/shared is not mounted", False),
    ],
)
def test_expectations(expect: t.Any, value: str, good: bool) -> None:
    one = judged(expect, a=value)["a"]
    assert (one.verdict is Verdict.PASS) is good and bool(one.remedy) is not good


def test_the_same_as_on_most_nodes() -> None:
    found = judged("same", a="6.1", b="6.2", c="6.1")
    assert found["b"].verdict is Verdict.FAIL and found["b"].threshold == "6.1"
    assert found["a"].verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ({"a": "6.1", "b": "6.2"}, "6.1 on a; 6.2 on b"),
        ({"a": "6.1", "b": "6.2", "c": "6.3"}, "6.1 on a; 6.2 on b; 6.3 on c"),
        ({"a": "2", "b": "1", "c": "2", "d": "1"}, "1 on b,d; 2 on a,c"),
        ({"a": "2", "b": "1", "c": "2", "d": "3"}, "1 on b; 2 on a,c; 3 on d"),
    ],
)
@pytest.mark.parametrize(
    ("verdict", "given"), [("FAIL", Verdict.INCOMPLETE), ("WARN", Verdict.WARN)]
)
def test_a_tie_names_nobody(
    found: dict[str, str], shown: str, verdict: str, given: Verdict
) -> None:
    (one,) = expectation.judge(
        check(expect="same", verdict=verdict), {**HOSTS, "d": Host("d")}, found
    )
    assert (one.host, one.verdict, one.value) == ("cluster", given, shown)
    assert "no value is on most" in one.detail and one.remedy
    places = {name: Place((HOSTS.get(name, Host(name)),), log="/log") for name in found}
    readings = {name: verdicts.Reading(text=value) for name, value in found.items()}
    assert verdicts.expected(check(expect="same", verdict=verdict), places, readings) == [one]


def test_one_node_differs_from_nobody() -> None:
    one = judged("same", a="6.1")["a"]
    assert (one.verdict, one.value) == (Verdict.NOT_APPLICABLE, "6.1")
    assert one.detail == "not judged: there is no other node to compare with"


def test_a_hostile_text_is_one_line_without_control_characters() -> None:
    one = judged({"is": "x"}, a="\x1b[31mred\n" + "y" * 1000)["a"]
    assert (
        "\x1b" not in str(one.value) and "\n" not in str(one.value) and len(str(one.value)) <= 220
    )


@pytest.mark.parametrize("text", ["", " \n\t\n"])
@pytest.mark.parametrize(
    ("expect", "verdict"),
    [
        (None, Verdict.INCOMPLETE),
        ("same", Verdict.INCOMPLETE),
        ({"lacks": "broken"}, Verdict.INCOMPLETE),
        ({"matches": "fine"}, Verdict.FAIL),
        ({"least": 1}, Verdict.FAIL),
        ({"is": ""}, Verdict.PASS),
        ({"matches": "^$"}, Verdict.PASS),
    ],
)
def test_a_command_that_printed_nothing_passes_only_where_nothing_is_expected(
    text: str, expect: t.Any, verdict: Verdict
) -> None:
    asks = check(expect=expect)
    places = {name: Place((HOSTS[name],), log="/log") for name in HOSTS}
    readings = {name: verdicts.read(asks, Output(text, 0)) for name in HOSTS}
    found = verdicts.expected(asks, places, readings)
    assert [one.host for one in found] == list(HOSTS)
    assert {one.verdict for one in found} == {verdict}
    if verdict is Verdict.INCOMPLETE:
        assert {one.detail for one in found} == {"printed nothing"} and found[0].remedy


PLACE = Place((HOSTS["a"],), log="/log")
MEASURE = check(parser="transfer", figures=("busbw", "latency_us"))


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (None, "missing in the log"),
        (Output("", None), "its end is missing"),
        (Output("x", 124), "deadline"),
        (Output("bash: fio: not found", 127), "missing or cannot run: bash: fio"),
        (Output("MPI has one rank", 1), "ended with 1: MPI has one rank"),
        (
            Output("/x: somebody else has put it there\nsrun: Terminating StepId=38.1", 1),
            "ended with 1: /x: somebody else",
        ),
        (Output("", 0), "no output"),
        (Output(transfer(1.0)[:-9], 0), ""),
    ],
)
def test_a_measurement_that_says_nothing_is_incomplete(output: Output | None, words: str) -> None:
    reading = verdicts.read(MEASURE, output)
    assert reading.why and words in reading.why
    assert verdicts.unread(MEASURE, PLACE, reading).verdict is Verdict.INCOMPLETE


def test_a_command_whose_answer_is_a_failure_fails() -> None:
    asks = check(expect={"matches": "ok"})
    failed = verdicts.read(asks, Output("pyxis: couldn't start container", 1))
    assert verdicts.unread(asks, PLACE, failed).verdict is Verdict.FAIL
    missing = verdicts.read(asks, Output("nvidia-smi: not found", 127))
    assert verdicts.unread(asks, PLACE, missing).verdict is Verdict.INCOMPLETE


def test_a_step_that_srun_does_not_start_says_nothing_of_the_node() -> None:
    asks = check(expect={"matches": "ok"}, remedy="repair the node")
    said = "srun: error: Invalid MPI type 'pmiy', --mpi=list for acceptable types\n"
    found = verdicts.unread(asks, PLACE, verdicts.read(asks, Output(said, 1)))
    assert found.verdict is Verdict.INCOMPLETE and "Invalid MPI type 'pmiy'" in found.detail
    assert found.remedy == "see validate_srun_options, and srun_options of the check"
    # A task that ran and failed is an answer.
    ran = verdicts.read(asks, Output("srun: error: c1: task 0: Exited with exit code 3", 3))
    assert verdicts.unread(asks, PLACE, ran).verdict is Verdict.FAIL


ROWS = thresholds.table([{"type": "t", "test": "all_reduce", "nodes": 1, "reference": 10}])


def results(value: float, figure: str = "busbw", named: t.Any = None) -> Result:
    one = check(parser="transfer", figures=(figure,), references=named or {figure: "all_reduce"})
    reading = verdicts.read(one, Output(transfer(value, value), 0))
    made, _gates = references.References(rows=ROWS).judged(one, {"a": PLACE}, {"a": reading})
    return made[0]


def test_a_reference_has_a_warning_and_a_floor() -> None:
    assert [results(value).verdict for value in (10, 9.1, 8.9, 8.1, 7.9)] == [
        Verdict.PASS, Verdict.PASS, Verdict.WARN, Verdict.WARN, Verdict.FAIL,
    ]  # fmt: skip
    assert results(9).threshold == 10 and "validate" not in results(9).provenance


def test_less_is_better_for_a_time() -> None:
    found = [results(us, "latency_us", {"latency_us": 8}).verdict for us in (8, 8.8, 9.5, 10.1)]
    assert found == [Verdict.PASS, Verdict.PASS, Verdict.WARN, Verdict.FAIL]


def test_peers_judge_where_nothing_else_does() -> None:
    one = check(parser="transfer", figures=("busbw",))
    hosts = {f"n{number}": Host(f"n{number}") for number in range(7)}
    values = {name: 10.0 for name in hosts} | {"n3": 5.0}
    places = {name: Place((host,)) for name, host in hosts.items()}
    readings = {name: verdicts.read(one, Output(transfer(values[name]), 0)) for name in hosts}
    made, found = references.References().judged(one, places, readings)
    assert [r.host for r in made if r.verdict is Verdict.FAIL] == ["n3"]
    assert found["n3", "busbw"][0] == 8.0
    few = {name: readings[name] for name in list(places)[:5]}
    made, found = references.References().judged(one, places, few)
    assert {r.verdict for r in made} == {Verdict.NOT_APPLICABLE} and found["n3", "busbw"][0] is None


def test_provisioned_throughput_and_the_baseline() -> None:
    one = check(parser="ours", figures=("write",))
    place = Place((HOSTS["a"],), mount="/fsx", suffix="fsx")
    reading = verdicts.read(one, Output('{"trainwright": 1, "figures": {"write": 0.9}}', 0))
    known = references.References(
        provisioned={"/fsx": {"write": 2.0}},
        baseline=judge.Baseline("r1", {("one.fsx", "a", "peak"): 1.0}),
    )
    made, found = known.judged(one, {"x": place}, {"x": reading})
    assert [(r.check, r.verdict.value, r.threshold) for r in made] == [
        ("one.fsx", "FAIL", 2.0), ("one.fsx.baseline", "PASS", 1.0),
    ]  # fmt: skip
    assert found["x", "write"] == (1.6, "validate_storage of /fsx")


def test_launchers_are_not_compared_with_nothing() -> None:
    group = [check(name=name, compare="launchers") for name in ("mpirun", "srun")]
    found = verdicts.compared("mpi", group, {"mpirun": 0.0, "srun": 0.0})
    assert [one.verdict for one in found] == [Verdict.INCOMPLETE] * 2
    assert all("0" in one.detail and one.remedy and one.value is None for one in found)
    found = verdicts.compared("mpi", group, {"mpirun": 2.0, "srun": 0.0})
    assert [(one.verdict, one.value) for one in found] == [
        (Verdict.PASS, 100), (Verdict.FAIL, 0),
    ]  # fmt: skip


def test_nccl_must_use_the_declared_network() -> None:
    hosts = tuple(Host(name, declared={"efa": 4, "gpus": 8}) for name in ("a", "b"))
    place = Place(hosts, log="/log")
    line = "a:1:2 [0] NCCL INFO {}\nb:1:2 [0] NCCL INFO {}\n"
    for said, verdict in (
        ("NET/OFI Selected provider is efa, fabric is efa (found 4 nics)", Verdict.PASS),
        ("Using network Socket", Verdict.FAIL),
        ("nothing of the network", Verdict.INCOMPLETE),
    ):
        text = line.format(said, said)
        if verdict is Verdict.PASS:
            text += line.format("Using network AWS Libfabric", "Using network AWS Libfabric")
        one = check(network=True, parser="transfer", figures=("busbw",))
        reading = verdicts.Reading(parsed=own.Own(), text=text)
        (found,) = verdicts.broken(one, place, reading)
        assert found.verdict is verdict and found.check == "one.network", (said, found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"trainwright": 1, "figures": {"write": NaN}}',
        '{"trainwright": 1, "figures": {"write": -1}}',
        '{"trainwright": 1, "figures": {"write": true}}',
        '{"trainwright": 1, "figures": []}',
        '{"trainwright": 2}',
        '{"trainwright": 1',
        '{"trainwright": 1}\n{"trainwright": 1}',
        '{"trainwright": 1, "points": [[1]]}',
        '{"trainwright": 1, "points": [["a", 1]]}',
    ],
)
def test_damaged_outputs_of_our_programs_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        own.parse(text + "\n")
