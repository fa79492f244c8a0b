/* SPDX-License-Identifier: GPL-2.0 */
/* Each rule of HELLO, and of frames, is broken once. */
#ifndef TREADLE_HOSTILE_RULES_H
#define TREADLE_HOSTILE_RULES_H

#include "frames.h"

/* Frames that come before, or instead of, the other node's proof. Returns their name, or NULL. */
#define STEP(text)                           \
	break;                               \
	case __COUNTER__ - (FIRST_STEP + 1): \
		name = text;
#define FIRST_STEP first_of_hello
enum { FIRST_STEP = __COUNTER__ };
static const char *speak_out_of_turn(struct peer *p, int which)
{
	struct hello h = hello_of(p, HELLO);
	const char *name = NULL;
	char secret[64];

	begin(TREADLE_WIRE_ITEMS);
	switch (which) {
	case -1:
		STEP("an acknowledgment") send_bare(p, TREADLE_WIRE_ACK);
		STEP("a PING") send_bare(p, TREADLE_WIRE_PING);
		STEP("an answer") send_bare(p, TREADLE_WIRE_ANSWER);
		STEP("items") add(TREADLE_WIRE_GONE, 8, 5), send_frame(p, frame);
		STEP("items after HELLO")
		say_hello(p), add_intro(0, TREADLE_EP_RDM, 0), send_frame(p, frame);
		STEP("no step") h.step = NOTHING, send_bytes(p, &h, sizeof(h));
		STEP("step 99") h.step = 99, send_bytes(p, &h, sizeof(h));
		STEP("a refusal") h.step = REFUSED, send_bytes(p, &h, sizeof(h));
		STEP("a proof first") say_proof(p, secret, read_secret(secret));
		STEP("HELLO twice") say_hello(p), say_hello(p);
		STEP("HELLO of another node") h.node++, send_bytes(p, &h, sizeof(h));
		STEP("HELLO of another session") h.session++, send_bytes(p, &h, sizeof(h));
		STEP("HELLO with a word that is not zero") h.zero = 1, send_bytes(p, &h, sizeof(h));
		STEP("HELLO that is short") h.head.length -= 8, send_bytes(p, &h, sizeof(h) - 8);
		STEP("HELLO that lies about its length")
		h.head.length -= 8, send_bytes(p, &h, sizeof(h));
		STEP("no bytes") send_bytes(p, &h, 0);
		STEP("seven bytes") send_bytes(p, &h, 7);
		STEP("a full frame of zeros")
		memset(frame, 0, OVERLONG), send_bytes(p, frame, TREADLE_WIRE_FRAME_BYTES);
		STEP("a frame that is too long") send_bytes(p, frame, OVERLONG);
	}
	return name;
}

