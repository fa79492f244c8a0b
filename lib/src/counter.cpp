// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/counter.h>

#include <cerrno>
#include <tuple>
#include <utility>

#include <treadle/context.h>

#include "sys/device.h"

namespace treadle
{

namespace
{

std::uint64_t cell_offset(std::uint32_t index) noexcept
{
	return index * sizeof(std::uint64_t);
}

} // namespace

Counter::Counter(int device, std::uint32_t id, detail::Mapping page, WorkRing &ring) noexcept
	: Object(device, id), page_(reinterpret_cast<const treadle_cntr_page *>(page.data())),
	  ring_(&ring), map_(std::move(page))
{
}

Result<Counter> Counter::create(Context &context, Unit unit) noexcept
{
	return create(context.device(), context.ring(), unit);
}

Result<Counter> Counter::create(int device, WorkRing &ring, Unit unit) noexcept
{
	treadle_cntr_create args{};

	args.flags = static_cast<std::uint32_t>(unit);
	if (const auto error = sys::checked(device, TREADLE_IOC_CNTR_CREATE, args))
		return std::unexpected(error);

	auto page = detail::Mapping::create(device, args.ro, detail::Access::read);

	if (page)
		return Counter(device, args.id, std::move(*page), ring);
	std::ignore = sys::destroy(device, args.id);
	return std::unexpected(page.error());
}

std::error_code Counter::change(std::uint8_t opcode, std::uint32_t flags,
				std::uint64_t value) noexcept
{
	return ring_->post({.opcode = opcode, .flags = flags, .peer = number(), .data = value});
}

std::error_code Counter::add(std::uint64_t value) noexcept
{
	return change(TREADLE_OP_CNTR_ADD, 0, value);
}

std::error_code Counter::set(std::uint64_t value) noexcept
{
	return change(TREADLE_OP_CNTR_SET, 0, value);
}

std::error_code Counter::add_error(std::uint64_t value) noexcept
{
	return change(TREADLE_OP_CNTR_ADD, TREADLE_F_CNTR_ERROR, value);
}

std::error_code Counter::set_error(std::uint64_t value) noexcept
{
	return change(TREADLE_OP_CNTR_SET, TREADLE_F_CNTR_ERROR, value);
}

/* The command is named by the counter, as others may follow the same cell. */
std::error_code Counter::follow(TriggerCellsId cells, std::uint32_t index,
				std::uint64_t total) noexcept
{
	return ring_->post(Command::add(id(), 0)
				   .work()
				   .when(cells, index, total)
				   .flags(TREADLE_F_REPEAT)
				   .context(number()));
}

std::error_code Counter::unfollow(TriggerCellsId cells, std::uint32_t index) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_CANCEL_WORK;
	args.id = std::to_underlying(cells);
	args.threshold = cell_offset(index);
	args.context = number();
	return sys::checked(device(), TREADLE_IOC_CANCEL, args);
}

/* cells: 0 ends the copy. */
std::error_code Counter::copy(std::uint32_t cells, std::uint64_t offset) noexcept
{
	treadle_cntr_copy args{};

	args.cntr = number();
	args.cells = cells;
	args.offset = offset;
	return sys::checked(device(), TREADLE_IOC_CNTR_COPY, args);
}

std::error_code Counter::copy_to(TriggerCellsId cells, std::uint32_t index) noexcept
{
	/* closed cells have no number, which would end the copy */
	return cells == TriggerCellsId{} ? from_errno(ENOENT) :
					   copy(std::to_underlying(cells), cell_offset(index));
}

std::error_code Counter::end_copy() noexcept
{
	return copy(0, 0);
}

} // namespace treadle
