/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A random walk over everything at once: all ioctls, rings, memory and files, of several processes with several threads
 * each, which know of each other's endpoints and regions, change their memory meanwhile, and die. Nothing here has a right
 * result but this: whatever is called returns, all can be taken down, the kernel log stays silent, and a stranger
 * that keeps to the rules is served at the end as at the beginning.
 *
 * Then steps that are told (fuzz_inputs.h): those in corpus/, and where the kernel has KCOV others that it leads to.
 *
 * FUZZ_SECONDS=8: of each of the two. FUZZ_SEED=(random, printed): the same seed gives each thread the same dice, not the
 * same races. FUZZ_CORPUS=DIR: inputs to begin with, besides; what is found is written there.
 *
 * test-timeout: 7200
 */
#include "fuzz_inputs.h"

#include <sys/random.h>

static void *walks(void *arg)
{
	struct walker *w = arg;

	while (now_ns() < deadline)
		steps[some_step(w)].take(w, some_file(w));
	return NULL;
}

/* One process, for a while or until it dies in the middle of everything. */
static void lives(void *arg)
{
	static struct user u = {.contexts = CONTEXTS};
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
	commons = memfd_create("commons", MFD_CLOEXEC);
	need(commons >= 0 && ftruncate(commons, COMMONS) == 0);
}

FIXTURE_TEARDOWN(fuzz)
{
	close(commons);
}

static bool all_bent(void)
{
	for (int i = 0; i < BENDS; i++)
		if (!town->bent[i])
			return false;
	return true;
}

/* On a slow machine it goes on until each bend was taken. */
TEST_F(fuzz, a_random_walk_harms_nobody)
{
	__u64 seeds[USERS], seed = self->seed, end = now_ns() + self->seconds * 1000000000ULL;
	pid_t users[USERS] = {0};
	int failed = 0, killed = 0;

	keeps_to_the_rules();
	while (now_ns() < end || (!all_bent() && now_ns() < end + 4 * PATIENCE_NS)) {
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
				deadline = now_ns() < end ? end : now_ns() + 2000000000ULL;
				users[i] = spawn(lives, &seeds[i]);
			}
		keeps_to_the_rules();
		usleep(300000 + lottery(&seed) % 1500000);
	}
	for (int i = 0; i < USERS; i++)
		failed += users[i] && reap(users[i]) > 0;
	/* Where the kernel was told to write, it may have overwritten its caller: only who gives up has failed. */
	EXPECT_EQ(0, failed);
	EXPECT_LT(0, town->good);
	note("%llu calls, of which %llu did something; %d processes killed", town->calls,
	     town->good, killed);
	for (int i = 0; i < BENDS; i++)
		note("%llu times %s", town->bent[i], bends[i]);
	EXPECT_TRUE(all_bent());
	keeps_to_the_rules();
	until_unused();
}

TEST_F(fuzz, what_reaches_new_code_leads_on)
{
	struct walker w = {.dice = self->seed};
	int known;

	guide_open();
	play_all("tests/kselftest/corpus", &w);
	if (guide.dir)
		play_all(guide.dir, &w);
	note("%d inputs", guide.read);
	EXPECT_LT(0, guide.read);
	if (guide.trace) {
		known = guide.blocks;
		search_until(now_ns() + self->seconds * 1000000000ULL, &w);
		note("%d blocks and %d pairs of them, %d blocks before; %d played, %d lead on",
		     guide.blocks, guide.pairs, known, guide.played, guide.kept_count);
		EXPECT_LT(0, known);
	}
	EXPECT_EQ(0, guide.failed);
	keeps_to_the_rules();
	until_unused();
}

TEST_HARNESS_MAIN
