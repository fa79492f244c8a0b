// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the generic netlink family: what there is, and what was counted
 *
 * Documentation/treadle.yaml has the attributes. A dump walks the contexts of the caller's network
 * namespace, and their objects, by number: it holds one context and one object at a time, and no
 * lock, and keeps only numbers between two messages. What the caller may not see is left out.
 */
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/user_namespace.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include <treadle/netlink.h>
#include <treadle/version.h>

#include "dev/counters.h"
#include "dev/dev.h"
#include "node/node.h"
#include "path/lane.h"
#include "path/window.h"

/* Has the opener of the socket, and the caller, the user of @ctx? */
static bool is_owner(const struct sk_buff *skb, const struct treadle_ctx *ctx)
{
	const struct socket *socket = NETLINK_CB(skb).sk->sk_socket;
	const struct cred *creds[] = { socket && socket->file ? socket->file->f_cred : NULL,
				       current_cred() };
	int i;

	for (i = 0; i < ARRAY_SIZE(creds); i++) {
		const struct cred *cred = creds[i];
		struct treadle_owner owner;

		if (!cred)
			return false;
		owner = (struct treadle_owner){ .ns = cred->user_ns, .uid = cred->euid };
		if (!treadle_same_owner(&owner, &ctx->owner))
			return false;
	}
	return true;
}

static bool is_admin(const struct sk_buff *skb, struct net *net)
{
	return netlink_ns_capable(skb, net->user_ns, CAP_NET_ADMIN);
}

/* May the sender of the request @reader, a struct sk_buff, see @ctx, which is in its namespace? */
static bool may_see(const void *reader, struct treadle_ctx *ctx)
{
	return is_owner(reader, ctx) || is_admin(reader, ctx->net) ||
	       netlink_ns_capable(reader, ctx->owner.ns, CAP_SYS_PTRACE);
}

/* The identity of @ctx for the reader: its process and its user. 0 or -EMSGSIZE. */
static int put_process(struct sk_buff *skb, const struct treadle_ctx *ctx, int pid, int uid)
{
	return nla_put_u32(skb, pid, pid_nr_ns(ctx->opener, task_active_pid_ns(current))) ?:
		       nla_put_u32(skb, uid, from_kuid_munged(current_user_ns(), ctx->owner.uid));
}

static int put_addr(struct sk_buff *skb, const struct treadle_addr *addr, int ipv4, int ipv6,
		    int scope)
{
	if (addr->family == AF_INET)
		return nla_put(skb, ipv4, 4, addr->addr);
	return nla_put(skb, ipv6, sizeof(addr->addr), addr->addr) ?:
		       (addr->scope ? nla_put_u32(skb, scope, addr->scope) : 0);
}

/* --- contexts ------------------------------------------------------------------------------- */

static struct genl_family family;

static void *begin(struct sk_buff *skb, struct netlink_callback *cb, u8 cmd)
{
	return genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, &family,
			   NLM_F_MULTI, cmd);
}

/* End a message that begins at @at, or take it back. Returns @error. */
static int end(struct sk_buff *skb, void *at, int error)
{
	if (error)
		genlmsg_cancel(skb, at);
	else
		genlmsg_end(skb, at);
	return error;
}

/*
 * The way of a dump; lies in cb->ctx.
 * @number: of the context that is next
 * @id:	the object of it that is next
 * @only:	the context that was asked for, or 0
 */
struct walk {
	u32 number, id, only;
};

typedef int put_fn(struct sk_buff *skb, struct netlink_callback *cb, struct treadle_ctx *ctx);

/*
 * Call @put for each context that the caller may see, until the message is full. Returns as a
 * ->dumpit does.
 */
