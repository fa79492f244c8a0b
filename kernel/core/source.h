/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: sources and destinations of messages, as numbers */
#ifndef TREADLE_SOURCE_H
#define TREADLE_SOURCE_H

#include <linux/types.h>

#include "pure/match.h"

/*
 * A source is an endpoint: the number of its host, and its port there. All contexts of a scalable
 * endpoint are one source. A source is compared and passed on; only names/ looks into it.
 */
#define TREADLE_HERE	 0u /* the host number of this machine */
#define TREADLE_MAX_HOST 0xfffeu

static inline u32 treadle_source(u32 host, u16 port)
{
	return host << 16 | port;
}
static_assert((TREADLE_MAX_HOST << 16 | 0xffff) <
	      TREADLE_SRC_PEER); /* and the other special ones */

static inline u16 treadle_source_port(u32 source)
{
	return source;
}

static inline u16 treadle_source_host(u32 source)
{
	return source >> 16;
}

/* A destination: the endpoint, as a source, and the index of a receive context. */
static inline u64 treadle_dest(u32 source, u32 context)
{
	return source | (u64)context << 32;
}

static inline u32 treadle_dest_source(u64 dest)
{
	return dest;
}

static inline bool treadle_is_here(u64 dest)
{
	return treadle_source_host(dest) == TREADLE_HERE;
}

static inline u32 treadle_dest_context(u64 dest)
{
	return dest >> 32;
}

#endif
