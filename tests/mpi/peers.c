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

/* Byte @at of what @from has for @to. */
static unsigned char pattern(int from, int to, size_t at)
{
	return from * 31 + to * 7 + at;
}

/*
 * Each rank writes to the window of the next one, while all are locked, and reads back what the
 * one before has written to its own.
 */
static bool locked(size_t bytes)
{
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	unsigned char *window, *data = malloc(bytes);
	bool right = true;
	MPI_Win win;

	MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
	for (size_t i = 0; i < bytes; i++)
		data[i] = pattern(rank, next, i);
	MPI_Win_lock_all(0, win);
	MPI_Put(data, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, win);
	MPI_Win_flush(next, win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_sync(win);
	for (size_t i = 0; i < bytes; i++)
		right &= window[i] == pattern(previous, rank, i);
	for (size_t i = 0; i < bytes; i++)
		data[i] = ~pattern(rank, next, i);
	MPI_Get(data, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, win);
	MPI_Win_flush(next, win);
	for (size_t i = 0; i < bytes; i++)
		right &= data[i] == pattern(rank, next, i);
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	free(data);
	return right;
}

/* Each rank writes to the window of the next one, when that has posted it. */
static bool posted(size_t bytes)
{
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	unsigned char *window = calloc(bytes, 1), *data = malloc(bytes);
	MPI_Group all, to, from;
	bool right = true;
	MPI_Win win;

	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_incl(all, 1, &next, &to);
	MPI_Group_incl(all, 1, &previous, &from);
	MPI_Win_create(window, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	for (size_t i = 0; i < bytes; i++)
		data[i] = pattern(rank, next, i);
	MPI_Win_post(from, 0, win);
	MPI_Win_start(to, 0, win);
	MPI_Put(data, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, win);
	MPI_Win_complete(win);
	MPI_Win_wait(win);
	for (size_t i = 0; i < bytes; i++)
		right &= window[i] == pattern(previous, rank, i);
	MPI_Win_free(&win);
	MPI_Group_free(&from);
	MPI_Group_free(&to);
	MPI_Group_free(&all);
	free(data);
	free(window);
	return right;
}

#define ROUNDS 20

/*
 * Is this rank on another node than rank 0? Sets @mine to the number of such ranks before it, and
 * @all to the number of all.
 */
static bool is_far(long *mine, long *all)
{
	MPI_Comm node;
	long far;
	int first;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Allreduce(&rank, &first, 1, MPI_INT, MPI_MIN, node);
	MPI_Comm_free(&node);
	far = first != 0;
	MPI_Scan(&far, mine, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(&far, all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	*mine -= far;
	return far;
}

/*
 * Atomics on the window of rank 0: numbers that each rank takes, a turn, and an array. Only ranks
 * of other nodes take turns: Open MPI 4.1.4 crashes in MPI_Compare_and_swap() within a node, over
 * any BTL (programs.rst).
 */
static bool atomics(void)
{
	long *window, one = 1, got, last = -1, turn, mine, next_turn, turns;
	long ones[ROUNDS], before[ROUNDS];
	bool right = true;
	MPI_Win win;

	window = calloc(2 + ROUNDS, sizeof(long));
	MPI_Win_create(window, (2 + ROUNDS) * sizeof(long), sizeof(long), MPI_INFO_NULL,
		       MPI_COMM_WORLD, &win);
	MPI_Win_lock_all(0, win);
	MPI_Win_sync(win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < ROUNDS; i++) {
		ones[i] = 1;
		MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 0, MPI_SUM, win);
		MPI_Win_flush(0, win);
		right &= got > last && got < (long)size * ROUNDS;
		last = got;
	}
	if (is_far(&mine, &turns)) {
		next_turn = mine + 1;
		do {
			MPI_Compare_and_swap(&next_turn, &mine, &turn, MPI_LONG, 0, 1, win);
			MPI_Win_flush(0, win);
			right &= turn <= mine;
		} while (turn != mine);
	}
	MPI_Get_accumulate(ones, ROUNDS, MPI_LONG, before, ROUNDS, MPI_LONG, 0, 2, ROUNDS, MPI_LONG,
			   MPI_SUM, win);
	MPI_Win_flush(0, win);
	for (int i = 0; i < ROUNDS; i++)
		right &= before[i] >= 0 && before[i] < size;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_sync(win);
	if (rank == 0) {
		right &= window[0] == (long)size * ROUNDS && window[1] == turns;
		for (int i = 0; i < ROUNDS; i++)
			right &= window[2 + i] == size;
	}
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	free(window);
	return right;
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
	for (size_t bytes = 1; bytes <= longest; bytes = bytes * 256 + 5) {
		right &= agree("windows that are locked", bytes, locked(bytes));
		right &= agree("windows that are posted", bytes, posted(bytes));
	}
	right &= agree("atomics", sizeof(long), atomics());
	free(in);
	free(out);
	MPI_Finalize();
	return !right;
}
