// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "statistics.h"

#include <cstdlib>
#include <cstring>

#include <pwd.h>

#include "../cli.h"
#include "fdinfo.h"

namespace ctl
{

Totals totals_of(const Value &counters)
{
	static const std::pair<Total, const char *> plain[] = {
		{doorbells, "doorbells"}, {unexpected, "unexpected"}, {parked_now, "parked_now"},
		{armed_now, "armed_now"}, {fired, "fired"},	      {late_pages, "late_pages"},
		{worker_ns, "worker_ns"}};
	Totals t{};

	for (const Value &kind : counters["traffic"].list()) {
		const bool in = kind["direction"].count() == TREADLE_DIRECTION_IN;
		t[in ? messages_in : messages_out] += kind["messages"].count();
		t[in ? bytes_in : bytes_out] += kind["bytes"].count();
	}
	for (const Value &failure : counters["failures"].list())
		t[errors] += failure["count"].count();
	for (const auto &[total, name] : plain)
		t[total] = counters[name].count();
	return t;
}

void add(Totals &sum, const Totals &one)
{
	for (std::size_t i = 0; i < totals; i++)
		sum[i] += one[i];
}

Value::Fields rates_of(const Totals &before, const Totals &now, double seconds)
{
	/* A process may have closed a context: then its sum has become less. */
	const auto rate = [&](Total i, const char *unit = "/s") {
		const auto more = now[i] > before[i] ? now[i] - before[i] : 0;
		return Value(static_cast<double>(more) / seconds, unit);
	};

	return {{"out", rate(messages_out)},
		{"in", rate(messages_in)},
		{"sent", rate(bytes_out, "B/s")},
		{"received", rate(bytes_in, "B/s")},
		{"doorbells", rate(doorbells)},
		{"unexpected", rate(unexpected)},
		{"fired", rate(fired)},
		{"late_pages", rate(late_pages)},
		{"errors", rate(errors)},
		{"parked", now[parked_now]},
		{"armed", now[armed_now]},
		{"worker", Value(rate(worker_ns).number() / 1e7, "%")}};
}

std::string errno_name(std::uint64_t number)
{
	const char *const name = strerrorname_np(static_cast<int>(number));
	return !number ? "other" : name ? name : std::to_string(number);
}

Value named(const Value &counters)
{
	static const char *const kinds[] = {"message", "tagged", "collective",
					    "read",    "write",	 "atomic"};
	static const char *const directions[] = {"out", "in"};
	Value::List traffic, failures;
	Value out;
	const auto name = [](std::uint64_t i, auto &names) {
		return i < std::size(names) ? names[i] : "other";
	};

	for (Value kind : counters["traffic"].list()) {
		kind.set("kind", name(kind["kind"].count(), kinds));
		kind.set("direction", name(kind["direction"].count(), directions));
		traffic.push_back(std::move(kind));
	}
	for (Value failure : counters["failures"].list()) {
		failure.set("errno", errno_name(failure["errno"].count()));
		failures.push_back(std::move(failure));
	}
	out.set("traffic", std::move(traffic));
	out.set("failures", std::move(failures));
	for (const Counted &one : counted)
		out.set(one.name, counters[one.name].count());
	return out;
}

const std::string &Names::process(std::uint64_t pid)
{
	const auto [at, fresh] = processes_.try_emplace(pid);
	if (fresh)
		at->second = pid ? command_of(std::to_string(pid)) : "";
	static const std::string unknown = "?"; /* it has ended, or is of another namespace */
	return at->second.empty() ? unknown : at->second;
}

const std::string &Names::user(std::uint64_t uid)
{
	const auto [at, fresh] = users_.try_emplace(uid);
	const passwd *const entry = fresh ? getpwuid(static_cast<uid_t>(uid)) : nullptr;
	if (fresh)
		at->second = entry ? entry->pw_name : std::to_string(uid);
	return at->second;
}

Value::List select(const Value::List &rows, std::initializer_list<const char *> names)
{
	Value::List out;

	for (const Value &row : rows) {
		Value::Fields fields;
		for (const char *name : names)
			fields.emplace_back(name, row[name]);
		out.emplace_back(std::move(fields));
	}
	return out;
}

std::chrono::milliseconds interval(const char *text)
{
	char *end;
	const double seconds = std::strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.1 && seconds <= 86400))
		throw cli::Misuse(std::string(text) + " is no number of seconds from 0.1 to 86400");
	return std::chrono::milliseconds(static_cast<long long>(seconds * 1000));
}

} // namespace ctl
