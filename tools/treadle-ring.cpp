// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * treadle-ring: messages that travel through processes which don't run.
 *
 * The processes form a ring. Each posts its receives and arms, on the counter of what it has
 * received, the forwards to its neighbour: message k is sent from the very buffer that it arrived
 * in as soon as k messages are there. Process 0 arms the start of each next round in the same way.
 * Then all the others are stopped, process 0 sends once, and the ring has to turn all its rounds.
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include <getopt.h>

#include "bench/others.h"
#include "bench/station.h"

namespace
{

using namespace bench;

struct Options : Plan {
	std::string provider = "treadle", beside;
	size_t processes = 8;
	bool stop = true;
};

void usage(std::FILE *to)
{
	std::fputs(
		"Usage: treadle-ring [OPTION]...\n"
		"Sends messages around a ring of processes that are stopped.\n\n"
		"  -p, --provider NAME   over this libfabric provider (default: treadle)\n"
		"  -n, --processes N     how many (default: 8)\n"
		"  -r, --rounds N        how often around (default: 1000); fewer if the provider\n"
		"                        can't have that many receives posted\n"
		"  -s, --size BYTES      of a message (default: 64)\n"
		"  -d, --deferred        arm by FI_QUEUE_WORK instead of FI_TRIGGER\n"
		"      --no-stop         let the others run\n"
		"  -b, --beside NAME     then the same over another provider, with nobody stopped and\n"
		"                        at most 50 rounds, and the ratio\n"
		"  -t, --timeout S       give up after so many seconds (default: 60)\n"
		"  -h, --help            print this\n",
		to);
}

/* Nothing is wrong; it just can't be done here. */
struct Unavailable : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* The provider's endpoint for as many rounds as it can do at once, which are put into options. */
Info find_ring(Options &options)
{
	Info info = find({options.provider, FI_MSG | FI_TRIGGER, options.rounds + 1});

	if (!info)
		info = find({options.provider, FI_MSG | FI_TRIGGER});
	if (!info)
		throw Unavailable(options.provider + " has no triggered messages here");
	if (options.size > info->ep_attr->max_msg_size)
		throw Unavailable("messages of that size are too long for " + options.provider);
	options.rounds = std::min(options.rounds, info->rx_attr->size - 1);
	return info;
}

/* One of the others, seen from inside. */
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
	told<char>(parent); /* ends when the ring is taken down */
}

/* Turns the ring, prints how it went, and returns the nanoseconds a hop. */
double turn(Options options)
{
	Others others;

	/* Before anything is opened: few providers survive a fork. */
	for (size_t i = 1; i < options.processes; i++)
		others.push_back(std::make_unique<Other>(i, options.seconds, [&](Partner &parent) {
			live(options, parent);
		}));

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

	/* Connections are made and pages are found; neither is what is measured. */
	first.send(0);
	first.await(1);

	std::printf("%s: %zu processes, %zu rounds of %s\n", options.provider.c_str(),
		    options.processes, options.rounds,
		    (std::to_string(options.size) + " bytes").c_str());
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

size_t number(const char *text, size_t least, size_t most)
{
	char *end;

	errno = 0;
	const unsigned long long value = std::strtoull(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || value < least || value > most)
		throw std::invalid_argument(std::string(text) + " is not from " +
					    std::to_string(least) + " to " + std::to_string(most));
	return value;
}

Options parse(int argc, char **argv)
{
	enum { no_stop = 256 };
	static const option longs[] = {
		{"provider", required_argument, nullptr, 'p'},
		{"processes", required_argument, nullptr, 'n'},
		{"rounds", required_argument, nullptr, 'r'},
		{"size", required_argument, nullptr, 's'},
		{"deferred", no_argument, nullptr, 'd'},
		{"no-stop", no_argument, nullptr, no_stop},
		{"beside", required_argument, nullptr, 'b'},
		{"timeout", required_argument, nullptr, 't'},
		{"help", no_argument, nullptr, 'h'},
		{},
	};
	Options options;

	for (int c; (c = getopt_long(argc, argv, "p:n:r:s:db:t:h", longs, nullptr)) != -1;) {
		switch (c) {
		case 'p':
			options.provider = optarg;
			break;
		case 'n':
			options.processes = number(optarg, 2, 1000);
			break;
		case 'r':
			options.rounds = number(optarg, 1, 1 << 24);
			break;
		case 's':
			options.size = number(optarg, 1, 1 << 30);
			break;
		case 'd':
			options.deferred = true;
			break;
		case no_stop:
			options.stop = false;
			break;
		case 'b':
			options.beside = optarg;
			break;
		case 't':
			options.seconds = number(optarg, 1, 86400);
			break;
		case 'h':
			usage(stdout);
			std::exit(0);
		default:
			throw std::invalid_argument("try --help");
		}
	}
	if (optind < argc)
		throw std::invalid_argument(std::string("what is ") + argv[optind] +
					    "? try --help");
	return options;
}

int ring_main(const Options &options)
{
	load_providers();
	const double each = turn(options);

	if (!options.beside.empty()) {
		Options other = options;
		other.provider = options.beside;
		other.stop = false;
		other.rounds = std::min<size_t>(other.rounds, 50); /* it may take 100 ms a round */
		std::printf("  %.0f times as long as over %s\n", turn(other) / each,
			    options.provider.c_str());
	}
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	int status = 1;

	signal(SIGPIPE, SIG_IGN);
	try {
		return ring_main(parse(argc, argv));
	} catch (const std::invalid_argument &e) {
		std::fprintf(stderr, "treadle-ring: %s\n", e.what());
		status = 2;
	} catch (const std::exception &e) {
		std::fprintf(stderr, "treadle-ring: %s\n", e.what());
	}
	return status;
}
