// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "domain/device_words.h"

#include "base/results.h"

namespace treadle::fi
{

namespace
{

constexpr std::uint32_t page = 512, line = 8; /* cells */

} // namespace

int DeviceWords::grow(Pool &pool, const Xpu &xpu)
{
	auto more = TriggerCells::create(context_, page);

	if (!more)
		return negative(more.error());
	auto seen = seen_by(xpu, more->at(0), more->count() * sizeof(std::uint64_t));
	if (!seen)
		return seen.error();
	std::list<Line> lines;
	const Pages &pages = pool.pages.emplace_back(std::move(*more), std::move(*seen));
	try {
		for (std::uint32_t i = 0; i + line <= pages.cells.count(); i += line)
			lines.push_back({&pages.cells, i, pages.seen.get() + i});
	} catch (...) {
		pool.pages.pop_back();
		throw;
	}
	pool.free.splice(pool.free.end(), lines);
	return 0;
}

std::expected<DeviceWords::Lease, int> DeviceWords::take(const Xpu &xpu)
{
	const std::lock_guard guard(lock_);
	Pool &pool = pools_[xpu];

	if (pool.free.empty()) {
		if (const int rc = grow(pool, xpu))
			return std::unexpected(rc);
	}
	pool.used.splice(pool.used.end(), pool.free, pool.free.begin());
	Lease lease(*this, pool, xpu);
	for (std::uint32_t i = 0; i < line; ++i)
		lease.cells().write(lease.index() + i, 0);
	return lease;
}

void DeviceWords::give_back(Pool &pool, std::list<Line>::iterator line) noexcept
{
	const std::lock_guard guard(lock_);

	pool.free.splice(pool.free.end(), pool.used, line);
}

} // namespace treadle::fi
