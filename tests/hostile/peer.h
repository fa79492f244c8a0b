/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A node in user space that keeps no rule unless its caller does: connections by librdmacm, HELLO,
 * frames. Only the layout of frames and items is the module's own (kernel/pure/wire.h).
 */
#ifndef TREADLE_HOSTILE_PEER_H
#define TREADLE_HOSTILE_PEER_H

#define _GNU_SOURCE
#include "../../kernel/pure/wire.h"

#include "../kselftest/treadle.h"

#include <linux/if_alg.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/random.h>

#define PORT	 18770
#define BUFFERS	 80
#define OVERLONG (TREADLE_WIRE_FRAME_BYTES + 4096)
#define ROUND_MS 20000 /* longer than an answer takes on a busy host */

struct hail {
	__u32 magic, version;
	__u64 node, session, attempt;
};

enum { NOTHING, HELLO, PROOF, REFUSED };

struct hello {
	struct treadle_wire_frame head;
	__u32 step, zero;
	__u64 node, session;
	__u8 link_nonce[16], nonce[16], proof[32];
};

struct peer {
	struct rdma_cm_id *id;
	struct ibv_mr *in_mr, *out_mr;
	char *in, *out;
	int held;     /* buffer with the frame that the caller reads; or -1 */
	bool deaf;    /* posts no receive again */
	bool passive; /* the other node has connected */
	bool over;
	int host;	       /* from which it has connected */
	struct hail hail;      /* its own */
	struct hail other;     /* what the other node has answered, or 0 */
	struct hello hello[2]; /* its own; of the other node */
	__u32 seq, ack, commands;
};

static const char *secret_file = "/run/secret";

/* HMAC-SHA256 by the kernel. */
static void hmac(const void *key, int key_bytes, const void *data, int bytes, __u8 out[32])
{
	struct sockaddr_alg alg = {
		.salg_family = AF_ALG, .salg_type = "hash", .salg_name = "hmac(sha256)"};
	int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), op;

	need(fd >= 0 && bind(fd, (struct sockaddr *)&alg, sizeof(alg)) == 0);
	need(setsockopt(fd, SOL_ALG, ALG_SET_KEY, key, key_bytes) == 0);
	op = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	need(op >= 0 && write(op, data, bytes) == bytes && read(op, out, 32) == 32);
	close(op);
	close(fd);
}

static __u64 random_word(void)
{
	__u64 word;

	need(getrandom(&word, sizeof(word), 0) == sizeof(word));
	return word;
}

/* --- connections ----------------------------------------------------------- */

static struct sockaddr_in address(int host, int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(0x0a4d0000 + host)};
}

/* A hail that a node accepts. */
static struct hail hail_of(__u64 node, __u64 session)
{
	static __u64 attempt;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (attempt < now.tv_sec * 1000ULL)
		attempt = now.tv_sec * 1000ULL;
	return (struct hail){0x6c647274, 1, node, session, ++attempt};
}

static void post_buffer(struct peer *p, int i)
{
	need(rdma_post_recv(p->id, (void *)(long)i, p->in + i * TREADLE_WIRE_FRAME_BYTES,
			    TREADLE_WIRE_FRAME_BYTES, p->in_mr) == 0);
}

/* Gives an id its queue pair, and posts @buffers receives. False: the other node has given up. */
static bool set_up(struct peer *p, int buffers)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 16,
						.max_recv_wr = BUFFERS,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC,
					.sq_sig_all = 1};

	if (rdma_create_qp(p->id, NULL, &attr))
		return false;
	p->in = pages(BUFFERS * TREADLE_WIRE_FRAME_BYTES);
	p->out = pages(OVERLONG);
	p->in_mr = rdma_reg_msgs(p->id, p->in, BUFFERS * TREADLE_WIRE_FRAME_BYTES);
	p->out_mr = rdma_reg_msgs(p->id, p->out, OVERLONG);
	need(p->in_mr && p->out_mr);
	for (int i = 0; i < buffers; i++)
		post_buffer(p, i);
	p->deaf = buffers < BUFFERS;
	p->held = -1;
	p->commands = 4096;
	return true;
}

static void leave(struct peer *p)
{
	if (p->in_mr)
		rdma_dereg_mr(p->in_mr);
	if (p->out_mr)
		rdma_dereg_mr(p->out_mr);
	if (p->in)
		munmap(p->in, BUFFERS * TREADLE_WIRE_FRAME_BYTES + PAGE);
	if (p->out)
		munmap(p->out, OVERLONG + PAGE);
	rdma_destroy_ep(p->id);
	p->id = NULL;
}

/*
 * Connects from host @from to host @to, and says @bytes of @hail, or nothing. Returns 0; or an
 * errno: it was refused, and @p is empty but for what the other node has said.
 */
