// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Events as a picture. A column is a process, or another node. Each event has a row: a dot in the
 * column of the thread's side, or an arrow from side to side.
 */
#include "sequence.h"

#include <algorithm>
#include <cstdio>

#include "svg.h"

namespace ctl
{

constexpr double row = 22, top = 70, left = 90, least_column = 330;
constexpr std::size_t most_rows = 2000;

/* The sides of an event: the initiator's, and the target's; empty: there is none. */
struct Sides {
	std::string from, to;
};

static std::string side(const Event &e, const Owners &owners, const char *ctx)
{
	const auto owner = owners.find(e[ctx]);

	if (!e[ctx])
		return "";
	return owner == owners.end() ? "context " + e.text(ctx) : owner->second;
}

static std::string node(const Event &e, const char *host)
{
	return e[host] ? "node " + e.text(host) : "";
}

static Sides sides_of(const Event &e, const Owners &owners)
{
	Sides s{side(e, owners, "ctx"), side(e, owners, "peer_ctx")};

	if (s.from.empty())
		s.from = node(e, "host");
	if (s.to.empty())
		s.to = node(e, e.name == "connect" ? "host" : "to_host");
	return s;
}

/* Messages have colours in turn. */
static const char *colour_of(std::uint64_t msg)
{
	static const char *const colours[] = {"#1b6ca8", "#b3541e", "#2a7f3f", "#7b3fa0",
					      "#a8324a", "#007f85", "#806000", "#4a5568"};

	return msg ? colours[msg % std::size(colours)] : "#444";
}

/* What crosses from the initiator to the target. */
static bool crosses(const Event &e)
{
	return e.name == "match" || e.name == "keep" || e.name == "park" ||
	       e.name == "copy_begin" || e.name == "remote_send" || e.name == "remote_arrive" ||
	       e.name == "connect";
}

static std::string short_words(const Event &e)
{
	const std::string &op = e.text("op");
	const std::string len = e.text("len") + " B";
	const std::string failed = e.error() && e.error() != -11 ? " failed" : "";

	if (e.name == "post")
		return op + " " + (e["len"] ? len + " " : "") + (e.error() ? "refused" : "posted");
	if (e.name == "arm")
		return op + " armed on " + e.text("cond") + " at " + e.text("threshold");
	if (e.name == "fire")
		return op + " fires: " + e.text("cond") + " at " + e.text("threshold");
	if (e.name == "match")
		return e["waited"] ? "meets a receive, after waiting" : "meets a receive";
	if (e.name == "keep")
		return "no receive: kept there, " + len;
	if (e.name == "park")
		return "no receive: parked here, " + len;
	if (e.name == "copy_begin")
		return "copy " + len + (e["done"] ? " from " + e.text("done") : "") +
		       (e["worker"] ? " (worker)" : "");
	if (e.name == "copy_end")
		return e.error() == -11 ? "left to a worker" : "copied" + failed;
	if (e.name == "page_wait")
		return "page missing";
	if (e.name == "complete")
		return op + (failed.empty() ? " complete" : failed);
	if (e.name == "connect")
		return "connection " + e.text("what");
	if (e.name == "remote_send")
		return "to node " + e.text("to_host") + ", " + len;
	if (e.name == "remote_arrive")
		return "from node " + e.text("host") + ", " + len;
	return e.name;
}

/* The column in which an event without an arrow has its dot. */
static const std::string &place_of(const Event &e, const Sides &s)
{
	const bool receives =
		e.name == "complete" && (e.text("op") == "recv" || e.text("op") == "trecv");
	const bool there = receives || e.name == "copy_end";

	return (there && !s.to.empty()) || s.from.empty() ? s.to : s.from;
}

std::string sequence(const std::vector<Event> &events, const Owners &owners,
		     const std::string &title)
{
	const std::size_t rows = std::min(events.size(), most_rows);
	std::vector<std::string> columns;
	const auto column_of = [&](const std::string &name) {
		const auto at = std::ranges::find(columns, name);
		if (at == columns.end())
			columns.push_back(name);
		return static_cast<std::size_t>(std::ranges::find(columns, name) - columns.begin());
	};
	Svg svg;

	for (std::size_t i = 0; i < rows; i++) {
		const Sides s = sides_of(events[i], owners);
		for (const std::string &name : {s.from, s.to})
			if (!name.empty())
				column_of(name);
	}
	double column = least_column;
	for (const std::string &name : columns)
		column = std::max(column, text_width(name) + 40);
	const auto x_of = [&](const std::string &name) {
		return left + 20 + column * static_cast<double>(column_of(name));
	};
	const double width =
		left + column * static_cast<double>(std::max<std::size_t>(columns.size(), 1));
	const double height = top + row * static_cast<double>(rows) + 40;

	svg.text({10, 22}, title, Svg::Anchor::start, "#222", true);
	for (const std::string &name : columns) {
		const double x = x_of(name);
		svg.box({x - 10, 34}, text_width(name) + 20, 22, 4, "#888", "#f2f2f2");
		svg.text({x, 49}, name, Svg::Anchor::start, "#222", true);
		svg.line({x, 56}, {x, height - 20}, "#bbb");
	}
	std::uint64_t before = 0;
	for (std::size_t i = 0; i < rows; i++) {
		const Event &e = events[i];
		const Sides s = sides_of(e, owners);
		const double y = top + row * (static_cast<double>(i) + 0.5);
		const std::uint64_t msg = e["msg"];
		const char *const colour = colour_of(msg);
		const char *const ink = is_failure(e) ? "#c00000" : is_wait(e) ? "#9a6700" : "#222";
		const std::string label =
			(msg ? "#" + std::to_string(msg) + " " : "") + short_words(e);
		char time[32];

		std::snprintf(time, sizeof(time), "%.3f ms", (e.time - events[0].time) * 1e3);
		svg.text({left - 10, y + 4}, time, Svg::Anchor::end, "#777");
		if (msg != before && i)
			svg.line({left, y - row / 2}, {width - 10, y - row / 2}, "#eee");
		before = msg;
		if (crosses(e) && !s.from.empty() && !s.to.empty() && s.from != s.to) {
			const double a = x_of(s.from), b = x_of(s.to);
			svg.arrow({a, y + 5}, {b, y + 5}, colour);
			svg.text({std::min(a, b) + 12, y + 1}, label, Svg::Anchor::start, ink);
			continue;
		}
		const std::string &at = place_of(e, s);
		const double x = at.empty() ? left : x_of(at);
		svg.box({x - 4, y - 4}, 8, 8, 4, colour, is_wait(e) ? "white" : colour);
		svg.text({x + 12, y + 4}, label, Svg::Anchor::start, ink);
	}
	if (events.size() > rows)
		svg.text({left, height - 8},
			 std::to_string(events.size() - rows) + " later events are not shown");
	return svg.picture(width, height, title);
}

} // namespace ctl
