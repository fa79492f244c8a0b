/* SPDX-License-Identifier: GPL-2.0 */
/* Endpoints that share a receive ring, for tests that close one of them. */
#ifndef TREADLE_KSELFTEST_THREE_H
#define TREADLE_KSELFTEST_THREE_H

#include "slow.h"
#include "treadle.h"

/* Waits briefly for a completion, if one comes. */
static inline bool comes(struct node *n, struct treadle_cqe *c)
{
	return cq_wait(&n->rcq, PATIENCE_NS / 10) == 0 && cq_poll(&n->rcq, c);
}

/* Two endpoints that receive from the same ring, and one that sends to them. */
struct three {
	struct node from, first, second;
	__u64 to_first, to_second;
	char *buf;
};

static inline void three_open(struct three *t)
{
	node_open(&t->from, (struct options){});
	node_open(&t->first, (struct options){});
	node_open(&t->second, (struct options){.context = t->first.fd, .shared_rx = &t->first.rx});
	t->to_first = peer(&t->from, t->first.addr);
	t->to_second = peer(&t->from, t->second.addr);
	t->buf = pages(PAGE);
}

static inline void *destroys(void *node)
{
	struct node *n = node;

	need(destroy(n->fd, n->ep) == 0);
	return NULL;
}

#endif
