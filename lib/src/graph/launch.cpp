// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Installs and launches a graph, waits for it, and cancels it. */

#include "plan.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include <sched.h>

#include "../sys/device.h"
#include "../work.h"

namespace treadle
{

namespace
{

using namespace std::chrono_literals;

constexpr Timeout patience = 10s; /* longest wait for other commands */

/* Bounds a loop that depends on other threads or processes. */
class Attempts
{
public:
	explicit Attempts(Timeout timeout) noexcept : end_(timeout) {}
	bool again() const noexcept { return end_.left() > Timeout(1) && !sched_yield(); }

private:
	detail::Deadline end_;
};

/* EAGAIN: commands of other threads may occupy all slots. */
void add_error(Counter &counter, const Attempts &attempts) noexcept
{
	while (counter.add_error(1) == std::errc::resource_unavailable_try_again &&
	       attempts.again())
		;
}

} // namespace

Graph::~Graph()
{
	if (running()) {
		const detail::Deadline deadline(patience);

		cancel();
		while (wait(deadline.left()) == std::errc::interrupted)
			; /* signals of the program don't end the wait */
	}
	uninstall();
}

/* Makes count counters, and sets their errors to 0. The graph does not run. */
std::error_code Graph::make_counters(std::size_t count)
{
	counters_.reserve(count);
	while (counters_.size() < count) {
		auto counter = Counter::create(device_, *ring_, Counter::Unit::operations);
		if (!counter)
			return counter.error();
		counters_.push_back(std::move(*counter));
	}
	std::error_code failed = from_errno(0);
	for (auto counter = counters_.begin(); !failed && counter != counters_.end(); ++counter) {
		if (counter->error())
			failed = counter->set_error(0);
	}
	end_ = ended();
	return failed;
}

/*
 * Every command waits, directly or not, for the start, which is posted last. So if a command is
 * refused, those before it can be removed.
 */
std::error_code Graph::post(std::span<const Command> commands)
{
	const std::error_code failed = ring_->post_all(commands).error;

	if (failed) {
		end_ = ended();
		flush();
	}
	return failed;
}

/* Removes what is armed on all counters but that of the end, for which other graphs may wait. */
void Graph::flush() noexcept
{
	for (std::size_t i = start_counter; i < counters_.size(); ++i)
		std::ignore = flush_work(device_, std::to_underlying(counters_[i].id()));
}

std::error_code Graph::once(const Plan &plan, const Graph *after)
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

std::error_code Graph::install(Counter *launches, const Counter *tell)
{
	if (running())
		return from_errno(EBUSY);
	uninstall();
	if (const auto wrong = check(); wrong || nodes_.empty())
		return wrong;
	const Plan plan(nodes_);
	const std::size_t ends = plan.counters;
	if (const auto failed = make_counters(ends + (launches ? 1 : 2)))
		return failed;
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
	if (const auto refused = post(commands)) {
		kept_.clear();
		return refused;
	}
	launches_ = launches;
	return from_errno(0);
}

/*
 * Removes the command that starts launches: no launch starts any more. The command waits for the
 * counter of launches, or, while a launch is under way, for its end.
 */
void Graph::stop() noexcept
{
	const std::uint64_t context = address_of(this);
	const Attempts attempts(patience / 10);
	std::error_code missed;

	do { /* it may be moving from one to the other, or be flushed with its counter */
		const std::uint64_t before = ended();
		const std::uint64_t next = first_ + counters_[start_counter].value() - started_ + 1;

		missed = cancel_work(device_, std::to_underlying(launches_->id()), next, context);
		if (!missed) {
			end_ = ended();
			break;
		}
		missed =
			cancel_work(device_, std::to_underlying(done()->id()), before + 1, context);
		if (!missed)
			end_ = before + 1;
	} while (missed == std::errc::no_such_file_or_directory && attempts.again());
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

		if (!cancel_work(device_, std::to_underlying(on.id()), at, address_of(&kept)))
			add_error(counters_[kept.tell], attempts);
	}
	for (const Kept &kept : kept_) {
		if (kept.ep)
			cancel(kept.ep, address_of(&kept));
	}
}

bool Graph::cancel(std::uint32_t ep, std::uint64_t context) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_CANCEL_OP;
	args.id = ep;
	args.context = context;
	return !sys::checked(device_, TREADLE_IOC_CANCEL, args);
}

std::error_code Graph::launch(const Graph *after)
{
	if (launches_)
		return after ? from_errno(EINVAL) : launches_->add(1);
	if (running())
		return from_errno(EBUSY);
	uninstall();
	if (const auto wrong = check(); wrong || nodes_.empty())
		return wrong;
	const Plan plan(nodes_);
	if (const auto failed = make_counters(plan.counters))
		return failed;
	return once(plan, after);
}

std::uint64_t Graph::target() const noexcept
{
	return launches_ ? end_ + launches_->value() + launches_->error() - first_ : end_;
}

std::error_code Graph::wait(Timeout timeout) const noexcept
{
	const detail::Deadline deadline(timeout);

	while (running()) {
		const std::uint64_t errors = done()->error();
		const auto failed = done()->wait(target() - errors, errors, deadline.left());

		if (failed)
			return failed == std::errc::resource_unavailable_try_again ?
				       from_errno(ETIMEDOUT) :
				       failed;
	}
	return from_errno(0);
}

Result<int> Graph::fd() noexcept
{
	try {
		if (counters_.empty()) {
			if (const auto failed = make_counters(1))
				return std::unexpected(failed);
		}
	} catch (const std::bad_alloc &) {
		return std::unexpected(from_errno(ENOMEM));
	}
	return counters_[end_counter].fd();
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
	    !cancel_work(device_, std::to_underlying(awaited_), awaited_at_, address_of(this))) {
		add_error(counters_[start_counter], Attempts(patience));
		return;
	}
	for (const Step &step : nodes_) {
		const treadle_desc &d = step.command.desc();

		while (d.ep && d.opcode != TREADLE_OP_NOP && running() && cancel(d.ep, d.context))
			;
	}
}

} // namespace treadle
