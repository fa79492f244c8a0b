// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Ping-pong, and messages in one direction, over whatever MPI uses: a comparison for treadle-bench.
 * Processes 0 to n/2 - 1 send to n/2 to n - 1. A line for each size:
 *
 *	bytes, half a round trip in microseconds, MB/s in one direction (all pairs together)
 *
 * The exit status is 1 if data were wrong.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#define WINDOW	64
#define LONGEST (1 << 20)
#define SECONDS 0.3 /* of each measurement, about */

static unsigned char *out, *in;
static int rank, peer, wrong;
static bool sends;

static void fill(int size, int round)
{
	memset(out, round, size);
}

static void check(int size, int round)
{
	wrong |= in[0] != (unsigned char)round || in[size - 1] != (unsigned char)round;
}

static void round_trip(int size, int round)
{
	fill(size, round);
	if (sends)
		MPI_Send(out, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
	MPI_Recv(in, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check(size, round);
	if (!sends)
		MPI_Send(out, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
}

/* A window of messages, then an empty one back. */
static void window(int size, int round)
{
	MPI_Request request[WINDOW];

	fill(size, round);
	for (int i = 0; i < WINDOW; i++) {
		if (sends)
			MPI_Isend(out, size, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &request[i]);
		else
			MPI_Irecv(in, size, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &request[i]);
	}
	MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
	if (sends) {
		MPI_Recv(NULL, 0, MPI_BYTE, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		check(size, round);
		MPI_Send(NULL, 0, MPI_BYTE, peer, 3, MPI_COMM_WORLD);
	}
}

static double seconds_of(void (*what)(int, int), int size, int rounds)
{
	double start;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 0; i < rounds; i++)
		what(size, i);
	return MPI_Wtime() - start;
}

/* Seconds of one round. As many are measured as some first ones say. */
static double measure(void (*what)(int, int), int size)
{
	double some = seconds_of(what, size, 20);
	int rounds = 20 * SECONDS / some;

	rounds = rounds < 10 ? 10 : rounds;
	MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return seconds_of(what, size, rounds) / rounds;
}

int main(int argc, char **argv)
{
	static const int sizes[] = {8, 4096, 65536, LONGEST};
	int n, any;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (n % 2) {
		fprintf(stderr, "mpi-pingpong: an even number of processes\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	sends = rank < n / 2;
	peer = (rank + n / 2) % n;
	out = malloc(LONGEST);
	in = malloc(LONGEST);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		double half = measure(round_trip, sizes[i]) / 2;
		double bytes = WINDOW * sizes[i] / measure(window, sizes[i]), sum = 0;

		bytes = sends ? bytes : 0;
		MPI_Reduce(&bytes, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
		if (rank == 0)
			printf("%d %.2f %.2f\n", sizes[i], half * 1e6, sum / 1e6);
	}
	MPI_Reduce(&wrong, &any, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0 && any)
		fprintf(stderr, "mpi-pingpong: wrong data\n");
	MPI_Finalize();
	return wrong;
}
