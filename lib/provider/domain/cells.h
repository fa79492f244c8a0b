// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_CELLS_H
#define TREADLE_PROVIDER_CELLS_H

#include <cstdint>
#include <deque>
#include <expected>
#include <map>
#include <mutex>

#include <rdma/fi_trigger.h>

#include <treadle/trigger_cells.h>

#include "domain/hmem.h"

/* fi_trigger(3), "XPU TRIGGERS" */
namespace treadle::fi
{

/*
 * The trigger cells of a domain. Thread-safe. A cell is taken back when the kernel says that its
 * command has left it; the application need not return it.
 */
class Cells
{
public:
	struct Cell {
		const TriggerCells *cells;
		std::uint32_t index;
		std::uint64_t *place; /* its address for the XPU */
		std::uint64_t value;  /* given out once; no cell had it before */
	};

	explicit Cells(const Context &context) noexcept : context_(context) {}

	/* 0, or -errno if this XPU can't write cells. May throw. */
	int prepare(const Xpu &xpu);
	/* Takes the cell for this XPU that has been free longest; or returns -errno. May throw. */
	std::expected<Cell, int> take(const Xpu &xpu);
	/* Returns a cell: no command was armed with this value. May throw. */
	void give_back(std::uint64_t value);

private:
	struct Pages {
		TriggerCells cells;
		Seen seen; /* goes before the cells are unmapped */
	};
	/* Each XPU has its own pages, so that only XPUs that write them have mappings. */
	struct Pool {
		std::deque<Pages> pages;      /* never move */
		std::deque<Cell> free, given; /* oldest first */
	};

	static void collect(Pool &pool);
	int grow(Pool &pool, const Xpu &xpu);
	std::expected<Pool *, int> pool_of(const Xpu &xpu);

	const Context &context_;
	std::mutex lock_;
	std::map<Xpu, Pool> pools_;
	std::uint64_t last_ = 0;
};

} // namespace treadle::fi

#endif
