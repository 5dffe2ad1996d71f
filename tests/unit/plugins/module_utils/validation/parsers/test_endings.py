# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Endings of tools that no recorded output has: faults, gaps, and runs without a result."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import (
    fi_info,
    fi_pingpong,
    fio,
    ior,
    iperf3,
    mdtest,
    nvidia_smi,
    osu,
    perftest,
    registry,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)

from .recorded import FIXTURES


def read(file: str) -> str:
    return (FIXTURES / file).read_text(encoding="utf-8")


def changed(file: str, change: t.Callable[[t.Any], object]) -> str:
    found = json.loads(read(file))
    change(found)
    return json.dumps(found)


# -- storage ---------------------------------------------------------------------------------------
def test_data_that_reads_back_wrong_is_a_fault_of_ior() -> None:
    line = "WARNING: Incorrect data on read (5 errors found).\n"
    text = read("ior-3.4-daos.txt").replace("Max Write:", line + "Max Write:")
    assert ior.parse(text).faults == ("5 errors in the data that was read back",)


def test_a_time_limit_is_a_gap_of_ior() -> None:
    line = "WARNING: Using actual aggregate bytes moved = 1048576.\n"
    text = read("ior-3.2.1-beegfs.txt").replace("Max Write:", line + "Max Write:")
    assert ior.parse(text).gaps == ("fewer bytes were moved than asked for",)


def test_an_error_of_ior_ends_without_a_result() -> None:
    text = read("ior-3.3.0.txt").replace(
        "Max Write:", 'ior ERROR: open64("testFile") failed, errno 13\nMax Write:'
    )
    with pytest.raises(ParseError, match="ior ERROR"):
        ior.parse(text)


@pytest.mark.parametrize("option", ["-C", "-eC", "-Q 1", "-Z", "-B", "--posix.odirect"])
def test_reads_past_the_page_cache_are_not_a_gap(option: str) -> None:
    assert ior.parse(read("ior-3.3.0.txt").replace("-t 1m", f"{option} -t 1m")).gaps == ()


def test_a_shift_of_tasks_in_the_summary_is_enough() -> None:
    text = read("ior-3.3.0.txt").replace("no tasks offsets", "constant task offset")
    assert ior.parse(text).gaps == ()


def test_operations_that_failed_are_a_fault_of_mdtest() -> None:
    text = "WARNING: unable to create file /mnt/a, (mdtest.c:489).\n" + read(
        "mdtest-3.3.0-dirs.txt"
    )
    assert mdtest.parse(text).faults == ("1 operations failed",)


@pytest.mark.parametrize("code", [5, 84, 121])
def test_an_error_of_the_storage_is_a_fault_of_fio(code: int) -> None:
    assert fio.parse(changed("fio-3.16.json", lambda d: d["jobs"][0].update(error=code))).faults


@pytest.mark.parametrize("code", [1, 13, 28])
def test_a_job_of_fio_that_could_not_run_ends_without_a_result(code: int) -> None:
    with pytest.raises(ParseError, match=f"error {code} "):
        fio.parse(changed("fio-3.16.json", lambda d: d["jobs"][0].update(error=code)))


@pytest.mark.parametrize("key", ["bw", "bw_bytes", "io_bytes", "runtime"])
def test_numbers_of_fio_that_contradict_each_other_are_refused(key: str) -> None:
    text = changed(
        "fio-3.16.json", lambda d: d["jobs"][0]["read"].update({key: d["jobs"][0]["read"][key] * 2})
    )
    with pytest.raises(ParseError, match="fio: read: "):
        fio.parse(text)


def test_jobs_of_one_group_add_up_and_groups_do_not() -> None:
    def twice(found: t.Any) -> None:
        found["jobs"].append(json.loads(json.dumps(found["jobs"][0])))

    def in_turn(found: t.Any) -> None:
        twice(found)
        found["jobs"][1]["groupid"] = 1

    one = fio.parse(read("fio-3.16.json")).figures["read"]
    assert fio.parse(changed("fio-3.16.json", twice)).figures["read"] == pytest.approx(2 * one)
    assert fio.parse(changed("fio-3.16.json", in_turn)).figures["read"] == pytest.approx(one)


# -- networks --------------------------------------------------------------------------------------
def test_an_error_of_iperf3_ends_without_a_result() -> None:
    text = '{"start": {}, "intervals": [], "end": {}, "error": "unable to connect to server: Connection refused"}'
    with pytest.raises(ParseError, match="unable to connect to server"):
        iperf3.parse(text)


def test_lost_datagrams_are_a_figure() -> None:
    total = {"seconds": 10.0, "bytes": 1_250_000_000, "bits_per_second": 1e9, "lost_percent": 1.25}
    found = iperf3.parse(json.dumps({"start": {}, "end": {"sum": total, "streams": [{}, {}]}}))
    assert found.figures == {"bandwidth": 0.125, "lost_percent": 1.25}
    assert found.streams == 2


