# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Delays what a host sends over the network of jobs, as netem does in kernels that have it.

    python3 late.py MILLISECONDS

TCP of ports 20000 to 29999 is routed to a device of this program, which sends each packet on when its time has come.
Runs on the host as root until it is ended, and takes the device and its routes away then. Linux only.
"""

from __future__ import annotations

import collections
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

DEVICE, TABLE, MARK = "late0", "77", 7
PORTS = "20000-29999"
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_LONGEST = 65535


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def _rules(verb: str) -> None:
    _ip("rule", verb, "pref", "100", "fwmark", str(MARK), "lookup", "main")
    for end in ("dport", "sport"):
        _ip("rule", verb, "pref", "101", "ipproto", "tcp", end, PORTS, "lookup", TABLE)


def main(milliseconds: float) -> None:
    """Delay packets until SIGTERM."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
    address = _ip("-o", "-4", "addr", "show", "dev", "eth0").split()[3].partition("/")[0]
    _ip("link", "set", DEVICE, "up", "txqueuelen", "10000")
    _ip("route", "add", "default", "dev", DEVICE, "src", address, "table", TABLE)
    out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    waiting: collections.deque[tuple[float, bytes]] = collections.deque()
    _rules("add")
    try:
        while True:
            due = waiting[0][0] - time.monotonic() if waiting else None
            if select.select([device], [], [], due if due is None else max(0.0, due))[0]:
                packet = os.read(device, _LONGEST)
                if packet[0] >> 4 == 4:
                    waiting.append((time.monotonic() + milliseconds / 1000, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                packet = waiting.popleft()[1]
                out.sendto(packet, (socket.inet_ntoa(packet[16:20]), 0))
    finally:
        _rules("del")


if __name__ == "__main__":
    main(float(sys.argv[1]))
