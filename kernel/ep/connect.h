/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: connections and event queues (connect.c, cm.c, event.c)
 *
 * fi_cm(3). A connection (struct treadle_conn) is made by CONNECT and has two
 * ends: the endpoint that asked, and the one that was made to accept.
 *
 *	        CONNECT               ACCEPT              either end closes, SHUTDOWN
 *	(none) ---------> CONN_ASKED --------> CONN_UP ------------------> CONN_OVER
 *	                      |   REJECT, the passive endpoint closes, ...     ^
 *	                      +------------------------------------------------+
 *
 * treadle_conn_lock guards all of it: the state and the ends of every connection, the
 * requests that wait at passive endpoints, the event queues. One lock serves all contexts:
 * it is held for a few pointers at a time, and a connection joins endpoints, event queues
 * and contexts of two processes in any order. It is taken with no spinlock held; ep->lock
 * is taken under it. Long work (taking back messages, canceling receives) is done without
 * it: by the caller for its own end, and by the peer's worker for the peer's. Readers of
 * an event are woken after it, by treadle_conn_unlock().
 *
 * A connection points at its ends and at the passive endpoint without holding
 * them. An endpoint clears those pointers under treadle_conn_lock when it is shut down,
 * which comes before its last reference goes. So what is found there under the
 * lock may be held. Endpoints, the passive endpoint's list, queued events and
 * jobs each hold the connection.
 *
 * A sender finds its peer by ep->peer, under RCU: objects are freed after a grace period.
 * A hang-up sets `severed` on both ends, under the ep->lock of each. A sender that has found
 * its peer before checks `severed` under its ep->lock, before its message waits at the peer
 * (path/local.c, local_park()). So the hang-up finds the message and takes it back, or the
 * message does not wait.
 *
 * Events never need memory: each kind happens once to an end, so they are part of
 * the connection. They are queued only while their endpoint lives, and leave the
 * queue with it: no event of a closed endpoint is read.
 */
#ifndef TREADLE_CONNECT_H
#define TREADLE_CONNECT_H

#include "path/path.h"

extern spinlock_t treadle_conn_lock;

/*
 * struct treadle_eq - event queue
 * @events, @dead: under treadle_conn_lock
 * @news: listed while it has events that its waiters were not woken for (treadle_conn_lock)
 * @read_lock: taken by a reader while it copies an event
 */
struct treadle_eq {
	struct treadle_obj obj;
	struct list_head events;
	struct list_head news;
	bool dead;
	struct mutex read_lock;
	struct treadle_waitq waitq;
};

enum conn_state { CONN_NEW, CONN_ASKED, CONN_UP, CONN_OVER };

/* An event. @link: in eq->events of its endpoint's queue; that holds @conn (treadle_conn_lock) */
struct treadle_notice {
	struct list_head link;
	struct treadle_conn *conn;
	u32 event; /* enum treadle_event_kind */
};

/*
 * One end. @ep: NULL once it has closed. @result: CONNECTED or CONNREFUSED; @shut: SHUTDOWN.
 * After a hang-up, @later flushes @ended, which is held, with @error; then @job queues @shut.
 */
struct treadle_end {
	struct treadle_ep *ep;
	struct treadle_addr addr;
	struct treadle_notice result, shut;
	struct treadle_later later;
	struct treadle_job job;
	struct treadle_ep *ended;
	int error;
};

/*
 * A connection with an endpoint of another node is two, one on each node: between the endpoint
 * here and the proxy of the other one. What happens at the proxy's end is told to the other node
 * instead of being queued as an event (proxy/conn.c).
 */
enum { ASKER, ACCEPTER };

/*
 * struct treadle_conn - see above; everything under treadle_conn_lock once it is CONN_ASKED
 * @request: number, while it can be answered; else 0
 * @pep:     the passive endpoint that was asked, until it closes or the request is answered
 * @pending: on ->pending of treadle_own_ep(@pep); or, without @pep, while another node is asked, on
 *	     remote->connecting
 * @s:       session with the node of the other end, held; NULL: it is here
 * @there:   its number at the node of the asker
 * @told:    the other node was asked
 * @asked:   CONNREQ
 * @seen:    @asked was read, or is being read
 * @error:   of a connection that was refused
 * @ask, @answer: data of CONNECT, and of ACCEPT or REJECT
 */
