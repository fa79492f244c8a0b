// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/*
 * Random histories of counters, thresholds, commands that repeat, cancel and flush, of two processes with two threads
 * each, are checked against a specification (tests/model). Every 16th ends with one process killed.
 *
 * HISTORY_SECONDS=4: how long; a million calls end it, too. HISTORY_SEED: the dice.
 */
// conformance: fi_trigger(3): triggered in the order of thresholds, even if the counter jumps
// conformance: fi_trigger(3): FI_CANCEL_WORK: exact, by the struct fi_deferred_work
// conformance: fi_trigger(3): FI_FLUSH_WORK: of the domain, or of one counter (arg is the ...
// conformance: triggers.rst: bad input: a peer is killed
// conformance: triggers.rst: bad input: values wrap at 2^64
// conformance: triggers.rst: a command ran once, or was canceled once
// conformance: triggers.rst: a command ran by threshold, then submission, not before
// conformance: triggers.rst: cancel and flush report exactly what they took
// conformance: triggers.rst: no command with a reached threshold stays armed
// conformance: triggers.rst: a command that repeats runs once for each step, and is freed once
// conformance: triggers.rst: nothing of a killed process runs later

#include <random>

#include "player.h"

#include "../model/check.cpp"

namespace
{

using namespace player;

constexpr int histories = 16; /* with the same processes */
constexpr int repeating = 3;  /* commands that repeat, at most, of each process */

std::uint64_t number_from(const char *name, std::uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

class Play
{
public:
	Play(Stage &stage, std::mt19937_64 &random) : stage_(stage), random_(random)
	{
		for (int p = 0; p < processes; ++p)
			children_[p].emplace(
				[&, p](const Line &line) { Player(stage_, p, line).live(); });
		for (auto &child : children_)
			child->line().ask<char>();
		for (auto &child : children_)
			child->line().tell('g');
	}
	~Play()
	{
		for (auto &child : children_)
			if (child->pid() > 0) {
				child->line().tell('e');
				EXPECT_EQ(child->join(), 0);
			}
	}

	model::History play(bool kills)
	{
		model::History history;
		const int victim = kills ? roll(processes) : model::none;

		plan();
		for (auto &child : children_)
			child->line().tell('p');
		if (kills)
			history.actors.push_back({kill(victim)});
		for (const char step : {'d', 's', 'r'})
			for (int p = 0; p < processes; ++p)
				if (p != victim) {
					const auto line = children_[p]->line();
					if (step != 'd')
						line.tell(step);
					EXPECT_EQ(line.ask<char>(), 'd');
				}
		write_down(history);
		return history;
	}

private:
	int roll(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

	/* The threads take turns, so that each may cancel what the other arms. */
	void plan()
	{
		/* Sometimes close to the point where values wrap. */
		const Word base = roll(4) ? 0 : ~Word{0} - 3;

		stage_.clock = 0;
		stage_.ready = 0;
		stage_.command_count = 0;
		repeats_ = {};
		for (auto &process : stage_.process) {
			process.completed = 0;
			for (auto &actor : process.actors)
				actor.planned = actor.count = 0;
		}
		if (base)
			for (int p = 0; p < processes; ++p)
				for (int c = 0; c < own - 1; ++c)
					put(p, 0,
					    {.kind = Kind::set,
					     .target = p * own + c,
					     .value = base});
		for (int i = 0; i < 14; ++i)
			for (int p = 0; p < processes; ++p)
				for (int t = 0; t < threads; ++t)
					put(p, t, any(p, base));
	}

	void put(int process, int thread, const Op &op)
	{
		auto &actor = stage_.process[process].actors[thread];

		actor.pause[actor.planned] = roll(4) == 0;
		actor.ops[actor.planned++] = op;
	}

	Op any(int process, Word base)
	{
		const int which = roll(100);
		const int counter = process * own + roll(own);
		Op op{.error = roll(5) == 0, .target = counter};

		if (which < 45 && stage_.command_count < model::max_commands) {
			op.kind = Kind::arm;
			op.target = command(process, counter, base);
		} else if (which < 65) { /* also if there are enough commands */
			op.kind = Kind::add;
			op.value = static_cast<Word>(roll(2) ? 1 : roll(8) ? roll(5) : roll(20));
		} else if (which < 72) {
			op.kind = Kind::set;
			op.value =
				static_cast<Word>(roll(op.error ? 3 : 7)) + (op.error ? 0 : base);
		} else if (which < 84) {
			op.kind = Kind::cancel;
			op.target = some_command(process);
			op.rests = op.target != model::none &&
				   stage_.commands[op.target].rest != model::none && roll(3) == 0;
		} else if (which < 88) {
			op.kind = Kind::flush;
		} else if (which < 91) {
			op.kind = Kind::flush_all;
			op.target = process;
		}
		if (op.target == model::none)
			op = {.kind = Kind::read, .target = counter};
		return op;
	}

	int command(int process, int counter, Word base)
	{
		const int number = static_cast<int>(stage_.command_count++);
		player::Command &c = stage_.commands[number];

		c = {.counter = counter};
		c.threshold = counter % own == own - 1 ? static_cast<Word>(1 + roll(3)) :
							 base + static_cast<Word>(roll(8));
		if (roll(5) < 2)
			c.notify = process * own + roll(own - 1);
		if (roll(5) == 0)
			c.remote = !process * own + own - 1;
		/* Where values wrap, it would repeat for ever. */
		if (!base && repeats_[process] < repeating && roll(6) == 0) {
			++repeats_[process];
			repeat(process, c);
		}
		return number;
	}

	/*
	 * Nothing goes round: it counts into a counter behind its own, in the order 0, 1, what the peer's have written, 2;
	 * so there it has longer steps.
	 */
	void repeat(int process, player::Command &c)
	{
		const int mine = c.counter % own;

		c.threshold = static_cast<Word>(roll(4));
		c.step = static_cast<Word>(mine < 2 ? 1 + roll(3) : 3 + roll(5));
		c.notify = model::none;
		if (mine != 2 && roll(4))
			c.notify = process * own + (mine == 0 && roll(2) ? 1 : 2);
		c.remote = mine < 2 && roll(3) == 0 ? !process * own + own - 1 : model::none;
		if (roll(3) == 0) {
			c.rest = process * own + (mine + 1 + roll(own - 1)) % own;
			c.rest_threshold = static_cast<Word>(roll(8));
		}
	}

	int some_command(int process)
	{
		std::vector<int> all;

		for (int c = 0; c < static_cast<int>(stage_.command_count); ++c)
			if (stage_.commands[c].counter / own == process)
				all.push_back(c);
		return all.empty() ? model::none : all[roll(static_cast<int>(all.size()))];
	}

	Op kill(int victim)
	{
		Op op{.kind = Kind::kill, .target = victim};

		while (stage_.ready < processes * threads)
			sched_yield();
		for (int i = roll(300); i > 0; --i)
			stage_.now(); /* gives other threads time to run in between */
		op.begin = stage_.now();
		children_[victim]->kill();
		op.end = stage_.now();
		return op;
	}

	void write_down(model::History &history)
	{
		for (int c = 0; c < processes * own; ++c)
			history.counters.push_back(c / own);
		history.commands.assign(stage_.commands.begin(),
					stage_.commands.begin() + stage_.command_count);
		for (auto &process : stage_.process) {
			for (auto &actor : process.actors)
				history.actors.emplace_back(actor.ops.begin(),
							    actor.ops.begin() + actor.count);
			const std::uint32_t n = process.completed;
			ASSERT_LE(n, process.completions.size());
			history.completions.emplace_back(process.completions.begin(),
							 process.completions.begin() + n);
			for (const auto &c : history.completions.back())
				ASSERT_LT(c.command, static_cast<int>(stage_.command_count));
		}
	}

	Stage &stage_;
	std::mt19937_64 &random_;
	std::array<std::optional<Child>, processes> children_;
	std::array<int, processes> repeats_{}; /* planned so far */
};

/* A history that must be found wrong: one more command was canceled than was armed. */
bool spoil(model::History &history)
{
	for (auto &actor : history.actors)
		for (Op &op : actor)
			if (op.kind == Kind::flush || op.kind == Kind::flush_all ||
			    (op.kind == Kind::cancel && !op.result)) {
				++op.result;
				return true;
			}
	return false;
}

TEST(History, random_ones_are_explained_by_the_model)
{
	const auto seed = number_from("HISTORY_SEED", std::random_device()());
	const std::chrono::seconds time(number_from("HISTORY_SECONDS", 4));
	std::mt19937_64 random(seed);
	auto *const stage = new (mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Stage;
	const auto start = std::chrono::steady_clock::now();
	std::uint64_t number = 0, calls = 0, ran = 0, canceled = 0, kills = 0, steps = 0;
	std::uint64_t spoiled = 0, reached = 0, open = 0, repeats = 0, rounds = 0;

	while (calls < 1'000'000 && std::chrono::steady_clock::now() - start < time &&
	       !testing::Test::HasFailure()) {
		Play play(*stage, random);

		for (int i = 1; i <= histories && !testing::Test::HasFailure(); ++i) {
			auto history = play.play(i == histories);
			const auto verdict = model::check(history);

			if (verdict.open) {
				++open;
				continue;
			}
			ASSERT_TRUE(verdict.right) << "HISTORY_SEED=" << seed << ", history "
						   << number << ": " << verdict.why << '\n'
						   << model::text_of(history);
			for (const auto &actor : history.actors) {
				calls += actor.size();
				for (const Op &op : actor)
					canceled += op.kind == Kind::cancel && op.result;
			}
			for (const auto &process : history.completions) {
				ran += process.size();
				for (const auto &c : process) {
					reached +=
						history.commands[c.command].remote != model::none &&
						!c.failed;
					ASSERT_TRUE(!c.failed || i == histories) << "all live";
				}
			}
			for (const auto &c : history.commands)
				repeats += c.step != 0;
			rounds += verdict.rounds;
			kills += i == histories;
			steps += verdict.steps;
			++number;
			if (i == 1 && spoil(history)) {
				EXPECT_FALSE(model::check(history).right)
					<< model::text_of(history);
				++spoiled;
			}
		}
	}
	std::printf(
		"%lu histories, %lu calls, %lu commands ran, %lu of them reached the other process, %lu were "
		"canceled one by one, %lu processes killed; %lu commands that repeat ran %lu times; %lu steps; "
		"%lu spoiled ones found out; %lu left open\n",
		number, calls, ran, reached, canceled, kills, repeats, rounds, steps, spoiled,
		open);
	EXPECT_GT(number, 0u);
	EXPECT_LE(open, 2 + number / 100) << "what is not checked proves nothing";
	munmap(stage, sizeof(Stage));
}

} // namespace
