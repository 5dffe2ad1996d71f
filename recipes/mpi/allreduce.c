/* SPDX-License-Identifier: GPL-3.0-or-later
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * Sums doubles over all ranks, checks the sum, and says how fast that was. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long count = (argc > 1 ? atol(argv[1]) : 8) * 1024 * 1024 / sizeof(double);
    int rank, ranks, steps = 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double *mine = malloc(count * sizeof *mine), *sum = malloc(count * sizeof *sum);
    for (long at = 0; at < count; at++) mine[at] = rank;
    double began = MPI_Wtime();
    for (int step = 0; step < steps; step++)
        MPI_Allreduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double each = (MPI_Wtime() - began) / steps, wanted = ranks * (ranks - 1) / 2.0;
    int wrong = sum[0] != wanted || sum[count - 1] != wanted;
    if (rank == 0)
        printf("%d ranks, %ld MiB: %.1f MiB/s, the sum is %s\n", ranks, count * (long)sizeof(double) >> 20,
               count * sizeof(double) / each / 1048576, wrong ? "wrong" : "right");
    MPI_Finalize();
    return wrong;
}
