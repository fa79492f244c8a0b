// SPDX-License-Identifier: GPL-2.0
/* riscv of 6.1 has none of less than 4 bytes */
#include <linux/atomic.h>
#include <linux/types.h>

u8 probe8(u8 *at);
u8 probe8(u8 *at)
{
	return cmpxchg(at, 1, 2);
}

u16 probe16(u16 *at);
u16 probe16(u16 *at)
{
	return cmpxchg(at, 1, 2);
}
