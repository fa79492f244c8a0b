/* SPDX-License-Identifier: GPL-2.0 */
/* Loading and unloading the module. Unloading shows that nothing uses it any more. */
#ifndef TREADLE_KSELFTEST_MODULE_H
#define TREADLE_KSELFTEST_MODULE_H

#include "support.h"

#include <sys/syscall.h>

/*
 * Loads the module under test (MODULE), or the one beside it with failing allocations; returns
 * -errno.
 */
static inline int module_load(bool fails, const char *parameters)
{
	const char *path = getenv("MODULE");
	char other[256];
	int fd, result;

	need(path && strlen(path) < 200);
	if (fails) {
		int dir = strrchr(path, '/') - path;

		snprintf(other, sizeof(other), "%.*s-fail%s", dir, path, path + dir);
		path = other;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	need(fd >= 0);
	result = syscall(SYS_finit_module, fd, parameters, 0) < 0 ? -errno : 0;
	close(fd);
	return result;
}

static inline void module_unload(void)
{
	__u64 end = now_ns() + PATIENCE_NS;
	int result;

	/*
	 * Tens of thousands of objects are freed in the background. That takes longer than
	 * PATIENCE_NS on a kernel that checks memory.
	 */
	until_unused();
	while ((result = syscall(SYS_delete_module, "treadle", O_NONBLOCK)) < 0 && now_ns() < end)
		usleep(1000);
	need(result == 0);
}

#endif
