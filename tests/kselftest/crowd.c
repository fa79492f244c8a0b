/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Eight processes do everything with each other: messages of all kinds, at once or armed on
 * counters and cells, reads, writes, atomics, repeating commands, connections (crowd_ways.h; what
 * each does for the others: crowd_serves.h). Every 100 ms one of them is killed, and another takes
 * its place. A live process checks each byte that it gets, and sees errors only of peers that died.
 * At the end no memory is left behind. The test fails if one of KINDS in crowd.h has never
 * happened.
 *
 * DEATH_SECONDS=6
 *
 * test-timeout: 7200
 */
#include "crowd_ways.h"
#include "module.h"

static void member_open(struct member *m)
{
	struct place *p = &m->c->place[m->me];
	__u32 id;

	m->life = __atomic_load_n(&p->generation, __ATOMIC_ACQUIRE);
	m->dice = (__u64)getpid() << 8 | m->me;
	node_open(&m->n[0], (struct options){.buffered = 20000, .flags = TREADLE_EP_SOURCE});
	node_open(&m->n[1], (struct options){.context = m->n[0].fd,
					     .tx = 4,
					     .shared_rx = &m->n[0].rx,
					     .flags = TREADLE_EP_SOURCE});
	m->l.fd = m->n[0].fd;
	m->l.eq = wait_fd(m->l.fd, eq_create(m->l.fd));
	m->l.addr = loopback(0);
	need(ep_create_as(m->l.fd, TREADLE_EP_PASSIVE, 0, &m->l.addr, NULL, &m->l.ep) == 0);
	need(ep_eq(m->l.fd, m->l.ep, m->l.eq, PEP) == 0 && listen_to(m->l.fd, m->l.ep, 0) == 0);
	cntr_open(&m->told, m->l.fd);
	cntr_open(&m->go, m->l.fd);
	cntr_open(&m->ran, m->l.fd);
	cells_open(&m->cells, m->l.fd, WORDS);
	m->src = pages(WORDS * ROOM);
	m->dst = pages(BUFFER_BYTES);
	m->got = pages(ROOM);
	m->flat = pages(ROOM);
	m->region = pages(REGION);
	for (int i = 0; i < CALLS; i++)
		m->callers[i].buf = pages(ROOM);
	for (int i = 0; i < STANDS; i++)
		post_ring(m, i);
	p->key = 0;
	need(mr(m->l.fd, m->region, REGION,
		TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
		TREADLE_MR_KERNEL_KEY | (lottery(&m->dice) & 1 ? TREADLE_MR_PINNED : 0), &p->key,
		&id) == 0);
	for (int i = 0; i < ENDS; i++) {
		p->addr[i] = m->n[i].addr;
		__atomic_fetch_add(&m->c->owners[m->n[i].addr.port], 1, __ATOMIC_RELAXED);
	}
	p->listens = m->l.addr;
	p->pid = pid_bits();
	__atomic_store_n(&p->here, m->life, __ATOMIC_RELEASE);
}

/* Serves the others until all have come to this point. */
static void together(struct member *m, int *count)
{
	__u64 end = now_ns() + 4 * PATIENCE_NS;

	__atomic_fetch_add(count, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < CROWD) {
		attend(m);
		usleep(200);
		need(now_ns() < end);
	}
}

/*
 * Have all messages of @other to this process come, and once? *count: the number of those that
 * came.
 */
static bool all_came(struct member *m, int other, __u64 *count)
{
	const struct account *sent = &m->c->sent[other][m->me], *came = &m->came[other];
	static const struct account none;

	if (sent->pid != pid_bits())
		sent = &none;
	if (came->pid != m->c->place[other].pid)
		came = &none;
	*count = came->count;
	return came->count == sent->count && came->sum == sent->sum;
}

/*
 * No process dies any more. All messages that succeeded between two live processes have come, or
 * still come.
 */
static void settle_accounts(struct member *m)
{
	__u64 end, count;

	memcpy(m->c->sent[m->me], m->sent, sizeof(m->sent));
	together(m, &m->c->silent);
	end = now_ns() + 4 * PATIENCE_NS;
	for (int other = 0; other < CROWD; other++)
		while (!all_came(m, other, &count)) {
			attend(m);
			about("%llu of %llu messages of %d", count, m->c->sent[other][m->me].count,
			      other);
			need(now_ns() < end);
		}
	together(m, &m->c->settled);
	for (int other = 0; other < CROWD; other++) {
		need(all_came(m, other, &count));
		__atomic_fetch_add(&m->c->done[SETTLED], count, __ATOMIC_RELAXED);
	}
}

