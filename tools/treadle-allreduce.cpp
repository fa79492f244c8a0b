// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * treadle-allreduce: stopped processes take part in a sum.
 *
 * Each process joins a group and calls fi_allreduce of 8 bytes as often as --rounds says, without
 * waiting. Then all but process 0 are stopped, and process 0 calls last. It has every result
 * although no other process runs. The others find theirs when they continue. Then the same is done
 * with all of them running, for comparison. The processes may be on several machines.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <rdma/fi_collective.h>

#include "bench/machines.h"
#include "cli.h"

namespace
{

using namespace bench;

constexpr size_t most_processes = 1000, most_rounds = 1000, most_seconds = 86400;

/* What all processes know at the start. */
struct Plan {
	size_t processes = 8, rounds = 100;
	unsigned seconds = 60; /* timeout */
};

struct Options : Plan {
	std::string address = "127.0.0.1"; /* of this machine */
	Places places;
};

/* What a process on another machine has to know. */
struct Job {
	size_t rank;
	Plan plan;
};

const Hello hello("treadle-allreduce", sizeof(Job));

class Member
{
public:
	Member(const fi_info *info, const Plan &options, size_t rank)
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

	const Plan options_;
	const size_t rank_;
	End end_;
	Fid<fid_av_set> set_;
	Fid<fid_mc> group_;
	std::vector<uint64_t> in_, out_;
	uint64_t called_ = 0;
};

Info find_member(const std::string &address)
{
	const bool here = address == "127.0.0.1";
	Info info = find({.provider = "treadle",
			  .caps = FI_MSG | FI_COLLECTIVE | (here ? 0 : FI_REMOTE_COMM),
			  .address = address});

	if (!info && here)
		throw std::runtime_error("treadle has no collectives here: is the module loaded?");
	if (!info)
		throw std::runtime_error(
			"treadle has no collectives that other machines reach at " + address);
	return info;
}

/* Another process, seen from inside. */
void live(const Options &options, size_t rank, Partner &parent)
{
	const Info info = find_member(options.address);
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

/* The same on behalf of another machine. */
void live_there(Partner &master, const std::string &address)
{
	Job job;
	Options options;

	if (!master.get(&job, sizeof(job)))
		return;
	static_cast<Plan &>(options) = job.plan;
	options.address = address;
	if (options.processes > most_processes || options.rounds > most_rounds ||
	    options.seconds > most_seconds || job.rank >= options.processes)
		throw std::runtime_error("another machine asks for too much");
	keep(master, options.seconds, [&](Partner &parent) { live(options, job.rank, parent); });
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

int allreduce(Options options)
{
	cli::need_device();
	load_providers();
	if (options.places.serve)
		return serve(options.places.port, hello, live_there);
	const Machines machines = options.places.meet(hello, options.seconds);
	if (!machines.empty())
		options.address = machines.front()->own_address();

	Others others;
	/* Before anything is opened, because few providers survive a fork. */
	start_others(
		others, options.processes, options.seconds, machines,
		[&](size_t rank) {
			return [&, rank](Partner &parent) { live(options, rank, parent); };
		},
		[&](size_t rank) {
			return Job{rank, options};
		});
	const Info info = find_member(options.address);
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
		"treadle: %s, %zu allreduces of 8 bytes\n"
		"  process 0 called last and has all %zu sums; so have the others, who went on after\n"
		"  processes 1 to %zu were stopped meanwhile: no CPU time, no context switch, so no "
		"system call\n"
		"  %.1f us per allreduce while they are stopped, %.1f us when all run\n",
		number_of(options.processes, machines).c_str(), options.rounds, options.rounds,
		options.processes - 1, each(stopped), each(running));
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
		   [&](const char *text) { o.processes = cli::number(text, 2, most_processes); }},
		  {'r', "rounds", "N", "how many allreduces (default: 100, at most 1000)",
		   [&](const char *text) { o.rounds = cli::number(text, 1, most_rounds); }},
		  {'t', "timeout", "S", "give up after so many seconds (default: 60)",
		   [&](const char *text) { o.seconds = cli::number(text, 1, most_seconds); }},
		  machine_option(o.places),
		  serve_option(o.places),
		  port_option(o.places)},
		 places_help},
		argc, argv);
	return o;
}

} // namespace

int main(int argc, char **argv)
{
	return cli::run("treadle-allreduce", [&] { return allreduce(parse(argc, argv)); });
}
