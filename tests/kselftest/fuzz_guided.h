/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of both fuzzers, and the fuzzer of recorded steps (fuzz_inputs.h): those in corpus/
 * and, where the kernel or the module of tests/fail reports coverage, mutations of them.
 *
 * FUZZ_SECONDS=8: of each test. FUZZ_SEED=(random, printed): the same seed gives each thread the
 * same dice, not the same races. FUZZ_CORPUS=DIR: more inputs to begin with; inputs that are found
 * are written there.
 */
#ifndef TREADLE_KSELFTEST_FUZZ_GUIDED_H
#define TREADLE_KSELFTEST_FUZZ_GUIDED_H

#include "fuzz_inputs.h"

#include <sys/random.h>

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

TEST_F(fuzz, inputs_that_reach_new_code_are_mutated)
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
	guide_close();
	EXPECT_EQ(0, guide.failed);
	keeps_to_the_rules();
	until_unused();
}

#endif
