// SPDX-License-Identifier: GPL-2.0
/*
 * peers [BYTES]: MPI's collectives and one-sided calls give right results, with data of up to so
 * many bytes. Exit status: 0 if they do.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

static bool allreduce(long *in, long *out, int count)
{
	bool right = true;

	for (int i = 0; i < count; i++)
		in[i] = rank * 1000L + i;
	MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		right &= out[i] == 1000L * size * (size - 1) / 2 + (long)size * i;
	return right;
}

/* In bytes, so that there are odd lengths. */
static bool alltoall(unsigned char *in, unsigned char *out, int count)
{
	bool right = true;

	for (int peer = 0; peer < size; peer++)
		for (int i = 0; i < count; i++)
			in[(size_t)peer * count + i] = rank * 31 + peer * 7 + i;
	MPI_Alltoall(in, count, MPI_BYTE, out, count, MPI_BYTE, MPI_COMM_WORLD);
	for (int peer = 0; peer < size; peer++)
		for (int i = 0; i < count; i++)
			right &= out[(size_t)peer * count + i] ==
				 (unsigned char)(peer * 31 + rank * 7 + i);
	return right;
}

static bool one_sided(void)
{
	long window[2] = {0}, value = rank + 1, one = 1, got = 0;
	int next = (rank + 1) % size;
	MPI_Win win;

	MPI_Win_create(window, sizeof(window), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_fence(0, win);
	MPI_Put(&value, 1, MPI_LONG, next, 0, 1, MPI_LONG, win);
	for (int peer = 0; peer < size; peer++)
		MPI_Accumulate(&one, 1, MPI_LONG, peer, 1, 1, MPI_LONG, MPI_SUM, win);
	MPI_Win_fence(0, win);
	MPI_Get(&got, 1, MPI_LONG, next, 0, 1, MPI_LONG, win);
	MPI_Win_fence(0, win);
	MPI_Win_free(&win);
	return window[0] == (rank + size - 1) % size + 1 && window[1] == size && got == rank + 1;
}

/* All ranks agree on a fault, whichever has seen it; rank 0 prints it. */
static bool agree(const char *what, size_t bytes, bool right)
{
	int mine = right, all;

	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	if (!all && rank == 0)
		printf("# %s, %zu bytes: wrong\n", what, bytes);
	return all;
}

int main(int argc, char **argv)
{
	size_t longest = 4 << 20;
	bool right = true;
	void *in, *out;

	MPI_Init(&argc, &argv);
	if (argc > 1)
		longest = strtoul(argv[1], NULL, 10);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	in = malloc(longest * size);
	out = malloc(longest * size);
	for (size_t bytes = 1; bytes <= longest; bytes *= 4) {
		right &= agree("alltoall", bytes, alltoall(in, out, bytes));
		right &= agree("allreduce", bytes,
			       allreduce(in, out, (bytes + sizeof(long) - 1) / sizeof(long)));
	}
	right &= agree("put, get, accumulate", sizeof(long), one_sided());
	free(in);
	free(out);
	MPI_Finalize();
	return !right;
}
