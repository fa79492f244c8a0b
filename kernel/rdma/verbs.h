/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle_rdma: sessions between nodes over verbs: frames are sent and received on reliable
 * connections, which the kernel's RDMA connection manager (rdma_cm) makes
 *
 * main.c	parameters, nodes and their listeners
 * link.c	a connection from its request to its end
 * frames.c	its queue pair
 *
 * Three contexts meet at a link. Handlers of rdma_cm and of completion queues only note what has
 * happened, and queue the link's work: rdma_cm has few threads for all its users, and a completion
 * handler may be called with interrupts off. The work of a link does the rest, so the events of a
 * link are serial and in order. The session's manager calls the functions of the transport, and
 * senders post frames under the session's lock.
 */
#ifndef TREADLE_RDMA_VERBS_H
#define TREADLE_RDMA_VERBS_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/mutex.h>
#include <linux/socket.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "node/transport.h"

#undef pr_fmt
#define pr_fmt(fmt) "treadle_rdma: " fmt

/* Buffers for frames of the peer; frames that may not have been sent */
#define RDMA_RECEIVES (TREADLE_ROOM + TREADLE_SPARE)
#define RDMA_SENDS    128u
/* Requests of other nodes that wait for an answer */
#define RDMA_OFFERS 16

/*
 * struct rdma_listener - an address at which other nodes reach this one
 * @list:	in main.c
 * @at:		address and port
 * @lock:	protects @id, until @closing
 * @id:		of rdma_cm; NULL before it listens, and after the device was removed, until @again
 * @lost:	the device of @id was removed; set by the handler
 * @closing:	the module is being unloaded: @id stays as it is
 * @again:	listens again
 */
struct rdma_listener {
	struct list_head list;
	struct sockaddr_storage at;
	struct mutex lock;
	struct rdma_cm_id *id;
	bool lost, closing;
	struct delayed_work again;
};

/* A buffer for a frame of the peer; @map: its DMA address */
struct rdma_buffer {
	void *at;
	u64 map;
};

/* What has happened to a link, for its work: bits of ->events */
enum rdma_event {
	RDMA_REQUEST, /* the peer asks for it */
	RDMA_ADDR,    /* the peer's address is resolved */
	RDMA_ROUTE,   /* and the route */
	RDMA_UP,      /* the connection is established */
	RDMA_DOWN,    /* it has failed, or was refused */
	RDMA_OFFER,   /* no event: it counts as one of RDMA_OFFERS */
};

/* How far the end of a link has come, which only ->leave moves on */
enum rdma_stage {
	RDMA_LIVE,
	RDMA_LEAVING, /* no event is reported any more; completions are drained */
	RDMA_DRAINED, /* the completion queue is not looked at any more */
};

/*
 * struct rdma_link - a connection, or an attempt
 *
 * Constant once @ready is set, but for what is noted:
 * @link:	what the session sees
 * @id:		of rdma_cm. It is destroyed last, as that may take long
 * @active:	this node has asked for it
 * @ready:	the function of the transport that began it has succeeded
 * @removed:	its device is being removed
 * @stage:	enum rdma_stage
 * @events:	enum rdma_event; set by handlers, cleared by @work
 * @work:	see above; @end: destroys @id and frees the link
 * @asked:	for the peer, until the connection is asked for
 * @hail:	of the peer, in its request or its answer; @hail_bytes of it
 * @refusal:	of the peer, when it has refused; set once, then @refusal_bytes
 * @told_up, @told_down: to the session; of @work
 * @drained:	send and receive marker have completed
 *
 * Sends, under the session's lock, but for @sent: of @work
 * @posted:	frames posted; @sent: frames known as sent
 * @quiet:	frames posted since the last signaled one
 * @due:	the completion of a numbered frame will be reported
 * @sends:	frames from @sent to @posted
 */
struct rdma_link {
	struct treadle_link link;
	struct rdma_cm_id *id;
	bool active, ready, removed;
	int stage;
	unsigned long events;
	struct work_struct work, end;
	struct treadle_hail asked, hail, refusal;
	u32 hail_bytes, refusal_bytes;
	bool told_up, told_down;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct completion drained[2];
	u32 posted, sent, quiet;
	bool due;
	struct treadle_frame *sends[RDMA_SENDS];
	struct rdma_buffer buffers[RDMA_RECEIVES];
};

static inline struct rdma_link *to_rdma(struct treadle_link *link)
{
	return container_of(link, struct rdma_link, link);
}

/* main.c */
extern struct treadle_node *treadle_rdma_node;
extern bool treadle_rdma_closing;
extern unsigned int treadle_rdma_ack_timeout;
extern struct workqueue_struct *treadle_rdma_wq, *treadle_rdma_end_wq;
void treadle_rdma_addr(struct treadle_addr *to, const struct sockaddr_storage *from);
const struct sockaddr_storage *treadle_rdma_source(u16 family);

/* link.c */
extern const struct treadle_transport treadle_rdma_transport;
int treadle_rdma_request(struct rdma_cm_id *id, const struct rdma_cm_event *event);
void treadle_rdma_happened(struct rdma_link *link, enum rdma_event event);
void treadle_rdma_up(struct rdma_link *link);
void treadle_rdma_down(struct rdma_link *link);

/* frames.c */
int treadle_rdma_setup(struct rdma_link *link);
void treadle_rdma_drain(struct rdma_link *link);
void treadle_rdma_teardown(struct rdma_link *link);
void treadle_rdma_poll(struct rdma_link *link);
int treadle_rdma_map(struct treadle_link *link, struct treadle_frame *frame);
void treadle_rdma_unmap(struct treadle_link *link, struct treadle_frame *frame);
void treadle_rdma_post(struct treadle_link *link, struct treadle_frame *frame);

#endif
