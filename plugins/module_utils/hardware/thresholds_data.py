# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The bandwidth and latency of healthy machines, a line for each test, read by thresholds.py.

Columns:

1. type: a name in machine_types_data.py, or gpu:MODEL for a test inside any machine with that GPU
2. test: all_reduce (of nccl-tests, bus bandwidth), h2d, d2h, p2p (of one GPU), ib_write_bw, ib_write_lat (of one port)
3. nodes
4. size of the message as nccl-tests writes it (16G is 2^34 bytes); "-" for the peak over all sizes
5. reference: measured on healthy machines, or a limit that operators publish, where no measurement is
6. unit; of latencies (us) less is better, of all others more
7. source, a key of SOURCES

Limits that no cluster was seen to reach are left out, and so are values whose nodes or size are not published. Values
of two nodes say nothing about more: NCCL's tree counts more than the network carries between two nodes.
"""

from __future__ import annotations

#: The version of the table, part of every provenance; a changed line makes it another.
VERSION = "2026.11"

#: Where a line comes from, all read in November 2026.
SOURCES: dict[str, str] = {
    "aws": "measured, samples of AWS (awslabs/awsome-distributed-ai)",
    "stas": "measured, stas00/ml-engineering network/benchmarks/README.md",
    "operators": "measured, published by operators",
    "limit": "limit published by operators",
}

THRESHOLDS = """
p4d.24xlarge     all_reduce   1  -    230.8  GB/s   operators
p4d.24xlarge     all_reduce   2  128M 64     GB/s   aws
p4d.24xlarge     all_reduce   2  2G   78.3   GB/s   aws
p4de.24xlarge    all_reduce   1  -    230.8  GB/s   operators
p4de.24xlarge    all_reduce   2  128M 64     GB/s   aws
p4de.24xlarge    all_reduce   2  2G   78.3   GB/s   aws
p5.48xlarge      all_reduce   1  16G  483    GB/s   operators
p5.48xlarge      all_reduce   2  128M 289    GB/s   aws
p5.48xlarge      all_reduce   2  1G   437    GB/s   operators
p5.48xlarge      all_reduce   2  16G  487    GB/s   aws
p5e.48xlarge     all_reduce   1  128M 411.21 GB/s   stas
p5e.48xlarge     all_reduce   1  1G   464    GB/s   stas
p5e.48xlarge     all_reduce   1  16G  480.7  GB/s   stas
p5en.48xlarge    all_reduce   1  128M 411.21 GB/s   stas
p5en.48xlarge    all_reduce   1  1G   464    GB/s   stas
p5en.48xlarge    all_reduce   1  16G  480.7  GB/s   stas
p6-b200.48xlarge all_reduce   1  16G  838.97 GB/s   stas
p6-b200.48xlarge all_reduce   4  128M 295    GB/s   aws
p6-b200.48xlarge all_reduce   4  16G  377    GB/s   aws
p6-b300.48xlarge all_reduce   2  16G  654    GB/s   aws
p6-b300.48xlarge all_reduce   2  64G  751    GB/s   aws
dgx-a100-320     all_reduce   1  -    228    GB/s   limit
dgx-a100-320     all_reduce   2  -    185    GB/s   limit
dgx-a100-320     ib_write_bw  2  -    180    Gbit/s limit
dgx-a100-320     ib_write_lat 2  -    5      us     limit
dgx-a100-640     all_reduce   1  -    228    GB/s   limit
dgx-a100-640     all_reduce   2  -    185    GB/s   limit
dgx-a100-640     ib_write_bw  2  -    180    Gbit/s limit
dgx-a100-640     ib_write_lat 2  -    5      us     limit
dgx-h100         all_reduce   1  -    460    GB/s   limit
dgx-h100         all_reduce   2  -    440    GB/s   limit
dgx-h100         all_reduce   12 8G   386    GB/s   operators
dgx-h100         ib_write_bw  2  -    380    Gbit/s limit
dgx-h100         ib_write_lat 2  -    5      us     limit
dgx-h200         all_reduce   1  128M 411.21 GB/s   stas
dgx-h200         all_reduce   1  1G   464    GB/s   stas
dgx-h200         all_reduce   1  16G  480.7  GB/s   stas
dgx-h200         all_reduce   2  -    440    GB/s   limit
dgx-h200         ib_write_bw  2  -    360    Gbit/s limit
dgx-h200         ib_write_lat 2  -    5      us     limit
dgx-b200         all_reduce   1  16G  838.97 GB/s   stas
dgx-b200         all_reduce   4  128M 260.5  GB/s   stas
dgx-b200         all_reduce   4  16G  376.71 GB/s   stas
gpu:A100         h2d          1  -    21     GB/s   limit
gpu:A100         d2h          1  -    21     GB/s   limit
gpu:A100         p2p          1  -    238    GB/s   limit
gpu:H100         h2d          1  -    48     GB/s   limit
gpu:H100         d2h          1  -    48     GB/s   limit
gpu:H100         p2p          1  -    335    GB/s   limit
"""
