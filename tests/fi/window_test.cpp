// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RMA through windows: Documentation/windows.rst. Counters and atomics: window_count_test. */
#include "calls.h"
#include "child.h"
#include "window.h"

#include <chrono>
#include <thread>

#include <rdma/fi_atomic.h>

namespace
{

/* --- what moves --------------------------------------------------------------------------- */

TEST_F(Window, WritesAndReadsOfAllSizes)
{
	w.warm();
	for (const std::size_t len : {1, 2, 3, 4, 5, 8, 9, 64, 4096, 5000, 65536, 65537}) {
		const auto out = pattern(len, static_cast<unsigned>(len));
		std::vector<std::uint8_t> in(len + 2);

		SCOPED_TRACE(len);
		w.write_and_wait(out.data(), len, 3, ctx(len));
		EXPECT_EQ(std::memcmp(there.bytes() + 3, out.data(), len), 0);
		w.read_and_wait(in.data() + 1, len, 3, ctx(len + 1));
		EXPECT_EQ(std::memcmp(in.data() + 1, out.data(), len), 0);
		EXPECT_EQ(in[0], 0);
		EXPECT_EQ(in[len + 1], 0);
	}
	EXPECT_GE(w.direct(), 20u);
	EXPECT_GE(w.kernel(FI_TREADLE_OUTSIDE), 2u); /* the last size */
}

TEST_F(Window, CallsWithStructuresAndVectors)
{
	std::uint64_t value = 5;
	const iovec iov{&value, 8};
	const fi_rma_iov target{16, 8, 7};
	const fi_msg_rma msg{&iov, nullptr, 1, p.b_at_a, &target, 1, ctx(1), 0};

	w.warm();
	const auto before = w.direct();
	ASSERT_EQ(fi_writemsg(ep(), &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
	EXPECT_EQ(there.word(2), 5u);
	EXPECT_EQ(next(cq()).op_context, ctx(1));
	ASSERT_EQ(fi_writev(ep(), &iov, nullptr, 1, p.b_at_a, 24, 7, ctx(2)), 0);
	EXPECT_EQ(there.word(3), 5u);
	EXPECT_EQ(next(cq()).op_context, ctx(2));
	there.word(2) = 6;
	ASSERT_EQ(fi_readmsg(ep(), &msg, FI_FENCE), 0);
	EXPECT_EQ(value, 6u);
	EXPECT_EQ(next(cq()).op_context, ctx(1));
	there.word(3) = 7;
	ASSERT_EQ(fi_readv(ep(), &iov, nullptr, 1, p.b_at_a, 24, 7, ctx(3)), 0);
	EXPECT_EQ(value, 7u);
	EXPECT_EQ(next(cq()).op_context, ctx(3));
	EXPECT_EQ(w.direct(), before + 4);
	EXPECT_EQ(fi_inject_write(ep(), there.bytes(), 4097, p.b_at_a, 0, 7), -FI_EMSGSIZE);
}

TEST_F(Window, WhatIsMoreThanATransferGoesThroughTheKernel)
{
	std::uint64_t value = 5;

	w.warm();
	ASSERT_EQ(fi_writedata(ep(), &value, 8, nullptr, 99, p.b_at_a, 0, 7, ctx(1)), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).data, 99u);
	EXPECT_EQ(next(cq()).op_context, ctx(1));
	EXPECT_EQ(w.kernel(FI_TREADLE_ASKS_MORE), 1u);
}

TEST(WindowProcesses, WriteAndReadEachOthersMemory)
{
	const auto owner = [](int line) {
		Memory memory;
		Node node(hints_for(caps));
		Side side(node);
		const auto mr = reg(node, memory);
		put(line, address_of(side.ep.get()));
		for (std::uint64_t i = 1; i <= 3; ++i) {
			get(line); /* written */
			EXPECT_EQ(memory.seen(5), i);
			memory.word(6) = 10 * i;
			put(line, {});
		}
		get(line); /* read */
		return 0;
	};
	Child child(owner);
	Node node(hints_for(caps));
	Side side(node);
	Writer w(node, side, side.insert(get(child.line())));
	std::uint64_t value = 0;

	w.warm();
	const auto before = w.direct();
	for (std::uint64_t i = 1; i <= 3; ++i) {
		w.write(i, 40);
		put(child.line(), {});
		get(child.line());
		w.read_and_wait(&value, 8, 48, ctx(i));
		EXPECT_EQ(value, 10 * i);
	}
	EXPECT_EQ(w.direct(), before + 6);
	put(child.line(), {});
	EXPECT_EQ(child.wait(), 0);
	/* Its window has ended. */
	ASSERT_EQ(fi_write(side.ep.get(), &value, 8, nullptr, w.to, 0, 7, ctx(1)), 0);
	EXPECT_EQ(next_error(side.tx_cq.get()).err, FI_ECONNREFUSED);
}

/* --- system calls ------------------------------------------------------------------------- */

TEST(WindowCalls, AreNone)
{
	const auto counts = count_calls([] {
		Memory there;
		Pair p(hints_for(caps));
		const auto mr = reg(p.node, there, 7, both, true);
		Writer w(p.node, p.a, p.b_at_a);
		fid_ep *ep = p.a.ep.get();
		fid_cq *cq = p.a.tx_cq.get();
		std::uint64_t value = 1, before = 0;
		fi_cq_tagged_entry entry;

		w.warm();
		start();
		for (int i = 0; i < 100; ++i)
			ASSERT_EQ(fi_inject_write(ep, &value, 8, p.b_at_a, 0, 7), 0);
		mark(); /* 0: writes that are not reported */
		for (int i = 0; i < 100; ++i) {
			ASSERT_EQ(fi_write(ep, &value, 8, nullptr, p.b_at_a, 0, 7, nullptr), 0);
			ASSERT_EQ(fi_cq_read(cq, &entry, 1), 1);
		}
		mark(); /* 1: writes */
		for (int i = 0; i < 100; ++i) {
			ASSERT_EQ(fi_read(ep, &value, 8, nullptr, p.b_at_a, 0, 7, nullptr), 0);
			ASSERT_EQ(fi_cq_read(cq, &entry, 1), 1);
		}
		mark(); /* 2: reads */
		for (int i = 0; i < 100; ++i) {
			ASSERT_EQ(fi_fetch_atomic(ep, &value, 1, nullptr, &before, nullptr,
						  p.b_at_a, 0, 7, FI_UINT64, FI_SUM, nullptr),
				  0);
			ASSERT_EQ(fi_cq_read(cq, &entry, 1), 1);
		}
		mark(); /* 3: fetch-adds */
		stop();
	});

	EXPECT_EQ(counts, std::vector({0, 0, 0, 0}));
}

TEST(WindowCalls, AreNoneForCountersEither)
{
	const auto counts = count_calls([] {
		CountedEndpoint e;
		fid_cntr *const writes = e.writes.get();

		e.write(100);
		start();
		for (std::uint64_t i = 1; i <= 100; ++i) {
			e.write(1);
			ASSERT_EQ(fi_cntr_read(writes), 100 + i);
			ASSERT_EQ(fi_cntr_wait(writes, 100 + i, patience), 0);
		}
		mark();
		stop();
	});

	EXPECT_EQ(counts, std::vector({0}));
}

/* --- pages and regions that go ------------------------------------------------------------ */

TEST_F(Window, WritesReachTheMemoryThatIsMappedThen)
{
	std::uint64_t value = 0;

	for (std::uint64_t i = 1; i <= 5; ++i) {
		w.warm();
		there.replace();
		EXPECT_EQ(there.word(), 0u);
		w.write(i);
		EXPECT_EQ(there.word(), i);
		w.write(i + 1, 8);
		EXPECT_EQ(there.word(1), i + 1);
		w.read_and_wait(&value, 8, 0, ctx(i));
		EXPECT_EQ(value, i);
	}
}

TEST_F(Window, ARegionThatWasClosedIsNotReached)
{
	std::uint64_t value = 9;

	w.warm();
	mr.reset();
	EXPECT_EQ(there.word(), 1u);
	ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(1)), 0);
	EXPECT_EQ(next_error(cq()).err, FI_EKEYREJECTED);
	EXPECT_EQ(there.word(), 1u);
	EXPECT_EQ(w.kernel(FI_TREADLE_ENDED), 1u);
}

