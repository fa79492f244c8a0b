// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* top: the processes that use treadle, and what each does, on a screen that is refreshed. */
#include <algorithm>
#include <ctime>
#include <sstream>

#include <treadle/treadle.h>

#include "statistics.h"
#include "terminal.h"
#include "verbs.h"

namespace ctl
{

namespace
{

struct Process {
	std::uint64_t uid = 0, contexts = 0, endpoints = 0;
	Totals sum{};
};
using Processes = std::map<std::uint64_t, Process>; /* by pid */

/* The state of the screen, as keys have set it. */
struct View {
	std::string sorted = "worker";
	bool reverse = false, help = false;
};

} // namespace

static const char *const columns[] = {"pid",	"user",	 "process", "contexts", "endpoints",
				      "out",	"in",	 "sent",    "received", "errors",
				      "parked", "armed", "worker"};

static Processes processes(Netlink &netlink)
{
	Processes all;

	for (const Value &context : netlink.dump(TREADLE_CMD_CONTEXT_GET)) {
		Process &p = all[context["pid"].count()];
		p.uid = context["uid"].count();
		p.contexts++;
		p.endpoints += context["endpoints"].count();
		add(p.sum, totals_of(context["counters"]));
	}
	return all;
}

static void sort(Value::List &rows, const View &view)
{
	/* The largest first; names in the order of the alphabet. */
	std::ranges::stable_sort(rows, [&](const Value &a, const Value &b) {
		const Value &x = a[view.sorted], &y = b[view.sorted];
		const bool first = x.numeric() ? x.number() > y.number() : x.text() < y.text();
		const bool last = x.numeric() ? x.number() < y.number() : x.text() > y.text();
		return view.reverse ? last : first;
	});
}

static Value::List rows_of(const Processes &before, const Processes &now, double seconds,
			   const View &view)
{
	Value::List rows;
	Names names; /* a number may be that of another process now */

	for (const auto &[pid, p] : now) {
		const auto old = before.find(pid);
		Value row = rates_of(old == before.end() ? p.sum : old->second.sum, p.sum, seconds);
		row.set("pid", pid);
		row.set("user", names.user(p.uid));
		row.set("process", names.process(pid));
		row.set("contexts", p.contexts);
		row.set("endpoints", p.endpoints);
		rows.push_back(std::move(row));
	}
	sort(rows, view);
	return rows;
}

static std::vector<std::string> lines_of(const std::string &text)
{
	std::vector<std::string> lines;
	std::istringstream in(text);

	for (std::string line; std::getline(in, line);)
		lines.push_back(line);
	return lines;
}

static std::vector<std::string> help()
{
	return lines_of(
		"Keys of treadlectl top\n\n"
		"  P  sort by the time of workers       N  by the number of the process\n"
		"  M  by messages out                   B  by bytes sent\n"
		"  <  by the column to the left         >  to the right\n"
		"  R  the other way round               q  end (also Ctrl-C)\n"
		"  space  refresh now                   h  this, and back\n\n"
		"out, in: operations a second; sent, received: bytes a second;\n"
		"parked: messages that wait for a receive; armed: commands that wait for a\n"
		"trigger; worker: time of the module's threads, in percent of a processor\n");
}

static void sort_by_key(char key, View &view)
{
	const auto at = std::ranges::find(columns, view.sorted) - std::begin(columns);
	const auto last = static_cast<std::ptrdiff_t>(std::size(columns)) - 1;

	switch (key) {
	case 'P':
		view.sorted = "worker";
		break;
	case 'N':
		view.sorted = "pid";
		break;
	case 'M':
		view.sorted = "out";
		break;
	case 'B':
		view.sorted = "sent";
		break;
	case '<':
		view.sorted = columns[std::max<std::ptrdiff_t>(at - 1, 0)];
		break;
	case '>':
		view.sorted = columns[std::min(at + 1, last)];
		break;
	case 'R':
		view.reverse = !view.reverse;
		break;
	case 'h':
	case '?':
		view.help = !view.help;
		break;
	default:
		break;
	}
}

static Value::List shown(const Value::List &rows)
{
	Value::List out;

	for (const Value &row : rows) {
		Value::Fields fields;
		for (const char *column : columns)
			fields.emplace_back(column, row[column]);
		out.emplace_back(std::move(fields));
	}
	return out;
}

static std::string summary(const Value &rates, std::size_t count)
{
	const std::time_t now = std::time(nullptr);
	char clock[16] = "";
	std::tm local{};

	if (localtime_r(&now, &local))
		std::strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	return "treadle " + std::string(treadle::version()) + "  " + clock + "  " +
	       std::to_string(count) + " processes  out " + rates["out"].text() + "  in " +
	       rates["in"].text() + "  sent " + rates["sent"].text() + "  errors " +
	       rates["errors"].text();
}

int top(int argc, char **argv)
{
	using clock = std::chrono::steady_clock;
	std::chrono::milliseconds each = std::chrono::seconds(3);
	const Call call = parse(argc, argv, 0,
				{{'i', "interval", "S", "seconds between two screens (3)",
				  [&](const char *text) { each = interval(text); }}});
	View view;

	if (call.json)
		throw cli::Misuse("top is a screen: stat --json --interval has lines of JSON");
	Netlink netlink;
	const Terminal terminal;
	Processes before = processes(netlink);
	Totals sum_before = totals_of(netlink.get(TREADLE_CMD_MODULE_GET)["counters"]);
	auto then = clock::now() - each;
	Value::List rows;
	std::string first;

	for (auto next = clock::now();;) {
		if (clock::now() >= next) {
			Processes now = processes(netlink);
			const Totals sum =
				totals_of(netlink.get(TREADLE_CMD_MODULE_GET)["counters"]);
			const auto at = clock::now();
			const double seconds = std::chrono::duration<double>(at - then).count();

			rows = rows_of(before, now, seconds, view);
			first = summary(rates_of(sum_before, sum, seconds), now.size());
			before = std::move(now);
			sum_before = sum;
			then = at;
			next = at + each;
		}
		std::vector<std::string> lines = {
			first, "sorted by " + view.sorted + (view.reverse ? ", reversed" : "") +
				       "; h: help, q: end"};
		if (rows.empty())
			lines.emplace_back("no process uses treadle, or none that you may see");
		for (std::string &line : lines_of(text(shown(rows), false)))
			lines.push_back(std::move(line));
		const bool small = terminal.rows() < 4 || terminal.columns() < 40;
		if (small)
			lines = {"too small"};
		terminal.show(view.help && !small ? help() : lines, view.help ? 0 : small ? 1 : 2);

		const auto left =
			std::chrono::duration_cast<std::chrono::milliseconds>(next - clock::now());
		const char key = terminal.key(std::max(left, std::chrono::milliseconds(0)));
		if (key == 'q')
			return 0;
		if (key == ' ')
			next = clock::now();
		if (key) {
			sort_by_key(key, view);
			sort(rows, view);
		}
	}
}

} // namespace ctl
