// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * treadlectl: looks at treadle from outside.
 *
 * explain: why has a trigger not fired? It shows the armed commands of a process and what each
 * waits for, directly and in turn, up to the end of the chain. The kernel shows this in
 * /proc/PID/fdinfo/FD to a user that may trace the process.
 *
 * peers: the other nodes that this network namespace knows. Root also sees what waits there.
 */
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <treadle/context.h>
#include <treadle/ioctl.h>
#include <treadle/ring.h>

#include "cli.h"

namespace
{

using Id = std::uint32_t;

struct Counter {
	std::uint64_t success, error;
	std::uint64_t sum() const { return success + error; }
};

struct Endpoint {
	unsigned port;
	Id counts[6]; /* send, recv, read, write, remote_read, remote_write */
};
const char *const operations_of[] = {"sends",  "receives",     "reads",
				     "writes", "peers' reads", "peers' writes"};

struct Armed {
	bool cell;
	Id cond;
	std::uint64_t at, is, wants; /* a counter only has `at` */
	unsigned op;
	std::uint32_t flags;
	Id ep, notify, target;
	std::string context;
};

/* One context, as shown in one open file of the device. */
struct Picture {
	bool context = false; /* the file is a context */
	std::uint64_t armed_count = 0;
	bool more = false; /* more than the file shows */
	std::map<Id, Counter> counters;
	std::map<Id, Endpoint> endpoints;
	std::vector<Armed> armed;
};

/* The counter of an endpoint that an operation counts into, if any. */
std::optional<int> role_of(unsigned op)
{
	switch (op) {
	case TREADLE_OP_SEND:
	case TREADLE_OP_TSEND:
		return 0;
	case TREADLE_OP_RECV:
	case TREADLE_OP_TRECV:
		return 1;
	case TREADLE_OP_READ:
	case TREADLE_OP_FETCH:
	case TREADLE_OP_COMPARE:
		return 2;
	case TREADLE_OP_WRITE:
	case TREADLE_OP_ATOMIC:
		return 3;
	default:
		return std::nullopt;
	}
}

const char *name_of(unsigned op)
{
	static const char *const names[] = {"nothing", "send",		 "tagged send",
					    "receive", "tagged receive", "read",
					    "write",   "atomic",	 "fetch",
					    "compare", "counter set",	 "counter add"};

	return op < std::size(names) ? names[op] : "operation";
}

/* --- reading -------------------------------------------------------------------------- */

/* Reads "word number word number": returns the number after the word. */
template <class T> T take(std::istream &in, const char *word)
{
	std::string found;
	T value{};

	if (!(in >> found >> value) || found != word)
		throw std::runtime_error(std::string("the kernel does not tell: ") + word);
	return value;
}

Armed armed_of(std::istream &in)
{
	Armed a{};
	std::string kind;

	in >> kind >> a.cond;
	a.cell = kind == "cell";
	a.at = take<std::uint64_t>(in, "at");
	if (a.cell) {
		a.is = take<std::uint64_t>(in, "is");
		a.wants = take<std::uint64_t>(in, "wants");
	}
	a.op = take<unsigned>(in, "op");
	a.flags = take<std::uint32_t>(in, "flags");
	a.ep = take<Id>(in, "ep");
	a.notify = take<Id>(in, "counts");
	in >> a.target;
	a.context = take<std::string>(in, "context");
	return a;
}

Picture read(std::istream &file)
{
	Picture p;

	for (std::string line; std::getline(file, line);) {
		std::istringstream in(line);
		std::string what;
		Id id = 0;

		in >> what;
		if (what == "treadle-context:") {
			p.context = true;
			p.armed_count = take<std::uint64_t>(in, "armed");
		} else if (what == "treadle-cntr:") {
			in >> id;
			p.counters[id].success = take<std::uint64_t>(in, "success");
			p.counters[id].error = take<std::uint64_t>(in, "error");
		} else if (what == "treadle-ep:") {
			in >> id;
			Endpoint &ep = p.endpoints[id];
			ep.port = take<unsigned>(in, "port");
			ep.counts[0] = take<Id>(in, "counts");
			for (int i = 1; i < 6; i++)
				in >> ep.counts[i];
		} else if (what == "treadle-armed:") {
			p.armed.push_back(armed_of(in));
		} else if (what == "treadle-more:") {
			p.more = true;
		}
	}
	return p;
}

/* --- what waits for what ---------------------------------------------------------- */

/* The counters that change when the command has run. */
std::set<Id> counts_into(const Picture &p, const Armed &a)
{
	std::set<Id> ids{a.notify, a.target};
	const auto role = role_of(a.op);
	const auto ep = p.endpoints.find(a.ep);

	if (role && ep != p.endpoints.end() && !(a.flags & TREADLE_F_WORK))
		ids.insert(ep->second.counts[*role]);
	ids.erase(0);
	return ids;
}

/* The armed commands that count into the counter. */
std::vector<const Armed *> feeders(const Picture &p, Id counter)
{
	std::vector<const Armed *> found;

	for (const Armed &a : p.armed)
		if (counts_into(p, a).contains(counter))
			found.push_back(&a);
	return found;
}

/*
 * The ends of the chains that lead to a counter: cells, and counters that no armed command counts
 * into.
 */
struct Ends {
	std::set<Id> counters;
	std::vector<const Armed *> cells;
	bool circle = false;
};

/* on_path: visited counters; true: the present chain leads through it */
void follow(const Picture &p, const Armed &a, std::map<Id, bool> &on_path, Ends &ends)
{
	if (a.cell) {
		ends.cells.push_back(&a);
		return;
	}
	if (const auto [at, fresh] = on_path.try_emplace(a.cond, true); !fresh) {
		ends.circle |= at->second;
		return;
	}
	const auto before = feeders(p, a.cond);
	if (before.empty())
		ends.counters.insert(a.cond);
	for (const Armed *one : before)
		follow(p, *one, on_path, ends);
	on_path[a.cond] = false;
}

std::string what_is(const Armed &a)
{
	std::string text = name_of(a.op);

	if (a.ep)
		text += " of endpoint " + std::to_string(a.ep);
	return text + ", context " + a.context;
}

std::string what_it_waits_for(const Picture &p, const Armed &a)
{
	if (a.cell)
		return "cell at " + std::to_string(a.at) + " of " + std::to_string(a.cond) +
		       ": it is " + std::to_string(a.is) + ", not " + std::to_string(a.wants);
	const auto counter = p.counters.find(a.cond);
	std::string text = "counter " + std::to_string(a.cond) + " to be " + std::to_string(a.at);
	if (counter != p.counters.end())
		text += ": it is " + std::to_string(counter->second.sum());
	return text;
}

/* What counts into a counter besides armed commands. */
std::string others_who_count(const Picture &p, Id counter)
{
	std::string text;

	for (const auto &[id, ep] : p.endpoints)
		for (int i = 0; i < 6; i++)
			if (ep.counts[i] == counter)
				text += std::string(operations_of[i]) + " of endpoint " +
					std::to_string(id) + " (port " + std::to_string(ep.port) +
					"), ";
	return text + "the process itself";
}

/* --- printing --------------------------------------------------------------------- */

void tell(const Picture &p)
{
	std::set<Id> told;

	std::printf("%" PRIu64 " commands are armed%s\n", p.armed_count,
		    p.more ? " (some are not shown)" : "");
	for (const Armed &a : p.armed) {
		std::printf("%s\n  waits for %s\n", what_is(a).c_str(),
			    what_it_waits_for(p, a).c_str());
		for (const Id id : counts_into(p, a))
			std::printf("  then counts into counter %u\n", id);
		if (a.cell)
			continue;
		for (const Armed *one : feeders(p, a.cond))
			std::printf("  counter %u is counted by %s, which is armed\n", a.cond,
				    what_is(*one).c_str());
		Ends ends;
		std::map<Id, bool> on_path;
		follow(p, a, on_path, ends);
		for (const Id id : ends.counters)
			std::printf("  stuck at counter %u, which nothing armed counts: it waits "
				    "for %s\n",
				    id, others_who_count(p, id).c_str());
		for (const Armed *cell : ends.cells)
			std::printf("  stuck at %s\n", what_it_waits_for(p, *cell).c_str());
		if (ends.circle)
			std::printf("  waits for itself, too, in a circle\n");
	}
}

void draw(const Picture &p, const std::string &prefix)
{
	const char *const at = prefix.c_str();
	std::size_t n = 0;

	for (const auto &[id, counter] : p.counters)
		std::printf("\t\"%s_c%u\" [label=\"counter %u\\n%" PRIu64 "\"%s];\n", at, id, id,
			    counter.sum(), feeders(p, id).empty() ? ", color=red" : "");
	for (const Armed &a : p.armed) {
		std::printf("\t\"%s_a%zu\" [shape=box, label=\"%s\"];\n", at, n,
			    what_is(a).c_str());
		if (a.cell)
			std::printf("\t\"%s_k%u_%" PRIu64 "\" [shape=diamond, color=red, "
				    "label=\"cell\\n%" PRIu64 "\"];\n"
				    "\t\"%s_k%u_%" PRIu64 "\" -> \"%s_a%zu\" "
				    "[label=\"is %" PRIu64 "\"];\n",
				    at, a.cond, a.at, a.is, at, a.cond, a.at, at, n, a.wants);
		else
			std::printf("\t\"%s_c%u\" -> \"%s_a%zu\" [label=\"at %" PRIu64 "\"];\n", at,
				    a.cond, at, n, a.at);
		for (const Id id : counts_into(p, a))
			std::printf("\t\"%s_a%zu\" -> \"%s_c%u\";\n", at, n, at, id);
		n++;
	}
}

/* Says why a process, or one of its files, can't be read. */
std::runtime_error cannot_look(const std::string &pid, int error)
{
	if (error == ENOENT || error == ESRCH)
		return std::runtime_error("there is no process " + pid);
	if (error == EACCES || error == EPERM)
		return std::runtime_error("process " + pid +
					  " may not be looked at: its user may, and root, as "
					  "ptrace(2) has it");
	return std::runtime_error("process " + pid + ": " + std::generic_category().message(error));
}

/* May the file be a context? Its name doesn't matter, but it is a character device. */
bool may_be_context(const std::filesystem::path &fd)
{
	struct stat st;

	return !::stat(fd.c_str(), &st) && S_ISCHR(st.st_mode);
}

int explain(const std::string &pid, bool dot)
{
	const std::filesystem::path process = "/proc/" + pid;
	std::error_code error;
	std::filesystem::directory_iterator fds(process / "fd", error);
	int contexts = 0;

	if (error)
		throw cannot_look(pid, error.value());
	if (dot)
		std::printf("digraph treadle {\n");
	for (const auto &fd : fds) {
		if (!may_be_context(fd.path()))
			continue;
		const std::string number = fd.path().filename();
		std::ifstream file(process / "fdinfo" / number);
		if (!file && errno != ENOENT)
			throw cannot_look(pid, errno);
		const Picture picture = read(file);
		if (!picture.context)
			continue;
		contexts++;
		if (dot) {
			draw(picture, "f" + number);
			continue;
		}
		std::printf("process %s, file %s: ", pid.c_str(), number.c_str());
		tell(picture);
		if (picture.armed.empty() && picture.armed_count)
			std::printf("  which are not shown: only the user who opened the file, and "
				    "root, may see them\n");
	}
	if (dot)
		std::printf("}\n");
	if (!contexts) {
		if (access(TREADLE_DEVICE, F_OK))
			cli::need_device();
		throw std::runtime_error("process " + pid +
					 " has no file of treadle's device open");
	}
	return 0;
}

/* --- other nodes ------------------------------------------------------------------ */

std::string address_of(const treadle_addr &addr)
{
	char text[INET6_ADDRSTRLEN] = "?", name[IF_NAMESIZE];

	inet_ntop(addr.family, addr.addr, text, sizeof(text));
	if (!addr.scope)
		return text;
	return std::string(text) + '%' +
	       (if_indextoname(addr.scope, name) ? name : std::to_string(addr.scope));
}

void show(const treadle_next_node &n)
{
	static const char *const states[] = {"idle", "connecting for", "up for", "lost for"};
	const bool known = n.state < std::size(states);

	std::printf("%s: %s", address_of(n.addr).c_str(), known ? states[n.state] : "?");
	if (n.state != TREADLE_NODE_IDLE)
		std::printf(" %.1f s", static_cast<double>(n.state_ms) / 1e3);
	if (n.error)
		std::printf(" (%s)",
			    std::generic_category().message(static_cast<int>(n.error)).c_str());
	std::printf("\n");
	if (!(n.flags & TREADLE_NODE_COUNTED) || (!n.links && !n.queued))
		return;
	if (n.links)
		std::printf("  heard %.1f s ago, round trip %.1f us; sessions: %llu, reconnects: "
			    "%llu\n  frames: %llu sent, %llu resent, %llu received, %u not "
			    "acknowledged\n",
			    static_cast<double>(n.silent_ms) / 1e3,
			    static_cast<double>(n.round_trip_ns) / 1e3, n.sessions,
			    n.links - n.sessions, n.sent, n.resent, n.received, n.unacknowledged);
	std::printf(
		"  commands: %u under way, %u queued, %u credits; %u of the node executed here\n",
		n.under_way, n.queued, n.credits, n.executing);
}

int peers()
{
	cli::need_device();
	const auto context = treadle::Context::open();
	bool counted = true;
	int nodes = 0;

	if (!context)
		throw std::system_error(context.error(), TREADLE_DEVICE);
	for (std::uint32_t number = 0;; nodes++) {
		const auto node = context->next_node(number);

		if (!node && node.error() == std::errc::no_such_file_or_directory)
			break;
		if (!node)
			throw std::system_error(node.error(), "other nodes");
		show(*node);
		counted &= !!(node->flags & TREADLE_NODE_COUNTED);
		number = node->number;
	}
	if (!nodes && !(context->limits().features & TREADLE_FEATURE_REMOTE))
		throw std::runtime_error("no other node is reached: is treadle_rdma loaded?");
	if (!nodes)
		std::printf("no other node is known\n");
	if (!counted)
		std::printf("(root sees more)\n");
	return 0;
}

int control(int argc, char **argv)
{
	bool dot = false;
	const auto words = cli::parse(
		{"treadlectl",
		 "explain [OPTION]... PID | peers",
		 "explain: what is armed in a process, what it waits for, and where that is stuck.\n"
		 "peers: other nodes: state, round trip, frames, credits, reconnects, what waits.",
		 {{0, "dot", nullptr, "draw it, for Graphviz", [&](const char *) { dot = true; }}},
		 "explain needs the right to trace the process; peers shows root more. The exit status is 1 if nothing can be shown.\n"},
		argc, argv);

	if (words.size() == 1 && words[0] == "peers" && !dot)
		return peers();
	if (words.size() != 2 || words[0] != "explain")
		throw cli::Misuse("explain PID, or peers; try --help");
	return explain(std::to_string(cli::number(words[1].c_str(), 1, 1 << 30)), dot);
}

} // namespace

int main(int argc, char **argv)
{
	return cli::run("treadlectl", [&] { return control(argc, argv); });
}
