/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Opening the device takes the mmap_lock of the process. A page fault through /proc/PID/mem holds
 * that lock as long as the server of a FUSE file withholds the page.
 */
#include "support.h"

#include <liburing.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/mount.h>

#define DEVICE "/dev/treadle"

/* Shared by the test and the file's server. */
struct shared {
	bool asked; /* a page fault holds the mmap_lock */
	bool give;  /* the server may provide the page */
	bool other; /* another request of the ring completed before that */
};

FIXTURE(opening)
{
	struct io_uring ring;
	struct shared *shared;
	char file[32];
	int fuse;
	pid_t server, reader;
	char *slow;
};

FIXTURE_VARIANT(opening)
{
	unsigned int flags;
};
FIXTURE_VARIANT_ADD(opening, submitted){.flags = 0};
/* The polling thread of the ring makes the first attempt. */
FIXTURE_VARIANT_ADD(opening, polled){.flags = IORING_SETUP_SQPOLL};

/* True also after the completion was taken. */
static bool has_completed(const struct io_uring *ring)
{
	return io_uring_smp_load_acquire(ring->cq.ktail);
}

static void withhold(FIXTURE_DATA(opening) * self)
{
	__u64 end = now_ns() + PATIENCE_NS / 4;

	self->shared->asked = true;
	while (!*(volatile bool *)&self->shared->give && !has_completed(&self->ring) &&
	       now_ns() < end)
		usleep(1000);
	self->shared->other = has_completed(&self->ring);
}

/* A file system of one file of one page. */
static void serves(void *arg)
{
	FIXTURE_DATA(opening) *self = arg;
	static char buffer[1 << 20];
	const struct fuse_in_header *in = (void *)buffer;
	ssize_t got;

	while ((got = read(self->fuse, buffer, sizeof(buffer))) >= (ssize_t)sizeof(*in)) {
		struct {
			struct fuse_out_header header;
			union {
				struct fuse_init_out init;
				struct fuse_attr_out attr;
				struct fuse_open_out open;
				char page[PAGE];
			};
		} out = {.header.unique = in->unique};
		size_t len = 0;

		switch (in->opcode) {
		case FUSE_INIT:
			out.init.major = FUSE_KERNEL_VERSION;
			out.init.minor = FUSE_KERNEL_MINOR_VERSION;
			out.init.max_write = PAGE;
			len = sizeof(out.init);
			break;
		case FUSE_GETATTR:
			out.attr.attr_valid = 3600;
			out.attr.attr.ino = FUSE_ROOT_ID;
			out.attr.attr.mode = S_IFREG | 0444;
			out.attr.attr.nlink = 1;
			out.attr.attr.size = PAGE;
			len = sizeof(out.attr);
			break;
		case FUSE_OPEN:
			len = sizeof(out.open);
			break;
		case FUSE_READ:
			withhold(self);
			len = PAGE;
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			continue; /* need no answer */
		default:
			out.header.error = -ENOSYS;
		}
		out.header.len = sizeof(out.header) + len;
		/* ENOENT: the request was interrupted */
		need(write(self->fuse, &out, out.header.len) == out.header.len || errno == ENOENT);
	}
}

/* A fault through /proc/PID/mem holds the mmap_lock while it waits for the page. */
static void reads(void *arg)
{
	FIXTURE_DATA(opening) *self = arg;
	char name[32], c;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/mem", getppid());
	fd = open(name, O_RDONLY);
	need(fd >= 0 && pread(fd, &c, 1, (unsigned long)self->slow) == 1);
}

static void hold_the_lock(FIXTURE_DATA(opening) * self)
{
	__u64 end = now_ns() + PATIENCE_NS;

	self->reader = spawn(reads, self);
	while (!*(volatile bool *)&self->shared->asked) {
		need(now_ns() < end);
		usleep(1000);
	}
}

FIXTURE_SETUP(opening)
{
	char options[80];
	struct stat st;
	int fd;

	system("modprobe -q fuse");
	self->fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (self->fuse < 0) /* the harness goes on to the test also after a SKIP here */
		return;
	ASSERT_EQ(0, io_uring_queue_init(8, &self->ring, variant->flags));
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);
	strcpy(self->file, "/tmp/opening.XXXXXX");
	fd = mkstemp(self->file);
	ASSERT_LE(0, fd);
	close(fd);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100000,user_id=0,group_id=0",
		 self->fuse);
	ASSERT_EQ(0, mount("opening", self->file, "fuse", MS_NOSUID | MS_NODEV, options));
	self->server = spawn(serves, self);
	fd = open(self->file, O_RDONLY);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fstat(fd, &st)); /* looks up the name, and asks for the size */
	ASSERT_EQ(PAGE, st.st_size);
	self->slow = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, self->slow);
	close(fd);
	/* the name is cached from here on, so a first attempt comes to the device */
	fd = open(DEVICE, O_RDWR | O_NONBLOCK);
	ASSERT_LE(0, fd);
	close(fd);
}

#define NEEDS_FUSE(self)                                        \
	do {                                                    \
		if ((self)->fuse < 0)                           \
			SKIP(return, "the kernel has no FUSE"); \
	} while (0)

FIXTURE_TEARDOWN(opening)
{
	if (self->fuse < 0)
		return;
	umount2(self->file, MNT_DETACH);
	unlink(self->file);
	munmap(self->slow, PAGE);
	kill(self->server, SIGKILL);
	reap(self->server);
	io_uring_queue_exit(&self->ring);
}

TEST_F(opening, io_uring_does_not_wait_for_the_mmap_lock_inline)
{
	struct io_uring_sqe *sqe;
	/*
	 * relative to /dev: the file system of / may have to look up a name, which is not done
	 * inline
	 */
	int opened = -1, dev = open("/dev", O_PATH | O_DIRECTORY);

	NEEDS_FUSE(self);
	ASSERT_LE(0, dev);
	hold_the_lock(self);
	sqe = io_uring_get_sqe(&self->ring);
	/* O_NONBLOCK of the process itself does not make the worker's attempt a first one */
	io_uring_prep_openat(sqe, dev, "treadle", O_RDWR | O_NONBLOCK, 0);
	sqe->user_data = 1;
	sqe = io_uring_get_sqe(&self->ring);
	io_uring_prep_nop(sqe);
	sqe->user_data = 2;
	ASSERT_EQ(2, io_uring_submit(&self->ring));
	for (int i = 0; i < 2; i++) {
		struct __kernel_timespec patience = {.tv_sec = PATIENCE_NS / 1000000000};
		struct io_uring_cqe *cqe;

		ASSERT_EQ(0, io_uring_wait_cqe_timeout(&self->ring, &cqe, &patience));
		if (cqe->user_data == 1)
			opened = cqe->res;
		io_uring_cqe_seen(&self->ring, cqe);
	}
	EXPECT_TRUE(self->shared->other);
	EXPECT_LE(0, opened);
	close(opened);
	close(dev);
	EXPECT_EQ(0, reap(self->reader));
}

TEST_F(opening, with_o_nonblock_it_does_not_wait_either)
{
	int fd;

	NEEDS_FUSE(self);
	hold_the_lock(self);
	EXPECT_EQ(-1, open(DEVICE, O_RDWR | O_NONBLOCK));
	EXPECT_EQ(EAGAIN, errno);
	self->shared->give = true;
	EXPECT_EQ(0, reap(self->reader));
	/* The mmap_lock is free, except for calls of this process. */
	fd = open(DEVICE, O_RDWR | O_NONBLOCK);
	EXPECT_LE(0, fd);
	close(fd);
}

TEST_HARNESS_MAIN
