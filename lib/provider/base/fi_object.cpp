// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "base/object.h"

#include <map>
#include <mutex>
#include <new>

namespace treadle::fi
{

namespace
{

struct Registry {
	std::mutex lock;
	std::multimap<const void *, ::fid *> by_context; /* oldest first for each context */
};
/* Never destroyed, like the list of open domains. */
alignas(Registry) std::byte registry_place[sizeof(Registry)];
Registry &registry = *new (registry_place) Registry;

} // namespace

Hooked::Hooked(::fid &ours) : ours_(ours), context_(ours.context)
{
	if (!context_)
		return;
	const std::lock_guard guard(registry.lock);

	registry.by_context.emplace(context_, &ours);
}

Hooked::~Hooked()
{
	const std::lock_guard guard(registry.lock);
	const auto [begin, end] = registry.by_context.equal_range(context_);

	for (auto it = begin; it != end; ++it) {
		if (it->second != &ours_)
			continue;
		registry.by_context.erase(it);
		return;
	}
}

::fid *Hooked::find(const ::fid *theirs, const fi_ops *table) noexcept
{
	const std::lock_guard guard(registry.lock);
	const auto [begin, end] = registry.by_context.equal_range(theirs);

	for (auto it = begin; it != end; ++it) {
		if (it->second->ops == table && it->second->fclass == theirs->fclass)
			return it->second;
	}
	return nullptr;
}

} // namespace treadle::fi
