# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of GPUs by nvidia-smi: one query for all of them. Runs on nodes: Python 3.9.

A value that the driver does not have ([N/A], a field that it does not know) is NOT_APPLICABLE, never a failure.
"""

from __future__ import annotations

import re
import typing as t

from ..checks.result import Verdict
from ..hardware.xid import bus_of
from .finding import Finding, failed, incomplete, not_declared, passed, warned
from .host import Host, Output

CHECKS = (
    "gpu_driver",
    "gpu_count",
    "gpu_recovery_action",
    "gpu_ecc",
    "gpu_row_remap",
    "gpu_pcie_width",
    "gpu_clocks",
    "gpu_persistence",
    "gpu_model",
)
FIELDS = (
    "index",
    "uuid",
    "pci.bus_id",
    "name",
    "driver_version",
    "pstate",
    "persistence_mode",
    "mig.mode.current",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "ecc.errors.uncorrected.volatile.total",
    "clocks_event_reasons.active",
    "gpu_recovery_action",
    "fabric.state",
    "fabric.status",
)
_REMAP = "gpu_bus_id,remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure"
#: A driver prints this instead of a value that it does not have.
_NO_VALUE = re.compile(
    r"\[?(n/a|not supported|unknown error|.*requires reset|insufficient.*)\]?|", re.I
)
_UNKNOWN_FIELD = re.compile(r'Field "([\w.]+)" is not a valid field to query')
_LOST = re.compile(r"Unable to determine the device handle for GPU\s*(\S+?):?\s", re.IGNORECASE)
#: Exit codes of nvidia-smi that name a fault of the machine (nvidia-smi(1), RETURN VALUE).
_EXITS = {
    8: (
        "external power cables of a GPU are not attached",
        "attach them, or replace the machine",
        "replace",
    ),
    9: ("the NVIDIA driver is not loaded", "reboot the node; see modprobe nvidia", "reboot"),
    15: (
        "a GPU has fallen off the bus",
        "reboot the node; replace the machine if it comes back",
        "reboot",
    ),
}
#: Bits of the clocks' event reasons: HW slowdown, SW and HW thermal, power brake.
_SLOW = {0x8: "HW slowdown", 0x20: "SW thermal", 0x40: "HW thermal", 0x80: "power brake"}
_WORDS = {
    "none": "",
    "reset": "reset",
    "reboot": "reboot",
    "drain p2p": "drain",
    "drain and reset": "reset",
}
_RECOVERY = {
    "reset": ("reset the GPU when the node is idle", "reset"),
    "reboot": ("reboot the node", "reboot"),
    "drain": ("drain the node: P2P traffic of this GPU has to end", "drain"),
}

Row = dict[str, str]


def query(host: Host, timeout: float = 20) -> tuple[list[Row], Output, list[str]]:
    """Return a row for each GPU, the last output, and the names of GPUs that the driver has lost.

    A field that this driver does not know is left out, and remembered until the next boot.
    """
    known = host.memory.get("smi_unknown") or {}
    unknown = set(known.get("fields") or ()) if known.get("boot") == host.boot_id() else set()
    while True:
        fields = [field for field in FIELDS if field not in unknown]
        output = host.run(
            "nvidia-smi",
            f"--query-gpu={','.join(fields)}",
            "--format=csv,noheader,nounits",
            timeout=timeout,
        )
        match = _UNKNOWN_FIELD.search(output.text)
        if not match or match[1] in unknown or match[1] not in fields:
            break
        unknown.add(match[1])
    host.remembered["smi_unknown"] = {"boot": host.boot_id(), "fields": sorted(unknown)}
    rows = []
    for text in output.text.splitlines():
        values = [value.strip() for value in text.split(",")]
        if len(values) == len(fields) and values[0].isdigit():
            rows.append(dict(zip(fields, values)))
    lost = [match[1] for match in _LOST.finditer(output.text + "\n")]
    return rows, output, lost


def value(row: Row, field: str) -> str:
    """Return a value of a GPU, "" where the driver does not have it."""
    text = row.get(field, "")
    return "" if _NO_VALUE.fullmatch(text) else text


def check(host: Host) -> list[Finding]:
    """Run the checks of this file."""
    wanted = host.expected("gpus")
    if not wanted:
        return [not_declared(name, "a GPU") for name in CHECKS]
    rows, output, lost = query(host)
    driver = _driver(output, rows)
    if driver.verdict is not Verdict.PASS and not rows:
        others = [
            incomplete(name, "nvidia-smi gave no answer", "see gpu_driver")
            for name in CHECKS
            if name != "gpu_driver"
        ]
        return [driver, *others]
    return [
        driver,
        _count(host, rows, lost, wanted),
        _recovery(rows),
        _ecc(rows),
        _remap(host, rows),
        _width(host, rows),
        _clocks(rows),
        _persistence(rows),
        _model(host, rows),
    ]


def _driver(output: Output, rows: t.Sequence[Row]) -> Finding:
    name = "gpu_driver"
    if output.problem:
        return incomplete(
            name, output.problem, "see nvidia-smi on the node; a busy driver can be slow"
        )
    if output.code in _EXITS:
        what, remedy, action = _EXITS[output.code]
        return failed(name, what, remedy, action=action)
    if "couldn't communicate with the NVIDIA driver" in output.text:
        return failed(name, _EXITS[9][0], _EXITS[9][1], action="reboot")
    if output.code == 14:
        return warned(name, "the InfoROM of a GPU is corrupted", "ask the vendor")
    if rows:
        return passed(name, value(rows[0], "driver_version"))
    said = output.text.strip().splitlines()[:1]
    if said and "No devices were found" in said[0]:
        return passed(name, "answers, and finds no GPU")
    return incomplete(
        name,
        f"nvidia-smi exits with {output.code}: {said[0] if said else 'no output'}",
        "run it on the node",
    )


def _count(host: Host, rows: t.Sequence[Row], lost: t.Sequence[str], wanted: int) -> Finding:
    name, found = "gpu_count", len(rows)
    more = {"value": found, "threshold": wanted, "unit": "GPUs"}
    if found < wanted:
        on_bus = _on_bus(host)
        detail = f"lost: {', '.join(lost)}" if lost else f"{on_bus} on the PCI bus"
        remedy = "reboot the node; replace the machine if it comes back"
        if host.unverified("gpus", "gpus.count"):
            return warned(name, detail, "correct the machine type, or " + remedy, **more)
        return failed(name, detail, remedy, **more)
    if found > wanted:
        return warned(name, "more than declared", "correct slurm_node.machine_type", **more)
    return passed(name, **more)


def _on_bus(host: Host) -> int:
    """Return how many NVIDIA GPUs the PCI bus has (class 0x0300 and 0x0302)."""
    devices = "/sys/bus/pci/devices"
    return sum(
        host.read(f"{devices}/{name}/vendor") == "0x10de"
        and (host.read(f"{devices}/{name}/class") or "").startswith(("0x0300", "0x0302"))
        for name in host.entries(devices)
    )


def _named(rows: t.Iterable[Row]) -> str:
    return "GPU " + ", ".join(row["index"] for row in rows)


def _absent(name: str) -> Finding:
    return Finding(name, Verdict.NOT_APPLICABLE, "these GPUs or this driver do not report it")


def action_of(row: Row) -> str | None:
    """Return what the driver asks for a GPU: "", reset, reboot or drain; None where it does not say."""
    text = value(row, "gpu_recovery_action").lower()
    if not text:
        return None
    words = re.sub(r"\b(gpu|os|node|host|required|system)\b", "", text.replace("_", " "))
    return _WORDS.get(" ".join(words.split()), "drain")


def _recovery(rows: t.Sequence[Row]) -> Finding:
    name = "gpu_recovery_action"
    asked = {row["index"]: action_of(row) for row in rows}
    due = [row for row in rows if asked[row["index"]]]
    if not due:
        known = any(action is not None for action in asked.values())
        return passed(name, "None") if known else _absent(name)
    worst = max((asked[row["index"]] or "" for row in due), key=("drain", "reset", "reboot").index)
    remedy, action = _RECOVERY[worst]
    return failed(name, f"the driver asks for {worst} of {_named(due)}", remedy, action=action)


def _ecc(rows: t.Sequence[Row]) -> Finding:
    name, field = "gpu_ecc", "ecc.errors.uncorrected.volatile.total"
    counted = [(row, value(row, field)) for row in rows]
    if not any(text for _row, text in counted):
        return _absent(name)
    bad = [row for row, text in counted if text.isdigit() and int(text)]
    if not bad:
        return passed(name, value=0, threshold=0, unit="uncorrected errors")
    number = sum(int(value(row, field)) for row in bad)
    more = {"value": number, "threshold": 0, "unit": "uncorrected errors"}
    # A contained error ended one program, and the driver that knows says whether more is due.
    if all(action_of(row) == "" for row in bad):
        return warned(
            name, f"{_named(bad)}; the driver asks for nothing", "restart the job", **more
        )
    return failed(name, _named(bad), "reset the GPU when the node is idle", **more)


def _remap(host: Host, rows: t.Sequence[Row]) -> Finding:
    name = "gpu_row_remap"
    if any(value(row, "mig.mode.current") == "Enabled" for row in rows):
        return Finding(name, Verdict.NOT_APPLICABLE, "cannot be asked while MIG is active")
    output = host.run(
        "nvidia-smi", f"--query-remapped-rows={_REMAP}", "--format=csv,noheader,nounits", timeout=10
    )
    if output.problem:
        return incomplete(name, output.problem, "see nvidia-smi on the node")
    table = [[part.strip() for part in text.split(",")] for text in output.text.splitlines()]
    table = [parts for parts in table if len(parts) == 4 and ":" in parts[0]]
    index = {bus_of(row["pci.bus_id"]): row["index"] for row in rows if row.get("pci.bus_id")}
    asked = [
        parts for parts in table if any(part[:1].isalnum() and part != "N/A" for part in parts[1:])
    ]
    if not asked:
        said = output.text.strip()
        if table or "not supported" in said.lower() or "not a valid field" in said:
            return _absent(name)
        return incomplete(
            name, f"nvidia-smi exits with {output.code}: {said[:60]}", "run it on the node"
        )

    def those(column: int) -> str:
        found = [parts for parts in asked if parts[column].lower() in ("1", "yes")]
        return ", ".join(f"GPU {index.get(bus_of(parts[0]), parts[0])}" for parts in found)

    if those(3):
        return failed(
            name, f"a row could not be remapped: {those(3)}", "replace the GPU", action="replace"
        )
    many = [p for p in asked if p[1].isdigit() and int(p[1]) >= 512]
    if many:
        return failed(name, "512 rows are remapped on one GPU", "replace the GPU", action="replace")
    if those(2):
        return warned(
            name, f"a remap is pending: {those(2)}", "reset the GPU when the node is idle"
        )
    return passed(name)


def _width(host: Host, rows: t.Sequence[Row]) -> Finding:
    name, wanted = "gpu_pcie_width", host.expected("pcie_width")
    if not wanted:
        return not_declared(name, "a PCIe width")
    seen = [(row, value(row, "pcie.link.width.current")) for row in rows]
    narrow = [row for row, text in seen if text.isdigit() and int(text) < wanted]
    if not any(text.isdigit() for _row, text in seen):
        return _absent(name)
    if not narrow:
        return passed(name, value=wanted, threshold=wanted, unit="lanes")
    width = min(int(value(row, "pcie.link.width.current")) for row in narrow)
    more = {"value": width, "threshold": wanted, "unit": "lanes"}
    # The link of an idle GPU may be narrower, to save power.
    idle = all(value(row, "pstate") not in ("P0", "") for row in narrow)
    if idle or host.unverified("pcie_width"):
        return warned(
            name, f"{_named(narrow)}{', idle' if idle else ''}", "look again under load", **more
        )
    return failed(
        name, _named(narrow), "reboot the node; reseat or replace the GPU if it stays", **more
    )


def _clocks(rows: t.Sequence[Row]) -> Finding:
    name, bits, slow = "gpu_clocks", 0, []
    known = False
    for row in rows:
        text = value(row, "clocks_event_reasons.active")
        if re.fullmatch(r"0x[0-9a-fA-F]+", text):
            known = True
            if int(text, 16) & 0xE8:
                bits |= int(text, 16) & 0xE8
                slow.append(row)
    if slow:
        why = ", ".join(word for bit, word in _SLOW.items() if bits & bit)
        return warned(name, f"{_named(slow)}: {why}", "look at cooling and power of the machine")
    return passed(name) if known else _absent(name)


def _persistence(rows: t.Sequence[Row]) -> Finding:
    name = "gpu_persistence"
    off = [row for row in rows if value(row, "persistence_mode") == "Disabled"]
    if off:
        return warned(
            name,
            f"off: {_named(off)}",
            "enable nvidia-persistenced, so that the driver stays loaded",
        )
    return passed(name)


def _model(host: Host, rows: t.Sequence[Row]) -> Finding:
    name, wanted = "gpu_model", str(host.declared.get("gpu_model") or "")
    words = set(re.split(r"[^A-Z0-9]+", wanted.upper())) - {""}
    other = [
        row
        for row in rows
        if value(row, "name") and not words <= set(re.split(r"[^A-Z0-9]+", row["name"].upper()))
    ]
    if wanted and other:
        return warned(
            name, "", "correct slurm_node.machine_type", value=other[0]["name"], threshold=wanted
        )
    return passed(name, wanted)


def processes(host: Host) -> list[Finding]:
    """Look for processes that use a GPU although no job runs here."""
    name = "gpu_leftovers"
    if not host.expected("gpus"):
        return [not_declared(name, "a GPU")]
    if host.has_jobs():
        return [passed(name, "jobs run here")]
    output = host.run(
        "nvidia-smi",
        "--query-compute-apps=pid,used_memory",
        "--format=csv,noheader,nounits",
        timeout=8,
    )
    if output.problem or output.code:
        why = output.problem or f"nvidia-smi exits with {output.code}"
        return [incomplete(name, why, "see gpu_driver")]
    pids = [text.split(",")[0].strip() for text in output.text.splitlines()]
    pids = [pid for pid in pids if pid.isdigit()]
    # A job may have started since.
    if pids and not host.has_jobs():
        return [
            warned(name, f"process {', '.join(pids[:8])}", "end what jobs left behind", value=len(pids),
                   threshold=0, unit="processes")
        ]  # fmt: skip
    return [passed(name)]


# -- NVLink ----------------------------------------------------------------------------------------
#: GB/s of one link by the first word of a model that has it.
_SPEED = {
    "V100": 25.0,
    "A100": 25.0,
    "H100": 26.562,
    "H200": 26.562,
    "B200": 53.125,
    "B300": 53.125,
    "GB200": 53.125,
}


def nvlink(host: Host) -> list[Finding]:
    """Compare the links that are up, and their speed, with the machine type."""
    name, wanted = "gpu_nvlink", host.expected("nvlink")
    if not wanted or not host.expected("gpus"):
        return [not_declared(name, "NVLink")]
    output = host.run("nvidia-smi", "nvlink", "-s", timeout=15)
    if output.problem or (output.code and "Link" not in output.text):
        why = output.problem or f"nvidia-smi nvlink exits with {output.code}"
        return [incomplete(name, why, "see gpu_driver")]
    found: dict[str, list[float]] = {}
    gpu = ""
    for text in output.text.splitlines():
        begin = re.match(r"\s*GPU (\d+):", text)
        if begin:
            gpu = begin[1]
            found[gpu] = []
            if re.match(r"\s*GPU \d+:.*MIG", text):
                return [Finding(name, Verdict.NOT_APPLICABLE, "MIG is active")]
        link = re.match(r"\s*Link (\d+): *([\d.]+) GB/s", text)
        if link and gpu:
            found[gpu].append(float(link[2]))
    if not found:
        return [incomplete(name, "nvidia-smi nvlink -s lists no GPU", "run it on the node")]
    model = str(host.declared.get("gpu_model") or "").partition(" ")[0].upper()
    least = _SPEED.get(model, 0) * 0.9
    short = {gpu: len(speeds) for gpu, speeds in found.items() if len(speeds) < wanted}
    slow = [gpu for gpu, speeds in found.items() if any(speed < least for speed in speeds)]
    more = {"threshold": wanted, "unit": "links of each GPU"}
    remedy = "reset the GPUs of this node when it is idle, then see the fabric manager"
    if short:
        detail = ", ".join(f"GPU {gpu}: {count}" for gpu, count in short.items())
        make = warned if host.unverified("nvlink_links") else failed
        return [make(name, detail, remedy, value=min(short.values()), **more)]
    if slow:
        speed = min(min(found[gpu]) for gpu in slow)
        return [
            failed(
                name, f"GPU {', '.join(slow)}: {speed:g} GB/s a link", remedy, value=wanted, **more
            )
        ]
    return [passed(name, value=wanted, **more)]
