// SPDX-License-Identifier: GPL-2.0
/* since 6.13; hrtimer_init() went with 6.15 */
#include <linux/hrtimer.h>
void probe(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *timer));
void probe(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *timer))
{
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}
