// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_cq(3): formats, errors, selective completion, and the ways to wait. */
// conformance: fi_poll(3): fi_trywait of queues, counters and wait sets; each change of a ...
// conformance: fi_cq(3): olen: the truncated length
// conformance: fi_arch(7): completion queues

#include "node.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

/* One tagged message with data, and its entry in the queue's format. */
template <class Entry> class Format : public testing::Test
{
};

template <class Entry> constexpr fi_cq_format format_of();
template <> constexpr fi_cq_format format_of<fi_cq_entry>()
{
	return FI_CQ_FORMAT_CONTEXT;
}
template <> constexpr fi_cq_format format_of<fi_cq_msg_entry>()
{
	return FI_CQ_FORMAT_MSG;
}
template <> constexpr fi_cq_format format_of<fi_cq_data_entry>()
{
	return FI_CQ_FORMAT_DATA;
}
template <> constexpr fi_cq_format format_of<fi_cq_tagged_entry>()
{
	return FI_CQ_FORMAT_TAGGED;
}

using Entries = testing::Types<fi_cq_entry, fi_cq_msg_entry, fi_cq_data_entry, fi_cq_tagged_entry>;
TYPED_TEST_SUITE(Format, Entries);

TYPED_TEST(Format, ShowsItsFields)
{
	Side::Options options;
	options.format = format_of<TypeParam>();
	Pair p(hints_for(FI_TAGGED), options);
	char in[16];
	TypeParam entries[3];
	std::memset(entries, 0xee, sizeof(entries));

	for (int i = 0; i < 2; ++i)
		ASSERT_EQ(fi_trecv(p.b.ep.get(), in, 16, nullptr, FI_ADDR_UNSPEC, 7, 0, ctx(i + 1)),
			  0);
	for (int i = 0; i < 2; ++i)
		ASSERT_EQ(fi_tinjectdata(p.a.ep.get(), "hello", 5, 42, p.b_at_a, 7), 0);
	/* Both at once, and not a byte beyond them. */
	ssize_t n = 0;
	for (int tries = 0; n < 2 && tries < 1000; ++tries) {
		const ssize_t rc = fi_cq_sread(p.b.rx_cq.get(), entries + n, 3 - n, nullptr, 1000);
		ASSERT_GT(rc, 0);
		n += rc;
	}
	ASSERT_EQ(n, 2);
	for (int i = 0; i < 2; ++i) {
		EXPECT_EQ(entries[i].op_context, ctx(i + 1));
		if constexpr (requires { entries[i].flags; }) {
			EXPECT_EQ(entries[i].flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
			EXPECT_EQ(entries[i].len, 5u);
		}
		if constexpr (requires { entries[i].data; }) {
			EXPECT_EQ(entries[i].data, 42u);
		}
		if constexpr (requires { entries[i].tag; }) {
			EXPECT_EQ(entries[i].tag, 7u);
		}
	}
	for (const auto byte : std::as_bytes(std::span(&entries[2], 1)))
		EXPECT_EQ(byte, std::byte{0xee});
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), entries, 3), -FI_EAGAIN);
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), entries, 0), -FI_EAGAIN);
}

