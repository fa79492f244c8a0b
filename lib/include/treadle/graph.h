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
 * again then.
 *
 * A command has no condition and no counter of its own. Each names its endpoint (on), if it
 * needs one; whether it reports to that is its own affair (work, completion). For cancel, the
 * contexts of its commands are the graph's and nobody else's.
 *
 * Threads: one at a time, except for running, failed and wait. Calls that are not noexcept
 * throw std::bad_alloc.
 */
class TREADLE_API Graph
{
public:
	using Node = std::uint32_t; /* they count from 0 */

	explicit Graph(Context &context) noexcept : context_(&context) {}
	Graph(const Graph &) = delete;
	Graph &operator=(const Graph &) = delete;
	/* Cancels what runs, and waits a while for its end. */
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
	 * Installs everything with one doorbell (or a few, if there is much), and starts it; at once,
	 * or when another graph has ended. 0; as check; -EBUSY: it runs; or the errno of a command
	 * that was refused, and nothing has started.
	 */
	int launch(const Graph *after = nullptr);
	bool running() const noexcept { return done() && ended() < end_; }
	/* Has some command failed, when it was launched last? */
	bool failed() const noexcept { return done() && done()->error() != 0; }
	/* Until it has ended. 0, -ETIMEDOUT, -EINTR. timeout: ns, negative: for ever. */
	int wait(std::int64_t timeout) const noexcept;
	/* A file that becomes readable when a launch that comes after this call ends, by one last command. */
	Result<int> wait_fd() noexcept;
	/* Everything that has not been done fails (ECANCELED). What is being done ends by itself. */
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

	const Counter *done() const noexcept
	{
		return counters_.empty() ? nullptr : counters_.data();
	}
	std::uint64_t ended() const noexcept { return done()->value() + done()->error(); }
	int make_counters(std::size_t count);
	int install(const Plan &plan, const Graph *after);
	std::vector<Node> last() const;

	Context *context_;
	std::vector<Step> nodes_;
	std::vector<Counter> counters_; /* the first: commands at the end; the second: the start */
	std::uint64_t end_ = 0;		/* of it: when so many are counted in the first */
};

} // namespace treadle

#endif
