// SPDX-License-Identifier: GPL-2.0
#ifndef TREADLE_TESTS_UNIT_DEVICE_H
#define TREADLE_TESTS_UNIT_DEVICE_H

/*
 * A replacement of /dev/treadle: the library's system calls end here. What it maps is memory at
 * which the test plays the kernel, with the kernel's own ring.h.
 */

#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include <treadle/context.h>
#include <treadle/ring.h>

#include "shim.h"

extern "C" {
#include "core/ring.h"
}

struct Free {
	void operator()(void *pages) const { std::free(pages); }
};
using Area = std::unique_ptr<std::byte, Free>;

/* A command as the kernel read it. */
struct Taken {
	treadle_desc desc;
	treadle_iov iov[TREADLE_MAX_IOV];
	u32 slots;
};

/* The kernel's half of a transmit or receive ring. */
class KernelRing
{
public:
	KernelRing(u32 entries, u32 start);

	/* The next command, if there is one. */
	std::optional<Taken> take();
	/* As a doorbell that refuses a command and leaves it in the ring. */
	void put_back(const Taken &taken) { ring.head -= taken.slots; }
	/* The slots of @taken may be written again. */
	void release(u32 slots)
	{
		const std::lock_guard guard(credit_lock);

		treadle_ring_release(&ring, slots);
	}

	Area rw;
	Area ro;
	treadle_ring ring{};
	std::mutex credit_lock;
};

/* The kernel's half of a completion queue, as in kernel/notify/cq.h. */
class KernelQueue
{
public:
	KernelQueue(u32 entries, u32 start);

	void post(const treadle_cqe &cqe);
	void flush();
	std::size_t kept()
	{
		const std::lock_guard guard(lock);

		return overflow.size();
	}

	Area rw;
	Area ro;

private:
	bool room() const;
	void write(const treadle_cqe &cqe);
	void flush_locked();

	treadle_cq_prod *prod() const { return reinterpret_cast<treadle_cq_prod *>(ro.get()); }

	u32 index;
	u32 mask;
	std::mutex lock;
	std::deque<treadle_cqe> overflow;
};

/* One at a time; contexts come from open(). */
class Device
{
public:
	/* start: the first index of rings */
	explicit Device(u32 start = 0);
	~Device();

	treadle::Context open();

	KernelRing &ring(u32 id) { return *rings[id]; }
	KernelQueue &queue(u32 id) { return *queues[id]; }
	template <class T> KernelRing &ring(const T &object)
	{
		return ring(std::to_underlying(object.id()));
	}
	template <class T> KernelQueue &queue(const T &object)
	{
		return queue(std::to_underlying(object.id()));
	}

	/* What TREADLE_IOC_DOORBELL does, and returns. */
	std::function<int(u32 id)> doorbell = [](u32) { return -ENOTTY; };

	int create(unsigned long request, void *args);

private:
	static constexpr u32 max_objects = 16;

	u32 start;
	u32 ids = 0;
	std::unique_ptr<KernelRing> rings[max_objects];
	std::unique_ptr<KernelQueue> queues[max_objects];
};

#endif
