// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what arrives from other nodes
 *
 * The other node is not trusted. What a node that keeps the rules never sends ends the session
 * (-EPROTO); the rest is checked as a descriptor of a process is, and is answered with an error.
 */
#include "core/ring.h"
#include "ep/endpoint.h"
#include "proxy/proxy.h"

#define WIRE_FLAGS                                                                   \
	(TREADLE_F_INJECT | TREADLE_F_REMOTE_CQ_DATA | TREADLE_F_DELIVERY_COMPLETE | \
	 TREADLE_F_FENCE | TREADLE_F_COLLECTIVE | TREADLE_F_FAILURE)

/* A command of @w, but for its ranges. Its bytes stay in the frame. */
static void set_command(struct treadle_cmd *cmd, const struct treadle_wire_cmd *w)
{
	u32 to = le32_to_cpu(w->to);

	treadle_desc_short(&cmd->d);
	cmd->d.opcode = w->opcode;
	cmd->d.iov_count = 0;
	cmd->d.reserved0 = 0;
	cmd->d.peer = cmd->d.ignore = 0;
	cmd->d.flags = le32_to_cpu(w->flags) | TREADLE_F_PROXY;
	cmd->d.context = le32_to_cpu(w->item.reference);
	cmd->d.len = le64_to_cpu(w->length);
	cmd->d.addr = le64_to_cpu(w->offset);
	cmd->d.data = le64_to_cpu(w->data);
	cmd->d.tag = le64_to_cpu(w->tag);
	cmd->dest = treadle_dest(treadle_source(TREADLE_HERE, to & 0xffff), to >> 16);
	cmd->route = 0;
	cmd->path = TREADLE_PATH_PROXY;
	cmd->slots = 1; /* the credit */
	cmd->tx = NULL;
	cmd->vec = NULL;
	cmd->own = NULL;
	cmd->cond = cmd->rest = NULL;
	cmd->notify = NULL;
	cmd->target = NULL;
	cmd->tracked = TREADLE_UNTRACKED;
	cmd->heap = cmd->admitted = false;
	cmd->marks = 0;
}

/* A failure message of a collective says why, and nothing else. */
static bool failure_fits(const struct treadle_desc *d)
{
	const u32 flags = TREADLE_F_COLLECTIVE | TREADLE_F_INJECT;

	return !(d->flags & TREADLE_F_FAILURE) ||
	       (d->opcode == TREADLE_OP_TSEND && (d->flags & flags) == flags && !d->len &&
		!(d->flags & TREADLE_F_REMOTE_CQ_DATA) && d->data && d->data <= MAX_ERRNO);
}

/*
 * May a message have so many bytes in its frame? None: they are fetched later; those of a datagram
 * only if they do not fit.
 */
static bool message_fits(const struct treadle_cmd *cmd, const struct treadle_wire_view *view,
			 bool lossy)
{
	return cmd->d.len <= TREADLE_MAX_MSG && !view->ranges && !cmd->d.addr &&
	       (view->bytes == cmd->d.len || (!view->bytes && !(cmd->d.flags & TREADLE_F_INJECT) &&
					      (!lossy || cmd->d.len > TREADLE_WIRE_PIECE))) &&
	       (!(cmd->d.flags & TREADLE_F_INJECT) || cmd->d.len <= TREADLE_EAGER) &&
	       failure_fits(&cmd->d);
}

/* The same for a READ or WRITE, or a piece of one. */
static bool rma_fits(const struct treadle_cmd *cmd, const struct treadle_wire_view *view)
{
	u64 off = cmd->d.addr, len = cmd->d.len;
	bool write = cmd->d.opcode == TREADLE_OP_WRITE;

	return view->ranges && len <= TREADLE_MAX_MSG && (off < len || !off) &&
	       off % TREADLE_WIRE_PIECE == 0 &&
	       view->bytes == (write ? treadle_piece(len, off) : 0);
}

/* The same for an atomic. */
static bool atomic_fits(const struct treadle_cmd *cmd, const struct treadle_wire_view *view, u8 op)
{
	u64 len = cmd->d.len;

	if (!view->ranges || cmd->d.addr || len > TREADLE_MAX_ATOMIC)
		return false;
	if (cmd->d.opcode == TREADLE_OP_COMPARE)
		return view->bytes == 2 * len;
	return view->bytes == (op == TREADLE_ATOMIC_READ ? 0 : len);
}

