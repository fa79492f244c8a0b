// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: how nodes recognize each other
 *
 * The first frames of a link are HELLO, twice from each side, in turn: the side that has connected
 * begins. The first one says which session the node has, and, as all frames do, how far it has come
 * there. The second one proves that the node knows the secret: an HMAC of both first ones, which
 * have a random number for the link, of the side, and of the address of the node that has
 * connected. So a third node can't pass on what two others say: to the one that is connected to,
 * its own address would be that of the other one. A node without a secret proves that it has none.
 * The side that was connected to checks the other one's proof before it proves anything.
 */
#include <crypto/sha2.h>
#include <linux/slab.h>

#include "core/trace.h"
#include "node/session.h"

#define LINGER_MS 500u /* for a refusal to arrive */

#define BLOCK 64  /* of SHA-256 */
#define MOST  256 /* bytes of a message */

/**
 * treadle_hmac() - HMAC-SHA256 (RFC 2104)
 * @key:       the key
 * @key_bytes: any number
 * @data:      the message
 * @bytes:     so many, up to 256
 * @out:       gets the result
 *
 * Context: any.
 */
void treadle_hmac(const void *key, u32 key_bytes, const void *data, u32 bytes, u8 out[32])
{
	u8 buffer[BLOCK + MOST] = {};
	u32 i;

	if (WARN_ON_ONCE(bytes > MOST))
		bytes = MOST;
	if (key_bytes > BLOCK)
		sha256(key, key_bytes, buffer);
	else if (key_bytes)
		memcpy(buffer, key, key_bytes);
	for (i = 0; i < BLOCK; i++)
		buffer[i] ^= 0x36;
	memcpy(buffer + BLOCK, data, bytes);
	sha256(buffer, BLOCK + bytes, out);
	for (i = 0; i < BLOCK; i++)
		buffer[i] ^= 0x36 ^ 0x5c;
	memcpy(buffer + BLOCK, out, 32);
	sha256(buffer, BLOCK + 32, out);
	memzero_explicit(buffer, sizeof(buffer));
}

/* Are both the same? Takes as long in any case. */
static bool same(const u8 *a, const u8 *b, u32 bytes)
{
	u8 differ = 0;

	while (bytes--) {
		differ |= *a++ ^ *b++;
		OPTIMIZER_HIDE_VAR(differ);
	}
	return !differ;
}

/* The proof of the side that has connected, or of the other one. */
static void prove(const struct treadle_session *s, bool connected, u8 proof[32])
{
	const struct treadle_session_links *l = s->links;
	const struct treadle_node_listen *listen = &s->node->listen;
	bool mine = !l->link->offered; /* this side has connected */
	struct {
		__le32 side, family; /* of the address; its port and scope differ */
		u8 from[sizeof(l->link->from.addr)];
		struct treadle_hello hello[2]; /* of the side that has connected first */
	} message;

	static_assert(sizeof(message) <= MOST);
	message.side = cpu_to_le32(connected);
	message.family = cpu_to_le32(l->link->from.family);
	memcpy(message.from, l->link->from.addr, sizeof(message.from));
	message.hello[0] = l->memory->hello[!mine];
	message.hello[1] = l->memory->hello[mine];
	treadle_hmac(listen->secret, listen->secret_bytes, &message, sizeof(message), proof);
}

/* What a side says that begins a session anew. */
static struct treadle_ack fresh(void)
{
	struct treadle_window window;

	treadle_window_init(&window, TREADLE_ROOM, TREADLE_COMMANDS);
	return treadle_window_tell(&window);
}

static void send(struct treadle_session *s, enum treadle_step step)
{
	struct treadle_session_links *l = s->links;
	struct treadle_frame *frame = treadle_bare_get(s);
	struct treadle_hello *hello;

	if (WARN_ON_ONCE(!frame)) /* each is sent once for each link */
		return;
	hello = (struct treadle_hello *)frame->head;
	*hello = (struct treadle_hello){
		.head.type = TREADLE_WIRE_HELLO,
		.head.length = cpu_to_le32(sizeof(*hello)),
		.step = cpu_to_le32(step),
		.node = cpu_to_le64(s->node->id),
		.session = cpu_to_le64(l->anew ? l->next_id : l->id),
	};
	frame->length = sizeof(*hello);
	if (step == TREADLE_HELLO) {
		get_random_bytes(hello->link_nonce, sizeof(hello->link_nonce));
		memcpy(hello->nonce, l->anew ? l->next_nonce : s->nonce[0], sizeof(hello->nonce));
	} else if (step == TREADLE_PROOF) {
		prove(s, !l->link->offered, hello->proof);
	}
	l->sent = step;
	treadle_frame_transmit(s, frame, l->anew ? fresh() : treadle_window_tell(&s->window));
	if (step == TREADLE_HELLO)
		l->memory->hello[0] = *hello;
}

/**
 * treadle_hello_go() - say what it is this side's turn to say
 * @s: the session; its link is not live
 *
 * Context: s->lock held.
 */
