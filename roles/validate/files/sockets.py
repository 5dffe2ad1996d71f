# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Measures bandwidth and latency between the two nodes of a step over TCP, with Python's standard library alone.

    srun --nodes=2 --ntasks-per-node=1 python3 sockets.py

Task 0 listens, task 1 connects and prints one line of JSON. Data flows both ways, one after the other, and the slower
way counts: a fault of an interface is often in one direction only. So does the share of bytes that TCP sent again: the
bandwidth may not show a loss of a few packets in a hundred.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import sys
import time

BLOCK = 1 << 20
#: Bytes of a transfer at least: with few packets, a loss would be a matter of luck.
LEAST = 16 << 20
PATTERN = b"\xa5"
#: Bytes of the smallest message, which the latency is of.
SMALL = 8
#: Where struct tcp_info has tcpi_bytes_sent and tcpi_bytes_retrans (include/uapi/linux/tcp.h, since Linux 4.19).
SENT = 200


def receive(connection: socket.socket, size: int, buffer: memoryview) -> None:
    """Read exactly so many bytes. Raises ConnectionError where the other side has gone."""
    left = size
    while left:
        at = (size - left) % len(buffer)
        got = connection.recv_into(buffer[at : at + left])
        if not got:
            raise ConnectionError("the other node closed the connection")
        left -= got


def send(connection: socket.socket, size: int, buffer: memoryview) -> None:
    """Send so many bytes."""
    left = size
    while left:
        part = min(left, len(buffer))
        connection.sendall(buffer[:part])
        left -= part


def listen(port: int, patience: float) -> socket.socket:
    """Return the connection of the other task."""
    with socket.create_server(("", port)) as server:
        server.settimeout(patience)
        connection, _address = server.accept()
    return connection


def connect(address: str, port: int, patience: float) -> socket.socket:
    """Return a connection to the first task, which may start later."""
    end = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection((address, port), timeout=patience)
        except OSError as error:
            if time.monotonic() > end:
                sys.exit(
                    f"{address}:{port}: {error} -> may the nodes reach each other on ports of jobs?"
                )
            time.sleep(0.1)


def serve(connection: socket.socket, buffer: memoryview) -> None:
    """Do what the other side asks for, until it ends."""
    order = memoryview(bytearray(17))
    while True:
        receive(connection, len(order), order)
        word, size = bytes(order[:1]), int(bytes(order[1:]), 16)
        if word == b"p":
            for _ in range(size):
                receive(connection, SMALL, buffer)
                send(connection, SMALL, buffer)
        elif word == b"r":
            receive(connection, size, buffer)
            send(connection, SMALL, buffer)
        elif word == b"s":
            send(connection, size, buffer)
        elif word == b"i":
            connection.sendall(struct.pack("!QQ", *sent(connection)))
        else:
            return


def sent(connection: socket.socket) -> tuple[int, int]:
    """Return the bytes that this side sent, and those of them that it sent again; zeros where Linux does not count."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    return struct.unpack_from("QQ", info, SENT) if len(info) >= SENT + 16 else (0, 0)


def order(connection: socket.socket, word: str, size: int) -> None:
    """Ask the serving side for something."""
    connection.sendall(f"{word}{size:016x}".encode())


def one_way(connection: socket.socket, word: str, size: int, buffer: memoryview) -> float:
    """Return the seconds of a transfer of so many bytes in one direction."""
    begin = time.perf_counter()
    order(connection, word, size)
    if word == "r":
        send(connection, size, buffer)
        receive(connection, SMALL, buffer)
    else:
        receive(connection, size, buffer)
    return time.perf_counter() - begin


def measure(connection: socket.socket, seconds: float, buffer: memoryview) -> dict[str, object]:
    """Return the result: the time of a small message, and of the largest one within the time for each direction."""
    rounds = 200
    order(connection, "p", rounds)
    trips = []
    for _ in range(rounds):
        begin = time.perf_counter()
        send(connection, SMALL, buffer)
        receive(connection, SMALL, buffer)
        trips.append(time.perf_counter() - begin)
    latency = sorted(trips)[rounds // 2] / 2
    one_way(connection, "r", BLOCK, buffer)
    size = LEAST
    # The same size in both directions, as large as takes a good part of the time.
    took = max(one_way(connection, word, size, buffer) for word in "rs")
    while took < seconds / 4 and size < 1 << 40:
        size *= 2 if took > seconds / 16 else 4
        took = max(one_way(connection, word, size, buffer) for word in "rs")
    if took < 2 * seconds:
        # Another program on the node may have slowed one down; the best one would hide packets that are lost.
        took = max(
            sorted(one_way(connection, word, size, buffer) for _ in range(3))[1] for word in "rs"
        )
    buffer[:] = bytes(len(buffer))
    one_way(connection, "s", BLOCK, buffer)
    wrong = BLOCK - bytes(buffer).count(PATTERN)
    # What either side sent again.
    order(connection, "i", 0)
    theirs = memoryview(bytearray(16))
    receive(connection, len(theirs), theirs)
    shares = [
        again / count for count, again in (sent(connection), struct.unpack("!QQ", theirs)) if count
    ]
    order(connection, "e", 0)
    points = [
        {"size_bytes": SMALL, "seconds": latency, "factor": 1.0},
        {"size_bytes": size, "seconds": took, "factor": 1.0},
    ]
    return {
        "trainwright": "transfer",
        "format": 1,
        "test": "pair",
        "transport": "tcp",
        "ranks": 2,
        "wrong": wrong,
        "resent": max(shares, default=None),
        "sizes": [SMALL, size],
        "points": points,
    }


def main() -> None:
    """Be one of the two tasks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each direction")
    parser.add_argument(
        "--patience", type=float, default=20.0, help="for the other task to come, and for silence"
    )
    given = parser.parse_args()
    job, step = int(os.environ["SLURM_JOB_ID"]), int(os.environ["SLURM_STEP_ID"])
    port = 20000 + (job * 31 + step) % 10000
    buffer = memoryview(bytearray(PATTERN * BLOCK))
    try:
        if os.environ["SLURM_PROCID"] == "0":
            connection = listen(port, given.patience)
            connection.settimeout(given.patience)
            serve(connection, buffer)
        else:
            connection = connect(os.environ["VALIDATION_ADDRESS"], port, given.patience)
            connection.settimeout(given.patience)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            print(json.dumps(measure(connection, given.seconds, buffer)))
    except (OSError, ConnectionError) as error:
        sys.exit(f"{os.environ.get('SLURMD_NODENAME')}: {error}")


if __name__ == "__main__":
    main()
