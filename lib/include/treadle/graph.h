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
 *	const auto got = graph.add(Command::receive(buf, 8, left).on(ep).work());
 *	graph.add(Command::send(buf, 8, right).on(ep).work(), {got});
 *	graph.launch();
 *
 * A command starts when all that it comes after have succeeded; if one of them fails it
 * fails, too, with the errno of the first, when all have ended. Nothing has started unless
 * launch returns 0, and the graph has ended when all of its commands have. It can be launched
 * again then. Once it is installed, a launch is nothing but 1 added to a counter.
 *
 * A command has no condition and no counter of its own. Each names its endpoint (on), if it
 * needs one; whether it reports to that is its own affair (work, completion). For cancel, the
 * contexts of its commands are the graph's and nobody else's.
 *
 * Threads: one at a time, but running, failed and wait, when it has been launched or installed: any number of
 * these may run beside each other, and beside launch of what is installed. Calls that are not noexcept throw std::bad_alloc.
 */
class TREADLE_API Graph
{
public:
	using Node = std::uint32_t; /* they count from 0 */

	explicit Graph(Context &context) noexcept : fd_(context.fd()), ring_(&context.ring()) {}
	Graph(const Graph &) = delete;
	Graph &operator=(const Graph &) = delete;
	/*
	 * Cancels what runs, and waits for its end, but no longer than 10 s or so: what has not
	 * ended then (a copy from a page that does not come) still uses its buffers.
	 */
	~Graph();

	Node add(const Command &command, std::span<const Node> after = {});
	Node add(const Command &command, std::initializer_list<Node> after)
	{
		return add(command, std::span(after.begin(), after.size()));
	}
	/* After all that nothing comes after yet: when it ends all has. */
	Node add_last(const Command &command);
	/* before may be yet to come. -EINVAL: after may not. */
	int order(Node before, Node after);
	/* Forgets all commands, of a graph that does not run. */
	void clear() noexcept { nodes_.clear(); }
	std::size_t size() const noexcept { return nodes_.size(); }

	/*
	 * 0. -ELOOP: some commands wait for each other. -EINVAL: one comes after a node that
	 * was not added, or has a condition or a counter of its own.
	 */
	int check() const;
	/*
	 * Puts everything into the kernel, to be launched any number of times without being put
	 * there again; what is changed here later counts when it is installed again. Each launch is 1
	 * that is added to the counter: by launch(), by deferred work, by an endpoint or a region
	 * that it is bound to. Those that come while one is under way wait for their turn.
	 *
	 * launches: instead of a counter of its own; tell: counts the launches that have ended, as
	 * errors those in which a command failed. Both are of the same context, and stay where they
	 * are until this is installed again, or gone (after cancel(): or launched). After a failure the launches that follow fail as well: install again.
	 *
	 * Its commands are work() without completion(), and none has F_INJECT, F_COLLECTIVE or
	 * F_MULTI_RECV. 0; as check; -EBUSY: it runs; or the errno of a command that was refused.
	 */
	int install(Counter *launches = nullptr, const Counter *tell = nullptr);
	/* Null: it is not installed. */
	const Counter *launches() const noexcept { return launches_; }
	/*
	 * What is installed: launches() + 1; 0, or -errno as Counter::add; -EINVAL: it can't wait for
	 * another.
	 *
	 * Else: installs everything for this time, with one doorbell (or a few, if there is much),
	 * and starts it; at once, or when another graph has ended. 0; as check; -EBUSY: it runs; or
	 * the errno of a command that was refused, and nothing has started.
	 */
	int launch(const Graph *after = nullptr);
	bool running() const noexcept { return done() && ended() < target(); }
	/* Has some command failed, when it was launched last, or since it was installed? */
	bool failed() const noexcept { return done() && done()->error() != 0; }
	/* Until it has ended. 0, -ETIMEDOUT, -EINTR. timeout: ns, negative: for ever. */
	int wait(std::int64_t timeout) const noexcept;
	/* A file that becomes readable when a launch that comes after this call ends, by one last command. */
	Result<int> wait_fd() noexcept;
	/*
	 * Everything that has not been done fails (ECANCELED). What is being done ends by itself.
	 * It is not installed any more.
	 */
	void cancel() noexcept;

	/* A line for each command; the same for Graphviz. */
	std::string text() const;
	std::string graphviz() const;

private:
	struct Step {
		Command command;
		std::vector<Node> after; /* sorted, each once */
	};
	struct Plan;
	/* What is installed to stay. */
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
	int make_counters(std::size_t count);
	std::uint64_t target() const noexcept;
	int post(std::span<const Command> commands);
	int once(const Plan &plan, const Graph *after);
	void stop() noexcept;
	void cancel_kept() noexcept;
	int cancel(std::uint32_t ep, std::uint64_t context) noexcept;
	void uninstall() noexcept;
	void flush() noexcept;
	std::vector<Node> last() const;

	int fd_; /* of the context, which may be moved */
	WorkRing *ring_;
	std::vector<Step> nodes_;
	std::vector<Counter> counters_; /* the first: commands at the end; the second: the start */
	std::vector<Kept> kept_;
	Counter *launches_ = nullptr; /* while it is installed */
	/* What that and the start had counted when it was installed. */
	std::uint64_t first_ = 0, started_ = 0;
	/* What the start waits for, if for another graph. */
	CounterId awaited_{};
	std::uint64_t awaited_at_ = 0;
	/* It has ended when so many are counted at the end; launches_: and as many as there were launches. */
	std::uint64_t end_ = 0;
};

} // namespace treadle

#endif
