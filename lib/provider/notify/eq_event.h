// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_EQ_EVENT_H
#define TREADLE_PROVIDER_EQ_EVENT_H

#include <cstdint>
#include <memory>
#include <vector>

#include <rdma/fi_eq.h>

#include <treadle/event_queue.h>

#include "base/provider.h"

namespace treadle::fi
{

/* An event in an event queue. */
struct EqEvent {
	/* With memory for the entries that set() writes. */
	EqEvent() { entry.reserve(sizeof(fi_eq_err_entry)); }
	EqEvent(std::uint32_t event, const void *entry, std::size_t size)
		: event(event), entry(bytes(entry), bytes(entry) + size)
	{
	}
	explicit EqEvent(const fi_eq_err_entry &error) : EqEvent() { set(error); }

	/* The event `kind` of an object, or its failure. */
	void set(::fid &of, int error, std::uint32_t kind) noexcept;
	void set(std::uint32_t kind, const fi_eq_entry &done) noexcept;
	void set(const fi_eq_err_entry &error) noexcept;

	bool about_connection() const noexcept
	{
		return owner && !failed && event != FI_MR_COMPLETE && event != FI_JOIN_COMPLETE;
	}

	bool failed = false;
	std::uint32_t event = 0;
	std::vector<std::byte> entry; /* or a fi_eq_err_entry */
	const ::fid *owner = nullptr; /* the source or region with which the event goes */
	InfoPtr info;		      /* of a connection request that was not read yet */
	std::vector<std::byte> err_data;
	/* The kernel's event, not translated yet because memory may be short. */
	std::unique_ptr<treadle_event> raw;

private:
	static const std::byte *bytes(const void *p) { return static_cast<const std::byte *>(p); }
};

} // namespace treadle::fi

#endif
