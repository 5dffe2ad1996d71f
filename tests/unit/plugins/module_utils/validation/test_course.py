# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The course of a validation: what runs, what is left out, what the logs become."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import (
    Result,
    Verdict,
    worst,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.health.agent import decide
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    plan,
    summary,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import Check
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.course import Course, Ran
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.script import Work

from . import stand_in
from .stand_in import ROOT, Said, asked, drive, transfer

#: Options that references are made of.
REFERENCES = {"thresholds": [], "baseline": "", "cluster": "", "outlier": 0.8}

NAMES = [f"c{number}" for number in range(1, 7)]
SWITCHES = {name: f"s{index // 2}" for index, name in enumerate(NAMES)}


def of(course: Course, verdict: Verdict) -> list[Result]:
    return [one for one in course.results if one.verdict is verdict]


def test_a_healthy_cluster_passes_with_one_job_a_round() -> None:
    course, works = drive(asked(NAMES, switches=SWITCHES))
    assert worst(course.results) is Verdict.PASS, [
        r for r in course.results if summary.needs_somebody(r)
    ]
    assert len({work.name for work in works}) == len(works)
    pairs = [work for work in works if work.stage == "pairwise"]
    assert all(len(work.steps) == 3 for work in pairs)
    # MPI is there, so the sockets are not used, and there is nothing of GPUs.
    assert {step.check.name for work in pairs for step in work.steps} == {"pair_mpi"}
    absent = {one.check for one in of(course, Verdict.NOT_APPLICABLE)}
    assert {
        "gpus",
        "pair_nccl",
        "all_reduce",
        "pair_sockets",
        "container_start",
        "mdtest",
    } <= absent


def test_without_mpi_the_sockets_measure() -> None:
    course, works = drive(asked(NAMES, ["pairwise"]), programs={})
    steps = {step.check.name for work in works for step in work.steps}
    assert steps == {"pair_sockets"}
    assert {one.check for one in of(course, Verdict.PASS)} == {"pair_sockets"}


def slow(*nodes: str) -> t.Callable[[Check, tuple[str, ...]], Said | None]:
    def fault(check: Check, names: tuple[str, ...]) -> Said | None:
        if check.kind == "pairs" and set(names) & set(nodes):
            return transfer(0.1), 0
        return None

    return fault


def test_the_slow_node_is_named_and_left_out_later() -> None:
    course, works = drive(asked(NAMES, switches=SWITCHES), slow("c3"))
    failed = of(course, Verdict.FAIL)
    assert [(one.host, one.check) for one in failed] == [("c3", "pair_mpi")]
    assert set(summary.drains(course)) == {"c3"}
    later = [work for work in works if work.stage in ("collective", "storage", "mpi")]
    assert later and all("c3" not in [host.name for host in work.hosts] for work in later)
    (left_out,) = [one for one in of(course, Verdict.INCOMPLETE) if one.host == "c3"]
    assert left_out.check == "left_out" and "collective, storage" in left_out.detail


def test_a_node_that_differs_is_left_out_of_the_pairs_only_if_that_is_a_failure() -> None:
    def fault(check: Check, names: tuple[str, ...]) -> Said | None:
        if check.name == "open_files" and names == ("c2",):
            return "64", 0
        return ("another", 0) if check.name == "kernel" and names == ("c5",) else None

    course, works = drive(asked(NAMES), fault)
    assert [(one.host, one.check) for one in of(course, Verdict.FAIL)] == [("c2", "open_files")]
    assert [(one.host, one.check) for one in of(course, Verdict.WARN)] == [("c5", "kernel")]
    pairs = [host.name for work in works if work.stage == "pairwise" for host in work.hosts]
    assert "c2" not in pairs and "c5" in pairs


def test_nodes_that_differ_one_to_one_are_not_blamed_and_not_drained() -> None:
    def fault(check: Check, names: tuple[str, ...]) -> Said | None:
        return ("2.1", 0) if check.name == "bios" and names == ("c2",) else None

    bios = {"stage": "static", "title": "one", "command": "cat bios", "expect": "same"}
    what = asked(
        ["c1", "c2"], ["static", "pairwise"], {"c2": {"version": "25.05.1"}}, {"bios": bios}
    )
    course, works = drive(what, fault)
    assert not of(course, Verdict.FAIL)
    found = {(one.host, one.check): one for one in of(course, Verdict.INCOMPLETE)}
    assert set(found) == {("cluster", "bios"), ("cluster", "slurmd_version")}
    assert found["cluster", "slurmd_version"].value == "24.11.5 on c1; 25.05.1 on c2"
    assert summary.drains(course) == {}
    assert any(work.stage == "pairwise" for work in works), "nobody is left out"


