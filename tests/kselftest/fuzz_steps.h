/* SPDX-License-Identifier: GPL-2.0 */
/* The random walk of fuzz.c: steps that use objects, and the table of all steps. */
#ifndef TREADLE_KSELFTEST_FUZZ_STEPS_H
#define TREADLE_KSELFTEST_FUZZ_STEPS_H

#include "fuzz_direct.h"

/* --- commands ------------------------------------------------------------------------------ */

static struct treadle_desc some_desc(struct walker *w, struct file *f, bool receives)
{
	__u32 key = roll(w, PUBLIC);
	struct treadle_desc d = {
		.opcode = receives && !one_in(w, 8) ? TREADLE_OP_RECV + roll(w, 2) :
						      roll(w, TREADLE_OP_LAST),
		.flags = few_flags(w, receives ? TREADLE_F_MULTI_RECV : TREADLE_F_ALL) |
			 (one_in(w, 2) ? TREADLE_F_COMPLETION : 0),
		.iov_count = one_in(w, 4) ? roll(w, 9) : 1,
		.context = roll(w, 8),
		.addr = (unsigned long)somewhere(w),
		.len = some_length(w),
		.peer = one_in(w, receives ? 2 : 8) ? ANY : roll(w, 4),
	};

	if (d.flags & (TREADLE_F_REMOTE_CQ_DATA | TREADLE_F_MULTI_RECV))
		d.data = roll(w, 64);
	switch (d.opcode) {
	case TREADLE_OP_RECV:
	case TREADLE_OP_SEND:
		break;
	case TREADLE_OP_TSEND:
	case TREADLE_OP_TRECV:
		d.tag = roll(w, 3);
		if (d.opcode == TREADLE_OP_TRECV && one_in(w, 3))
			d.ignore = -1ULL;
		break;
	case TREADLE_OP_READ:
	case TREADLE_OP_WRITE:
	case TREADLE_OP_ATOMIC:
	case TREADLE_OP_FETCH:
	case TREADLE_OP_COMPARE:
		d.remote_addr = town->at[key] + (one_in(w, 4) ? some_length(w) : 0);
		d.remote_key = town->key[key];
		if (d.opcode >= TREADLE_OP_ATOMIC) {
			d.flags |= TREADLE_F_EXT;
			d.len = d.len > TREADLE_MAX_ATOMIC ? 64 : d.len;
			d.atomic_op = roll(w, 20);
			d.datatype = roll(w, 16);
			if (d.opcode != TREADLE_OP_ATOMIC)
				d.result = (unsigned long)somewhere(w);
			if (d.opcode == TREADLE_OP_COMPARE)
				d.compare = (unsigned long)somewhere(w);
		}
		break;
	default:
		d.iov_count = d.addr = d.len = d.data = d.peer = 0;
		d.flags &= ~TREADLE_F_COMPLETION;
		if (d.opcode >= TREADLE_OP_CNTR_SET) {
			d.peer = some_id(w, f, CNTR);
			d.data = roll(w, 16);
		}
	}
	if (one_in(w, receives ? 16 : 4)) {
		d.flags |= TREADLE_F_EXT;
		if (one_in(w, 2)) {
			d.flags |= TREADLE_F_COND_CNTR;
			d.cond = some_id(w, f, CNTR);
			d.threshold = roll(w, 16);
			if (one_in(w, 4)) {
				d.flags |= TREADLE_F_REPEAT | TREADLE_F_WORK;
				d.flags &= ~(TREADLE_F_COMPLETION | TREADLE_F_INJECT);
				d.value = 1 + roll(w, 8);
				if (one_in(w, 2)) {
					d.rest = some_id(w, f, CNTR);
					d.rest_threshold = roll(w, 16);
				}
			}
		}
		if (one_in(w, 3) && !(d.flags & TREADLE_F_COND_CNTR)) {
			d.flags |= TREADLE_F_COND_CELL;
			d.cond = some_id(w, f, CELL);
			d.threshold = roll(w, CELLS) * sizeof(__u64);
			d.value = roll(w, 4);
		}
		if (one_in(w, 2)) {
			d.flags |= TREADLE_F_NOTIFY;
			d.notify = some_id(w, f, CNTR);
		}
		if (one_in(w, 3))
			d.flags |= TREADLE_F_WORK;
		/* no dice: inputs in corpus/ keep their meaning */
		if (d.opcode == TREADLE_OP_CNTR_ADD && (d.flags & TREADLE_F_COND_CELL) &&
		    d.value % 2) {
			d.flags |= TREADLE_F_REPEAT | TREADLE_F_WORK;
			d.flags &= ~TREADLE_F_NOTIFY;
			d.notify = d.data = 0;
		}
	}
	if (d.iov_count > 1)
		d.addr = 0;
	return d;
}

