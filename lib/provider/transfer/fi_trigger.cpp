// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/trigger.h"

#include "domain/domain.h"
#include "endpoint/endpoint.h"
#include "endpoint/xpu.h"
#include "notify/cntr.h"

namespace treadle::fi
{

int when_triggered(Command &command, const Endpoint &endpoint) noexcept
{
	auto *trigger = reinterpret_cast<fi_triggered_context *>(command.desc().context);

	if (!endpoint.can_trigger() || !trigger)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA,
			      "FI_TRIGGER: needs the capability and a fi_triggered_context");
	if (trigger->event_type == FI_TRIGGER_XPU)
		return guard([&] { return when_written(command, endpoint, trigger->trigger.xpu); });
	if (trigger->event_type != FI_TRIGGER_THRESHOLD)
		return REFUSE(-FI_ENOSYS, FI_LOG_EP_DATA,
			      "FI_TRIGGER: event_type %d: only FI_TRIGGER_THRESHOLD and _XPU",
			      trigger->event_type);
	Cntr *cntr = Cntr::known(endpoint.domain(), trigger->trigger.threshold.cntr);
	if (!cntr)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA, "FI_TRIGGER: no counter of this domain");
	if (const int rc = cntr->give_to_kernel())
		return rc;
	/*
	 * Not put off by FI_MORE: triggered receives are submitted another way and would overtake
	 * it.
	 */
	command.when(cntr->id(), trigger->trigger.threshold.threshold).at_once();
	return 0;
}

void not_triggered(const Command &command, const Endpoint &endpoint) noexcept
{
	if (!(command.desc().flags & TREADLE_F_COND_CELL))
		return;
	guard([&] {
		endpoint.domain().cells().give_back(command.desc().value);
		return 0;
	});
}

} // namespace treadle::fi
