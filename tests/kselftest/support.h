/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers apart from the ABI: diagnostics, recognizable bytes, other processes, figures from /proc.
 *
 * need() ends a test, or its child, with a line that gives the reason: for set-up, which is not the
 * subject of a test, and for threads and children, which the harness's own EXPECT does not reach.
 */
#ifndef TREADLE_KSELFTEST_SUPPORT_H
#define TREADLE_KSELFTEST_SUPPORT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

/* The stream to which the harness prints a failure: it adds what about() has set. */
static FILE *say_what_about(void);
#define TH_LOG_STREAM say_what_about()
#include "kselftest_harness.h"

/*
 * Seconds. The program's limit is what counts: the runner knows how slow the machine is
 * (tests/run-programs).
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 7200

/* The harness compares the types that it is given, and constants are of type int. */
#pragma GCC diagnostic ignored "-Wsign-compare"

/* The page size that the tests are built for (Makefile): a constant, as tables contain it. */
#ifndef PAGE
#define PAGE 4096
#endif

/* Longer than anything takes on an emulated, busy machine; shorter than a program's limit. */
#define PATIENCE_NS 40000000000LL

/* --- saying ---------------------------------------------------------------- */

/* Prints a line of diagnostics. Unbuffered: a test leaves through _exit(). */
static inline __attribute__((format(printf, 1, 2))) void note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	printf("# ");
	vprintf(fmt, args);
	printf("\n");
	fflush(stdout);
	va_end(args);
}

static char subject[128];

/*
 * Names the case that the following lines check, where a line number does not: the row of a table.
 */
static inline __attribute__((format(printf, 1, 2))) void about(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(subject, sizeof(subject), fmt, args);
	va_end(args);
}

static FILE *say_what_about(void)
{
	if (subject[0])
		fprintf(stderr, "# at %s:\n", subject);
	return stderr;
}

static inline __attribute__((noreturn)) void give_up(const char *file, int line, const char *what)
{
	note("%s:%d: %s (errno %d, %s)%s%s", file, line, what, errno, strerror(errno),
	     subject[0] ? "; at " : "", subject);
	_exit(1);
}

