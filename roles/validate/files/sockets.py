# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Measures bandwidth and latency between the two nodes of a step over TCP, with Python's standard library alone.

    srun --nodes=2 --ntasks-per-node=1 python3 sockets.py

The task on $VALIDATION_SERVER listens, the other one connects and prints one line of JSON. Data flows both ways, one
after the other, and the slower way counts: a fault of an interface is often in one direction only. So does the share of
bytes that TCP sent again: the bandwidth may not show a loss of a few packets in a hundred.

Other users may connect to the port, or listen on it first. $VALIDATION_TOKEN is a secret of the job: the port follows
from it, and both tasks prove that they have it before anything is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import queue
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator

BLOCK = 1 << 20
#: Bytes of a transfer at least: with few packets, a loss would be a matter of luck.
LEAST = 16 << 20
PATTERN = b"\xa5"
#: Bytes of the smallest message, which the latency is of.
SMALL = 8
#: Ports that are tried, bytes of a number used once and of a proof, and connections that may still have to prove it.
PORTS, NONCE, PROOF, MOST_STRANGERS = 8, 16, 32, 64
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


def ports(token: bytes) -> Iterator[int]:
    """Yield the ports of a pair in their order: both tasks pass over one that somebody else has taken."""
    for number in range(PORTS):
        yield 20000 + int.from_bytes(proof(token, b"port", bytes([number]))[:4], "big") % 10000


def proof(token: bytes, who: bytes, data: bytes) -> bytes:
    """Return what only somebody with the token can answer."""
    return hmac.new(token, who + data, hashlib.sha256).digest()


def exactly(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes. Raises ConnectionError where the other side has gone."""
    data = bytearray(size)
    receive(connection, size, memoryview(data))
    return bytes(data)


def admit(connection: socket.socket, token: bytes, found: queue.SimpleQueue[socket.socket]) -> None:
    """Put a connection into the queue if it is the other task's, and close it otherwise."""
    try:
        theirs, mine = exactly(connection, NONCE), os.urandom(NONCE)
        connection.sendall(mine + proof(token, b"server", theirs + mine))
        if hmac.compare_digest(exactly(connection, PROOF), proof(token, b"client", theirs + mine)):
            found.put(connection)
            return
    except OSError:
        pass
    connection.close()


def listen(token: bytes, patience: float) -> socket.socket:
    """Return the connection of the other task; strangers neither get it nor keep others from it."""
    end = time.monotonic() + patience
    found: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
    with first_free(token) as server:
        while time.monotonic() < end:
            if select.select([server], [], [], 0.02)[0]:
                connection, _address = server.accept()
                connection.settimeout(patience)
                if threading.active_count() > MOST_STRANGERS:
                    connection.close()
                    continue
                threading.Thread(target=admit, args=(connection, token, found), daemon=True).start()
            try:
                return found.get_nowait()
            except queue.Empty:
                pass
    raise ConnectionError("the other node did not connect")


def first_free(token: bytes) -> socket.socket:
    """Return a socket that listens on the first port of the job that is free."""
    for port in ports(token):
        try:
            return socket.create_server(("", port), backlog=128)
        except OSError as error:
            why = error
    raise why


def connect(address: str, token: bytes, patience: float) -> socket.socket:
    """Return a connection to the other task, which may start later and on a later port."""
    end = time.monotonic() + patience
    while True:
        for port in ports(token):
            try:
                connection = socket.create_connection((address, port), timeout=patience / 2)
                if is_server(connection, token):
                    return connection
                error: OSError = ConnectionError("somebody else listens there")
            except OSError as failed:
                error = failed
            if time.monotonic() > end:
                sys.exit(
                    f"{address}:{port}: {error} -> may the nodes reach each other on ports of jobs?"
                )
        time.sleep(0.1)


def is_server(connection: socket.socket, token: bytes) -> bool:
    """Whether the other task is on the other side; the connection is closed where it is not."""
    try:
        mine = os.urandom(NONCE)
        connection.sendall(mine)
        theirs = exactly(connection, NONCE)
        if hmac.compare_digest(exactly(connection, PROOF), proof(token, b"server", mine + theirs)):
            connection.sendall(proof(token, b"client", mine + theirs))
            return True
    except OSError:
        connection.close()
        raise
    connection.close()
    return False


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
    token = bytes.fromhex(os.environ.get("VALIDATION_TOKEN", ""))
    if not token:
        sys.exit(
            "VALIDATION_TOKEN is missing: the job did not make it -> see /dev/urandom and od there"
        )
    # Other pairs of the job may share the machine.
    token = proof(token, b"pair", os.environ["VALIDATION_NODES"].encode())
    buffer = memoryview(bytearray(PATTERN * BLOCK))
    try:
        if os.environ["SLURMD_NODENAME"] == os.environ["VALIDATION_SERVER"]:
            connection = listen(token, given.patience)
            connection.settimeout(given.patience)
            serve(connection, buffer)
        else:
            connection = connect(os.environ["VALIDATION_ADDRESS"], token, given.patience)
            connection.settimeout(given.patience)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            print(json.dumps(measure(connection, given.seconds, buffer)))
    except (OSError, ConnectionError) as error:
        sys.exit(f"{os.environ.get('SLURMD_NODENAME')}: {error}")


if __name__ == "__main__":
    main()
