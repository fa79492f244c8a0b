// SPDX-License-Identifier: GPL-2.0
/* treadle: the table of an address vector: its memory, and its hash. It is for address.c */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "mm/base.h"
#include "names/table.h"

#define MAX_BUCKETS 262144u

/**
 * treadle_av_table_alloc() - make an empty table
 * @capacity:	its entries
 * @ids:	they have identifiers
 *
 * Context: may sleep.
 * Return: the table, for kvfree(), or NULL.
 */
struct treadle_av_table *treadle_av_table_alloc(u32 capacity, bool ids)
{
	u32 buckets = clamp_t(u32, rounddown_pow_of_two(capacity / 2), 16, MAX_BUCKETS);
	struct treadle_av_table *t;
	size_t free = ALIGN(struct_size(t, entries, capacity) + buckets * sizeof(u32), sizeof(u64));
	size_t size = free + ALIGN(BITS_TO_LONGS(capacity) * sizeof(long), sizeof(u64));
	size_t flags = size + (ids ? capacity * sizeof(u64) : 0);

	t = treadle_table_alloc(1, flags + capacity, TREADLE_GFP);
	if (!t)
		return NULL;
	t->free = (void *)t + free;
	t->ids = ids ? (void *)t + size : NULL;
	t->flags = (void *)t + flags;
	t->capacity = capacity;
	t->buckets = buckets;
	t->shift = 64 - ilog2(buckets);
	t->seed = get_random_u64() | 1;
	t->heads = (u32 *)&t->entries[capacity];
	memset(t->heads, 0xff, buckets * sizeof(u32)); /* NO_ENTRY */
	return t;
}

/**
 * treadle_av_hash() - hash an entry, or make it a twin of the hashed one with its source
 * @t:	the table
 * @i:	the entry, with a source that is reached
 *
 * Context: av->lock held, or nothing else uses @t yet.
 */
void treadle_av_hash(struct treadle_av_table *t, u32 i)
{
	struct av_entry *e = &t->entries[i];
	u32 *head = bucket_of(t, source_of(e)), lead = find_source(t, source_of(e));

	if (lead == NO_ENTRY) {
		WRITE_ONCE(t->flags[i], t->flags[i] | ENTRY_HASHED);
		e->twins = NO_ENTRY;
		WRITE_ONCE(e->next, *head);
		smp_store_release(head, i);
	} else {
		u32 first = t->entries[lead].twins;

		WRITE_ONCE(t->flags[i], t->flags[i] & ~ENTRY_HASHED);
		e->twins = lead;
		WRITE_ONCE(e->next, first);
		if (first != NO_ENTRY)
			t->entries[first].twins = i;
		t->entries[lead].twins = i;
	}
}

/* Take a twin out of its list. */
static void unlink_twin(struct treadle_av_table *t, struct av_entry *e)
{
	struct av_entry *before = &t->entries[e->twins];

	if (t->flags[e->twins] & ENTRY_HASHED)
		before->twins = e->next;
	else
		WRITE_ONCE(before->next, e->next);
	if (e->next != NO_ENTRY)
		t->entries[e->next].twins = e->twins;
}

/* Take a hashed entry out of its bucket; its first twin, if any, takes its place. */
static void unhash_lead(struct treadle_av_table *t, u32 index)
{
	struct av_entry *e = &t->entries[index];
	u32 *link = bucket_of(t, source_of(e)), heir = e->twins;

	while (*link != index)
		link = &t->entries[*link].next;
	if (heir == NO_ENTRY) {
		WRITE_ONCE(*link, e->next);
		return;
	}
	t->entries[heir].twins = t->entries[heir].next;
	WRITE_ONCE(t->entries[heir].next, e->next);
	WRITE_ONCE(t->flags[heir], t->flags[heir] | ENTRY_HASHED);
	smp_store_release(link, heir);
}

/**
 * treadle_av_unhash() - undo treadle_av_hash()
 * @t:	the table
 * @i:	the entry
 *
 * Context: av->lock held.
 */
void treadle_av_unhash(struct treadle_av_table *t, u32 i)
{
	if (t->flags[i] & ENTRY_HASHED)
		unhash_lead(t, i);
	else
		unlink_twin(t, &t->entries[i]);
}

/**
 * treadle_av_table_copy() - make a larger table with the same entries
 * @old:	the table
 * @used:	entries of it that were ever used
 * @capacity:	of the new one
 *
 * Context: may sleep. av->lock held.
 * Return: the table, for kvfree(), or NULL.
 */
struct treadle_av_table *treadle_av_table_copy(const struct treadle_av_table *old, u32 used,
					       u32 capacity)
{
	struct treadle_av_table *t = treadle_av_table_alloc(capacity, old->ids);
	u32 i;

	if (!t)
		return NULL;
	bitmap_copy(t->free, old->free, used);
	for (i = 0; i < used; i++) {
		t->entries[i] = old->entries[i];
		t->flags[i] = old->flags[i];
		if (t->ids)
			t->ids[i] = old->ids[i];
		if (reached(source_of(&t->entries[i])))
			treadle_av_hash(t, i);
		if (!(i % 4096))
			cond_resched();
	}
	return t;
}
