/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The random walk of fuzz.c: its walkers, the state that they share, their dice, and their calls.
 */
#ifndef TREADLE_KSELFTEST_FUZZ_H
#define TREADLE_KSELFTEST_FUZZ_H

#include "connection.h"

#include <liburing.h>

#define USERS	 3 /* processes */
#define THREADS	 3 /* of each process */
#define CONTEXTS 4 /* files of each process */
#define KNOWN	 6 /* objects of each kind that are remembered for a file */
#define PUBLIC	 16
#define ARENA	 (1UL << 20)

#define CELLS	8	      /* of each page of cells that are used */
#define COMMONS (256UL << 10) /* bytes of memory that processes share */

/* Those behind KINDS are used by steps of their own: so inputs in corpus/ keep their meaning. */
enum kind { CQ, CNTR, AV, MR, TX, RX, EP, EQ, CELL, KINDS, WINDOW = KINDS, LANE, ALL_KINDS };

/* What is done to maps, and to shared memory (fuzz_maps.h, fuzz_direct.h): each is counted. */
enum bend {
	MOVED,
	GROWN,
	HIDDEN,
	DROPPED,
	PROTECTED,
	LENT,
	WITHHELD,
	LAID,
	SHARED_IN,
	CHANGED,
	OPENED,
	OFFERED,
	TAKEN,
	VIEWED,
	BENDS
};

/*
 * Known to all processes: addresses of endpoints, keys that may be registered, and connection
 * requests.
 */
struct town {
	struct treadle_addr addr[PUBLIC];
	__u64 key[PUBLIC];
	__u64 at[PUBLIC];
	__u32 request[PUBLIC];
	__u64 calls, good, bent[BENDS];
};

/* The map of a window or a lane. */
struct view {
	char *at;
	size_t length;
	bool writable;
};

/* Threads of a process use this without a lock: any value will do. */
struct file {
	int fd;
	__u32 id[ALL_KINDS][KNOWN];
	struct ring ring[KNOWN]; /* of TX and RX, mapped */
	bool receives[KNOWN];	 /* the ring is RX */
	struct cq cq[KNOWN];
	int eq[KNOWN]; /* wait files of event queues */
	__u64 *cells[KNOWN];
	struct treadle_map area[KNOWN]; /* maps of any other kind */
	struct view view[KNOWN];
};

struct user {
	struct file file[CONTEXTS];
	int contexts; /* of these files */
	char *arena;
};

/*
 * The memory that calls point to, apart from the rest: pointers are spoiled, too, and the kernel
 * then writes elsewhere.
 */
struct desk {
	char before[1 << 17];
	struct treadle_addr addrs[4];
	__u64 out[4], ids[4];
	struct treadle_iov iov[TREADLE_MAX_MR_IOV];
	char data[TREADLE_CM_DATA];
	char name[8];
	char after[1 << 17];
};

/*
 * One step: its kind, the seed of its dice, and values that replace some of their rolls. So a step
 * can be repeated, also with a change.
 */
struct step {
	__u32 kind, seed;
	int patches;
	struct {
		__u32 at, shows;
	} patch[4];
};

struct walker {
	struct user *u;
	struct desk *desk;
	struct io_uring ring;
	const struct step *step; /* the recorded step, if any */
	__u32 rolled;		 /* rolls of this step so far */
	__u64 dice;
};

static struct town *town;
static int commons; /* the file of the shared memory */

/* --- dice -------------------------------------------------------------------------------- */

static __u32 roll(struct walker *w, __u32 sides)
{
	__u32 shown = lottery(&w->dice);

	for (int i = 0; w->step && i < w->step->patches; i++)
		if (w->step->patch[i].at == w->rolled)
			shown = w->step->patch[i].shows;
	w->rolled++;
	return shown % sides;
}

/* Any value of 32 bits, small and round ones more often. */
static __u32 roll_any(struct walker *w)
{
	return roll(w, 1U << 31);
}

static bool one_in(struct walker *w, __u32 n)
{
	return roll(w, n) == 0;
}

#define PICK(w, array) ((array)[roll(w, sizeof(array) / sizeof((array)[0]))])