/* @named: commands name their endpoint, as in shared rings. */
static void posts(struct walker *w, struct file *f, bool named)
{
	__u32 which = roll(w, KNOWN);
	struct ring *r = &f->ring[which];
	struct ring copy = *r;
	bool receives = f->receives[which];

	if (!copy.rw || copy.fd != f->fd)
		return;
	for (__u32 n = roll(w, 8); n; n--) {
		struct treadle_desc d = some_desc(w, f, receives);
		union treadle_slot slot;
		unsigned char *bytes = (void *)&d;

		if (ring_room(&copy) < 2)
			break;
		if (named)
			d.ep = some_id(w, f, EP);
		if (d.iov_count > 1 && one_in(w, 8) == 0) {
			d.len = 0;
			for (int i = 0; i < TREADLE_MAX_IOV; i++) {
				slot.iov[i] = (struct treadle_iov){(unsigned long)somewhere(w),
								   roll(w, 5000)};
				if (i < d.iov_count)
					d.len += slot.iov[i].len;
			}
		}
		if (one_in(w, 10))
			bytes[roll(w, sizeof(d))] = roll_any(w);
		ring_put(&copy, &d);
		if (d.iov_count > 1)
			ring_put(&copy, &slot);
	}
	if (one_in(w, 500)) /* seldom out of range, as that breaks the ring */
		copy.prod = some_number(w);
	ring_publish(&copy);
	r->prod = copy.prod;
	__atomic_fetch_add(&town->calls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&town->good, ring_doorbell(&copy) >= 0, __ATOMIC_RELAXED);
}

static void commands(struct walker *w, struct file *f)
{
	posts(w, f, false);
}

static void commands_by_name(struct walker *w, struct file *f)
{
	posts(w, f, true);
}

static void rings(struct walker *w, struct file *f)
{
	static const enum kind kinds[] = {TX, RX, CQ, CQ};
	unsigned long id = some_id(w, f, PICK(w, kinds));

	if (one_in(w, 3))
		call(f->fd, TREADLE_IOC_SIGNAL, (void *)id);
	else if (one_in(w, 3))
		call(f->fd, TREADLE_IOC_DOORBELL, (void *)id);
	else if (one_in(w, 2))
		doorbell_seek(f->fd, id);
	else
		through_io_uring(w, f->fd, TREADLE_IOC_DOORBELL, (void *)id);
}

static void writes_cells(struct walker *w, struct file *f)
{
	__u64 *cells = PICK(w, f->cells);

	for (__u32 n = roll(w, CELLS); cells && n; n--)
		__atomic_store_n(&cells[roll(w, CELLS)], roll(w, 4), __ATOMIC_RELEASE);
}

static void cancels(struct walker *w, struct file *f)
{
	struct treadle_cancel c = {.size = sizeof(c),
				   .kind = roll(w, 3),
				   .context = roll(w, 8),
				   .threshold = roll(w, 16)};

	if (c.kind == TREADLE_CANCEL_OP)
		c.flags = roll(w, 4);
	c.id = some_id(w, f, c.kind == TREADLE_CANCEL_OP ? EP : one_in(w, 3) ? CELL : CNTR);
	if (c.kind == TREADLE_FLUSH_WORK) {
		c.context = c.threshold = 0;
		if (one_in(w, 2))
			c.id = 0;
	}
	TRY(w, f, TREADLE_IOC_CANCEL, &c);
}

static void reads_completions(struct walker *w, struct file *f)
{
	struct cq q = PICK(w, f->cq);
	struct treadle_wait wait = {.size = sizeof(wait),
				    .id = some_id(w, f, one_in(w, 2) ? CQ : CNTR),
				    .timeout_ns = roll(w, 300000),
				    .threshold = roll(w, 16)};
	struct treadle_wait_fd file = {.size = sizeof(file), .id = wait.id};

	if (q.rw && q.rw != MAP_FAILED && q.ro != MAP_FAILED)
		q.rw->cons = one_in(w, 50) ? some_number(w) : q.ro->prod;
	if (one_in(w, 3)) {
		wait.threshold = one_in(w, 2) ? 0 : wait.threshold;
		/* No wait without a timeout: a completion may never come. */
		try(w, f, TREADLE_IOC_WAIT, &wait, 0);
	} else if (one_in(w, 3) && TRY(w, f, TREADLE_IOC_WAIT_FD, &file) == 0) {
		struct pollfd p = {.fd = file.fd, .events = POLLIN};

		poll(&p, 1, roll(w, 2));
		close(file.fd);
	}
}