struct treadle_conn {
	struct kref ref;
	enum conn_state state;
	u32 request;
	struct treadle_ep *pep;
	struct list_head pending;
	struct treadle_session *s;
	u32 there;
	bool told;
	struct treadle_notice asked;
	bool seen;
	int error;
	struct treadle_end end[2];
	u32 ask_size, answer_size;
	u8 ask[TREADLE_CM_DATA];
	u8 answer[TREADLE_CM_DATA];
};

static inline struct treadle_conn *treadle_conn_get(struct treadle_conn *conn)
{
	kref_get(&conn->ref);
	return conn;
}

void treadle_conn_release(struct kref *ref);
static inline void treadle_conn_put(struct treadle_conn *conn)
{
	kref_put(&conn->ref, treadle_conn_release);
}

/* The end of @conn that is @ep. If @ep may have closed, check that ->ep of the result is @ep. */
static inline struct treadle_end *treadle_end_of(struct treadle_conn *conn,
						 const struct treadle_ep *ep)
{
	lockdep_assert_held(&treadle_conn_lock);
	return &conn->end[conn->end[ACCEPTER].ep == ep ? ACCEPTER : ASKER];
}

int treadle_ioc_eq_create(struct treadle_ucmd *u);
int treadle_ioc_ep_eq(struct treadle_ucmd *u);
int treadle_ioc_listen(struct treadle_ucmd *u);
int treadle_ioc_connect(struct treadle_ucmd *u);
int treadle_ioc_accept(struct treadle_ucmd *u);
int treadle_ioc_reject(struct treadle_ucmd *u);
int treadle_ioc_shutdown(struct treadle_ucmd *u);

int treadle_conn_adopt(struct treadle_ep *ep, u32 request);
void treadle_conn_shutdown(struct treadle_ep *ep);
void treadle_conn_free(struct treadle_ep *ep);

/* connect.c */
void treadle_conn_exit(void);
void treadle_conn_trace(const struct treadle_conn *conn, enum treadle_trace_conn what);
struct treadle_conn *treadle_conn_new(const struct treadle_addr *from,
				      const struct treadle_addr *to);
struct treadle_conn *treadle_conn_find(u32 number);
struct treadle_conn *treadle_conn_asking(u32 number, const struct treadle_session *s);
void treadle_conn_dispose(struct treadle_conn *conn);
void treadle_conn_refuse(struct treadle_conn *conn, int error);
void treadle_conn_hang_up(struct treadle_conn *conn, const struct treadle_end *self);
void treadle_conn_pause(unsigned int *n);
void treadle_end_flush(struct treadle_ep *ep, int error, struct treadle_run *run);
void treadle_end_leave(struct treadle_end *end, struct treadle_conn *conn, struct treadle_ep *ep,
		       int error);
void treadle_end_notify(struct treadle_end *end, struct treadle_ep *ep, struct treadle_run *run);
struct treadle_ep *treadle_ep_bind(struct treadle_ctx *ctx, u32 id, u32 types);

#define ONLY_MSG     BIT(TREADLE_EP_MSG)
#define ONLY_PASSIVE BIT(TREADLE_EP_PASSIVE)

/* cm.c, for both nodes */
int treadle_conn_ask(struct treadle_ep *ep, struct treadle_conn *conn, struct treadle_ep *pep,
		     int error);
int treadle_conn_accept(struct treadle_ep *ep, const u8 *answer, u32 size);
void treadle_conn_established(struct treadle_conn *conn);

/* event.c */
void treadle_conn_unlock(void) __releases(&treadle_conn_lock);
void treadle_event_queue(struct treadle_ep *ep, struct treadle_notice *notice);
void treadle_event_take_back(struct treadle_notice *notice);

#endif
