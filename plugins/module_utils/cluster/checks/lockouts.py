# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values that Slurm reads, and with which users cannot work or nodes go down over and over."""

from __future__ import annotations

import re
import shlex
import typing as t

from ...slurm.batch import options
from ...slurm.conf import pairs, words
from ...slurm.hostlist import HostlistError, expand
from ...slurm.releases import major_minor
from ..inputs import (
    CLUSTER,
    Problem,
    cluster_version,
    label_of,
    members,
    name_of,
    partition_specs,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs

#: Seconds of MessageTimeout where a site does not set it: that of role slurmctld.
MESSAGE_TIMEOUT = 30
#: Seconds in which a user may have at least one request, in the long run.
_SLOWEST = 10
#: The least value of each word of the rate limit (rate_limit.c); rl_log_freq may be -1, for no line in the log.
_RATES_FROM = (23, 2)
_RATES = {
    "rl_bucket_size": 1,
    "rl_refill_period": 1,
    "rl_refill_rate": 1,
    "rl_table_size": 1,
    "rl_log_freq": -1,
}
#: The primary's sign of life is written every quarter of SlurmctldTimeout, in whole seconds (heartbeat.c).
_LEAST_OF_TWO = 4


def _given(inputs: Inputs) -> dict[str, tuple[str, str]]:
    """Return the site's slurm_conf: name in lower case -> (name, text)."""
    given = inputs["settings"].get("slurm_conf")
    return {
        str(name).lower(): (str(name), pairs.unquoted(pairs.text_of(value)))
        for name, value in (given.items() if isinstance(given, dict) else ())
        if value is not None and not isinstance(value, dict)
    }


def misspelt(inputs: Inputs) -> Iterator[Problem]:
    """A word that is a letter or two off one of Slurm's is that one. Slurm would ignore it."""
    version = cluster_version(inputs)
    for name, text in _given(inputs).values():
        for word, close, _releases in words.ignored(name, text, version):
            if close:
                yield Problem(
                    CLUSTER,
                    f"slurm_conf.{name}",
                    f"{word!r} is not one of Slurm's words, and Slurm would ignore it; did you mean {close}?",
                    f"write {close}, or remove it",
                )


def rate_limit(inputs: Inputs) -> Iterator[Problem]:
    """The limit of requests leaves users some: slurmctld does not start with 0, and few lock them out."""
    name, text = _given(inputs).get("slurmctldparameters", ("", ""))
    if major_minor(cluster_version(inputs)) < _RATES_FROM:
        return  # it ignores these words, which is reported
    given = words.parts_of(text)
    where, rates = f"slurm_conf.{name}", {"rl_refill_rate": 2, "rl_refill_period": 1}
    for word, least in _RATES.items():
        if word not in given:
            continue
        value = given[word]
        if not re.fullmatch(r"-?\d+", value) or not least <= int(value) < 2**32 - 2:
            yield Problem(
                CLUSTER,
                where,
                f"{word}={value} is not a number from {least} on, and slurmctld would not start",
                "write a larger number, or remove it",
            )
            return
        rates[word] = int(value)
    if rates["rl_refill_rate"] * _SLOWEST < rates["rl_refill_period"]:
        yield Problem(
            CLUSTER,
            where,
            f"rl_refill_rate={rates['rl_refill_rate']} in rl_refill_period={rates['rl_refill_period']} s is less than"
            f" one request of a user in {_SLOWEST} s, and a single srun makes several",
            "write a shorter rl_refill_period or a larger rl_refill_rate; 2 in 1 s is Slurm's default",
        )


def timeouts(inputs: Inputs) -> Iterator[Problem]:
    """Daemons have the time to answer before they are taken for dead."""
    given = _given(inputs)

    def number(key: str, default: int) -> int:
        text = given.get(key, ("", ""))[1]
        return int(text) if text.isdigit() else default

    message = number("messagetimeout", MESSAGE_TIMEOUT)
    for key, what in (
        ("slurmdtimeout", "nodes that answer in time would be set DOWN over and over"),
        ("unkillablesteptimeout", "nodes would be drained because of steps that end slowly"),
    ):
        value = number(key, 0)
        if 0 < value < message:
            yield Problem(
                CLUSTER,
                f"slurm_conf.{given[key][0]}",
                f"{value} s is less than the {message} s that a node has for an answer (MessageTimeout), so {what}",
                f"write {5 * message} or more, or remove it",
            )
    value = number("slurmctldtimeout", _LEAST_OF_TWO)
    if 0 < value < _LEAST_OF_TWO and len(members(inputs, "slurm_controller")) > 1:
        yield Problem(
            CLUSTER,
            f"slurm_conf.{given['slurmctldtimeout'][0]}",
            f"{value} s is shorter than the primary's sign of life takes, so the backup would take over from a primary"
            " that works",
            "write 10 or more, or remove it",
        )


def interactive_step(inputs: Inputs) -> Iterator[Problem]:
    """salloc starts srun with these options, through a shell; options of a site's SPANK plugins are not known."""
    name, text = _given(inputs).get("interactivestepoptions", ("", ""))
    if not text:
        return
    where = f"slurm_conf.{name}"
    remedy = 'write options of srun(1) and a program: "--interactive --preserve-env --pty $SHELL"'
    try:
        found = shlex.split(text)
    except ValueError:
        yield Problem(CLUSTER, where, f"{text!r} has a quote that does not end", remedy)
        return
    read = options.read(found, options.SRUN)
    kind, _colon, option = read.fault.partition(":")
    if kind == "unknown" and not inputs["settings"].get("slurm_plugstack"):
        yield Problem(
            CLUSTER,
            where,
            f"{option!r} is not an option of srun, so every salloc would fail",
            remedy,
        )
    elif kind == "value":
        yield Problem(CLUSTER, where, f"{option!r} does not have a value", remedy)
    elif not kind and read.taken >= len(found):
        yield Problem(CLUSTER, where, f"{text!r} does not have a program after its options", remedy)


def allocating(inputs: Inputs) -> Iterator[Problem]:
    """Jobs can be submitted to each partition from a login host, or by REST."""
    hosts = members(inputs, "slurm_login", "slurm_rest")
    if not members(inputs, "slurm_login"):
        return
    names = {
        name.partition(".")[0] for name in [*hosts, *(name_of(inputs, host) for host in hosts)]
    }
    names |= {str((inputs["facts"].get(host) or {}).get("hostname") or host) for host in hosts}
    for index, spec in enumerate(partition_specs(inputs["settings"])):
        for key, value in (spec.get("options") or {}).items():
            text = pairs.unquoted(pairs.text_of(value))
            if str(key).lower() != "allocnodes" or text.upper() in ("ALL", ""):
                continue
            try:
                listed = expand(text)
            except HostlistError as error:
                if "ClusterShell" in str(error):
                    raise
                listed = [text]
            if not names & set(listed):
                label = label_of("slurm_partitions", index, spec)
                yield Problem(
                    CLUSTER,
                    f"{label}.options.{key}",
                    f"{text} leaves out every login host, so users could not submit jobs to it",
                    f"add {', '.join(members(inputs, 'slurm_login')[:3])}, or remove it; the partition's nodes are"
                    " its groups, nodes or node_sets",
                )


def memory(inputs: Inputs) -> Iterator[Problem]:
    """A job that does not say how much memory it wants can start on some node."""
    sizes = [
        (int(node["memory_mb"]), max(1, int(node.get("cpus") or 1)))
        for host in members(inputs, "slurm_compute")
        if (node := inputs["facts"].get(host) or {}).get("memory_mb")
    ]
    if not sizes:
        return
    most, usual = max(size for size, _cpus in sizes), min(size // cpus for size, cpus in sizes)
    places = {f"slurm_conf.{name}": (key, text) for key, (name, text) in _given(inputs).items()}
    for index, spec in enumerate(partition_specs(inputs["settings"])):
        label = label_of("slurm_partitions", index, spec)
        for name, value in (spec.get("options") or {}).items():
            text = pairs.unquoted(pairs.text_of(value))
            places[f"{label}.options.{name}"] = (str(name).lower(), text)
    given = {key: int(text) for key, text in places.values() if text.isdigit()}
    wanted = given.get("defmempernode") or given.get("defmempercpu") or usual
    for where, (key, text) in places.items():
        value = int(text) if text.isdigit() else 0
        if key in ("defmempernode", "defmempercpu", "defmempergpu") and value > most:
            yield Problem(
                CLUSTER,
                where,
                f"{value} MB is more than the {most} MB of the largest node, so jobs without --mem would never start",
                "write a smaller number, or remove it",
            )
        if key == "maxmempernode" and 0 < value < wanted <= most:
            yield Problem(
                CLUSTER,
                where,
                f"{value} MB is less than the {wanted} MB that a job without --mem gets, so such jobs never start",
                f"write {wanted} or more, or remove it",
            )


CHECKS: tuple[Check, ...] = (
    misspelt,
    rate_limit,
    timeouts,
    interactive_step,
    allocating,
    memory,
)
