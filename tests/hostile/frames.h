/* SPDX-License-Identifier: GPL-2.0 */
/* Frames of items, right or wrong, and what comes back. */
#ifndef TREADLE_HOSTILE_FRAMES_H
#define TREADLE_HOSTILE_FRAMES_H

#include "peer.h"

#include "honest.h"

#define F_FAILURE (1U << 31) /* of the module: kernel/exec/command.h */

static struct treadle_wire_frame *const frame = (void *)(char[OVERLONG]){};

/* --- frames and items ------------------------------------------------------ */

static void begin(int type)
{
	memset(frame, 0, sizeof(*frame));
	frame->type = type;
	frame->length = sizeof(*frame);
}

static void *add(int kind, int length, __u32 reference)
{
	struct treadle_wire_item *item = (void *)((char *)frame + frame->length);

	memset(item, 0, ALIGN(length, 8));
	*item = (struct treadle_wire_item){.kind = kind, .length = length, .reference = reference};
	frame->length += ALIGN(length, 8);
	frame->items++;
	return item;
}

static struct treadle_wire_intro *add_intro(__u32 handle, int type, __u32 user)
{
	struct treadle_wire_intro *w = add(TREADLE_WIRE_INTRO, sizeof(*w), handle);

	w->user = user;
	w->port = 100 + handle % 100;
	w->type = type;
	return w;
}

/* A command of @from; WRITE and the like have a range. @bytes of it are in the frame. */
static struct treadle_wire_cmd *add_cmd(__u32 reference, __u32 from, int to, int opcode,
					__u64 length, int bytes)
{
	int ranges = opcode >= TREADLE_OP_READ;
	struct treadle_wire_cmd *w =
		add(TREADLE_WIRE_CMD,
		    sizeof(*w) + ranges * sizeof(struct treadle_wire_range) + bytes, reference);
	struct treadle_wire_range *range = (void *)(w + 1);

	w->from = from;
	w->to = to;
	w->opcode = opcode;
	w->ranges = ranges;
	w->length = length;
	if (ranges)
		range->length = length;
	return w;
}

static struct treadle_wire_cmd *aim(struct treadle_wire_cmd *w, __u64 at, __u64 key)
{
	struct treadle_wire_range *range = (void *)(w + 1);

	range->address = at;
	range->key = key;
	return w;
}

static struct treadle_wire_pair *add_pair(int kind, __u32 reference, __u32 from, __u32 to, int data)
{
	struct treadle_wire_pair *w = add(kind, sizeof(*w) + data, reference);

	w->from = from;
	w->to = to;
	return w;
}

/* Reads on until an item of a kind comes, about @reference or, if 0, any; NULL: it doesn't. */
static const void *await_item(struct peer *p, int kind, __u32 reference)
{
	static struct treadle_wire_reader reader; /* items behind the last one that was awaited */
	static struct peer *of;
	const struct treadle_wire_frame *got;
	struct treadle_wire_view view;

	if (of != p)
		reader.items = 0;
	of = p;
	for (;;) {
		while (reader.items && treadle_wire_next(&reader, &view) == 1)
			if (view.item->kind == kind &&
			    (!reference || view.item->reference == reference))
				return view.item;
		got = next_frame(p, ROUND_MS);
		if (!got)
			return NULL;
		if (got->type == TREADLE_WIRE_ITEMS)
			need(treadle_wire_begin(&reader, got, got->length) == 0);
	}
}

/* The errno with which a command ends. */
static int status_of(struct peer *p, __u32 reference)
{
	const struct treadle_wire_done *done = await_item(p, TREADLE_WIRE_DONE, reference);

	need(done);
	return done->status;
}

static void prove_key(struct peer *p, struct treadle_wire_intro *w, const char *key)
{
	struct {
		__u8 nonce[2][16];
		__u64 ids[2], handle;
	} message = {.ids = {p->hail.node, p->hello[1].node}, .handle = w->item.reference};

	memcpy(message.nonce[0], p->hello[0].nonce, 16);
	memcpy(message.nonce[1], p->hello[1].nonce, 16);
	w->has_key = 1;
	hmac(key, strlen(key), &message, sizeof(message), w->proof);
}

#endif