def test_gpus_that_are_declared_and_absent_are_incomplete_or_fail() -> None:
    declared = {name: {"gres": "gpu:8"} for name in NAMES}

    def fault(check: Check, names: tuple[str, ...]) -> Said | None:
        return ("nvidia-smi: not found", 127) if "gpus" in check.needs else None

    course, _works = drive(asked(NAMES, nodes=declared), fault)
    assert ("c1", "gpus") in [(one.host, one.check) for one in of(course, Verdict.INCOMPLETE)]
    assert ("c1", "all_reduce") in [(one.host, one.check) for one in of(course, Verdict.INCOMPLETE)]
    assert worst(course.results) is Verdict.INCOMPLETE


def test_nodes_that_take_no_job_are_not_tested_and_said_to_be_so() -> None:
    nodes = {
        "c1": {"flags": ("DRAIN",), "reason": "broken fan"},
        "c2": {"state": "DOWN", "flags": ("NOT_RESPONDING",)},
        "c3": {"flags": ("CLOUD", "POWERED_DOWN")},
    }
    course, works = drive(asked(NAMES, ["static", "pairwise"], nodes=nodes))
    found = {one.host: one for one in course.results if one.check == "node_state"}
    assert {name: str(found[name].verdict) for name in NAMES} == {
        "c1": "INCOMPLETE", "c2": "FAIL", "c3": "INCOMPLETE", "c4": "PASS", "c5": "PASS", "c6": "PASS",
    }  # fmt: skip
    assert "broken fan" in found["c1"].detail and "validate_wake" in found["c3"].remedy
    assert not {"c1", "c2", "c3"} & {host.name for work in works for host in work.hosts}


def test_a_job_that_never_came_makes_its_checks_incomplete() -> None:
    def ran(work: Work) -> Ran | None:
        return (
            Ran(why="waited 3600 s in the queue: Resources") if work.stage == "collective" else None
        )

    course, _works = drive(asked(NAMES), ran=ran)
    found = [one for one in course.results if one.check.startswith("mpi_all_reduce")]
    assert found and all(one.verdict is Verdict.INCOMPLETE for one in found)
    assert "waited 3600 s" in found[0].detail


def test_a_job_that_somebody_cancelled_is_told_as_such_by_each_of_its_checks() -> None:
    why = "job 7 (v) was cancelled (disk is replaced) on c1 after 0:00:09 -> see /log; submit it again"
    course, _works = drive(asked(NAMES), ran=lambda work: Ran("2 ranks", why))
    found = [one for one in course.results if one.verdict is Verdict.INCOMPLETE]
    assert found and {one.verdict for one in course.results} <= {
        Verdict.INCOMPLETE, Verdict.PASS, Verdict.NOT_APPLICABLE,
    }  # fmt: skip
    probes = [one for one in found if one.check == "probe"]
    assert len(probes) == len(NAMES) and all(
        "was cancelled (disk is" in one.detail for one in probes
    )
    late = ("storage", "training")
    course, _works = drive(
        asked(NAMES, training=lambda check, some: "a script"),
        ran=lambda work: Ran("2 ranks", why) if work.stage in late else None,
    )
    mine = [one for one in course.results if one.verdict is Verdict.INCOMPLETE]
    assert {one.check.split(".")[0] for one in mine} == {"training_cpu", "stream"}
    for one in mine:
        assert one.detail.startswith("job 7 (v) was cancelled (disk is replaced) on c1"), one
        assert one.remedy == "see /log; submit it again"


def test_the_same_logs_give_the_same_course() -> None:
    first, works = drive(asked(NAMES, switches=SWITCHES), slow("c3", "c6"))
    again, same = drive(asked(NAMES, switches=SWITCHES), slow("c3", "c6"))
    assert [work.name for work in works] == [work.name for work in same]
    assert first.results == again.results and first.measurements == again.measurements


