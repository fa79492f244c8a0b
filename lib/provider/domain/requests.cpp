// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "domain/requests.h"

namespace treadle::fi
{

void Requests::insert(Pep &pep, ::fid &fid)
{
	const std::lock_guard guard(lock_);

	entries_.emplace(&fid, Entry{{&pep}, nullptr});
}

::fid *Requests::insert(const Handle &request)
{
	auto fid = std::make_unique<::fid>();
	const std::lock_guard guard(lock_);

	fid->fclass = FI_CLASS_CONNREQ;
	::fid *const handle = fid.get();
	entries_.emplace(handle, Entry{request, std::move(fid)});
	return handle;
}

std::optional<Handle> Requests::find(const ::fid *handle) noexcept
{
	const std::lock_guard guard(lock_);
	const auto found = entries_.find(handle);

	return found == entries_.end() ? std::nullopt : std::optional(found->second.handle);
}

void Requests::forget(const ::fid *handle, RequestId request) noexcept
{
	const std::lock_guard guard(lock_);
	const auto found = entries_.find(handle);

	if (found != entries_.end() && found->second.handle.request == request)
		entries_.erase(found);
}

void Requests::forget_all(const Pep &pep, bool itself) noexcept
{
	const std::lock_guard guard(lock_);

	std::erase_if(entries_, [&](const auto &e) {
		return e.second.handle.pep == &pep && (itself || e.second.fid);
	});
}

} // namespace treadle::fi
