/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A random walk over everything at once: all ioctls, rings, memory and files, of several processes with several threads
 * each, which know of each other's endpoints and regions, change their memory meanwhile, and die. Nothing here has a right
 * result but this: whatever is called returns, all can be taken down, the kernel log stays silent, and a stranger
 * that keeps to the rules is served at the end as at the beginning.
 *
 * FUZZ_SECONDS=8, FUZZ_SEED=(random, printed): the same seed gives each thread the same dice, not the same races.
 *
 * test-timeout: 7200
 */
#include "fuzz_objects.h"

#include <sys/random.h>

/* --- commands ------------------------------------------------------------------------------ */

static struct treadle_desc some_desc(struct walker *w, struct file *f)
{
	__u32 key = roll(w, PUBLIC);
	struct treadle_desc d = {
		.opcode = roll(w, TREADLE_OP_LAST),
		.flags = some_flags(w, TREADLE_F_ALL) | (one_in(w, 2) ? TREADLE_F_COMPLETION : 0),
		.iov_count = one_in(w, 4) ? roll(w, 9) : 1,
		.context = roll(w, 8),
		.addr = (unsigned long)somewhere(w),
		.len = some_length(w),
		.peer = one_in(w, 8) ? ANY : roll(w, 4),
		.data = roll(w, 64),
	};

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
			d.atomic_op = roll(w, 20);
			d.datatype = roll(w, 16);
			if (d.opcode != TREADLE_OP_ATOMIC)
				d.result = (unsigned long)somewhere(w);
			if (d.opcode == TREADLE_OP_COMPARE)
				d.compare = (unsigned long)somewhere(w);
		}
		break;
	default:
		d.iov_count = d.addr = d.len = d.data = 0;
		d.flags &= ~TREADLE_F_COMPLETION;
		if (d.opcode >= TREADLE_OP_CNTR_SET) {
			d.peer = some_id(w, f, CNTR);
			d.data = roll(w, 16);
		}
	}
	if (one_in(w, 4)) {
		d.flags |= TREADLE_F_EXT;
		if (one_in(w, 2)) {
			d.flags |= TREADLE_F_COND_CNTR;
			d.cond = some_id(w, f, CNTR);
			d.threshold = roll(w, 16);
		}
		if (one_in(w, 2)) {
			d.flags |= TREADLE_F_NOTIFY;
			d.notify = some_id(w, f, CNTR);
		}
		if (one_in(w, 3))
			d.flags |= TREADLE_F_WORK;
	}
	if (d.iov_count > 1)
		d.addr = 0;
	return d;
}

static void commands(struct walker *w, struct file *f)
{
	struct ring *r = &PICK(w, f->ring);
	struct ring copy = *r;

	if (!copy.rw || copy.fd != f->fd)
		return;
	for (__u32 n = roll(w, 8); n; n--) {
		struct treadle_desc d = some_desc(w, f);
		union treadle_slot slot;
		unsigned char *bytes = (void *)&d;

		if (ring_room(&copy) < 2)
			break;
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
			bytes[roll(w, sizeof(d))] = lottery(&w->dice);
		ring_put(&copy, &d);
		if (d.iov_count > 1)
			ring_put(&copy, &slot);
	}
	if (one_in(w, 500)) /* rarely out of range: it is a dead ring then */
		copy.prod = some_number(w);
	ring_publish(&copy);
	r->prod = copy.prod;
	__atomic_fetch_add(&town->calls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&town->good, ring_doorbell(&copy) >= 0, __ATOMIC_RELAXED);
}

static void rings(struct walker *w, struct file *f)
{
	static const enum kind kinds[] = {TX, RX, CQ, CQ};
	unsigned long id = some_id(w, f, PICK(w, kinds));

	if (one_in(w, 3))
		call(f->fd, TREADLE_IOC_SIGNAL, (void *)id);
	else if (one_in(w, 2))
		call(f->fd, TREADLE_IOC_DOORBELL, (void *)id);
	else
		through_io_uring(w, f->fd, TREADLE_IOC_DOORBELL, (void *)id);
}

static void cancels(struct walker *w, struct file *f)
{
	struct treadle_cancel c = {.size = sizeof(c),
				   .kind = roll(w, 3),
				   .context = roll(w, 8),
				   .threshold = roll(w, 16)};

	c.id = some_id(w, f, c.kind == TREADLE_CANCEL_OP ? EP : CNTR);
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
		/* As it is: what is waited for may never come. */
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
	char *at = w->u->arena + (roll(w, ARENA) & ~4095UL);
	size_t len = 4096 << roll(w, 4);

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
		/* As if it were not mapped, but nothing else can come to lie there. */
		need(mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		     at);
		break;
	case 3:
		if (fork() == 0)
			_exit(0);
		break;
	default:
		/* Back to what it was, for most of the time. */
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
	fd = device();
	for (int i = 0; i < KNOWN; i++)
		f->ring[i].rw = NULL;
	/* Whatever others are about with that number goes on in the new context. */
	need(dup3(fd, f->fd, O_CLOEXEC) == f->fd);
	close(fd);
}

