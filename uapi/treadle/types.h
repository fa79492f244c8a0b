/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* treadle: types that several structures of the control interface use */
#ifndef UAPI_TREADLE_TYPES_H
#define UAPI_TREADLE_TYPES_H

#include <linux/types.h>

/**
 * struct treadle_map - arguments of mmap(2)
 * @offset: file offset; exact
 * @length: bytes; exact
 *
 * Both are multiples of the kernel's page size (sysconf(_SC_PAGESIZE)). No structure holds that
 * size, as the layout of a map does not depend on it.
 *
 * Maps must be MAP_SHARED. They are not inherited by fork, except those of cells. Closing the
 * object leaves a map in place. Its contents no longer change, except when a command that was
 * under way ends: that may change a ring's `released` and `flags`, and a counter.
 */
struct treadle_map {
	__u64 offset;
	__u64 length;
};

/**
 * struct treadle_addr - the address of an endpoint
 * @family: AF_INET or AF_INET6
 * @port:   network byte order
 * @scope:  IPv6 scope id; kept for link-local addresses only; IPv4: 0
 * @addr:   4 bytes (the rest zero) or 16
 *
 * All addresses of one network namespace share one space of ports: an endpoint that is bound to
 * port p can be reached at every local address with that port.
 */
struct treadle_addr {
	__u16 family;
	__be16 port;
	__u32 scope;
	__u8 addr[16];
};

#endif /* UAPI_TREADLE_TYPES_H */
