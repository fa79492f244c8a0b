// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Processes and threads that execute a plan, and record in shared memory what happened. */
#ifndef TREADLE_TESTS_LIB_PLAYER_H
#define TREADLE_TESTS_LIB_PLAYER_H

#include <atomic>
#include <barrier>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include <sched.h>

#include "../model/history.h"
#include "child.h"
#include "node.h"

namespace player
{

using model::Command;
using model::Completion;
using model::Kind;
using model::Op;
using model::Word;

constexpr int processes = 2;
constexpr int threads = 2; /* of each */
/*
 * Counters of each process: two, one on which only commands without notification wait, and one that
 * counts what peers have written.
 */
constexpr int own = 4;
constexpr int max_ops = 128;

/* Shared by all: the plan, its progress, and the findings. */
struct Stage {
	struct Actor {
		std::uint32_t planned = 0;
		std::atomic<std::uint32_t> count = 0; /* calls that have begun */
		std::array<bool, max_ops> pause{};    /* let another thread run before it */
		std::array<Op, max_ops> ops{};
	};
	struct Process {
		std::atomic<std::uint32_t> completed = 0;
		std::array<Completion, 2 * model::max_commands> completions{};
		std::array<Actor, threads> actors{};
		treadle_addr addr{};
		std::uint64_t key = 0;
	};
	std::atomic<Word> clock = 0;
	std::atomic<std::uint32_t> ready = 0; /* actors that wait for the others */
	std::uint32_t command_count = 0;
	std::array<Command, model::max_commands> commands{};
	std::array<Process, processes> process{};

	Word now() { return ++clock; }
};

/* One process: two threads, each with an endpoint and a ring, and counters that both use. */
class Player
{
public:
	Player(Stage &stage, int number, const Line &line)
		: stage_(stage), me_(stage.process[number]), number_(number), line_(line),
		  context_(must(Context::open(), "open")),
		  av_(must(AddressVector::create(context_), "av")),
		  cq_(must(CompletionQueue::create(context_, 256), "cq")),
		  written_(must(Counter::create(context_), "counter")), voices_{Voice(*this),
										Voice(*this)},
		  region_(must(MemoryRegion::create(context_, bytes_at(&word_, sizeof(word_)),
						    {.access = TREADLE_ACCESS_REMOTE_WRITE,
						     .flags = TREADLE_MR_KERNEL_KEY}),
			       "region"))
	{
		me_.addr = voices_[0].ep.address();
		me_.key = region_.key();
		fdinfo_ = "/proc/self/fdinfo/" + std::to_string(context_.device());
	}

	/* Until the other side has no more to say. */
	void live()
	{
		line_.tell('k');
		line_.ask<char>(); /* the peer has all addresses */
		peer_ = must(av_.insert(stage_.process[!number_].addr), "insert");
		std::barrier together(threads);
		std::atomic<bool> end = false;
		std::jthread second([&] {
			for (;;) {
				together.arrive_and_wait();
				if (end)
					return;
				play(1);
				together.arrive_and_wait();
			}
		});

		for (;;) {
			const char what = line_.ask<char>();
			if (what == 'p') {
				renew();
				together.arrive_and_wait();
				play(0);
				together.arrive_and_wait();
			} else if (what == 's') {
				settle();
			} else if (what == 'r') {
				read_all();
			} else {
				break;
			}
			line_.tell(testing::Test::HasFailure() ? 'f' : 'd');
		}
		end = true;
		together.arrive_and_wait();
	}

private:
	struct Voice {
		explicit Voice(Player &player)
			: tx(must(TransmitRing::create(player.context_, 256), "tx")),
			  ep(must(Endpoint::create(player.context_, loopback()), "endpoint"))
		{
			EXPECT_EQ(ep.enable({.tx = tx.id(),
					     .av = player.av_.id(),
					     .tx_cq = player.cq_.id(),
					     .rx_cq = player.cq_.id(),
					     .remote_write = player.written_.id()}),
				  ok);
		}
		TransmitRing tx;
		Endpoint ep;
	};

	Counter &counter(int number)
	{
		const int mine = number - number_ * own;
		return mine == own - 1 ? written_ : *counters_[mine];
	}
	CounterId id(int number) { return counter(number).id(); }

	/* Forgets the last history. */
	void renew()
	{
		for (auto &c : counters_)
			c.emplace(must(Counter::create(context_), "counter"));
		EXPECT_EQ(written_.set(0), ok);
		EXPECT_EQ(written_.set_error(0), ok);
	}

