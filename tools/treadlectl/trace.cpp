// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * trace: what a process does with its peers, message by message, as the kernel's tracepoints
 * treadle:* say it. For root.
 */
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <set>

#include "sequence.h"
#include "statistics.h"
#include "verbs.h"

namespace ctl
{

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

static volatile std::sig_atomic_t ended;

/* From here on these signals end the program as it ends by itself: the instance is removed. */
static void catch_signals()
{
	struct sigaction end {
	};

	end.sa_handler = [](int) { ended = 1; };
	for (const int signal : {SIGINT, SIGTERM, SIGHUP})
		sigaction(signal, &end, nullptr);
}

/* The contexts of a process, and the processes of all contexts, those that have ended, too. */
struct Contexts {
	std::set<std::uint64_t> own;
	Owners owners;

	/* True: the process has other ones now. */
	bool look(Netlink &netlink, Names &names, std::uint64_t pid)
	{
		const std::size_t before = own.size();

		for (const Value &context : netlink.dump(TREADLE_CMD_CONTEXT_GET)) {
			const std::uint64_t id = context["id"].count(), of = context["pid"].count();

			if (!owners.contains(id))
				owners[id] = names.process(of) + " (" + std::to_string(of) + ")";
			if (of == pid)
				own.insert(id);
		}
		return own.size() != before;
	}

	bool concerns(const Event &e) const
	{
		return e.name.starts_with("peer_") || e.name == "link_down" ||
		       e.name == "reconnect" || own.contains(e["ctx"]) ||
		       own.contains(e["peer_ctx"]);
	}
};

/*
 * A message that comes from another node names no context before it has found its target. So its
 * first event is held until a later one of the same message is of the process.
 */
class Arrivals
{
public:
	bool hold(const Event &e)
	{
		if (e.name != "remote_arrive")
			return false;
		if (held_.size() >= most)
			held_.clear();
		held_[e["msg"]] = e;
		return true;
	}
	std::optional<Event> take(const Event &e)
	{
		const auto at = held_.find(e["msg"]);
		std::optional<Event> found;

		if (at != held_.end()) {
			found = at->second;
			held_.erase(at);
		}
		return found;
	}

private:
	static constexpr std::size_t most = 100000;
	std::map<std::uint64_t, Event> held_;
};

static Value value_of(const Event &e, const Owners &owners)
{
	Value value = Value::Fields{{"time", e.time}, {"event", e.name}, {"thread", e.thread}};

	for (const auto &[name, text] : e.fields) {
		const bool number = text.find_first_not_of("0123456789") == text.npos;
		if (name == "error")
			value.set(name, e.error() ?
						errno_name(static_cast<std::uint64_t>(-e.error())) :
						Value());
		else if (number || text.starts_with("0x"))
			value.set(name, e[name]);
		else
			value.set(name, text);
	}
	value.set("words", in_words(e, owners));
	return value;
}

static std::string line_of(const Event &e, double since, const Owners &owners)
{
	const Tone tone = is_failure(e) ? Tone::bad : is_wait(e) ? Tone::warning : Tone::plain;
	const std::string number = e["msg"] ? "#" + e.text("msg") : "";
	char time[32];

	std::snprintf(time, sizeof(time), "%11.6f  ", e.time - since);
	return time + number + std::string(8 - std::min<std::size_t>(7, number.size()), ' ') +
	       paint(in_words(e, owners), tone, coloured()) + "\n";
}

struct Wish {
	std::uint64_t pid;
	std::optional<std::chrono::milliseconds> duration;
	bool follow, json, svg;
};

static bool lives(std::uint64_t pid)
{
	return std::filesystem::exists("/proc/" + std::to_string(pid));
}

static void show(const Wish &wish, const std::vector<Event> &events, const Contexts &contexts,
		 std::uint64_t lost)
{
	const std::string what = "process " + std::to_string(wish.pid);
	const std::string missing =
		lost ? std::to_string(lost) + " events came too fast, and were lost" : "";
	std::string out;

	if (wish.svg) {
		write(sequence(events, contexts.owners,
			       "treadle: " + what + (lost ? " (" + missing + ")" : "")));
		return;
	}
	if (wish.json) {
		Value::List list;
		for (const Event &e : events)
			list.push_back(value_of(e, contexts.owners));
		print(Value::Fields{{"pid", wish.pid}, {"events", list}, {"lost", lost}}, true);
		return;
	}
	for (const Event &e : events)
		out += line_of(e, events.front().time, contexts.owners);
	if (events.empty())
		out = what + " has done nothing with treadle meanwhile\n";
	write(out + (lost ? "(" + missing + ")\n" : ""));
}

static int run(const Wish &wish)
{
	Names names;
	Netlink netlink;
	Contexts contexts;

	if (!contexts.look(netlink, names, wish.pid))
		throw std::runtime_error(
			lives(wish.pid) ?
				"process " + std::to_string(wish.pid) +
					" has no context that you may see (treadlectl list)" :
				"there is no process " + std::to_string(wish.pid));
	catch_signals();
	Tracing tracing;
	tracing.limit_to(contexts.own);

	const auto begun = clock::now();
	const auto end = wish.duration ? begun + *wish.duration : clock::time_point::max();
	std::vector<Event> events;
	Arrivals arrivals;
	std::optional<double> since;
	auto looked = begun;
	bool gone = false;

	while (!ended && !gone && clock::now() < end) {
		gone = !lives(wish.pid); /* what it has done last is read once more */
		if (clock::now() - looked > 200ms) {
			looked = clock::now();
			if (contexts.look(netlink, names, wish.pid))
				tracing.limit_to(contexts.own);
		}
		std::vector<Event> ours;
		for (Event &e : tracing.read(50ms)) {
			if (arrivals.hold(e) || !contexts.concerns(e))
				continue;
			if (auto arrived = arrivals.take(e))
				ours.push_back(std::move(*arrived));
			ours.push_back(std::move(e));
		}
		for (Event &e : ours) {
			since = since ? *since : e.time;
			if (!wish.follow)
				events.push_back(std::move(e));
			else if (wish.json)
				print(value_of(e, contexts.owners), true);
			else
				write(line_of(e, *since, contexts.owners));
		}
	}
	if (!wish.follow)
		show(wish, events, contexts, tracing.lost());
	if (gone)
		std::fprintf(stderr, "process %llu has ended\n",
			     static_cast<unsigned long long>(wish.pid));
	if (!wish.follow)
		return 0;
	if (tracing.lost())
		std::fprintf(stderr, "%llu events came too fast, and were lost\n",
			     static_cast<unsigned long long>(tracing.lost()));
	return 0;
}

int trace(int argc, char **argv)
{
	Wish wish{};
	const Call call =
		parse(argc, argv, 1,
		      {{'d', "duration", "S", "trace for S seconds (1; with --follow: without end)",
			[&](const char *text) { wish.duration = interval(text); }},
		       {'f', "follow", nullptr, "print each event as it comes",
			[&](const char *) { wish.follow = true; }},
		       {0, "svg", nullptr, "draw processes and messages",
			[&](const char *) { wish.svg = true; }}});

	if (call.words.empty())
		throw cli::Misuse("trace needs a process; try --help");
	if (wish.svg && (wish.follow || call.json))
		throw cli::Misuse("--svg is a whole picture: not with --follow or --json");
	wish.pid = cli::number(call.words[0].c_str(), 1, 1 << 30);
	wish.json = call.json;
	if (!wish.duration && !wish.follow)
		wish.duration = 1s;
	return run(wish);
}

} // namespace ctl