static void run_member(struct crowd *c, int me)
{
	static void (*const ways[])(struct member *, int, struct place *, struct place *) = {
		messages,	  messages, messages, writes_and_reads,
		writes_and_reads, sums,	    compares, deliveries,
		collectives,	  repeats,  calls};
	static struct member m;

	m.c = c;
	m.me = me;
	member_open(&m);
	while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
		int way = roll(&m, ARRAY_SIZE(ways)), other = roll(&m, CROWD);
		struct place seen, *p = look(&m, other, &seen);

		attend(&m);
		/* A process that calls itself would wait for itself. */
		if (p && (ways[way] != calls || other != me))
			ways[way](&m, other, p, &seen);
	}
	settle_accounts(&m);
	__atomic_fetch_add(&c->place[me].generation, 1, __ATOMIC_RELEASE);
	_exit(0);
}

static pid_t joins(struct crowd *c, int me)
{
	pid_t pid = fork();

	need(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_member(c, me);
	}
	return pid;
}

/* All kinds but the one that only happens at the end. */
static bool all_has_happened(const struct crowd *c)
{
	for (int i = 0; i < KIND_COUNT; i++)
		if (i != SETTLED && !__atomic_load_n(&c->done[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

static void report(const struct crowd *c, int killed)
{
#define TEXT(name, text) text,
	static const char *const texts[] = {KINDS(TEXT)};
	char line[1024] = "";

	for (int i = 0, n = 0; i < KIND_COUNT; i++)
		n += snprintf(line + n, sizeof(line) - n, ", %llu %s", c->done[i], texts[i]);
	note("%d killed%s", killed, line);
	for (int i = 0; i < KIND_COUNT; i++) {
		about("%s", texts[i]);
		need(c->done[i]);
	}
}

/* Goes on after DEATH_SECONDS until each kind has happened. */
static void kills_and_replaces(void *arg)
{
	const char *text = getenv("DEATH_SECONDS");
	__u64 end = now_ns() + (text ? atoi(text) : 6) * 1000000000ULL, dice = 1, next = now_ns();
	struct crowd *c = arg;
	pid_t pids[CROWD];
	int killed = 0;

	/* No process has been here yet. */
	for (int i = 0; i < CROWD; i++)
		c->place[i].generation = 1;
	for (int i = 0; i < CROWD; i++)
		pids[i] = joins(c, i);
	while ((next += 100000000) < end || (!all_has_happened(c) && next < end + PATIENCE_NS)) {
		int other = lottery(&dice) % CROWD;

		while (now_ns() < next)
			usleep(1000);
		/* A process only ends here. */
		__atomic_fetch_add(&c->place[other].generation, 1, __ATOMIC_RELEASE);
		need(kill(pids[other], SIGKILL) == 0 && reap(pids[other]) == -SIGKILL);
		pids[other] = joins(c, other);
		killed++;
	}
	sleep(1); /* so that those alive at the end have had more to do with each other */
	raise_to(&c->stop, 1);
	for (int i = 0; i < CROWD; i++)
		need(reap(pids[i]) == 0);
	report(c, killed);
	need(killed);
}

struct group {
	char dir[64];
	struct crowd c;
};

static void in_a_group(void *arg)
{
	struct group *g = arg;

	cgroup_enter(g->dir);
	kills_and_replaces(&g->c);
}

/* Bytes that the memory controller may still show: its counts are behind by some batches. */
#define SLACK (128 << 10)

FIXTURE(crowd)
{
	struct group *g;
};

FIXTURE_SETUP(crowd)
{
	self->g = shared(sizeof(*self->g));
}

FIXTURE_TEARDOWN(crowd) {}

TEST_F(crowd, killed_one_after_the_other)
{
	/* a session is charged to the first process that needs it, and stays */
	const long long slack = module_users() ? SLACK + (256 << 10) : SLACK;
	__u64 end = now_ns() + PATIENCE_NS;
	long long left;

	EXPECT_EQ(0, reap(spawn(in_a_group, self->g)));
	until_unused();
	while ((left = cgroup_kernel(self->g->dir)) > slack && now_ns() < end)
		usleep(10000);
	EXPECT_LE(0, left);
	EXPECT_GE(slack, left);
	note("%lld bytes of the kernel's are still charged", left);
	EXPECT_TRUE(all_pins_are_released());
	EXPECT_TRUE(cgroup_removed(self->g->dir));
	if (module_users()) /* a transport; tests/loop/run unloads both */
		return;
	/* Unloading warns if the module's caches are not empty. */
	module_unload();
	EXPECT_EQ(0, module_load(false, ""));
}

TEST_HARNESS_MAIN