TEST_F(Window, AKeyThatIsUsedAgainIsThatOfTheNewMemory)
{
	Memory other;

	w.warm();
	mr.reset();
	const auto again = reg(p.node, other);
	for (std::uint64_t i = 2; i < 50; ++i) {
		w.write(i);
		ASSERT_EQ(other.word(), i);
	}
	EXPECT_EQ(there.word(), 1u);
	EXPECT_GE(w.direct(), 10u);
}

TEST_F(Window, AnIndexThatIsUsedAgainIsThatOfTheNewPeer)
{
	Memory other;
	Node node(hints_for(caps));
	Side third(node);
	const auto mr = reg(node, other);
	fi_addr_t index = p.b_at_a;

	w.warm();
	ASSERT_EQ(fi_av_remove(p.a.av.get(), &index, 1, 0), 0);
	ASSERT_EQ(p.a.insert(third.ep.get()), p.b_at_a);
	w.write(5);
	EXPECT_EQ(other.word(), 5u);
	EXPECT_EQ(there.word(), 1u);
}

TEST_F(Window, RightsAreThoseOfTheRegion)
{
	Memory other;
	const auto readable = reg(p.node, other, 8, FI_REMOTE_READ);
	Writer reader(p.node, p.a, p.b_at_a, 8);
	std::uint64_t value = 3;

	other.word() = 4;
	for (int i = 0; i < 20; ++i) {
		value = 0;
		reader.read_and_wait(&value, 8, 0, ctx(1));
		EXPECT_EQ(value, 4u);
	}
	EXPECT_GT(reader.direct(), 0u);
	for (int i = 0; i < 20; ++i) {
		ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 8, ctx(1)), 0);
		EXPECT_EQ(next_error(cq()).err, FI_EACCES);
	}
	EXPECT_EQ(other.word(), 4u);
}

