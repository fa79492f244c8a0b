// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * treadle-allreduce: stopped processes take part in a sum.
 *
 * Each process joins a group and calls fi_allreduce of 8 bytes as often as --rounds says, without
 * waiting. Then all but process 0 are stopped, and process 0 calls last. It has every result
 * although no other process runs. The others find theirs when they continue. Then the same is done
 * with all of them running, for comparison.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <rdma/fi_collective.h>

#include "bench/others.h"
#include "cli.h"

namespace
{

using namespace bench;

struct Options {
	size_t processes = 8, rounds = 100;
	unsigned seconds = 60; /* timeout */
};

class Member
{
public:
	Member(const fi_info *info, const Options &options, size_t rank)
		: options_(options), rank_(rank),
		  end_(info, {.bytes = Buffer::page, .events = true}), in_(options.rounds),
		  out_(options.rounds)
	{
	}

	Card card() const { return end_.card(); }

	void join(const std::vector<Card> &cards)
	{
		fi_av_set_attr attr{};
		fi_addr_t address;
		uint32_t event = 0;
		fi_eq_entry entry;

		attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
		set_ = open<fid_av_set>("fi_av_set", fi_av_set, end_.av.get(), &attr);
		for (const Card &card : cards) {
			end_.meet(card);
			must(fi_av_set_insert(set_.get(), end_.peer), "fi_av_set_insert");
		}
		must(fi_av_set_addr(set_.get(), &address), "fi_av_set_addr");
		group_ = open<fid_mc>("fi_join_collective", fi_join_collective, end_.ep.get(),
				      address, set_.get(), uint64_t{0});
		wait([&] {
			return fi_eq_read(end_.eq.get(), &event, &entry, sizeof(entry), 0) > 0;
		});
		if (event != FI_JOIN_COMPLETE)
			throw std::runtime_error("another event than FI_JOIN_COMPLETE");
	}

	void call(size_t round)
	{
		in_[round] = term(rank_, round);
		out_[round] = 0;
		must(fi_allreduce(end_.ep.get(), &in_[round], 1, nullptr, &out_[round], nullptr,
				  fi_mc_addr(group_.get()), FI_UINT64, FI_SUM, 0, nullptr),
		     "fi_allreduce");
		called_++;
	}

	/* Waits for all calls. */
	void await()
	{
		wait([&] {
			end_.progress();
			return end_.tx_done >= called_;
		});
	}

	void verify() const
	{
		for (size_t round = 0; round < options_.rounds; round++) {
			uint64_t sum = 0;
			for (size_t rank = 0; rank < options_.processes; rank++)
				sum += term(rank, round);
			if (out_[round] != sum)
				throw std::runtime_error("wrong sum in round " +
							 std::to_string(round));
		}
	}

	void in_turns()
	{
		for (size_t i = 0; i < options_.rounds; i++) {
			call(i);
			await();
		}
		verify();
	}

private:
	static uint64_t term(size_t rank, size_t round) { return (rank + 1) * 1000003 + round; }

	template <class Done> void wait(Done done) const
	{
		const auto until = Clock::now() + std::chrono::seconds(options_.seconds);

		while (!done()) {
			sched_yield(); /* there are more processes than CPUs */
			if (Clock::now() > until)
				throw Failure("allreduce", FI_ETIMEDOUT);
		}
	}

	const Options options_;
	const size_t rank_;
	End end_;
	Fid<fid_av_set> set_;
	Fid<fid_mc> group_;
	std::vector<uint64_t> in_, out_;
	uint64_t called_ = 0;
};

Info find_member()
{
	Info info = find({"treadle", FI_MSG | FI_COLLECTIVE});

	if (!info)
		throw std::runtime_error("treadle has no collectives here: is the module loaded?");
	return info;
}

/* Another process, seen from inside. */
void live(const Options &options, size_t rank, Partner &parent)
{
	const Info info = find_member();
	Member member(info.get(), options, rank);
	std::vector<Card> cards(options.processes);

	report(parent, {.card = member.card()});
	for (Card &card : cards)
		card = told<Card>(parent);
	member.join(cards);
	report(parent);
	told<char>(parent);
	member.in_turns();
	report(parent);

	told<char>(parent);
	for (size_t i = 0; i < options.rounds; i++)
		member.call(i);
	report(parent);
	told<char>(parent);
	member.await();
	member.verify();
	report(parent);
	told<char>(parent); /* throws when the others are dismissed */
}

void all(Others &others)
{
	for (auto &other : others)
		other->report();
}

void tell_all(Others &others)
{
	for (auto &other : others)
		other->tell('g');
}

int allreduce(const Options &options)
{
	Others others;

	cli::need_device();
	load_providers();
	/* Before anything is opened, because few providers survive a fork. */
	for (size_t i = 1; i < options.processes; i++)
		others.push_back(std::make_unique<Other>(i, options.seconds, [=](Partner &parent) {
			live(options, i, parent);
		}));
	const Info info = find_member();
	Member first(info.get(), options, 0);
	std::vector<Card> cards{first.card()};
	for (auto &other : others)
		cards.push_back(other->report().card);
	for (auto &other : others)
		for (const Card &card : cards)
			other->tell(card);
	first.join(cards);
	all(others);

	tell_all(others);
	const auto began = Clock::now();
	first.in_turns();
	const uint64_t running = nanoseconds(Clock::now() - began);
	all(others);

	tell_all(others);
	all(others); /* wait until they have called */
	Stillness stillness(others);
	const auto start = Clock::now();
	for (size_t i = 0; i < options.rounds; i++)
		first.call(i);
	first.await();
	const uint64_t stopped = nanoseconds(Clock::now() - start);
	first.verify();
	stillness.end();
	tell_all(others);
	all(others);

	const auto each = [&](uint64_t ns) {
		return static_cast<double>(ns) / 1e3 / static_cast<double>(options.rounds);
	};
	std::printf(
		"treadle: %zu processes, %zu allreduces of 8 bytes\n"
		"  process 0 called last and has all %zu sums; so have the others, who went on after\n"
		"  processes 1 to %zu were stopped meanwhile: no CPU time, no context switch, so no "
		"system call\n"
		"  %.1f us per allreduce while they are stopped, %.1f us when all run\n",
		options.processes, options.rounds, options.rounds, options.processes - 1,
		each(stopped), each(running));
	return 0;
}

Options parse(int argc, char **argv)
{
	Options o;

	cli::parse_options(
		{"treadle-allreduce",
		 "[OPTION]...",
		 "Allreduces among processes that are stopped, all but the last to call.",
		 {{'n', "processes", "N", "how many (default: 8)",
		   [&](const char *text) { o.processes = cli::number(text, 2, 1000); }},
		  {'r', "rounds", "N", "how many allreduces (default: 100, at most 1000)",
		   [&](const char *text) { o.rounds = cli::number(text, 1, 1000); }},
		  {'t', "timeout", "S", "give up after so many seconds (default: 60)",
		   [&](const char *text) { o.seconds = cli::number(text, 1, 86400); }}},
		 ""},
		argc, argv);
	return o;
}

} // namespace

int main(int argc, char **argv)
{
	return cli::run("treadle-allreduce", [&] { return allreduce(parse(argc, argv)); });
}
