/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the tests of windows: n looks at the memory of an owner. */
#ifndef TREADLE_KSELFTEST_WINDOW_H
#define TREADLE_KSELFTEST_WINDOW_H

#include "treadle.h"

#define BOTH (TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE)

struct window {
	int fd;
	struct treadle_window_open o;
	volatile char *data; /* of the first page */
	const struct treadle_window_status *status;
};

/* Opens a window; returns 0 or -errno. */
static inline int window_open(struct window *w, const struct node *n, __u64 to, __u64 key,
			      __u64 addr, __u64 len, __u32 access)
{
	*w = (struct window){
		.fd = n->fd,
		.o = {.size = sizeof(w->o),
		      .ep = n->ep,
		      .access = access,
		      .peer = to,
		      .key = key,
		      .addr = addr,
		      .len = len},
	};
	return call(n->fd, TREADLE_IOC_WINDOW_OPEN, &w->o);
}

static inline void window_map(struct window *w)
{
	int write = w->o.access & TREADLE_ACCESS_REMOTE_WRITE ? PROT_WRITE : 0;

	w->data = map(w->fd, w->o.data, PROT_READ | write);
	w->status = map(w->fd, w->o.ro, PROT_READ);
}

static inline void window_unmap(struct window *w)
{
	need(munmap((void *)w->data, w->o.data.length) == 0);
	need(munmap((void *)w->status, w->o.ro.length) == 0);
}

static inline int window_fill(const struct window *w, __u64 addr, __u64 len)
{
	struct treadle_window_fill f = {
		.size = sizeof(f), .window = w->o.id, .addr = addr, .len = len};

	return call(w->fd, TREADLE_IOC_WINDOW_FILL, &f);
}

static inline __u64 generation(const struct window *w)
{
	return __atomic_load_n(&w->status->generation, __ATOMIC_ACQUIRE);
}

static inline bool is_closed(const struct window *w)
{
	return __atomic_load_n(&w->status->flags, __ATOMIC_RELAXED) & TREADLE_WINDOW_CLOSED;
}

/* Where the peers' address @addr is in the map. */
static inline volatile __u64 *word_at(const struct window *w, __u64 addr)
{
	return (volatile __u64 *)(w->data + w->o.skip + (addr - w->o.addr));
}

static inline bool is_there(const struct window *w, __u64 addr)
{
	__u64 page = (w->o.skip + (addr - w->o.addr)) / PAGE;

	return __atomic_load_n(&w->status->present[page / 64], __ATOMIC_RELAXED) >> page % 64 & 1;
}

/* Stores as window.h says; false: it may have had no effect. */
static inline bool window_store(const struct window *w, __u64 addr, __u64 value)
{
	__u64 before = generation(w);

	if (!is_there(w, addr))
		return false;
	*word_at(w, addr) = value;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return generation(w) == before;
}

static inline bool window_load(const struct window *w, __u64 addr, __u64 *value)
{
	__u64 before = generation(w);

	if (!is_there(w, addr))
		return false;
	*value = *word_at(w, addr);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return generation(w) == before;
}

#endif