static void maps_anything(struct walker *w, struct file *f)
{
	size_t len = 4096 << roll(w, 4);
	void *at = mmap(NULL, len, roll(w, 8), one_in(w, 4) ? MAP_PRIVATE : MAP_SHARED, f->fd,
			(off_t)(some_number(w) & ~4095ULL));

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

/* How often of how many. */
static const struct {
	void (*step)(struct walker *w, struct file *f);
	__u32 weight;
} steps[] = {
	{makes_queue, 3},  {makes_ring, 5},   {makes_endpoint, 8},
	{makes_region, 6}, {makes_others, 8}, {enables, 12},
	{binds_region, 2}, {destroys, 8},     {uses_address_vector, 10},
	{connects, 20},	   {reads_events, 8}, {commands, 50},
	{rings, 6},	   {cancels, 4},      {reads_completions, 10},
	{moves_memory, 5}, {opens_again, 1},  {maps_anything, 1},
	{asks, 1},
};

static void *walks(void *arg)
{
	struct walker *w = arg;
	__u32 sum = 0;

	for (__u32 i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		sum += steps[i].weight;
	need(io_uring_queue_init(4, &w->ring, 0) == 0);
	while (now_ns() < deadline) {
		__u32 at = roll(w, sum), i = 0;

		while (at >= steps[i].weight)
			at -= steps[i++].weight;
		steps[i].step(w, some_file(w));
	}
	io_uring_queue_exit(&w->ring);
	return NULL;
}

/* One process, for a while or until it dies in the middle of everything. */
static void lives(void *arg)
{
	static struct user u;
	static struct walker walkers[THREADS];
	pthread_t t[THREADS];
	__u64 dice = *(__u64 *)arg;

	u.arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(u.arena != MAP_FAILED);
	for (int i = 0; i < CONTEXTS; i++)
		u.file[i].fd = device();
	for (int i = 0; i < THREADS; i++) {
		walkers[i] = (struct walker){
			.u = &u, .desk = pages(sizeof(struct desk)), .dice = dice * THREADS + i};
		t[i] = thread(walks, &walkers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

/* --- the test -------------------------------------------------------------------------------- */

static void keeps_to_the_rules(void)
{
	struct node a, b;
	char src[64], dst[64] = "";

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	fill(src, sizeof(src), 1);
	need(post_recv(&b, recv_of(dst, sizeof(dst), ANY, 2)) == 0);
	need(post(&a, send_of(src, sizeof(src), peer(&a, b.addr), 3)) == 1);
	need(cq_next(&b.rcq).error == 0 && cq_next(&a.cq).error == 0);
	need(same(dst, sizeof(dst), 1));
	node_close(&a);
	node_close(&b);
}

static __u64 number_of(const char *name, __u64 otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

FIXTURE(fuzz)
{
	__u64 seed, seconds;
};

FIXTURE_SETUP(fuzz)
{
	need(getrandom(&self->seed, sizeof(self->seed), 0) == sizeof(self->seed));
	self->seed = number_of("FUZZ_SEED", self->seed % 1000000);
	self->seconds = number_of("FUZZ_SECONDS", 8);
	note("FUZZ_SECONDS=%llu FUZZ_SEED=%llu", self->seconds, self->seed);
	town = shared(sizeof(*town));
}

FIXTURE_TEARDOWN(fuzz) {}

TEST_F_TIMEOUT(fuzz, a_random_walk_harms_nobody, 7200)
{
	__u64 seeds[USERS], seed = self->seed, end = now_ns() + self->seconds * 1000000000ULL;
	pid_t users[USERS] = {0};
	int failed = 0, killed = 0;

	keeps_to_the_rules();
	while (now_ns() < end) {
		int i = lottery(&seed) % USERS;

		if (users[i] && kill(users[i], SIGKILL) == 0) {
			int status = reap(users[i]);

			failed += status > 0;
			killed++;
			users[i] = 0;
		}
		for (i = 0; i < USERS; i++)
			if (!users[i]) {
				seeds[i] = lottery(&seed);
				deadline = end;
				users[i] = spawn(lives, &seeds[i]);
			}
		keeps_to_the_rules();
		usleep(300000 + lottery(&seed) % 1500000);
	}
	for (int i = 0; i < USERS; i++)
		failed += users[i] && reap(users[i]) > 0;
	/* Where the kernel was told to write, it may have overwritten its caller: only who gives up has failed. */
	EXPECT_EQ(0, failed);
	note("%llu calls, of which %llu did something; %d processes killed", town->calls,
	     town->good, killed);
	keeps_to_the_rules();
	until_unused();
}

TEST_HARNESS_MAIN