static __u64 some_number(struct walker *w)
{
	static const __u64 numbers[] = {0,	    1,		2,	    3,		7,
					8,	    63,		64,	    4095,	4096,
					65535,	    65536,	1 << 20,    0x7fffffff, 0x80000000,
					0xffffffff, 1ULL << 32, 1ULL << 47, 1ULL << 63, -4096ULL,
					-1ULL};

	return one_in(w, 4) ? (__u64)roll_any(w) << roll(w, 34) : PICK(w, numbers);
}

static __u64 some_length(struct walker *w)
{
	static const __u64 lengths[] = {0, 1, 8, 64, 100, 256, 4096, 5000, 65536, 200000};

	return one_in(w, 16) ? some_number(w) : PICK(w, lengths);
}

/* An address in the arena, or an invalid one. */
static void *somewhere(struct walker *w)
{
	return one_in(w, 32) ? (void *)some_number(w) :
			       w->u->arena + (roll(w, ARENA) & (one_in(w, 2) ? ~7UL : ~0UL));
}

static struct file *some_file(struct walker *w)
{
	return &w->u->file[roll(w, w->u->contexts)];
}

/* An id of that kind, or of another one, or none. */
static __u32 some_id(struct walker *w, struct file *f, enum kind kind)
{
	if (one_in(w, 20))
		kind = roll(w, KINDS);
	return one_in(w, 40) ? roll(w, 64) : PICK(w, f->id[kind]);
}

/* Often 0. */
static __u32 perhaps_id(struct walker *w, struct file *f, enum kind kind)
{
	return one_in(w, 3) ? 0 : some_id(w, f, kind);
}

static __u32 some_flags(struct walker *w, __u32 known)
{
	if (one_in(w, 32))
		return some_number(w);
	return one_in(w, 2) ? 0 : roll_any(w) & known;
}

/* One or two flags: more of them are seldom valid together. */
static __u32 few_flags(struct walker *w, __u32 known)
{
	if (one_in(w, 8))
		return some_flags(w, known);
	return one_in(w, 2) ? 0 : (1U << roll(w, 32) | 1U << roll(w, 32)) & known;
}

static struct treadle_addr some_addr(struct walker *w)
{
	return one_in(w, 16) ? loopback(some_number(w)) : PICK(w, town->addr);
}

/* --- calls ------------------------------------------------------------------------------- */

static int through_io_uring(struct walker *w, int fd, unsigned long cmd, void *arg)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	int res;

	need(w->ring.ring_fd || io_uring_queue_init(4, &w->ring, 0) == 0);
	sqe = io_uring_get_sqe(&w->ring);
	need(sqe);
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = cmd;
	sqe->addr3 = (unsigned long)arg;
	sqe->flags = cmd == TREADLE_IOC_DOORBELL ? 0 : IOSQE_ASYNC;
	need(io_uring_submit(&w->ring) == 1);
	while ((res = io_uring_wait_cqe(&w->ring, &cqe)) == -EINTR)
		;
	need(res == 0);
	res = cqe->res;
	io_uring_cqe_seen(&w->ring, cqe);
	return res;
}

static int try(struct walker *w, struct file *f, unsigned long cmd, void *arg, size_t size)
{
	unsigned char *bytes = arg;
	int result;

	if (size && one_in(w, 8))
		for (__u32 n = roll(w, 4); n; n--)
			bytes[roll(w, size)] = roll_any(w);
	if (cmd != TREADLE_IOC_WAIT && one_in(w, 8))
		result = through_io_uring(w, f->fd, cmd, arg);
	else
		result = call(f->fd, cmd, one_in(w, 100) ? somewhere(w) : arg);
	__atomic_fetch_add(&town->calls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&town->good, result >= 0, __ATOMIC_RELAXED);
	return result;
}

#define TRY(w, f, cmd, arg) try(w, f, cmd, arg, sizeof(*(arg)))

static void remember(struct walker *w, struct file *f, enum kind kind, __u32 id)
{
	PICK(w, f->id[kind]) = id;
}

/* The place depends on the id, not on the dice, so that inputs in corpus/ keep their meaning. */
static void remember_area(struct file *f, __u32 id, struct treadle_map rw, struct treadle_map ro)
{
	f->area[id % KNOWN] = rw;
	f->area[(id + 1) % KNOWN] = ro;
}

#endif
