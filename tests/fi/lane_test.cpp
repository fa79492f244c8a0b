// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Messages by lanes: Documentation/lanes.rst. */
#include "calls.h"
#include "lane.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <thread>

namespace
{

/* With locks, and without. */
struct Laned : testing::TestWithParam<fi_threading>, LanePair {
	Laned() : LanePair(Side::Options(), GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Threading, Laned, testing::Values(FI_THREAD_SAFE, FI_THREAD_DOMAIN));

TEST_P(Laned, CompletionsAreThoseOfTheKernel)
{
	const std::uint64_t out = 0x1234;
	std::uint64_t in = 0;
	fi_addr_t src = 0;
	const auto before = sent();

	ASSERT_EQ(fi_trecv(b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 6, 1, ctx(3)), 0);
	ASSERT_EQ(fi_tsend(a(), &out, 8, nullptr, p.b_at_a, 7, ctx(4)), 0);
	auto entry = next(p.b.rx_cq.get(), &src);
	EXPECT_EQ(entry.op_context, ctx(3));
	EXPECT_EQ(entry.flags, FI_RECV | FI_TAGGED);
	EXPECT_EQ(entry.len, 8u);
	EXPECT_EQ(entry.buf, &in);
	EXPECT_EQ(entry.data, 0u);
	EXPECT_EQ(entry.tag, 7u);
	EXPECT_EQ(src, p.a_at_b);
	EXPECT_EQ(in, out);
	entry = next(p.a.tx_cq.get());
	EXPECT_EQ(entry.op_context, ctx(4));
	EXPECT_EQ(entry.flags, FI_SEND | FI_TAGGED);

	ASSERT_EQ(fi_recv(b(), &in, 8, nullptr, FI_ADDR_UNSPEC, ctx(5)), 0);
	ASSERT_EQ(fi_injectdata(a(), &out, 2, 77, p.b_at_a), 0);
	entry = next(p.b.rx_cq.get());
	EXPECT_EQ(entry.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
	EXPECT_EQ(entry.len, 2u);
	EXPECT_EQ(entry.data, 77u);
	EXPECT_EQ(entry.tag, 0u);

	ASSERT_EQ(fi_trecv(b(), &in, 8, nullptr, p.a_at_b, 7, 0, ctx(6)), 0);
	ASSERT_EQ(fi_tsenddata(a(), &out, 8, nullptr, 78, p.b_at_a, 7, ctx(7)), 0);
	entry = next(p.b.rx_cq.get());
	EXPECT_EQ(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
	EXPECT_EQ(entry.data, 78u);
	EXPECT_EQ(next(p.a.tx_cq.get()).flags, FI_SEND | FI_TAGGED);
	EXPECT_EQ(sent(), before + 3);
}

/* A receive names a place of the vector, where another peer is by now. */
TEST_P(Laned, ADirectedReceiveFollowsTheVector)
{
	Side third(p.node);
	fi_addr_t a_at_b = p.a_at_b;
	char in[2] = {};

	ASSERT_EQ(fi_trecv(b(), &in[0], 1, nullptr, a_at_b, 7, 0, ctx(1)), 0);
	ASSERT_EQ(fi_tinject(a(), "a", 1, p.b_at_a, 7), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
	ASSERT_EQ(fi_av_remove(p.b.av.get(), &a_at_b, 1, 0), 0);
	ASSERT_EQ(p.b.insert(address_of(third.ep.get())), a_at_b);
	ASSERT_EQ(fi_trecv(b(), &in[1], 1, nullptr, a_at_b, 7, 0, ctx(2)), 0);
	ASSERT_EQ(fi_tinject(a(), "A", 1, p.b_at_a, 7), 0);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	const fi_addr_t b_at_third = third.insert(address_of(b()));
	ASSERT_EQ(fi_tinject(third.ep.get(), "3", 1, b_at_third, 7), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(2));
	EXPECT_EQ(in[1], '3');
}

TEST_P(Laned, AMessageThatIsTooLongIsCut)
{
	char in[4] = {};

	ASSERT_EQ(fi_trecv(b(), in, 3, nullptr, FI_ADDR_UNSPEC, 7, 0, ctx(1)), 0);
	ASSERT_EQ(fi_tinject(a(), "abcdefgh", 8, p.b_at_a, 7), 0);
	auto error = next_error(p.b.rx_cq.get());
	EXPECT_EQ(error.err, FI_ETRUNC);
	EXPECT_EQ(error.len, 3u);
	EXPECT_EQ(error.olen, 5u);
	EXPECT_STREQ(in, "abc");
	/* the same for one that waits */
	ASSERT_EQ(fi_tinject(a(), "12345678", 8, p.b_at_a, 7), 0);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	ASSERT_EQ(fi_trecv(b(), in, 3, nullptr, FI_ADDR_UNSPEC, 7, 0, ctx(1)), 0);
	error = next_error(p.b.rx_cq.get());
	EXPECT_EQ(error.err, FI_ETRUNC);
	EXPECT_EQ(error.olen, 5u);
	EXPECT_STREQ(in, "123");
}

TEST_P(Laned, AReceiveThatIsKeptHereIsCanceled)
{
	char in;

	ASSERT_EQ(fi_trecv(b(), &in, 1, nullptr, FI_ADDR_UNSPEC, 7, 0, ctx(9)), 0);
	ASSERT_EQ(fi_cancel(&b()->fid, ctx(9)), 0);
	const auto error = next_error(p.b.rx_cq.get());
	EXPECT_EQ(error.err, FI_ECANCELED);
	EXPECT_EQ(error.op_context, ctx(9));
	EXPECT_EQ(fi_cancel(&b()->fid, ctx(9)), -FI_ENOENT);
}

TEST_P(Laned, PeeksClaimsAndDiscards)
{
	std::uint64_t in = 0;
	const auto message = [&](std::uint64_t tag, std::uint64_t flags, bool buffer) {
		const iovec iov{&in, 8};
		const fi_msg_tagged msg{&iov, nullptr, buffer ? 1u : 0u, FI_ADDR_UNSPEC,
					tag,  0,       ctx(2),		 0};

		return fi_trecvmsg(b(), &msg, flags);
	};

	ASSERT_EQ(message(7, FI_PEEK, false), 0);
	EXPECT_EQ(next_error(p.b.rx_cq.get()).err, FI_ENOMSG);
	for (const std::uint64_t value : {1, 2, 3})
		ASSERT_EQ(fi_tinject(a(), &value, 8, p.b_at_a, 7), 0);
	ASSERT_EQ(message(7, FI_PEEK, false), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).len, 8u);
	ASSERT_EQ(message(7, FI_PEEK | FI_CLAIM, false), 0);
	next(p.b.rx_cq.get());
	ASSERT_EQ(message(7, FI_PEEK | FI_DISCARD, false), 0);
	next(p.b.rx_cq.get());
	ASSERT_EQ(fi_trecv(b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), 0);
	next(p.b.rx_cq.get());
	EXPECT_EQ(in, 3u);
	ASSERT_EQ(message(7, FI_CLAIM, true), 0);
	next(p.b.rx_cq.get());
	EXPECT_EQ(in, 1u);
}

TEST_P(Laned, AFullLaneDoesNotHoldUpItsSender)
{
	for (std::uint64_t i = 0; i < 2000; ++i)
		ASSERT_EQ(fi_tinject(a(), &i, 8, p.b_at_a, 7), 0) << i;
	for (std::uint64_t i = 0, in = 0; i < 2000; ++i) {
		ASSERT_EQ(fi_trecv(b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), 0);
		next(p.b.rx_cq.get());
		ASSERT_EQ(in, i);
	}
}

TEST_P(Laned, WhatASenderHasLeftComes)
{
	const std::uint64_t out = 5;
	std::uint64_t in = 0;

	const auto before = sent();
	ASSERT_EQ(fi_tinject(a(), &out, 8, p.b_at_a, 7), 0);
	EXPECT_EQ(sent(), before + 1);
	p.a.ep.reset();
	ASSERT_EQ(fi_trecv(b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), 0);
	next(p.b.rx_cq.get());
	EXPECT_EQ(in, 5u);
}

/*
 * Receives and messages are in one order each, so each receive has one message that it must get,
 * whenever what arrives: the first of the sender's that matches it and no earlier receive.
 */
class Mix
{
public:
	explicit Mix(unsigned int seed) : random_(seed) {}

	void run(int steps)
	{
		for (int i = 0; i < steps; ++i) {
			if (!pick(50))
				settle();
			short_ = i / 100 % 2;
			switch (pick(4)) {
			case 0:
			case 1:
				if (messages_.size() < receives_.size() + 40)
					send(pick(4));
				break;
			case 2:
				if (receives_.size() < messages_.size() + 100)
					receive(pick(4), pick(4) ? 0 : pick(4));
				break;
			default:
				read();
			}
			ASSERT_FALSE(testing::Test::HasFatalFailure()) << i;
		}
		settle();
		finish();
		std::printf("%d by the lane, %d taken back, %d times closed, of %zu\n",
			    int(lanes_.sent()), int(stats().taken_back),
			    int(lanes_of(lanes_.p.node, lanes_.b()).closed), messages_.size());
	}

private:
	static constexpr std::size_t longest = 20000;
	struct Message {
		std::uint64_t tag;
		std::size_t len;
		bool taken = false;
	};
	struct Receive {
		std::uint64_t tag, ignore;
		std::vector<std::uint8_t> buffer;
		std::size_t len = 0;
		bool done = false;
	};

	fi_treadle_lane_stats stats() { return lanes_of(lanes_.p.node, lanes_.a()); }
	/* A message for each receive, a receive for each message, and nothing under way. */
	void settle()
	{
		for (match(); !testing::Test::HasFatalFailure(); match()) {
			const auto message = std::ranges::find(messages_, false, &Message::taken);
			const auto open = std::ranges::find_if(receives_, [&](const Receive &r) {
				return !wanted_.contains(&r);
			});

			if (message != messages_.end())
				receive(message->tag, 0);
			else if (open != receives_.end())
				send(open->tag);
			else
				break;
		}
		for (int i = 0; i < 1'000'000 && !all(); ++i)
			read();
		ASSERT_TRUE(all());
	}
	bool all()
	{
		return !sends_ && std::ranges::all_of(receives_, [&](const Receive &r) {
			return r.done || !wanted_.contains(&r);
		});
	}

	unsigned int pick(unsigned int n) { return random_() % n; }

	void send(std::uint64_t tag)
	{
		static constexpr std::size_t lengths[] = {8, 8, 8, 100, 4095, 4096, 4097, longest};
		const std::size_t len = lengths[pick(short_ ? 6 : std::size(lengths))];
		auto &bytes = out_.emplace_back(len);
		const std::uint64_t number = messages_.size();
		const bool injected = len <= 4096 && pick(2);
		int rc;

		std::memcpy(bytes.data(), &number, 8);
		if (len > 8)
			bytes.back() = static_cast<std::uint8_t>(number);
		while ((rc = static_cast<int>(injected ? fi_tinject(lanes_.a(), bytes.data(), len,
								    lanes_.p.b_at_a, tag) :
							 fi_tsend(lanes_.a(), bytes.data(), len,
								  nullptr, lanes_.p.b_at_a, tag,
								  ctx(1)))) == -FI_EAGAIN)
			read();
		ASSERT_EQ(rc, 0);
		sends_ += !injected;
		messages_.push_back({tag, len});
	}
	void receive(std::uint64_t tag, std::uint64_t ignore)
	{
		Receive &r = receives_.emplace_back();
		int rc;

		r.tag = tag;
		r.ignore = ignore;
		r.buffer.resize(longest);
		while ((rc = static_cast<int>(fi_trecv(lanes_.b(), r.buffer.data(), longest,
						       nullptr,
						       pick(4) ? lanes_.p.a_at_b : FI_ADDR_UNSPEC,
						       r.tag, r.ignore, &r))) == -FI_EAGAIN)
			read();
		ASSERT_EQ(rc, 0);
	}
	void read()
	{
		fi_cq_tagged_entry entry;

		while (fi_cq_read(lanes_.p.b.rx_cq.get(), &entry, 1) == 1) {
			auto *const r = static_cast<Receive *>(entry.op_context);
			ASSERT_FALSE(r->done);
			r->done = true;
			r->len = entry.len;
		}
		while (fi_cq_read(lanes_.p.a.tx_cq.get(), &entry, 1) == 1)
			--sends_;
	}
	void match()
	{
		wanted_.clear();
		for (Message &m : messages_)
			m.taken = false;
		for (const Receive &r : receives_) {
			for (std::size_t i = 0; i < messages_.size(); ++i) {
				Message &m = messages_[i];
				if (m.taken || (m.tag ^ r.tag) & ~r.ignore)
					continue;
				m.taken = true;
				wanted_[&r] = i;
				break;
			}
		}
	}
	void finish()
	{
		for (const Receive &r : receives_) {
			if (!wanted_.contains(&r)) {
				EXPECT_FALSE(r.done);
				continue;
			}
			const std::size_t i = wanted_[&r];
			std::uint64_t number = 0;

			ASSERT_TRUE(r.done);
			std::memcpy(&number, r.buffer.data(), 8);
			ASSERT_EQ(number, i);
			ASSERT_EQ(r.len, messages_[i].len);
			ASSERT_TRUE(!std::memcmp(r.buffer.data(), out_[i].data(), r.len));
		}
		EXPECT_GT(lanes_.sent(), 10u);
	}

	LanePair lanes_;
	std::mt19937 random_;
	std::deque<std::vector<std::uint8_t>> out_;
	std::vector<Message> messages_;
	std::deque<Receive> receives_;
	std::map<const Receive *, std::size_t> wanted_;
	int sends_ = 0;
	bool short_ = false;
};

TEST(Lane, KeepsTheOrderOfLaneAndRing)
{
	for (unsigned int seed = 1; seed <= 20; ++seed) {
		Mix(seed).run(1500);
		ASSERT_FALSE(testing::Test::HasFailure()) << seed;
	}
}

/*
 * A sender and a receiver at once, of one process: all messages come once, in their order, whatever
 * way each of them takes. The receiver polls, or sleeps, or lets the sender run far ahead.
 */
class Stream
{
public:
	Stream(unsigned int seed, fi_threading threading)
		: lanes_(Side::Options(), threading), seed_(seed)
	{
	}

	void run(std::uint64_t count)
	{
		std::thread sender([&] { send(count); });

		receive(count);
		sender.join();
		EXPECT_TRUE(is_silent(lanes_.p.b.rx_cq.get()));
		std::printf("%d of %d by the lane, %d taken back, %d times closed\n",
			    int(lanes_.sent()), int(count),
			    int(lanes_of(lanes_.p.node, lanes_.a()).taken_back),
			    int(lanes_of(lanes_.p.node, lanes_.b()).closed));
	}

private:
	static constexpr std::size_t longest = 8192, depth = 32;

	void send(std::uint64_t count)
	{
		std::mt19937 random(seed_);
		std::vector<std::uint64_t> out(longest / 8);

		for (std::uint64_t i = 0; i < count; ++i) {
			const std::size_t len =
				random() % (seed_ % 2 ? 50 : 500) ? 8 : random() % 8 * 1024 + 8;
			const bool injected = len <= 4096 && random() % 2;
			fi_cq_tagged_entry entry;

			out[0] = out[len / 8 - 1] = i;
			if (!repeat([&] {
				    return injected ? fi_tinject(lanes_.a(), out.data(), len,
								 lanes_.p.b_at_a, 7) :
						      fi_tsend(lanes_.a(), out.data(), len, nullptr,
							       lanes_.p.b_at_a, 7, nullptr);
			    }))
				return;
			if (!injected && !repeat([&] {
				    const ssize_t rc =
					    fi_cq_read(lanes_.p.a.tx_cq.get(), &entry, 1);
				    return rc == 1 ? 0 : rc;
			    }))
				return;
		}
	}
	/* Until it is done, or the test has failed. */
	static bool repeat(const std::function<ssize_t()> &call)
	{
		ssize_t rc;

		while ((rc = call()) == -FI_EAGAIN && !testing::Test::HasFailure())
			std::this_thread::yield();
		EXPECT_EQ(rc, 0);
		return !rc;
	}
	void receive(std::uint64_t count)
	{
		std::mt19937 random(seed_ + 1000);
		std::vector<std::vector<std::uint64_t>> in(depth);
		std::uint64_t posted = 0;

		for (std::uint64_t i = 0; i < count; ++i) {
			const bool post = !(random() % 8) || posted == i;

			for (std::size_t n = post ? random() % depth + 1 : 0;
			     n && posted < std::min(count, i + depth); --n, ++posted) {
				auto &buffer = in[posted % depth];

				buffer.assign(longest / 8, ~0ull);
				ASSERT_EQ(fi_trecv(lanes_.b(), buffer.data(), longest, nullptr,
						   random() % 2 ? lanes_.p.a_at_b : FI_ADDR_UNSPEC,
						   7, 0, ctx(posted)),
					  0);
			}
			take(i, in[i % depth], random);
			if (testing::Test::HasFailure())
				return;
			if (!(random() % 300))
				std::this_thread::sleep_for(std::chrono::microseconds(500));
		}
	}
	/* The next message is number i, in this buffer. Completions come in any order. */
	void take(std::uint64_t i, const std::vector<std::uint64_t> &buffer, std::mt19937 &random)
	{
		fi_cq_tagged_entry entry;

		while (!lens_.contains(i)) {
			ASSERT_FALSE(testing::Test::HasFailure());
			const ssize_t rc = random() % (seed_ % 2 ? 100 : 1000) ?
						   fi_cq_read(lanes_.p.b.rx_cq.get(), &entry, 1) :
						   fi_cq_sread(lanes_.p.b.rx_cq.get(), &entry, 1,
							       nullptr, patience);

			if (rc == -FI_EAGAIN)
				continue;
			ASSERT_EQ(rc, 1);
			ASSERT_TRUE(
				lens_.emplace(reinterpret_cast<std::uintptr_t>(entry.op_context),
					      entry.len)
					.second);
		}
		const std::size_t len = lens_[i];

		lens_.erase(i);
		ASSERT_EQ(buffer[0], i);
		ASSERT_EQ(buffer[len / 8 - 1], i);
		ASSERT_TRUE(len == longest || buffer[len / 8] == ~0ull);
	}

	LanePair lanes_;
	const unsigned int seed_;
	std::map<std::uint64_t, std::size_t> lens_; /* of what has come, by its number */
};

TEST(Lane, KeepsTheOrderBetweenTwoThreads)
{
	constexpr fi_threading levels[] = {FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_ENDPOINT,
					   FI_THREAD_COMPLETION};

	for (unsigned int seed = 1; seed <= 8; ++seed) {
		Stream(seed, levels[seed / 2 % 4]).run(3000);
		ASSERT_FALSE(testing::Test::HasFailure()) << seed;
	}
}

TEST(Lane, NoMessageIsASystemCall)
{
	const auto counts = count_calls([] {
		LanePair pair;
		const auto before = pair.sent();
		fi_cq_tagged_entry entry;
		std::uint64_t in = 0;

		start();
		for (std::uint64_t i = 0; i < 1000; ++i) {
			ASSERT_EQ(fi_trecv(pair.b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0,
					   nullptr),
				  0);
			ASSERT_EQ(fi_tsend(pair.a(), &i, 8, nullptr, pair.p.b_at_a, 7, nullptr), 0);
			ASSERT_EQ(fi_cq_read(pair.p.b.rx_cq.get(), &entry, 1), 1);
			ASSERT_EQ(fi_cq_read(pair.p.a.tx_cq.get(), &entry, 1), 1);
			ASSERT_EQ(in, i);
		}
		mark();
		stop();
		EXPECT_EQ(pair.sent(), before + 1000);
	});

	EXPECT_EQ(counts, std::vector({0}));
}

TEST(Lane, ASleepingThreadIsWoken)
{
	LanePair pair;

	for (std::uint64_t i = 1, in = 0; i <= 100; ++i) {
		fi_cq_tagged_entry entry;

		ASSERT_EQ(fi_trecv(pair.b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), 0);
		std::thread sender(
			[&] { ASSERT_EQ(fi_tinject(pair.a(), &i, 8, pair.p.b_at_a, 7), 0); });
		ASSERT_EQ(fi_cq_sread(pair.p.b.rx_cq.get(), &entry, 1, nullptr, patience), 1);
		sender.join();
		ASSERT_EQ(in, i);
	}
}

} // namespace
