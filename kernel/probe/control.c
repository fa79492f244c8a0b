// SPDX-License-Identifier: GPL-2.0
/* No question: headers that all kernels have. If this fails, nothing can be built. */
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/io_uring_types.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
