/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The random walk of fuzz.c: steps that do to the module's maps anything that can be done to a map,
 * and steps with memory that several processes share. Refusals are checked on maps that no other
 * thread knows.
 */
#ifndef TREADLE_KSELFTEST_FUZZ_MAPS_H
#define TREADLE_KSELFTEST_FUZZ_MAPS_H

#include "fuzz_objects.h"

#include <sys/mman.h>

static const char *const bends[BENDS] = {
	[MOVED] = "a map moved",
	[GROWN] = "a map did not grow",
	[HIDDEN] = "a map shrank",
	[DROPPED] = "a map's pages were dropped",
	[PROTECTED] = "a map was protected",
	[LENT] = "a child had a map",
	[WITHHELD] = "a child did not have a map",
	[LAID] = "a map lay where buffers are",
	[SHARED_IN] = "memory of several processes lay where buffers are",
	[CHANGED] = "another process changed it",
	[OPENED] = "a window was opened",
	[OFFERED] = "a lane was offered",
	[TAKEN] = "a lane was taken",
	[VIEWED] = "a window or a lane lay where buffers are",
};

static void count_bend(enum bend bend)
{
	__atomic_fetch_add(&town->bent[bend], 1, __ATOMIC_RELAXED);
}

/* Whole pages of the arena. */
static char *some_pages(struct walker *w, size_t len)
{
	return w->u->arena + (roll(w, ARENA - len + 1) & -(size_t)PAGE);
}

/*
 * Moves a map over a part of the arena. Nothing is moved away from there: another thread could map
 * something into the hole.
 */
static char *lay(struct walker *w, char *map, size_t len)
{
	char *at = some_pages(w, len);

	return mremap(map, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at ? at : NULL;
}

/* Maps an area again, writable if that is allowed. NULL: its object is gone. */
static char *map_again(struct file *f, const struct treadle_map *m, bool *writable)
{
	char *map;

	*writable = true;
	map = mmap(NULL, m->length, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, m->offset);
	if (map == MAP_FAILED && errno == EACCES) {
		*writable = false;
		map = mmap(NULL, m->length, PROT_READ, MAP_SHARED, f->fd, m->offset);
	}
	return map == MAP_FAILED ? NULL : map;
}

/* --- children ------------------------------------------------------------------------------- */

/* A child inherits @map only if @lent, and its calls get EPERM. */
static void child_looks(char *map, size_t len, bool lent, bool writable, int fd)
{
	struct treadle_query q = {.size = sizeof(q)};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if ((msync(map, len, MS_ASYNC) == 0) != lent)
			_exit(1);
		if (lent && writable) /* the end of a slot, if it is a ring */
			((volatile char *)map)[len - 1] = len;
		_exit(call(fd, TREADLE_IOC_QUERY, &q) != -EPERM);
	}
	if (pid < 0)
		return;
	count_bend(lent ? LENT : WITHHELD);
	/* Other threads may reap it, too. */
	if (waitpid(pid, &status, 0) == pid)
		need(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
}

/* --- the module's maps ------------------------------------------------------------------------ */

static void bends_maps(struct walker *w, struct file *f)
{
	struct treadle_map m = PICK(w, f->area);
	bool writable, lent;
	char *to, *map = map_again(f, &m, &writable);

	if (!map)
		return;
	switch (roll(w, 6)) {
	case 0:
		to = mmap(NULL, m.length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		need(to != MAP_FAILED);
		map = mremap(map, m.length, m.length, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		need(map == to);
		(void)*(volatile char *)map;
		count_bend(MOVED);
		break;
	case 1:
		/* It can be neither grown, nor doubled, nor moved without its pages. */
		need(mremap(map, m.length, m.length + PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
		need(mremap(map, 0, m.length, MREMAP_MAYMOVE) == MAP_FAILED);
		need(mremap(map, m.length, m.length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) ==
		     MAP_FAILED);
		count_bend(GROWN);
		break;
	case 2:
		if (m.length > PAGE) {
			need(mremap(map, m.length, PAGE, 0) == map);
			m.length = PAGE; /* another thread may map something behind it */
			count_bend(HIDDEN);
		}
		break;
	case 3: /* the kernel goes on to use the pages */
		if (madvise(map, m.length, MADV_DONTNEED) == 0)
			count_bend(DROPPED);
		break;
	case 4:
		need(mprotect(map, m.length, PROT_READ | PROT_EXEC) != 0);
		need((mprotect(map, m.length, PROT_READ | PROT_WRITE) == 0) == writable);
		need(mprotect(map, PAGE, PROT_NONE) == 0);
		need(mprotect(map, PAGE, PROT_READ) == 0);
		(void)*(volatile char *)map;
		count_bend(PROTECTED);
		break;
	default:
		lent = one_in(w, 2);
		need(madvise(map, m.length, lent ? MADV_DOFORK : MADV_DONTFORK) == 0);
		child_looks(map, m.length, lent, writable, f->fd);
	}
	munmap(map, m.length);
}

/* Moved into the arena, where commands read and write: so they read and write rings. */
static void lays_maps(struct walker *w, struct file *f)
{
	const struct treadle_map m = PICK(w, f->area);
	bool writable;
	char *at, *map = map_again(f, &m, &writable);

	if (!map || !(at = lay(w, map, m.length)))
		return;
	count_bend(LAID);
	switch (roll(w, 3)) {
	case 0:
		madvise(at, m.length, MADV_DONTNEED);
		break;
	case 1:
		mprotect(at, m.length, PROT_READ);
	}
}

/* --- memory that several processes have ------------------------------------------------------- */

static void shares_memory(struct walker *w, struct file *f)
{
	size_t len = (size_t)PAGE << roll(w, 6), from = roll(w, COMMONS) & -(size_t)PAGE;
	char *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, commons, from);

	(void)f;
	if (map != MAP_FAILED && lay(w, map, len))
		count_bend(SHARED_IN);
}

/*
 * Changes its bytes and its size while other processes copy it. Briefly: a child has its parent's
 * files.
 */
static void changes_commons(__u64 dice)
{
	char *at = mmap(NULL, COMMONS, PROT_READ | PROT_WRITE, MAP_SHARED, commons, 0);

	if (at == MAP_FAILED)
		return;
	for (int i = 0; i < 32; i++) {
		size_t from = lottery(&dice) % COMMONS & -(size_t)PAGE;

		switch (lottery(&dice) % 4) {
		/*
		 * the pages behind it come back empty; a touch meanwhile kills a process, but must
		 * not harm the kernel
		 */
		case 0:
			if (ftruncate(commons, from) || ftruncate(commons, COMMONS))
				return;
			break;
		case 1:
			fallocate(commons, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, 16384);
			break;
		case 2:
			madvise(at + from, PAGE, MADV_DONTNEED);
			break;
		default: /* not by a store, as another process may have cut the file short */
			if (pwrite(commons, &dice, sizeof(dice), from) != sizeof(dice))
				return;
		}
		count_bend(CHANGED);
	}
}

static void others_change_it(struct walker *w, struct file *f)
{
	__u64 dice = roll_any(w);
	pid_t pid = fork();

	(void)f;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		changes_commons(dice);
		_exit(0);
	}
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

#endif
