/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* treadle: what several structures of the control interface are made of */
#ifndef UAPI_TREADLE_TYPES_H
#define UAPI_TREADLE_TYPES_H

#include <linux/types.h>

/**
 * struct treadle_map - what to give mmap(2)
 * @offset: file offset; exact
 * @length: bytes; exact
 *
 * Both are multiples of the kernel's page size (sysconf(_SC_PAGESIZE)), which no structure
 * tells: where things lie in a map does not depend on it.
 *
 * Maps must be MAP_SHARED; but for cells they are not inherited by fork. Closing the object
 * leaves a map in place; its contents no longer change, but for a ring's `released`
 * and `flags`, and a counter, when a command that was under way ends.
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
 * All addresses of one network namespace share one space of ports: an endpoint
 * bound to port p is reached by every local address with that port.
 */
struct treadle_addr {
	__u16 family;
	__be16 port;
	__u32 scope;
	__u8 addr[16];
};

#endif /* UAPI_TREADLE_TYPES_H */