TEST(Cq, UnspecifiedFormatShowsTheContext)
{
	Side::Options options;
	options.format = FI_CQ_FORMAT_UNSPEC;
	Pair p(hints_for(FI_MSG), options);
	fi_cq_entry entry[2]{};

	ASSERT_EQ(fi_recv(p.b.ep.get(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, ctx(5)), 0);
	ASSERT_EQ(fi_inject(p.a.ep.get(), nullptr, 0, p.b_at_a), 0);
	ASSERT_EQ(fi_cq_sread(p.b.rx_cq.get(), entry, 1, nullptr, patience), 1);
	EXPECT_EQ(entry[0].op_context, ctx(5));
	EXPECT_EQ(entry[1].op_context, nullptr);
}

/* --- errors -------------------------------------------------------------------------- */

TEST(Cq, ErrorsComeInTheirPlaceAndOnlyThroughReaderr)
{
	Pair p(hints_for(FI_MSG));
	char in[3];
	fi_cq_tagged_entry entries[4];
	fi_cq_err_entry error{};

	for (int i = 0; i < 3; ++i)
		ASSERT_EQ(fi_recv(p.b.ep.get(), &in[i], 1, nullptr, FI_ADDR_UNSPEC, ctx(i + 1)), 0);
	EXPECT_EQ(fi_cq_readerr(p.b.rx_cq.get(), &error, 0), -FI_EAGAIN);
	ASSERT_EQ(fi_inject(p.a.ep.get(), "a", 1, p.b_at_a), 0);
	ASSERT_EQ(fi_inject(p.a.ep.get(), "too long", 8, p.b_at_a), 0);
	ASSERT_EQ(fi_inject(p.a.ep.get(), "c", 1, p.b_at_a), 0);
	std::this_thread::sleep_for(50ms);

	EXPECT_EQ(fi_cq_readerr(p.b.rx_cq.get(), &error, 0), -FI_EAGAIN) << "a success is first";
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), nullptr, 0), 0);
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), entries, 4), 1);
	EXPECT_EQ(entries[0].op_context, ctx(1));
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), entries, 4), -FI_EAVAIL);
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), entries, 4), -FI_EAVAIL);
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), nullptr, 0), -FI_EAVAIL);
	char data[8] = "before";
	error.err_data = data;
	error.err_data_size = sizeof(data);
	EXPECT_EQ(fi_cq_readerr(p.b.rx_cq.get(), &error, 0), 1);
	EXPECT_EQ(error.op_context, ctx(2));
	EXPECT_EQ(error.err, FI_ETRUNC);
	EXPECT_EQ(error.olen, 7u);
	EXPECT_EQ(error.flags & (FI_RECV | FI_MSG), FI_RECV | FI_MSG);
	EXPECT_EQ(error.err_data_size, 0u);
	EXPECT_STREQ(data, "before");
	char text[64] = "";
	EXPECT_STREQ(fi_cq_strerror(p.b.rx_cq.get(), error.prov_errno, nullptr, text, sizeof(text)),
		     text);
	EXPECT_STRNE(text, "");
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), entries, 4), 1);
	EXPECT_EQ(entries[0].op_context, ctx(3));
}

/* Before 1.5 the entry had no field for the size of the data. */
TEST(Cq, AnOldProgramsErrorEntryIsNotOverrun)
{
	Node node(hints_for(FI_MSG), FI_VERSION(1, 4));
	Side side(node);
	const fi_addr_t self = side.insert(side.ep.get());
	struct {
		fi_cq_err_entry entry;
	} error{};
	char c;

	error.entry.err_data_size = 0x1234567;
	ASSERT_EQ(fi_recv(side.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_inject(side.ep.get(), "long", 4, self), 0);
	fi_cq_tagged_entry entry;
	ASSERT_EQ(fi_cq_sread(side.rx_cq.get(), &entry, 1, nullptr, patience), -FI_EAVAIL);
	ASSERT_EQ(fi_cq_readerr(side.rx_cq.get(), &error.entry, 0), 1);
	EXPECT_EQ(error.entry.err, FI_ETRUNC);
	EXPECT_EQ(error.entry.err_data, nullptr);
	EXPECT_EQ(error.entry.err_data_size, 0x1234567u);
}

/* --- selective completion ------------------------------------------------------------ */

TEST(Cq, SelectiveQueuesOnlyGetCompletionsThatWereAskedFor)
{
	Side::Options options;
	options.cq_flags = FI_SELECTIVE_COMPLETION;
	options.counters = true;
	Pair p(hints_for(FI_MSG), options);
	char c = 0;
	const iovec iov{&c, 1};
	const fi_msg loud{&iov, nullptr, 1, p.b_at_a, ctx(2), 0};
	const fi_msg loud_recv{&iov, nullptr, 1, FI_ADDR_UNSPEC, ctx(1), 0};

	ASSERT_EQ(fi_recv(p.b.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(9)), 0);
	ASSERT_EQ(fi_send(p.a.ep.get(), &c, 1, nullptr, p.b_at_a, ctx(9)), 0);
	EXPECT_TRUE(reaches(p.a.sent.get(), 1));
	EXPECT_TRUE(reaches(p.b.received.get(), 1));
	ASSERT_EQ(fi_recvmsg(p.b.ep.get(), &loud_recv, FI_COMPLETION), 0);
	ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &loud, FI_COMPLETION), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(2));
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	EXPECT_TRUE(reaches(p.a.sent.get(), 2));
	EXPECT_TRUE(reaches(p.b.received.get(), 2));

	/* Errors are reported all the same. */
	ASSERT_EQ(fi_recv(p.b.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(3)), 0);
	ASSERT_EQ(fi_inject(p.a.ep.get(), "long", 4, p.b_at_a), 0);
	EXPECT_EQ(next_error(p.b.rx_cq.get()).err, FI_ETRUNC);
	EXPECT_EQ(fi_cntr_readerr(p.b.received.get()), 1u);
}

