// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_atomic(3). tests/unit/arith_test.cpp checks what each operation computes. */
// conformance: fi_arch(7): RMA, atomics

#include "node.h"

#include <complex>
#include <thread>

#include <rdma/fi_atomic.h>

namespace
{

constexpr std::uint64_t caps = FI_MSG | FI_ATOMIC | FI_TRIGGER | FI_RMA_EVENT;
using Words = std::vector<std::uint64_t>;

class Atomic : public testing::Test
{
protected:
	explicit Atomic(const Side::Options &options = {})
		: p(hints_for(caps), options), there(1024)
	{
		fid_mr *m = nullptr;
		EXPECT_EQ(fi_mr_reg(p.node.domain.get(), there.data(), 8 * there.size(),
				    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &m, nullptr),
			  0);
		mr.reset(m);
	}

	fid_ep *ep() { return p.a.ep.get(); }
	fid_cq *cq() { return p.a.tx_cq.get(); }
	void expect_done(std::uint64_t flags, void *context)
	{
		const auto entry = next(cq());
		EXPECT_EQ(entry.flags, flags | FI_ATOMIC);
		EXPECT_EQ(entry.op_context, context);
	}

	static constexpr std::uint64_t key = 3;
	Pair p;
	Words there;
	Owned<fid_mr> mr;
};

/* --- base -------------------------------------------------------------------------------- */

// conformance: fi_atomic(3): fi_atomic, fi_atomicv, fi_atomicmsg, fi_inject_atomic
TEST_F(Atomic, BaseOperationsChangeTheTarget)
{
	Words one{1, 2, 3};

	there[1] = 10;
	ASSERT_EQ(fi_atomic(ep(), one.data(), 3, nullptr, p.b_at_a, 0, key, FI_UINT64, FI_SUM,
			    ctx(1)),
		  0);
	expect_done(FI_WRITE, ctx(1));
	EXPECT_EQ(Words(there.begin(), there.begin() + 4), (Words{1, 12, 3, 0}));
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
}

// conformance: fi_atomic(3): fi_atomic, fi_atomicv, fi_atomicmsg, fi_inject_atomic
// conformance: fi_atomic(3): FI_TAGGED: not yet, -FI_EBADFLAGS
TEST_F(Atomic, VectorsAndMessages)
{
	Words one{1, 2, 3, 4};
	const fi_ioc ioc[2] = {{one.data(), 1}, {one.data() + 1, 3}};
	const fi_rma_ioc target[2] = {{80, 3, key}, {800, 1, key}};
	fi_msg_atomic msg{};

	ASSERT_EQ(fi_atomicv(ep(), ioc, nullptr, 2, p.b_at_a, 0, key, FI_UINT64, FI_BOR, ctx(1)),
		  0);
	expect_done(FI_WRITE, ctx(1));
	EXPECT_EQ(Words(there.begin(), there.begin() + 5), (Words{1, 2, 3, 4, 0}));
	msg.msg_iov = ioc;
	msg.iov_count = 2;
	msg.addr = p.b_at_a;
	msg.rma_iov = target;
	msg.rma_iov_count = 2;
	msg.datatype = FI_UINT64;
	msg.op = FI_ATOMIC_WRITE;
	msg.context = ctx(2);
	ASSERT_EQ(fi_atomicmsg(ep(), &msg, FI_COMPLETION | FI_FENCE | FI_DELIVERY_COMPLETE), 0);
	expect_done(FI_WRITE, ctx(2));
	EXPECT_EQ(Words(there.begin() + 10, there.begin() + 14), (Words{1, 2, 3, 0}));
	EXPECT_EQ(there[100], 4u);

	Log log;
	msg.rma_iov_count = 1;
	EXPECT_EQ(fi_atomicmsg(ep(), &msg, 0), -FI_EINVAL);
	EXPECT_TRUE(log.has("vectors of different lengths")) << log.all();
	/* The provider offers neither tagged atomics nor data for the peer's queue. */
	msg.rma_iov_count = 2;
	EXPECT_EQ(fi_atomicmsg(ep(), &msg, FI_TAGGED), -FI_EBADFLAGS);
	EXPECT_EQ(fi_atomicmsg(ep(), &msg, FI_REMOTE_CQ_DATA), -FI_EBADFLAGS);
}

// conformance: fi_atomic(3): fi_atomic, fi_atomicv, fi_atomicmsg, fi_inject_atomic
TEST_F(Atomic, InjectReturnsTheBufferAtOnceAndReportsNothing)
{
	std::uint64_t operand;

	for (std::uint64_t i = 0; i < 10; ++i) {
		operand = i;
		ASSERT_EQ(fi_inject_atomic(ep(), &operand, 1, p.b_at_a, 0, key, FI_UINT64, FI_SUM),
			  0);
		operand = 1000;
	}
	ASSERT_EQ(fi_atomic(ep(), &operand, 1, nullptr, p.b_at_a, 0, key, FI_UINT64, FI_SUM,
			    ctx(1)),
		  0);
	expect_done(FI_WRITE, ctx(1));
	EXPECT_TRUE(is_silent(cq()));
	EXPECT_EQ(there[0], 1045u);
}

/* --- fetch --------------------------------------------------------------------------------- */

// conformance: fi_atomic(3): fetch: the initial value; FI_ATOMIC_READ ignores its operands, and
//   needs remote read access
// conformance: fi_atomic(3): results are there before the completion
TEST_F(Atomic, FetchReturnsTheInitialValue)
{
	Words one{5, 6}, got{99, 99};
	const fi_ioc operands[2] = {{one.data(), 1}, {one.data() + 1, 1}};
	fi_ioc results[2] = {{got.data() + 1, 1}, {got.data(), 1}};
	const fi_rma_ioc target{0, 2, key};
	fi_msg_atomic msg{};

	ASSERT_EQ(fi_fetch_atomic(ep(), one.data(), 2, nullptr, got.data(), nullptr, p.b_at_a, 0,
				  key, FI_UINT64, FI_SUM, ctx(1)),
		  0);
	expect_done(FI_READ, ctx(1));
	EXPECT_EQ(got, (Words{0, 0}));
	ASSERT_EQ(fi_fetch_atomicv(ep(), operands, nullptr, 2, results, nullptr, 2, p.b_at_a, 0,
				   key, FI_UINT64, FI_PROD, ctx(2)),
		  0);
	expect_done(FI_READ, ctx(2));
	EXPECT_EQ(got, (Words{6, 5}));
	EXPECT_EQ(there[0], 25u);
	EXPECT_EQ(there[1], 36u);
	msg.msg_iov = operands;
	msg.iov_count = 2;
	msg.addr = p.b_at_a;
	msg.rma_iov = &target;
	msg.rma_iov_count = 1;
	msg.datatype = FI_UINT64;
	msg.op = FI_MIN;
	msg.context = ctx(3);
	/* "Constant data buffers" are free at return. */
	ASSERT_EQ(fi_fetch_atomicmsg(ep(), &msg, results, nullptr, 2, FI_INJECT), 0);
	expect_done(FI_READ, ctx(3));
	EXPECT_EQ(got, (Words{36, 25}));
	EXPECT_EQ(there[0], 5u);
}

// conformance: fi_atomic(3): fetch: the initial value; FI_ATOMIC_READ ignores its operands, and ...
TEST_F(Atomic, ReadIgnoresItsOperands)
{
	Words got(4);
	fi_ioc results[2] = {{got.data(), 1}, {got.data() + 1, 3}};

	for (int i = 0; i < 4; ++i)
		there[i] = i + 1;
	ASSERT_EQ(fi_fetch_atomic(ep(), nullptr, 4, nullptr, got.data(), nullptr, p.b_at_a, 0, key,
				  FI_UINT64, FI_ATOMIC_READ, ctx(1)),
		  0);
	expect_done(FI_READ, ctx(1));
	EXPECT_EQ(got, (Words{1, 2, 3, 4}));
	ASSERT_EQ(fi_fetch_atomicv(ep(), nullptr, nullptr, 0, results, nullptr, 2, p.b_at_a, 8, key,
				   FI_UINT64, FI_ATOMIC_READ, ctx(1)),
		  0);
	expect_done(FI_READ, ctx(1));
	EXPECT_EQ(got, (Words{2, 3, 4, 0}));
}

/* --- compare ------------------------------------------------------------------------------- */

// conformance: fi_atomic(3): compare: FI_CSWAP and the like, FI_MSWAP
TEST_F(Atomic, CompareSwapsEqualValues)
{
	Words with{7, 8}, than{0, 1}, got{9, 9};
	const fi_ioc operands[2] = {{with.data(), 1}, {with.data() + 1, 1}};
	const fi_ioc compares[2] = {{than.data() + 1, 1}, {than.data(), 1}};
	fi_ioc results[2] = {{got.data(), 1}, {got.data() + 1, 1}};
	const fi_rma_ioc target{0, 2, key};
	fi_msg_atomic msg{};

	ASSERT_EQ(fi_compare_atomic(ep(), with.data(), 2, nullptr, than.data(), nullptr, got.data(),
				    nullptr, p.b_at_a, 0, key, FI_UINT64, FI_CSWAP, ctx(1)),
		  0);
	expect_done(FI_READ, ctx(1));
	EXPECT_EQ(there[0], 7u);
	EXPECT_EQ(there[1], 0u);
	EXPECT_EQ(got, (Words{0, 0}));
	ASSERT_EQ(fi_compare_atomicv(ep(), operands, nullptr, 2, compares, nullptr, 2, results,
				     nullptr, 2, p.b_at_a, 0, key, FI_UINT64, FI_CSWAP, ctx(2)),
		  0);
	expect_done(FI_READ, ctx(2));
	EXPECT_EQ(there[1], 8u);
	EXPECT_EQ(got, (Words{7, 0}));
	msg.msg_iov = operands;
	msg.iov_count = 2;
	msg.addr = p.b_at_a;
	msg.rma_iov = &target;
	msg.rma_iov_count = 1;
	msg.datatype = FI_UINT64;
	msg.op = FI_MSWAP;
	msg.context = ctx(3);
	with = {0xf0f0, 0x1111};
	than = {0x0ff0, 0x00ff};
	ASSERT_EQ(fi_compare_atomicmsg(ep(), &msg, compares, nullptr, 2, results, nullptr, 2,
				       FI_INJECT),
		  0);
	expect_done(FI_READ, ctx(3));
	EXPECT_EQ(there[0], (0xf0f0u & 0x00ff) | (7 & ~0x00ffu));
	EXPECT_EQ(there[1], (0x1111u & 0x0ff0) | (8 & ~0x0ff0u));
	EXPECT_EQ(got, (Words{7, 8}));
}

/* --- what is valid --------------------------------------------------------------------------- */

template <class Call> bool works(fid_cq *cq, Call call)
{
	const ssize_t rc = call();

	if (rc)
		EXPECT_EQ(rc, -FI_EOPNOTSUPP);
	else
		next(cq);
	return !rc;
}

/*
 * Every operation on every type, in every kind of call: it works exactly if fi_query_atomic says
 * so.
 */
// conformance: fi_atomic(3): undefined: FI_MIN, FI_MAX and ordered comparisons of complex numbers,
//   bits of other than integers: -FI_EOPNOTSUPP
// conformance: fi_atomic(3): fi_atomicvalid and the like, fi_query_atomic
TEST_F(Atomic, ValidIsExactlyWhatWorks)
{
	alignas(16) char operand[32]{}, result[32], compare[32]{};
	int valid_ones = 0;

	for (int o = 0; o < FI_ATOMIC_OP_LAST; ++o) {
		for (int t = 0; t <= FI_VOID; ++t) {
			const auto op = static_cast<fi_op>(o);
			const auto type = static_cast<fi_datatype>(t);
			std::size_t count = 0;
			fi_atomic_attr attr{};
			const auto asks = [&](int rc, std::uint64_t flags) {
				EXPECT_EQ(fi_query_atomic(p.node.domain.get(), type, op, &attr,
							  flags),
					  rc);
				if (!rc) {
					++valid_ones;
					EXPECT_GT(count, 0u);
					EXPECT_EQ(attr.count, count);
					EXPECT_EQ(count, 4096 / attr.size);
				} else {
					EXPECT_EQ(rc, -FI_EOPNOTSUPP);
				}
				return !rc;
			};

			EXPECT_EQ(asks(fi_atomicvalid(ep(), type, op, &count), 0),
				  works(cq(),
					[&] {
						return fi_atomic(ep(), operand, 1, nullptr,
								 p.b_at_a, 0, key, type, op,
								 nullptr);
					}))
				<< o << ", " << t;
			EXPECT_EQ(asks(fi_fetch_atomicvalid(ep(), type, op, &count),
				       FI_FETCH_ATOMIC),
				  works(cq(),
					[&] {
						return fi_fetch_atomic(ep(), operand, 1, nullptr,
								       result, nullptr, p.b_at_a, 0,
								       key, type, op, nullptr);
					}))
				<< o << ", " << t;
			EXPECT_EQ(asks(fi_compare_atomicvalid(ep(), type, op, &count),
				       FI_COMPARE_ATOMIC),
				  works(cq(),
					[&] {
						return fi_compare_atomic(ep(), operand, 1, nullptr,
									 compare, nullptr, result,
									 nullptr, p.b_at_a, 0, key,
									 type, op, nullptr);
					}))
				<< o << ", " << t;
		}
	}
	/* 10 types of integers, 3 of reals, 3 of complex numbers. */
	EXPECT_EQ(valid_ones, 10 * (11 + 12 + 7) + 3 * (8 + 9 + 6) + 3 * (6 + 7 + 2));
}

// conformance: fi_atomic(3): count: from 1 to what is valid (4096 bytes); FI_EMSGSIZE
TEST_F(Atomic, CountIsBetweenOneAndTheMaximum)
{
	std::vector<std::uint8_t> operands(5000);
	std::size_t count;

	ASSERT_EQ(fi_atomicvalid(ep(), FI_UINT8, FI_SUM, &count), 0);
	EXPECT_EQ(fi_atomic(ep(), operands.data(), 0, nullptr, p.b_at_a, 0, key, FI_UINT8, FI_SUM,
			    nullptr),
		  -FI_EINVAL);
	EXPECT_EQ(fi_atomic(ep(), operands.data(), count + 1, nullptr, p.b_at_a, 0, key, FI_UINT8,
			    FI_SUM, nullptr),
		  -FI_EMSGSIZE);
	const fi_ioc two[] = {{operands.data(), 3000}, {operands.data(), 3000}};
	fi_ioc results[] = {{operands.data(), 2000}, {operands.data(), 4000}};
	EXPECT_EQ(fi_atomicv(ep(), two, nullptr, 2, p.b_at_a, 0, key, FI_UINT8, FI_SUM, nullptr),
		  -FI_EMSGSIZE);
	EXPECT_EQ(fi_fetch_atomicv(ep(), two, nullptr, 2, results, nullptr, 2, p.b_at_a, 0, key,
				   FI_UINT8, FI_SUM, nullptr),
		  -FI_EMSGSIZE);
	EXPECT_EQ(fi_atomic(ep(), operands.data(), count, nullptr, p.b_at_a, 0, key, FI_UINT8,
			    FI_SUM, ctx(1)),
		  0);
	expect_done(FI_WRITE, ctx(1));
	EXPECT_EQ(fi_query_atomic(p.node.domain.get(), FI_UINT8, FI_SUM, nullptr,
				  FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
		  -FI_EINVAL);
}

TEST_F(Atomic, ErrorsAreReported)
{
	std::uint64_t one = 1;

	const struct {
		std::uint64_t at, key;
		int error;
	} cases[] = {{0, 99, FI_EKEYREJECTED}, {8192, key, FI_EREMOTEIO}, {4, key, FI_EINVAL}};
	for (const auto &c : cases) {
		ASSERT_EQ(fi_atomic(ep(), &one, 1, nullptr, p.b_at_a, c.at, c.key, FI_UINT64,
				    FI_SUM, ctx(2)),
			  0);
		const auto error = next_error(cq());
		EXPECT_EQ(error.err, c.error);
		EXPECT_EQ(error.op_context, ctx(2));
		EXPECT_EQ(error.flags, FI_ATOMIC | FI_WRITE);
	}
	EXPECT_EQ(there, Words(1024));
}

TEST(AtomicCaps, CallsWithoutTheirCapabilityAreAbsent)
{
	Pair writer(hints_for(FI_ATOMIC | FI_WRITE));
	Pair none(hints_for(FI_MSG));
	std::uint64_t word = 0;
	std::size_t count;

	EXPECT_EQ(fi_fetch_atomic(writer.a.ep.get(), &word, 1, nullptr, &word, nullptr,
				  writer.b_at_a, 0, 1, FI_UINT64, FI_SUM, nullptr),
		  -FI_ENOSYS);
	EXPECT_EQ(fi_atomic(none.a.ep.get(), &word, 1, nullptr, none.b_at_a, 0, 1, FI_UINT64,
			    FI_SUM, nullptr),
		  -FI_ENOSYS);
	EXPECT_EQ(fi_atomicvalid(none.a.ep.get(), FI_UINT64, FI_SUM, &count), -FI_ENOSYS);
}

/*
 * --- concurrency --------------------------------------------------------------------------------
 */

// conformance: fi_atomic(3): correct for one actor, a domain or the CPUs: both at once, for words
TEST_F(Atomic, NoUpdateIsLostBetweenThreads)
{
	constexpr int rounds = 500;
	Side other(p.node);
	const fi_addr_t to = other.insert(p.b.ep.get());
	const auto add = [](fid_ep *from, fi_addr_t peer) {
		const std::uint64_t one = 1;
		const double real = 1;
		const std::complex<float> complex{1, 2};

		for (int i = 0; i < rounds; ++i) {
			while (fi_inject_atomic(from, &one, 1, peer, 0, key, FI_UINT64, FI_SUM))
				;
			while (fi_inject_atomic(from, &real, 1, peer, 8, key, FI_DOUBLE, FI_SUM))
				;
			while (fi_inject_atomic(from, &complex, 1, peer, 20, key, FI_FLOAT_COMPLEX,
						FI_SUM))
				;
		}
	};
	std::uint64_t got;
	double real;
	float complex[2];

	{
		std::jthread a(add, ep(), p.b_at_a), b(add, other.ep.get(), to);
		for (int i = 0; i < rounds; ++i)
			__atomic_fetch_add(there.data(), 1, __ATOMIC_RELAXED);
	}
	/* The last update of each, in order. */
	for (Side *side : {&p.a, &other}) {
		ASSERT_EQ(fi_fetch_atomic(side->ep.get(), nullptr, 1, nullptr, &got, nullptr,
					  side == &other ? to : p.b_at_a, 0, key, FI_UINT64,
					  FI_ATOMIC_READ, nullptr),
			  0);
		next(side->tx_cq.get());
	}
	EXPECT_EQ(got, 3u * rounds);
	std::memcpy(&real, there.data() + 1, 8);
	std::memcpy(complex, reinterpret_cast<char *>(there.data()) + 20, 8);
	EXPECT_EQ(real, 2.0 * rounds);
	EXPECT_EQ(complex[0], 2.0f * rounds);
	EXPECT_EQ(complex[1], 4.0f * rounds);
}

TEST_F(Atomic, DeferredWorkOfAllThreeKinds)
{
	const auto cntr = p.node.cntr(), done = p.node.cntr();
	std::uint64_t five = 5, nine = 9, got[2] = {99, 99};
	const fi_ioc operand{&five, 1}, compare{&five, 1}, swap{&nine, 1};
	fi_ioc result[2] = {{&got[0], 1}, {&got[1], 1}};
	const fi_rma_ioc target{0, 1, key};
	const auto msg = [&](const fi_ioc *from, fi_op op) {
		return fi_msg_atomic{from, nullptr,   1,  p.b_at_a, &target,
				     1,	   FI_UINT64, op, nullptr,  0};
	};
	fi_op_atomic base{ep(), msg(&operand, FI_SUM), 0};
	fi_op_fetch_atomic fetch{ep(), msg(&operand, FI_SUM), {&result[0], nullptr, 1}, 0};
	fi_op_compare_atomic swaps{
		ep(), msg(&swap, FI_CSWAP_NE), {&result[1], nullptr, 1}, {&compare, nullptr, 1}, 0};
	fi_deferred_work work[3]{};

	for (unsigned int i = 0; i < 3; ++i) {
		work[i].triggering_cntr = i ? done.get() : cntr.get();
		work[i].threshold = i ? i : 1;
		work[i].completion_cntr = done.get();
	}
	work[0].op_type = FI_OP_ATOMIC;
	work[0].op.atomic = &base;
	work[1].op_type = FI_OP_FETCH_ATOMIC;
	work[1].op.fetch_atomic = &fetch;
	work[2].op_type = FI_OP_COMPARE_ATOMIC;
	work[2].op.compare_atomic = &swaps;
	for (auto &w : work)
		ASSERT_EQ(fi_control(&p.node.domain->fid, FI_QUEUE_WORK, &w), 0);
	EXPECT_EQ(there[0], 0u);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_TRUE(reaches(done.get(), 3));
	EXPECT_EQ(got[0], 5u);
	EXPECT_EQ(got[1], 10u);
	EXPECT_EQ(there[0], 9u);
	EXPECT_TRUE(is_silent(cq()));
}

TEST_F(Atomic, Triggered)
{
	const auto cntr = p.node.cntr();
	std::uint64_t one = 1;
	const fi_ioc operand{&one, 1};
	const fi_rma_ioc target{0, 1, key};
	fi_triggered_context context{};
	const fi_msg_atomic msg{&operand, nullptr,   1,	     p.b_at_a, &target,
				1,	  FI_UINT64, FI_SUM, &context, 0};

	context.event_type = FI_TRIGGER_THRESHOLD;
	context.trigger.threshold = {cntr.get(), 2};
	ASSERT_EQ(fi_atomicmsg(ep(), &msg, FI_TRIGGER), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_TRUE(is_silent(cq()));
	EXPECT_EQ(there[0], 0u);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	expect_done(FI_WRITE, &context);
	EXPECT_EQ(there[0], 1u);
}

/* fi_endpoint(3): an operation without a context of its own fails with that of its endpoint. */
// conformance: fi_endpoint(3): fi_inject completes nowhere; if it fails, the error has the
//   endpoint's context
TEST(Inject, FailsWithTheContextOfItsEndpoint)
{
	Pair p(hints_for(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC));
	fid_ep *const ep = p.a.ep.get();
	const std::uint64_t one = 1;
	const fi_addr_t unreachable = [&] {
		const Side gone(p.node);
		return p.a.insert(gone.ep.get());
	}();

	ep->fid.context = ctx(77);
	ASSERT_EQ(fi_inject(ep, &one, 8, unreachable), 0);
	ASSERT_EQ(fi_injectdata(ep, &one, 8, 1, unreachable), 0);
	ASSERT_EQ(fi_tinject(ep, &one, 8, unreachable, 1), 0);
	ASSERT_EQ(fi_tinjectdata(ep, &one, 8, 1, unreachable, 1), 0);
	ASSERT_EQ(fi_inject_write(ep, &one, 8, unreachable, 0, 1), 0);
	ASSERT_EQ(fi_inject_writedata(ep, &one, 8, 1, unreachable, 0, 1), 0);
	ASSERT_EQ(fi_inject_atomic(ep, &one, 1, unreachable, 0, 1, FI_UINT64, FI_SUM), 0);
	for (int i = 0; i < 7; i++)
		EXPECT_EQ(next_error(p.a.tx_cq.get()).op_context, ctx(77));
}

} // namespace
