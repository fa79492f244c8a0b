// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/counter.h>

#include <treadle/context.h>

#include "sys/device.h"

namespace treadle
{

Counter::Counter(int fd, std::uint32_t id, detail::Mapping page, WorkRing &ring) noexcept
	: Object(fd, id), page_(reinterpret_cast<const treadle_cntr_page *>(page.data())),
	  ring_(&ring), map_(std::move(page))
{
}

Result<Counter> Counter::create(Context &context, Unit unit) noexcept
{
	return create(context.fd(), context.ring(), unit);
}

Result<Counter> Counter::create(int fd, WorkRing &ring, Unit unit) noexcept
{
	treadle_cntr_create args{};

	args.flags = static_cast<std::uint32_t>(unit);
	if (const auto ok = sys::checked(fd, TREADLE_IOC_CNTR_CREATE, args); !ok)
		return std::unexpected(ok.error());

	auto page = detail::Mapping::create(fd, args.ro, detail::Access::read);

	if (page)
		return Counter(fd, args.id, std::move(*page), ring);
	sys::destroy(fd, args.id);
	return std::unexpected(page.error());
}

int Counter::change(std::uint8_t opcode, std::uint32_t flags, std::uint64_t value) noexcept
{
	return ring_->post({.opcode = opcode, .flags = flags, .peer = number(), .data = value});
}

int Counter::add(std::uint64_t value) noexcept
{
	return change(TREADLE_OP_CNTR_ADD, 0, value);
}

int Counter::set(std::uint64_t value) noexcept
{
	return change(TREADLE_OP_CNTR_SET, 0, value);
}

int Counter::add_error(std::uint64_t value) noexcept
{
	return change(TREADLE_OP_CNTR_ADD, TREADLE_F_CNTR_ERROR, value);
}

int Counter::set_error(std::uint64_t value) noexcept
{
	return change(TREADLE_OP_CNTR_SET, TREADLE_F_CNTR_ERROR, value);
}

} // namespace treadle
