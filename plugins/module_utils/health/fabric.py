# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of NVSwitch's fabric manager and of DCGM. Runs on nodes: Python 3.9."""

from __future__ import annotations

import json
import re
import time
import typing as t

from ..checks.result import Verdict
from . import dcgm_answer, gpu
from .finding import Finding, failed, incomplete, not_declared, passed, warned
from .host import Host, Output

#: Seconds after boot in which the fabric manager may still start.
_GRACE = 300
_PROBES, _PAUSE = 3, 3.0
_PROPERTIES = "LoadState,ActiveState,SubState,NRestarts"
_UNIT = "nvidia-fabricmanager.service"


def _properties(host: Host) -> tuple[dict[str, str], str]:
    """Return properties of the fabric manager's unit, and why there are none."""
    output = host.run("systemctl", "show", _UNIT, f"--property={_PROPERTIES}", timeout=5)
    found = dict(text.split("=", 1) for text in output.text.splitlines() if "=" in text)
    if output.problem or output.code or not found:
        return {}, output.problem or f"systemctl show {_UNIT} exits with {output.code}"
    return found, ""


def needed(host: Host) -> bool:
    """Whether the GPUs are joined by switches that this host manages: HGX with NVLink, not the trays of GB200."""
    model = str(host.declared.get("gpu_model") or "").upper()
    return host.expected("gpus") >= 8 and host.expected("nvlink") >= 12 and "GB200" not in model


def check(host: Host) -> list[Finding]:
    """Run the checks of this file's first part."""
    names = ("fabric_manager", "fabric_manager_version")
    if not needed(host):
        return [not_declared(name, "NVSwitch") for name in names]
    return [_service(host), _version(host)]


def _service(host: Host) -> Finding:
    name = "fabric_manager"
    found: dict[str, str] = {}
    for probe in range(_PROBES):
        found, why = _properties(host)
        if why:
            return incomplete(name, why, "see systemctl status nvidia-fabricmanager")
        if found.get("LoadState") == "not-found":
            return incomplete(
                name, "nvidia-fabricmanager is not installed", "install the version of the driver"
            )
        if found.get("ActiveState") == "active":
            break
        if probe + 1 < _PROBES:
            time.sleep(_PAUSE)
    state = f"{found.get('ActiveState')} ({found.get('SubState')})"
    remedy = "systemctl restart nvidia-fabricmanager, then see its journal"
    if found.get("ActiveState") != "active":
        if host.uptime() < _GRACE:
            return warned(name, f"{state}, {host.uptime():.0f} s after boot", "wait for it")
        # GPUs keep the state Completed when the daemon ends, and new jobs fail all the same.
        return failed(name, state, remedy, value=found.get("ActiveState"), threshold="active")
    rows, _output, _lost = gpu.query(host, timeout=15)
    for row in rows:
        fabric, status = gpu.value(row, "fabric.state"), gpu.value(row, "fabric.status")
        if fabric and (fabric != "Completed" or status not in ("Success", "")):
            detail = f"GPU {row['index']}: {fabric}, {status}"
            if fabric == "In Progress" or host.uptime() < _GRACE:
                return warned(name, detail, "wait for it")
            return failed(name, detail, remedy)
    restarts = found.get("NRestarts", "0")
    if restarts.isdigit() and int(restarts) >= 3:
        return warned(name, f"restarted {restarts} times", "see its journal")
    return passed(name, state)


def _version(host: Host) -> Finding:
    name = "fabric_manager_version"
    driver = re.search(
        r"\s(\d{3}\.\d+(?:\.\d+)?)\s", host.read("/proc/driver/nvidia/version") or ""
    )
    output = host.run("nv-fabricmanager", "--version", timeout=5)
    manager = re.search(r"(\d{3}\.\d+(?:\.\d+)?)", output.text)
    if not driver or not manager:
        what = output.problem or "the version of the driver or of the fabric manager is unknown"
        return incomplete(name, what, "run nv-fabricmanager --version on the node")
    more = {"value": manager[1], "threshold": driver[1]}
    if manager[1] != driver[1]:
        return failed(
            name, "", "install the fabric manager of the driver's version, then reboot", **more
        )
    return passed(name, **more)


