// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The results of treadle-bench as a table, as JSON, and as a picture. */
#pragma once

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker.h"

namespace bench
{

/* Quartiles and median of the values, besides least and largest. */
struct Spread {
	double min, lower, median, upper, max;

	static Spread of(std::vector<double> values)
	{
		std::sort(values.begin(), values.end());
		auto at = [&](double part) {
			const double place = part * (values.size() - 1);
			const size_t i = static_cast<size_t>(place);
			const double next = values[std::min(i + 1, values.size() - 1)];
			return values[i] + (place - i) * (next - values[i]);
		};
		return {values.front(), at(.25), at(.5), at(.75), values.back()};
	}
};

/* What was measured of a post besides the time of the call. */
struct Background {
	Spread transfer_ns; /* until both completions */
	Spread overlap;	    /* the part of it that a simultaneous computation hides */
};

struct Row {
	Job job;
	Answer::Status status = Answer::Status::unsupported;
	std::string why; /* if it failed */
	Spread ns{};	 /* per message */
	std::optional<double> ratio, calls, instructions;
	std::optional<Background> background;
};

inline std::string size_name(size_t bytes)
{
	const char *const units[] = {"B", "KiB", "MiB", "GiB"};
	size_t unit = 0;

	for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; unit++)
		bytes /= 1024;
	return std::to_string(bytes) + " " + units[unit];
}

/* Prints row by row, because a whole run takes minutes. */
class Table
{
public:
	explicit Table(std::string baseline) : baseline_(std::move(baseline)) {}

	void head() const
	{
		std::printf("%-10s %8s  %-12s %12s %7s %9s %9s %8s %9s\n", "operation", "size",
			    "provider", "ns/message", "spread", "MB/s", ("x " + baseline_).c_str(),
			    "syscalls", "instr.");
	}

	void line(const Row &row, bool first_of_group) const
	{
		std::printf("%-10s %8s  %-12s ", first_of_group ? row.job.op.name : "",
			    first_of_group ? size_name(row.job.size).c_str() : "",
			    row.job.provider.c_str());
		switch (row.status) {
		case Answer::Status::unsupported:
			std::printf("%12s\n", "-");
			break;
		case Answer::Status::failed:
			std::printf("%12s  %s\n", "FAILED", row.why.c_str());
			break;
		case Answer::Status::done:
			numbers(row);
		}
		std::fflush(stdout);
	}

private:
	static std::string number(const std::optional<double> &value, const char *format)
	{
		char text[32] = "-";

		if (value)
			std::snprintf(text, sizeof(text), format, *value);
		return text;
	}

	static void numbers(const Row &row)
	{
		const double around = (row.ns.upper - row.ns.lower) / 2 / row.ns.median * 100;
		const double ns =
			row.background ? row.background->transfer_ns.median : row.ns.median;

		std::printf("%12.0f %5.1f %% %9.0f %9s %8s %9s", row.ns.median, around,
			    row.job.size * 1e3 / ns, number(row.ratio, "%.2f").c_str(),
			    number(row.calls, "%.1f").c_str(),
			    number(row.instructions, "%.0f").c_str());
		if (row.background)
			std::printf("   done after %.0f us, %.0f %% of it beside computing",
				    ns / 1e3, row.background->overlap.median * 100);
		std::printf("\n");
	}

	const std::string baseline_;
};

struct CloseFile {
	void operator()(std::FILE *file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/* Names of providers and operations need no quoting. */
inline void write_json(std::FILE *to, const std::vector<Row> &rows, const std::string &baseline)
{
	auto spread = [to](const char *name, const Spread &s) {
		std::fprintf(to,
			     ", \"%s\": {\"min\": %.6g, \"lower\": %.6g, \"median\": %.6g, "
			     "\"upper\": %.6g, \"max\": %.6g}",
			     name, s.min, s.lower, s.median, s.upper, s.max);
	};
	auto number = [to](const char *name, const std::optional<double> &value) {
		if (value)
			std::fprintf(to, ", \"%s\": %.6g", name, *value);
	};

	std::fprintf(to, "{\"baseline\": \"%s\", \"rows\": [", baseline.c_str());
	for (const char *separator = "\n"; const Row &row : rows) {
		static const char *const status[] = {"done", "unsupported", "failed"};

		std::fprintf(to,
			     "%s{\"mode\": \"%s\", \"endpoint\": \"%s\", "
			     "\"operation\": \"%s\", \"size\": %zu, "
			     "\"provider\": \"%s\", \"status\": \"%s\"",
			     separator,
			     row.job.address != "127.0.0.1" ? "two machines" :
			     row.job.two		    ? "two processes" :
							      "one thread",
			     row.job.type == FI_EP_MSG ? "msg" : "rdm", row.job.op.name,
			     row.job.size, row.job.provider.c_str(),
			     status[static_cast<int>(row.status)]);
		separator = ",\n";
		if (row.status == Answer::Status::done) {
			spread("ns", row.ns);
			number("ratio", row.ratio);
			number("system_calls", row.calls);
			number("instructions", row.instructions);
			if (row.background) {
				spread("transfer_ns", row.background->transfer_ns);
				spread("overlap", row.background->overlap);
			}
		}
		std::fprintf(to, "}");
	}
	std::fprintf(to, "\n]}\n");
}

} // namespace bench