TEST(Cq, DefaultFlagsChooseCompletionsToo)
{
	Side::Options options;
	options.cq_flags = FI_SELECTIVE_COMPLETION;
	Info hints = hints_for(FI_MSG);
	hints->tx_attr->op_flags = FI_COMPLETION;
	Pair p(std::move(hints), options);
	char c = 0;

	ASSERT_EQ(fi_recv(p.b.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_send(p.a.ep.get(), &c, 1, nullptr, p.b_at_a, ctx(2)), 0);
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(2));
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	/* fi_sendmsg has flags of its own. */
	const iovec iov{&c, 1};
	const fi_msg quiet{&iov, nullptr, 1, p.b_at_a, ctx(3), 0};
	ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &quiet, 0), 0);
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
}

/* More completions than the queue holds are kept, in order. */
// conformance: fi_domain(3): resource management: Rx CQ full: completions are kept, never lost
TEST(Cq, NothingIsLostWhenItOverflows)
{
	Side::Options options;
	options.cq_size = 16;
	Pair p(hints_for(FI_MSG), options);
	constexpr int n = 500;
	std::vector<int> in(n);

	for (int i = 0; i < n; ++i)
		ASSERT_EQ(fi_recv(p.b.ep.get(), &in[i], sizeof(int), nullptr, FI_ADDR_UNSPEC,
				  ctx(i + 1)),
			  0);
	for (int i = 0; i < n; ++i)
		ASSERT_EQ(fi_inject(p.a.ep.get(), &i, sizeof(i), p.b_at_a), 0);
	for (int i = 0; i < n; ++i)
		ASSERT_EQ(next(p.b.rx_cq.get()).op_context, ctx(i + 1));
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
}

/* --- waiting ------------------------------------------------------------------------- */

TEST(Cq, SreadWaitsItsTime)
{
	Pair p(hints_for(FI_MSG));
	fi_cq_tagged_entry entry;

	const auto start = clock_type::now();
	EXPECT_EQ(fi_cq_sread(p.b.rx_cq.get(), &entry, 1, nullptr, 100), -FI_EAGAIN);
	EXPECT_GE(clock_type::now() - start, 95ms);
	EXPECT_EQ(fi_cq_sread(p.b.rx_cq.get(), &entry, 1, nullptr, 0), -FI_EAGAIN);
}

