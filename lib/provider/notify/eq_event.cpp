// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notify/eq_event.h"

namespace treadle::fi
{

void EqEvent::set(::fid &of, int error, std::uint32_t kind) noexcept
{
	fi_eq_entry done{};
	fi_eq_err_entry error_entry{};

	owner = &of;
	done.fid = error_entry.fid = &of;
	done.context = error_entry.context = of.context;
	error_entry.err = error_entry.prov_errno = -error;
	if (error)
		set(error_entry);
	else
		set(kind, done);
}

void EqEvent::set(std::uint32_t kind, const fi_eq_entry &done) noexcept
{
	static_assert(sizeof(done) <= sizeof(fi_eq_err_entry));
	event = kind;
	entry.assign(bytes(&done), bytes(&done) + sizeof(done));
}

void EqEvent::set(const fi_eq_err_entry &error) noexcept
{
	failed = true;
	entry.assign(bytes(&error), bytes(&error) + sizeof(error));
}

} // namespace treadle::fi
