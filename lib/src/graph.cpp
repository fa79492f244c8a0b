// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A graph as commands that are armed on counters
 *
 * All commands that come after the same commands wait for one counter, into which these count. A
 * command has only one counter to count into. If several counters wait for it, it counts into a
 * relay: a counter on which a NOP for each of them is armed. Commands that come after none wait for
 * the start counter, which is added to when everything is installed. Commands that none comes after
 * count into the end counter. Counters are not set back: thresholds are relative to their values.
 *
 * A graph that is installed to be launched many times is the same, with commands that repeat: when
 * a command has ended, its threshold grows by the number that a launch adds to its counter. Two
 * commands are added. One makes a single count of all commands that end a launch. The other one
 * starts a launch when the counter of launches allows it, but never before the last one has ended.
 */
#include <treadle/graph.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>
#include <map>
#include <new>
#include <utility>

#include <sched.h>

#include "sys/device.h"
#include "work.h"

namespace treadle
{

namespace
{

enum : std::size_t { end_counter, start_counter, first_counter };

constexpr std::int64_t patience = 10'000'000'000; /* longest wait for other commands, ns */

std::int64_t now() noexcept
{
	timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

/* Bounds a loop that depends on other threads or processes. */
class Attempts
{
public:
	explicit Attempts(std::int64_t ns) noexcept : end_(now() + ns) {}
	bool again() const noexcept { return now() < end_ && !sched_yield(); }

private:
	std::int64_t end_;
};

/* -EAGAIN: commands of other threads may occupy all slots. */
void add_error(Counter &counter, const Attempts &attempts) noexcept
{
	while (counter.add_error(1) == -EAGAIN && attempts.again())
		;
}

const char *name_of(std::uint8_t opcode) noexcept
{
	static constexpr const char *names[TREADLE_OP_LAST] = {"nop",	  "send",     "tsend",
							       "recv",	  "trecv",    "read",
							       "write",	  "atomic",   "fetch",
							       "compare", "cntr_set", "cntr_add"};

	return opcode < TREADLE_OP_LAST ? names[opcode] : "?";
}

std::string label(const Command &command)
{
	const treadle_desc &d = command.desc();
	std::string out = name_of(d.opcode);

	if (d.len)
		out += ' ' + std::to_string(d.len) + " bytes";
	if (d.opcode != TREADLE_OP_NOP && !(d.flags & TREADLE_F_LOCAL))
		out += d.opcode == TREADLE_OP_RECV || d.opcode == TREADLE_OP_TRECV ? " from " :
										     " to ";
	else
		return out;
	return out + (d.peer == TREADLE_ADDR_ANY ? "any" : std::to_string(d.peer));
}

} // namespace

/* The commands and counters to install. */
struct Graph::Plan {
	struct Item {
		const Command *command; /* null: a relay's NOP */
		std::size_t on, tell;	/* counters */
		std::uint64_t threshold;

		Command armed(std::span<const Counter> counters) const;
	};
	std::vector<Item> items;
	std::size_t counters = first_counter;
	std::uint64_t ends = 0;

