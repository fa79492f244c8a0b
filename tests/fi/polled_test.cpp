// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_treadle(7): FI_TREADLE_POLL and poll_ep: transmits without a system call. */
#include "node.h"
#include "xpu.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <set>
#include <string>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_rma.h>
#include <treadle/fi_treadle.h>

namespace
{

constexpr int idle = 1'000'000;

fi_treadle_ops_domain *ops_of(const Node &node)
{
	void *ops = nullptr;

	EXPECT_EQ(fi_open_ops(&node.domain->fid, FI_TREADLE_DOMAIN_OPS_1, 0, &ops, nullptr), 0);
	return static_cast<fi_treadle_ops_domain *>(ops);
}

/* From here on a system call ends the process, but for its end. */
void forbid_calls()
{
	sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const sock_fprog prog{std::size(filter), filter};

	ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

/* Runs a function in a child; its exit status, or minus its signal. */
template <class F> int in_child(F run)
{
	const pid_t child = fork();
	int status = 0;

	if (child == 0) {
		run();
		_exit(testing::Test::HasFailure());
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

ssize_t wait_for(fid_cq *cq)
{
	fi_cq_tagged_entry entry;
	ssize_t n;

	while ((n = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		;
	return n;
}

/* Exits with 0 if messages of all kinds go through, without a system call. */
void talk(Pair &p)
{
	char out[8] = "polled", in[100][8] = {};
	int bad = 0;

	for (auto &buffer : in)
		ASSERT_EQ(fi_trecv(p.b.ep.get(), buffer, 8, nullptr, FI_ADDR_UNSPEC, 0, ~0ull,
				   nullptr),
			  0);
	for (int i = 0; i < 20; ++i) { /* the thread begins */
		ASSERT_EQ(fi_tsend(p.a.ep.get(), out, 8, nullptr, p.b_at_a, 1, nullptr), 0);
		wait_for(p.a.tx_cq.get());
		wait_for(p.b.rx_cq.get());
		usleep(10000);
	}
	forbid_calls();
	for (int i = 20; i < 100; i += 2) {
		bad += fi_tsend(p.a.ep.get(), out, 8, nullptr, p.b_at_a, 1, nullptr) != 0;
		bad += wait_for(p.a.tx_cq.get()) != 1;
		bad += wait_for(p.b.rx_cq.get()) != 1;
		char inject[8] = "inject";
		bad += fi_tinject(p.a.ep.get(), inject, 8, p.b_at_a, 1) != 0;
		inject[0] = 'x';
		bad += wait_for(p.b.rx_cq.get()) != 1;
		bad += in[i + 1][0] != 'i' || in[i][0] != 'p';
	}
	syscall(SYS_exit_group, bad);
}

TEST(Polled, AsksByAnOperation)
{
	EXPECT_EQ(in_child([] {
			  Node node(hints_for(FI_TAGGED));
			  Pair p(hints_for(FI_TAGGED));
			  Owned<fid_ep> late = p.node.ep();
			  fi_treadle_ops_domain *const ops = ops_of(p.node);

			  EXPECT_EQ(ops->poll_ep(p.a.ep.get(), 5), -FI_EOPBADSTATE);
			  EXPECT_EQ(ops->poll_ep(nullptr, 5), -FI_EINVAL);
			  EXPECT_EQ(ops->poll_ep(late.get(), TREADLE_MAX_IDLE + 1), -FI_EINVAL);
			  EXPECT_EQ(ops->poll_ep(late.get(), idle), 0);
			  ASSERT_EQ(fi_ep_bind(late.get(), &p.a.av->fid, 0), 0);
			  ASSERT_EQ(fi_ep_bind(late.get(), &p.a.tx_cq->fid, FI_TRANSMIT), 0);
			  ASSERT_EQ(fi_ep_bind(late.get(), &p.a.rx_cq->fid, FI_RECV), 0);
			  ASSERT_EQ(fi_enable(late.get()), 0);
			  p.a.ep.swap(late);
			  talk(p);
		  }),
		  0);
}

TEST(Polled, AsksByAVariable)
{
	EXPECT_EQ(in_child([] {
			  /* libfabric reads its variables when a provider asks, at fi_endpoint */
			  setenv("FI_TREADLE_POLL", "1000000", 1);
			  Pair p(hints_for(FI_TAGGED));
			  talk(p);
		  }),
		  0);
}

TEST(Polled, WithoutTheVariableADoorbellIsRung)
{
	EXPECT_EQ(in_child([] {
			  Pair p(hints_for(FI_TAGGED));
			  talk(p);
		  }),
		  -SIGSYS);
}

/* Bytes of a message that was injected just before, and then overwritten, arrive as they were. */
TEST(Polled, InjectedBytesAreKept)
{
	setenv("FI_TREADLE_POLL", "1000", 1);
	Pair p(hints_for(FI_MSG));
	unsetenv("FI_TREADLE_POLL");
	std::vector<std::uint8_t> in(4096), out(4096);

	for (std::size_t size : {1, 8, 64, 65, 500, 4096}) {
		for (unsigned int i = 0; i < 50; ++i) {
			const auto sent = pattern(size, i);
			std::copy(sent.begin(), sent.end(), out.begin());
			ASSERT_EQ(fi_inject(p.a.ep.get(), out.data(), size, p.b_at_a), 0);
			std::fill(out.begin(), out.end(), 0);
			std::fill(in.begin(), in.end(), 0);
			ASSERT_EQ(fi_recv(p.b.ep.get(), in.data(), size, nullptr, FI_ADDR_UNSPEC,
					  nullptr),
				  0);
			next(p.b.rx_cq.get());
			ASSERT_TRUE(std::equal(sent.begin(), sent.end(), in.begin())) << size;
		}
	}
}

/* fi_close of an endpoint does not lose what was injected before. */
TEST(Polled, ClosingTakesWhatWasPosted)
{
	setenv("FI_TREADLE_POLL", "1000", 1);
	Pair p(hints_for(FI_MSG));
	unsetenv("FI_TREADLE_POLL");
	int in = 0, out = 7;

	ASSERT_EQ(fi_inject(p.a.ep.get(), &out, sizeof(out), p.b_at_a), 0);
	p.a.ep.reset();
	ASSERT_EQ(fi_recv(p.b.ep.get(), &in, sizeof(in), nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	next(p.b.rx_cq.get());
	EXPECT_EQ(in, 7);
}

std::int64_t now()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

/* Prints the shortest time of a post: its instructions, where a nanosecond is one (testing.rst). */
TEST(Polled, TimeOfAPost)
{
	setenv("FI_TREADLE_POLL", "1000000", 1);
	Pair p(hints_for(FI_TAGGED));
	unsetenv("FI_TREADLE_POLL");
	std::int64_t best = idle, none = idle;
	char in[8], out[8] = "polled";

	for (int i = 0; i < 2000; ++i) {
		ASSERT_EQ(fi_trecv(p.b.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), 0);
		const std::int64_t begun = now();
		const std::int64_t middle = now();
		ASSERT_EQ(fi_tsend(p.a.ep.get(), out, 8, nullptr, p.b_at_a, 1, nullptr), 0);
		const std::int64_t end = now();
		none = std::min(none, middle - begun);
		best = std::min(best, end - middle);
		next(p.a.tx_cq.get());
		next(p.b.rx_cq.get());
	}
	std::printf("fi_tsend of 8 B: %lld ns\n", static_cast<long long>(best - none));
}

/* What a call would refuse without polling completes with the error. */
/* A triggered send through the ring, and a triggered peek, which is submitted. */
// conformance: fi_trigger(3): operations with the same threshold start in the order of submission
TEST(Polled, TriggeredOperationsKeepTheirOrder)
{
	constexpr std::size_t size = 1 << 20;
	std::vector<char> from(size), to(size);
	fi_triggered_context send{}, peek{};
	fid_mr *region = nullptr;
	char out = 1;
	const iovec iov{&out, 1};

	setenv("FI_TREADLE_POLL", std::to_string(idle).c_str(), 1);
	Pair p(hints_for(FI_TAGGED | FI_RMA | FI_TRIGGER));
	unsetenv("FI_TREADLE_POLL");
	const auto cntr = p.node.cntr();
	const fi_addr_t self = p.a.insert(p.a.ep.get());

	ASSERT_EQ(fi_mr_reg(p.node.domain.get(), to.data(), size, FI_REMOTE_WRITE, 0, 5, 0, &region,
			    nullptr),
		  0);
	const Owned<fid_mr> mr(region);
	send.event_type = peek.event_type = FI_TRIGGER_THRESHOLD;
	for (std::uint64_t i = 1; i <= 5; ++i) {
		send.trigger.threshold = peek.trigger.threshold = {cntr.get(), i};
		for (int n = 0; n < 16; ++n) /* the thread of both has to do */
			ASSERT_EQ(fi_write(p.b.ep.get(), from.data(), size, nullptr, p.a_at_b, 0, 5,
					   nullptr),
				  0);
		const fi_msg_tagged sent{&iov, nullptr, 1, self, i, 0, &send, 0};
		ASSERT_EQ(fi_tsendmsg(p.a.ep.get(), &sent, FI_TRIGGER), 0);
		const fi_msg_tagged seen{nullptr, nullptr, 0, self, i, 0, &peek, 0};
		ASSERT_EQ(fi_trecvmsg(p.a.ep.get(), &seen, FI_TRIGGER | FI_PEEK), 0);
		ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
		ASSERT_EQ(next(p.a.rx_cq.get()).op_context, &peek) << i;
		next(p.a.tx_cq.get());
		for (int n = 0; n < 16; ++n)
			next(p.b.tx_cq.get());
	}
}

struct Polls {
	Polls() { setenv("FI_TREADLE_POLL", "1000", 1); }
	~Polls() { unsetenv("FI_TREADLE_POLL"); }
};
class PolledXpu : Polls, public XpuTriggered
{
};

/* Else the variable of each would stay behind. */
TEST_F(PolledXpu, ErrorsAreReturnedAtOnce)
{
	const int value = 7;
	const iovec iov{const_cast<int *>(&value), sizeof(value)};
	const fi_msg bad{&iov, nullptr, 1, 4711, nullptr, 0};
	std::set<void *> places;
	Xpu xpu;

	for (int i = 0; i < 2000; ++i) {
		fi_msg msg = bad;
		msg.context = &xpu;
		xpu.offer();
		ASSERT_EQ(fi_sendmsg(ep(), &msg, FI_TRIGGER), -FI_EADDRNOTAVAIL);
		xpu.offer();
		ASSERT_EQ(send(value, xpu), 0);
		places.insert(xpu.var.addr);
		ASSERT_EQ(fi_cancel(&ep()->fid, &xpu), 0);
		next_error(cq());
	}
	EXPECT_LE(places.size(), 1024u);
	xpu.offer();
	ASSERT_EQ(send(value, xpu), 0);
	xpu.write();
	EXPECT_EQ(received(1), std::vector{7});
}

TEST(Polled, ErrorsAreCompletions)
{
	setenv("FI_TREADLE_POLL", "1000", 1);
	Pair p(hints_for(FI_MSG));
	unsetenv("FI_TREADLE_POLL");

	ASSERT_EQ(fi_send(p.a.ep.get(), nullptr, std::size_t{1} << 40, nullptr, p.b_at_a, ctx(3)),
		  0);
	const fi_cq_err_entry error = next_error(p.a.tx_cq.get());
	EXPECT_EQ(error.op_context, ctx(3));
	EXPECT_EQ(error.err, FI_EMSGSIZE);
}

} // namespace
