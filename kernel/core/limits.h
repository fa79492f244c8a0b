/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: limits (limits.c); set before the first context, never changed afterwards */
#ifndef TREADLE_LIMITS_H
#define TREADLE_LIMITS_H

extern unsigned int treadle_max_objects;  /* of one context */
extern unsigned int treadle_max_ring;	  /* slots of one ring, a power of two */
extern unsigned int treadle_max_cq;	  /* entries of one completion queue, a power of two */
extern unsigned int treadle_max_av;	  /* peers of one address vector */
extern unsigned int treadle_max_armed;	  /* commands armed in one context */
extern unsigned int treadle_max_buffered; /* bytes of messages that one receive ring keeps */

int treadle_limits_init(void);

#endif
