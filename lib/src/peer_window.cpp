// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/peer_window.h>

#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include <unistd.h>

#include <treadle/context.h>

#include "sys/device.h"

namespace treadle
{

Window::Window(int device, std::uint32_t id, detail::Mapping data, detail::Mapping status,
	       const treadle_window_open &is) noexcept
	: Object(device, id), first_(data.data() + is.skip),
	  status_(reinterpret_cast<const treadle_window_status *>(status.data())), addr_(is.addr),
	  size_(is.len), skip_(is.skip), access_(is.access),
	  page_shift_(static_cast<std::uint8_t>(
		  std::countr_zero(static_cast<unsigned long>(sysconf(_SC_PAGESIZE))))),
	  atomic_(is.flags & TREADLE_WINDOW_ATOMIC), data_(std::move(data)),
	  status_map_(std::move(status))
{
}

Result<Window> Window::open(const Context &context, EndpointId endpoint, Peer peer, Remote from,
			    std::uint64_t len, std::uint32_t access) noexcept
{
	treadle_window_open args{};

	args.ep = std::to_underlying(endpoint);
	args.access = access;
	args.peer = std::to_underlying(peer);
	args.key = from.key;
	args.addr = from.addr;
	args.len = len;
	if (const auto error = sys::checked(context.device(), TREADLE_IOC_WINDOW_OPEN, args))
		return std::unexpected(error);
	auto data = detail::Mapping::create(context.device(), args.data,
					    access & TREADLE_ACCESS_REMOTE_WRITE ?
						    detail::Access::write :
						    detail::Access::read);
	auto status = detail::Mapping::create(context.device(), args.ro, detail::Access::read);
	if (!data || !status) {
		std::ignore = sys::destroy(context.device(), args.id);
		return std::unexpected(!data ? data.error() : status.error());
	}
	return Window(context.device(), args.id, std::move(*data), std::move(*status), args);
}

std::error_code Window::fill(std::uint64_t addr, std::uint64_t len) noexcept
{
	treadle_window_fill args{};

	args.window = number();
	args.addr = addr;
	args.len = len;
	return sys::checked(device(), TREADLE_IOC_WINDOW_FILL, args);
}

bool Window::present_all(std::uint64_t first, std::uint64_t last) const noexcept
{
	for (std::uint64_t page = first; page <= last; ++page) {
		if (!(load(status_->present[page / 64], std::memory_order_relaxed) >> (page % 64) &
		      1))
			return false;
	}
	return true;
}

/* Buffers may overlap: the peer may be this process. */
void Window::copy_any(void *to, const void *from, std::uint64_t len) noexcept
{
	switch (len) {
	case 1:
		std::memcpy(to, from, 1);
		return;
	case 2:
		std::memcpy(to, from, 2);
		return;
	case 4:
		std::memcpy(to, from, 4);
		return;
	default:
		std::memmove(to, from, len);
	}
}

} // namespace treadle
