// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * treadle-ring: messages travel through processes that don't run.
 *
 * The processes form a ring. Each posts its receives, and arms forwards to its neighbour on its
 * counter of receives. Message k is sent from the buffer where it arrived, as soon as k messages
 * are there. Process 0 arms the start of each next round in the same way.
 *
 * Then all other processes are stopped, process 0 sends once, and the message has to go around for
 * all rounds. The processes may be on several machines.
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "bench/machines.h"
#include "bench/station.h"
#include "cli.h"

namespace
{

using namespace bench;

constexpr size_t most_rounds = 1 << 24, most_bytes = 1 << 30, most_seconds = 86400;

struct Options : Plan {
	std::string provider = "treadle", beside;
	std::string address = "127.0.0.1"; /* of this machine */
	size_t processes = 8;
	bool stop = true;
	Places places;
};

/* What a process on another machine has to know. */
struct Job {
	char provider[32]{};
	Plan plan;
};

const Hello hello("treadle-ring", sizeof(Job));

/* Not an error, but impossible here. */
struct Unavailable : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* The provider's endpoint. Sets options.rounds to the most rounds that it can do at once. */
Info find_ring(Options &options)
{
	const bool here = options.address == "127.0.0.1";
	Need need{.provider = options.provider,
		  .caps = FI_MSG | FI_TRIGGER | (here ? 0 : FI_REMOTE_COMM),
		  .rx_size = options.rounds + 1,
		  .address = options.address};
	Info info = find(need);

	need.rx_size = 0;
	if (!info)
		info = find(need);
	if (!info)
		throw Unavailable(options.provider + " has no triggered messages " +
				  (here ? "here" : "that other machines reach at " + need.address));
	if (options.size > info->ep_attr->max_msg_size)
		throw Unavailable("messages of that size are too long for " + options.provider);
	options.rounds = std::min(options.rounds, info->rx_attr->size - 1);
	return info;
}

/* Another process, seen from inside. */
void live(Options options, Partner &parent)
{
	const Info info = find_ring(options);
	Station station(info.get(), options, false);

	report(parent, {.card = station.card()});
	station.arm(told<Card>(parent));
	report(parent);
	told<char>(parent);
	station.verify();
	report(parent);
	told<char>(parent); /* throws when the ring is ended */
}

/* The same on behalf of another machine. */
void live_there(Partner &master, const std::string &address)
{
	Job job;
	Options options;

	if (!master.get(&job, sizeof(job)))
		return;
	job.provider[sizeof(job.provider) - 1] = 0;
	static_cast<Plan &>(options) = job.plan;
	if (options.rounds > most_rounds || options.size > most_bytes ||
	    options.seconds > most_seconds)
		throw std::runtime_error("another machine asks for too much");
	options.provider = job.provider;
	options.address = address;
	keep(master, options.seconds, [&](Partner &parent) { live(options, parent); });
}

/* Sends a message around the ring, prints the result, and returns ns for each hop. */
double turn(Options options, const Machines &machines)
{
	Others others;
	Job job{.plan = options};

	std::snprintf(job.provider, sizeof(job.provider), "%s", options.provider.c_str());
	/* Before anything is opened, because few providers survive a fork. */
	start_others(
		others, options.processes, options.seconds, machines,
		[&](size_t) { return [&](Partner &parent) { live(options, parent); }; },
		[&](size_t) { return job; });

	const Info info = find_ring(options);
	Station first(info.get(), options, true);
	std::vector<Card> cards{first.card()};
	for (auto &other : others)
		cards.push_back(other->report().card);
	for (size_t i = 0; i < others.size(); i++)
		others[i]->tell(cards[(i + 2) % cards.size()]);
	first.arm(cards[1]);
	for (auto &other : others)
		other->report();

	/* A rehearsal, not measured: it makes connections and faults pages in. */
	first.send(0);
	first.await(1);

	std::printf("%s: %s, %zu rounds of %zu bytes\n", options.provider.c_str(),
		    number_of(options.processes, machines).c_str(), options.rounds, options.size);
	std::optional<Stillness> stillness;
	if (options.stop)
		stillness.emplace(others);
	const auto start = Clock::now();
	first.send(1);
	first.await(options.rounds + 1);
	const uint64_t ns = nanoseconds(Clock::now() - start);
	if (stillness)
		stillness->end();

	first.verify();
	for (auto &other : others)
		other->tell('v');
	for (auto &other : others)
		other->report();

	const size_t hops = options.rounds * options.processes;
	const double each = static_cast<double>(ns) / hops;
	std::printf(
		"  all %zu rounds are back after one send, every byte verified in every process\n",
		options.rounds);
	if (stillness)
		std::printf("  processes 1 to %zu were stopped throughout: no CPU time, no context "
			    "switch\n",
			    options.processes - 1);
	std::printf("  %zu hops in %.2f ms: %.0f ns per hop\n", hops, ns / 1e6, each);
	std::fflush(stdout);
	return each;
}

Options parse(int argc, char **argv)
{
	Options o;

	cli::parse_options(
		{"treadle-ring",
		 "[OPTION]...",
		 "Sends messages around a ring of processes that are stopped.",
		 {{'p', "provider", "NAME", "over this libfabric provider (default: treadle)",
		   [&](const char *text) { o.provider = text; }},
		  {'n', "processes", "N", "how many (default: 8)",
		   [&](const char *text) { o.processes = cli::number(text, 2, 1000); }},
		  {'r', "rounds", "N",
		   "how often around (default: 1000); fewer if the provider\n"
		   "can't have that many receives posted",
		   [&](const char *text) { o.rounds = cli::number(text, 1, most_rounds); }},
		  {'s', "size", "BYTES", "of a message (default: 64)",
		   [&](const char *text) { o.size = cli::number(text, 1, most_bytes); }},
		  {0, "deferred", nullptr, "arm by FI_QUEUE_WORK instead of FI_TRIGGER",
		   [&](const char *) { o.deferred = true; }},
		  {0, "no-stop", nullptr, "let the others run",
		   [&](const char *) { o.stop = false; }},
		  {0, "beside", "NAME",
		   "then the same over another provider, with nothing stopped\n"
		   "and at most 50 rounds, and the ratio",
		   [&](const char *text) { o.beside = text; }},
		  {'t', "timeout", "S", "give up after so many seconds (default: 60)",
		   [&](const char *text) { o.seconds = cli::number(text, 1, most_seconds); }},
		  machine_option(o.places),
		  serve_option(o.places),
		  port_option(o.places)},
		 places_help},
		argc, argv);
	return o;
}

int ring_main(Options options)
{
	if (options.provider == "treadle")
		cli::need_device();
	load_providers();
	if (options.places.serve)
		return serve(options.places.port, hello, live_there);
	const Machines machines = options.places.meet(hello, options.seconds);
	if (!machines.empty())
		options.address = machines.front()->own_address();
	const double each = turn(options, machines);

	if (!options.beside.empty()) {
		Options other = options;
		other.provider = options.beside;
		other.stop = false;
		other.rounds = std::min<size_t>(other.rounds, 50); /* a round may take it 100 ms */
		std::printf("  %.0f times as long as over %s\n", turn(other, machines) / each,
			    options.provider.c_str());
	}
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	return cli::run("treadle-ring", [&] { return ring_main(parse(argc, argv)); });
}