/* --- memory, files, processes --------------------------------------------------------------- */

static void moves_memory(struct walker *w, struct file *f)
{
	char *at = w->u->arena + (roll(w, ARENA) & -(__u64)PAGE);
	size_t len = (size_t)PAGE << roll(w, 4);

	(void)f;
	if (at + len > w->u->arena + ARENA)
		return;
	switch (roll(w, 6)) {
	case 0:
		madvise(at, len, MADV_DONTNEED);
		break;
	case 1:
		mprotect(at, len, PROT_READ);
		break;
	case 2:
		/* Without access, but kept mapped, so that no other map can take the place. */
		need(mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		     at);
		break;
	case 3:
		if (fork() == 0)
			_exit(0);
		break;
	default:
		/* Mapped again, for most of the time. */
		need(mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			  -1, 0) == at);
	}
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static void opens_again(struct walker *w, struct file *f)
{
	int fd;

	if (!one_in(w, 20))
		return;
	fd = open(TREADLE_DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	for (int i = 0; i < KNOWN; i++)
		f->ring[i].rw = NULL;
	/* Calls of other threads on that number go on in the new context. */
	need(dup3(fd, f->fd, O_CLOEXEC) == f->fd);
	close(fd);
}

static void maps_anything(struct walker *w, struct file *f)
{
	size_t len = (size_t)PAGE << roll(w, 4);
	void *at = mmap(NULL, len, roll(w, 8), one_in(w, 4) ? MAP_PRIVATE : MAP_SHARED, f->fd,
			(off_t)(some_number(w) & -(__u64)PAGE));

	if (at != MAP_FAILED)
		munmap(at, len);
}

static void asks(struct walker *w, struct file *f)
{
	struct treadle_query c = {.size = sizeof(c)};
	char anything[512] = "";

	TRY(w, f, TREADLE_IOC_QUERY, &c);
	if (one_in(w, 4)) {
		*(__u32 *)anything = roll(w, 300);
		try(w, f, _IOWR(TREADLE_IOC_MAGIC, roll(w, 64), struct treadle_query), anything,
		    sizeof(anything));
	}
}

/*
 * With the module of tests/fail: makes its n-th allocation from here on fail, in this process or in
 * a worker.
 */
static void lacks_something(struct walker *w, struct file *f)
{
	int fd = open("/sys/module/treadle/parameters/fail_nth", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	dprintf(fd, "%u", 1 + roll(w, one_in(w, 2) ? 4 : 40));
	close(fd);
}

#define STEP(name, weight)          \
	{                           \
#name, name, weight \
	}
/* The steps, and how often each is taken. */
static const struct {
	const char *name;
	void (*take)(struct walker *w, struct file *f);
	__u32 weight;
} steps[] = {
	STEP(makes_queue, 3),
	STEP(makes_ring, 5),
	STEP(makes_endpoint, 8),
	STEP(makes_region, 6),
	STEP(makes_others, 10),
	STEP(settles, 10),
	STEP(shares, 4),
	STEP(enables, 12),
	STEP(joins, 5),
	STEP(binds_region, 2),
	STEP(destroys, 8),
	STEP(uses_address_vector, 10),
	STEP(connects, 20),
	STEP(reads_events, 8),
	STEP(commands, 40),
	STEP(commands_by_name, 12),
	STEP(rings, 6),
	STEP(writes_cells, 8),
	STEP(cancels, 4),
	STEP(reads_completions, 10),
	STEP(moves_memory, 5),
	STEP(opens_again, 1),
	STEP(maps_anything, 1),
	STEP(asks, 1),
	STEP(bends_maps, 5),
	STEP(lays_maps, 2),
	STEP(shares_memory, 4),
	STEP(others_change_it, 3),
	STEP(lacks_something, 10),
	STEP(uses_windows, 10),
	STEP(uses_lanes, 10),
};
#define NSTEPS (sizeof(steps) / sizeof(steps[0]))

/* The step that the dice select. */
static __u32 some_step(struct walker *w)
{
	__u32 sum = 0, at, i = 0;

	for (i = 0; i < NSTEPS; i++)
		sum += steps[i].weight;
	at = roll(w, sum);
	for (i = 0; at >= steps[i].weight; i++)
		at -= steps[i].weight;
	return i;
}

#endif
