// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* stat: what was counted, of the machine or of a process; or rates, line by line. */
#include <optional>
#include <thread>

#include "statistics.h"
#include "verbs.h"

namespace ctl
{

/* The counters of each context of a process; without one, those of the module. */
static Value::List counters_of(Netlink &netlink, std::optional<std::uint64_t> pid)
{
	Value::List found;

	if (!pid)
		return {netlink.get(TREADLE_CMD_MODULE_GET)["counters"]};
	for (const Value &context : netlink.dump(TREADLE_CMD_CONTEXT_GET))
		if (context["pid"].count() == *pid)
			found.push_back(context["counters"]);
	if (found.empty())
		throw std::runtime_error("process " + std::to_string(*pid) +
					 " has no context that you may see (treadlectl list)");
	return found;
}

static Totals sum_of(const Value::List &counters)
{
	Totals sum{};

	for (const Value &one : counters)
		add(sum, totals_of(one));
	return sum;
}

static void show_totals(const Value::List &counters, bool json)
{
	for (const Value &one : counters) {
		Value named_one = named(one);
		if (!json && named_one["traffic"].list().empty())
			named_one.set("traffic", "none");
		print(named_one, json);
	}
}

/* A line of headings now and then, so that one is on the screen. */
static void show_rates(Netlink &netlink, std::optional<std::uint64_t> pid,
		       std::chrono::milliseconds each, std::uint64_t times, bool json)
{
	using clock = std::chrono::steady_clock;
	constexpr std::uint64_t screen = 20;
	constexpr std::size_t column = 11;
	auto then = clock::now();
	Totals before = sum_of(counters_of(netlink, pid));

	for (std::uint64_t n = 0; n < times; n++) {
		std::this_thread::sleep_until(then + each);
		const Totals now = sum_of(counters_of(netlink, pid));
		const auto at = clock::now();
		const Value::Fields rates =
			rates_of(before, now, std::chrono::duration<double>(at - then).count());
		std::string heads, line;

		before = now;
		then = at;
		if (json) {
			print(rates, true);
			continue;
		}
		for (const auto &[name, value] : rates) {
			const std::string text = value.text();
			heads +=
				std::string(column - std::min(column - 1, name.size()), ' ') + name;
			line += std::string(column - std::min(column - 1, text.size()), ' ') + text;
		}
		write((n % screen ? "" : paint(heads, Tone::strong, coloured()) + "\n") + line +
		      "\n");
	}
}

int stat(int argc, char **argv)
{
	std::optional<std::chrono::milliseconds> each;
	std::uint64_t times = ~0ULL;
	const Call call =
		parse(argc, argv, 1,
		      {{'i', "interval", "S", "print what happens in S seconds, again and again",
			[&](const char *text) { each = interval(text); }},
		       {'n', "count", "N", "so many times",
			[&](const char *text) { times = cli::number(text); }}});
	std::optional<std::uint64_t> pid;

	if (!call.words.empty())
		pid = cli::number(call.words[0].c_str(), 1, 1 << 30);
	if (times != ~0ULL && !each)
		each = std::chrono::seconds(1);
	Netlink netlink;
	if (each)
		show_rates(netlink, pid, *each, times, call.json);
	else
		show_totals(counters_of(netlink, pid), call.json);
	return 0;
}

} // namespace ctl
