# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Measures MPI between the ranks of a step, through the library of Open MPI itself: no compiler and no mpi4py.

    mpirun python3 mpi.py pair            # bandwidth and latency between the first rank and the last
    mpirun python3 mpi.py all_reduce      # bus bandwidth as nccl-tests defines it, with the data checked

Open MPI's handles are addresses of its global symbols (ompi/include/mpi.h.in, OMPI_PREDEFINED_GLOBAL), the same in
releases 4 and 5, whose library is libmpi.so.40. Other MPIs have other handles.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import json
import os
import shutil
import sys
import time
from collections.abc import Callable

LIBRARY = "libmpi.so.40"
LARGEST, SMALL, BATCHES = 1 << 23, 8, 5
#: Bus bandwidth by algorithm bandwidth, of n ranks (nccl-tests, doc/PERFORMANCE.md).
FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
}


class Mpi:
    """The library, begun. rank and size are those of all ranks."""

    def __init__(self) -> None:
        self.library = self._load()
        self.call("MPI_Init", None, None)
        try:
            self.world = self._symbol("ompi_mpi_comm_world")
            self.byte, self.float = self._symbol("ompi_mpi_byte"), self._symbol("ompi_mpi_float")
            self.sum = self._symbol("ompi_mpi_op_sum")
        except ValueError:
            sys.exit(
                f"{LIBRARY} is not Open MPI's -> put the bin directory of Open MPI first in PATH"
            )
        self.rank, self.size = self._number("MPI_Comm_rank"), self._number("MPI_Comm_size")

    @staticmethod
    def _load() -> ctypes.CDLL:
        program = shutil.which("mpirun") or "/opt/amazon/openmpi/bin/mpirun"
        above = os.path.dirname(os.path.dirname(os.path.realpath(program)))
        beside = os.path.dirname(os.path.dirname(program))
        places = [f"{root}/{lib}/{LIBRARY}" for root in (beside, above) for lib in ("lib", "lib64")]
        places = [path for path in places if os.path.isfile(path)] + [LIBRARY]
        try:
            return ctypes.CDLL(places[0], mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            sys.exit(f"{LIBRARY}: {error} -> install Open MPI on the nodes (openmpi-bin)")

    def _symbol(self, name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.library, name)))

    def _number(self, name: str) -> int:
        found = ctypes.c_int()
        self.call(name, self.world, ctypes.byref(found))
        return found.value

    def call(self, name: str, *arguments: object) -> None:
        """Call a function; MPI itself ends the job on an error."""
        if getattr(self.library, name)(*arguments):
            sys.exit(f"{name} failed")

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.call("MPI_Barrier", self.world)


class Buffer:
    """Floats with their address."""

    def __init__(self, count: int, value: float) -> None:
        self.data = array.array("f", [value]) * count

    @property
    def at(self) -> ctypes.c_void_p:
        """Return the address."""
        return ctypes.c_void_p(self.data.buffer_info()[0])


