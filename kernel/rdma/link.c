// SPDX-License-Identifier: GPL-2.0
/*
 * treadle_rdma: a connection from its request to its end
 *
 * What ends a link never calls rdma_disconnect(): if both nodes do, rdma_destroy_id() may wait for
 * 70 s. Destroying an established id also tells the peer. In any case it has a work of its own, so
 * that the session's manager does not wait for it.
 */
#include <linux/delay.h>
#include <linux/slab.h>
#include <rdma/ib_cm.h>

#include "rdma/verbs.h"

/* Milliseconds that rdma_cm tries to resolve the peer. The session gives up earlier. */
#define RESOLVE 2000
/* Milliseconds to wait for a port that is down, and between looks at it */
#define PORT_WAIT 60000
#define PORT_LOOK 100

/**
 * treadle_rdma_happened() - note an event of a link, for its work
 * @link:  the link
 * @event: what has happened
 *
 * Context: any, also interrupts.
 */
void treadle_rdma_happened(struct rdma_link *link, enum rdma_event event)
{
	smp_mb__before_atomic(); /* what the event is about; pairs with take() */
	set_bit(event, &link->events);
	queue_work(treadle_rdma_wq, &link->work);
}

static bool take(struct rdma_link *link, enum rdma_event event)
{
	return test_bit(event, &link->events) && test_and_clear_bit(event, &link->events);
}

/**
 * treadle_rdma_up() - tell the session that a link is up
 * @link: was not up before
 *
 * Context: the link's work; may sleep.
 */
void treadle_rdma_up(struct rdma_link *link)
{
	link->told_up = true;
	treadle_link_up(&link->link, &link->hail, link->hail_bytes);
}

/* Copy what the peer has said. Returns how much of it there is. */
static u32 heard(struct treadle_hail *hail, const void *data, u32 bytes)
{
	if (!data)
		return 0;
	bytes = min_t(u32, bytes, sizeof(*hail));
	memcpy(hail, data, bytes);
	return bytes;
}

/* A handler of rdma_cm, under the lock of the id. It never waits, and keeps the id. */
static int link_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rdma_link *link = id->context;
	enum rdma_event happened = RDMA_DOWN;
	const void *data;
	u8 bytes;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		happened = RDMA_ADDR;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		happened = RDMA_ROUTE;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (link->active)
			link->hail_bytes = heard(&link->hail, event->param.conn.private_data,
						 event->param.conn.private_data_len);
		happened = RDMA_UP;
		break;
	case RDMA_CM_EVENT_REJECTED:
		/* NULL if not the peer's node has refused, but its connection manager */
		data = rdma_consumer_reject_data(id, event, &bytes);
		if (data && !link->refusal_bytes) {
			bytes = heard(&link->refusal, data, bytes);
			/* Pairs with smp_load_acquire() in treadle_rdma_down(). */
			smp_store_release(&link->refusal_bytes, bytes);
		}
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* The device waits until the id is destroyed, after the link was left. */
		WRITE_ONCE(link->removed, true);
		break;
	default: /* a failure */
		break;
	}
	treadle_rdma_happened(link, happened);
	return 0;
}

/**
 * treadle_rdma_down() - tell the session that a link has failed
 * @link: the link
 *
 * Context: the link's work; may sleep.
 */
void treadle_rdma_down(struct rdma_link *link)
{
	/* Pairs with smp_store_release() in link_event(). */
	u32 bytes = smp_load_acquire(&link->refusal_bytes);

	if (link->told_down)
		return;
	link->told_down = true;
	treadle_link_down(&link->link, bytes ? &link->refusal : NULL, bytes);
}

static void set_ack_timeout(struct rdma_link *link)
{
	if (treadle_rdma_ack_timeout)
		rdma_set_ack_timeout(link->id, treadle_rdma_ack_timeout);
}

/* What both nodes ask for: nothing but sends, and no retries by a receiver that is not ready. */
static struct rdma_conn_param conn_param(const struct treadle_hail *hail)
{
	return (struct rdma_conn_param){
		.private_data = hail,
		.private_data_len = sizeof(*hail),
		.retry_count = 7,
		.rnr_retry_count = 0,
	};
}