static int each_context(struct sk_buff *skb, struct netlink_callback *cb, put_fn *put)
{
	struct walk *walk = (struct walk *)cb->ctx;
	struct net *net = sock_net(skb->sk);
	struct treadle_ctx *ctx;
	int ret = 0;

	while (!ret && (ctx = treadle_census_next(net, walk->number))) {
		if (walk->number != ctx->number)
			walk->id = 0;
		walk->number = ctx->number;
		if (walk->only && walk->only != ctx->number)
			ret = walk->only < ctx->number ? -ENOENT : 0; /* it is behind */
		else if (!READ_ONCE(ctx->dead) && may_see(cb->skb, ctx))
			ret = put(skb, cb, ctx);
		if (!ret) {
			walk->number++;
			walk->id = 0;
		}
		treadle_ctx_put(ctx);
		if (!ret && fatal_signal_pending(current))
			ret = -EINTR;
		cond_resched();
	}
	if (ret == -ENOENT)
		ret = 0;
	return skb->len ? skb->len : ret;
}

static int put_context(struct sk_buff *skb, struct netlink_callback *cb, struct treadle_ctx *ctx)
{
	void *at = begin(skb, cb, TREADLE_CMD_CONTEXT_GET);
	struct treadle_counted counted;
	int ret;

	if (!at)
		return -EMSGSIZE;
	treadle_count_context(ctx, &counted);
	ret = nla_put_u32(skb, TREADLE_A_CONTEXT_ID, ctx->number) ?:
		      put_process(skb, ctx, TREADLE_A_CONTEXT_PID, TREADLE_A_CONTEXT_UID);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_CONTEXT_OBJECTS, atomic_read(&ctx->nr_objs));
	ret = ret ?: nla_put_u32(skb, TREADLE_A_CONTEXT_ENDPOINTS, counted.endpoints);
	ret = ret ?: treadle_put_counters(skb, TREADLE_A_CONTEXT_COUNTERS, &counted);
	return end(skb, at, ret);
}

static int dump_contexts(struct sk_buff *skb, struct netlink_callback *cb)
{
	return each_context(skb, cb, put_context);
}

/* --- objects -------------------------------------------------------------------------------- */

/* Put objects of one type, each in a message: @put. 0, or an error: the dump goes on later. */
static int each_object(struct sk_buff *skb, struct netlink_callback *cb, struct treadle_ctx *ctx,
		       enum treadle_type type, u8 cmd,
		       int (*put)(struct sk_buff *skb, struct treadle_obj *obj))
{
	struct walk *walk = (struct walk *)cb->ctx;
	unsigned long id = walk->id;
	struct treadle_obj *obj;
	int ret = 0;

	xa_for_each_start(&ctx->objs, id, obj, walk->id) {
		void *at;

		obj = treadle_obj_get(ctx, id, type);
		if (IS_ERR(obj))
			continue;
		walk->id = id;
		at = begin(skb, cb, cmd);
		ret = at ? end(skb, at, put(skb, obj)) : -EMSGSIZE;
		treadle_obj_put(obj);
		if (!ret && fatal_signal_pending(current))
			ret = -EINTR;
		if (ret)
			break;
		walk->id = id + 1;
		cond_resched();
	}
	return ret;
}

/* Slots that are written and not taken: both words may change, and one is the process's. */
static u32 queued(const struct treadle_ring *ring)
{
	return min(READ_ONCE(ring->user->prod) - data_race(READ_ONCE(ring->head)), ring->entries);
}

static int put_tx(struct sk_buff *skb, const struct treadle_tx *tx)
{
	int ret = nla_put_u32(skb, TREADLE_A_ENDPOINT_TX, tx->obj.id)			  ?:
			  nla_put_u32(skb, TREADLE_A_ENDPOINT_TX_DEPTH, tx->ring.entries) ?:
			  nla_put_u32(skb, TREADLE_A_ENDPOINT_TX_QUEUED, queued(&tx->ring));

	if (ret || !tx->polled.idle)
		return ret;
	return nla_put_u32(skb, TREADLE_A_ENDPOINT_TX_IDLE, tx->polled.idle / NSEC_PER_USEC) ?:
		       nla_put_u32(skb, TREADLE_A_ENDPOINT_TX_ASLEEP, READ_ONCE(tx->polled.asleep));
}

