/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TREADLE_TESTS_UNIT_SHIM_H
#define TREADLE_TESTS_UNIT_SHIM_H

/*
 * The part of the kernel that the module's pure logic uses, for user space: as little as possible,
 * with hooks for tests. The sources under test are compiled unchanged, as C or as C++.
 */

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef __s8 s8;
typedef __s16 s16;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define likely(x)			__builtin_expect(!!(x), 1)
#define unlikely(x)			__builtin_expect(!!(x), 0)
#define BUILD_BUG_ON(condition)		static_assert(!(condition), #condition)

/* The module and these tests are little-endian only. */
#define le16_to_cpu(x) ((u16)(x))
#define le32_to_cpu(x) ((u32)(x))
#define ALIGN(x, a)    (((x) + (a)-1) & ~((a)-1))

/* The number of the highest bit that is set, from 1; 0: none. */
static inline int fls(unsigned int x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

/* --- memory --- */

typedef unsigned int gfp_t;
#define TREADLE_GFP 0u

/* The number of allocations that succeed before all others fail. */
extern unsigned long shim_allocations_left;

void *kvcalloc(size_t n, size_t size, gfp_t flags);
void kvfree(const void *p);

/* --- words shared by two threads --- */

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define _ASM_EXTABLE(from, to)	""
#define WRITE_ONCE(x, value)	__atomic_store_n(&(x), value, __ATOMIC_RELAXED)
#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define smp_mb()		__atomic_thread_fence(__ATOMIC_SEQ_CST)
#define try_cmpxchg(p, old, new) \
	__atomic_compare_exchange_n(p, old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define TREADLE_CMPXCHG_SMALL 1
#define barrier()	      __asm__ volatile("" ::: "memory")

typedef struct {
	int counter;
} atomic_t;

static inline int atomic_add_return_release(int i, atomic_t *v)
{
	return __atomic_add_fetch(&v->counter, i, __ATOMIC_RELEASE);
}

/* --- lists: rings of links through a head --- */

struct list_head {
	struct list_head *next, *prev;
};

/* Entries that were walked over or moved: counted by tests instead of time. */
extern unsigned long shim_list_steps;

static inline struct list_head *shim_step(struct list_head *to)
{
	shim_list_steps++;
	return to;
}

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

/* Adds @entry after @at. */
static inline void list_add(struct list_head *entry, struct list_head *at)
{
	entry->next = at->next;
	entry->prev = at;
	entry->next->prev = entry;
	at->next = entry;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	list_add(entry, head->prev);
}

/* A use of a deleted entry follows a null pointer. */
static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	entry->next = NULL;
	entry->prev = NULL;
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(shim_step(entry), head);
}

#define list_entry(ptr, type, member)	    container_of(ptr, type, member)
#define list_first_entry(ptr, type, member) list_entry((ptr)->next, type, member)
#define list_prev_entry(pos, member) \
	list_entry(shim_step((pos)->member.prev), __typeof__(*(pos)), member)
#define list_next_entry(pos, member) \
	list_entry(shim_step((pos)->member.next), __typeof__(*(pos)), member)
#define list_for_each_entry(pos, head, member)                                                   \
	for (pos = list_entry((head)->next, __typeof__(*(pos)), member); &pos->member != (head); \
	     pos = list_next_entry(pos, member))
#define list_for_each_entry_reverse(pos, head, member)                                           \
	for (pos = list_entry((head)->prev, __typeof__(*(pos)), member); &pos->member != (head); \
	     pos = list_prev_entry(pos, member))

/* --- search trees, see shim.c --- */

struct rb_node {
	struct rb_node *parent, *rb_left, *rb_right;
	u32 weight;
};

struct rb_root {
	struct rb_node *rb_node;
};

/* The caller of rb_insert_color_cached says which node is the first. */
struct rb_root_cached {
	struct rb_root rb_root;
	struct rb_node *rb_leftmost;
};

#define rb_entry(ptr, type, member) container_of(ptr, type, member)
#define rb_first_cached(root)	    ((root)->rb_leftmost)

static inline void rb_link_node(struct rb_node *node, struct rb_node *parent, struct rb_node **link)
{
	node->parent = parent;
	node->rb_left = NULL;
	node->rb_right = NULL;
	*link = node;
}

void rb_insert_color_cached(struct rb_node *node, struct rb_root_cached *root, bool leftmost);
void rb_erase_cached(struct rb_node *node, struct rb_root_cached *root);
struct rb_node *rb_next(const struct rb_node *node);

#ifdef __cplusplus
}
#endif

#endif
