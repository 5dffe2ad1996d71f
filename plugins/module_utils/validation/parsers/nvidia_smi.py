# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nvidia-smi -q -x: the state of each GPU. Pure.

Formats: nvsmi_device_v11.dtd to v13. The elements become the fields of `nvidia-smi --query-gpu`, so the checks of
health/gpu.py read both alike.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass
from xml.parsers import expat

from ...health.gpu import action_of, value
from .error import ParseError, shown
from .parsed import Parsed
from .text import MOST_CHARACTERS, lines, whole

_TOOL = "nvidia-smi -q -x"
_DEEPEST = 24
#: The field of --query-gpu, and the elements below <gpu> that have it, the newest first.
_FIELDS = {
    "name": ("product_name",),
    "uuid": ("uuid",),
    "pci.bus_id": ("pci/pci_bus_id",),
    "persistence_mode": ("persistence_mode",),
    "pstate": ("performance_state",),
    "mig.mode.current": ("mig_mode/current_mig",),
    "pcie.link.width.current": ("pci/pci_gpu_link_info/link_widths/current_link_width",),
    "pcie.link.width.max": ("pci/pci_gpu_link_info/link_widths/max_link_width",),
    "pcie.link.gen.current": ("pci/pci_gpu_link_info/pcie_gen/current_link_gen",),
    "pcie.link.gen.max": ("pci/pci_gpu_link_info/pcie_gen/max_link_gen",),
    "gpu_recovery_action": ("gpu_recovery_action",),
    "fabric.state": ("fabric/state",),
    "fabric.status": ("fabric/status",),
    "remapped_rows.uncorrectable": ("remapped_rows/remapped_row_unc",),
    "remapped_rows.pending": ("remapped_rows/remapped_row_pending",),
    "remapped_rows.failure": ("remapped_rows/remapped_row_failure",),
    "temperature.gpu": ("temperature/gpu_temp",),
    "memory.total": ("fb_memory_usage/total",),
}
_UNCORRECTED = (
    "sram_uncorrectable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "dram_uncorrectable",
)
_SLOW = ("hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown")


@dataclass(frozen=True)
class Gpu:
    """One GPU. row: by the field of --query-gpu, as printed, "" where the driver does not report it.

    uncorrected: uncorrected ECC errors since boot, None without ECC. slow: active reasons that slow the clocks.
    """

    row: dict[str, str]
    uncorrected: int | None
    slow: tuple[str, ...]

    def count(self, field: str) -> int | None:
        """Return a whole number of a field without its unit, None where the driver does not report it."""
        found = re.match(r"([0-9]{1,12})(?![0-9.])", self.row.get(field, ""))
        return int(found[1]) if found else None


@dataclass(frozen=True)
class NvidiaSmi(Parsed):
    """The GPUs of a node. driver, cuda: versions as printed."""

    driver: str
    cuda: str
    gpus: tuple[Gpu, ...]

    @property
    def figures(self) -> dict[str, float]:
        """Return gpus, uncorrected (ECC errors of all), pcie_width, pcie_generation (lowest), temperature (highest)."""
        found = {"gpus": float(len(self.gpus))}
        errors = [gpu.uncorrected for gpu in self.gpus if gpu.uncorrected is not None]
        if errors:
            found["uncorrected"] = float(sum(errors))
        for name, field, pick in (
            ("pcie_width", "pcie.link.width.current", min),
            ("pcie_generation", "pcie.link.gen.current", min),
            ("temperature", "temperature.gpu", max),
        ):
            counts = [gpu.count(field) for gpu in self.gpus]
            if all(count is not None for count in counts):
                found[name] = float(pick(t.cast("list[int]", counts)))
        return found

    @property
    def faults(self) -> tuple[str, ...]:
        found = []
        for index, gpu in enumerate(self.gpus):
            action = action_of(gpu.row)
            if action:
                found.append(f"GPU {index}: the driver asks for {action}")
            if gpu.uncorrected:
                found.append(f"GPU {index}: {gpu.uncorrected} uncorrected ECC errors")
            if value(gpu.row, "remapped_rows.failure").lower() in ("yes", "1"):
                found.append(f"GPU {index}: a row could not be remapped")
        return tuple(found)