	explicit Plan(const std::vector<Step> &nodes);
};

Graph::Plan::Plan(const std::vector<Step> &nodes)
{
	std::map<std::vector<Node>, std::size_t> gates{{{}, start_counter}};
	std::vector<std::vector<std::size_t>> told(nodes.size());

	for (const Step &step : nodes) {
		const auto [gate, is_new] = gates.try_emplace(step.after, counters);

		if (is_new)
			++counters;
		for (const Node before : is_new ? step.after : std::vector<Node>())
			told[before].push_back(gate->second);
	}
	for (std::size_t n = 0; n < nodes.size(); ++n) {
		const Step &step = nodes[n];
		const std::size_t on = gates.find(step.after)->second;
		const std::uint64_t threshold = std::max<std::size_t>(step.after.size(), 1);

		if (told[n].empty()) {
			items.push_back({&step.command, on, end_counter, threshold});
			++ends;
		} else if (told[n].size() == 1) {
			items.push_back({&step.command, on, told[n][0], threshold});
		} else {
			items.push_back({&step.command, on, counters, threshold});
			for (const std::size_t gate : told[n])
				items.push_back({nullptr, counters, gate, 1});
			++counters;
		}
	}
}

Graph::~Graph()
{
	if (running()) {
		const std::int64_t until = now() + patience;

		cancel();
		while (wait(std::max<std::int64_t>(until - now(), 0)) == -EINTR)
			; /* signals of the program don't end the wait */
	}
	uninstall();
}

Graph::Node Graph::add(const Command &command, std::span<const Node> after)
{
	std::vector<Node> sorted(after.begin(), after.end());

	std::ranges::sort(sorted);
	sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
	nodes_.push_back({command, std::move(sorted)});
	return static_cast<Node>(nodes_.size() - 1);
}

std::vector<Graph::Node> Graph::last() const
{
	std::vector<bool> followed(nodes_.size());
	std::vector<Node> out;

	for (const Step &step : nodes_) {
		for (const Node before : step.after) {
			if (before < followed.size())
				followed[before] = true;
		}
	}
	for (Node n = 0; n < nodes_.size(); ++n) {
		if (!followed[n])
			out.push_back(n);
	}
	return out;
}

Graph::Node Graph::add_last(const Command &command)
{
	return add(command, last());
}

int Graph::order(Node before, Node after)
{
	if (after >= nodes_.size())
		return -EINVAL;
	auto &list = nodes_[after].after;
	const auto at = std::ranges::lower_bound(list, before);
	if (at == list.end() || *at != before)
		list.insert(at, before);
	return 0;
}

int Graph::check() const
{
	std::vector<std::size_t> missing(nodes_.size());
	std::vector<std::vector<Node>> then(nodes_.size());
	std::vector<Node> ready;

	for (Node n = 0; n < nodes_.size(); ++n) {
		const Step &step = nodes_[n];

		if (step.command.desc().flags &
		    (TREADLE_F_COND_CNTR | TREADLE_F_NOTIFY | TREADLE_F_COND_CELL | TREADLE_F_MORE))
			return -EINVAL;
		if (!step.after.empty() && step.after.back() >= nodes_.size())
			return -EINVAL;
		for (const Node before : step.after)
			then[before].push_back(n);
		missing[n] = step.after.size();
		if (!missing[n])
			ready.push_back(n);
	}
	std::size_t reached = 0;
	for (; !ready.empty(); ++reached) {
		const Node n = ready.back();
		ready.pop_back();
		for (const Node next : then[n]) {
			if (!--missing[next])
				ready.push_back(next);
		}
	}
	return reached == nodes_.size() ? 0 : -ELOOP;
}

/* Makes count counters, and sets their errors to 0. The graph does not run. */
int Graph::make_counters(std::size_t count)
{
	counters_.reserve(count);
	while (counters_.size() < count) {
		auto counter = Counter::create(fd_, *ring_, Counter::Unit::operations);
		if (!counter)
			return counter.error().negative();
		counters_.push_back(std::move(*counter));
	}
	int rc = 0;
	for (auto counter = counters_.begin(); !rc && counter != counters_.end(); ++counter)
		rc = counter->error() ? counter->set_error(0) : 0;
	end_ = ended();
	return rc;
}

/* The command, armed on one counter and counted in another. */
Command Graph::Plan::Item::armed(std::span<const Counter> counters) const
{
	const Counter &at = counters[on];
	Command out = command ? *command : Command::nop().work();

	return out.when(at.id(), at.value() + threshold)
		.notify(counters[tell].id())
		.flags(TREADLE_F_STRICT);
}

/*
 * Every command waits, directly or not, for the start, which is posted last. So if a command is
 * refused, those before it can be removed.
 */
int Graph::post(std::span<const Command> commands)
{
	const int error = ring_->post_all(commands).error;

	if (error) {
		end_ = ended();
		flush();
	}
	return error;
}

/* Removes what is armed on all counters but that of the end, for which other graphs may wait. */
void Graph::flush() noexcept
{
	for (std::size_t i = start_counter; i < counters_.size(); ++i)
		std::ignore = flush_work(fd_, std::to_underlying(counters_[i].id()));
}

int Graph::once(const Plan &plan, const Graph *after)
{
	std::vector<Command> commands;

	commands.reserve(plan.items.size() + 1);
	for (const Plan::Item &item : plan.items)
		commands.push_back(item.armed(counters_));
	commands.push_back(
		Command::add(counters_[start_counter].id(), 1).context(address_of(this)));
	/* The start is no deferred work, so Context::flush spares it; it reports nowhere even so. */
	awaited_ = after && after->running() ? after->done()->id() : CounterId{};
	if (awaited_ != CounterId{}) {
		awaited_at_ = after->target();
		commands.back().when(awaited_, awaited_at_);
	}
	end_ = ended() + plan.ends;
	return post(commands);
}

int Graph::install(Counter *launches, const Counter *tell)
{
	if (running())
		return -EBUSY;
	uninstall();
	int rc = check();
	if (rc || nodes_.empty())
		return rc;
	const Plan plan(nodes_);
	const std::size_t ends = plan.counters;
	rc = make_counters(ends + (launches ? 1 : 2));
	if (rc)
		return rc;
	launches = launches ?: &counters_.back();

	std::vector<Command> commands;
	kept_.reserve(plan.items.size()); /* the address of each is the context of its command */
	for (Plan::Item item : plan.items) {
		if (item.tell == end_counter)
			item.tell = ends;
		const std::uint32_t ep = item.command ? item.command->desc().ep : 0;
		const std::uint64_t first = counters_[item.on].value() + item.threshold;
		const Kept &kept =
			kept_.emplace_back(item.on, item.tell, first, item.threshold, ep);
		commands.push_back(
			item.armed(counters_).repeat(item.threshold).context(address_of(&kept)));
	}
	const auto end = [&](const Counter &counter) {
		commands.push_back(
			Command::nop()
				.work()
				.when(counters_[ends].id(), counters_[ends].value() + plan.ends)
				.repeat(plan.ends)
				.notify(counter.id())
				.flags(TREADLE_F_STRICT));
	};
	if (tell)
		end(*tell);
	end(*done());
	first_ = launches->value() + launches->error();
	commands.push_back(Command::nop()
				   .work()
				   .when(launches->id(), first_ + 1)
				   .repeat(1)
				   .rest(done()->id(), ended() + 1)
				   .notify(counters_[start_counter].id())
				   .context(address_of(this)));
	/* before the start is armed: from then on there are launches */
	started_ = counters_[start_counter].value();
	rc = post(commands);
	if (rc) {
		kept_.clear();
		return rc;
	}
	launches_ = launches;
	return 0;
}

/*
 * Removes the command that starts launches: no launch starts any more. The command waits for the
 * counter of launches, or, while a launch is under way, for its end.
 */
void Graph::stop() noexcept
{
	const std::uint64_t context = address_of(this);
	const Attempts attempts(patience / 10);
	int rc;

	do { /* it may be moving from one to the other, or be flushed with its counter */
		const std::uint64_t before = ended();
		const std::uint64_t next = first_ + counters_[start_counter].value() - started_ + 1;

		rc = cancel_work(fd_, std::to_underlying(launches_->id()), next, context);
		if (!rc) {
			end_ = ended();
			break;
		}
		rc = cancel_work(fd_, std::to_underlying(done()->id()), before + 1, context);
		if (!rc)
			end_ = before + 1;
	} while (rc == -ENOENT && attempts.again());
	launches_ = nullptr;
}

/* The graph does not run. */
void Graph::uninstall() noexcept
{
	if (launches_)
		stop();
	if (!kept_.empty())
		flush();
	kept_.clear();
}

/*
 * Cancels the launch that is under way. What is armed for it is at a threshold of its own, so it is
 * removed, silently, and counted here. What is armed for the next launch stays.
 */
void Graph::cancel_kept() noexcept
{
	const std::uint64_t launch = counters_[start_counter].value() - started_;
	const Attempts attempts(patience);

	if (!launch || !running())
		return;
	for (const Kept &kept : kept_) {
		const Counter &on = counters_[kept.on];
		const std::uint64_t at = kept.first + (launch - 1) * kept.step;

		if (!cancel_work(fd_, std::to_underlying(on.id()), at, address_of(&kept)))
			add_error(counters_[kept.tell], attempts);
	}
	for (const Kept &kept : kept_) {
		if (kept.ep)
			cancel(kept.ep, address_of(&kept));
	}
}

int Graph::cancel(std::uint32_t ep, std::uint64_t context) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_CANCEL_OP;
	args.id = ep;
	args.context = context;
	return sys::call(fd_, TREADLE_IOC_CANCEL, args);
}

int Graph::launch(const Graph *after)
{
	if (launches_)
		return after ? -EINVAL : launches_->add(1);
	if (running())
		return -EBUSY;
	uninstall();
	int rc = check();
	if (rc || nodes_.empty())
		return rc;
	const Plan plan(nodes_);
	rc = make_counters(plan.counters);
	return rc ?: once(plan, after);
}

std::uint64_t Graph::target() const noexcept
{
	return launches_ ? end_ + launches_->value() + launches_->error() - first_ : end_;
}

int Graph::wait(std::int64_t timeout) const noexcept
{
	const std::int64_t begin = now();
	/* limited to what the type can hold: no clock gets there */
	const std::int64_t until =
		begin + std::min(timeout, std::numeric_limits<std::int64_t>::max() - begin);

	while (running()) {
		const std::uint64_t errors = done()->error();
		const std::int64_t left =
			timeout < 0 ? -1 : std::max<std::int64_t>(until - now(), 0);
		const int rc = done()->wait(target() - errors, errors, left);

		if (rc)
			return rc == -EAGAIN ? -ETIMEDOUT : rc;
	}
	return 0;
}

Result<int> Graph::wait_fd() noexcept
{
	try {
		if (const int rc = counters_.empty() ? make_counters(1) : 0; rc)
			return std::unexpected(Errno(-rc));
	} catch (const std::bad_alloc &) {
		return std::unexpected(Errno(ENOMEM));
	}
	return counters_[end_counter].wait_fd();
}

/* Commands that come after a canceled one fail by themselves. */
void Graph::cancel() noexcept
{
	if (launches_)
		stop();
	if (!kept_.empty()) {
		cancel_kept();
		return;
	}
	/* while the start waits for another graph, removing it ends all commands */
	if (awaited_ != CounterId{} && running() &&
	    !cancel_work(fd_, std::to_underlying(awaited_), awaited_at_, address_of(this))) {
		add_error(counters_[start_counter], Attempts(patience));
		return;
	}
	for (const Step &step : nodes_) {
		const treadle_desc &d = step.command.desc();

		while (d.ep && d.opcode != TREADLE_OP_NOP && running() && !cancel(d.ep, d.context))
			;
	}
}

std::string Graph::text() const
{
	std::string out;

	for (Node n = 0; n < nodes_.size(); ++n) {
		out += std::to_string(n) + ": " + label(nodes_[n].command);
		for (const Node before : nodes_[n].after)
			out += (before == nodes_[n].after[0] ? ", after " : " ") +
			       std::to_string(before);
		out += '\n';
	}
	return out;
}

std::string Graph::graphviz() const
{
	std::string out = "digraph {\n";

	for (Node n = 0; n < nodes_.size(); ++n) {
		out += "\t" + std::to_string(n) + " [label=\"" + label(nodes_[n].command) + "\"]\n";
		for (const Node before : nodes_[n].after)
			out += "\t" + std::to_string(before) + " -> " + std::to_string(n) + "\n";
	}
	return out + "}\n";
}

} // namespace treadle