def test_a_launcher_at_half_of_mpirun_is_a_finding() -> None:
    def fault(check: Check, names: tuple[str, ...]) -> Said | None:
        return (transfer(0.5), 0) if check.name == "srun_pmix" else None

    course, _works = drive(asked(NAMES, ["mpi"]), fault)
    found = {one.check: one for one in course.results if one.check.endswith(".compared")}
    assert found["srun_pmix.compared"].verdict is Verdict.FAIL
    assert found["mpirun.compared"].verdict is Verdict.PASS
    assert "mpirun" in found["srun_pmix.compared"].provenance


def test_no_more_nodes_are_drained_than_the_cap_has_room_for() -> None:
    def fault(check: Check, names: tuple[str, ...]) -> Said | None:
        return ("64", 0) if check.name == "open_files" and names[0] in ("c2", "c4", "c5") else None

    course, _works = drive(asked(NAMES, ["static"]), fault)
    reasons, nodes = summary.drains(course), {one.name: one for one in course.asked.slurm.nodes}
    drains, over = decide.within_cap(reasons, nodes)
    assert list(drains) == ["c2"] and over == ["c4", "c5"]
    assert drains["c2"].startswith("open_files: 64 ")
    allowed, _over = decide.within_cap(reasons, nodes, cap=50)
    assert list(allowed) == ["c2", "c4", "c5"]


MOUNT = plan.Mount("/fsx", "lustre", ("/fsx/data",), {})
SAMPLES = ROOT / "tests" / "fixtures" / "validation"


def storage(programs: t.Mapping[str, str], says: t.Mapping[str, str]) -> dict[str, list[Result]]:
    """Run stage storage on two nodes with these programs; return the results by check."""
    real = {name: (SAMPLES / file).read_text(encoding="utf-8") for name, file in says.items()}
    what = asked(["c1", "c2"], ("storage",), site=plan.Site(mounts=(MOUNT,)))
    course, _works = drive(
        what,
        lambda check, nodes: (real[check.name], 0) if check.name in real else None,
        programs,
        summary.references({**REFERENCES, "storage": {"/fsx": {"write": 1.0}}}),
    )
    found: dict[str, list[Result]] = {}
    for one in course.results:
        found.setdefault(one.check.partition(".")[0], []).append(one)
    return found


def test_ior_and_mdtest_run_where_their_programs_are() -> None:
    programs = {
        "mpirun": "/usr/bin/mpirun",
        "ior": "/opt/ior",
        "mdtest": "/opt/mdtest",
        "fio": "/x",
    }
    found = storage(programs, {"ior": "ior-3.3.0.txt", "mdtest": "mdtest-3.3.0-exascaler.txt"})
    (write,) = [one for one in found["ior"] if one.check == "ior.fsx.write"]
    assert (
        write.value
        and write.threshold
        and write.provenance.startswith("validate_storage of /fsx; ")
    )
    assert any(one.check == "mdtest.fsx.file_creation_ops" and one.value for one in found["mdtest"])
    (fio,) = found["fio"]
    assert fio.verdict is Verdict.NOT_APPLICABLE and fio.detail == "ior measures it"


def test_fio_stands_in_for_ior_and_says_so_and_mdtest_is_incomplete() -> None:
    found = storage({"mpirun": "/usr/bin/mpirun", "fio": "/usr/bin/fio"}, {"fio": "fio-3.16.json"})
    (ior,) = found["ior"]
    assert ior.verdict is Verdict.NOT_APPLICABLE and ior.detail == "no node has ior"
    for one in found["fio"]:
        assert "fio stands in for IOR" in f"{one.provenance} {one.detail}", one
    assert {one.host for one in found["mdtest"]} == {"c1", "c2"}
    for one in found["mdtest"]:
        assert one.verdict is Verdict.INCOMPLETE and one.detail == "mdtest is not installed there"
        assert "validate_path" in one.remedy


def test_ior_without_a_launcher_leaves_fio_to_measure() -> None:
    found = storage({"ior": "/opt/ior/bin/ior", "fio": "/x"}, {"fio": "fio-3.16.json"})
    (ior,) = found["ior"]
    assert ior.detail == "no node has mpirun" and len(found["fio"]) >= 2


