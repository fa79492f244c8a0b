// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_OBJECT_H
#define TREADLE_OBJECT_H

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <tuple>
#include <utility>

#include <unistd.h>

#include <treadle/detail/fd.h>
#include <treadle/ioctl.h>
#include <treadle/result.h>
#include <treadle/time.h>

namespace treadle
{

/* Numbers of objects in their context. A zero of any kind stands for "none". */
enum class TransmitRingId : std::uint32_t {};
enum class ReceiveRingId : std::uint32_t {};
enum class CompletionQueueId : std::uint32_t {};
enum class CounterId : std::uint32_t {};
enum class AddressVectorId : std::uint32_t {};
enum class MemoryRegionId : std::uint32_t {};
enum class EndpointId : std::uint32_t {};
enum class EventQueueId : std::uint32_t {};
enum class TriggerCellsId : std::uint32_t {};
/* A connection request of a peer; known to all contexts of the process that got it. */
enum class RequestId : std::uint32_t {};

namespace detail
{

/* One object of a context: owns the number, borrows the context, which must outlive it. */
class TREADLE_API Handle
{
public:
	Handle(const Handle &) = delete;
	Handle &operator=(const Handle &) = delete;

	/*
	 * Destroys the object now, for callers that must know the result. No error, also if it was
	 * closed before; EBUSY: another object is bound to it, and it lives on. The destructor does
	 * the same and can't report.
	 */
	[[nodiscard]] std::error_code close() noexcept;

	/* The open file of the context, for ioctl(2). */
	int device() const noexcept { return device_; }

protected:
	constexpr Handle(int device, std::uint32_t id) noexcept : device_(device), id_(id) {}
	Handle(Handle &&other) noexcept : device_(other.device_), id_(std::exchange(other.id_, 0))
	{
	}
	Handle &operator=(Handle &&other) noexcept
	{
		if (this != &other) {
			std::ignore = close();
			device_ = other.device_;
			id_ = std::exchange(other.id_, 0);
		}
		return *this;
	}
	~Handle() { std::ignore = close(); }

	/* While another thread closes the object, this is its number or 0. */
	std::uint32_t number() const noexcept
	{
		return std::atomic_ref(const_cast<std::uint32_t &>(id_))
			.load(std::memory_order_relaxed);
	}

	/*
	 * TREADLE_IOC_DOORBELL by the shortest way. It is the only system call of the data path,
	 * and therefore the only one outside lib/src/sys.
	 */
	int doorbell() const noexcept
	{
		const off_t rc = ::lseek(device_, number(), SEEK_SET);

		return rc < 0 ? -errno : static_cast<int>(rc);
	}
	/* TREADLE_IOC_WAIT; id, size and timeout are filled in. */
	std::error_code wait(Timeout timeout, treadle_wait args = {}) const noexcept;
	std::error_code signal() const noexcept;
	/* TREADLE_IOC_WAIT_FD, once. */
	Result<int> fd(WaitFd &file) const noexcept;

private:
	int device_;
	std::uint32_t id_;
};

} // namespace detail

/*
 * Base of every object of a context. Ids of different kinds are different types. An object that was
 * moved from may be destroyed, assigned to, closed and asked for its id; nothing else.
 */
template <class Id> class Object : public detail::Handle
{
public:
	/* For Bindings and Command. Zero once the object was closed or moved from. */
	Id id() const noexcept { return Id{number()}; }

protected:
	using Handle::Handle;
};

} // namespace treadle

#endif
