/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: making, enabling and ending endpoints (endpoint.c, cancel.c) */
#ifndef TREADLE_EP_ENDPOINT_H
#define TREADLE_EP_ENDPOINT_H

#include "path/path.h"

bool treadle_ep_try_quiesce(struct treadle_ep *ep);
int treadle_ep_quiesce(struct treadle_ep *ep, struct treadle_run *run);
void treadle_ep_close(struct treadle_ep *ep);
void treadle_ep_shutdown(struct treadle_ep *ep, struct treadle_run *run);
void treadle_ep_init(struct treadle_ep *ep, u32 type);
void treadle_ep_hide(struct treadle_obj *obj, struct treadle_run *run);
void treadle_ep_stop(struct treadle_obj *obj, struct treadle_run *run);
void treadle_ep_fini(struct treadle_ep *ep);

int treadle_ioc_ep_create(struct treadle_ucmd *u);
int treadle_ioc_ep_enable(struct treadle_ucmd *u);
int treadle_ioc_cancel(struct treadle_ucmd *u);

#endif