/* The ranges of remote memory; several go to @vec. */
static void set_ranges(struct treadle_cmd *cmd, const struct treadle_wire_view *view, u32 count,
		       union treadle_slot *vec)
{
	u32 i;

	if (count == 1) {
		cmd->d.remote_addr = le64_to_cpu(view->ranges->address);
		cmd->d.remote_key = le64_to_cpu(view->ranges->key);
		return;
	}
	for (i = 0; i < count; i++)
		vec->rma[i] = (struct treadle_rma_iov){
			le64_to_cpu(view->ranges[i].address),
			le64_to_cpu(view->ranges[i].length),
			le64_to_cpu(view->ranges[i].key),
		};
	cmd->d.rma_iov_count = count;
	cmd->d.flags |= TREADLE_F_EXT;
	cmd->vec = vec;
}

/* Set up @cmd. 0; -EPROTO; or an error for the answer. */
static int command_of(struct treadle_session *s, const struct treadle_wire_view *view,
		      struct treadle_cmd *cmd, union treadle_slot *vec, bool lossy)
{
	const struct treadle_wire_cmd *w = (const struct treadle_wire_cmd *)view->item;
	u8 op = w->opcode;
	bool fits;

	set_command(cmd, w);
	if (treadle_op_remote(op) && op >= TREADLE_OP_ATOMIC)
		fits = atomic_fits(cmd, view, w->atomic_op);
	else if (treadle_op_remote(op))
		fits = rma_fits(cmd, view);
	else
		fits = (op == TREADLE_OP_SEND || op == TREADLE_OP_TSEND) &&
		       message_fits(cmd, view, lossy);
	if (!fits || cmd->d.flags & ~(WIRE_FLAGS | TREADLE_F_PROXY) ||
	    cmd->d.flags & ~(treadle_opdefs[op].flags | TREADLE_F_FAILURE | TREADLE_F_PROXY) ||
	    (treadle_op_remote(op) && cmd->d.flags & TREADLE_F_FAILURE) ||
	    (w->ranges == 1 && le64_to_cpu(view->ranges->length) != cmd->d.len) ||
	    w->ranges > TREADLE_MAX_RMA_IOV || (treadle_op_remote(op) && cmd->d.tag))
		return -EPROTO;
	cmd->inject = (u8 *)view->payload;
	if (op == TREADLE_OP_READ || !view->bytes)
		cmd->inject = s->proxies->scratch;
	if (op <= TREADLE_OP_TSEND && cmd->d.len && !view->bytes) {
		cmd->inject = NULL;
		cmd->d.flags |= TREADLE_F_PULL | (lossy ? 0 : TREADLE_F_DELIVERY_COMPLETE);
	}
	if (treadle_op_remote(op))
		set_ranges(cmd, view, w->ranges, vec);
	if (treadle_opdefs[op].atomic) {
		cmd->d.flags |= TREADLE_F_EXT;
		cmd->d.atomic_op = w->atomic_op;
		cmd->d.datatype = w->atomic_type;
	}
	return 0;
}

/* The other node's command can't be executed: answer it. */
static void refuse(struct treadle_session *s, u32 reference, int error)
{
	struct treadle_answer a = { .reference = reference, .error = error };

	treadle_answer(s, &a);
}

static int arrive_cmd(struct treadle_session *s, const struct treadle_wire_view *view,
		      struct treadle_run *run)
{
	const struct treadle_wire_cmd *w = (const struct treadle_wire_cmd *)view->item;
	u32 reference = le32_to_cpu(w->item.reference);
	struct treadle_cmd cmd TREADLE_UNSET;
	union treadle_slot vec TREADLE_UNSET;
	struct treadle_proxy *proxy = treadle_proxy_find(s, le32_to_cpu(w->from));
	bool lossy = proxy && proxy->ep.type == TREADLE_EP_DGRAM;
	int ret = command_of(s, view, &cmd, &vec, lossy);
	bool answered;

