// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/trigger_cells.h>

#include <tuple>

#include <treadle/context.h>

#include "sys/device.h"

namespace treadle
{

TriggerCells::TriggerCells(int device, std::uint32_t id, std::uint32_t count, detail::Mapping cells,
			   detail::Mapping done) noexcept
	: Object(device, id), count_(count),
	  cells_(reinterpret_cast<std::uint64_t *>(cells.data())),
	  done_(reinterpret_cast<const __u64 *>(done.data())), cells_map_(std::move(cells)),
	  done_map_(std::move(done))
{
}

Result<TriggerCells> TriggerCells::create(const Context &context, std::uint32_t count) noexcept
{
	const int device = context.device();
	treadle_cell_create args{};

	args.count = count;
	if (const auto error = sys::checked(device, TREADLE_IOC_CELL_CREATE, args))
		return std::unexpected(error);

	auto cells = detail::Mapping::create(device, args.rw, detail::Access::write);
	auto done = detail::Mapping::create(device, args.ro, detail::Access::read);

	if (cells && done)
		return TriggerCells(device, args.id, args.count, std::move(*cells),
				    std::move(*done));
	std::ignore = sys::destroy(device, args.id);
	return std::unexpected(cells ? done.error() : cells.error());
}

} // namespace treadle