static int dial_to(struct peer *p, int from, int to, const void *hail, int bytes, int buffers)
{
	struct sockaddr_in here = address(from, 0), there = address(to, PORT);
	struct rdma_conn_param param = {.private_data = hail,
					.private_data_len = bytes,
					.retry_count = 7,
					.rnr_retry_count = 7};
	int result = 0, tries = 0;

	*p = (struct peer){.host = from};
	memcpy(&p->hail, hail, bytes < (int)sizeof(p->hail) ? bytes : (int)sizeof(p->hail));
	need(rdma_create_id(NULL, &p->id, NULL, RDMA_PS_TCP) == 0);
	/* the device learns of a new address a moment later */
	while (rdma_resolve_addr(p->id, (void *)&here, (void *)&there, 5000)) {
		need(tries++ < 50);
		usleep(100000);
		rdma_destroy_id(p->id);
		need(rdma_create_id(NULL, &p->id, NULL, RDMA_PS_TCP) == 0);
	}
	need(rdma_resolve_route(p->id, 5000) == 0);
	need(set_up(p, buffers));
	if (rdma_connect(p->id, &param))
		result = errno;
	if (p->id->event && p->id->event->param.conn.private_data_len >= sizeof(p->other))
		memcpy(&p->other, p->id->event->param.conn.private_data, sizeof(p->other));
	if (result)
		leave(p);
	return result;
}

static int dial(struct peer *p, int from, const struct hail *hail)
{
	return dial_to(p, from, 1, hail, sizeof(*hail), BUFFERS);
}

/* --- frames ---------------------------------------------------------------- */

