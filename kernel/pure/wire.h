/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: what nodes send to each other
 *
 * A frame is a header and items, each of which begins at a multiple of 8 bytes. All numbers are
 * little-endian. The peer is not trusted: a length is checked before anything behind it is read. A
 * received frame is in memory of this node alone and doesn't change, so fields may be read in
 * place, more than once.
 */
#ifndef TREADLE_WIRE_H
#define TREADLE_WIRE_H

#ifdef __KERNEL__
#include <linux/align.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <asm/byteorder.h>
#else
#include "shim.h"
#endif

#define TREADLE_WIRE_FRAME_BYTES 16384
#define TREADLE_WIRE_PIECE	 15872 /* bytes of a READ or WRITE in one command at most */
#define TREADLE_WIRE_RANGES	 8     /* of a command */
#define TREADLE_WIRE_CONN_BYTES	 256   /* data of a connection's request or answer */

/* Frames. Only ITEMS has a number. */
enum treadle_wire_type {
	TREADLE_WIRE_ITEMS = 1,
	TREADLE_WIRE_HELLO, /* its content is read elsewhere */
	TREADLE_WIRE_ACK,
	TREADLE_WIRE_PING,
	TREADLE_WIRE_ANSWER,
};

struct treadle_wire_frame {
	__u8 type;
	__u8 flags; /* 0 */
	__le16 items;
	__le32 length;	 /* of all */
	__le32 seq;	 /* number of an ITEMS frame, from 0 on; else 0 */
	__le32 ack;	 /* frames before this number were processed */
	__le32 limit;	 /* frames before this number may be sent */
	__le32 commands; /* so many may be sent, since the session began: pure/window.h */
};

enum treadle_wire_kind {
	TREADLE_WIRE_CMD = 1,
	TREADLE_WIRE_DONE,
	TREADLE_WIRE_GRANT,
	TREADLE_WIRE_DATA,
	TREADLE_WIRE_ANSWER_DATA,
	TREADLE_WIRE_CANCEL,
	TREADLE_WIRE_ABORT,
	TREADLE_WIRE_INTRO,
	TREADLE_WIRE_GONE,
	TREADLE_WIRE_WATCH,
	TREADLE_WIRE_LOST,
	TREADLE_WIRE_CONN_REQ,
	TREADLE_WIRE_CONN_REP,
	TREADLE_WIRE_CONN_REJ,
	TREADLE_WIRE_CONN_OVER,
	TREADLE_WIRE_UNKNOWN, /* there was no memory for INTRO: say it again */
	TREADLE_WIRE_KINDS,
};

#define TREADLE_WIRE_MAY_SKIP 0x80 /* flag of an item: the receiver may not know its kind */

struct treadle_wire_item {
	__u8 kind;
	__u8 flags;
	__le16 length; /* of all of the item, without what fills it up to 8 bytes */
	__le32 reference;
};

struct treadle_wire_range {
	__le64 address;
	__le64 length;
	__le64 key;
};

/* Followed by its ranges, then by the payload */
struct treadle_wire_cmd {
	struct treadle_wire_item item;
	__le32 from; /* handle of the sending endpoint */
	__le32 to;   /* port, and index of a receive context << 16 */
	__u8 opcode;
	__u8 ranges;
	__u8 atomic_op;
	__u8 atomic_type;
	__le32 flags;
	__le64 length; /* of the whole command */
	__le64 offset; /* READ, WRITE: of the piece that this one is about */
	__le64 tag;
	__le64 data;
};

/* Followed by what an atomic has fetched */
struct treadle_wire_done {
	struct treadle_wire_item item;
	__le32 status;
	__le32 zero;
};

/* GRANT: DATA from @offset up to @end may come. */
struct treadle_wire_grant {
	struct treadle_wire_item item;
	__le64 offset;
	__le64 end;
};

/* DATA: of a message; ANSWER_DATA: of a READ. Followed by the payload, which belongs at @offset */
struct treadle_wire_data {
	struct treadle_wire_item item;
	__le64 offset;
};

struct treadle_wire_cancel {
	struct treadle_wire_item item;
	__le32 from; /* handle of the endpoint */
	__le32 zero;
};

struct treadle_wire_abort {
	struct treadle_wire_item item;
	__le32 status;
	__le32 zero;
};

struct treadle_wire_intro {
	struct treadle_wire_item item;
	__le32 user;
	__le16 port;
	__u8 type;
	__u8 has_key;
	__u8 proof[32]; /* that it knows its key */
};

/* WATCH, CONN_*: of two endpoints. The connection's data follows. */
struct treadle_wire_pair {
	struct treadle_wire_item item;
	__le32 from;
	__le32 to;
};

/* What may be in an item of a kind: the fixed part, and how many bytes behind it. */
struct treadle_wire_shape {
	u16 fixed;
	u16 least;
	u16 most;
};

