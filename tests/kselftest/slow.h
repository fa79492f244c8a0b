/* SPDX-License-Identifier: GPL-2.0 */
/* Pages that appear only when a test provides them, or never. */
#ifndef TREADLE_KSELFTEST_SLOW_H
#define TREADLE_KSELFTEST_SLOW_H

#include "support.h"

#include <linux/userfaultfd.h>
#include <sys/syscall.h>

static inline int slow_pages(char *at, size_t len)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.range = {(unsigned long)at, len},
				      .mode = UFFDIO_REGISTER_MODE_MISSING};

	need(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	need(ioctl(fd, UFFDIO_REGISTER, &reg) == 0);
	return fd;
}

/* Waits for a page fault; returns the address of its page. */
static inline __u64 page_asked_for(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct uffd_msg msg;

	need(poll(&p, 1, PATIENCE_NS / 1000000) == 1);
	need(read(fd, &msg, sizeof(msg)) == sizeof(msg) && msg.event == UFFD_EVENT_PAGEFAULT);
	return msg.arg.pagefault.address & -(__u64)PAGE;
}

static inline void put_page_at(int fd, __u64 at, __u64 seed)
{
	char page[PAGE] __attribute__((aligned(PAGE)));
	struct uffdio_copy copy = {.dst = at, .src = (unsigned long)page, .len = sizeof(page)};

	fill(page, sizeof(page), seed);
	need(ioctl(fd, UFFDIO_COPY, &copy) == 0 || errno == EEXIST);
}

/* Waits for a page fault, and provides the page. */
static inline void give_page(int fd, __u64 seed)
{
	put_page_at(fd, page_asked_for(fd), seed);
}

/* Takes the pages away: whatever waits for one looks again, and finds nothing mapped. */
static inline void take_pages_away(int fd, char *at, size_t len)
{
	struct uffdio_range range = {(unsigned long)at, len};

	need(munmap(at, len) == 0);
	need(ioctl(fd, UFFDIO_WAKE, &range) == 0);
}

#endif
