/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: what windows and lanes share: for which processes they are (direct.c) */
#ifndef TREADLE_PATH_DIRECT_H
#define TREADLE_PATH_DIRECT_H

#include "core/endpoint.h"

bool treadle_is_open(const struct treadle_ctx *ctx, const struct treadle_ctx *owner);
struct treadle_ep *treadle_direct_find(struct treadle_ep *from, u8 opcode, u64 peer);

#endif