static int put_rx(struct sk_buff *skb, struct treadle_rx *rx)
{
	u32 posted = 0, waiting = 0, buffered;
	int i;

	spin_lock(&rx->lock);
	for (i = 0; i < TREADLE_MATCHES; i++) {
		posted += treadle_match_receives(&rx->match[i]);
		waiting += rx->match[i].messages;
	}
	buffered = rx->buffered;
	spin_unlock(&rx->lock);
	return nla_put_u32(skb, TREADLE_A_ENDPOINT_RX, rx->obj.id)			 ?:
		       nla_put_u32(skb, TREADLE_A_ENDPOINT_RX_DEPTH, rx->ring.entries)	 ?:
		       nla_put_u32(skb, TREADLE_A_ENDPOINT_RX_QUEUED, queued(&rx->ring)) ?:
		       nla_put_u32(skb, TREADLE_A_ENDPOINT_RX_POSTED, posted)		 ?:
		       nla_put_u32(skb, TREADLE_A_ENDPOINT_RX_WAITING, waiting)		 ?:
		       nla_put_u32(skb, TREADLE_A_ENDPOINT_BUFFERED, buffered)		 ?:
		       nla_put_u32(skb, TREADLE_A_ENDPOINT_BUFFERED_MAX, rx->buffered_max);
}

static int put_endpoint(struct sk_buff *skb, struct treadle_obj *obj)
{
	struct treadle_ep *ep = container_of(obj, struct treadle_ep, obj);
	struct treadle_own_ep *own = treadle_own_ep(ep);
	struct treadle_counted counted;
	int ret;

	ret = nla_put_u32(skb, TREADLE_A_ENDPOINT_CONTEXT, obj->ctx->number)			 ?:
		      nla_put_u32(skb, TREADLE_A_ENDPOINT_ID, obj->id)				 ?:
		      put_process(skb, obj->ctx, TREADLE_A_ENDPOINT_PID, TREADLE_A_ENDPOINT_UID) ?:
		      nla_put_u32(skb, TREADLE_A_ENDPOINT_TYPE, ep->type)			 ?:
		      nla_put_u32(skb, TREADLE_A_ENDPOINT_ROLE, ep->role)			 ?:
		      nla_put_u32(skb, TREADLE_A_ENDPOINT_INDEX, ep->index)			 ?:
		      nla_put_u16(skb, TREADLE_A_ENDPOINT_PORT, ntohs(ep->addr.port))		 ?:
		      put_addr(skb, &ep->addr, TREADLE_A_ENDPOINT_IPV4, TREADLE_A_ENDPOINT_IPV6,
			       TREADLE_A_ENDPOINT_SCOPE);
	if (!ret && own->parent)
		ret = nla_put_u32(skb, TREADLE_A_ENDPOINT_PARENT, own->parent->obj.id);
	if (!ret && smp_load_acquire(&ep->enabled)) { /* pairs with ep_enable() */
		ret = nla_put_flag(skb, TREADLE_A_ENDPOINT_ENABLED);
		if (!ret && ep->tx)
			ret = put_tx(skb, ep->tx);
		if (!ret && ep->rx)
			ret = put_rx(skb, ep->rx);
	}
	if (ret)
		return ret;
	treadle_count_endpoint(ep, &counted);
	return treadle_put_counters(skb, TREADLE_A_ENDPOINT_COUNTERS, &counted);
}

static int put_endpoints(struct sk_buff *skb, struct netlink_callback *cb, struct treadle_ctx *ctx)
{
	return each_object(skb, cb, ctx, TREADLE_EP, TREADLE_CMD_ENDPOINT_GET, put_endpoint);
}

static int dump_endpoints(struct sk_buff *skb, struct netlink_callback *cb)
{
	return each_context(skb, cb, put_endpoints);
}