#undef FIRST_STEP
#define FIRST_STEP first_of_frames
enum { FIRST_STEP = __COUNTER__ };
/* Puts a frame together that breaks a rule, and sends it. Returns which one, or NULL. */
static const char *break_a_rule(struct peer *p, int which)
{
	struct treadle_wire_intro *intro;
	struct treadle_wire_item *item;
	struct treadle_wire_cmd *cmd;
	const char *name = NULL;
	bool whole = true; /* what the header says is filled in at the end */
	__u32 sent = 0;

	begin(TREADLE_WIRE_ITEMS);
	add_intro(0, TREADLE_EP_RDM, 0);
	if (which < 15) { /* about the header */
		frame->ack = p->ack;
		frame->limit = p->ack + 64;
		frame->commands = p->commands;
		whole = false;
	}
	switch (which) {
	case -1:
		STEP("a number that is left out") frame->seq++;
		STEP("a number that was before the first") frame->seq--;
		STEP("a number twice") send_bytes(p, frame, frame->length);
		STEP("an acknowledgment of what was not sent") frame->ack++;
		STEP("an acknowledgment that is taken back") frame->ack--;
		STEP("a limit that is taken back") frame->limit--;
		STEP("a limit beyond all") frame->limit += 2000;
		STEP("commands that are taken back") frame->commands--;
		STEP("commands beyond all") frame->commands += 9000;
		STEP("flags") frame->flags = 1;
		STEP("no items") frame->items = 0;
		STEP("an item more than there is") frame->items++;
		STEP("an item less than there is") add(TREADLE_WIRE_GONE, 8, 5), frame->items--;
		STEP("a length that is too large") sent = frame->length, frame->length += 8;
		STEP("a length that is too small") sent = frame->length, frame->length -= 8;
		/* the number of items is right from here on */
		STEP("frames of no type") frame->type = 0;
		STEP("frames of an unknown type") frame->type = 9;
		STEP("a PING with items") frame->type = TREADLE_WIRE_PING;
		STEP("HELLO again") say_hello(p);
		STEP("answers to no PING")
		send_bare(p, TREADLE_WIRE_ANSWER), send_bare(p, TREADLE_WIRE_ANSWER),
			send_bare(p, TREADLE_WIRE_ANSWER);
		STEP("no bytes") sent = 0, send_bytes(p, frame, 0);
		STEP("a frame that is too long") send_bytes(p, frame, OVERLONG);
		STEP("an item without length")
		item = add(TREADLE_WIRE_GONE, 8, 5), item->length = 0;
		STEP("an item of seven bytes")
		item = add(TREADLE_WIRE_GONE, 8, 5), item->length = 7;
		STEP("an item beyond the frame")
		item = add(TREADLE_WIRE_GONE, 8, 5), item->length = 16;
		STEP("an item of 65535 bytes")
		item = add(TREADLE_WIRE_GONE, 8, 5), item->length = 65535;
		STEP("an item that is not filled with zeros")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 1, 1), ((char *)(cmd + 1))[1] = 1;
		STEP("an item of no kind") add(0, 8, 5);
		STEP("an unknown kind") add(TREADLE_WIRE_KINDS, 8, 5);
		STEP("an item with flags")
		item = add(TREADLE_WIRE_GONE, 8, 5), item->flags = 1;
		STEP("a GRANT that is short") add(TREADLE_WIRE_GRANT, 16, 5);
		STEP("DATA without bytes") add(TREADLE_WIRE_DATA, 16, 5);
		STEP("DONE with a word that is not zero")
		((struct treadle_wire_done *)add(TREADLE_WIRE_DONE, 16, 5))->zero = 1;
		STEP("a handle twice") add_intro(0, TREADLE_EP_RDM, 0);
		STEP("a handle beyond all") add_intro(65536, TREADLE_EP_RDM, 0);
		STEP("an endpoint of no type") add_intro(1, 0, 0);
		STEP("a passive endpoint") add_intro(1, TREADLE_EP_PASSIVE, 0);
		STEP("a key that is more than there")
		intro = add_intro(1, TREADLE_EP_RDM, 0), intro->has_key = 2;
		STEP("the end of a handle beyond all") add(TREADLE_WIRE_GONE, 8, 65536);
		STEP("a port beyond all is asked for") add_pair(TREADLE_WIRE_WATCH, 65536, 0, 0, 0);
		STEP("a port beyond all is lost") add(TREADLE_WIRE_LOST, 8, 65536);
		STEP("a request without a number")
		add_pair(TREADLE_WIRE_CONN_REQ, 0, 0, LISTENER, 0);
		STEP("a request to a port beyond all")
		add_pair(TREADLE_WIRE_CONN_REQ, 1, 0, 65536 + LISTENER, 0);
		STEP("a request with too much data")
		add_pair(TREADLE_WIRE_CONN_REQ, 1, 0, LISTENER, 257);
		STEP("two requests of an endpoint")
		add_intro(1, TREADLE_EP_MSG, 0),
			add_pair(TREADLE_WIRE_CONN_REQ, 1, 1, LISTENER, 256),
			add_pair(TREADLE_WIRE_CONN_REQ, 2, 1, LISTENER, 0);
		STEP("a refusal without an errno") add_pair(TREADLE_WIRE_CONN_REJ, 1, 0, 0, 0);
		STEP("a refusal with too large an errno")
		add_pair(TREADLE_WIRE_CONN_REJ, 1, 5000, 0, 0);
		STEP("no command") add_cmd(1, 0, TARGET, TREADLE_OP_NOP, 0, 0);
		STEP("a receive as a command")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_RECV, 8, 8), cmd->ranges = 0;
		STEP("a counter is set")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_CNTR_SET, 8, 8), cmd->ranges = 0;
		STEP("an unknown command") add_cmd(1, 0, TARGET, 255, 8, 8);
		STEP("a command without a reference") add_cmd(0, 0, TARGET, TREADLE_OP_SEND, 8, 8);
		STEP("nine ranges")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_WRITE, 8, 8 * 24 + 8), cmd->ranges = 9;
		STEP("a range that is not there")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_READ, 8, 0), cmd->ranges = 2;
		STEP("no range")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_READ, 0, 0), cmd->item.length -= 24,
		frame->length -= 24, cmd->ranges = 0;
		STEP("a message with a range")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 0, 24), cmd->ranges = 1;
		STEP("a range of another length")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_READ, 8, 0), cmd->length = 16;
		STEP("a message with less bytes") add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 16, 8);
		STEP("a message with more bytes") add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 8, 16);
		STEP("an injected message without its bytes")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 8, 0), cmd->flags = TREADLE_F_INJECT;
		STEP("an injected message that is too long")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 8192, 8192),
		cmd->flags = TREADLE_F_INJECT;
		STEP("a message beyond all")
		add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 1ULL << 33, 0);
		STEP("a message that begins later")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 8, 8), cmd->offset = 8;
		STEP("flags of a process")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 8, 8),
		cmd->flags = TREADLE_F_COMPLETION;
		STEP("all flags")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 8, 8), cmd->flags = ~0;
		STEP("a failure that is none")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_TSEND, 0, 0),
		cmd->flags = F_FAILURE | TREADLE_F_COLLECTIVE | TREADLE_F_INJECT;
		STEP("a READ with bytes") add_cmd(1, 0, TARGET, TREADLE_OP_READ, 8, 8);
		STEP("a WRITE without its bytes") add_cmd(1, 0, TARGET, TREADLE_OP_WRITE, 8, 0);
		STEP("a piece that begins beyond its end")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_READ, 8, 0),
		cmd->offset = TREADLE_WIRE_PIECE;
		STEP("a piece that begins in another one")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_READ, 40000, 0), cmd->offset = 8;
		STEP("a WRITE with a tag")
		cmd = add_cmd(1, 0, TARGET, TREADLE_OP_WRITE, 8, 8), cmd->tag = 1;
		STEP("an atomic that is too long")
		add_cmd(1, 0, TARGET, TREADLE_OP_ATOMIC, 8192, 8192);
		STEP("comparands that are missing") add_cmd(1, 0, TARGET, TREADLE_OP_COMPARE, 8, 8);
		STEP("more commands than were granted")
		for (int i = 0; i < 1100; i++) {
			add_cmd(i % 1024 + 1, 0, IDLE, TREADLE_OP_SEND, 8, 0);
			if (i % 200 < 199)
				continue;
			send_frame(p, frame);
			begin(TREADLE_WIRE_ITEMS);
		}
	}
	if (name && !p->over)
		whole ? send_frame(p, frame) : send_bytes(p, frame, sent ?: frame->length);
	return name;
}

#endif
