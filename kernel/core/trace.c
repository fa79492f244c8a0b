// SPDX-License-Identifier: GPL-2.0
/* treadle: tracepoints, and how they name messages and endpoints */
#include <linux/atomic.h>

#include "core/endpoint.h"
#include "core/source.h"

#define CREATE_TRACE_POINTS
#include "core/trace.h"

/**
 * treadle_trace_id() - a number for a message that is traced
 *
 * Context: any.
 * Return: a number that no message has had since the module was loaded, unless it has wrapped;
 * never 0.
 */
u32 treadle_trace_id(void)
{
	static atomic_t last;
	u32 id;

	do {
		id = atomic_inc_return(&last);
	} while (!id);
	return id;
}

/**
 * treadle_trace_from() - name the initiator of a message
 * @m:  its @ctx, @ep, @host and @port are set
 * @ep: the initiator, which may be on another node; or NULL
 *
 * Context: any.
 */
void treadle_trace_from(struct treadle_trace_msg *m, const struct treadle_ep *ep)
{
	m->ctx = ep && !ep->far ? READ_ONCE(ep->obj.ctx->number) : 0;
	m->ep = ep && !ep->far ? ep->obj.id : 0;
	m->host = ep ? treadle_source_host(ep->id.source) : 0;
	m->port = ep ? treadle_source_port(ep->id.source) : 0;
}

/**
 * treadle_trace_to() - name the target of a message
 * @m:  its @peer_ctx and @peer_ep are set
 * @ep: the target, which may be on another node; or NULL
 *
 * Context: any.
 */
void treadle_trace_to(struct treadle_trace_msg *m, const struct treadle_ep *ep)
{
	m->peer_ctx = ep && !ep->far ? READ_ONCE(ep->obj.ctx->number) : 0;
	m->peer_ep = ep && !ep->far ? ep->obj.id : 0;
}

#ifdef CONFIG_TRACEPOINTS
DEFINE_STATIC_KEY_FALSE(treadle_traced_copies);

/**
 * treadle_trace_copies_on() - treadle_copy_begin or treadle_copy_end has its first user
 *
 * Context: may sleep.
 * Return: 0.
 */
int treadle_trace_copies_on(void)
{
	static_branch_inc(&treadle_traced_copies);
	return 0;
}

/**
 * treadle_trace_copies_off() - it has lost its last user
 *
 * Context: may sleep.
 */
void treadle_trace_copies_off(void)
{
	static_branch_dec(&treadle_traced_copies);
}
#endif
