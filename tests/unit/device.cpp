// SPDX-License-Identifier: GPL-2.0
#include "device.h"

#include <cerrno>
#include <cstring>
#include <new>

#include <treadle/ioctl.h>

#include "sys/device.h"

static Device *device;

static Area area(std::size_t bytes)
{
	void *const pages = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (!pages)
		throw std::bad_alloc();
	/* slots have random contents; the owner initializes the page of indices */
	std::memset(pages, 0xee, bytes);
	std::memset(pages, 0, 4096);
	return Area(static_cast<std::byte *>(pages));
}

/* --- descriptors --- */

KernelRing::KernelRing(u32 entries, u32 start)
	: rw(area(TREADLE_SLOTS_OFFSET + std::size_t{entries} * TREADLE_SLOT_SIZE)), ro(area(4096))
{
	ring.user = reinterpret_cast<struct treadle_ring_prod *>(rw.get());
	ring.kern = reinterpret_cast<struct treadle_ring_cons *>(ro.get());
	ring.slots = reinterpret_cast<union treadle_slot *>(rw.get() + TREADLE_SLOTS_OFFSET);
	ring.entries = entries;
	ring.head = start;
	ring.user->prod = start;
	ring.kern->released = start;
}

std::optional<Taken> KernelRing::take()
{
	Taken taken{};
	u32 prod;

	if (ring.broken || !treadle_ring_prod(&ring, &prod)) {
		treadle_ring_break(&ring);
		return {};
	}
	if (ring.head == prod)
		return {};
	treadle_ring_fetch(&ring, ring.head, &taken.desc);
	taken.slots = 1 + (taken.desc.iov_count > 1);
	if (taken.slots > prod - ring.head) {
		treadle_ring_break(&ring);
		return {};
	}
	if (taken.slots > 1)
		std::memcpy(taken.iov, treadle_ring_slot(&ring, ring.head + 1)->iov,
			    sizeof(taken.iov));
	ring.head += taken.slots;
	return taken;
}

/* --- completions --- */

KernelQueue::KernelQueue(u32 entries, u32 start)
	: rw(area(4096)), ro(area(TREADLE_SLOTS_OFFSET + entries * sizeof(treadle_cqe))),
	  index(start), mask(entries - 1)
{
	reinterpret_cast<treadle_cq_cons *>(rw.get())->cons = start;
	prod()->prod = start;
}

bool KernelQueue::room() const
{
	const auto *const user = reinterpret_cast<const treadle_cq_cons *>(rw.get());

	return index - smp_load_acquire(&user->cons) <= mask; /* E */
}

void KernelQueue::write(const treadle_cqe &cqe)
{
	reinterpret_cast<treadle_cqe *>(ro.get() + TREADLE_SLOTS_OFFSET)[index & mask] = cqe;
	index++;
	smp_store_release(&prod()->prod, index); /* D */
}

void KernelQueue::flush_locked()
{
	while (!overflow.empty() && room()) {
		write(overflow.front());
		overflow.pop_front();
	}
	if (overflow.empty())
		WRITE_ONCE(prod()->flags, 0u);
}

void KernelQueue::flush()
{
	const std::lock_guard guard(lock);

	flush_locked();
}

void KernelQueue::post(const treadle_cqe &cqe)
{
	const std::lock_guard guard(lock);

	if (!overflow.empty())
		flush_locked();
	if (overflow.empty() && room()) {
		write(cqe);
		return;
	}
	overflow.push_back(cqe);
	WRITE_ONCE(prod()->flags, TREADLE_CQ_OVERFLOW);
}

/* --- the device --- */

Device::Device(u32 start) : start(start)
{
	device = this;
}

Device::~Device()
{
	device = nullptr;
}

treadle::Context Device::open()
{
	return std::move(treadle::Context::open("/dev/null").value());
}

/* The offset of a map is its address. */
static treadle_map map_of(const Area &area)
{
	return {.offset = treadle::address_of(area.get()), .length = 0};
}

int Device::create(unsigned long request, void *args)
{
	if (++ids >= max_objects)
		return -ENOSPC;
	if (request == TREADLE_IOC_CQ_CREATE) {
		auto &cq = *static_cast<treadle_cq_create *>(args);

		queues[ids] = std::make_unique<KernelQueue>(cq.entries, start);
		cq.id = ids;
		cq.rw = map_of(queues[ids]->rw);
		cq.ro = map_of(queues[ids]->ro);
	} else {
		auto &ring = *static_cast<treadle_ring_create *>(args);

		rings[ids] = std::make_unique<KernelRing>(ring.entries, start);
		ring.id = ids;
		ring.rw = map_of(rings[ids]->rw);
		ring.ro = map_of(rings[ids]->ro);
	}
	return 0;
}

/* --- the functions of lib/src/sys --- */

/* The doorbell, which the library's headers ring. */
extern "C" off_t lseek(int, off_t id, int) noexcept
{
	const int rc = device->doorbell(static_cast<std::uint32_t>(id));

	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}

namespace treadle
{

int sys::ioctl(int, unsigned long request, void *arg) noexcept
{
	switch (request) {
	case TREADLE_IOC_QUERY:
		static_cast<treadle_query *>(arg)->abi_version = TREADLE_ABI_VERSION;
		return 0;
	case TREADLE_IOC_TX_CREATE:
	case TREADLE_IOC_RX_CREATE:
	case TREADLE_IOC_CQ_CREATE:
		return device->create(request, arg);
	default:
		return -ENOTTY;
	}
}

int sys::ioctl(int, unsigned long, std::uint32_t) noexcept
{
	return -ENOTTY; /* SIGNAL */
}

/* Objects live as long as the device. */
std::error_code sys::destroy(int, std::uint32_t) noexcept
{
	return from_errno(0);
}

struct detail::Mapping::Node {
	std::byte *addr;
};

detail::Mapping::Mapping() noexcept = default;
detail::Mapping::Mapping(Mapping &&) noexcept = default;
detail::Mapping &detail::Mapping::operator=(Mapping &&) noexcept = default;
detail::Mapping::~Mapping() = default;

Result<detail::Mapping> detail::Mapping::create(int, const treadle_map &map, Access,
						std::uint32_t) noexcept
{
	Mapping mapping;

	mapping.node_ = std::make_unique<Node>(reinterpret_cast<std::byte *>(map.offset));
	return mapping;
}

std::byte *detail::Mapping::data() const noexcept
{
	return node_->addr;
}

} // namespace treadle
