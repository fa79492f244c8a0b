// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_GRAPH_H
#define TREADLE_GRAPH_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <treadle/command.h>
#include <treadle/context.h>
#include <treadle/counter.h>

namespace treadle
{

class Context;

/**
 * Commands that depend on each other, as one operation that the kernel runs by itself:
 *
 *	Graph graph(context);
 *	const auto got = graph.add(Command::receive(buffer, left).on(ep).work());
 *	graph.add(Command::send(buffer, right).on(ep).work(), {got});
 *	graph.launch()
 *
 * A command starts when all commands that it comes after have succeeded. If one of them fails, it
 * fails, too, when all of them have ended, with the errno of the first failure. Nothing has started
 * if launch returns an error. The graph has ended when all of its commands have; then it can be
 * launched again. Once it is installed, a launch only adds 1 to a counter.
 *
 * A command has no condition and no counter of its own. It names its endpoint (on), if it needs
 * one. It may report to the endpoint (work, completion). For cancel, no other commands may have the
 * contexts of the graph's commands.
 *
 * Threads: one at a time. But when a graph was launched or installed, any number of threads may
 * call running, failed and wait, also during launch of an installed graph. Calls that are not
 * noexcept throw std::bad_alloc.
 */
class TREADLE_API Graph
{
public:
	using Node = std::uint32_t; /* they count from 0 */

	explicit Graph(Context &context) noexcept
		: device_(context.device()), ring_(&context.ring())
	{
	}
	Graph(const Graph &) = delete;
	Graph &operator=(const Graph &) = delete;
	/*
	 * Cancels the graph if it runs, and waits for its end, but not longer than about 10 s.
	 * A command that has not ended then (a copy from a page that does not come) still uses its
	 * buffers.
	 */
	~Graph();

	Node add(const Command &command, std::span<const Node> after = {});
	Node add(const Command &command, std::initializer_list<Node> after)
	{
		return add(command, std::span(after.begin(), after.size()));
	}
	/* Adds a command after all that no command comes after yet: the last one to end. */
	Node add_last(const Command &command);
	/* before may be added later. EINVAL: after may not. */
	[[nodiscard]] std::error_code order(Node before, Node after);
	/* Drops all commands, of a graph that does not run. */
	void clear() noexcept { nodes_.clear(); }
	std::size_t size() const noexcept { return nodes_.size(); }

	/*
	 * ELOOP: some commands wait for each other. EINVAL: a command comes after a node that was
	 * not added, or has a condition or a counter of its own.
	 */
	[[nodiscard]] std::error_code check() const;
	/*
	 * Installs the graph in the kernel once, to be launched any number of times. Later changes
	 * count when it is installed again. Each 1 that is added to the counter of launches is a
	 * launch: by launch(), by deferred work, or by an endpoint or a region that is bound to the
	 * counter. A launch that comes while another one is under way waits for its turn.
	 *
	 * launches: the counter of launches, or null: one of the graph's own. tell: counts the
	 * launches that have ended; those in which a command failed count as errors. Both are of
	 * the same context, and must keep their place until the graph is installed again or
	 * destroyed (after cancel(): or launched). After a failure the launches that follow fail as
	 * well: install the graph again.
	 *
	 * Its commands are work() without completion(), and none has F_INJECT, F_COLLECTIVE or
	 * F_MULTI_RECV. Errors as of check; EBUSY: it runs; or the errno of a command that was
	 * refused.
	 */
	[[nodiscard]] std::error_code install(Counter *launches = nullptr,
					      const Counter *tell = nullptr);
	/* Null: the graph is not installed. */
	const Counter *launches() const noexcept { return launches_; }
	/*
	 * An installed graph: launches() + 1. Errors as of Counter::add; EINVAL: after is not null.
	 *
	 * Else: installs the graph for one time, with one doorbell (a few for a large graph), and
	 * starts it: at once, or when graph `after` has ended. Errors as of check; EBUSY: it runs;
	 * or the errno of a command that was refused, and nothing has started.
	 */
	[[nodiscard]] std::error_code launch(const Graph *after = nullptr);
	bool running() const noexcept { return done() && ended() < target(); }
	/* Has a command failed, since the last launch, or since the graph was installed? */
	bool failed() const noexcept { return done() && done()->error() != 0; }
	/* Blocks until the graph has ended. ETIMEDOUT, EINTR. */
	[[nodiscard]] std::error_code wait(Timeout timeout = forever) const noexcept;
	/*
	 * For poll(2): becomes readable when a launch after this call ends, if the graph has one
	 * last command. The graph owns it. ENOMEM, ENOSPC, EMFILE, ENFILE.
	 */
	[[nodiscard]] Result<int> fd() noexcept;
	/*
	 * Commands that have not started fail (ECANCELED). Those that run end by themselves. The
	 * graph is not installed any more.
	 */
	void cancel() noexcept;

	/* A line for each command; input for Graphviz. */
	std::string text() const;
	std::string graphviz() const;

private:
	struct Step {
		Command command;
		std::vector<Node> after; /* sorted, each once */
	};
	struct Plan;
	/* A command that is installed to repeat. */
	struct Kept {
		std::size_t on, tell;	   /* counters */
		std::uint64_t first, step; /* thresholds */
		std::uint32_t ep;	   /* or 0 */
	};

	const Counter *done() const noexcept
	{
		return counters_.empty() ? nullptr : counters_.data();
	}
	std::uint64_t ended() const noexcept { return done()->value() + done()->error(); }
	std::error_code make_counters(std::size_t count);
	std::uint64_t target() const noexcept;
	std::error_code post(std::span<const Command> commands);
	std::error_code once(const Plan &plan, const Graph *after);
	void stop() noexcept;
	void cancel_kept() noexcept;
	/* Was a command with this context canceled? */
	bool cancel(std::uint32_t ep, std::uint64_t context) noexcept;
	void uninstall() noexcept;
	void flush() noexcept;
	std::vector<Node> last() const;

	int device_; /* of the context, which may be moved */
	WorkRing *ring_;
	std::vector<Step> nodes_;
	std::vector<Counter> counters_; /* the first: commands at the end; the second: the start */
	std::vector<Kept> kept_;
	Counter *launches_ = nullptr; /* while it is installed */
	/* The counts of launches_ and of the start when the graph was installed. */
	std::uint64_t first_ = 0, started_ = 0;
	/* The counter that the start waits for, if it waits for another graph. */
	CounterId awaited_{};
	std::uint64_t awaited_at_ = 0;
	/* The graph has ended at this count of the end; launches_: plus the launches so far. */
	std::uint64_t end_ = 0;
};

} // namespace treadle

#endif
