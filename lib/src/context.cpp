// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/context.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "sys/device.h"
#include "work.h"

namespace treadle
{

/* Armed commands leave the ring at once: this limits a batch, not the number of armed commands. */
constexpr std::uint32_t shared_entries = 256;

template <class Lock> class Context::Ring final : public WorkRing
{
public:
	explicit Ring(BasicTransmitRing<Lock> ring) noexcept : ring_(std::move(ring)) {}

	/* ENOMEM, or the error of the ring. */
	static Result<std::unique_ptr<WorkRing>> create(int fd, std::uint32_t entries) noexcept
	{
		auto ring = BasicTransmitRing<Lock>::create(fd, entries, TREADLE_TX_SHARED);

		if (!ring)
			return std::unexpected(ring.error());
		std::unique_ptr<WorkRing> own(new (std::nothrow) Ring(std::move(*ring)));
		if (!own)
			return std::unexpected(from_errno(ENOMEM));
		return own;
	}

	std::error_code post(const Message &message) noexcept override
	{
		return ring_.post(message, std::span<const treadle_iov>());
	}
	std::error_code post(const Command &command) noexcept override
	{
		return ring_.post(command);
	}
	Posted post_all(std::span<const Command> commands) noexcept override
	{
		return ring_.post_all(commands);
	}

private:
	BasicTransmitRing<Lock> ring_;
};

Context::Context(detail::UniqueFd fd, const treadle_query &limits,
		 std::unique_ptr<WorkRing> ring) noexcept
	: fd_(std::move(fd)), limits_(limits), ring_(std::move(ring))
{
}

/* The limits of an open file, which may be no treadle device. */
static Result<treadle_query> query(int fd) noexcept
{
	treadle_query limits{};

	if (const auto error = sys::checked(fd, TREADLE_IOC_QUERY, limits))
		return std::unexpected(error);
	if (limits.abi_version != TREADLE_ABI_VERSION)
		return std::unexpected(from_errno(EPROTO));
	return limits;
}

Result<treadle_query> Context::query(const char *path) noexcept
{
	const auto fd = detail::UniqueFd::open(path);

	if (!fd)
		return std::unexpected(fd.error());
	return treadle::query(fd->get());
}

Result<Context> Context::open(const char *path, Threads threads) noexcept
{
	auto fd = detail::UniqueFd::open(path);

	if (!fd)
		return std::unexpected(fd.error());
	const auto limits = treadle::query(fd->get());
	if (!limits)
		return std::unexpected(limits.error());

	const std::uint32_t entries = std::min(shared_entries, limits->max_ring);
	auto ring = threads == Threads::any ? Ring<Mutex>::create(fd->get(), entries) :
					      Ring<NoLock>::create(fd->get(), entries);

	if (!ring)
		return std::unexpected(ring.error());
	return Context(std::move(*fd), *limits, std::move(*ring));
}

std::error_code cancel_work(int fd, std::uint32_t id, std::uint64_t threshold,
			    std::uint64_t context) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_CANCEL_WORK;
	args.id = id;
	args.threshold = threshold;
	args.context = context;
	return sys::checked(fd, TREADLE_IOC_CANCEL, args);
}

Result<std::uint64_t> flush_work(int fd, std::uint32_t id) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_FLUSH_WORK;
	args.id = id;
	if (const auto error = sys::checked(fd, TREADLE_IOC_CANCEL, args))
		return std::unexpected(error);
	return args.count;
}

/* No command is armed on a closed object. Its id is 0, which means all objects to the kernel. */
template <class Id> static Result<std::uint64_t> flush_on(int fd, Id id) noexcept
{
	return id == Id{} ? std::unexpected(from_errno(ENOENT)) :
			    flush_work(fd, std::to_underlying(id));
}

std::error_code Context::cancel(CounterId counter, std::uint64_t threshold,
				std::uint64_t context) noexcept
{
	return cancel_work(device(), std::to_underlying(counter), threshold, context);
}

std::error_code Context::cancel(TriggerCellsId cells, std::uint32_t index,
				std::uint64_t context) noexcept
{
	return cancel_work(device(), std::to_underlying(cells), index * sizeof(std::uint64_t),
			   context);
}

Result<std::uint64_t> Context::flush() noexcept
{
	return flush_work(device(), 0);
}

Result<std::uint64_t> Context::flush(CounterId counter) noexcept
{
	return flush_on(device(), counter);
}

Result<std::uint64_t> Context::flush(TriggerCellsId cells) noexcept
{
	return flush_on(device(), cells);
}

} // namespace treadle
