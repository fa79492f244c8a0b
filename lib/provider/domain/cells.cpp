// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "domain/cells.h"

#include <algorithm>
#include <ranges>

#include "base/results.h"

namespace treadle::fi
{

namespace
{

constexpr std::uint32_t first_cells = 512; /* one page */

} // namespace

/* Takes back cells after their command has started or was canceled. */
void Cells::collect(Pool &pool)
{
	const auto done = std::ranges::stable_partition(pool.given, [](const Cell &cell) {
		return cell.cells->done(cell.index) != cell.value;
	});

	/* All or (without memory) none, so that no cell is free twice. */
	pool.free.insert(pool.free.end(), done.begin(), done.end());
	pool.given.erase(done.begin(), done.end());
}

int Cells::grow(Pool &pool, const Xpu &xpu)
{
	const std::size_t total = pool.free.size() + pool.given.size();
	const auto count = std::clamp<std::size_t>(total, first_cells, TREADLE_MAX_CELLS);
	auto more = TriggerCells::create(context_, static_cast<std::uint32_t>(count));

	if (!more)
		return negative(more.error());
	auto seen = seen_by(xpu, more->at(0), more->count() * sizeof(std::uint64_t));
	if (!seen)
		return seen.error();
	const Pages &pages = pool.pages.emplace_back(std::move(*more), std::move(*seen));
	for (std::uint32_t i = 0; i < pages.cells.count(); ++i)
		pool.free.push_back({&pages.cells, i, pages.seen.get() + i, 0});
	return 0;
}

/* Returns the pool of an XPU, which always has pages, or -errno. */
std::expected<Cells::Pool *, int> Cells::pool_of(const Xpu &xpu)
{
	if (const auto at = pools_.find(xpu); at != pools_.end())
		return &at->second;
	Pool pool;
	if (const int rc = grow(pool, xpu))
		return std::unexpected(rc);
	return &pools_.emplace(xpu, std::move(pool)).first->second;
}

int Cells::prepare(const Xpu &xpu)
{
	const std::lock_guard guard(lock_);
	const auto pool = pool_of(xpu);

	return pool ? 0 : pool.error();
}

std::expected<Cells::Cell, int> Cells::take(const Xpu &xpu)
{
	const std::lock_guard guard(lock_);
	const auto found = pool_of(xpu);

	if (!found)
		return std::unexpected(found.error());
	Pool &pool = **found;
	if (pool.free.empty()) {
		collect(pool);
		/* Grows unless half of the cells are free, so that collecting stays rare. */
		const int rc = pool.free.size() <= pool.given.size() ? grow(pool, xpu) : 0;
		if (rc && pool.free.empty())
			return std::unexpected(rc);
	}
	Cell cell = pool.free.front();
	cell.value = ++last_;
	pool.given.push_back(cell);
	pool.free.pop_front();
	return cell;
}

void Cells::give_back(std::uint64_t value)
{
	const std::lock_guard guard(lock_);

	for (auto &[xpu, pool] : pools_) {
		const auto reversed = std::views::reverse(pool.given);
		const auto at = std::ranges::find(reversed, value, &Cell::value);

		if (at == reversed.end())
			continue;
		pool.free.push_back(*at);
		pool.given.erase(std::next(at).base());
		return;
	}
}

} // namespace treadle::fi