TEST(Cq, SreadEndsWhenSomethingComes)
{
	Pair p(hints_for(FI_MSG));
	char c;

	ASSERT_EQ(fi_recv(p.b.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	std::thread sender([&] {
		std::this_thread::sleep_for(50ms);
		EXPECT_EQ(fi_inject(p.a.ep.get(), "x", 1, p.b_at_a), 0);
	});
	fi_cq_tagged_entry entry;
	EXPECT_EQ(fi_cq_sread(p.b.rx_cq.get(), &entry, 1, nullptr, -1), 1);
	sender.join();
}

// conformance: fi_cq(3): fi_cq_signal: unblocks any thread in fi_cq_sread
TEST(Cq, SignalEndsAWait)
{
	Pair p(hints_for(FI_MSG));
	std::atomic<bool> done = false;
	ssize_t rc = 0;

	std::thread waiter([&] {
		fi_cq_tagged_entry entry;
		rc = fi_cq_sread(p.b.rx_cq.get(), &entry, 1, nullptr, -1);
		done = true;
	});
	while (!done) {
		EXPECT_EQ(fi_cq_signal(p.b.rx_cq.get()), 0);
		std::this_thread::sleep_for(10ms);
	}
	waiter.join();
	EXPECT_EQ(rc, -FI_EAGAIN);
}

TEST(Cq, WithoutAWaitObjectThereIsNoWait)
{
	Node node;
	const auto cq = node.cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE);
	fi_cq_entry entry;
	Log log;

	EXPECT_EQ(fi_cq_sread(cq.get(), &entry, 1, nullptr, 1), -FI_EINVAL);
	EXPECT_TRUE(log.has("FI_WAIT_NONE"));
	EXPECT_EQ(fi_cq_signal(cq.get()), -FI_EINVAL);
	int fd;
	EXPECT_EQ(fi_control(&cq->fid, FI_GETWAIT, &fd), -FI_ENODATA);
}

TEST(Cq, TheFileWorksWithEpoll)
{
	Side::Options options;
	options.wait = FI_WAIT_FD;
	Pair p(hints_for(FI_MSG), options);
	fid *objects[] = {&p.b.rx_cq->fid};
	int fd = -1;
	fi_wait_obj kind;
	epoll_event event{};
	fi_cq_tagged_entry entry;
	char c;

	ASSERT_EQ(fi_control(&p.b.rx_cq->fid, FI_GETWAIT, &fd), 0);
	ASSERT_EQ(fi_control(&p.b.rx_cq->fid, FI_GETWAITOBJ, &kind), 0);
	EXPECT_EQ(kind, FI_WAIT_FD);
	const int set = epoll_create1(EPOLL_CLOEXEC);
	event.events = EPOLLIN;
	ASSERT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);

	for (int round = 0; round < 20; ++round) {
		ASSERT_EQ(fi_recv(p.b.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
		EXPECT_EQ(fi_trywait(p.node.fabric.get(), objects, 1), 0);
		EXPECT_EQ(epoll_wait(set, &event, 1, 0), 0);
		std::thread sender([&] {
			std::this_thread::sleep_for(std::chrono::milliseconds(round % 3));
			EXPECT_EQ(fi_inject(p.a.ep.get(), "x", 1, p.b_at_a), 0);
		});
		EXPECT_EQ(epoll_wait(set, &event, 1, patience), 1);
		EXPECT_EQ(fi_trywait(p.node.fabric.get(), objects, 1), -FI_EAGAIN);
		EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), &entry, 1), 1);
		sender.join();
	}
	close(set);
}

TEST(Cq, ASignalIsReportedByTheFileOnce)
{
	Side::Options options;
	options.wait = FI_WAIT_FD;
	Pair p(hints_for(FI_MSG), options);
	fid *objects[] = {&p.b.rx_cq->fid};
	fi_cq_tagged_entry entry;
	int fd = -1;

	ASSERT_EQ(fi_control(&p.b.rx_cq->fid, FI_GETWAIT, &fd), 0);
	pollfd file{fd, POLLIN, 0};
	EXPECT_EQ(fi_trywait(p.node.fabric.get(), objects, 1), 0);
	ASSERT_EQ(fi_cq_signal(p.b.rx_cq.get()), 0);
	EXPECT_EQ(poll(&file, 1, patience), 1);
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), &entry, 1), -FI_EAGAIN);
	EXPECT_EQ(fi_trywait(p.node.fabric.get(), objects, 1), -FI_EAGAIN);
	EXPECT_EQ(fi_trywait(p.node.fabric.get(), objects, 1), 0);
	EXPECT_EQ(poll(&file, 1, 0), 0);
	/* A signal without a waiter ends the next wait. */
	ASSERT_EQ(fi_cq_signal(p.b.rx_cq.get()), 0);
	EXPECT_EQ(fi_cq_sread(p.b.rx_cq.get(), &entry, 1, nullptr, -1), -FI_EAGAIN);
}