static int put_region(struct sk_buff *skb, struct treadle_obj *obj)
{
	struct treadle_counted counted;
	struct treadle_mr_info mr;
	int ret;

	treadle_mr_describe(obj, &mr);
	ret = nla_put_u32(skb, TREADLE_A_REGION_CONTEXT, obj->ctx->number) ?:
		      nla_put_u32(skb, TREADLE_A_REGION_ID, obj->id);
	ret = ret ?: put_process(skb, obj->ctx, TREADLE_A_REGION_PID, TREADLE_A_REGION_UID);
	ret = ret   ?:
		      nla_put_u64_64bit(skb, TREADLE_A_REGION_LENGTH, mr.length,
					TREADLE_A_REGION_PAD);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_REGION_RANGES, mr.count);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_REGION_ACCESS, mr.access);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_REGION_FLAGS, mr.flags);
	ret = ret   ?:
		      nla_put_u64_64bit(skb, TREADLE_A_REGION_PINNED, mr.pinned,
					TREADLE_A_REGION_PAD);
	if (!ret && mr.revoked)
		ret = nla_put_flag(skb, TREADLE_A_REGION_REVOKED);
	if (!ret && mr.ep)
		ret = nla_put_u32(skb, TREADLE_A_REGION_ENDPOINT, mr.ep);
	treadle_count_region(obj, &counted);
	return ret ?: treadle_put_counters(skb, TREADLE_A_REGION_COUNTERS, &counted);
}

static int put_regions(struct sk_buff *skb, struct netlink_callback *cb, struct treadle_ctx *ctx)
{
	return each_object(skb, cb, ctx, TREADLE_MR, TREADLE_CMD_REGION_GET, put_region);
}

static int dump_regions(struct sk_buff *skb, struct netlink_callback *cb)
{
	return each_context(skb, cb, put_regions);
}

static int put_window(struct sk_buff *skb, struct treadle_obj *obj)
{
	struct treadle_window_info w;
	int ret;

	treadle_window_describe(obj, &w);
	ret = nla_put_u32(skb, TREADLE_A_WINDOW_CONTEXT, obj->ctx->number) ?:
		      nla_put_u32(skb, TREADLE_A_WINDOW_ID, obj->id);
	ret = ret ?: put_process(skb, obj->ctx, TREADLE_A_WINDOW_PID, TREADLE_A_WINDOW_UID);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_WINDOW_ENDPOINT, w.ep);
	ret = ret ?: nla_put_u64_64bit(skb, TREADLE_A_WINDOW_ADDR, w.addr, TREADLE_A_WINDOW_PAD);
	ret = ret ?: nla_put_u64_64bit(skb, TREADLE_A_WINDOW_LENGTH, w.len, TREADLE_A_WINDOW_PAD);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_WINDOW_ACCESS, w.access);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_WINDOW_PAGES, w.pages);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_WINDOW_PRESENT, w.present);
	ret = ret ?: nla_put_u64_64bit(skb, TREADLE_A_WINDOW_TAKEN, w.taken, TREADLE_A_WINDOW_PAD);
	if (!ret && w.closed)
		ret = nla_put_flag(skb, TREADLE_A_WINDOW_CLOSED);
	return ret;
}

static int put_windows(struct sk_buff *skb, struct netlink_callback *cb, struct treadle_ctx *ctx)
{
	return each_object(skb, cb, ctx, TREADLE_WINDOW, TREADLE_CMD_WINDOW_GET, put_window);
}

static int dump_windows(struct sk_buff *skb, struct netlink_callback *cb)
{
	return each_context(skb, cb, put_windows);
}

static int put_lane(struct sk_buff *skb, struct treadle_obj *obj)
{
	struct treadle_lane_info lane;
	int ret;

	treadle_lane_describe(obj, &lane);
	ret = nla_put_u32(skb, TREADLE_A_LANE_CONTEXT, obj->ctx->number) ?:
		      nla_put_u32(skb, TREADLE_A_LANE_ID, obj->id);
	ret = ret ?: put_process(skb, obj->ctx, TREADLE_A_LANE_PID, TREADLE_A_LANE_UID);
	ret = ret   ?:
		      nla_put_u32(skb, TREADLE_A_LANE_DIRECTION,
				  lane.in ? TREADLE_DIRECTION_IN : TREADLE_DIRECTION_OUT);
	ret = ret   ?:
		      nla_put_u32(skb, lane.in ? TREADLE_A_LANE_RX : TREADLE_A_LANE_ENDPOINT,
				  lane.id);
	ret = ret ?: nla_put_u16(skb, TREADLE_A_LANE_PORT, treadle_source_port(lane.source));
	ret = ret ?: nla_put_u32(skb, TREADLE_A_LANE_WAITING, lane.waiting);
	if (!ret && lane.open)
		ret = nla_put_flag(skb, TREADLE_A_LANE_OPEN);
	if (!ret && lane.closed)
		ret = nla_put_flag(skb, TREADLE_A_LANE_CLOSED);
	return ret;
}

