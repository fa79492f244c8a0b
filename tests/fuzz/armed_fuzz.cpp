// SPDX-License-Identifier: GPL-2.0
/* The order of armed commands, compared with a sorted set. */
#include <deque>
#include <set>
#include <utility>

#include "../unit/shim.h"
#include "input.h"

extern "C" {
#include "pure/armed.h"
}

namespace
{

using Key = std::pair<u64, u64>;

u64 a_threshold(Input &in)
{
	return in.below(4) ? in.below(16) : in.next<u64>();
}

/* @armed must be the command at @at, or null if there is none. */
void expect(const std::set<Key> &model, std::set<Key>::const_iterator at,
	    const treadle_armed *armed)
{
	if (at == model.end())
		ENSURE(!armed);
	else
		ENSURE(armed && Key(armed->threshold, armed->seq) == *at);
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	Input in(data, size);
	std::deque<treadle_armed> all;
	rb_root_cached root{};
	std::set<Key> model;

	while (in) {
		const unsigned int what = in.below(4);
		const u64 value = a_threshold(in), seq = in.below(32);

		if (what == 0) {
			auto &armed = all.emplace_back();

			armed.threshold = value;
			armed.seq = all.size();
			treadle_armed_insert(&root, &armed);
			model.emplace(value, armed.seq);
		} else if (what == 1) {
			const bool due = !model.empty() && model.begin()->first <= value;

			expect(model, due ? model.begin() : model.end(),
			       treadle_armed_pop(&root, value));
			if (due)
				model.erase(model.begin());
		} else {
			auto at = model.lower_bound({value, seq});
			auto *armed = treadle_armed_from(&root, value, seq);

			expect(model, at, armed);
			if (!armed)
				continue;
			expect(model, std::next(at), treadle_armed_next(armed));
			if (what == 3) { /* canceled */
				rb_erase_cached(&armed->node, &root);
				model.erase(at);
			}
		}
	}
	/* All remaining commands, in order. */
	for (const Key &key : model) {
		auto *const armed = treadle_armed_pop(&root, ~0ull);

		ENSURE(armed && Key(armed->threshold, armed->seq) == key);
	}
	ENSURE(!treadle_armed_pop(&root, ~0ull));
	return 0;
}
