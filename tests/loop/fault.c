// SPDX-License-Identifier: GPL-2.0
/*
 * treadle_loop: what goes wrong on order, from numbers that look random and follow from a seed
 */
#include <linux/minmax.h>
#include <linux/random.h>
#include <linux/spinlock.h>

#include "loop.h"

struct loop_faults loop_faults;
atomic_long_t loop_counts[LOOP_COUNTS];

static DEFINE_SPINLOCK(seed_lock);
static u64 seed = 1;

/**
 * loop_fault_seed() - begin a sequence of numbers
 * @value:	names it
 *
 * Context: any.
 */
void loop_fault_seed(u64 value)
{
	spin_lock(&seed_lock);
	seed = value;
	spin_unlock(&seed_lock);
}

/**
 * loop_random() - a number that looks random
 * @below:	it is less; 0: the number is 0
 *
 * Context: any but interrupts.
 * Return: the number.
 */
u32 loop_random(u32 below)
{
	u32 number;

	spin_lock(&seed_lock);
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	number = seed >> 33;
	spin_unlock(&seed_lock);
	return below ? number % below : 0;
}

/**
 * loop_chance() - does it happen?
 * @one_of:	once in so many cases; 0: never
 *
 * Context: any but interrupts.
 * Return: true: it does.
 */
bool loop_chance(u32 one_of)
{
	return one_of && !loop_random(one_of);
}

static void flip(u8 *bytes, u32 length)
{
	u32 i = loop_random(4) + 1;

	while (length && i--)
		bytes[loop_random(length)] ^= 1 << loop_random(8);
}

static void fill(u8 *bytes, u32 length)
{
	while (length--)
		*bytes++ = loop_random(256);
}

/**
 * loop_mangle_hail() - let a hostile peer say something else while it connects
 * @hail:	what it says
 * @bytes:	of it
 *
 * Context: any but interrupts.
 */
void loop_mangle_hail(struct treadle_hail *hail, u32 *bytes)
{
	if (!loop_chance(loop_faults.hostile))
		return;
	loop_count(LOOP_HOSTILE);
	switch (loop_random(3)) {
	case 0:
		flip((u8 *)hail, sizeof(*hail));
		break;
	case 1:
		fill((u8 *)hail, sizeof(*hail));
		break;
	case 2:
		*bytes = loop_random(sizeof(*hail));
		break;
	}
}

/* A number where a length may be: of the frame, or of an item. */
static void lie(u8 *bytes, u32 length)
{
	static const u16 lies[] = {0, 1, 7, 8, 24, 0x3fff, 0x4000, 0x7fff, 0xffff};
	u32 at = loop_random(length / 8) * 8 + 2 + loop_random(2) * 2;
	u16 lie = lies[loop_random(ARRAY_SIZE(lies))];

	if (at + sizeof(lie) <= length)
		memcpy(bytes + at, &lie, sizeof(lie));
}

/**
 * loop_mangle() - let a hostile peer send something else
 * @to:		the side that receives it
 * @slot:	of its buffers; the others have frames that were sent before
 *
 * Context: any but interrupts.
 * Return: true: the frame is as it was, and arrives twice.
 */
bool loop_mangle(struct loop_end *to, u32 slot)
{
	u32 other = loop_random(LOOP_BUFFERS), *length = &to->length[slot];
	u8 *bytes = to->buffer[slot];

	switch (loop_random(7)) {
	case 0:
		flip(bytes, *length);
		break;
	case 1: /* behind the header, which alone is often refused */
		if (*length > sizeof(struct treadle_wire_frame))
			flip(bytes + sizeof(struct treadle_wire_frame),
			     *length - sizeof(struct treadle_wire_frame));
		break;
	case 2:
		*length = loop_random(TREADLE_WIRE_FRAME_BYTES + 1);
		fill(bytes, *length);
		break;
	case 3:
		*length = loop_random(TREADLE_WIRE_FRAME_BYTES + 1);
		break;
	case 4:
		lie(bytes, *length);
		break;
	case 5: /* an old one */
		if (other == slot || !to->length[other])
			break;
		memcpy(bytes, to->buffer[other], to->length[other]);
		*length = to->length[other];
		break;
	case 6:
		return true;
	}
	return false;
}
