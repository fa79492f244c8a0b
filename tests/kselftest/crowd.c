/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Eight processes do everything with each other: messages of all kinds, at once or armed on counters and cells, reads,
 * writes, atomics, commands that repeat, connections (crowd_ways.h; what they do for others: crowd_serves.h). Every
 * 100 ms one of them is killed, and another takes its place. Whoever lives checks every byte that he gets, and has errors
 * only of peers that died; at the end nothing is left of anybody. What has never happened (KINDS in crowd.h) fails.
 *
 * DEATH_SECONDS=6
 *
 * test-timeout: 7200
 */
#include "crowd_ways.h"
#include "module.h"

static void is_born(struct member *m)
{
	struct place *p = &m->c->place[m->me];
	__u32 id;

	m->life = __atomic_load_n(&p->lives, __ATOMIC_ACQUIRE);
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

/* The others have got this far, too; they are served until then. */
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

/* Has all come, and once, that @who has sent to this one? *count: how many that are. */
static bool all_came(struct member *m, int who, __u64 *count)
{
	const struct account *sent = &m->c->sent[who][m->me], *came = &m->came[who];
	static const struct account none;

	if (sent->whose != pid_bits())
		sent = &none;
	if (came->whose != m->c->place[who].pid)
		came = &none;
	*count = came->count;
	return came->count == sent->count && came->sum == sent->sum;
}

/* Nobody dies any more. What one has sent well to another that lives has come, or still does. */
static void settles(struct member *m)
{
	__u64 end, count;

	memcpy(m->c->sent[m->me], m->sent, sizeof(m->sent));
	together(m, &m->c->silent);
	end = now_ns() + 4 * PATIENCE_NS;
	for (int who = 0; who < CROWD; who++)
		while (!all_came(m, who, &count)) {
			attend(m);
			about("%llu of %llu messages of %d", count, m->c->sent[who][m->me].count,
			      who);
			need(now_ns() < end);
		}
	together(m, &m->c->settled);
	for (int who = 0; who < CROWD; who++) {
		need(all_came(m, who, &count));
		__atomic_fetch_add(&m->c->done[SETTLED], count, __ATOMIC_RELAXED);
	}
}

static void lives(struct crowd *c, int me)
{
	static void (*const ways[])(struct member *, int, struct place *, struct place *) = {
		messages,	  messages, messages, writes_and_reads,
		writes_and_reads, sums,	    compares, deliveries,
		collectives,	  repeats,  calls};
	static struct member m;

	m.c = c;
	m.me = me;
	is_born(&m);
	while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
		int way = roll(&m, ARRAY_SIZE(ways)), who = roll(&m, CROWD);
		struct place seen, *p = look(&m, who, &seen);

		attend(&m);
		/* One that calls itself would wait for itself. */
		if (p && (ways[way] != calls || who != me))
			ways[way](&m, who, p, &seen);
	}
	settles(&m);
	__atomic_fetch_add(&c->place[me].lives, 1, __ATOMIC_RELEASE);
	_exit(0);
}

static pid_t joins(struct crowd *c, int me)
{
	pid_t pid = fork();

	need(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		lives(c, me);
	}
	return pid;
}

/* But for what only does at the end. */
static bool all_has_happened(const struct crowd *c)
{
	for (int i = 0; i < KIND_COUNT; i++)
		if (i != SETTLED && !__atomic_load_n(&c->done[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

static void tell_of(const struct crowd *c, int killed)
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

/* Longer, where so little happens in that time that something has not happened yet. */
static void kills_and_replaces(void *arg)
{
	const char *text = getenv("DEATH_SECONDS");
	__u64 end = now_ns() + (text ? atoi(text) : 6) * 1000000000ULL, dice = 1, next = now_ns();
	struct crowd *c = arg;
	pid_t pids[CROWD];
	int killed = 0;

	/* Nobody has been here yet. */
	for (int i = 0; i < CROWD; i++)
		c->place[i].lives = 1;
	for (int i = 0; i < CROWD; i++)
		pids[i] = joins(c, i);
	while ((next += 100000000) < end || (!all_has_happened(c) && next < end + PATIENCE_NS)) {
		int who = lottery(&dice) % CROWD;

		while (now_ns() < next)
			usleep(1000);
		/* Nobody ends but by this. */
		__atomic_fetch_add(&c->place[who].lives, 1, __ATOMIC_RELEASE);
		need(kill(pids[who], SIGKILL) == 0 && reap(pids[who]) == -SIGKILL);
		pids[who] = joins(c, who);
		killed++;
	}
	sleep(1); /* so that those who live to the end have had more to do with each other */
	raise_to(&c->stop, 1);
	for (int i = 0; i < CROWD; i++)
		need(reap(pids[i]) == 0);
	tell_of(c, killed);
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

/* What is still told of memory is what the kernel's own books are behind by. */
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
	__u64 end = now_ns() + PATIENCE_NS;
	long long left;

	EXPECT_EQ(0, reap(spawn(in_a_group, self->g)));
	until_unused();
	while ((left = cgroup_kernel(self->g->dir)) > SLACK && now_ns() < end)
		usleep(10000);
	EXPECT_LE(0, left);
	EXPECT_GE(SLACK, left);
	note("%lld bytes of the kernel's are still charged", left);
	EXPECT_TRUE(all_pins_are_released());
	EXPECT_EQ(0, rmdir(self->g->dir));
	/* Its caches complain of what is left in them. */
	module_unload();
	EXPECT_EQ(0, module_load(false, ""));
}

TEST_HARNESS_MAIN
