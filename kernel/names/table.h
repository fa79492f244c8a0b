/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: the entries of an address vector, and their hash (table.c); for address.c */
#ifndef TREADLE_TABLE_H
#define TREADLE_TABLE_H

#include "names/names.h"

#define NO_ENTRY U32_MAX

/* Instead of the host of a source: the address is of another node, and this one has no address. */
#define UNREACHED (TREADLE_MAX_HOST + 1)

/* Of an entry: it is in use; its family; it has a scope; it is in its bucket, and not a twin. */
#define ENTRY_USED   BIT(0)
#define ENTRY_V6     BIT(1)
#define ENTRY_SCOPED BIT(2)
#define ENTRY_HASHED BIT(3)

/*
 * @where: ~treadle_source(); 0 if it is not in use. This word is all that the data path reads
 * @next: of a hashed entry, the next one in its bucket; of a twin, the next twin
 * @twins: of a hashed entry, its first twin; of a twin, the entry before it
 */
struct av_entry {
	u8 addr[16];
	u32 where;
	u32 next, twins;
};

struct treadle_av_table {
	struct rcu_head rcu;
	u32 capacity, buckets, shift;
	u64 seed;	     /* odd, random: a process can't know which sources collide */
	u32 *heads;	     /* behind the entries */
	unsigned long *free; /* behind that, a bit for each entry that was removed */
	u64 *ids;	     /* AV_IDS: behind that, their identifiers in completions; or NULL */
	u8 *flags;	     /* at the end: of each entry, ENTRY_* */
	struct av_entry entries[];
};
/* with its flags, a bit, and a bucket for two entries at least */
static_assert(sizeof(struct av_entry) + 1 + sizeof(u32) / 2 < 32);

static inline u32 source_of(const struct av_entry *e)
{
	return ~READ_ONCE(e->where);
}

static inline bool reached(u32 source)
{
	return source < treadle_source(UNREACHED, 0);
}

static inline u32 *bucket_of(struct treadle_av_table *t, u32 source)
{
	return &t->heads[source * t->seed >> t->shift];
}

/* The index of the one hashed entry with @source, or NO_ENTRY. Under RCU or av->lock. */
static inline u32 find_source(struct treadle_av_table *t, u32 source)
{
	u32 i = READ_ONCE(*bucket_of(t, source)), steps = t->capacity;

	/* bounded, as entries may move to other buckets meanwhile */
	while (i < t->capacity && steps--) {
		if (source_of(&t->entries[i]) == source)
			return i;
		i = READ_ONCE(t->entries[i].next);
	}
	return NO_ENTRY;
}

struct treadle_av_table *treadle_av_table_alloc(u32 capacity, bool ids);
struct treadle_av_table *treadle_av_table_copy(const struct treadle_av_table *old, u32 used,
					       u32 capacity);
void treadle_av_hash(struct treadle_av_table *t, u32 i);
void treadle_av_unhash(struct treadle_av_table *t, u32 i);

#endif
