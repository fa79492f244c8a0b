// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * MPI_Allreduce of 8 bytes, as often as the first argument says: a comparison for
 * treadle-allreduce.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, rank, size, wrong = 0;
	double start, seconds;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int warm = 1; warm >= 0; warm--) {
		MPI_Barrier(MPI_COMM_WORLD);
		start = MPI_Wtime();
		for (int i = 0; i < rounds; i++) {
			uint64_t in = rank + 1 + i, out = 0;

			MPI_Allreduce(&in, &out, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
			wrong |= out != (uint64_t)size * (size + 1) / 2 + (uint64_t)size * i;
		}
		seconds = MPI_Wtime() - start;
	}
	if (rank == 0)
		printf("Open MPI: %d processes, %.1f us per MPI_Allreduce of 8 bytes\n", size,
		       seconds * 1e6 / rounds);
	if (wrong)
		fprintf(stderr, "mpi-allreduce: wrong sum in process %d\n", rank);
	MPI_Finalize();
	return wrong;
}
