/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two nodes in one kernel: network namespaces that treadle_loop joins (tests/loop). A process opens
 * contexts in both, so it can be both sides of a test.
 */
#ifndef TREADLE_KSELFTEST_LOOP_H
#define TREADLE_KSELFTEST_LOOP_H

#include "../treadle.h"

#include <net/if.h>
#include <sys/syscall.h>

#define LOOP_DEVICE "/dev/treadle_loop"

/* All nodes close, and nothing is left of them. */
static inline int loop_unload(void)
{
	return syscall(SYS_delete_module, "treadle_loop", O_NONBLOCK) < 0 ? -errno : 0;
}

/*
 * Loads treadle_loop, which lies beside the module under test, or beside its variant @suffix. A
 * test that failed has left it.
 */
static inline void loop_load_of(const char *suffix)
{
	const char *path = getenv("MODULE");
	char loop[256];
	int fd, dir;

	need(path && strlen(path) < 200);
	dir = strrchr(path, '/') - path;
	snprintf(loop, sizeof(loop), "%.*s%s-loop/treadle_loop.ko", dir, path, suffix);
	fd = open(loop, O_RDONLY | O_CLOEXEC);
	need(fd >= 0);
	loop_unload();
	need(syscall(SYS_finit_module, fd, "", 0) == 0);
	close(fd);
}

static inline void loop_load(void)
{
	loop_load_of("");
}

/* Returns 0 or -errno. */
static inline __attribute__((format(printf, 1, 2))) int loop(const char *fmt, ...)
{
	int fd = open(LOOP_DEVICE, O_WRONLY | O_CLOEXEC), result = 0;
	char text[256];
	va_list args;

	need(fd >= 0);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (write(fd, text, strlen(text)) < 0)
		result = -errno;
	close(fd);
	return result;
}

static inline long long loop_count(const char *what)
{
	return number_in(LOOP_DEVICE, what);
}

/* An address of the side: 10.0.0.1 or 10.0.0.2, or another number. */
static inline struct treadle_addr at(int side)
{
	return (struct treadle_addr){.family = AF_INET, .addr = {10, 0, 0, side}};
}

/* Gives lo of this network namespace a second address, and no other one, and lets it work. */
static inline void give_address(struct treadle_addr addr)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct ifreq req = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	need(fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &req) == 0);
	req.ifr_flags |= IFF_UP;
	need(ioctl(fd, SIOCSIFFLAGS, &req) == 0);
	strcpy(req.ifr_name, "lo:1");
	memcpy(&in.sin_addr, addr.addr, 4);
	memcpy(&req.ifr_addr, &in, sizeof(in));
	need(ioctl(fd, SIOCSIFADDR, &req) == 0);
	in.sin_addr.s_addr = INADDR_BROADCAST;
	memcpy(&req.ifr_netmask, &in, sizeof(in));
	need(ioctl(fd, SIOCSIFNETMASK, &req) == 0);
	close(fd);
}

/* Network namespaces: [0] is the first one of the machine, [1] and [2] have nodes. */
static int spaces[3] = {-1, -1, -1};

static inline void enter(int side)
{
	need(setns(spaces[side], CLONE_NEWNET) == 0);
}

/* Makes two network namespaces, and a node in each, and returns to the first one. */
static inline void join(const char *options1, const char *options2)
{
	spaces[0] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	need(spaces[0] >= 0);
	loop_load();
	for (int side = 1; side <= 2; side++) {
		need(unshare(CLONE_NEWNET) == 0);
		spaces[side] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		need(spaces[side] >= 0);
		give_address(at(side));
		need(loop("listen 10.0.0.%d %s", side, side == 1 ? options1 : options2) == 0);
	}
	enter(0);
}

/* A context of a side */
static inline int device_of(int side)
{
	int fd;

	enter(side);
	fd = device();
	enter(0);
	return fd;
}

/* An endpoint of a side */
static inline void node_of(int side, struct node *n, struct options o)
{
	if (!o.context)
		o.context = device_of(side);
	if (!o.addr.family)
		o.addr = at(side);
	node_open(n, o);
}

static inline void part(void)
{
	need(loop_unload() == 0);
	for (int i = 0; i < 3; i++)
		close(spaces[i]);
}

#endif
