/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trigger cells of whole contexts: what becomes of those of one that goes, and what many take together.
 */
#include "triggers.h"

static void dies_armed(void *arg)
{
	struct cells c;
	struct node n;

	node_open(&n, (struct options){.tx = 1024});
	cells_open(&c, n.fd, 512);
	for (int i = 0; i < 500; i++)
		need(post(&n, once(nop(i), &c, i, 1)) == 1);
	for (int i = 0; i < 500; i += 2)
		cell_write(&c, i, 1);
	raise_to(arg, 1);
	pause();
}

TEST(cells_go_with_their_file_or_process)
{
	int *ready = shared(sizeof(*ready));
	struct cells c;
	struct node n;
	pid_t pid;

	node_open(&n, (struct options){});
	cells_open(&c, n.fd, 8);
	ASSERT_EQ(1, post(&n, once(nop(1), &c, 0, 1)));
	pid = spawn(dies_armed, ready);
	await(ready, 1);
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	/* It had our cells as well, and we still have them. */
	cell_write(&c, 0, 1);
	EXPECT_EQ(1, cq_next(&n.cq).context);
	ASSERT_EQ(1, post(&n, once(nop(2), &c, 0, 2)));
	close(n.fd);
	cell_write(&c, 0, 2);
}

/* How often timers have looked at the cells of this context. */
static __u32 timers_of(int fd)
{
	char path[64], line[256];
	FILE *file;
	__u32 n;
	int armed;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	need(file);
	do
		need(fgets(line, sizeof(line), file));
	while (sscanf(line, "treadle-context: armed %d timers %u", &armed, &n) != 2);
	fclose(file);
	return n;
}

/* However many contexts a user has: he has so much time in interrupts. */
TEST(many_contexts_look_more_seldom)
{
	enum { FEW = 16, CONTEXTS = 256 };
	static struct {
		struct node n;
		struct cells c;
		struct cntr done;
	} all[CONTEXTS];
	__u32 took[2] = {};
	int i = 0;

	for (int many = 0; many < 2; many++) {
		for (; i < (many ? CONTEXTS : FEW); i++) {
			node_open(&all[i].n, (struct options){});
			cells_open(&all[i].c, all[i].n.fd, 1);
			cntr_open(&all[i].done, all[i].n.fd);
			ASSERT_EQ(1, post(&all[i].n,
					  once(count_of(TREADLE_OP_CNTR_ADD, &all[i].done, 1, 0),
					       &all[i].c, 0, 1)));
		}
		usleep(500000); /* from here on they look as seldom as they ever will */
		for (int k = 0; k < i; k++)
			took[many] -= timers_of(all[k].n.fd);
		sleep(1);
		for (int k = 0; k < i; k++)
			took[many] += timers_of(all[k].n.fd);
	}
	note("timers in a second: %u with %d contexts, %u with %d", took[0], FEW, took[1],
	     CONTEXTS);
	EXPECT_LT(0, took[1]);
	EXPECT_LT(took[1], 4 * took[0]);
	for (i = 0; i < CONTEXTS; i++)
		cell_write(&all[i].c, 0, 1);
	for (i = 0; i < CONTEXTS; i++) {
		EXPECT_TRUE(cntr_becomes(&all[i].done, 1, 0));
		close(all[i].n.fd);
	}
}

TEST_HARNESS_MAIN
