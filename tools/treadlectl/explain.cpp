// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * explain: why has a trigger not fired? It shows the armed commands of a process, or of all, and
 * what each waits for, directly and in turn, up to the end of the chain. The kernel shows this in
 * /proc/PID/fdinfo/FD to a user that may trace the process.
 */
#include <algorithm>
#include <filesystem>

#include <unistd.h>

#include "chain.h"
#include "verbs.h"

namespace ctl
{

[[noreturn]] static void no_context(const std::string &pid)
{
	if (access(TREADLE_DEVICE, F_OK))
		cli::need_device();
	throw std::runtime_error("process " + pid + " has no file of treadle's device open");
}

static Value value_of(const Picture &p, const Armed &a)
{
	Value::List into, before, stuck;
	const Ends ends = ends_of(p, a);

	for (const Id id : counts_into(p, a))
		into.emplace_back(id);
	if (!a.cell)
		for (const Armed *one : feeders(p, a.cond))
			before.emplace_back(what_is(*one));
	for (const Id id : ends.counters)
		stuck.emplace_back("counter " + std::to_string(id) +
				   ", which nothing armed counts: it waits for " +
				   others_that_count(p, id));
	for (const Armed *cell : ends.cells)
		stuck.emplace_back(what_it_waits_for(p, *cell));
	return Value::Fields{{"command", what_is(a)},
			     {"waits_for", what_it_waits_for(p, a)},
			     {a.cell ? "cells" : "counter", a.cond},
			     {"counts_into", into},
			     {"counted_by", before},
			     {"stuck_at", stuck},
			     {"in_a_circle", ends.circle}};
}

static Value value_of(const std::string &fd, const Picture &p)
{
	Value::List commands;

	for (const Armed &a : p.armed)
		commands.push_back(value_of(p, a));
	return Value::Fields{{"file", fd},
			     {"armed", p.armed_count},
			     {"some_not_shown", p.more},
			     {"hidden", p.armed.empty() && p.armed_count > 0},
			     {"commands", commands}};
}

static std::string sentences(const Value &command)
{
	std::string out =
		command["command"].text() + "\n  waits for " + command["waits_for"].text() + "\n";

	for (const Value &id : command["counts_into"].list())
		out += "  then counts into counter " + id.text() + "\n";
	if (!command["cells"].null())
		return out;
	for (const Value &one : command["counted_by"].list())
		out += "  counter " + command["counter"].text() + " is counted by " + one.text() +
		       ", which is armed\n";
	for (const Value &end : command["stuck_at"].list())
		out += "  " + paint("stuck", Tone::bad, coloured()) + " at " + end.text() + "\n";
	if (command["in_a_circle"].yes())
		out += "  waits for itself, too, in a circle\n";
	return out;
}

static std::string sentences(const Value &process, const Value &context)
{
	std::string out = "process " + process["pid"].text() + " (" + process["name"].text() +
			  "), file " + context["file"].text() + ": " + context["armed"].text() +
			  " commands are armed" +
			  (context["some_not_shown"].yes() ? " (some are not shown)" : "") + "\n";

	for (const Value &command : context["commands"].list())
		out += sentences(command);
	if (context["hidden"].yes())
		out += "  which are not shown: only the user that opened the file, and root, may "
		       "see them\n";
	return out;
}

static Value process_of(const std::string &pid)
{
	Value::List contexts;

	contexts_of(pid, [&](const std::string &fd, const Picture &p) {
		contexts.push_back(value_of(fd, p));
	});
	return Value::Fields{{"pid", std::stoull(pid)},
			     {"name", command_of(pid)},
			     {"contexts", std::move(contexts)}};
}

static int draw_process(const std::string &pid, bool as_dot)
{
	Graph graph;
	int contexts = 0;

	contexts_of(pid, [&](const std::string &fd, const Picture &p) {
		contexts++;
		draw(graph, p, "f" + fd);
	});
	if (!contexts)
		no_context(pid);
	if (as_dot)
		write("digraph treadle {\n" + dot(graph) + "}\n");
	else
		write(svg(graph, "treadle: what is armed in process " + pid + " (" +
					 command_of(pid) + ")"));
	return 0;
}

static int show_process(const std::string &pid, bool json)
{
	const Value process = process_of(pid);

	if (process["contexts"].list().empty())
		no_context(pid);
	if (json) {
		print(Value::Fields{{"processes", Value::List{process}}}, true);
		return 0;
	}
	for (const Value &context : process["contexts"].list())
		write(sentences(process, context));
	return 0;
}

/* All processes that may be looked at. Text leaves out those in which nothing is armed. */
static int show_all(bool json)
{
	Value::List processes;
	std::uint64_t hidden = 0, idle = 0;
	std::string out;

	for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
		const std::string pid = entry.path().filename();
		if (!std::ranges::all_of(pid, [](char c) { return c >= '0' && c <= '9'; }))
			continue;
		try {
			processes.push_back(process_of(pid));
		} catch (const NoRights &) {
			hidden++;
			continue;
		} catch (const std::exception &) {
			continue; /* it has ended */
		}
		if (processes.back()["contexts"].list().empty())
			processes.pop_back();
	}
	if (processes.empty())
		cli::need_device();
	for (const Value &process : processes)
		for (const Value &context : process["contexts"].list())
			context["armed"].count() ? void(out += sentences(process, context)) :
						   void(idle++);
	if (json) {
		print(Value::Fields{{"processes", processes}, {"not_looked_at", hidden}}, true);
		return 0;
	}
	if (out.empty())
		out = "nothing is armed\n";
	if (idle)
		out += "(" + std::to_string(idle) + " more contexts have nothing armed)\n";
	if (hidden)
		out += "(" + std::to_string(hidden) +
		       " processes of others were not looked at: root sees all)\n";
	write(out);
	return 0;
}

int explain(int argc, char **argv)
{
	bool dot = false, svg = false, all = false;
	const Call call = parse(
		argc, argv, 1,
		{{0, "dot", nullptr, "draw it, for Graphviz", [&](const char *) { dot = true; }},
		 {0, "svg", nullptr, "draw it", [&](const char *) { svg = true; }},
		 {'a', "all", nullptr, "what is armed on this machine",
		  [&](const char *) { all = true; }}});

	if (all == !call.words.empty() || ((dot || svg) && (all || call.json || dot == svg)))
		throw cli::Misuse("either a process, or --all; --dot or --svg only for a process; "
				  "try --help");
	if (all)
		return show_all(call.json);
	const std::string pid = std::to_string(cli::number(call.words[0].c_str(), 1, 1 << 30));
	return dot || svg ? draw_process(pid, dot) : show_process(pid, call.json);
}

} // namespace ctl
