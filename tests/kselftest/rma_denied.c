/* SPDX-License-Identifier: GPL-2.0 */
/* Access that an endpoint denies to its peers, whatever its process has registered. */
#include <treadle/atomic.h>

#include "rma.h"

/* Eight bytes: as one range, or as two, which takes the long way. */
static int either_way(rma *self, struct treadle_desc d, bool both)
{
	const struct treadle_iov none[TREADLE_MAX_IOV] = {};
	struct treadle_rma_iov ranges[2] = {{0, 4, self->key}, {4, 4, self->key}};

	if (!both)
		return outcome(&self->a, d);
	need(post_ranges(&self->a, d, none, ranges, 2) == 1);
	return cq_next(&self->a.cq).error;
}

/* The region grants all of it. */
// conformance: fi_getinfo(3): FI_READ and so on restrict the operations of an endpoint, as ...
// conformance: ioctl.h: EACCES: the endpoint denies this access
TEST_F(rma, access_that_an_endpoint_denies)
{
	static const struct {
		__u32 flags;
		bool write, read, add, fetch;
	} ways[] = {
		{0, true, true, true, true},
		{TREADLE_EP_NO_RMA, false, false, true, true},
		{TREADLE_EP_NO_ATOMIC, true, true, false, false},
		{TREADLE_EP_NO_REMOTE_READ, true, false, true, false},
		{TREADLE_EP_NO_REMOTE_WRITE, false, true, false, false},
	};

	for (int i = 0; i < ARRAY_SIZE(ways); i++) {
		for (int both = 0; both < 2; both++) {
			struct treadle_desc add;
			struct node n;
			__u64 to;

			node_open(&n,
				  (struct options){.context = self->b.fd, .flags = ways[i].flags});
			to = peer(&self->a, n.addr);
			*(__u64 *)self->there = 1;
			*(__u64 *)self->here = 1;
			EXPECT_EQ(ways[i].write ? 0 : EACCES,
				  either_way(self, write_of(self->here, 8, to, 0, self->key, 1),
					     both));
			EXPECT_EQ(ways[i].read ? 0 : EACCES,
				  either_way(self, read_of(self->here, 8, to, 0, self->key, 1),
					     both));
			add = write_of(self->here, 8, to, 0, self->key, 1);
			add.opcode = TREADLE_OP_ATOMIC;
			add.flags |= TREADLE_F_EXT;
			add.atomic_op = TREADLE_ATOMIC_SUM;
			add.datatype = TREADLE_UINT64;
			EXPECT_EQ(ways[i].add ? 0 : EACCES, outcome(&self->a, add));
			add.opcode = TREADLE_OP_FETCH;
			add.result = (unsigned long)self->here + 64;
			EXPECT_EQ(ways[i].fetch ? 0 : EACCES, outcome(&self->a, add));
			ASSERT_EQ(0, destroy(self->b.fd, n.ep));
		}
	}
}

TEST_HARNESS_MAIN
