# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of EFA and InfiniBand, by sysfs. Runs on nodes: Python 3.9.

Ethernet and management ports are not judged. The state of an EFA port is a constant of its driver, so its link is
that of its network device.
"""

from __future__ import annotations

import re
import time
import typing as t

from .finding import Finding, failed, incomplete, not_declared, passed, warned
from .host import Host

_CLASS = "/sys/class/infiniband"
_AMAZON = "0x1d0f"
#: Seconds after boot in which EFA devices may still appear.
_GRACE = 300
_EFA = ("efa_count", "efa_link", "efa_errors", "efa_version")
_IB = ("infiniband_links", "infiniband_rate", "infiniband_errors")


def _is_efa(host: Host, device: str) -> bool:
    return host.read(f"{_CLASS}/{device}/device/vendor") == _AMAZON


def _rates(host: Host, key: str, counters: t.Mapping[str, int]) -> dict[str, tuple[float, float]]:
    """Return (increase, seconds) of counters since the last cycle of this boot; none in the first."""
    now = time.time()
    before = host.memory.get(key) or {}
    host.remembered[key] = {"boot": host.boot_id(), "at": now, "counters": dict(counters)}
    if before.get("boot") != host.boot_id() or not 0 < now - before.get("at", now) < 86400:
        return {}
    old = before.get("counters") or {}
    length = max(1.0, now - before["at"])
    return {
        name: (count - old[name], length)
        for name, count in counters.items()
        if name in old and count > old[name]
    }


def _number(host: Host, path: str) -> int:
    text = host.read(path) or ""
    return int(text) if text.isdigit() else 0


# -- EFA -------------------------------------------------------------------------------------------
def efa(host: Host) -> list[Finding]:
    """Check the number of EFA devices, their links and their counters."""
    wanted = host.expected("efa")
    if not wanted:
        return [not_declared(name, "EFA") for name in _EFA]
    devices = [device for device in host.entries(_CLASS) if _is_efa(host, device)]
    return [
        _efa_count(host, len(devices), wanted),
        _efa_link(host, devices),
        _efa_errors(host, devices),
        _efa_version(host),
    ]


def _efa_count(host: Host, found: int, wanted: int) -> Finding:
    name, more = "efa_count", {"value": found, "threshold": wanted, "unit": "EFA devices"}
    if found >= wanted:
        return passed(name, **more)
    if host.uptime() < _GRACE:
        return warned(name, f"{host.uptime():.0f} s after boot", "wait for them", **more)
    if host.unverified("efa_interfaces"):
        return warned(name, "", "correct the machine type, or reboot the node", **more)
    return failed(name, "", "reboot the node; replace the machine if it comes back", **more)


def _efa_link(host: Host, devices: t.Iterable[str]) -> Finding:
    name, down = "efa_link", []
    for device in devices:
        # A device for EFA alone does not have a network device.
        for interface in host.entries(f"{_CLASS}/{device}/device/net"):
            base = f"{_CLASS}/{device}/device/net/{interface}"
            state, carrier = host.read(f"{base}/operstate"), host.read(f"{base}/carrier")
            # The administrator's "down" shows in flags, and carrier then cannot be read.
            up = int(host.read(f"{base}/flags") or "0x1", 16) & 1
            if up and (carrier == "0" or state in ("down", "lowerlayerdown")):
                down.append(f"{interface} ({device})")
    if down:
        return failed(
            name, f"without carrier: {', '.join(down)}", "reboot the node; replace it if it stays"
        )
    return passed(name)


def _efa_errors(host: Host, devices: t.Iterable[str]) -> Finding:
    name, counters = "efa_errors", {}
    for device in devices:
        for port in host.entries(f"{_CLASS}/{device}/ports"):
            for counter in ("no_completion_cmds", "cmds_err", "rx_drops"):
                path = f"{_CLASS}/{device}/ports/{port}/hw_counters/{counter}"
                counters[f"{device} {counter}"] = _number(host, path)
    bad = []
    for key, (rise, length) in _rates(host, "efa", counters).items():
        most = 100.0 * length if key.endswith("rx_drops") else 10.0 * max(1.0, length / 60)
        if rise > most:
            bad.append(f"{key}: {rise:.0f} in {length:.0f} s")
    if bad:
        return warned(name, "; ".join(bad[:3]), "look at the device and its driver")
    return passed(name)


def _efa_version(host: Host) -> Finding:
    name, found = "efa_version", host.read("/sys/module/efa/version")
    wanted = str((host.config.get("versions") or {}).get("efa") or "")
    if not wanted:
        return passed(name, found or "")
    if not found:
        return incomplete(name, "/sys/module/efa/version cannot be read", "load the driver efa")
    if found != wanted:
        return warned(name, "", "install the driver of the fleet", value=found, threshold=wanted)
    return passed(name, value=found, threshold=wanted)


# -- InfiniBand ------------------------------------------------------------------------------------
def infiniband(host: Host) -> list[Finding]:
    """Check links, rate and counters of InfiniBand ports."""
    wanted = host.expected("infiniband")
    if not wanted:
        return [not_declared(name, "InfiniBand") for name in _IB]
    ports = []
    for device in host.entries(_CLASS):
        for port in host.entries(f"{_CLASS}/{device}/ports"):
            base = f"{_CLASS}/{device}/ports/{port}"
            if host.read(f"{base}/link_layer") == "InfiniBand":
                ports.append((f"{device}/{port}", base))
    up, other = [], []
    for label, base in ports:
        state, physical = host.read(f"{base}/state") or "", host.read(f"{base}/phys_state") or ""
        if state == "4: ACTIVE" and physical == "5: LinkUp":
            up.append((label, base))
        else:
            other.append(f"{label} is {state.partition(': ')[2]}, {physical.partition(': ')[2]}")
    return [_links(up, other, wanted), _rate(host, up), _ib_errors(host, ports)]


def _links(up: t.Sequence[t.Any], other: t.Sequence[str], wanted: int) -> Finding:
    name = "infiniband_links"
    more = {"value": len(up), "threshold": wanted, "unit": "active ports"}
    if len(up) < wanted:
        return failed(
            name, "; ".join(other[:3]), "look at cable, switch port and subnet manager", **more
        )
    return passed(name, **more)


def _gbits(text: str) -> float:
    match = re.match(r"([\d.]+) Gb/sec", text)
    return float(match[1]) if match else 0


def _rate(host: Host, up: t.Sequence[tuple[str, str]]) -> Finding:
    name = "infiniband_rate"
    rates = {label: _gbits(host.read(f"{base}/rate") or "") for label, base in up}
    if not rates:
        return incomplete(name, "no port is active", "see infiniband_links")
    given = (host.config.get("versions") or {}).get("infiniband_gbits")
    wanted = float(given or max(rates.values()))
    slow = {label: rate for label, rate in rates.items() if rate < wanted}
    more = {"value": min(rates.values()), "threshold": wanted, "unit": "Gbit/s"}
    if not slow:
        return passed(name, **more)
    detail, remedy = ", ".join(slow), "look at cable and switch port"
    # Without a rate that the site has given, only some ports being slower than others shows.
    return (failed if given else warned)(name, detail, remedy, **more)


def _ib_errors(host: Host, ports: t.Sequence[tuple[str, str]]) -> Finding:
    name, counters = "infiniband_errors", {}
    for label, base in ports:
        for counter in ("link_downed", "symbol_error", "link_error_recovery"):
            counters[f"{label} {counter}"] = _number(host, f"{base}/counters/{counter}")
    bad = []
    for key, (rise, length) in _rates(host, "infiniband", counters).items():
        often = 120 * max(1.0, length / 3600) if key.endswith("symbol_error") else 2
        if rise > often:
            bad.append(f"{key}: {rise:.0f} in {length:.0f} s")
    # A counter at its end no longer rises: link_downed at 255.
    full = [key for key, count in counters.items() if key.endswith("link_downed") and count >= 255]
    if bad or full:
        detail = "; ".join((bad + [f"{key} is at its end" for key in full])[:3])
        return warned(
            name, detail, "look at cable and switch port; reset counters with perfquery -R"
        )
    return passed(name)