	void play(int thread)
	{
		auto &actor = me_.actors[thread];

		++stage_.ready;
		while (stage_.ready < processes * threads)
			sched_yield();
		for (std::uint32_t i = 0; i < actor.planned; ++i) {
			if (thread == 0)
				drain();
			if (actor.pause[i])
				sched_yield();
			perform(actor.ops[i], voices_[thread], actor, i);
		}
	}

	/* Records a call before it begins, and its result when it has ended. */
	void perform(Op &op, Voice &voice, Stage::Actor &actor, std::uint32_t index)
	{
		op.seen = me_.completed;
		op.begin = stage_.now();
		actor.count = index + 1;
		call(op, voice);
		std::atomic_ref(op.end).store(stage_.now());
	}

	void call(Op &op, Voice &voice)
	{
		const Command &c = stage_.commands[op.target % model::max_commands];

		switch (op.kind) {
		case Kind::arm:
			EXPECT_EQ(voice.tx.post(command(op.target)), ok);
			break;
		case Kind::add:
			EXPECT_EQ(voice.tx.post(treadle::Command::add(id(op.target), op.value)
							.flags(error_flag(op))),
				  ok);
			break;
		case Kind::set:
			EXPECT_EQ(voice.tx.post(treadle::Command::set(id(op.target), op.value)
							.flags(error_flag(op))),
				  ok);
			break;
		case Kind::cancel: {
			if (c.step && !op.last)
				aim(op, c);
			const auto rc = context_.cancel(id(op.rests ? c.rest : c.counter),
							c.step ? op.value : c.threshold, op.target);
			EXPECT_TRUE(!rc || rc == from_errno(ENOENT)) << rc;
			op.result = !rc;
			break;
		}
		case Kind::flush:
			op.result = must(context_.flush(id(op.target)), "flush");
			break;
		case Kind::flush_all:
			op.result = must(context_.flush(), "flush");
			break;
		case Kind::read: {
			const Counter &from = counter(op.target);
			op.result = op.error ? from.error() : from.value();
			break;
		}
		case Kind::kill:
			ADD_FAILURE();
		}
	}

	/* Aims a cancel at the next threshold of the command: the first beyond the value. */
	void aim(Op &op, const Command &c)
	{
		const Counter &at = counter(op.rests ? c.rest : c.counter);
		const Word sum = at.value() + at.error();

		op.value = op.rests ? c.rest_threshold : c.threshold;
		if (op.value <= sum)
			op.value += (1 + (sum - op.value) / c.step) * c.step;
	}

	static std::uint32_t error_flag(const Op &op)
	{
		return op.error ? TREADLE_F_CNTR_ERROR : 0;
	}

	treadle::Command command(int number)
	{
		const Command &c = stage_.commands[number];
		const auto &peer = stage_.process[!number_];
		auto made = c.remote == model::none ?
				    treadle::Command::nop() :
				    treadle::Command::write(bytes_at(&word_, sizeof(word_)), peer_,
							    {0, peer.key});

		made.when(id(c.counter), c.threshold)
			.work()
			.context(static_cast<std::uint64_t>(number));
		if (c.step)
			made.repeat(c.step);
		else
			made.completion();
		if (c.rest != model::none)
			made.rest(id(c.rest), c.rest_threshold);
		if (c.notify != model::none)
			made.notify(id(c.notify));
		return made;
	}

	void drain()
	{
		std::ignore = cq_.consume(64, [&](const treadle_cqe &cqe) {
			const std::uint32_t n = me_.completed;
			if (n < me_.completions.size())
				me_.completions[n] = {static_cast<int>(cqe.context),
						      cqe.error != 0};
			me_.completed = n + 1;
			return true;
		});
	}

	/* Waits for a condition that must become true, for seconds if necessary. */
	template <class Done> void eventually(const char *what, Done done)
	{
		const auto deadline = std::chrono::steady_clock::now() + patience;

		for (drain(); !done(); drain()) {
			if (std::chrono::steady_clock::now() > deadline) {
				ADD_FAILURE() << what;
				return;
			}
			usleep(100);
		}
	}

	/* An armed command, as fdinfo shows it. */
	struct Armed {
		Word counter = 0, threshold = 0, flags = 0, context = 0;
		Word sum = 0; /* of that counter */

		bool is_ready() const { return threshold <= sum; }
	};