static inline const struct treadle_wire_shape *treadle_wire_shape(u8 kind)
{
#define ANY (TREADLE_WIRE_FRAME_BYTES - sizeof(struct treadle_wire_frame))
	static const struct treadle_wire_shape shapes[TREADLE_WIRE_KINDS] = {
		{ 0, 0, 0 },
		/* CMD */ { sizeof(struct treadle_wire_cmd), 0, ANY },
		/* DONE */ { sizeof(struct treadle_wire_done), 0, ANY },
		/* GRANT */ { sizeof(struct treadle_wire_grant), 0, 0 },
		/* DATA */ { sizeof(struct treadle_wire_data), 1, ANY },
		/* ANSWER_DATA */ { sizeof(struct treadle_wire_data), 1, ANY },
		/* CANCEL */ { sizeof(struct treadle_wire_cancel), 0, 0 },
		/* ABORT */ { sizeof(struct treadle_wire_abort), 0, 0 },
		/* INTRO */ { sizeof(struct treadle_wire_intro), 0, 0 },
		/* GONE */ { sizeof(struct treadle_wire_item), 0, 0 },
		/* WATCH */ { sizeof(struct treadle_wire_pair), 0, 0 },
		/* LOST */ { sizeof(struct treadle_wire_item), 0, 0 },
		/* CONN_REQ */ { sizeof(struct treadle_wire_pair), 0, TREADLE_WIRE_CONN_BYTES },
		/* CONN_REP */ { sizeof(struct treadle_wire_pair), 0, TREADLE_WIRE_CONN_BYTES },
		/* CONN_REJ */ { sizeof(struct treadle_wire_pair), 0, TREADLE_WIRE_CONN_BYTES },
		/* CONN_OVER */ { sizeof(struct treadle_wire_pair), 0, 0 },
		/* UNKNOWN */ { sizeof(struct treadle_wire_item), 0, 0 },
	};
#undef ANY

	return kind && kind < TREADLE_WIRE_KINDS ? &shapes[kind] : NULL;
}

/* A frame, and how far it has been read */
struct treadle_wire_reader {
	const u8 *at;
	u32 left;
	u16 items;
};

/**
 * treadle_wire_begin() - check a frame's header
 * @r: for treadle_wire_next()
 * @frame: aligned to 8 bytes
 * @got: how many bytes have arrived
 *
 * Return: 0 or -EPROTO, which ends the session.
 */
static inline int treadle_wire_begin(struct treadle_wire_reader *r,
				     const struct treadle_wire_frame *frame, u32 got)
{
	r->items = 0;
	if (got < sizeof(*frame) || got > TREADLE_WIRE_FRAME_BYTES ||
	    got != le32_to_cpu(frame->length))
		return -EPROTO;
	if (!frame->type || frame->type > TREADLE_WIRE_ANSWER || frame->flags)
		return -EPROTO;
	if ((frame->type == TREADLE_WIRE_ITEMS) != !!frame->items)
		return -EPROTO;
	if (frame->type != TREADLE_WIRE_ITEMS && frame->seq)
		return -EPROTO;
	if (frame->type != TREADLE_WIRE_ITEMS && frame->type != TREADLE_WIRE_HELLO &&
	    got != sizeof(*frame))
		return -EPROTO;
	r->at = (const u8 *)(frame + 1);
	r->left = got - sizeof(*frame);
	r->items = le16_to_cpu(frame->items);
	return 0;
}

/* Are the bytes that fill an item up to 8 bytes zero? */
static inline bool treadle_wire_filled(const u8 *at, u32 from, u32 to)
{
	for (; from < to; from++)
		if (at[from])
			return false;
	return true;
}

/* An item that treadle_wire_next() has checked */
struct treadle_wire_view {
	const struct treadle_wire_item *item; /* its fixed part is there */
	const struct treadle_wire_range *ranges;
	const u8 *payload;
	u32 bytes; /* of payload */
};

/**
 * treadle_wire_next() - the next item of a frame
 * @r: what treadle_wire_begin() has begun
 * @view: the item, if there is one
 *
 * Lengths have been checked, and what has to be zero is. All values are still to be checked. Items
 * of unknown kinds are skipped if they may be.
 *
 * Return: 1, 0 behind the last item, or -EPROTO, which ends the session. No call may follow 0 or
 * -EPROTO.
 */
static inline int treadle_wire_next(struct treadle_wire_reader *r, struct treadle_wire_view *view)
{
	while (r->items) {
		const struct treadle_wire_item *item = (const struct treadle_wire_item *)r->at;
		const struct treadle_wire_shape *shape;
		const u8 *at = r->at;
		u32 length, padded, skip;

		if (r->left < sizeof(*item))
			return -EPROTO;
		length = le16_to_cpu(item->length);
		padded = ALIGN(length, 8);
		if (length < sizeof(*item) || padded > r->left ||
		    !treadle_wire_filled(at, length, padded))
			return -EPROTO;
		r->at += padded;
		r->left -= padded;
		r->items--;

		shape = treadle_wire_shape(item->kind);
		if (!shape && (item->flags & TREADLE_WIRE_MAY_SKIP))
			continue;
		if (!shape || (item->flags & ~TREADLE_WIRE_MAY_SKIP))
			return -EPROTO;
		if (length < shape->fixed + (u32)shape->least ||
		    length > shape->fixed + (u32)shape->most)
			return -EPROTO;
		skip = shape->fixed;
		view->item = item;
		view->ranges = NULL;
		if (item->kind == TREADLE_WIRE_CMD) {
			u32 ranges = ((const struct treadle_wire_cmd *)item)->ranges;

			if (ranges > TREADLE_WIRE_RANGES ||
			    length - skip < ranges * sizeof(struct treadle_wire_range))
				return -EPROTO;
			if (ranges)
				view->ranges = (const struct treadle_wire_range *)(at + skip);
			skip += ranges * sizeof(struct treadle_wire_range);
		}
		if ((item->kind == TREADLE_WIRE_DONE || item->kind == TREADLE_WIRE_ABORT ||
		     item->kind == TREADLE_WIRE_CANCEL) &&
		    ((const struct treadle_wire_done *)item)->zero)
			return -EPROTO;
		if (item->kind == TREADLE_WIRE_INTRO &&
		    ((const struct treadle_wire_intro *)item)->has_key > 1)
			return -EPROTO;
		view->payload = at + skip;
		view->bytes = length - skip;
		return 1;
	}
	return r->left ? -EPROTO : 0;
}

#endif
