// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What several verbs make of the module's statistics. */
#ifndef TREADLE_TOOLS_TREADLECTL_STATISTICS_H
#define TREADLE_TOOLS_TREADLECTL_STATISTICS_H

#include <array>
#include <chrono>
#include <map>
#include <string>

#include "netlink.h"

namespace ctl
{

enum Total {
	messages_out,
	messages_in,
	bytes_out,
	bytes_in,
	doorbells,
	unexpected,
	parked_now,
	armed_now,
	fired,
	late_pages,
	errors,
	worker_ns,
	totals
};
using Totals = std::array<std::uint64_t, totals>;

/* Sums up all kinds of operations, and all errors. */
Totals totals_of(const Value &counters);
void add(Totals &sum, const Totals &one);
/* Per second. Parked and armed are not: they are as they are now. */
Value::Fields rates_of(const Totals &before, const Totals &now, double seconds);

/* Replaces numbers by names: kinds, directions, errors, and adds what is not counted as 0. */
Value named(const Value &counters);
/* "ECONNRESET"; "other" for 0; the number if it has no name. */
std::string errno_name(std::uint64_t number);

/* Names of processes and users. Looks each up once. */
class Names
{
public:
	const std::string &process(std::uint64_t pid);
	const std::string &user(std::uint64_t uid);

private:
	std::map<std::uint64_t, std::string> processes_, users_;
};

/* Those of these fields that each row has, in this order. */
Value::List select(const Value::List &rows, std::initializer_list<const char *> names);

/* Parses "0.5" or "2": seconds, at least 0.1. */
std::chrono::milliseconds interval(const char *text);

} // namespace ctl

#endif
