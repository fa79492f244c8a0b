/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A random walk over everything at once: all ioctls, rings, memory and files, of several processes
 * with several threads each. They know each other's endpoints and regions, change their memory
 * meanwhile, and die. No result is checked but these: each call returns, everything can be torn
 * down, the kernel log stays silent, and a correct client is served at the end as at the beginning.
 *
 * Then recorded steps (fuzz_guided.h).
 *
 * test-timeout: 7200
 */
#include "fuzz_guided.h"

static __u64 deadline;

static void *walks(void *arg)
{
	struct walker *w = arg;

	while (now_ns() < deadline)
		steps[some_step(w)].take(w, some_file(w));
	return NULL;
}

/* A process that walks for a while, or is killed at any point. */
static void walks_or_dies(void *arg)
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

static bool all_bent(void)
{
	for (int i = 0; i < BENDS; i++)
		if (!town->bent[i])
			return false;
	return true;
}

/* On a slow machine the walk goes on until each bend was taken. */
TEST_F(fuzz, a_random_walk_does_no_harm)
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
				users[i] = spawn(walks_or_dies, &seeds[i]);
			}
		keeps_to_the_rules();
		usleep(300000 + lottery(&seed) % 1500000);
	}
	for (int i = 0; i < USERS; i++)
		failed += users[i] && reap(users[i]) > 0;
	/*
	 * The kernel may have been told to overwrite the caller's own memory, so a crash is no
	 * failure; a failed need() is.
	 */
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

TEST_HARNESS_MAIN