void treadle_hello_go(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	if (!l->ready || l->live)
		return;
	if (l->sent == TREADLE_NOTHING && (!l->link->offered || l->got == TREADLE_HELLO))
		send(s, TREADLE_HELLO);
	else if (l->sent == TREADLE_HELLO && !l->link->offered && l->got == TREADLE_HELLO)
		send(s, TREADLE_PROOF);
}

/* The first one. 0 or -EPROTO: it is not that of the node with which the link connects. */
static int take_hello(struct treadle_session *s, const struct treadle_hello *hello)
{
	struct treadle_session_links *l = s->links;

	if (hello->node != l->link->hail.node || hello->session != l->link->hail.session)
		return -EPROTO;
	if (s->begun && !l->anew &&
	    (le64_to_cpu(hello->session) != l->peer_id ||
	     memcmp(hello->nonce, s->nonce[1], sizeof(hello->nonce))))
		return -EPROTO;
	l->memory->hello[1] = *hello;
	l->got = TREADLE_HELLO;
	treadle_hello_go(s);
	return 0;
}

/* The second one. 0, or -EACCES: the other node does not know the secret, and hears of that. */
static int take_proof(struct treadle_session *s, const struct treadle_hello *hello)
{
	struct treadle_session_links *l = s->links;
	u8 proof[32];

	prove(s, l->link->offered, proof);
	if (same(proof, hello->proof, sizeof(proof))) {
		l->got = TREADLE_PROOF;
		return 0;
	}
	if (l->link->offered) {
		send(s, TREADLE_REFUSED);
		l->lingers = true;
		l->deadline = jiffies + msecs_to_jiffies(LINGER_MS);
	}
	return -EACCES;
}

/* The other node is what it says. Begin the session, if it has not begun, and go on. */
static int pass(struct treadle_session *s, struct treadle_link *link)
{
	struct treadle_session_links *l = s->links;
	const struct treadle_hello *hello = &l->memory->hello[1];
	bool anew, begins;
	int ret = 0;

	spin_lock(&s->lock);
	anew = l->link == link && l->anew;
	spin_unlock(&s->lock);
	/* the manager ends no session meanwhile: before, it leaves the link */
	if (anew)
		treadle_session_end(s, -ECONNRESET);
	begins = !s->begun;
	if (begins) {
		memcpy(s->nonce[1], hello->nonce, sizeof(hello->nonce));
		s->ids[0] = cpu_to_le64(s->node->id);
		s->ids[1] = hello->node;
		ret = treadle_node_ops.begin(s);
		if (ret)
			return ret;
	}
	spin_lock(&s->lock);
	if (!s->begun) {
		s->begun = true;
		l->peer_id = le64_to_cpu(hello->session);
		l->lost = jiffies;
		l->nr_begun++;
	}
	if (l->link != link) {
		ret = -ENOTCONN; /* left meanwhile */
	} else {
		if (anew)
			treadle_window_tell(&s->window); /* as HELLO has */
		l->anew = false;
		if (link->offered)
			send(s, TREADLE_PROOF);
		ret = treadle_session_go(s, &hello->head);
	}
	if (!ret && begins)
		trace_treadle_peer_up(s->host, treadle_session_traced(s), 0);
	else if (!ret)
		trace_treadle_reconnect(s->host, treadle_session_traced(s), 0);
	if (!ret)
		treadle_link_passed(s);
	spin_unlock(&s->lock);
	if (!ret)
		treadle_session_room(s);
	return ret;
}

/**
 * treadle_hello_arrived() - a frame HELLO has arrived
 * @s:	   the session
 * @link:  the link
 * @frame: its header was checked
 * @bytes: of it
 *
 * Context: as treadle_link_arrived().
 * Return: 0, -EACCES, -EPROTO, or another error: the link has to be left.
 */
int treadle_hello_arrived(struct treadle_session *s, struct treadle_link *link,
			  const struct treadle_wire_frame *frame, u32 bytes)
{
	const struct treadle_hello *hello = (const struct treadle_hello *)frame;
	struct treadle_session_links *l = s->links;
	int ret = -EPROTO;
	u32 step;

	if (bytes != sizeof(*hello) || hello->zero)
		return -EPROTO;
	step = le32_to_cpu(hello->step);
	spin_lock(&s->lock);
	if (l->link != link)
		ret = -ENOTCONN;
	else if (l->live)
		ret = -EPROTO;
	else if (step == TREADLE_REFUSED)
		ret = -EACCES;
	else if (step == TREADLE_HELLO && l->got == TREADLE_NOTHING &&
		 (link->offered || l->sent == TREADLE_HELLO))
		ret = take_hello(s, hello);
	else if (step == TREADLE_PROOF && l->got == TREADLE_HELLO &&
		 l->sent == (link->offered ? TREADLE_HELLO : TREADLE_PROOF))
		ret = take_proof(s, hello);
	spin_unlock(&s->lock);
	if (!ret && step == TREADLE_PROOF)
		ret = pass(s, link);
	return ret;
}
