# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Interfaces, addresses and ports of a machine, and which others it reaches. Runs on nodes: Python 3.9."""

from __future__ import annotations

import array
import fcntl
import glob
import os
import socket
import struct
import threading
import time
import typing as t

from .machine import read, read_int

TCP_LISTEN = "0A"
#: Names that mean the local machine on every host.
LOCAL_NAMES = ("localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback")


def interface_addresses() -> list[tuple[str, str]]:
    """(interface, IPv4 address) pairs of this machine, loopback left out (SIOCGIFCONF)."""
    size = 128 * 40
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        buffer = array.array("B", b"\0" * size)
        request = struct.pack("iL", size, buffer.buffer_info()[0])
        used = struct.unpack("iL", fcntl.ioctl(sock.fileno(), 0x8912, request))[0]
    raw = buffer.tobytes()[:used]
    pairs = []
    for start in range(0, used, 40):  # struct ifreq: 16 bytes of name, then a sockaddr
        name = raw[start : start + 16].split(b"\0", 1)[0].decode().partition(":")[0]
        address = socket.inet_ntoa(raw[start + 20 : start + 24])
        if not address.startswith("127."):
            pairs.append((name, address))
    return pairs


def default_interface(root: str = "/") -> str:
    """Interface of the IPv4 default route, "" without one."""
    for line in read(os.path.join(root, "proc/net/route")).splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
            return fields[0]
    return ""


def nics(root: str, pairs: list[tuple[str, str]]) -> list[dict[str, object]]:
    """Network interfaces with their speed in Mbit/s (0: unknown) and first IPv4 address."""
    found = []
    for path in sorted(glob.glob(os.path.join(root, "sys/class/net/*"))):
        name = os.path.basename(path)
        if name == "lo" or not os.path.isdir(path):
            continue
        address = next((address for nic, address in pairs if nic == name), "")
        if not address and not os.path.exists(os.path.join(path, "device")):
            continue  # a virtual interface nobody uses
        speed = max(read_int(os.path.join(path, "speed")), 0)
        found.append({"name": name, "speed_mbps": speed, "address": address})
    return found


def listening_inodes(root: str, ports: set[int]) -> dict[str, int]:
    """Socket inode -> port, for every listening TCP socket on one of these ports."""
    inodes = {}
    for name in ("tcp", "tcp6"):
        for line in read(os.path.join(root, "proc/net", name)).splitlines()[1:]:
            fields = line.split()
            if len(fields) < 10 or fields[3] != TCP_LISTEN:
                continue
            port = int(fields[1].rpartition(":")[2], 16)
            if port in ports:
                inodes[fields[9]] = port
    return inodes


def listeners(root: str, ports: list[int]) -> dict[str, str]:
    """Which process listens on each of the ports; free ports are left out, "?" if unknown."""
    inodes = listening_inodes(root, set(ports))
    found = {str(port): "?" for port in inodes.values()}
    waiting = dict(inodes)
    for process in glob.glob(os.path.join(root, "proc/[0-9]*")) if inodes else ():
        try:
            entries = os.listdir(os.path.join(process, "fd"))
        except OSError:
            continue
        for entry in entries:
            try:
                target = os.readlink(os.path.join(process, "fd", entry))
            except OSError:
                continue
            port = waiting.pop(target[8:-1], None) if target.startswith("socket:[") else None
            if port is not None:
                found[str(port)] = read(os.path.join(process, "comm"), "?")
        if not waiting:
            break
    return found


def probe(target: str, timeout: float = 3.0) -> str:
    """Result of one TCP connection to "host:port"; refused means that the way there is open."""
    host, _colon, port = target.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout):
            return "open"
    except socket.gaierror:
        return "unresolved"
    except ConnectionRefusedError:
        return "refused"
    except socket.timeout:
        return "filtered: no answer in %g s" % timeout
    except ValueError:
        return "unresolved"
    except OSError as error:
        return "filtered: %s" % (error.strerror or error)


def peer(target: str, timeout: float = 3.0) -> str:
    """Address that accepts a TCP connection to "host:port", "" where none does."""
    host, _colon, port = target.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout) as connection:
            return str(connection.getpeername()[0])
    except (OSError, ValueError):
        return ""


class Probes:
    """TCP probes that run beside everything else; ask returns what is found of a target."""

    def __init__(
        self,
        targets: list[str],
        deadline: float = 8.0,
        ask: t.Callable[[str], str] = probe,
    ) -> None:
        self.ask = ask
        self.results: dict[str, str] = {}
        self.targets = list(dict.fromkeys(targets))
        self.end = time.monotonic() + deadline
        # Daemon threads: a resolver that hangs must not keep the module from ending.
        self.threads = [
            threading.Thread(target=self._probe, args=(target,), daemon=True)
            for target in self.targets
        ]
        for thread in self.threads:
            thread.start()

    def _probe(self, target: str) -> None:
        self.results[target] = self.ask(target)

    def collect(self, silent: str = "unresolved") -> dict[str, str]:
        for thread in self.threads:
            thread.join(max(self.end - time.monotonic(), 0))
        return {target: self.results.get(target, silent) for target in self.targets}