static int ask(struct rdma_link *link)
{
	struct rdma_conn_param param = conn_param(&link->asked);

	return treadle_rdma_setup(link) ?: rdma_connect(link->id, &param);
}

/* The number of requests without an answer is limited, as each takes memory. */
static atomic_t offers;

static void answered(struct rdma_link *link)
{
	if (take(link, RDMA_OFFER))
		atomic_dec(&offers);
}

static bool port_is_down(struct rdma_link *link)
{
	struct ib_port_attr attr;

	return link->id->device && !READ_ONCE(link->removed) && !READ_ONCE(treadle_rdma_closing) &&
	       !ib_query_port(link->id->device, link->id->port_num, &attr) &&
	       attr.state != IB_PORT_ACTIVE;
}

/*
 * Destroying an id may send a message to the peer. If rdma_rxe has no route for that, its queue
 * pair for such messages goes to the error state: it receives none any more, until the device is
 * created again. So wait for the port, for a limited time.
 */
static void end_work(struct work_struct *work)
{
	struct rdma_link *link = container_of(work, struct rdma_link, end);
	int i;

	answered(link);
	for (i = 0; i < PORT_WAIT / PORT_LOOK && port_is_down(link); i++)
		msleep(PORT_LOOK);
	rdma_destroy_id(link->id);
	/* No handler is left to queue it again. */
	cancel_work_sync(&link->work);
	kfree(link);
}

static void end(struct rdma_link *link)
{
	queue_work(treadle_rdma_end_wq, &link->end);
}

static void refuse(struct rdma_link *link, const void *hail, u8 bytes)
{
	rdma_reject(link->id, hail, bytes, IB_CM_REJ_CONSUMER_DEFINED);
	end(link);
}

/* The session may answer at once, so the link is not used behind a successful offer. */
static void offer(struct rdma_link *link)
{
	struct treadle_addr from;

	treadle_rdma_addr(&from, &link->id->route.addr.dst_addr);
	from.port = 0;
	if (treadle_link_offer(treadle_rdma_node, &link->link, &from, &link->hail,
			       link->hail_bytes))
		refuse(link, NULL, 0);
}

static void link_work(struct work_struct *work)
{
	struct rdma_link *link = container_of(work, struct rdma_link, work);
	int stage = READ_ONCE(link->stage);

	if (stage != RDMA_LIVE) {
		if (stage == RDMA_LEAVING && link->cq)
			treadle_rdma_poll(link);
		return;
	}
	if (take(link, RDMA_REQUEST)) {
		offer(link);
		return;
	}
	/* Pairs with smp_store_release() in begun(). */
	if (!smp_load_acquire(&link->ready) || link->told_down)
		return;
	if (take(link, RDMA_ADDR)) {
		set_ack_timeout(link);
		if (rdma_resolve_route(link->id, RESOLVE))
			set_bit(RDMA_DOWN, &link->events);
	}
	if (take(link, RDMA_ROUTE) && ask(link))
		set_bit(RDMA_DOWN, &link->events);
	if (take(link, RDMA_UP) && !link->told_up)
		treadle_rdma_up(link);
	/* What the peer has said in its answer comes before its first frame. */
	if (link->told_up || !link->active)
		treadle_rdma_poll(link);
	if (test_bit(RDMA_DOWN, &link->events))
		treadle_rdma_down(link);
}

static struct rdma_link *new_link(void)
{
	struct rdma_link *link = kzalloc(sizeof(*link), GFP_KERNEL);

	if (!link)
		return NULL;
	link->link.transport = &treadle_rdma_transport;
	INIT_LIST_HEAD(&link->link.offers);
	INIT_WORK(&link->work, link_work);
	INIT_WORK(&link->end, end_work);
	return link;
}

/* From now on, events are reported to the session. */
static void begun(struct rdma_link *link)
{
	/* Pairs with smp_load_acquire() in link_work(). */
	smp_store_release(&link->ready, true);
	queue_work(treadle_rdma_wq, &link->work);
}