	/* All armed commands, by their counter; at least the first of each counter. */
	std::vector<Armed> armed() const
	{
		std::ifstream file(fdinfo_);
		std::vector<Armed> all;
		std::string line, word, no;
		Word sum = 0;

		while (std::getline(file, line)) {
			std::istringstream words(line);

			words >> word;
			if (word == "treadle-cntr:") {
				Word id, success, error;
				words >> id >> word >> success >> word >> error;
				sum = success + error;
			} else if (word == "treadle-armed:") {
				Armed a;
				a.sum = sum;
				words >> word >> a.counter >> word >> a.threshold >> word >> no >>
					word >> a.flags >> word >> no >> word >> no >> no >> word >>
					std::hex >> a.context;
				all.push_back(a);
			}
			if (!words)
				ADD_FAILURE() << line;
		}
		return all;
	}

	bool nothing_is_ready() const { return std::ranges::none_of(armed(), &Armed::is_ready); }

	/*
	 * Cancels the commands that repeat; returns whether none was left. A command that was under
	 * way is armed again, perhaps at a threshold that its counter has reached. Then it has to
	 * fire, and a cancel could hide that it does not.
	 */
	bool nothing_repeats()
	{
		auto &actor = me_.actors[0];

		for (const Armed &a : armed())
			if ((a.flags & TREADLE_F_REPEAT) && !a.is_ready()) {
				const int number = static_cast<int>(a.context);
				const Command &c = stage_.commands.at(a.context);
				Op &op = actor.ops.at(actor.count);
				op = {.kind = Kind::cancel,
				      .last = true,
				      .rests = c.rest != model::none &&
					       a.counter == static_cast<Word>(id(c.rest)),
				      .target = number,
				      .value = a.threshold};
				perform(op, voices_[0], actor, actor.count);
			}
		std::ifstream file(fdinfo_);
		std::string line;
		while (std::getline(file, line))
			if (line.starts_with("treadle-context:"))
				return line.find("armed 0 ") != line.npos;
		return false;
	}

	/*
	 * There are no more calls. What is ready fires. Then the remaining commands are canceled
	 * one by one, which is part of the history. Then all commands that ran complete and are
	 * counted.
	 */
	void settle()
	{
		auto &actor = me_.actors[0];

		eventually("what is ready does not fire", [&] { return nothing_is_ready(); });
		for (int c = 0; c < static_cast<int>(stage_.command_count); ++c)
			if (stage_.commands[c].counter / own == number_ &&
			    !stage_.commands[c].step && !has_completed(c)) {
				Op &op = actor.ops.at(actor.count);
				op = {.kind = Kind::cancel, .last = true, .target = c};
				perform(op, voices_[0], actor, actor.count);
			}
		eventually("a command that repeats stays", [&] { return nothing_repeats(); });
		eventually("something neither ran nor was canceled",
			   [&] { return me_.completed >= not_taken(); });
		/* A counter is busy while a completion that is being counted refers to it. */
		for (auto &c : counters_)
			eventually("a counter is busy", [&] { return !c->close(); });
	}

	/* Commands that were armed and not canceled; none of them repeats. */
	Word not_taken() const
	{
		Word n = 0;

		for (const auto &a : me_.actors)
			for (std::uint32_t i = 0; i < a.count; ++i) {
				n += a.ops[i].kind == Kind::arm;
				n -= takes(a.ops[i].kind) ? a.ops[i].result : 0;
			}
		return n;
	}

	static bool takes(Kind kind)
	{
		return kind == Kind::cancel || kind == Kind::flush || kind == Kind::flush_all;
	}

	bool has_completed(int command) const
	{
		for (std::uint32_t i = 0; i < me_.completed; ++i)
			if (me_.completions[i].command == command)
				return true;
		return false;
	}

	/* A counter stays mapped after it was closed. */
	void read_all()
	{
		auto &actor = me_.actors[0];

		drain();
		for (int c = number_ * own; c < (number_ + 1) * own; ++c)
			for (const bool error : {false, true}) {
				Op &op = actor.ops.at(actor.count);
				op = {.kind = Kind::read,
				      .error = error,
				      .last = true,
				      .target = c};
				perform(op, voices_[0], actor, actor.count);
			}
	}

	Stage &stage_;
	Stage::Process &me_;
	const int number_;
	const Line &line_;
	Context context_;
	AddressVector av_;
	CompletionQueue cq_;
	Counter written_;
	std::array<std::optional<Counter>, own - 1> counters_;
	std::array<Voice, threads> voices_;
	std::uint64_t word_ = 0;
	MemoryRegion region_;
	Peer peer_{};
	std::string fdinfo_;
};

} // namespace player

#endif
