// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Two ends exchange messages of one kind and one size: what treadle-bench measures.
 *
 * Both ends live in one thread, or each in its own process. The first end sends, the second
 * answers. Each has a buffer of two halves. `out` holds a pattern, which has to arrive in `in` of
 * the other end, whatever the operation.
 */
#pragma once

#include <memory>
#include <vector>

#include <sched.h>

#include "fabric.h"
#include "partner.h"

namespace bench
{

enum class Kind { msg, tagged, write, read, fetch_add, trigger, post, stream };

struct Operation {
	Kind kind;
	const char *name;
	const char *help;
	uint64_t caps;
};

constexpr Operation operations[] = {
	{Kind::msg, "msg", "send and receive", FI_MSG},
	{Kind::tagged, "tagged", "tagged send and receive", FI_TAGGED},
	{Kind::write, "write", "RMA write", FI_RMA},
	{Kind::read, "read", "RMA read", FI_RMA},
	{Kind::fetch_add, "fetch-add", "atomic fetch-and-add of 8 bytes", FI_ATOMIC},
	{Kind::trigger, "trigger", "a hop in a chain of triggered sends, armed beforehand",
	 FI_MSG | FI_TRIGGER},
	{Kind::post, "post", "the call that posts a send, without the transfer", FI_MSG},
	{Kind::stream, "stream",
	 "one after the other in one direction, up to 64 at a time;\n"
	 "8 if they are long",
	 FI_MSG},
};

struct Job {
	std::string provider;
	Operation op;
	size_t size;
	bool two; /* processes */
	fi_ep_type type = FI_EP_RDM;
	std::string address = "127.0.0.1"; /* of the ends in this process */
	fi_progress progress = FI_PROGRESS_UNSPEC;
	fi_threading threading = FI_THREAD_DOMAIN;
};

/* The provider, or this program in this mode, does not support the operation. Not an error. */
struct Unsupported {
};

/* Called where a measured part begins and ends. There may be several parts. */
class Watch
{
public:
	virtual ~Watch() = default;
	virtual void start() {}
	virtual void stop() {}
};

class Timer final : public Watch
{
public:
	void start() override { start_ = Clock::now(); }
	void stop() override
	{
		parts.push_back(nanoseconds(Clock::now() - start_));
		total += parts.back();
	}
	uint64_t total = 0;
	std::vector<uint64_t> parts;

private:
	Clock::time_point start_;
};

/* The ends in this process. */
enum class Place { both, first, second };

class Conversation
{
public:
	Conversation(const fi_info *info, const Operation &op, size_t size, Place place,
		     Partner *partner)
		: size_(size), half_((size + Buffer::page - 1) & ~(Buffer::page - 1)),
		  partner_(partner),
		  automatic_(info->domain_attr->data_progress == FI_PROGRESS_AUTO)
	{
		const Shape shape{.bytes = 2 * half_, .count_received = op.kind == Kind::trigger};

		if (size > info->ep_attr->max_msg_size)
			throw Unsupported();
		if (place != Place::second)
			first_ = make_end(info, shape);
		if (place != Place::first)
			second_ = make_end(info, shape);
		if (place == Place::both && first_->connected) {
			first_->ask(second_->card());
			second_->answer(first_->card());
			first_->await_connection();
			second_->await_connection();
		} else if (place == Place::both) {
			first_->meet(second_->card());
			second_->meet(first_->card());
		} else {
			End &mine = first_ ? *first_ : *second_;
			Card card = mine.card();
			partner->put(&card, sizeof(card));
			if (!partner->get(&card, sizeof(card)))
				throw Failure("the other process", EPIPE);
			if (!mine.connected) {
				mine.meet(card);
				return;
			}
			if (place == Place::first)
				mine.ask(card);
			else
				mine.answer(card);
			mine.await_connection();
		}
	}
	virtual ~Conversation() = default;

	/* Exchanges at least `count` messages and returns the number. */
	size_t run(size_t count, Watch &watch)
	{
		const size_t turns = (count + grain() - 1) / grain();

		if (!turns)
			return 0;
		if (partner_) {
			partner_->put(turns);
			partner_->get();
		}
		speak(turns, watch);
		return turns * grain();
	}

	/* Exchanges a few messages and checks the data. */
	void verify()
	{
		Watch unwatched;

		run(1, unwatched);
		if (!right())
			throw std::runtime_error("wrong data arrived");
	}

	/* Runs the second end in its own process: answers until the first end closes. */
	void answer()
	{
		uint64_t turns;

		for (;;) {
			while (passive() && !automatic_ && partner_->silent())
				progress();
			if (!partner_->get(&turns, sizeof(turns)))
				return;
			expect();
			partner_->put(1);
			for (; turns; turns--)
				reply(turns > 1);
		}
	}

protected:
	/* Messages in a turn. */
	virtual size_t grain() const { return 1; }
	virtual void speak(size_t turns, Watch &watch) = 0;
	virtual bool right() = 0;
	/* Does the second end do nothing? Then only its progress may be needed. */
	virtual bool passive() const { return false; }
	/* For the second end: expect() before the first turn, reply() in each turn. */
	virtual void expect() {}
	virtual void reply(bool /* more to come */) {}

	std::byte *out(const End &end) const { return end.buffer.data(); }
	std::byte *in(const End &end) const { return end.buffer.data() + half_; }
	bool arrived(const End &end) const { return !std::memcmp(in(end), out(end), size_); }

	void progress()
	{
		if (first_)
			first_->progress();
		if (second_)
			second_->progress();
	}

	template <class Call> void post(const char *what, Call call)
	{
		ssize_t rc;

		while ((rc = call()) == -FI_EAGAIN)
			progress();
		must(rc, what);
	}

	/* Calls progress for the other end only if this one has nothing to report. */
	template <class Done> void wait(End &end, Done done)
	{
		for (unsigned polls = 1;; polls++) {
			end.progress();
			if (done())
				return;
			if (End *other = &end == first_.get() ? second_.get() : first_.get())
				other->progress();
			/* The other end may need this CPU. */
			if (polls % 64 == 0)
				sched_yield();
		}
	}

	void await(End &end, uint64_t End::*done, uint64_t target)
	{
		wait(end, [&] { return end.*done >= target; });
	}

	const size_t size_, half_;
	Partner *const partner_;
	std::unique_ptr<End> first_, second_;

private:
	std::unique_ptr<End> make_end(const fi_info *info, const Shape &shape) const
	{
		auto end = std::make_unique<End>(info, shape);

		for (size_t i = 0; i < size_; i++)
			out(*end)[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
		return end;
	}

	const bool automatic_;
};

} // namespace bench
