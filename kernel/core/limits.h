/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: limits (limits.c); but for `direct`, set before the first context and never changed */
#ifndef TREADLE_LIMITS_H
#define TREADLE_LIMITS_H

#include <linux/types.h>

extern unsigned int treadle_max_objects;  /* of one context */
extern unsigned int treadle_max_ring;	  /* slots of one ring, a power of two */
extern unsigned int treadle_max_cq;	  /* entries of one completion queue, a power of two */
extern unsigned int treadle_max_av;	  /* peers of one address vector */
extern unsigned int treadle_max_armed;	  /* commands armed in one context */
extern unsigned int treadle_max_buffered; /* bytes of messages that one receive ring keeps */
extern unsigned int treadle_max_windows;  /* of one context */
extern unsigned int treadle_max_lanes;	  /* of one context that sends, and of one receive ring */
extern bool treadle_direct; /* windows and lanes can be opened; may change at any time */

int treadle_limits_init(void);

#endif