def test_an_output_of_ior_that_is_not_one_is_no_measurement() -> None:
    programs = {"mpirun": "/usr/bin/mpirun", "ior": "/opt/ior/bin/ior"}
    for sample in ("mdtest-3.3.0-exascaler.txt", "fio-3.16.json"):
        found = storage(programs, {"ior": sample})
        assert {one.verdict for one in found["ior"]} == {Verdict.INCOMPLETE}


def only(*names: str, **more: t.Any) -> dict[str, t.Any]:
    """Return these checks of the role alone, as validate_only leaves them."""
    made = catalogue.load(stand_in.given())
    return {"checks": tuple(catalogue.of_names(made, names, ())), **more}


def test_the_line_of_a_stage_counts_every_result_of_it() -> None:
    # Alone, it runs with the probe, before the stage.
    course, _works = drive(asked(["c1", "c2"], ["static"], **only("open_files")))
    assert course.said == ["static: 2 PASS"]
    course, _works = drive(asked(NAMES, switches=SWITCHES))
    lines = dict(one.split(": ", 1) for one in course.said if ": round" not in one)
    assert list(lines) == list(catalogue.STAGES)
    stage_of = {check.name: check.stage for check in course.asked.checks}
    for stage, line in lines.items():
        mine = [one for one in course.results if stage_of[one.check.split(".")[0]] == stage]
        passed = sum(one.verdict is Verdict.PASS for one in mine)
        assert (f"{passed} PASS" in line) if passed else "PASS" not in line, (line, mine)


def test_a_stage_without_checks_and_nodes_without_health_are_told_apart() -> None:
    course, _works = drive(asked(NAMES, ["static", "node"], **only("open_files")))
    assert course.said[-1] == "node: nothing to test"
    others = (Result("elsewhere", "gpus", Verdict.PASS),)
    for results, why in ((None, "is empty"), (others, "has none of these nodes")):
        course, _works = drive(asked(NAMES, ["node"], **only("node_health"), node_results=results))
        (one,) = course.results
        assert one.verdict is Verdict.NOT_APPLICABLE and one.detail.endswith(why)
        assert course.said == ["node: 1 NOT_APPLICABLE"]


def test_what_is_found_before_the_first_stage_has_a_line_without_static() -> None:
    nodes = {"c1": {"flags": ("DRAIN",), "reason": "fan"}}
    course, _works = drive(asked(NAMES, ["storage"], nodes=nodes))
    assert course.said[0] == "before the first stage: 1 INCOMPLETE"
    everything = {name: {"flags": ("DRAIN",)} for name in NAMES}
    course, _works = drive(asked(NAMES, ["static", "storage"], nodes=everything))
    assert "6 INCOMPLETE" in course.said[0] and course.said[0].startswith("static: ")
    assert course.said[1] == "storage: no node is left to test"


def test_the_launchers_are_compared_by_nccl_and_an_inactive_nvlink_is_a_warning() -> None:
    nodes = {name: {"gres": "gpu:8"} for name in NAMES}
    programs = {**stand_in.PROGRAMS, "all_reduce_perf": "/opt/all_reduce_perf", "nvidia-smi": "/x"}
    sample = (SAMPLES / "nccl-tests-a100-allreduce.txt").read_text(encoding="utf-8")

    def fault(check: Check, names: tuple[str, ...]) -> Said | None:
        said = {"nccl_mpirun": sample, "nccl_srun": sample}.get(check.name)
        return (said, 0) if said else None

    wanted = only("nccl_mpirun", "nccl_srun", "nvlink")
    wanted["checks"] = tuple(
        dataclasses.replace(one, largest="") if one.name != "nvlink" else one
        for one in wanted["checks"]
    )
    what = asked(NAMES, ["static", "mpi"], nodes=nodes, **wanted)
    linked = [
        dataclasses.replace(one, declared={**one.declared, "nvlink": 18}) for one in what.hosts
    ]

    def links(check: Check, names: tuple[str, ...]) -> Said | None:
        if check.name == "nvlink":
            return ("1" if names == ("c2",) else "0"), 0
        return fault(check, names)

    course, _works = drive(dataclasses.replace(what, hosts=tuple(linked)), links, programs)
    found = {(one.host, one.check): one.verdict for one in course.results}
    assert found["c2", "nvlink"] is Verdict.WARN and found["c1", "nvlink"] is Verdict.PASS
    assert found["cluster", "nccl_srun.compared"] is Verdict.PASS, found