#define need(condition)                                          \
	do {                                                     \
		if (!(condition))                                \
			give_up(__FILE__, __LINE__, #condition); \
	} while (0)

static inline __u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Processor time of this thread, without workers and other load. */
static inline __u64 own_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* --- data ------------------------------------------------------------------ */

/* Bytes that differ from message to message and from place to place. */
static inline __u64 pattern(__u64 seed, __u64 word)
{
	__u64 x = (seed << 32) + word + 0x9e3779b97f4a7c15ULL;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	return x ^ (x >> 27);
}

static inline void fill(void *buf, size_t len, __u64 seed)
{
	char *at = buf;
	__u64 word;

	for (size_t i = 0; i < len; i += sizeof(word)) {
		word = pattern(seed, i);
		memcpy(at + i, &word, len - i < sizeof(word) ? len - i : sizeof(word));
	}
}

/* The first place where @buf is not what fill() wrote, or @len. */
static inline size_t differs(const void *buf, size_t len, __u64 seed)
{
	const char *at = buf;
	__u64 word;

	for (size_t i = 0; i < len; i += sizeof(word)) {
		word = pattern(seed, i);
		if (memcmp(at + i, &word, len - i < sizeof(word) ? len - i : sizeof(word)))
			return i;
	}
	return len;
}

static inline bool same(const void *buf, size_t len, __u64 seed)
{
	return differs(buf, len, seed) == len;
}

static inline bool all_are(const void *buf, size_t len, unsigned char byte)
{
	const unsigned char *at = buf;

	return len == 0 || (at[0] == byte && memcmp(at, at + 1, len - 1) == 0);
}

/* Numbers that look random, and are the same in every run. */
static inline __u32 lottery(__u64 *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

/* New pages with nothing mapped behind them. */
static inline void *pages(size_t len)
{
	size_t rounded = (len + PAGE - 1) & -(size_t)PAGE;
	char *at = mmap(NULL, rounded + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(at != MAP_FAILED);
	need(mprotect(at, rounded, PROT_READ | PROT_WRITE) == 0);
	return at;
}

/* --- processes ------------------------------------------------------------- */

/* Memory that children share with their parent. */
static inline void *shared(size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	need(at != MAP_FAILED);
	return at;
}

/* Runs @fn in a child, which is killed if its parent ends. */
static inline pid_t spawn(void (*fn)(void *), void *arg)
{
	pid_t pid = fork();

	need(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(arg);
		_exit(0);
	}
	return pid;
}

/* A child's exit status, or minus the signal that ended it. */
static inline int reap(pid_t pid)
{
	int status;

	need(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Passes a file to another process over a socket. */
static inline void pass_file(int socket, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS}};
	struct iovec data = {.iov_base = "", .iov_len = 1};
	struct msghdr msg = {.msg_iov = &data,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	need(sendmsg(socket, &msg, 0) == 1);
}

static inline int receive_file(int socket)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &data,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int fd;

	need(recvmsg(socket, &msg, 0) == 1);
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

/* Waits until another process or thread has raised @flag to @value. */
static inline void await(const int *flag, int value)
{
	while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < value)
		sched_yield();
}

static inline void raise_to(int *flag, int value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static inline pthread_t thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	need(pthread_create(&t, NULL, fn, arg) == 0);
	return t;
}

/*
 * The number after @key in a file of /proc or /sys; without @key the first one; -1 if there is
 * none.
 */
static inline long long number_in(const char *path, const char *key)
{
	size_t length = key ? strlen(key) : 0;
	long long value = -1;
	char line[512];
	FILE *file = fopen(path, "re");

	while (file && value < 0 && fgets(line, sizeof(line), file))
		if (!key || strncmp(line, key, length) == 0)
			sscanf(line + length, line[length] == ':' ? ":%lld" : "%lld", &value);
	if (file)
		fclose(file);
	return value;
}

static inline void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	need(fd >= 0 && write(fd, text, strlen(text)) == strlen(text));
	close(fd);
}

/*
 * Waits a moment for pins of other subsystems; and counts per processor are only summed on demand.
 */
static inline bool all_pins_are_released(void)
{
	const __u64 end = now_ns() + PATIENCE_NS;
	long long acquired, released;

	do {
		usleep(10000);
		write_to("/proc/sys/vm/stat_refresh", "1");
		acquired = number_in("/proc/vmstat", "nr_foll_pin_acquired ");
		released = number_in("/proc/vmstat", "nr_foll_pin_released ");
	} while (acquired != released && now_ns() < end);
	note("%lld pages were pinned, %lld released", acquired, released);
	return acquired > 0 && acquired == released;
}

/* Puts this process into a new control group, and returns its directory. */
static inline void cgroup_enter(char dir[64])
{
	char path[128];

	write_to("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	snprintf(dir, 64, "/sys/fs/cgroup/treadle-%d", getpid());
	need(mkdir(dir, 0755) == 0);
	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	write_to(path, "0");
}

/* A group can be removed when the workers of its processes have left it, too. */
static inline bool cgroup_removed(const char *dir)
{
	const __u64 end = now_ns() + PATIENCE_NS;

	while (rmdir(dir) != 0) {
		if (now_ns() >= end)
			return false;
		usleep(1000);
	}
	return true;
}

/* Bytes of kernel memory that are charged to this control group. */
static inline long long cgroup_kernel(const char *dir)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	return number_in(path, "kernel ");
}

/* Modules that use the module: each holds it once. */
static inline int module_users(void)
{
	DIR *dir = opendir("/sys/module/treadle/holders");
	struct dirent *entry;
	int n = 0;

	need(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/*
 * Waits until no process's context uses the module. The end of a context may be seen before its
 * last work is done. A session over treadle_loop has a context on either side.
 */
static inline void until_unused(void)
{
	int sessions = access("/sys/module/treadle_loop", F_OK) ? 0 : 2;

	while (number_in("/sys/module/treadle/refcnt", NULL) > module_users() + sessions)
		usleep(1000);
}

#endif /* TREADLE_KSELFTEST_SUPPORT_H */