/**
 * treadle_rdma_request() - another node asks for a connection
 * @id:    the new connection
 * @event: what rdma_cm says
 *
 * Context: handler of the listener.
 * Return: 0; or -errno, after which rdma_cm refuses and destroys @id.
 */
int treadle_rdma_request(struct rdma_cm_id *id, const struct rdma_cm_event *event)
{
	struct rdma_link *link;

	if (atomic_inc_return(&offers) > RDMA_OFFERS) {
		atomic_dec(&offers);
		return -EBUSY;
	}
	link = new_link();
	if (!link) {
		atomic_dec(&offers);
		return -ENOMEM;
	}
	link->id = id;
	link->hail_bytes = heard(&link->hail, event->param.conn.private_data,
				 event->param.conn.private_data_len);
	id->context = link;
	id->event_handler = link_event;
	set_bit(RDMA_OFFER, &link->events);
	treadle_rdma_happened(link, RDMA_REQUEST);
	return 0;
}

static void peer_address(struct sockaddr_storage *at, const struct treadle_addr *to)
{
	memset(at, 0, sizeof(*at));
	if (to->family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)at;

		in->sin_family = AF_INET;
		in->sin_port = to->port;
		memcpy(&in->sin_addr, to->addr, sizeof(in->sin_addr));
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)at;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = to->port;
		in6->sin6_scope_id = to->scope;
		memcpy(&in6->sin6_addr, to->addr, sizeof(in6->sin6_addr));
	}
}

static struct treadle_link *link_connect(struct treadle_session *session,
					 const struct treadle_addr *to,
					 const struct treadle_hail *hail)
{
	const struct sockaddr_storage *source = treadle_rdma_source(to->family);
	struct sockaddr_storage from, at;
	struct rdma_link *link;
	struct rdma_cm_id *id;
	int ret;

	if (!source)
		return ERR_PTR(-EAFNOSUPPORT);
	link = new_link();
	if (!link)
		return ERR_PTR(-ENOMEM);
	link->link.session = session;
	link->active = true;
	treadle_rdma_addr(&link->link.from, source);
	link->asked = *hail;
	id = rdma_create_id(&init_net, link_event, link, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id)) {
		kfree(link);
		return ERR_CAST(id);
	}
	link->id = id;
	peer_address(&at, to);
	from = *source;
	/* any free port; it is at the same place in an address of IPv6 */
	((struct sockaddr_in *)&from)->sin_port = 0;
	ret = rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&at, RESOLVE);
	if (ret) {
		end(link);
		return ERR_PTR(ret);
	}
	begun(link);
	return &link->link;
}

static int link_accept(struct treadle_link *base, const struct treadle_hail *hail)
{
	struct rdma_link *link = to_rdma(base);
	struct rdma_conn_param param = conn_param(hail);
	int ret;

	answered(link);
	set_ack_timeout(link);
	/* -EINVAL: the peer has given up in the meantime */
	ret = treadle_rdma_setup(link);
	if (ret)
		return ret;
	rdma_lock_handler(link->id);
	ret = rdma_accept(link->id, &param);
	rdma_unlock_handler(link->id);
	if (ret)
		return ret;
	begun(link);
	return 0;
}

static void link_refuse(struct treadle_link *base, const struct treadle_hail *hail)
{
	refuse(to_rdma(base), hail, sizeof(*hail));
}

static void link_leave(struct treadle_link *base)
{
	struct rdma_link *link = to_rdma(base);

	/* Wait for events that are being reported. No other follows. */
	WRITE_ONCE(link->stage, RDMA_LEAVING);
	queue_work(treadle_rdma_wq, &link->work);
	flush_work(&link->work);
	treadle_rdma_drain(link);
}

static void link_free(struct treadle_link *base)
{
	struct rdma_link *link = to_rdma(base);

	treadle_rdma_teardown(link);
	end(link);
}

const struct treadle_transport treadle_rdma_transport = {
	.version = TREADLE_TRANSPORT_VERSION,
	.name = "rdma",
	.connect = link_connect,
	.accept = link_accept,
	.refuse = link_refuse,
	.leave = link_leave,
	.free = link_free,
	.map = treadle_rdma_map,
	.unmap = treadle_rdma_unmap,
	.post = treadle_rdma_post,
};
