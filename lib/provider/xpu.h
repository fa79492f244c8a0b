// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_XPU_H
#define TREADLE_PROVIDER_XPU_H

#include <cstdint>
#include <deque>
#include <expected>
#include <map>
#include <mutex>

#include <rdma/fi_trigger.h>

#include <treadle/command.h>
#include <treadle/trigger_cells.h>

#include "hmem.h"

/* fi_trigger(3), "XPU TRIGGERS" */
namespace treadle::fi
{

class Endpoint;

/*
 * The trigger cells of a domain. Thread-safe. What was given out comes back when its command
 * has left the cell, which the kernel says; who was given one need not return it.
 */
class Cells
{
public:
	struct Cell {
		const TriggerCells *cells;
		std::uint32_t index;
		std::uint64_t *place; /* where it is for the XPU that writes it */
		std::uint64_t value;  /* that it was given out with; no other had it before */
	};

	explicit Cells(const Context &context) noexcept : context_(context) {}

	/* 0, or why this XPU can write none. May throw. */
	int prepare(const Xpu &xpu);
	/* Of those for this XPU the one that has been free for the longest time; or -errno. May throw. */
	std::expected<Cell, int> take(const Xpu &xpu);
	/* After all, nothing was armed with this value. May throw. */
	void give_back(std::uint64_t value);

private:
	struct Pages {
		TriggerCells cells;
		Seen seen; /* goes before they are unmapped */
	};
	/* Each XPU has pages of its own, so that nothing is mapped for one that does not write it. */
	struct Pool {
		std::deque<Pages> pages;      /* which stay where they are */
		std::deque<Cell> free, given; /* the oldest first */
	};

	static void collect(Pool &pool);
	int grow(Pool &pool, const Xpu &xpu);
	std::expected<Pool *, int> pool_of(const Xpu &xpu);

	const Context &context_;
	std::mutex lock_;
	std::map<Xpu, Pool> pools_;
	std::uint64_t last_ = 0;
};

/* The condition that its cell is written; fills in what the application has to write. May throw. */
int when_written(Command &command, const Endpoint &endpoint, fi_trigger_xpu &xpu);

/* FI_OPT_XPU_TRIGGER */
int xpu_variables(const Endpoint &endpoint, void *value, std::size_t *size) noexcept;

} // namespace treadle::fi

#endif
