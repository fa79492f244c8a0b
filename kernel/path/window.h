/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: windows as objects (window.c); mm/window.h has their pages */
#ifndef TREADLE_PATH_WINDOW_H
#define TREADLE_PATH_WINDOW_H

#include "core/endpoint.h"
#include "mm/window.h"

struct treadle_mr;

/*
 * struct treadle_win - a window on part of a peer's region
 * @w:		its pages
 * @listed:	@w was listed (treadle_pm_window_list()), so it holds this object until @w.release
 * @hidden:	window_hide() has run: DESTROY, or the end of the context
 * @filling:	one WINDOW_FILL at a time
 * @status:	a struct treadle_window_status
 * @addr, @len:	the range of the peers' addresses
 * @skip:	offset of its first byte in the first page
 * @access:	TREADLE_ACCESS_REMOTE_* that it was opened for
 * @from:	endpoint of the initiator, held and bound until @hidden; @from_id: its id
 * @to, @mr:	endpoint and region of the owner, held until @w.release
 */
struct treadle_win {
	struct treadle_obj obj;
	struct treadle_pm_window w;
	bool listed, hidden;
	struct mutex filling;
	struct treadle_area status;
	u64 addr, len;
	u32 skip, access, from_id;
	struct treadle_ep *from, *to;
	struct treadle_mr *mr;
};

/*
 * The map of a window's pages is beyond those of all areas: bit 62 of the offset, the id, and 31
 * bits for the byte.
 */
#define TREADLE_WINDOW_BITS   31
#define TREADLE_WINDOW_OFFSET (1ULL << 62)
static_assert(TREADLE_WINDOW_MAX <= 1ULL << TREADLE_WINDOW_BITS);

/*
 * struct treadle_window_info - a window, as it is shown: see Documentation/treadle.yaml
 */
struct treadle_window_info {
	u32 ep, access, pages, present;
	u64 addr, len, taken;
	bool closed;
};

void treadle_window_describe(struct treadle_obj *obj, struct treadle_window_info *info);
int treadle_ioc_window_open(struct treadle_ucmd *u);
int treadle_ioc_window_fill(struct treadle_ucmd *u);

#endif