# -- DCGM ------------------------------------------------------------------------------------------
def _wanted(host: Host) -> bool:
    return bool(host.expected("gpus")) and bool(host.config.get("dcgm"))


def health(host: Host) -> list[Finding]:
    """Read what DCGM's watches have seen."""
    name = "dcgm_health"
    if not _wanted(host):
        return [not_declared(name, "DCGM")]
    output = host.run("dcgmi", "health", "-c", "-j", timeout=15)
    body, problem = _json(output, "dcgmi health")
    if problem:
        return [
            incomplete(name, problem, "see nvidia-dcgm.service, and set watches: dcgmi health -s a")
        ]
    overall = (body.get("Overall Health") or {}).get("value")
    bad = sorted({where for where, word in _values(body) if word == "Failure" and where})
    if overall == "Failure" and bad:
        return [failed(name, "; ".join(bad[:3]), "run dcgmi diag -r 3 on the drained node")]
    if overall in ("Failure", "Warning"):
        named = sorted({where for where, word in _values(body) if word == overall and where})
        return [
            warned(
                name,
                f"{overall}: {'; '.join(named[:3]) or 'no entity is named'}",
                "run dcgmi health -c",
            )
        ]
    if overall == "Healthy":
        return [passed(name)]
    return [incomplete(name, f"Overall Health is {overall!r}", "set watches: dcgmi health -s a")]


def _values(node: t.Any, where: str = "") -> t.Iterator[tuple[str, str]]:
    """Yield (place, value) of each entity below a tree of DCGM."""
    if not isinstance(node, dict):
        return
    for key, item in node.items():
        if key == "Overall Health" or not isinstance(item, dict):
            continue
        place = where if key == "children" else f"{where} {key}".strip()
        if isinstance(item.get("value"), str):
            yield place, item["value"]
        yield from _values(item, place)


def _json(output: Output, what: str) -> tuple[dict[str, t.Any], str]:
    if output.problem:
        return {}, output.problem
    begin = output.text.find("{")
    try:
        found = json.loads(output.text[begin:]) if begin >= 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return {}, f"{what} exits with {output.code} and prints no JSON"
    body = found.get("body", found)
    return (body, "") if isinstance(body, dict) else ({}, f"{what}: the JSON has no body")


def diag(host: Host, level: int) -> list[Finding]:
    """Run a level of DCGM's diagnosis; not while jobs use the GPUs."""
    name = "dcgm_diag" if level == 1 else f"dcgm_diag_{level}"
    if not _wanted(host):
        return [not_declared(name, "DCGM")]
    if host.has_jobs():
        return [incomplete(name, "jobs run here", "run it on an idle node")]
    limit = {1: 290, 2: 1790, 3: 3590}[level]
    output = host.run("dcgmi", "diag", "-r", str(level), "-j", timeout=limit)
    body, problem = _json(output, "dcgmi diag")
    if problem:
        return [incomplete(name, problem, "see nvidia-dcgm.service")]
    found = dcgm_answer.outcomes(body)
    number = sum(one.status in ("pass", "fail", "warn") for one in found)
    failing = [one for one in found if one.status == "fail"]
    bad = [one.where for one in failing if not one.is_configuration]
    severity = max((one.severity for one in failing if not one.is_configuration), default=0)
    if bad:
        action = "reset" if severity == 6 else "drain"
        remedy = (
            "reset the GPU when the node is idle"
            if severity == 6
            else "run dcgmi diag -r 3; isolate the node"
        )
        return [failed(name, "; ".join(bad[:3]), remedy, action=action)]
    if failing:
        # As in validation: such as persistence mode that is off, which ends no job.
        said = "; ".join(failing[0].warnings) or failing[0].where
        return [warned(name, said, "correct the configuration, then run dcgmi diag -r 1")]
    if not number:
        return [
            incomplete(
                name, "no test in the answer of dcgmi diag", "run dcgmi diag -r 1 on the node"
            )
        ]
    return [Finding(name, Verdict.PASS, "", value=number, unit="tests")]
