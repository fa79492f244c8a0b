// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "endpoint/xpu.h"

#include "endpoint/endpoint.h"

namespace treadle::fi
{

namespace
{

constexpr int variables = 1; /* for each operation */

/* Returns 0, or -errno if operations of this endpoint can't be triggered. */
int check(const Endpoint &endpoint, const fi_trigger_xpu &xpu, fi_log_subsys subsys) noexcept
{
	if (!endpoint.can_trigger(FI_XPU_TRIGGER))
		return REFUSE(-FI_EOPNOTSUPP, subsys,
			      "XPU trigger: the endpoint was not opened with FI_XPU");
	if (xpu.count < 0 || (xpu.count > 0 && !xpu.var))
		return REFUSE(-FI_EINVAL, subsys, "XPU trigger: %d variables at %p", xpu.count,
			      static_cast<void *>(xpu.var));
	return 0;
}

} // namespace

int when_written(Command &command, const Endpoint &endpoint, fi_trigger_xpu &xpu)
{
	if (const int rc = check(endpoint, xpu, FI_LOG_EP_DATA))
		return rc;
	if (xpu.count < variables)
		return REFUSE(-FI_ETOOSMALL, FI_LOG_EP_DATA,
			      "XPU trigger: room for %d variables, %d are needed", xpu.count,
			      variables);
	const auto cell = endpoint.domain().cells().take(Xpu(xpu));
	if (!cell) /* the limit of objects: waiting for armed commands would not help */
		return REFUSE(cell.error() == -ENOSPC ? -FI_ENOMEM : fabric_error(cell.error()),
			      FI_LOG_EP_DATA, "XPU trigger: no cell");
	fi_trigger_var &var = *xpu.var;
	var.datatype = FI_UINT64;
	var.count = 1;
	var.addr = cell->place;
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
		return too_small(FI_LOG_EP_CTRL, "getopt", room, sizeof(xpu));
	if (const int rc = check(endpoint, xpu, FI_LOG_EP_CTRL))
		return rc;
	if (const int rc = guard([&] { return endpoint.domain().cells().prepare(Xpu(xpu)); }))
		return rc;
	if (xpu.count) { /* then it has a var, see check() */
		xpu.var->datatype = FI_UINT64;
		xpu.var->count = 1;
	}
	xpu.count = variables;
	return 0;
}

} // namespace treadle::fi
