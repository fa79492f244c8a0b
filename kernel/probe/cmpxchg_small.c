// SPDX-License-Identifier: GPL-2.0
/* cmpxchg() takes 1 and 2 bytes; on riscv of 6.1 it takes only 4 and 8 */
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
