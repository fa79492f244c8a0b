// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_endpoint(3), "SCALABLE ENDPOINTS"; fi_av(3), "fi_rx_addr": which context gets a message */
#include <thread>

#include "scalable.h"

namespace
{

/* --- targets ------------------------------------------------------------------------------ */

// conformance: fi_endpoint(3): FI_NAMED_RX_CTX, fi_rx_addr, rx_ctx_bits: an initiator targets a
//   specific receive context; without them: index 0
TEST_F(Scalable, AnAddressSpecifiesATargetReceiveContext)
{
	for (int i = 0; i < contexts; ++i) {
		fid_ep *const tx = a.tx[(i + 1) % contexts].get(), *const rx = b.rx[i].get();
		fid_cq *const cq = b.rx_cq[i].get();

		ASSERT_EQ(fi_recv(rx, in, 8, nullptr, FI_ADDR_UNSPEC, ctx(i)), 0);
		ASSERT_EQ(fi_send(tx, "message", 8, nullptr, to(i), ctx(10 + i)), 0);
		EXPECT_EQ(next(cq).op_context, ctx(i));
		EXPECT_STREQ(in, "message");
		EXPECT_EQ(next(a.tx_cq[(i + 1) % contexts].get()).op_context, ctx(10 + i));
		ASSERT_EQ(fi_tsend(tx, "tagged!", 8, nullptr, to(i), i, nullptr), 0);
		next(a.tx_cq[(i + 1) % contexts].get());
		ASSERT_EQ(fi_trecv(rx, in, 8, nullptr, FI_ADDR_UNSPEC, i, 0, nullptr), 0);
		EXPECT_EQ(next(cq).tag, static_cast<std::uint64_t>(i));
		EXPECT_STREQ(in, "tagged!");
		EXPECT_TRUE(b.nothing_but(i));
	}
	for (int i = 0; i < contexts; ++i) {
		EXPECT_TRUE(reaches(a.sent[i].get(), 2));
		EXPECT_TRUE(reaches(b.received[i].get(), 2));
	}
}

TEST_F(Scalable, WithoutAnIndexItIsTheFirstContext)
{
	ASSERT_EQ(fi_recv(b.rx[0].get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(a.tx[2].get(), "first", 6, b_at_a), 0);
	next(b.rx_cq[0].get());
	EXPECT_STREQ(in, "first");
	EXPECT_TRUE(b.nothing_but(0));
}

// conformance: fi_endpoint(3): FI_NAMED_RX_CTX, fi_rx_addr, rx_ctx_bits: an initiator targets a ...
TEST_F(Scalable, AContextThatIsNotThereIsAnErrorCompletion)
{
	ASSERT_EQ(fi_send(a.tx[1].get(), "x", 1, nullptr, to(contexts), ctx(5)), 0);
	const auto error = next_error(a.tx_cq[1].get());
	EXPECT_EQ(error.err, FI_ECONNREFUSED);
	EXPECT_EQ(error.op_context, ctx(5));
	EXPECT_EQ(fi_cntr_readerr(a.sent[1].get()), 1u);
	/* Nor is a closed context there. */
	b.rx[2].reset();
	ASSERT_EQ(fi_send(a.tx[0].get(), "x", 1, nullptr, to(2), nullptr), 0);
	EXPECT_EQ(next_error(a.tx_cq[0].get()).err, FI_ECONNREFUSED);
}

TEST_F(Scalable, AnEndpointThatIsNotScalableHasOneContext)
{
	Node node(hints_for(all_caps));
	const auto av = av_with(node, bits);
	const auto cq = node.cq();
	const auto ep = node.ep();
	const auto address = address_of(b.sep.get());
	fi_addr_t there;

	ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	ASSERT_EQ(fi_av_insert(av.get(), address.data(), 1, &there, 0, nullptr), 1);
	/* It can address contexts of others. */
	ASSERT_EQ(fi_recv(b.rx[1].get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(ep.get(), "to one", 7, fi_rx_addr(there, 1, bits)), 0);
	next(b.rx_cq[1].get());
	EXPECT_STREQ(in, "to one");
	/* Its own address has no index, or the first one. */
	const fi_addr_t back = a.insert(ep.get());
	ASSERT_EQ(fi_recv(ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_send(a.tx[0].get(), "x", 1, nullptr, fi_rx_addr(back, 1, bits), nullptr), 0);
	EXPECT_EQ(next_error(a.tx_cq[0].get()).err, FI_ECONNREFUSED);
	ASSERT_EQ(fi_inject(a.tx[0].get(), "x", 1, fi_rx_addr(back, 0, bits)), 0);
	EXPECT_EQ(next(cq.get()).op_context, ctx(1));
}

// conformance: fi_endpoint(3): a scalable endpoint has a single transport level address
TEST_F(Scalable, ASingleTransportLevelAddress)
{
	const auto address = address_of(a.sep.get());

	for (int i = 0; i < contexts; ++i) {
		fi_addr_t src;

		EXPECT_EQ(address_of(a.tx[i].get()), address);
		EXPECT_EQ(address_of(a.rx[i].get()), address);
		ASSERT_EQ(fi_recv(b.rx[2].get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		ASSERT_EQ(fi_inject(a.tx[i].get(), "x", 1, to(2)), 0);
		next(b.rx_cq[2].get(), &src);
		EXPECT_EQ(src, a_at_b) << "whichever context it came from";
	}
}

/* The source of a message is an endpoint, without a receive context. */
TEST_F(Scalable, DirectedReceive)
{
	Many c;
	const fi_addr_t c_at_b = b.insert(c.sep.get()), b_at_c = c.insert(b.sep.get());

	for (int i = 0; i < contexts; ++i) {
		ASSERT_EQ(fi_recv(b.rx[1].get(), in, 8, nullptr, c_at_b, ctx(1)), 0);
		ASSERT_EQ(fi_recv(b.rx[1].get(), in, 8, nullptr, fi_rx_addr(a_at_b, i, bits),
				  ctx(2)),
			  0);
		ASSERT_EQ(fi_inject(a.tx[i].get(), "x", 1, to(1)), 0);
		EXPECT_EQ(next(b.rx_cq[1].get()).op_context, ctx(2));
		ASSERT_EQ(fi_inject(c.tx[i].get(), "x", 1, fi_rx_addr(b_at_c, 1, bits)), 0);
		EXPECT_EQ(next(b.rx_cq[1].get()).op_context, ctx(1));
	}
}

// conformance: fi_endpoint(3): FI_NAMED_RX_CTX, fi_rx_addr, rx_ctx_bits: an initiator targets a ...
TEST_F(Scalable, RemoteMemoryIsReachedByAContext)
{
	std::uint64_t memory = 0, value = 5, result = 0;
	fid_mr *mr = nullptr;

	ASSERT_EQ(fi_mr_reg(b.node.domain.get(), &memory, 8, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 7,
			    0, &mr, nullptr),
		  0);
	const Owned<fid_mr> region(mr);
	const std::uint64_t key = fi_mr_key(mr);
	fid_ep *const tx = a.tx[0].get();
	fid_cq *const cq = a.tx_cq[0].get();

	ASSERT_EQ(fi_writedata(tx, &value, 8, nullptr, 42, to(1), 0, key, nullptr), 0);
	next(cq);
	EXPECT_EQ(memory, 5u);
	const auto entry = next(b.rx_cq[1].get());
	EXPECT_EQ(entry.data, 42u);
	EXPECT_TRUE(entry.flags & FI_REMOTE_WRITE);
	EXPECT_TRUE(reaches(b.events[1].get(), 1));
	ASSERT_EQ(fi_atomic(tx, &value, 1, nullptr, to(2), 0, key, FI_UINT64, FI_SUM, nullptr), 0);
	next(cq);
	EXPECT_TRUE(reaches(b.events[2].get(), 1));
	EXPECT_EQ(fi_cntr_read(b.events[0].get()), 0u);
	EXPECT_EQ(fi_cntr_read(b.events[1].get()), 1u);
	ASSERT_EQ(fi_read(tx, &result, 8, nullptr, to(0), 0, key, nullptr), 0);
	next(cq);
	EXPECT_EQ(result, 10u);
	EXPECT_TRUE(b.nothing_but(-1));

	/* A region may belong to the endpoint, then all contexts reach it, or to one context. */
	ASSERT_EQ(fi_mr_bind(mr, &b.sep->fid, 0), 0);
	for (int i = 0; i < contexts; ++i) {
		ASSERT_EQ(fi_read(tx, &result, 8, nullptr, to(i), 0, key, nullptr), 0);
		next(cq);
	}
	ASSERT_EQ(fi_mr_reg(b.node.domain.get(), &memory, 8, FI_REMOTE_READ, 0, 8, 0, &mr, nullptr),
		  0);
	const Owned<fid_mr> narrow(mr);
	ASSERT_EQ(fi_mr_bind(mr, &b.rx[2]->fid, 0), 0);
	ASSERT_EQ(fi_read(tx, &result, 8, nullptr, to(2), 0, fi_mr_key(mr), nullptr), 0);
	next(cq);
	ASSERT_EQ(fi_read(tx, &result, 8, nullptr, to(1), 0, fi_mr_key(mr), nullptr), 0);
	EXPECT_EQ(next_error(cq).err, FI_EKEYREJECTED);
}

TEST_F(Scalable, DeferredWorkGoesThroughAContext)
{
	const auto go = a.node.cntr(), done = a.node.cntr();
	char text[8] = "late";
	iovec iov{text, 5};
	fi_op_msg msg{};
	fi_deferred_work work{};

	msg.ep = a.tx[1].get();
	msg.msg = {&iov, nullptr, 1, to(2), &work.context, 0};
	work.op_type = FI_OP_SEND;
	work.op.msg = &msg;
	work.triggering_cntr = go.get();
	work.threshold = 1;
	work.completion_cntr = done.get();
	ASSERT_EQ(fi_control(&a.node.domain->fid, FI_QUEUE_WORK, &work), 0);
	ASSERT_EQ(fi_recv(b.rx[2].get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(3)), 0);
	ASSERT_EQ(fi_cntr_add(go.get(), 1), 0);
	EXPECT_EQ(next(b.rx_cq[2].get()).op_context, ctx(3));
	EXPECT_STREQ(in, "late");
	EXPECT_TRUE(reaches(done.get(), 1));

	/* A deferred receive names its own context. */
	fi_deferred_work receive{};
	const auto arrived = b.node.cntr(), armed = b.node.cntr();
	iov = {in, 8};
	msg.ep = b.rx[1].get();
	msg.msg = {&iov, nullptr, 1, FI_ADDR_UNSPEC, &receive.context, 0};
	receive.op_type = FI_OP_RECV;
	receive.op.msg = &msg;
	receive.triggering_cntr = armed.get();
	receive.threshold = 1;
	receive.completion_cntr = arrived.get();
	ASSERT_EQ(fi_control(&b.node.domain->fid, FI_QUEUE_WORK, &receive), 0);
	ASSERT_EQ(fi_cntr_add(armed.get(), 1), 0);
	ASSERT_EQ(fi_inject(a.tx[0].get(), "armed", 6, to(1)), 0);
	EXPECT_TRUE(reaches(arrived.get(), 1));
	EXPECT_STREQ(in, "armed");
}

TEST_F(Scalable, TriggeredOperations)
{
	const auto go = a.node.cntr();
	fi_triggered_context trigger{};
	fi_msg msg{};
	char text[8] = "pulled";
	iovec iov{text, 7};

	trigger.event_type = FI_TRIGGER_THRESHOLD;
	trigger.trigger.threshold = {go.get(), 1};
	msg.msg_iov = &iov;
	msg.iov_count = 1;
	msg.addr = to(1);
	msg.context = &trigger;
	ASSERT_EQ(fi_recv(b.rx[1].get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_sendmsg(a.tx[2].get(), &msg, FI_TRIGGER), 0);
	EXPECT_TRUE(is_silent(b.rx_cq[1].get()));
	ASSERT_EQ(fi_cntr_add(go.get(), 1), 0);
	next(b.rx_cq[1].get());
	EXPECT_STREQ(in, "pulled");
}

// conformance: fi_endpoint(3): each context has its own completion queue and counters; none ...
TEST_F(Scalable, CancelIsOfOneContext)
{
	for (int i = 0; i < 2; ++i)
		ASSERT_EQ(fi_recv(b.rx[i].get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	EXPECT_EQ(fi_cancel(&b.rx[2]->fid, ctx(1)), -FI_ENOENT);
	EXPECT_EQ(fi_cancel(&b.sep->fid, ctx(1)), -FI_ENOENT);
	EXPECT_EQ(fi_cancel(&b.rx[1]->fid, ctx(1)), 0);
	EXPECT_EQ(next_error(b.rx_cq[1].get()).err, FI_ECANCELED);
	EXPECT_TRUE(b.nothing_but(1));
}

TEST_F(Scalable, PeekAndClaimInAContext)
{
	fi_context2 mine{};
	iovec iov{in, 8};
	fi_msg_tagged msg{};

	ASSERT_EQ(fi_tinject(a.tx[0].get(), "waits", 6, to(1), 9), 0);
	msg.addr = FI_ADDR_UNSPEC;
	msg.tag = 9;
	msg.context = &mine;
	ASSERT_EQ(fi_trecvmsg(b.rx[0].get(), &msg, FI_PEEK), 0);
	EXPECT_EQ(next_error(b.rx_cq[0].get()).err, FI_ENOMSG);
	ASSERT_EQ(fi_trecvmsg(b.rx[1].get(), &msg, FI_PEEK | FI_CLAIM), 0);
	EXPECT_EQ(next(b.rx_cq[1].get()).len, 6u);
	msg.msg_iov = &iov;
	msg.iov_count = 1;
	ASSERT_EQ(fi_trecvmsg(b.rx[1].get(), &msg, FI_CLAIM), 0);
	next(b.rx_cq[1].get());
	EXPECT_STREQ(in, "waits");
}

/* --- threads ---------------------------------------------------------------------------------- */

/* "no synchronization is needed when accessing contexts in parallel" */
void contexts_in_parallel(fi_threading threading)
{
	constexpr int count = 1000;
	Info asked = hints(), same = hints();
	asked->domain_attr->threading = same->domain_attr->threading = threading;
	Many a(std::move(asked)), b(std::move(same));
	const fi_addr_t there = a.insert(b.sep.get());
	std::vector<std::thread> threads;

	for (int i = 0; i < contexts; ++i) {
		threads.emplace_back([&, i] {
			for (int n = 0; n < count; ++n) {
				std::uint64_t out = static_cast<std::uint64_t>(n), in = 0;

				ASSERT_EQ(fi_recv(b.rx[i].get(), &in, 8, nullptr, FI_ADDR_UNSPEC,
						  nullptr),
					  0);
				ASSERT_EQ(fi_send(a.tx[i].get(), &out, 8, nullptr,
						  fi_rx_addr(there, i, bits), nullptr),
					  0);
				next(b.rx_cq[i].get());
				next(a.tx_cq[i].get());
				ASSERT_EQ(in, out);
			}
		});
	}
	for (std::thread &thread : threads)
		thread.join();
}

// conformance: fi_endpoint(3): each context has its own completion queue and counters; none needs
//   synchronization with others
TEST(ScalableThreads, NoSynchronizationIsNeededWhenAccessingContextsInParallel)
{
	contexts_in_parallel(FI_THREAD_SAFE);
}

TEST(ScalableThreads, AThreadForEachContext)
{
	contexts_in_parallel(FI_THREAD_COMPLETION);
}

} // namespace
