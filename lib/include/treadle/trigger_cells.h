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
 * 64-bit words in ordinary pages: a command that is armed on one (Command::when) starts when
 * the word has the value that the command names, whoever has written it: any thread, a
 * child after fork(2), which inherits the words, a device that has them mapped. See
 * fi_trigger(3), "XPU TRIGGERS".
 *
 * Any other value does nothing, and a command starts once however often it is written. Give
 * each command a value that its cell has not had before.
 *
 * Threads: everything may be called from any thread at any time.
 */
class TREADLE_API TriggerCells : public Object<TriggerCellsId>
{
public:
	/* At least so many, from 1 to TREADLE_MAX_CELLS (EINVAL); they fill pages. ENOMEM, ENOSPC. */
	static Result<TriggerCells> create(const Context &context, std::uint32_t count) noexcept;

	/* Every index is less than that. */
	std::uint32_t count() const noexcept { return count_; }
	/* Where it is, in this process; 8 bytes further is the next. */
	std::uint64_t *at(std::uint32_t index) const noexcept { return cells_ + index; }

	/* What is in a release store: whatever was written before it is there when the command starts. */
	void write(std::uint32_t index, std::uint64_t value) const noexcept
	{
		detail::store_release(cells_[index], value); /* G */
	}

	/*
	 * The value of the command that has left the cell last: it has started, or was
	 * canceled. A cell with one command at a time is free again when that one's is here. Always 0 in a child.
	 */
	std::uint64_t done(std::uint32_t index) const noexcept
	{
		return detail::load_acquire(done_[index]); /* H */
	}

private:
	TriggerCells(int fd, std::uint32_t id, std::uint32_t count, detail::Mapping cells,
		     detail::Mapping done) noexcept;

	std::uint32_t count_;
	std::uint64_t *cells_;
	const __u64 *done_;
	detail::Mapping cells_map_, done_map_;
};

} // namespace treadle

#endif
