// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Triggers that a store into memory fires, fi_trigger(3), "XPU TRIGGERS": the time until the
 * transfer is done, and the cost of an armed one while its cell is not written.
 */
#pragma once

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "report.h"

namespace bench
{

/* CPU time of the kernel's unbound workers, which include treadle's. */
inline uint64_t workers_ns()
{
	uint64_t total = 0;

	for (const auto &process : std::filesystem::directory_iterator("/proc")) {
		std::string name;
		uint64_t ns = 0;

		std::getline(std::ifstream(process.path() / "comm"), name);
		if (name.starts_with("kworker/u"))
			std::ifstream(process.path() / "schedstat") >> ns;
		total += ns;
	}
	return total;
}

/* The time for one computation on all CPUs at once. Interrupts lengthen it. */
inline double compute_ns()
{
	std::vector<std::jthread> threads;
	const unsigned cpus = std::thread::hardware_concurrency();

	threads.reserve(cpus);
	const auto start = Clock::now();
	for (unsigned i = 0; i < cpus; i++)
		threads.emplace_back([] {
			for (unsigned n = 0; n < 100'000'000; n++)
				asm volatile("" : "+r"(n));
		});
	threads.clear(); /* joins */
	return static_cast<double>(nanoseconds(Clock::now() - start));
}

/* An endpoint that sends to itself when a cell is written. */
class Cells
{
public:
	explicit Cells(const fi_info *info) : end_(info, {.bytes = Buffer::page})
	{
		end_.meet(end_.card());
	}

	void arm(size_t count = 1)
	{
		const iovec iov{end_.buffer.data(), sizeof(uint64_t)};
		fi_msg msg{&iov, nullptr, 1, end_.peer, nullptr, 0};

		armed_.resize(count);
		for (Armed &armed : armed_) {
			armed.context.event_type = FI_TRIGGER_XPU;
			armed.context.trigger.xpu = {1, FI_HMEM_SYSTEM, {}, &armed.var};
			msg.context = &armed.context;
			must(fi_sendmsg(end_.ep.get(), &msg, FI_TRIGGER), "fi_sendmsg");
		}
	}

	/* Writes the cell of the only armed send. Returns ns until the message is received. */
	double fire()
	{
		const fi_trigger_var &var = armed_.front().var;

		must(fi_recv(end_.ep.get(), end_.buffer.data() + Buffer::page / 2, 8, nullptr,
			     FI_ADDR_UNSPEC, &end_.rx_context),
		     "fi_recv");
		const uint64_t received = end_.rx_done, sent = end_.tx_done;
		const auto start = Clock::now();
		*static_cast<volatile uint64_t *>(var.addr) = var.value.val64;
		while (end_.rx_done == received)
			end_.progress();
		const uint64_t ns = nanoseconds(Clock::now() - start);
		while (end_.tx_done == sent)
			end_.progress();
		return static_cast<double>(ns);
	}

private:
	struct Armed {
		fi_triggered_context2 context;
		fi_trigger_var var;
	};
	End end_;
	std::vector<Armed> armed_;
};

inline int report_cells(const std::string &provider, unsigned rounds)
{
	using namespace std::chrono_literals;
	const Info info = find({provider, FI_MSG | FI_TRIGGER | FI_XPU_TRIGGER});

	if (!info)
		throw Failure(provider + ", FI_XPU", FI_ENODATA);
	std::printf("from a store into an armed cell to the message received, us\n"
		    "%12s %10s %10s %10s\n",
		    "armed for", "quartile", "median", "quartile");
	for (const auto idle : {0us, 100us, 1000us, 10000us, 100000us}) {
		Cells cells(info.get());
		std::vector<double> ns;

		for (unsigned i = 0; i < rounds; i++) {
			cells.arm();
			std::this_thread::sleep_for(idle);
			ns.push_back(cells.fire());
		}
		const Spread spread = Spread::of(std::move(ns));
		std::printf("%9.1f ms %10.1f %10.1f %10.1f\n", idle.count() / 1e3,
			    spread.lower / 1e3, spread.median / 1e3, spread.upper / 1e3);
	}

	std::printf("\nwhile no cell is written: the kernel's workers, "
		    "and what a computation on all CPUs loses\n");
	double undisturbed = 0;
	for (const size_t count : {0, 1, 100, 10000}) {
		constexpr auto length = 2s;
		Cells cells(info.get());
		std::vector<double> ns(rounds);

		cells.arm(count);
		std::this_thread::sleep_for(100ms); /* let the effects of arming pass */
		const uint64_t before = workers_ns();
		std::this_thread::sleep_for(length);
		const double workers = 100. * (workers_ns() - before) / nanoseconds(length);
		std::generate(ns.begin(), ns.end(), compute_ns);
		const double computing = Spread::of(std::move(ns)).lower;
		if (!count)
			undisturbed = computing;
		std::printf("%6zu armed %10.3f %% %10.3f %%\n", count, workers,
			    100 * (computing / undisturbed - 1));
	}
	return 0;
}

} // namespace bench