TEST_F(Window, BytesBehindTheRegionAreNotReached)
{
	std::uint64_t value = 3;

	w.warm();
	for (const std::uint64_t at : {size - 7, size, size + 8, ~std::uint64_t{0} - 3}) {
		ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, at, 7, ctx(1)), 0);
		EXPECT_NE(next_error(cq()).err, 0);
	}
	w.write(6, size - 8);
	EXPECT_EQ(there.word(size / 8 - 1), 6u);
}

/* --- order and completions ---------------------------------------------------------------- */

TEST_F(Window, NothingOvertakesAMessageThatWaits)
{
	const auto out = pattern(100'000);
	std::vector<std::uint8_t> in(out.size());
	std::uint64_t value = 5;

	w.warm();
	const auto before = w.direct();
	/* The peer has no buffer for it. */
	ASSERT_EQ(fi_send(ep(), out.data(), out.size(), nullptr, p.b_at_a, ctx(1)), 0);
	ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(2)), 0);
	EXPECT_EQ(w.direct(), before);
	EXPECT_EQ(w.kernel(FI_TREADLE_BUSY), 1u);
	ASSERT_EQ(fi_recv(p.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, ctx(3)), 0);
	next(p.b.rx_cq.get());
	for (int i = 0; i < 2; ++i)
		next(cq());
	EXPECT_EQ(there.word(), 5u);
	w.write(6);
	EXPECT_EQ(w.direct(), before + 1);
}

