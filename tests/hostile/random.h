/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TREADLE_HOSTILE_RANDOM_H
#define TREADLE_HOSTILE_RANDOM_H

#include "frames.h"

/* Frames of items with fields that make some sense, until one of them breaks a rule. */
static void random_frames(__u64 seed, int frames)
{
	static const int kinds = TREADLE_WIRE_KINDS;
	const struct reply victim = ask(ECHO);
	struct peer p = {.over = true};
	int links = 0;

	for (int n = 0; n < frames; n++) {
		if (p.over) {
			if (links++)
				leave(&p);
			enter(&p);
			ask(ECHO);
			begin(TREADLE_WIRE_ITEMS);
			for (int i = 0; i < 8; i++)
				add_intro(i, i % 3 + 1, i % 2 ? 4711 : 0);
			send_frame(&p, frame);
		}
		begin(TREADLE_WIRE_ITEMS);
		/* an item has 8,400 bytes at most */
		for (int items = 1 + lottery(&seed) % 20; items && frame->length < 7900; items--) {
			int kind = 1 + lottery(&seed) % (kinds - 1), r = lottery(&seed) % 40;
			const struct treadle_wire_shape *shape = treadle_wire_shape(kind);
			int more = shape->most > 300 ? lottery(&seed) % 300 : shape->least;
			__u64 length = lottery(&seed) % 3 ? lottery(&seed) % 300 : 20000;
			__u32 *words;

			if (kind == TREADLE_WIRE_CMD) {
				int op = 1 + lottery(&seed) % 9;
				bool pull = op <= 2 && (length > 300 || lottery(&seed) % 2);
				int bytes = op == TREADLE_OP_READ || pull ? 0 : length % 15872;

				if (op != 3 && op != 4)
					aim(add_cmd(r + 1, r % 9, TARGET + r % 4, op, length,
						    op == 9 ? 2 * bytes : bytes),
					    lottery(&seed) % MEMORY, victim.key);
				continue;
			}
			words = add(kind, shape->fixed + more, r);
			for (int i = 2; i < shape->fixed / 4 && kind != TREADLE_WIRE_INTRO; i++)
				words[i] = lottery(&seed) % 4 ? 0 : lottery(&seed) % 30000;
			if (kind == TREADLE_WIRE_INTRO)
				((struct treadle_wire_intro *)words)->type = 1 + r % 3;
			if (kind == TREADLE_WIRE_DONE || kind == TREADLE_WIRE_ABORT ||
			    kind == TREADLE_WIRE_CANCEL)
				words[3] = 0;
		}
		if (!frame->items)
			continue;
		if (lottery(&seed) % 50 == 0) /* any byte */
			((char *)frame)[lottery(&seed) % frame->length] ^= 1 << lottery(&seed) % 8;
		send_frame(&p, frame);
		while (next_frame(&p, 0))
			;
	}
	leave(&p);
	sleep(3); /* sessions end, and what RCU frees */
	note("%d random frames, %d links; slabs of machine 0: %llu KiB, before %llu", frames, links,
	     ask(ECHO).slab, victim.slab);
}

#endif
