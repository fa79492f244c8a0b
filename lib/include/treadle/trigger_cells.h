// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TRIGGER_CELLS_H
#define TREADLE_TRIGGER_CELLS_H

#include <cstddef>
#include <cstdint>

#include <treadle/detail/ring.h>
#include <treadle/object.h>

namespace treadle
{

class Context;

/**
 * 64-bit words in ordinary pages. A command that is armed on one (Command::when) starts when the
 * word has the value that the command names. Any writer counts: a thread, a child after fork(2),
 * which inherits the words, a device that has them mapped. See fi_trigger(3), "XPU TRIGGERS".
 *
 * Any other value has no effect, and a command starts only once, however often the value is
 * written. Give each command a value that its cell has not had before.
 *
 * Threads: everything may be called from any thread at any time.
 */
class TREADLE_API TriggerCells : public Object<TriggerCellsId>
{
public:
	/* count: 1 to TREADLE_MAX_CELLS (EINVAL), rounded up to whole pages. ENOMEM, ENOSPC. */
	[[nodiscard]] static Result<TriggerCells> create(const Context &context,
							 std::uint32_t count) noexcept;

	/* Every index is less than this. */
	std::uint32_t count() const noexcept { return count_; }
	/* The address of a cell in this process; the next cell is 8 bytes further. */
	std::uint64_t *at(std::uint32_t index) const noexcept { return cells_ + index; }

	/* A release store: writes before it are visible to the command that it starts. */
	void write(std::uint32_t index, std::uint64_t value) const noexcept
	{
		detail::store_release(cells_[index], value); /* G */
	}

	/*
	 * The value of the command that was the last to leave the cell, because it has started or
	 * was canceled. A cell with one command at a time is free again when this is the command's
	 * value. Always 0 in a child.
	 */
	std::uint64_t done(std::uint32_t index) const noexcept
	{
		return detail::load_acquire(done_[index]); /* H */
	}

private:
	TriggerCells(int device, std::uint32_t id, std::uint32_t count, detail::Mapping cells,
		     detail::Mapping done) noexcept;

	std::uint32_t count_;
	std::uint64_t *cells_;
	const __u64 *done_;
	detail::Mapping cells_map_, done_map_;
};

} // namespace treadle

#endif
