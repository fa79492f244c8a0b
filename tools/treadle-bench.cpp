// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * treadle-bench: messages over any provider of libfabric, side by side.
 *
 * The providers take turns in each round, so that whatever else the machine does hits all of them;
 * medians over the rounds are compared. Beside the times stand counts that no load and no emulation
 * can distort: system calls and user-space instructions for each message.
 */
#include <cerrno>
#include <cmath>

#include <getopt.h>

#include "bench/cells.h"
#include "bench/count.h"
#include "bench/picture.h"
#include "bench/scale.h"

namespace
{

using namespace bench;

struct Options {
	std::vector<std::string> providers{"treadle", "shm", "tcp;ofi_rxm", "sockets"};
	std::vector<Operation> chosen;
	std::vector<size_t> sizes;
	std::string baseline = "shm";
	unsigned rounds = 11;
	unsigned milliseconds = 20;
	bool two = false, count = true, cells = false;
	fi_ep_type type = FI_EP_RDM;
	size_t scale = 0;
	std::string json, svg;
};

void usage(std::FILE *to)
{
	std::fputs(
		"Usage: treadle-bench [OPTION]...\n"
		"Compares libfabric providers: time, system calls, instructions per message.\n\n"
		"  -p, --provider NAME   add a provider (default: treadle, shm, tcp;ofi_rxm, sockets)\n"
		"  -b, --baseline NAME   the provider that ratios refer to (default: shm)\n"
		"  -o, --operation NAME  add an operation (default: all but post):\n",
		to);
	for (const Operation &op : operations)
		std::fprintf(to, "                          %-10s %s\n", op.name, op.help);
	std::fputs(
		"  -s, --size BYTES      add a size; K and M are understood\n"
		"                        (default: 8, 4K, 64K, 1M; post: 64K, 64M)\n"
		"  -t, --two             the ends in two processes; half a round trip is a message.\n"
		"                        Default: both in one thread, the cost to both sides without\n"
		"                        waiting, which is stable on a busy machine as well\n"
		"  -e, --endpoint TYPE   rdm (default), or msg: the two ends are connected\n"
		"  -c, --cells           instead: transfers that a store starts (FI_TRIGGER_XPU), for\n"
		"                        the first provider: reaction time, cost while nobody writes\n"
		"  -r, --rounds N        measure each provider N times, in turns (default: 11)\n"
		"  -d, --duration MS     how long each time (default: 20)\n"
		"  -n, --no-count        no system calls and instructions (never with --two)\n"
		"  -j, --json FILE       write all figures to FILE\n"
		"  -g, --svg FILE        draw them (needs gnuplot)\n"
		"  -h, --help            print this\n\n"
		"Spread is half the distance of the quartiles. A provider that does not have an\n"
		"operation gets a -. System calls are those of all threads, without sched_yield;\n"
		"instructions are not told of providers with threads of their own. The exit status is 1 if any provider\n"
		"failed at what it said it can do, or delivered wrong data.\n",
		to);
}

size_t parse_number(const char *text, bool units = false)
{
	char *end;
	errno = 0;
	size_t value = std::strtoull(text, &end, 0);

	if (units && *end && std::strchr("kKmM", *end))
		value <<= (*end++ | 0x20) == 'k' ? 10 : 20;
	if (errno || end == text || *end || *text == '-' || !value)
		throw std::invalid_argument(std::string("not a number: ") + text);
	return value;
}

Operation parse_operation(const std::string &name)
{
	for (const Operation &op : operations)
		if (name == op.name)
			return op;
	throw std::invalid_argument("no such operation: " + name);
}

fi_ep_type parse_type(const std::string &name)
{
	if (name != "rdm" && name != "msg")
		throw std::invalid_argument("no type of endpoint that is measured: " + name);
	return name == "msg" ? FI_EP_MSG : FI_EP_RDM;
}

Options parse(int argc, char **argv)
{
	enum { scale = 256 };
	static const option longs[] = {
		{"provider", required_argument, nullptr, 'p'},
		{"baseline", required_argument, nullptr, 'b'},
		{"operation", required_argument, nullptr, 'o'},
		{"size", required_argument, nullptr, 's'},
		{"two", no_argument, nullptr, 't'},
		{"endpoint", required_argument, nullptr, 'e'},
		{"cells", no_argument, nullptr, 'c'},
		{"scale", optional_argument, nullptr, scale},
		{"rounds", required_argument, nullptr, 'r'},
		{"duration", required_argument, nullptr, 'd'},
		{"no-count", no_argument, nullptr, 'n'},
		{"json", required_argument, nullptr, 'j'},
		{"svg", required_argument, nullptr, 'g'},
		{"help", no_argument, nullptr, 'h'},
		{},
	};
	Options options;
	std::vector<std::string> providers;

	for (int c;
	     (c = getopt_long(argc, argv, "p:b:o:s:te:cr:d:nj:g:h", longs, nullptr)) != -1;) {
		switch (c) {
		case 'p':
			providers.emplace_back(optarg);
			break;
		case 'b':
			options.baseline = optarg;
			break;
		case 'o':
			options.chosen.push_back(parse_operation(optarg));
			break;
		case 's':
			options.sizes.push_back(parse_number(optarg, true));
			break;
		case 't':
			options.two = true;
			break;
		case 'e':
			options.type = parse_type(optarg);
			break;
		case 'c':
			options.cells = true;
			break;
		case scale:
			options.scale = optarg ? parse_number(optarg, true) : 1'000'000;
			break;
		case 'r':
			options.rounds = parse_number(optarg);
			break;
		case 'd':
			options.milliseconds = parse_number(optarg);
			break;
		case 'n':
			options.count = false;
			break;
		case 'j':
			options.json = optarg;
			break;
		case 'g':
			options.svg = optarg;
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
	if (!providers.empty())
		options.providers = providers;
	if (options.chosen.empty())
		for (const Operation &op : operations)
			if (op.kind != Kind::post)
				options.chosen.push_back(op);
	return options;
}

std::vector<size_t> sizes_of(const Options &options, const Operation &op)
{
	if (op.kind == Kind::fetch_add)
		return {8};
	if (!options.sizes.empty())
		return options.sizes;
	if (op.kind == Kind::post)
		return {64 << 10, 64 << 20};
	return {8, 4 << 10, 64 << 10, 1 << 20};
}

/* One provider in one comparison. */
class Runner
{
public:
	explicit Runner(Job job) : worker_(job)
	{
		row.job = std::move(job);
		take(worker_.first());
	}

	bool alive() const { return row.status == Answer::Status::done; }

	/* How many messages take as long as a round should? Warms up, too. */
	void calibrate(unsigned milliseconds)
	{
		const double target = milliseconds * 1e6;

		for (messages_ = 1; alive();) {
			const auto start = Clock::now();
			const Answer answer = worker_.run(messages_);
			if (!take(answer))
				return;
			/* A post takes next to no time; what comes before and after it does. */
			const double ns = answer.overlap.transfer ?
						  nanoseconds(Clock::now() - start) :
						  answer.ns;
			if (ns >= target / 8) {
				messages_ = std::ceil(target / ns * answer.messages);
				return;
			}
			messages_ *= 2;
		}
	}

	void round()
	{
		if (!alive())
			return;
		const Answer answer = worker_.run(messages_);
		if (!take(answer))
			return;
		ns_.push_back(static_cast<double>(answer.ns) / answer.messages);
		if (const Post::Overlap &o = answer.overlap; o.transfer) {
			const double saved = static_cast<double>(o.transfer) + o.compute - o.both;
			transfer_.push_back(o.transfer);
			overlap_.push_back(std::clamp(saved / o.transfer, 0., 1.));
		}
	}

	void finish()
	{
		if (!alive())
			return;
		row.ns = Spread::of(ns_);
		if (!transfer_.empty())
			row.background = {Spread::of(transfer_), Spread::of(overlap_)};
	}

	Row row;

private:
	bool take(const Answer &answer)
	{
		row.status = answer.status;
		row.why = answer.text;
		return alive();
	}

	Worker worker_;
	uint64_t messages_ = 1;
	std::vector<double> ns_, transfer_, overlap_;
};

/* Marks instead of taking the time. */
class Marker final : public Watch
{
public:
	void start() override { mark(); }
	void stop() override { mark(); }
};

/* Nothing if it can't be told. */
std::optional<double> per_message(const Counts &counts, What what, size_t messages)
{
	double total = 0;

	/* Every other section is measured. The first is empty: what marking itself costs. */
	if (counts.sections.size() < 3)
		return std::nullopt;
	const double marking = what == What::instructions ? counts.sections[0] : 0;
	for (size_t i = 2; i < counts.sections.size(); i += 2)
		total += counts.sections[i] - marking;
	return total / messages;
}

void count_into(Row &row)
{
	size_t messages = 32; /* a multiple of the grain of any conversation */
	const auto body = [&] {
		const auto conversation = start(row.job);
		Watch nobody;
		Marker marker;

		conversation->run(8, nobody); /* connections, page faults, lazy binding */
		begin_counting();
		marker.start();
		marker.stop();
		conversation->run(messages, marker);
		end_counting();
	};

	const Counts calls = count(What::system_calls, body);
	row.calls = per_message(calls, What::system_calls, messages);
	if (calls.threads)
		return;
	if (row.job.op.kind != Kind::trigger)
		messages = 4; /* stepping is slow */
	row.instructions =
		per_message(count(What::instructions, body), What::instructions, messages);
}

/* All providers at one operation and size. */
std::vector<Row> compare(const Options &options, const Operation &op, size_t size)
{
	std::vector<Row> rows;
	{
		std::vector<std::unique_ptr<Runner>> runners;
		runners.reserve(options.providers.size());
		for (const auto &provider : options.providers)
			runners.push_back(std::make_unique<Runner>(
				Job{provider, op, size, options.two, options.type}));
		for (auto &runner : runners)
			runner->calibrate(options.milliseconds);
		for (unsigned i = 0; i < options.rounds; i++)
			for (auto &runner : runners)
				runner->round();
		for (auto &runner : runners) {
			runner->finish();
			rows.push_back(runner->row);
		}
	}
	const auto base = std::find_if(rows.begin(), rows.end(), [&](const Row &row) {
		return row.job.provider == options.baseline && row.status == Answer::Status::done;
	});
	for (Row &row : rows) {
		if (row.status != Answer::Status::done)
			continue;
		if (base != rows.end())
			row.ratio = row.ns.median / base->ns.median;
		if (options.count && !options.two)
			count_into(row);
	}
	return rows;
}

int bench_main(const Options &options)
{
	File json;
	if (!options.json.empty()) {
		json.reset(std::fopen(options.json.c_str(), "w"));
		if (!json)
			throw Failure(options.json, errno);
	}

	if (options.cells)
		return report_cells(options.providers.front(), options.rounds);
	load_providers();
	if (options.scale)
		return report_scale(options.providers.front(),
				    options.providers.size() > 1 ? options.providers.back() : "",
				    options.scale);

	const Table table(options.baseline);
	std::vector<Row> rows;

	std::printf("%s%s; medians of %u rounds of %u ms\n",
		    options.two ? "two processes, half a round trip" : "both ends in one thread",
		    options.type == FI_EP_MSG ? ", connected" : "", options.rounds,
		    options.milliseconds);
	table.head();
	for (const Operation &op : options.chosen)
		for (size_t size : sizes_of(options, op)) {
			const auto group = compare(options, op, size);
			for (const Row &row : group)
				table.line(row, &row == group.data());
			rows.insert(rows.end(), group.begin(), group.end());
		}
	if (json)
		write_json(json.get(), rows, options.baseline);
	if (!options.svg.empty())
		write_svg(rows, options.svg);
	return std::any_of(rows.begin(), rows.end(),
			   [](const Row &row) { return row.status == Answer::Status::failed; });
}

} // namespace

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	try {
		return bench_main(parse(argc, argv));
	} catch (const std::invalid_argument &e) {
		std::fprintf(stderr, "treadle-bench: %s\n", e.what());
		return 2;
	} catch (const std::exception &e) {
		std::fprintf(stderr, "treadle-bench: %s\n", e.what());
		return 1;
	}
}