static int put_lanes(struct sk_buff *skb, struct netlink_callback *cb, struct treadle_ctx *ctx)
{
	return each_object(skb, cb, ctx, TREADLE_LANE, TREADLE_CMD_LANE_GET, put_lane);
}

static int dump_lanes(struct sk_buff *skb, struct netlink_callback *cb)
{
	return each_context(skb, cb, put_lanes);
}

/* The only attribute of requests: objects of one context. */
#define ONLY (int)TREADLE_A_ENDPOINT_CONTEXT
static_assert(ONLY == (int)TREADLE_A_REGION_CONTEXT && ONLY == (int)TREADLE_A_WINDOW_CONTEXT &&
	      ONLY == (int)TREADLE_A_LANE_CONTEXT);

static const struct nla_policy only_policy[ONLY + 1] = {
	[ONLY] = NLA_POLICY_MIN(NLA_U32, 1),
};

static int start_objects(struct netlink_callback *cb)
{
	struct walk *walk = (struct walk *)cb->ctx;
	struct nlattr *attrs[ONLY + 1];
	int ret = nlmsg_parse(cb->nlh, GENL_HDRLEN, attrs, ONLY, only_policy, cb->extack);

	BUILD_BUG_ON(sizeof(*walk) > sizeof(cb->ctx));
	if (!ret && attrs[ONLY])
		walk->number = walk->only = nla_get_u32(attrs[ONLY]);
	return ret;
}

/* --- other nodes ---------------------------------------------------------------------------- */

/* What only the administrator of the network may know: counts say when other users send. */
static int put_node_counts(struct sk_buff *skb, const struct treadle_node_info *n)
{
#define WORD(name, field)                                                        \
	{                                                                        \
		TREADLE_A_PEER_##name, offsetof(struct treadle_node_info, field) \
	}
	static const struct {
		u8 attr, offset;
	} words[] = {
		WORD(ROUND_TRIP_NS, round_trip_ns), WORD(SENT, sent),	WORD(RESENT, resent),
		WORD(RECEIVED, received),	    WORD(LINKS, links), WORD(SESSIONS, sessions)
	};
	int i, ret;

	ret = nla_put_u32(skb, TREADLE_A_PEER_EXECUTING, n->executing) ?:
		      nla_put_u32(skb, TREADLE_A_PEER_UNACKNOWLEDGED, n->unacknowledged);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_PEER_CREDITS, n->credits);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_PEER_UNDER_WAY, n->under_way);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_PEER_QUEUED, n->queued);
	if (!ret && n->silent_ms != U64_MAX)
		ret = nla_put_u64_64bit(skb, TREADLE_A_PEER_SILENT_MS, n->silent_ms,
					TREADLE_A_PEER_PAD);
	for (i = 0; i < ARRAY_SIZE(words) && !ret; i++)
		ret = nla_put_u64_64bit(skb, words[i].attr,
					*(const u64 *)((const char *)n + words[i].offset),
					TREADLE_A_PEER_PAD);
	return ret;
}

static int put_node(struct sk_buff *skb, const struct treadle_node_info *n)
{
	int ret;

	ret = nla_put_u32(skb, TREADLE_A_PEER_NUMBER, n->number) ?:
		      put_addr(skb, &n->addr, TREADLE_A_PEER_IPV4, TREADLE_A_PEER_IPV6,
			       TREADLE_A_PEER_SCOPE);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_PEER_STATE, n->state);
	if (!ret && n->error)
		ret = nla_put_u32(skb, TREADLE_A_PEER_ERROR, n->error);
	ret = ret   ?:
		      nla_put_u64_64bit(skb, TREADLE_A_PEER_STATE_MS, n->state_ms,
					TREADLE_A_PEER_PAD);
	if (!ret && n->counted)
		ret = put_node_counts(skb, n);
	return ret;
}

