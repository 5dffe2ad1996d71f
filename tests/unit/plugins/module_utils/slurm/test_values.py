# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of Slurm's values: as round trips, and against rules and parsers that are not ours."""

from __future__ import annotations

import datetime
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.names import natural_key
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records, values
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit import samples

# The cases are made of few integers each: that is what 10,000 of them cost little time with.
MANY = settings(max_examples=samples.MANY, deadline=None)
SOME = settings(max_examples=samples.MANY // 5, deadline=None)
PREFIXES = ("c", "gpu-", "n.rack1-", "a1b", "", "login")
NUMBERS = (*range(13), *range(95, 106), 998, 999, 1000, 12345)
PLAIN_HOSTS = ("login", "login-a", "c", "x.y")
TRES_NAMES = ("cpu", "node", "gres/gpu:h100", "license/matlab", "fs/disk", "mem", "bb/cray")


def host(number: int) -> str:
    """Return a host's name for each number: prefix, number, width of the number."""
    if number < len(PLAIN_HOSTS):
        return PLAIN_HOSTS[number]
    rest, prefix = divmod(number, len(PREFIXES))
    rest, width = divmod(rest, 4)
    return f"{PREFIXES[prefix]}{NUMBERS[rest % len(NUMBERS)]:0{width + 1}d}"


HOSTS = st.lists(st.integers(0, len(PREFIXES) * 4 * len(NUMBERS)).map(host), max_size=10)


# --- durations ------------------------------------------------------------------------------------
@MANY
@given(st.integers(0, 400 * 86400), st.integers(0, 11))
def test_durations_read_back_and_every_form_is_read(length: int, form: int) -> None:
    """Python's timedelta is the other opinion on what is written: "1 day, 2:03:04".

    The forms of sbatch(1), --time, each say as much of the length as they can.
    """
    text = values.duration(length)
    assert values.seconds(text) == length
    days, _comma, clock = str(datetime.timedelta(seconds=length)).rpartition(", ")
    assert text == (f"{days.split()[0]}-" if days else "") + clock.zfill(8)
    units = ("m", "m:s", "h:m:s", "d-h", "d-h:m", "d-h:m:s")[form // 2]
    rest, said, text = length, 0, units
    for letter, weight in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if letter in units:
            count, rest = divmod(rest, weight)
            said += count * weight
            text = text.replace(letter, f"{count:02}" if form % 2 else str(count))
    assert values.seconds(text) == said


@pytest.mark.parametrize(
    ("text", "unit", "seconds"),
    [
        ("30", 60, 1800),
        ("30", 1, 30),
        ("10:00", 1, 600),
        ("1-0", 1, 86400),
        ("1-02:03", 60, 93780),
        ("1-02:03:04", 60, 93784),
        ("00:00:00", 60, 0),
        ("UNLIMITED", 60, None),
        ("INFINITE", 60, None),
        ("infinite", 60, None),
        ("Partition_Limit", 60, None),
        ("NONE", 60, None),
        ("-1", 60, None),
        ("", 60, None),
        ("INVALID", 60, None),
    ],
)
def test_durations(text: str, unit: int, seconds: int | None) -> None:
    assert values.seconds(text, unit) == seconds


@pytest.mark.parametrize(
    ("given", "text"), [("90", "90"), ("1:30:00", "1:30:00"), (-1, "-1"), ("-1", "-1")]
)
def test_a_duration_that_is_text_stays_as_it_is(given: t.Any, text: str) -> None:
    assert values.given_length(given) == text


@pytest.mark.parametrize("given", [0, 30, 5400, 5400.5])
def test_a_duration_that_is_a_number_is_refused(given: float) -> None:
    """What YAML reads in `time: 1:30:00` cannot be told from `time: 5400`."""
    with pytest.raises(ValueError, match=f"is the number {given}; YAML .* -> write it in quotes"):
        values.given_length(given)


def test_a_time_of_day_that_is_a_number_is_refused() -> None:
    assert values.given_point(1795190400) == "1795190400"
    assert values.given_point("16:00:00") == "16:00:00"
    with pytest.raises(ValueError, match='number 57600; .* -> write it in quotes, "16:00:00"'):
        values.given_point(57600)


@SOME
@given(st.text("0123456789-:. dhUN", max_size=12))
@example("1-")
@example("1:2:3:4")
@example("1-2-3")
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Nothing but ValueError comes out of it, and what is taken is a number."""
    try:
        read = values.seconds(text)
    except ValueError as error:
        assert repr(text.strip()) in str(error)
        return
    assert read is None or read >= 0
    assert set(text.strip()) <= set("0123456789:-")
    assert text.strip().count("-") <= 1 and text.count(":") <= 2


# --- points in time -------------------------------------------------------------------------------
@SOME
@given(st.integers(1, 2**32 - 3))  # to 2106
def test_a_point_in_time_reads_back(moment: int) -> None:
    text = values.stamp(moment)
    assert values.point(text) == moment
    assert text == datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%S"
    )
    # NO_VAL and INFINITE of 32 bits lie in 2106.
    assert values.point(str(moment)) == moment


@pytest.mark.parametrize(
    "text", ["Unknown", "N/A", "None", "NONE", "(null)", "0", "", "4294967294"]
)
def test_no_point_in_time(text: str) -> None:
    assert values.point(text) is None


@pytest.mark.parametrize(
    "text", ["13:30", "Tomorr 13:30", "2026-11-20", "2026-11-20T16:00:00Z", "x"]
)
def test_what_is_no_point_in_time_is_refused(text: str) -> None:
    """Most of them are what SLURM_TIME_FORMAT=relative writes."""
    with pytest.raises(ValueError, match="not a point in time"):
        values.point(text)


# --- sizes and counts -----------------------------------------------------------------------------
@MANY
@given(st.integers(0, 10**6), st.integers(0, 99), st.sampled_from("KMGTkmgt "))
def test_a_size_in_each_unit(whole: int, hundredths: int, suffix: str) -> None:
    """In whole numbers: hundredths of the unit, in KiB, rounded up to MiB."""
    text = f"{whole}.{hundredths:02}{suffix.strip()}"
    kib = 1024 ** "KMGT".index((suffix.strip() or "M").upper())
    parts = (whole * 100 + hundredths) * kib
    size = -(-parts // (100 * 1024))
    assert values.mebibytes(text) == size
    assert values.mebibytes(values.memory(size)) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4000", 4000),
        ("10G", 10240),
        ("1.5T", 1572864),
        ("512K", 1),
        ("N/A", None),
        ("UNLIMITED", None),
        ("0", 0),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert values.mebibytes(text) == size


@pytest.mark.parametrize("text", ["-5", "10X", "1.G", "G", "1,5G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        values.mebibytes(text)


@MANY
@given(st.lists(st.integers(0, 2**32), max_size=len(TRES_NAMES)))
def test_resources_read_back_and_are_read_as_slurm_writes_them(counts: list[int]) -> None:
    """Counts with and without a suffix; memory and burst buffers are in MiB without one."""
    wanted = dict(zip(TRES_NAMES, counts))
    assert values.tres(values.tres_text(wanted)) == wanted
    parts, scaled = [], {}
    for name, count in wanted.items():
        power = count % 3
        parts.append(f"{name}={count}{' KM'[power].strip()}")
        scaled[name] = count * 1024**power
        if name in ("mem", "bb/cray"):
            scaled[name] = (count, -(-count // 1024), count)[power]
    assert values.tres(",".join(parts)) == scaled


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (
            "cpu=10,mem=10G,gres/gpu:h100=8,billing=12",
            {"cpu": 10, "mem": 10240, "gres/gpu:h100": 8, "billing": 12},
        ),
        ("cpu,gres/gpu", {"cpu": 1, "gres/gpu": 1}),
        ("gres/gpu:h100:2", {"gres/gpu:h100": 2}),
        ("cpu=-1,mem=1.5G", {"mem": 1536}),
        ("", {}),
        ("(null)", {}),
        ("N/A", {}),
    ],
)
def test_resources(text: str, counts: dict[str, int]) -> None:
    assert values.tres(text) == counts


@pytest.mark.parametrize("text", ["cpu=x", "=5", "mem=10X"])
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a resource"):
        values.tres(text)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ({"set": True, "infinite": False, "number": 5}, 5),
        ({"set": False, "infinite": True, "number": 0}, None),
        ({"set": True, "infinite": True, "number": 0}, None),
        ({"set": False, "infinite": False, "number": 0}, None),
        (5, 5),
        (0, 0),
        (-1, None),
        (4294967294, None),
        (4294967295, None),
        (18446744073709551614, None),
        (None, None),
        ("7", 7),
        ("Infinity", None),
        ("", None),
    ],
)
def test_numbers(value: t.Any, number: int | None) -> None:
    assert values.number(value) == number


# --- states ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["DOWN*"], "DOWN+NOT_RESPONDING"),
        (["DOWN*+DRAIN"], "DOWN+DRAIN+NOT_RESPONDING"),
        (["IDLE+CLOUD+POWERED_DOWN"], "IDLE+CLOUD+POWERED_DOWN"),
        (
            ["NOT_RESPONDING", "CLOUD", "DOWN", "POWERED_DOWN"],
            "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING",
        ),
        (["idle", "DRAIN"], "IDLE+DRAIN"),
        (["MIXED+PLANNED"], "MIXED+PLANNED"),
        (["MIXED-"], "MIXED+PLANNED"),
        (["DRAINED"], "IDLE+DRAIN"),
        (["DRAINING@"], "MIXED+DRAIN+REBOOT_REQUESTED"),
        (["UNKNOWN*"], "UNKNOWN+NOT_RESPONDING"),
        (["IDLE", "NEW_FLAG", "BRAND_NEW"], "IDLE+BRAND_NEW+NEW_FLAG"),
    ],
)
def test_states_of_nodes(words: list[str], shown: str) -> None:
    """All forms come to one, with the flags in scontrol's order and unknown ones at the end."""
    state, flags = values.node_state(words)
    assert records.Node(name="c1", state=state, flags=flags).shown == shown


@SOME
@given(st.sampled_from(values.NODE_STATES), st.permutations(values.NODE_FLAGS), st.integers(0, 22))
def test_the_state_of_a_node_has_one_form(state: str, flags: list[str], count: int) -> None:
    """Text and document lead to the same, in whatever order they have the flags."""
    chosen = flags[:count]
    wanted = tuple(flag for flag in values.NODE_FLAGS if flag in chosen)
    assert values.node_state([state, *chosen]) == (state, wanted)
    assert values.node_state(["+".join((state, *chosen))]) == (state, wanted)


@pytest.mark.parametrize(
    ("words", "state", "flags"),
    [
        (["RUNNING"], "RUNNING", ()),
        (["COMPLETED", "COMPLETING"], "COMPLETED", ("COMPLETING",)),
        (["COMPLETING"], "COMPLETING", ("COMPLETING",)),
        (["CONFIGURING"], "RUNNING", ("CONFIGURING",)),
        (["REQUEUE_HOLD"], "PENDING", ("REQUEUE_HOLD",)),
        (["REVOKED"], "REVOKED", ("REVOKED",)),
        (["CANCELLED by 1000"], "CANCELLED", ()),
        ([], "", ()),
    ],
)
def test_states_of_jobs(words: list[str], state: str, flags: tuple[str, ...]) -> None:
    assert values.job_state(words) == (state, flags)


def test_a_job_that_still_completes_has_not_ended() -> None:
    """Whether text shows only COMPLETING or a document COMPLETED as well."""
    for words in (["COMPLETED", "COMPLETING"], ["COMPLETING"]):
        state, flags = values.job_state(words)
        assert not records.Job(id=1, state=state, flags=flags).ended


def test_flags_of_a_reservation_have_the_names_of_scontrols_input() -> None:
    shown = ["SPEC_NODES", "MAINT", "STATIC", "PURGE_COMP=00:05:00", "NO_HOLD_JOBS_AFTER_END"]
    wanted = ("MAINT", "NO_HOLD_JOBS_AFTER", "PURGE_COMP", "STATIC_ALLOC")
    assert values.reservation_flags(shown) == wanted


# --- paths ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("slurm-%j.out", "/home/a/slurm-17.out"),
        ("/tmp/%x-%u-%5j.%%.log", "/tmp/train-alice-00017.%.log"),
        ("%A_%a", "/home/a/15_3"),
        ("/x/%N", "/x/%N"),
        ("", ""),
    ],
)
def test_paths_of_output(pattern: str, path: str) -> None:
    job = records.Job(
        id=17, name="train", user="alice", array_job_id=15, array_task="3", workdir="/home/a"
    )
    assert values.output_path(pattern, job) == path