def parse(text: str) -> NvidiaSmi:
    """Read standard output. Raises ParseError."""
    whole_text = "\n".join(lines(text, _TOOL, MOST_CHARACTERS))
    begin = whole_text.find("<?xml")
    if begin < 0:
        raise ParseError(f"{_TOOL}: no XML in {shown(whole_text.strip())}", "see its exit code")
    top, gpus = _Reader().read(whole_text[begin:])
    attached = whole(top.get("attached_gpus", ""), f"{_TOOL}: attached_gpus")
    if attached != len(gpus):
        raise ParseError(f"{_TOOL}: {len(gpus)} of {attached} GPUs", "see nvidia-smi on the node")
    driver = top.get("driver_version", "")
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)+", driver):
        raise ParseError(f"{_TOOL}: driver {shown(driver)}", "see nvidia-smi on the node")
    return NvidiaSmi(
        driver, top.get("cuda_version", ""), tuple(_gpu(*gpu) for gpu in enumerate(gpus))
    )


def _gpu(index: int, texts: dict[str, str]) -> Gpu:
    row = {
        field: next((texts[path] for path in paths if path in texts), "")
        for field, paths in _FIELDS.items()
    }
    row["index"] = str(index)
    what = f"{_TOOL}: GPU {index}"
    if not row["uuid"].startswith("GPU-") or not row["name"] or ":" not in row["pci.bus_id"]:
        raise ParseError(f"{what} has no name, uuid or bus", "see nvidia-smi on the node")
    counts = [
        texts[path]
        for path in (f"ecc_errors/volatile/{name}" for name in _UNCORRECTED)
        if path in texts and not re.fullmatch(r"N/A|\[?Not Supported\]?|", texts[path])
    ]
    uncorrected = sum(whole(word, f"{what}: ECC errors") for word in counts) if counts else None
    slow = tuple(
        name
        for name in _SLOW
        for begin in (
            "clocks_event_reasons/clocks_event_reason_",
            "clocks_throttle_reasons/clocks_throttle_reason_",
        )
        if texts.get(begin + name) == "Active"
    )
    return Gpu(row, uncorrected, slow)


class _Reader:
    """Reads the texts of elements by their path: those of the log, and those of each <gpu> below it."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._text: list[str] = []
        self._top: dict[str, str] = {}
        self._gpus: list[dict[str, str]] = []

    def read(self, text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.EntityDeclHandler = self._refuse
        end = text.rfind("</nvidia_smi_log>")
        try:
            # Lines of other programs may follow.
            parser.Parse(text[: end + len("</nvidia_smi_log>")] if end >= 0 else text, True)
        except (expat.ExpatError, UnicodeError) as error:
            raise ParseError(f"{_TOOL}: the XML is broken: {error}", "run it again") from None
        return self._top, self._gpus

    def _refuse(self, *_declaration: object) -> None:
        raise ParseError(
            f"{_TOOL}: the XML declares entities",
            "nvidia-smi does not: check which program printed it",
        )

    def _begin(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name)
        if self._path[0] != "nvidia_smi_log" or len(self._path) > _DEEPEST:
            raise ParseError(
                f"{_TOOL}: an element {shown('/'.join(self._path[:3]))}",
                "check which program printed it",
            )
        if len(self._path) == 2 and name == "gpu":
            self._gpus.append({})
        self._text.clear()

    def _end(self, name: str) -> None:
        text = "".join(self._text).strip()
        self._text.clear()
        if len(self._path) == 2 and name != "gpu":
            self._top.setdefault(name, text)
        elif len(self._path) > 2 and self._path[1] == "gpu" and self._gpus:
            self._gpus[-1].setdefault("/".join(self._path[2:]), text)
        self._path.pop()
