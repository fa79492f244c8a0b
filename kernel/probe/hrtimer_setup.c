// SPDX-License-Identifier: GPL-2.0
/* Since 6.13 there is hrtimer_setup(); 6.15 has removed hrtimer_init(). */
#include <linux/hrtimer.h>
void probe(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *timer));
void probe(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *timer))
{
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}
