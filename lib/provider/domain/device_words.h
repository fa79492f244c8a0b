// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_DEVICE_WORDS_H
#define TREADLE_PROVIDER_DEVICE_WORDS_H

#include <cstdint>
#include <deque>
#include <expected>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include <treadle/trigger_cells.h>

#include "domain/hmem.h"

namespace treadle::fi
{

/*
 * The words that devices share with the counters of a domain. Thread-safe. They are cells on pages
 * of their own: what is stored there may be any value, also one that Cells has given out.
 */
class DeviceWords
{
	struct Line {
		const TriggerCells *cells;
		std::uint32_t index;
		std::uint64_t *place; /* its address for the XPU */
	};
	struct Pages {
		TriggerCells cells;
		Seen seen; /* goes before the cells are unmapped */
	};
	struct Pool {
		std::deque<Pages> pages; /* never move */
		std::list<Line> free, used;
	};

public:
	/* Eight cells, a cache line, until it is destroyed. */
	class Lease
	{
	public:
		Lease(DeviceWords &words, Pool &pool, const Xpu &xpu) noexcept
			: words_(&words), pool_(&pool), line_(std::prev(pool.used.end())), xpu_(xpu)
		{
		}
		Lease(Lease &&other) noexcept
			: words_(std::exchange(other.words_, nullptr)), pool_(other.pool_),
			  line_(other.line_), xpu_(other.xpu_)
		{
		}
		Lease &operator=(Lease &&) = delete;
		~Lease()
		{
			if (words_)
				words_->give_back(*pool_, line_);
		}

		const TriggerCells &cells() const noexcept { return *line_->cells; }
		/* The first one. */
		std::uint32_t index() const noexcept { return line_->index; }
		std::uint64_t *place() const noexcept { return line_->place; }
		const Xpu &xpu() const noexcept { return xpu_; }

	private:
		DeviceWords *words_;
		Pool *pool_;
		std::list<Line>::iterator line_;
		Xpu xpu_;
	};

	explicit DeviceWords(const Context &context) noexcept : context_(context) {}

	/*
	 * The line for this XPU that has been free longest, with zeros in it; or -errno. May throw.
	 */
	std::expected<Lease, int> take(const Xpu &xpu);

private:
	int grow(Pool &pool, const Xpu &xpu);
	void give_back(Pool &pool, std::list<Line>::iterator line) noexcept;

	const Context &context_;
	std::mutex lock_;
	std::map<Xpu, Pool> pools_;
};

} // namespace treadle::fi

#endif