def test_the_task_of_an_array_that_waits_is_not_known_yet() -> None:
    job = records.Job(id=15, array_job_id=15, array_task="4-9%2", workdir="/w")
    assert values.output_path("%A_%a", job) == "/w/15_%a"
    assert values.output_path("/w/15_4294967294", job) == "/w/15_%a"


# --- host lists -----------------------------------------------------------------------------------
@MANY
@given(HOSTS)
@example(["c08", "c09", "c10", "c11"])
@example(["c098", "c099", "c100", "c1000"])
@example(["c1", "c01", "c001", "c2", "c02"])
def test_host_lists_read_back(hosts: list[str]) -> None:
    text = values.compress(hosts)
    assert values.expand(text) == sorted(set(hosts), key=natural_key)
    assert values.compress(reversed(hosts)) == text


@SOME
@given(HOSTS)
def test_clustershell_reads_our_host_lists(hosts: list[str]) -> None:
    nodeset = pytest.importorskip("ClusterShell.NodeSet")
    # ClusterShell wants something in front of a number.
    text = values.compress(f"n{name}" for name in hosts)
    read = nodeset.NodeSet(text, resolver=nodeset.RESOLVER_NOGROUP)
    assert set(read) == {f"n{name}" for name in hosts}


@SOME
@given(st.lists(st.integers(0, 3 * 3 * 6 * 121 - 1), min_size=1, max_size=4))
def test_ranges_are_expanded_as_clustershell_does(numbers: list[int]) -> None:
    nodeset = pytest.importorskip("ClusterShell.NodeSet")
    parts = []
    for number in numbers:
        rest, prefix = divmod(number, 3)
        rest, width = divmod(rest, 3)
        first, more = divmod(rest, 6)
        # Both ends with one width, as slurm.conf(5) wants them.
        width = max(width + 1, len(str(first + more)))
        items = f"{first:0{width}d}-{first + more:0{width}d},{first + 200}"
        parts.append(f"{('c', 'gpu-', 'n.r-')[prefix]}[{items}]")
    text = ",".join(parts)
    assert set(values.expand(text)) == set(nodeset.NodeSet(text, resolver=nodeset.RESOLVER_NOGROUP))


@SOME
@given(st.integers(0, 120), st.integers(0, 30), st.integers(1, 4))
def test_expand_keeps_the_width(first: int, count: int, width: int) -> None:
    names = [f"n{value:0{width}}" for value in range(first, first + count + 1)]
    assert values.expand(f"n[{first:0{width}}-{first + count:0{width}}]") == names


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["gpu01", "gpu02", "gpu03", "gpu07", "login"], "gpu[01-03,07],login"),
        (["c1", "c2", "c10"], "c[1-2,10]"),
        (["c1"], "c1"),
        ([], ""),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
    ],
)
def test_host_lists(hosts: list[str], text: str) -> None:
    assert values.compress(hosts) == text


def test_expand_keeps_the_order_of_the_list_and_its_duplicates() -> None:
    assert values.expand("b,a[2-3],a2") == ["b", "a2", "a3", "a2"]


@pytest.mark.parametrize("text", ["c[1-2", "c[2-1]", "c[a]", "c[1-99999999]"])
def test_what_is_no_host_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        values.expand(text)


@pytest.mark.parametrize("host", ["", "a b", "a,b", "c[1]", "c²"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="not the name of a host"):
        values.compress([host])
