/* SPDX-License-Identifier: GPL-2.0 */
/* Since 6.13 a timer and its function are set up at once; since 6.15 there is no other way. */
#include <linux/hrtimer.h>

static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *timer),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#define hrtimer_init(timer, clock, mode) hrtimer_init_is_gone(timer)
