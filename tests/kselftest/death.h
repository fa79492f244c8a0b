/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers for tests of processes that die. */
#ifndef TREADLE_KSELFTEST_DEATH_H
#define TREADLE_KSELFTEST_DEATH_H

#include "treadle.h"

/* Shared by the test and the process that is to die. */
struct meeting {
	struct treadle_addr addr[2];
	int ready, go;
	int posts;  /* receives that the victim posts */
	size_t len; /* of each message that it sends */
	int sends;  /* how many */
	pid_t victim;
	void *at; /* in the victim's memory, */
	int file; /* the userfaultfd for it */
};

static inline void kill_and_reap(pid_t pid)
{
	need(kill(pid, SIGKILL) == 0);
	need(reap(pid) == -SIGKILL);
}

#endif