def test_a_run_of_iperf3_that_is_shorter_than_asked_is_refused() -> None:
    total = {"seconds": 2.0, "bytes": 250_000_000, "bits_per_second": 1e9}
    start = {"test_start": {"duration": 10, "bytes": 0, "blocks": 0}}
    with pytest.raises(ParseError, match="2 s of 10 s"):
        iperf3.parse(json.dumps({"start": start, "end": {"sum_received": total}}))


def test_no_device_is_named_by_fi_info() -> None:
    with pytest.raises(ParseError, match="fi_getinfo: -61.* -> no device of this provider"):
        fi_info.parse("fi_getinfo: -61 (No data available)\n")


def test_messages_that_were_not_answered_are_a_fault() -> None:
    text = read("fi_pingpong-tcp.txt").replace("64k     10      =10", "64k     10      7  ")
    assert fi_pingpong.parse(text).faults == ("3 messages were not answered",)


def test_the_worse_side_of_a_pingpong_counts() -> None:
    slower = read("fi_pingpong-tcp.txt").replace("2659.00     394.35", "1329.50     788.70")
    found = fi_pingpong.parse(read("fi_pingpong-tcp.txt") + slower)
    assert found.figures["bandwidth"] == pytest.approx(1.3295)


def test_both_ways_are_marked_by_perftest() -> None:
    text = read("perftest-write-bw-gbits.txt").replace(
        "RDMA_Write BW Test", "RDMA_Write Bidirectional BW Test"
    )
    assert perftest.parse(text).both_ways
    assert not perftest.parse(read("perftest-write-bw-gbits.txt")).both_ways


@pytest.mark.parametrize(
    "line",
    [
        "Couldn't connect to node-2:18515",
        " Completion with error at client",
        "Failed status 12: wr_id 0 syndrom 0x81",
    ],
)
def test_an_error_of_perftest_ends_without_a_result(line: str) -> None:
    text = read("perftest-write-bw-gbits.txt")
    with pytest.raises(ParseError, match="perftest: "):
        perftest.parse(f"{line}\n{text}")


def test_a_range_of_osu_ends_where_its_command_says() -> None:
    text = read("osu-7.5-bw.txt")
    assert registry.read("osu", text, largest=4194304).points[-1].size_bytes == 4194304
    with pytest.raises(ParseError, match="ends at 4194304 bytes of 8388608"):
        osu.parse(text, largest=8388608)
    with pytest.raises(ParseError, match="ends at 8 bytes of 4194304"):
        osu.parse(read("osu-5.7.1-bw.txt"))


@pytest.mark.parametrize(
    "title", ["MPI Latency", "MPI-CUDA Latency", "MPI Multi Latency", "MPI_Put Latency"]
)
def test_osu_between_pairs_ends_later_than_a_collective(title: str) -> None:
    lines = read("osu-7.5-latency.txt").replace("MPI Latency", title).splitlines(keepends=True)
    assert osu.parse("".join(lines)).figures == {"latency_us": 3.34}
    with pytest.raises(ParseError, match="ends at 1048576 bytes of 4194304"):
        osu.parse("".join(lines[:-2]))
    short = "".join(lines[:-2]).replace(title, "MPI Allreduce Latency")
    assert osu.parse(short).title == "MPI Allreduce Latency"


# -- GPUs ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("<gpu_recovery_action>None<", "<gpu_recovery_action>Reset<", "the driver asks for reset"),
        ("<remapped_row_failure>No<", "<remapped_row_failure>Yes<", "a row could not be remapped"),
        ("<dram_uncorrectable>0<", "<dram_uncorrectable>4<", "4 uncorrected ECC errors"),
    ],
)
def test_faults_of_a_gpu_are_named(old: str, new: str, fault: str) -> None:
    files = ("nvidia-smi-rtx3080-v13.xml", "nvidia-smi-a10g.xml", "nvidia-smi-t4.xml")
    text = next(text for text in map(read, files) if old in text)
    assert nvidia_smi.parse(text).faults == ()
    assert nvidia_smi.parse(text.replace(old, new, 1)).faults == (f"GPU 0: {fault}",)


def test_clocks_that_are_held_down_are_named() -> None:
    old = "<clocks_throttle_reason_hw_slowdown>Not Active<"
    text = read("nvidia-smi-t4.xml").replace(old, old.replace("Not Active", "Active"))
    assert nvidia_smi.parse(text).gpus[0].slow == ("hw_slowdown",)


def test_what_perftest_rounds_to_zero_is_taken_from_its_message_rate() -> None:
    """As over an adapter in software, whose messages of 2 bytes are below the last digit of Gb/s."""
    text = read("perftest-write-bw-gbits.txt")
    (row,) = [line for line in text.splitlines() if line.startswith(" 65536")]
    small = " 2          5                0.00               0.00                0.001250"
    large = " 4          5                0.00               0.00                0.001300"
    found = perftest.parse(text.replace(row, f"{small}\n{large}"))
    assert [point.value for point in found.points] == pytest.approx([2.5e-6, 5.2e-6])
    # Neither a rate of zero nor one that would have been printed.
    for rate in ("0.000000", "0.400000"):
        zero = f" 65536      5                0.00               0.00                {rate}"
        with pytest.raises(ParseError, match="does not fit the message rate"):
            perftest.parse(text.replace(row, zero))