def collective(mpi: Mpi, name: str, size: int) -> tuple[Callable[[], None], Callable[[], int]]:
    """Return what runs a collective over so many bytes, and what counts the wrong values after it."""
    n, own = mpi.size, float(mpi.rank + 1)
    count = max(n, size // 4 // n * n)
    part, total = count // n, n * (n + 1) / 2
    send, got = Buffer(count, own), Buffer(count, 0.0)
    blocks = array.array("f", [rank + 1.0 for rank in range(n) for _ in range(part)])
    sums = array.array("f", [total]) * count
    all_of = (send.at, got.at, ctypes.c_int(count), mpi.float, mpi.sum)
    zero = ctypes.c_int(0)
    wanted = sums
    if name == "all_reduce":
        call = ("MPI_Allreduce", *all_of, mpi.world)
    elif name == "reduce":
        call = ("MPI_Reduce", *all_of, zero, mpi.world)
        wanted = sums if mpi.rank == 0 else array.array("f", [0.0]) * count
    elif name == "reduce_scatter":
        each = ctypes.c_int(part)
        call = ("MPI_Reduce_scatter_block", send.at, got.at, each, mpi.float, mpi.sum, mpi.world)
        wanted = sums[:part] + array.array("f", [0.0]) * (count - part)
    elif name == "broadcast":
        if mpi.rank == 0:
            got = Buffer(count, 1.0)
        call = ("MPI_Bcast", got.at, ctypes.c_int(count), mpi.float, zero, mpi.world)
        wanted = array.array("f", [1.0]) * count
    else:
        each = ctypes.c_int(part)
        function = "MPI_Allgather" if name == "all_gather" else "MPI_Alltoall"
        call = (function, send.at, each, mpi.float, got.at, each, mpi.float, mpi.world)
        wanted = blocks

    def run(_kept: tuple[Buffer, Buffer] = (send, got)) -> None:
        # The library has the addresses of both alone.
        mpi.call(*call)  # type: ignore[arg-type]

    def wrong() -> int:
        if got.data == wanted:
            return 0
        return sum(one != other for one, other in zip(got.data, wanted))

    return run, wrong


def timed(mpi: Mpi, run: Callable[[], None], seconds: float) -> float:
    """Return the seconds of one call: the best of some means, since another program can only slow it down.

    All ranks do the same number of calls, as many as the time allows.
    """
    run()
    mpi.barrier()
    begin = time.perf_counter()
    run()
    mpi.barrier()
    once = array.array("d", [time.perf_counter() - begin])
    # All ranks take the time of the first one, so that none of them makes one call more.
    mpi.call(
        "MPI_Bcast",
        ctypes.c_void_p(once.buffer_info()[0]),
        ctypes.c_int(8),
        mpi.byte,
        ctypes.c_int(0),
        mpi.world,
    )
    times = max(1, min(200, int(seconds / BATCHES / max(once[0], 1e-6))))
    found = []
    for _ in range(BATCHES):
        begin = time.perf_counter()
        for _ in range(times):
            run()
        mpi.barrier()
        found.append((time.perf_counter() - begin) / times)
    return min(found)


def pair(mpi: Mpi, size: int) -> tuple[Callable[[], None], Callable[[], int]]:
    """Return what sends so many bytes from the first rank to the last and back, and what counts wrong values."""
    data, tag, ignore = Buffer(max(2, size // 4), 1.0), ctypes.c_int(7), ctypes.c_void_p()
    last, count = mpi.size - 1, ctypes.c_int(size)

    def move(name: str, other: int, number: ctypes.c_int) -> None:
        end = (ignore,) if name == "MPI_Recv" else ()
        mpi.call(name, data.at, number, mpi.byte, ctypes.c_int(other), tag, mpi.world, *end)

    def run() -> None:
        if mpi.rank == 0:
            move("MPI_Send", last, count)
            move("MPI_Recv", last, count)
        elif mpi.rank == last:
            move("MPI_Recv", 0, count)
            move("MPI_Send", 0, count)

    def wrong() -> int:
        if mpi.rank == mpi.size - 1:
            data.data[:] = array.array("f", [0.0]) * len(data.data)
        if mpi.rank == 0:
            move("MPI_Send", last, count)
            data.data[:] = array.array("f", [0.0]) * len(data.data)
            move("MPI_Recv", last, count)
            return sum(one != 1.0 for one in data.data)
        run()
        return 0

    return run, wrong


def main() -> None:
    """Measure the sizes from a small message to the largest, and print the result on the first rank."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("test", choices=["pair", *FACTORS])
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each size")
    parser.add_argument("--largest", type=int, default=LARGEST, help="bytes")
    given = parser.parse_args()
    mpi = Mpi()
    if mpi.size < 2:
        sys.exit(
            "MPI has one rank: this launcher does not connect them -> start it by mpirun, or srun --mpi=pmix"
        )
    points, wrong = [], 0
    sizes = [SMALL] if given.test == "pair" else [max(SMALL, 4 * mpi.size)]
    while sizes[-1] < given.largest:
        sizes.append(min(given.largest, max(4096, sizes[-1] * 8)))
    for size in sizes:
        both = given.test == "pair"
        run, check = pair(mpi, size) if both else collective(mpi, given.test, size)
        seconds = timed(mpi, run, given.seconds) / (2 if both else 1)
        wrong += check()
        factor = 1.0 if given.test == "pair" else FACTORS[given.test](mpi.size)
        points.append({"size_bytes": size, "seconds": max(seconds, 1e-9), "factor": factor})
    bad, every = array.array("d", [wrong]), array.array("d", [0.0])
    places = [ctypes.c_void_p(one.buffer_info()[0]) for one in (bad, every)]
    double = mpi._symbol("ompi_mpi_double")
    mpi.call("MPI_Allreduce", *places, ctypes.c_int(1), double, mpi.sum, mpi.world)
    mpi.barrier()
    if mpi.rank == 0:
        result = {"trainwright": "transfer", "format": 1, "test": given.test, "transport": "mpi"}
        print(
            json.dumps(
                {
                    **result,
                    "ranks": mpi.size,
                    "wrong": int(every[0]),
                    "sizes": sizes,
                    "points": points,
                }
            )
        )
        sys.stdout.flush()
    mpi.call("MPI_Finalize")


if __name__ == "__main__":
    main()
