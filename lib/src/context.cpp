// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/context.h>

#include <cerrno>
#include <new>
#include <utility>

#include "sys/device.h"
#include "work.h"

namespace treadle
{

/* Armed commands leave the ring at once, so this bounds a batch, not what is armed. */
constexpr std::uint32_t shared_entries = 256;

Context::Context(detail::UniqueFd fd, const treadle_query &limits,
		 std::unique_ptr<SharedTransmitRing> ring) noexcept
	: fd_(std::move(fd)), limits_(limits), ring_(std::move(ring))
{
}

Result<Context> Context::open(const char *path) noexcept
{
	auto fd = detail::UniqueFd::open(path);
	treadle_query limits{};

	if (!fd)
		return std::unexpected(fd.error());
	if (const auto ok = sys::checked(fd->get(), TREADLE_IOC_QUERY, limits); !ok)
		return std::unexpected(ok.error());
	if (limits.abi_version != TREADLE_ABI_VERSION)
		return std::unexpected(Errno(EPROTO));

	auto ring = SharedTransmitRing::create(fd->get(), shared_entries, TREADLE_TX_SHARED);

	if (!ring)
		return std::unexpected(ring.error());
	std::unique_ptr<SharedTransmitRing> own(new (std::nothrow)
							SharedTransmitRing(std::move(*ring)));
	if (!own)
		return std::unexpected(Errno(ENOMEM));
	return Context(std::move(*fd), limits, std::move(own));
}

int cancel_work(int fd, std::uint32_t id, std::uint64_t threshold, std::uint64_t context) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_CANCEL_WORK;
	args.id = id;
	args.threshold = threshold;
	args.context = context;
	return sys::call(fd, TREADLE_IOC_CANCEL, args);
}

Result<std::uint64_t> flush_work(int fd, std::uint32_t id) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_FLUSH_WORK;
	args.id = id;
	if (const auto ok = sys::checked(fd, TREADLE_IOC_CANCEL, args); !ok)
		return std::unexpected(ok.error());
	return args.count;
}

/* Of what is closed nothing is armed; but 0 means all to the kernel. */
template <class Id> static Result<std::uint64_t> flush_on(int fd, Id id) noexcept
{
	return id == Id{} ? std::unexpected(Errno(ENOENT)) : flush_work(fd, std::to_underlying(id));
}

int Context::cancel(CounterId counter, std::uint64_t threshold, std::uint64_t context) noexcept
{
	return cancel_work(fd(), std::to_underlying(counter), threshold, context);
}

int Context::cancel(TriggerCellsId cells, std::uint32_t index, std::uint64_t context) noexcept
{
	return cancel_work(fd(), std::to_underlying(cells), index * sizeof(std::uint64_t), context);
}

Result<std::uint64_t> Context::flush() noexcept
{
	return flush_work(fd(), 0);
}

Result<std::uint64_t> Context::flush(CounterId counter) noexcept
{
	return flush_on(fd(), counter);
}

Result<std::uint64_t> Context::flush(TriggerCellsId cells) noexcept
{
	return flush_on(fd(), cells);
}

} // namespace treadle
