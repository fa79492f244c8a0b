// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * treadle-bench: messages over any libfabric provider, side by side.
 *
 * The providers take turns in each round, so that other load on the machine affects all of them.
 * Medians over the rounds are compared. Besides times, it counts system calls and user-space
 * instructions for each message, which neither load nor emulation can distort. Or the two ends are
 * on two machines.
 */
#include <algorithm>
#include <cerrno>
#include <cmath>

#include "bench/cells.h"
#include "bench/count.h"
#include "bench/picture.h"
#include "bench/scale.h"
#include "cli.h"

namespace
{

using namespace bench;

struct Options {
	std::vector<std::string> providers{"treadle", "shm", "tcp;ofi_rxm", "sockets"}, named;
	std::vector<Operation> chosen;
	std::vector<size_t> sizes;
	std::string baseline = "shm";
	unsigned rounds = 11;
	unsigned milliseconds = 20;
	bool two = false, count = true, cells = false;
	fi_ep_type type = FI_EP_RDM;
	fi_progress progress = FI_PROGRESS_UNSPEC;
	fi_threading threading = FI_THREAD_DOMAIN;
	size_t scale = 0;
	std::string json, svg;
	Places places;
	std::string address = "127.0.0.1"; /* of this machine */
};

const Hello hello("treadle-bench", sizeof(RemoteJob));

Operation parse_operation(const std::string &name)
{
	for (const Operation &op : operations)
		if (name == op.name)
			return op;
	throw cli::Misuse("no such operation: " + name);
}

fi_ep_type parse_type(const std::string &name)
{
	if (name != "rdm" && name != "msg")
		throw cli::Misuse("no type of endpoint that is measured: " + name);
	return name == "msg" ? FI_EP_MSG : FI_EP_RDM;
}

fi_progress parse_progress(const std::string &name)
{
	if (name != "auto" && name != "manual")
		throw cli::Misuse("no such progress: " + name);
	return name == "auto" ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
}

fi_threading parse_threading(const std::string &name)
{
	if (name != "domain" && name != "safe")
		throw cli::Misuse("no such threading: " + name);
	return name == "domain" ? FI_THREAD_DOMAIN : FI_THREAD_SAFE;
}

std::string help_of_operations()
{
	std::string help = "add an operation (default: all but post and stream;\n"
			   "with --machine tagged and stream):";

	for (const Operation &op : operations)
		help += '\n' + std::string(op.name) + ": " + op.help;
	return help;
}

Options parse(int argc, char **argv)
{
	const std::string operations_help = help_of_operations();
	Options o;
	std::vector<std::string> providers;

	cli::parse_options(
		{"treadle-bench",
		 "[OPTION]...",
		 "Compares libfabric providers: time, system calls, instructions per message.",
		 {{'p', "provider", "NAME",
		   "add a provider (default: treadle, shm, tcp;ofi_rxm, sockets)",
		   [&](const char *text) { providers.emplace_back(text); }},
		  {0, "baseline", "NAME", "the provider that ratios refer to (default: shm)",
		   [&](const char *text) { o.baseline = text; }},
		  {'o', "operation", "NAME", operations_help.c_str(),
		   [&](const char *text) { o.chosen.push_back(parse_operation(text)); }},
		  {'s', "size", "BYTES", "add a size (default: 8, 4K, 64K, 1M; post: 64K, 64M)",
		   [&](const char *text) { o.sizes.push_back(cli::number(text, 1, 4ULL << 30)); }},
		  {0, "two", nullptr,
		   "the ends in two processes; half a round trip is a message.\n"
		   "Default: both in one thread, the cost to both sides without\n"
		   "waiting, which is stable on a busy machine as well",
		   [&](const char *) { o.two = true; }},
		  {'e', "endpoint", "TYPE", "rdm (default), or msg: the two ends are connected",
		   [&](const char *text) { o.type = parse_type(text); }},
		  {0, "progress", "HOW",
		   "ask for progress that is auto or manual (default: what the\n"
		   "provider offers)",
		   [&](const char *text) { o.progress = parse_progress(text); }},
		  {0, "threading", "LEVEL",
		   "domain (default), or safe: any thread may call at any time",
		   [&](const char *text) { o.threading = parse_threading(text); }},
		  {0, "cells", nullptr,
		   "instead: transfers that a store starts (FI_TRIGGER_XPU), for\n"
		   "the first provider: reaction time, cost while nothing is written",
		   [&](const char *) { o.cells = true; }},
		  {0, "scale", "[=N]",
		   "instead: arm N commands on one counter (default: 1000000),\n"
		   "for the first provider, and beside it the last",
		   [&](const char *text) { o.scale = text ? cli::number(text) : 1'000'000; }},
		  {'r', "rounds", "N", "measure each provider N times, in turns (default: 11)",
		   [&](const char *text) { o.rounds = cli::number(text, 1, 1 << 20); }},
		  {'d', "duration", "MS", "how long each time (default: 20)",
		   [&](const char *text) { o.milliseconds = cli::number(text, 1, 1 << 30); }},
		  {0, "no-count", nullptr, "no system calls and instructions (never with --two)",
		   [&](const char *) { o.count = false; }},
		  {'j', "json", "FILE", "write all figures to FILE",
		   [&](const char *text) { o.json = text; }},
		  {'g', "svg", "FILE", "draw them (needs gnuplot)",
		   [&](const char *text) { o.svg = text; }},
		  {'m', "machine", "NAME",
		   "like --two, with one end on machine NAME, where this program\n"
		   "has to run with --serve. A time is the median of the round,\n"
		   "not the mean",
		   [&](const char *text) { o.places.names = {text}; }},
		  serve_option(o.places),
		  port_option(o.places)},
		 "Spread is half the distance of the quartiles. A provider that does not have an\n"
		 "operation gets a -. System calls are those of all threads, without sched_yield;\n"
		 "instructions are not told of providers with threads of their own. The exit status is 1 if any provider\n"
		 "failed at what it said it can do, or delivered wrong data, or if one that was named is not here.\n\n" +
			 std::string(places_help)},
		argc, argv);
	o.named = providers;
	if (!providers.empty())
		o.providers = providers;
	if (o.chosen.empty())
		for (const Operation &op : operations)
			if (o.places.names.empty() ?
				    op.kind != Kind::post && op.kind != Kind::stream :
				    op.kind == Kind::tagged || op.kind == Kind::stream)
				o.chosen.push_back(op);
	o.two |= !o.places.names.empty();
	return o;
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
	Runner(Job job, const Machine *machine) : worker_(job, machine), typical_(machine)
	{
		row.job = std::move(job);
		take(worker_.first());
	}

	bool alive() const { return row.status == Answer::Status::done; }

	/* Finds how many messages take as long as a round should. Warms up, too. */
	void calibrate(unsigned milliseconds)
	{
		const double target = milliseconds * 1e6;

		for (messages_ = 1; alive();) {
			const auto start = Clock::now();
			const Answer answer = worker_.run(messages_);
			if (!take(answer))
				return;
			/* A post takes almost no time, but what surrounds it does. */
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
		ns_.push_back(static_cast<double>(typical_ ? answer.typical : answer.ns) /
			      answer.messages);
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
	const bool typical_;
	uint64_t messages_ = 1;
	std::vector<double> ns_, transfer_, overlap_;
};

/* Marks sections instead of measuring time. */
class Marker final : public Watch
{
public:
	void start() override { mark(); }
	void stop() override { mark(); }
};

/* The count for one message. Empty if there were no sections. */
std::optional<double> per_message(const Counts &counts, What what, size_t messages)
{
	double total = 0;

	/* Every other section is measured. The first one is empty, and gives the cost of a mark. */
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
		Watch unwatched;
		Marker marker;

		conversation->run(8, unwatched); /* connects, faults pages in, binds lazily */
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
		messages = 4; /* single steps are slow */
	row.instructions =
		per_message(count(What::instructions, body), What::instructions, messages);
}

/* All providers with one operation and size. */
std::vector<Row> compare(const Options &options, const Operation &op, size_t size,
			 const Machine *machine)
{
	std::vector<Row> rows;
	{
		std::vector<std::unique_ptr<Runner>> runners;
		runners.reserve(options.providers.size());
		for (const auto &provider : options.providers)
			runners.push_back(std::make_unique<Runner>(
				Job{provider, op, size, options.two, options.type, options.address,
				    options.progress, options.threading},
				machine));
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

/* Was a named provider unable to do anything? Otherwise a table of - would look like a result. */
bool nothing_of(const std::string &name, const std::vector<Row> &rows)
{
	const bool nothing = std::ranges::none_of(rows, [&](const Row &row) {
		return row.job.provider == name && row.status != Answer::Status::unsupported;
	});

	if (nothing)
		std::fprintf(stderr,
			     "treadle-bench: %s has none of this here; FI_LOG_LEVEL=info "
			     "fi_info -p '%s' says why\n",
			     name.c_str(), name.c_str());
	return nothing;
}

int bench_main(Options options)
{
	File json;
	bool bad = false;

	if (std::ranges::count(options.providers, "treadle"))
		cli::need_device();
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

	if (options.places.serve)
		return serve(options.places.port, hello, answer_there);
	const Machines machines = options.places.meet(hello, 60);
	const Machine *const machine = machines.empty() ? nullptr : machines.front().get();
	if (machine)
		options.address = machine->own_address();

	const Table table(options.baseline);
	std::vector<Row> rows;

	std::printf("%s%s; medians of %u rounds of %u ms\n",
		    machine	? "two machines, half a round trip" :
		    options.two ? "two processes, half a round trip" :
				  "both ends in one thread",
		    options.type == FI_EP_MSG ? ", connected" : "", options.rounds,
		    options.milliseconds);
	table.head();
	for (const Operation &op : options.chosen)
		for (size_t size : sizes_of(options, op)) {
			const auto group = compare(options, op, size, machine);
			for (const Row &row : group)
				table.line(row, &row == group.data());
			rows.insert(rows.end(), group.begin(), group.end());
		}
	if (json)
		write_json(json.get(), rows, options.baseline);
	if (!options.svg.empty())
		write_svg(rows, options.svg);
	for (const auto &name : options.named)
		bad |= nothing_of(name, rows);
	return bad || std::ranges::any_of(rows, [](const Row &row) {
		       return row.status == Answer::Status::failed;
	       });
}

} // namespace

int main(int argc, char **argv)
{
	return cli::run("treadle-bench", [&] { return bench_main(parse(argc, argv)); });
}