	if (ret)
		return ret;
	answered = !lossy || (cmd.d.flags & TREADLE_F_PULL);
	if (proxy && answered != (reference != 0))
		return -EPROTO;
	if (!proxy) {
		refuse(s, reference, -ENOMEM);
		return 0;
	}
	cmd.ep = &proxy->ep;
	if (trace_treadle_remote_arrive_enabled())
		treadle_trace_arrived(s, &cmd);
	ret = treadle_opdefs[array_index_nospec(w->opcode, TREADLE_OP_LAST)].validate(&cmd);
	if (ret) {
		refuse(s, reference, ret);
		return 0;
	}
	treadle_cmd_issue(&cmd, run);
	if (cmd.slots) {
		spin_lock(&s->lock);
		treadle_window_offer(&s->window, 1);
		spin_unlock(&s->lock);
	}
	return 0;
}

/* Cancel a command of an endpoint; its answer says what has become of it. */
static void arrive_cancel(struct treadle_session *s, const struct treadle_wire_view *view,
			  struct treadle_run *run)
{
	const struct treadle_wire_cancel *w = (const struct treadle_wire_cancel *)view->item;
	struct treadle_proxy *proxy = treadle_proxy_find(s, le32_to_cpu(w->from));
	u64 context = le32_to_cpu(w->item.reference), n = 0;

	if (proxy && !treadle_flow_cancel(&proxy->ep, context, run))
		treadle_ep_withdraw(&proxy->ep, &context, -ECANCELED, 1, &n, run);
}

static int arrive_item(struct treadle_session *s, const struct treadle_wire_view *view,
		       struct treadle_run *run)
{
	switch (view->item->kind) {
	case TREADLE_WIRE_CMD:
		return arrive_cmd(s, view, run);
	case TREADLE_WIRE_DONE:
		treadle_remote_done(s, view, run);
		return 0;
	case TREADLE_WIRE_GRANT:
		return treadle_push_grant(s, view, run);
	case TREADLE_WIRE_DATA:
		treadle_pull_data(s, view, run);
		return 0;
	case TREADLE_WIRE_ANSWER_DATA:
		treadle_push_data(s, view, run);
		return 0;
	case TREADLE_WIRE_CANCEL:
		arrive_cancel(s, view, run);
		return 0;
	case TREADLE_WIRE_ABORT:
		treadle_pull_abort(s, view);
		return 0;
	case TREADLE_WIRE_INTRO:
		return treadle_proxy_intro(s, view, run);
	case TREADLE_WIRE_GONE:
		return treadle_proxy_gone(s, view);
	case TREADLE_WIRE_CONN_REQ:
		return treadle_far_request(s, view);
	case TREADLE_WIRE_CONN_REP:
		return treadle_far_accepted(s, view);
	case TREADLE_WIRE_CONN_REJ:
		return treadle_far_refused(s, view);
	case TREADLE_WIRE_CONN_OVER:
		return treadle_far_over(s, view);
	case TREADLE_WIRE_UNKNOWN:
		return treadle_remote_unknown(s, view);
	case TREADLE_WIRE_WATCH:
		return treadle_member_asked(s, view);
	case TREADLE_WIRE_LOST:
		return treadle_member_lost(s, view, run);
	default:
		return -EPROTO;
	}
}

static int session_begin(struct treadle_session *s)
{
	int ret = treadle_remote_begin(s);

	return ret ?: treadle_proxies_begin(s);
}

static void session_room(struct treadle_session *s, struct treadle_run *run)
{
	treadle_arrived_room(s);
	treadle_proxy_room(s);
	treadle_pull_room(s);
	treadle_member_room(s);
	treadle_far_room(s);
	treadle_remote_room(s);
}

static void session_end(struct treadle_session *s, int error)
{
	treadle_proxies_end(s);
	treadle_member_end(s, error);
	treadle_far_end(s, error);
	treadle_remote_end(s, error);
}

const struct treadle_node_ops treadle_node_ops = {
	.begin = session_begin,
	.item = arrive_item,
	.room = session_room,
	.end = session_end,
	.await = treadle_member_await,
	.connect = treadle_far_connect,
	.notice = treadle_far_notice,
	.free = treadle_remote_free,
};