static int dump_nodes(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct walk *walk = (struct walk *)cb->ctx;
	struct net *net = sock_net(skb->sk);
	struct treadle_node_info n = { .number = walk->number };
	bool counts = is_admin(cb->skb, net);
	int ret = 0;

	while (!ret && !treadle_node_next(net, &n, counts)) {
		void *at = begin(skb, cb, TREADLE_CMD_PEER_GET);

		ret = at ? end(skb, at, put_node(skb, &n)) : -EMSGSIZE;
		if (!ret)
			walk->number = n.number;
		if (!ret && fatal_signal_pending(current))
			ret = -EINTR;
		cond_resched();
	}
	return skb->len ? skb->len : ret;
}

/* --- the family ----------------------------------------------------------------------------- */

static int put_module(struct sk_buff *skb, const struct sk_buff *reader, struct net *net)
{
	struct treadle_counted counted;
	struct treadle_addr node;
	u32 contexts;
	int ret;

	contexts = treadle_count_net(net, is_admin(reader, net), may_see, reader, &counted);
	ret = nla_put_string(skb, TREADLE_A_MODULE_VERSION, TREADLE_VERSION)		  ?:
		      nla_put_u32(skb, TREADLE_A_MODULE_ABI_VERSION, TREADLE_ABI_VERSION) ?:
		      nla_put_u64_64bit(skb, TREADLE_A_MODULE_FEATURES,
					treadle_features(net, &node), TREADLE_A_MODULE_PAD);
	ret = ret ?: nla_put_u32(skb, TREADLE_A_MODULE_CONTEXTS, contexts);
	return ret ?: treadle_put_counters(skb, TREADLE_A_MODULE_COUNTERS, &counted);
}

static int get_module(struct sk_buff *skb, struct genl_info *info)
{
	struct sk_buff *reply = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	void *at;
	int ret;

	if (!reply)
		return -ENOMEM;
	at = genlmsg_put_reply(reply, info, &family, 0, TREADLE_CMD_MODULE_GET);
	ret = at ? end(reply, at, put_module(reply, skb, genl_info_net(info))) : -EMSGSIZE;
	if (!ret)
		return genlmsg_reply(reply, info);
	nlmsg_free(reply);
	return ret;
}

#define OBJECTS(name, dump)                                                              \
	{                                                                                \
		.cmd = TREADLE_CMD_##name##_GET, .start = start_objects, .dumpit = dump, \
		.policy = only_policy, .maxattr = ONLY                                   \
	}
static const struct genl_ops ops[] = {
	{ .cmd = TREADLE_CMD_MODULE_GET, .doit = get_module },
	{ .cmd = TREADLE_CMD_CONTEXT_GET, .dumpit = dump_contexts },
	OBJECTS(ENDPOINT, dump_endpoints),
	OBJECTS(REGION, dump_regions),
	OBJECTS(WINDOW, dump_windows),
	OBJECTS(LANE, dump_lanes),
	{ .cmd = TREADLE_CMD_PEER_GET, .dumpit = dump_nodes },
};

static struct genl_family family __ro_after_init = {
	.name = TREADLE_FAMILY_NAME,
	.version = TREADLE_FAMILY_VERSION,
	.netnsok = true,
	.parallel_ops = true, /* no dump waits for another one, or for another family */
	.module = THIS_MODULE,
	.ops = ops,
	.n_ops = ARRAY_SIZE(ops),
	.resv_start_op = TREADLE_CMD_MODULE_GET,
};

/**
 * treadle_netlink_init() - at module load: register the family
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int treadle_netlink_init(void)
{
	return genl_register_family(&family);
}

/**
 * treadle_netlink_exit() - at module exit
 *
 * Context: may sleep.
 */
void treadle_netlink_exit(void)
{
	genl_unregister_family(&family);
}