TEST(WindowProcesses, AMessageComesAfterWhatWasWrittenBefore)
{
	constexpr std::uint64_t rounds = 500;
	const auto owner = [](int line) {
		Memory memory;
		Node node(hints_for(caps));
		Side side(node);
		const auto mr = reg(node, memory);
		put(line, address_of(side.ep.get()));
		const fi_addr_t peer = side.insert(get(line));
		for (std::uint64_t i = 1; i <= rounds; ++i) {
			std::uint64_t in = 0;
			EXPECT_EQ(fi_recv(side.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr),
				  0);
			if (i == 1)
				put(line, {});
			next(side.rx_cq.get());
			EXPECT_EQ(memory.seen(), in);
			EXPECT_EQ(fi_inject(side.ep.get(), &in, 8, peer), 0);
		}
		return 0;
	};
	Child child(owner);
	Node node(hints_for(caps));
	Side side(node);
	Writer w(node, side, side.insert(get(child.line())));

	put(child.line(), address_of(side.ep.get()));
	get(child.line());
	for (std::uint64_t i = 1; i <= rounds; ++i) {
		std::uint64_t in = 0;
		ASSERT_EQ(fi_recv(side.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		w.write(i);
		ASSERT_EQ(fi_inject(side.ep.get(), &i, 8, w.to), 0);
		next(side.rx_cq.get());
		ASSERT_EQ(in, i);
	}
	EXPECT_GT(w.direct(), rounds / 2);
	EXPECT_EQ(child.wait(), 0);
}

/* Some through the window, others not. */
TEST_F(Window, CompletionsComeInTheOrderOfTheirOperations)
{
	std::uint64_t value = 5;
	fi_cq_tagged_entry entries[7];
	std::uintptr_t read = 0;

	w.warm();
	for (std::uintptr_t i = 0; i < 100; ++i) {
		if (i % 3)
			ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(i)), 0);
		else
			ASSERT_EQ(fi_writedata(ep(), &value, 8, nullptr, i, p.b_at_a, 0, 7, ctx(i)),
				  0);
	}
	while (read < 100) {
		const ssize_t n = fi_cq_read(cq(), entries, 7);
		ASSERT_GT(n, 0);
		for (ssize_t i = 0; i < n; ++i)
			ASSERT_EQ(entries[i].op_context, ctx(read++));
	}
	EXPECT_EQ(fi_cq_read(cq(), entries, 1), -FI_EAGAIN);
	EXPECT_EQ(w.kernel(FI_TREADLE_ASKS_MORE), 34u);
}

/* Then the kernel completes. */
TEST_F(Window, WithoutRoomForCompletionsNoneIsLost)
{
	const ssize_t all = 3000;
	std::uint64_t value = 5;
	fi_cq_tagged_entry entries[64];
	ssize_t posted = 0, read = 0;

	w.warm();
	while (read < all) {
		if (posted < all &&
		    fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(1)) == 0) {
			++posted;
			continue;
		}
		const ssize_t n = fi_cq_read(cq(), entries, 64);
		ASSERT_GT(n, 0);
		read += n;
	}
	EXPECT_GT(w.direct(), 500u);
	EXPECT_GT(w.kernel(FI_TREADLE_WAITED), 0u);
	EXPECT_TRUE(is_silent(cq()));
}

TEST_F(Window, WakesAThreadThatWaitsForCompletions)
{
	std::uint64_t value = 5;

	w.warm();
	for (std::uintptr_t i = 0; i < 200; ++i) {
		std::thread waiter([&] {
			fi_cq_tagged_entry entry;
			ASSERT_EQ(fi_cq_sread(cq(), &entry, 1, nullptr, patience), 1);
			EXPECT_EQ(entry.op_context, ctx(i));
		});
		if (i % 2)
			std::this_thread::sleep_for(std::chrono::microseconds(i * 5));
		EXPECT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(i)), 0);
		waiter.join();
		ASSERT_FALSE(HasFailure()) << i;
	}
}

struct Polled : Window {
	Polled() : Window({.wait = FI_WAIT_FD}) {}
};

TEST_F(Polled, AQueueWithAFileGetsCompletionsOfTheKernel)
{
	std::uint64_t value = 5;
	fid *fids[] = {&cq()->fid};

	w.warm();
	ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(1)), 0);
	EXPECT_EQ(fi_trywait(p.node.fabric.get(), fids, 1), -FI_EAGAIN);
	next(cq());
	pollfd file{-1, POLLIN, 0};
	ASSERT_EQ(fi_control(&cq()->fid, FI_GETWAIT, &file.fd), 0);
	ASSERT_EQ(fi_trywait(p.node.fabric.get(), fids, 1), 0);
	ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(2)), 0);
	EXPECT_EQ(poll(&file, 1, 0), 1);
	EXPECT_EQ(next(cq()).op_context, ctx(2));
}

} // namespace
