// SPDX-License-Identifier: GPL-2.0
/* The matcher, compared with a list that is searched: any history gives the same answers. */
#include <algorithm>
#include <vector>

#include "../unit/match_model.h"
#include "../unit/matcher.h"
#include "input.h"

namespace
{

/* More masks than there are classes. */
constexpr u64 masks[] = {0, ~0ull, 1, 2, 3, 4, 5, 6, 7, 8, 1ull << 63, 0xff00};

u64 a_tag(Input &in)
{
	return in.below(8) ? in.below(16) : in.next<u64>();
}

u32 a_source(Input &in)
{
	return in.below(4);
}

class Both
{
public:
	void post(Input &in)
	{
		const u64 tag = a_tag(in), ignore = masks[in.below(std::size(masks))];
		const u32 src = in.below(2) ? Matcher::any : a_source(in);
		auto &recv = matcher_.receive(tag, ignore, src);

		place(&recv);
	}
	void arrive(Input &in)
	{
		const u64 tag = a_tag(in);
		const u32 src = a_source(in);
		auto *const expected = reference_.arrive(tag, src);

		ENSURE(matcher_.arrive(tag, src) == expected);
		if (expected) {
			std::erase(reference_.posted, expected);
			taken_.push_back(expected);
		} else {
			reference_.messages.push_back(matcher_.keep(tag, src));
		}
	}
	/* Puts entries that were taken back into their places, in any order. */
	void put_back(Input &in)
	{
		if (taken_.empty())
			return;
		const auto at = taken_.begin() + in.next<u8>() % taken_.size();

		place(*at);
		taken_.erase(at);
	}
	void cancel(Input &in)
	{
		if (reference_.posted.empty())
			return;
		const auto at =
			reference_.posted.begin() + in.next<u16>() % reference_.posted.size();

		matcher_.cancel(*at);
		reference_.posted.erase(at);
	}
	void withdraw(Input &in)
	{
		if (reference_.messages.empty())
			return;
		const auto at =
			reference_.messages.begin() + in.next<u16>() % reference_.messages.size();

		matcher_.withdraw(*at);
		reference_.messages.erase(at);
	}
	void grow(Input &in)
	{
		shim_allocations_left = in.below(2) ? ~0ul : 0;
		matcher_.grow();
		shim_allocations_left = ~0ul;
	}
	void check() const
	{
		ENSURE(matcher_.match.messages == reference_.messages.size());
		ENSURE(treadle_match_posted(&matcher_.match) == !reference_.posted.empty());
	}

private:
	void place(treadle_match_recv *recv)
	{
		auto *const expected = reference_.find(*recv);

		ENSURE(treadle_match_find(&matcher_.match, recv) == expected);
		if (expected) {
			matcher_.withdraw(expected);
			std::erase(reference_.messages, expected);
		} else {
			matcher_.put_back(recv);
			reference_.post(recv);
		}
	}

	Matcher matcher_;
	Reference reference_;
	std::vector<treadle_match_recv *> taken_;
};

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	Input in(data, size);
	Both both;

	while (in) {
		switch (in.below(8)) {
		case 0:
		case 1:
			both.post(in);
			break;
		case 2:
		case 3:
			both.arrive(in);
			break;
		case 4:
			both.put_back(in);
			break;
		case 5:
			both.cancel(in);
			break;
		case 6:
			both.withdraw(in);
			break;
		default:
			both.grow(in);
		}
		both.check();
	}
	return 0;
}
