// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "xpu.h"

#include <algorithm>
#include <ranges>

#include "endpoint.h"

namespace treadle::fi
{

namespace
{

constexpr std::uint32_t first_cells = 512; /* a page */
constexpr int variables = 1;		   /* of each operation */

/* 0, or why operations of this endpoint can't be triggered from there. */
int check(const Endpoint &endpoint, const fi_trigger_xpu &xpu, fi_log_subsys subsys) noexcept
{
	if (!((endpoint.tx_caps() | endpoint.rx_caps()) & FI_XPU_TRIGGER))
		return REFUSE(-FI_EOPNOTSUPP, subsys,
			      "XPU trigger: the endpoint was not opened with FI_XPU");
	if (xpu.iface != FI_HMEM_SYSTEM)
		return REFUSE(-FI_EOPNOTSUPP, subsys,
			      "XPU trigger: iface %d: only FI_HMEM_SYSTEM, as no memory of "
			      "devices is moved",
			      xpu.iface);
	if (xpu.count < 0 || (xpu.count > 0 && !xpu.var))
		return REFUSE(-FI_EINVAL, subsys, "XPU trigger: %d variables at %p", xpu.count,
			      static_cast<void *>(xpu.var));
	return 0;
}

} // namespace

/* Those whose command has started or was canceled are free again. */
void Cells::collect()
{
	std::deque<Cell> taken;

	for (const Cell &cell : given_)
		(cell.cells->done(cell.index) == cell.value ? free_ : taken).push_back(cell);
	given_.swap(taken);
}

int Cells::grow()
{
	const std::size_t total = free_.size() + given_.size();
	const auto count = std::clamp<std::size_t>(total, first_cells, TREADLE_MAX_CELLS);
	auto more = TriggerCells::create(context_, static_cast<std::uint32_t>(count));

	if (!more)
		return more.error().negative();
	const TriggerCells &cells = cells_.emplace_back(std::move(*more));
	for (std::uint32_t i = 0; i < cells.count(); ++i)
		free_.push_back({&cells, i, 0});
	return 0;
}

std::expected<Cells::Cell, int> Cells::take()
{
	const std::lock_guard guard(lock_);

	if (free_.empty()) {
		collect();
		/* So that there is no need to collect often: half of them are free, then. */
		const int rc = free_.size() <= given_.size() ? grow() : 0;
		if (rc && free_.empty())
			return std::unexpected(rc);
	}
	Cell cell = free_.front();
	cell.value = ++last_;
	given_.push_back(cell);
	free_.pop_front();
	return cell;
}

void Cells::give_back(std::uint64_t value)
{
	const std::lock_guard guard(lock_);
	const auto reversed = std::views::reverse(given_);
	const auto at = std::ranges::find(reversed, value, &Cell::value);

	free_.push_back(*at);
	given_.erase(std::next(at).base());
}

int when_written(Command &command, const Endpoint &endpoint, fi_trigger_xpu &xpu)
{
	if (const int rc = check(endpoint, xpu, FI_LOG_EP_DATA))
		return rc;
	if (xpu.count < variables)
		return REFUSE(-FI_ETOOSMALL, FI_LOG_EP_DATA,
			      "XPU trigger: room for %d variables, %d are needed", xpu.count,
			      variables);
	const auto cell = endpoint.domain().cells().take();
	if (!cell)
		return REFUSE(fabric_error(cell.error()), FI_LOG_EP_DATA, "XPU trigger: no cell");
	fi_trigger_var &var = *xpu.var;
	var.datatype = FI_UINT64;
	var.count = 1;
	var.addr = cell->cells->at(cell->index);
	var.value.val64 = cell->value;
	xpu.count = variables;
	command.when(cell->cells->id(), cell->index, cell->value).at_once();
	return 0;
}

int xpu_variables(const Endpoint &endpoint, void *value, std::size_t *size) noexcept
{
	auto &xpu = *static_cast<fi_trigger_xpu *>(value);
	const std::size_t room = *size;

	*size = sizeof(xpu);
	if (room < sizeof(xpu))
		return -FI_ETOOSMALL;
	if (const int rc = check(endpoint, xpu, FI_LOG_EP_CTRL))
		return rc;
	if (xpu.count) {
		xpu.var->datatype = FI_UINT64;
		xpu.var->count = 1;
	}
	xpu.count = variables;
	return 0;
}

} // namespace treadle::fi
