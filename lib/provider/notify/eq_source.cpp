// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* An event queue: what the kernel reports of connections. */
#include "notify/eq.h"

#include <cstring>

#include <rdma/fi_cm.h>

namespace treadle::fi
{

Eq::Source::Source(Eq &eq, ::fid &owner, OnEvent on_event)
{
	const std::lock_guard guard(eq.lock_);

	number_ = ++eq.last_source_;
	eq.sources_.emplace(number_, Registered{&owner, std::move(on_event)});
	eq_ = &eq;
}

Eq::Source::~Source()
{
	if (!eq_)
		return;
	const std::lock_guard guard(eq_->lock_);
	const auto found = eq_->sources_.find(number_);
	const ::fid *const owner = found->second.owner;

	eq_->sources_.erase(found);
	eq_->drop_events_of(owner);
}

/* The event of a connection, but for TREADLE_EVENT_CONNREFUSED, which is an error. */
static std::uint32_t fabric_event(std::uint32_t event) noexcept
{
	switch (event) {
	case TREADLE_EVENT_CONNREQ:
		return FI_CONNREQ;
	case TREADLE_EVENT_CONNECTED:
		return FI_CONNECTED;
	default:
		return FI_SHUTDOWN;
	}
}

EqEvent Eq::translate(const Registered &source, const treadle_event &event)
{
	const auto data = data_of(event);
	fi_eq_cm_entry entry{};

	if (event.event == TREADLE_EVENT_CONNREFUSED) {
		fi_eq_err_entry error{};
		error.fid = source.owner;
		error.context = source.owner->context;
		error.err = -fabric_error(-static_cast<int>(event.error));
		error.prov_errno = static_cast<int>(event.error);
		EqEvent out(error);
		out.owner = source.owner;
		out.err_data.assign(data.begin(), data.end());
		return out;
	}
	EqEvent out(fabric_event(event.event), &entry, sizeof(entry));
	out.owner = source.owner;
	out.entry.insert(out.entry.end(), data.begin(), data.end());
	/* Last: without memory, the translation is repeated. */
	out.info = source.on_event(event);
	entry.fid = source.owner;
	entry.info = out.info.get();
	std::memcpy(out.entry.data(), &entry, sizeof(entry));
	return out;
}

} // namespace treadle::fi