/* --- opening ------------------------------------------------------------------------- */

TEST(Cq, OpeningRefusesUnknownAttributes)
{
	Node node;
	fid_cq *cq = nullptr;
	Log log;
	const auto open = [&](auto change) {
		fi_cq_attr attr{};
		change(attr);
		return fi_cq_open(node.domain.get(), &attr, &cq, nullptr);
	};

	EXPECT_EQ(open([](fi_cq_attr &attr) { attr.wait_obj = fi_wait_obj(99); }), -FI_ENOSYS);
	EXPECT_TRUE(log.has("wait_obj"));
	EXPECT_EQ(open([](fi_cq_attr &attr) { attr.format = fi_cq_format(9); }), -FI_EINVAL);
	EXPECT_EQ(open([](fi_cq_attr &attr) {
			  attr.wait_obj = FI_WAIT_FD;
			  attr.wait_cond = fi_cq_wait_cond(2);
		  }),
		  -FI_EINVAL);
	EXPECT_EQ(open([](fi_cq_attr &attr) { attr.flags = FI_PEEK; }), -FI_EBADFLAGS);
	EXPECT_EQ(open([](fi_cq_attr &attr) { attr.size = SIZE_MAX; }), -FI_EINVAL);
	ASSERT_EQ(open([](fi_cq_attr &attr) { attr.flags = FI_AFFINITY; }), 0);
	EXPECT_EQ(fi_close(&cq->fid), 0);
}

/*
 * Two threads read one queue of FI_THREAD_DOMAIN at a time. A fault on its buffer stops the first
 * one in the middle of its read; the handler acts as the second one.
 */
struct Reader {
	static constexpr std::size_t size = 4096;

	static void fault(int, siginfo_t *, void *)
	{
		mprotect(buffer, size, PROT_READ | PROT_WRITE);
		other_read = fi_cq_read(cq, &other, 1);
	}

	static inline void *buffer;
	static inline fid_cq *cq;
	static inline fi_cq_tagged_entry other;
	static inline ssize_t other_read;
};

// conformance: fi_domain(3): two threads must not read one queue at a time below FI_THREAD_SAFE: a
//   read that was overtaken takes nothing, and is logged once
TEST(Cq, TwoReadersAtATimeAreReportedAndTakeNothingTwice)
{
	Info hints = hints_for(FI_MSG);
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	Pair p(std::move(hints));
	int message = 1;
	struct sigaction action {
	}, before;
	Log log;

	for (std::uintptr_t i = 1; i <= 3; ++i)
		ASSERT_EQ(fi_send(p.a.ep.get(), &message, sizeof(message), nullptr, p.b_at_a,
				  ctx(i)),
			  0);
	Reader::cq = p.a.tx_cq.get();
	Reader::buffer = mmap(nullptr, Reader::size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(Reader::buffer, MAP_FAILED);
	action.sa_sigaction = Reader::fault;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &action, &before);
	const ssize_t read = fi_cq_read(Reader::cq, Reader::buffer, 2);
	sigaction(SIGSEGV, &before, nullptr);

	ASSERT_EQ(Reader::other_read, 1);
	EXPECT_EQ(Reader::other.op_context, ctx(1));
	EXPECT_EQ(read, -FI_EAGAIN);
	EXPECT_TRUE(log.has("two threads read one queue at a time")) << log.all();
	EXPECT_EQ(next(Reader::cq).op_context, ctx(2));
	EXPECT_EQ(next(Reader::cq).op_context, ctx(3));
	munmap(Reader::buffer, Reader::size);
}

} // namespace
