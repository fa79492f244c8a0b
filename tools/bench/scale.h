// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Millions of deferred commands: the cost to arm, fire and flush them, and the effect on other
 * processes.
 */
#pragma once

#include <vector>

#include "others.h"
#include "report.h"

namespace bench
{

/*
 * The share of one process: counters, each with the same number of commands. Each command adds to
 * one other counter.
 */
class Armory
{
public:
	Armory(const fi_info *info, size_t counters, size_t each)
		: end_(info, {.bytes = Buffer::page}), each_(each), work_(counters * each),
		  op_(counters * each)
	{
		for (size_t i = 0; i < counters; i++)
			counters_.push_back(counter());
		done_ = counter();
	}

	size_t size() const { return work_.size(); }

	/* at(k): the threshold of command k on a counter */
	template <class At> void arm(At at)
	{
		for (size_t i = 0; i < work_.size(); i++) {
			fi_deferred_work &work = work_[i];

			op_[i] = {done_.get(), 1};
			work = {};
			work.triggering_cntr = counters_[i / each_].get();
			work.threshold = at(i % each_);
			work.op_type = FI_OP_CNTR_ADD;
			work.op.cntr = &op_[i];
			must(fi_control(&end_.domain->fid, FI_QUEUE_WORK, &work), "FI_QUEUE_WORK");
		}
	}

	/* Fires the commands in order, by adding 1 to each counter in turn. */
	void fire(unsigned seconds)
	{
		for (size_t k = 0; k < each_; k++)
			for (auto &counter : counters_)
				must(fi_cntr_add(counter.get(), 1), "fi_cntr_add");
		const auto until = Clock::now() + std::chrono::seconds(seconds);
		while (fi_cntr_read(done_.get()) < size()) {
			if (Clock::now() > until)
				throw Failure("fired " + std::to_string(fi_cntr_read(done_.get())) +
						      " of " + std::to_string(size()),
					      FI_ETIMEDOUT);
			sched_yield();
		}
	}

	void flush()
	{
		must(fi_control(&end_.domain->fid, FI_FLUSH_WORK, nullptr), "FI_FLUSH_WORK");
	}

private:
	Fid<fid_cntr> counter()
	{
		fi_cntr_attr attr{};

		attr.events = FI_CNTR_EVENTS_COMP;
		return open<fid_cntr>("fi_cntr_open", fi_cntr_open, end_.domain.get(), &attr);
	}

	End end_;
	const size_t each_;
	std::vector<fi_deferred_work> work_; /* the provider owns each until it has run */
	std::vector<fi_op_cntr> op_;
	Fid<fid_cntr> done_;
	std::vector<Fid<fid_cntr>> counters_;
};

/* Makes all processes take the next step at once. Returns ns until the last one has done it. */
inline double step(Others &others)
{
	const auto start = Clock::now();

	for (auto &other : others)
		other->tell('g');
	for (auto &other : others)
		other->report();
	return static_cast<double>(nanoseconds(Clock::now() - start));
}

constexpr uint64_t scale_caps = FI_MSG | FI_TRIGGER;

struct Costs {
	double arm, fire; /* ns for a command, over all processes together */
};

inline Costs arm_and_fire(const std::string &provider, size_t processes, size_t counters,
			  size_t each)
{
	Others others;

	for (size_t i = 0; i < processes; i++)
		others.push_back(std::make_unique<Child>(i, 600, [=](Partner &parent) {
			const Info info = find({provider, scale_caps});
			if (!info)
				throw Failure(provider + ", FI_TRIGGER", FI_ENODATA);
			Armory armory(info.get(), counters, each);
			report(parent);
			told<char>(parent);
			armory.arm([](size_t k) { return k + 1; });
			report(parent);
			told<char>(parent);
			armory.fire(600);
			report(parent);
			told<char>(parent);
		}));
	for (auto &other : others)
		other->report();
	const double total = static_cast<double>(processes * counters * each);
	const double arm = step(others);
	const double fire = step(others);
	return {arm / total, fire / total};
}

/* The time of a message of 8 bytes while going() is true. Both ends are in this thread. */
template <class Going> Spread latency(const std::string &provider, Going going)
{
	const auto conversation = start({provider, operations[0], 8, false});
	Watch unwatched;
	std::vector<double> ns;

	conversation->run(100, unwatched);
	while (going()) {
		Timer timer;
		conversation->run(1, timer);
		ns.push_back(static_cast<double>(timer.total));
	}
	return Spread::of(std::move(ns));
}

inline void flush_all(const std::string &provider, size_t counters, size_t count)
{
	int quiet = 2000;
	Child flusher(1, 600, [=](Partner &parent) {
		const Info info = find({provider, scale_caps});
		Armory armory(info.get(), counters, count / counters);
		armory.arm([](size_t k) { return 1'000'000 + k; });
		report(parent);
		told<char>(parent);
		const auto start = Clock::now();
		armory.flush();
		report(parent, {.value = nanoseconds(Clock::now() - start)});
	});
	flusher.report();
	const Spread before = latency(provider, [&] { return quiet-- > 0; });
	bool told = false;
	const Spread during = latency(provider, [&] {
		if (!told)
			flusher.tell('f');
		told = true;
		return flusher.silent();
	});
	const double ns = static_cast<double>(flusher.report().value);
	std::printf("%9zu %9.1f ms %6.0f ns %11.1f %9.1f %11.1f %9.1f\n", count, ns / 1e6,
		    ns / static_cast<double>(count), before.median / 1e3, before.max / 1e3,
		    during.median / 1e3, during.max / 1e3);
	std::fflush(stdout);
}

/*
 * Reports `count` commands of the first provider, on counters with 1000 each, and 10,000 on one
 * counter of each provider.
 */
inline int report_scale(const std::string &provider, const std::string &beside, size_t count)
{
	constexpr size_t each = 1000, few = 10'000;
	const auto line = [](const std::string &name, size_t processes, size_t counters,
			     size_t commands) {
		const Costs costs = arm_and_fire(name, processes, counters, commands);

		std::printf("%-10s %9zu %9zu %9zu %8.0f ns %8.0f ns %8.0f ns\n", name.c_str(),
			    processes * counters * commands, processes, processes * counters,
			    costs.arm, costs.fire, costs.arm + costs.fire);
		std::fflush(stdout);
		return costs.arm + costs.fire;
	};

	std::printf("deferred work: a command, of all processes together\n"
		    "%-10s %9s %9s %9s %11s %11s %11s\n",
		    "provider", "armed", "processes", "counters", "to arm", "to fire", "sum");
	const double many = line(provider, 8, std::max<size_t>(1, count / 8 / each), each);
	line(provider, 1, 1, few);
	if (!beside.empty())
		std::printf("%.1f times as long over %s\n", line(beside, 1, 1, few) / many,
			    beside.c_str());

	std::printf("\nflush, and a message of 8 bytes of another process, us\n"
		    "%9s %12s %9s %11s %9s %11s %9s\n",
		    "armed", "flush", "each", "before", "longest", "meanwhile", "longest");
	for (const size_t part : {8, 4, 2, 1})
		flush_all(provider, std::min<size_t>(each, count / part), count / part);
	return 0;
}

} // namespace bench