/* Has the link ended? */
static bool ended(struct peer *p)
{
	struct pollfd poll_fd = {.fd = p->id->channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	while (poll(&poll_fd, 1, 0) > 0 && rdma_get_cm_event(p->id->channel, &event) == 0) {
		if (event->event == RDMA_CM_EVENT_DISCONNECTED)
			p->over = true;
		rdma_ack_cm_event(event);
	}
	return p->over;
}

/* Sends bytes as they are; false: the link has ended. */
static bool send_bytes(struct peer *p, const void *bytes, __u32 length)
{
	const __u64 end = now_ns() + PATIENCE_NS;
	struct ibv_wc wc;

	if (p->over)
		return false;
	memcpy(p->out, bytes, length);
	need(rdma_post_send(p->id, NULL, p->out, length, p->out_mr, 0) == 0);
	/* the adapter goes on for long to send to a node that has left */
	while (ibv_poll_cq(p->id->send_cq, 1, &wc) == 0) {
		if (ended(p))
			return false;
		need(now_ns() < end);
		sched_yield();
	}
	p->over |= wc.status != IBV_WC_SUCCESS;
	return !p->over;
}

/* Fills in what each frame says, and sends it. */
static bool send_frame(struct peer *p, struct treadle_wire_frame *frame)
{
	frame->ack = p->ack;
	frame->limit = p->ack + 64;
	frame->commands = p->commands;
	if (frame->type == TREADLE_WIRE_ITEMS)
		frame->seq = p->seq++;
	return send_bytes(p, frame, frame->length);
}

static bool send_bare(struct peer *p, int type)
{
	struct treadle_wire_frame frame = {.type = type, .length = sizeof(frame)};

	return send_frame(p, &frame);
}

/* The next frame as it comes, valid until the next call. NULL: none in time, or none any more. */
static const struct treadle_wire_frame *hear(struct peer *p, int ms)
{
	const __u64 end = now_ns() + ms * 1000000ULL;
	struct ibv_wc wc;

	if (p->held >= 0 && !p->deaf && !p->over)
		post_buffer(p, p->held);
	p->held = -1;
	for (;;) {
		bool last = now_ns() > end || ended(p); /* what came before counts */

		if (ibv_poll_cq(p->id->recv_cq, 1, &wc) > 0)
			break;
		if (last)
			return NULL;
		sched_yield();
	}
	if (wc.status != IBV_WC_SUCCESS) {
		p->over = true;
		return NULL;
	}
	p->held = wc.wr_id;
	return (void *)(p->in + p->held * TREADLE_WIRE_FRAME_BYTES);
}

/* The same for a live link: acknowledges what comes, and answers PING. */
static const struct treadle_wire_frame *next_frame(struct peer *p, int ms)
{
	const struct treadle_wire_frame *frame = hear(p, ms);

	if (frame && frame->type == TREADLE_WIRE_ITEMS)
		p->ack = frame->seq + 1;
	if (frame && frame->type == TREADLE_WIRE_PING)
		send_bare(p, TREADLE_WIRE_ANSWER);
	return frame;
}

/* Waits until the link is over, whatever comes. */
static bool is_over(struct peer *p, int ms)
{
	const __u64 end = now_ns() + ms * 1000000ULL;

	while (!p->over && now_ns() < end)
		hear(p, 100);
	return p->over;
}

/* --- HELLO ----------------------------------------------------------------- */

static struct hello hello_of(struct peer *p, int step)
{
	struct hello h = {.head = {.type = TREADLE_WIRE_HELLO, .length = sizeof(h)},
			  .step = step,
			  .node = p->hail.node,
			  .session = p->hail.session};

	h.head.ack = p->ack;
	h.head.limit = p->ack + 64;
	h.head.commands = p->commands;
	return h;
}

static bool say_hello(struct peer *p)
{
	p->hello[0] = hello_of(p, HELLO);
	need(getrandom(p->hello[0].link_nonce, 16, 0) == 16);
	/* of the session: the same on each link */
	memcpy(p->hello[0].nonce, &p->hail.session, 8);
	return send_bytes(p, &p->hello[0], sizeof(p->hello[0]));
}

/* The next HELLO, of that step; NULL: something else. */
static const struct hello *hear_hello(struct peer *p, __u32 step)
{
	const struct hello *h = (const void *)hear(p, ROUND_MS);

	if (!h || h->head.type != TREADLE_WIRE_HELLO || h->step != step)
		return NULL;
	if (step == HELLO)
		p->hello[1] = *h;
	return h;
}

static bool say_proof(struct peer *p, const void *secret, int bytes)
{
	struct hello h = hello_of(p, PROOF);
	struct {
		__u32 connected, family;
		struct in_addr from;
		__u8 rest[12];
		struct hello hello[2];
	} message = {.connected = !p->passive,
		     .family = AF_INET,
		     .from = address(p->passive ? 1 : p->host, 0).sin_addr,
		     .hello = {p->hello[p->passive], p->hello[!p->passive]}};

	hmac(secret, bytes, &message, sizeof(message), h.proof);
	return send_bytes(p, &h, sizeof(h));
}

static int read_secret(char secret[64])
{
	int fd = open(secret_file, O_RDONLY | O_CLOEXEC), bytes = read(fd, secret, 64);

	need(bytes > 0);
	close(fd);
	return bytes;
}

/* Connects as a node that knows the secret does. The session is live. */
static void enter_as(struct peer *p, int from, __u64 node, __u64 session, int buffers)
{
	struct hail hail;
	char secret[64];

	/* it may still be leaving the last link, or have waited for too long on a busy host */
	for (int tries = 0;; tries++) {
		need(tries < 40);
		hail = hail_of(node, session);
		if (dial_to(p, from, 1, &hail, sizeof(hail), buffers) == 0) {
			if (say_hello(p) && hear_hello(p, HELLO) &&
			    say_proof(p, secret, read_secret(secret)) && hear_hello(p, PROOF))
				return;
			leave(p);
		}
		usleep(100000);
	}
}

static void enter(struct peer *p)
{
	enter_as(p, 3, random_word(), random_word(), BUFFERS);
}

/* Does the other node go on with this link? */
static bool goes_on(struct peer *p)
{
	const struct treadle_wire_frame *frame;

	send_bare(p, TREADLE_WIRE_PING);
	while ((frame = next_frame(p, ROUND_MS)))
		if (frame->type == TREADLE_WIRE_ANSWER)
			return true;
	return false;
}

/* Waits for an offer, and gets its hail. False: there is none. */
static bool be_dialed(struct rdma_cm_id **listener, struct peer *p)
{
	struct sockaddr_in here = address(3, PORT);
	struct pollfd poll_fd = {.events = POLLIN};

	*p = (struct peer){.passive = true};
	if (!*listener) {
		need(rdma_create_id(NULL, listener, NULL, RDMA_PS_TCP) == 0);
		need(rdma_bind_addr(*listener, (void *)&here) == 0);
		need(rdma_listen(*listener, 16) == 0);
	}
	poll_fd.fd = (*listener)->channel->fd;
	while (poll(&poll_fd, 1, 10000) > 0) {
		need(rdma_get_request(*listener, &p->id) == 0);
		memcpy(&p->other, p->id->event->param.conn.private_data, sizeof(p->other));
		if (set_up(p, BUFFERS))
			return true;
		rdma_destroy_ep(p->id);
	}
	return false;
}

/* Accepts it. False: the other node has given up. */
static bool pick_up(struct peer *p, const struct hail *hail)
{
	struct rdma_conn_param param = {.private_data = hail,
					.private_data_len = sizeof(*hail),
					.retry_count = 7,
					.rnr_retry_count = 7};

	p->hail = *hail;
	return rdma_accept(p->id, &param) == 0;
}

#endif
