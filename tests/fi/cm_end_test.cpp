// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_cm(3): the end of a connection. */
#include "child.h"
#include "cm.h"

namespace
{

// conformance: fi_cm(3): FI_SHUTDOWN when the peer disconnects or abruptly closes, at both ends
TEST_F(Cm, ShutdownIsReportedToThePeer)
{
	establish();
	ASSERT_EQ(fi_shutdown(client.ep.get(), 0), 0);
	CmEvent event = next_event(server->eq.get());
	EXPECT_EQ(event.event, std::uint32_t{FI_SHUTDOWN});
	EXPECT_EQ(event.object, &server->ep->fid);
	EXPECT_TRUE(is_silent(server->eq.get()));
	EXPECT_EQ(fi_shutdown(client.ep.get(), 0), 0);
	EXPECT_EQ(fi_shutdown(server->ep.get(), 0), 0);
}

// conformance: fi_cm(3): fi_shutdown: outstanding operations are canceled, and their completions
//   are written before it returns; one that a worker executes accesses no memory any more, and its
//   error follows
TEST_F(Cm, ShutdownCancelsBeforeItReturns)
{
	std::uint64_t in;
	fi_cq_err_entry error{};

	establish();
	ASSERT_EQ(fi_recv(client.ep.get(), &in, sizeof(in), nullptr, 0, ctx(1)), 0);
	ASSERT_EQ(fi_recv(server->ep.get(), &in, sizeof(in), nullptr, 0, ctx(2)), 0);
	ASSERT_EQ(fi_shutdown(client.ep.get(), 0), 0);
	ASSERT_EQ(fi_cq_readerr(client.cq.get(), &error, 0), 1) << "written before it returns";
	EXPECT_EQ(error.err, FI_ECANCELED);
	EXPECT_EQ(error.op_context, ctx(1));
	const auto there = next_error(server->cq.get());
	EXPECT_EQ(there.err, FI_ECANCELED);
	EXPECT_EQ(there.op_context, ctx(2));
	EXPECT_EQ(fi_send(client.ep.get(), &in, sizeof(in), nullptr, 0, nullptr), -FI_ESHUTDOWN);
	EXPECT_EQ(fi_send(server->ep.get(), &in, sizeof(in), nullptr, 0, nullptr), -FI_ESHUTDOWN);
}

// conformance: fi_cm(3): fi_shutdown: outstanding operations are canceled, and their ...
TEST_F(Cm, ShutdownCancelsArmedOperations)
{
	auto cntr = node.cntr();
	std::uint64_t buf = 0;
	const iovec iov{&buf, sizeof(buf)};
	fi_triggered_context armed[2]{};
	fi_cq_err_entry error{};
	fi_msg msg{};

	establish();
	msg.msg_iov = &iov;
	msg.iov_count = 1;
	for (auto &context : armed) {
		context.event_type = FI_TRIGGER_THRESHOLD;
		context.trigger.threshold = {cntr.get(), 1};
	}
	msg.context = &armed[0];
	ASSERT_EQ(fi_sendmsg(client.ep.get(), &msg, FI_TRIGGER), 0);
	msg.context = &armed[1];
	ASSERT_EQ(fi_recvmsg(client.ep.get(), &msg, FI_TRIGGER), 0);
	ASSERT_EQ(fi_shutdown(client.ep.get(), 0), 0);
	for (auto &context : armed) {
		ASSERT_EQ(fi_cq_readerr(client.cq.get(), &error, 0), 1);
		EXPECT_EQ(error.err, FI_ECANCELED);
		EXPECT_EQ(error.op_context, &context);
	}
	EXPECT_EQ(fi_close(&cntr.release()->fid), 0);
}

// conformance: fi_cm(3): fi_shutdown: completions that were written can still be retrieved
TEST_F(Cm, CompletionsThatWereWrittenMayStillBeRetrieved)
{
	std::uint64_t in = 0, out = 5;

	establish();
	ASSERT_EQ(fi_recv(server->ep.get(), &in, sizeof(in), nullptr, 0, ctx(1)), 0);
	/* was sent before, although FI_MORE put it off */
	ASSERT_EQ(sendmsg(client.ep.get(), &out, sizeof(out), ctx(2), FI_MORE), 0);
	ASSERT_EQ(fi_shutdown(client.ep.get(), 0), 0);
	EXPECT_EQ(next(client.cq.get()).op_context, ctx(2));
	EXPECT_EQ(next(server->cq.get()).op_context, ctx(1));
	EXPECT_EQ(in, out);
}

// conformance: fi_cm(3): FI_SHUTDOWN when the peer disconnects or abruptly closes, at both ends
TEST_F(Cm, ClosingAbruptlyShutsDownThePeer)
{
	establish();
	client.ep.reset();
	EXPECT_EQ(next_event(server->eq.get()).event, std::uint32_t{FI_SHUTDOWN});
	EXPECT_TRUE(is_silent(client.eq.get())) << "events of what is closed are gone";
}

TEST_F(Cm, WaitingMessagesFailWithTheConnection)
{
	const auto big = pattern(1 << 20);

	establish();
	ASSERT_EQ(fi_send(client.ep.get(), big.data(), big.size(), nullptr, 0, ctx(3)), 0);
	server->ep.reset();
	const auto error = next_error(client.cq.get());
	EXPECT_EQ(error.op_context, ctx(3));
	EXPECT_EQ(error.err, FI_ECONNRESET);
	EXPECT_EQ(next_event(client.eq.get()).event, std::uint32_t{FI_SHUTDOWN});
}

TEST_F(Cm, ClosingThePassiveEndpointRefusesItsRequests)
{
	ASSERT_EQ(connect(), 0);
	CmEvent request = listener.request();
	listener.pep.reset();
	EXPECT_EQ(next_eq_error(client.eq.get()).err, FI_ECONNREFUSED);
	fid_ep *ep = nullptr;
	EXPECT_EQ(fi_endpoint(node.domain.get(), request.info.get(), &ep, nullptr), -FI_EINVAL);
}

TEST_F(Cm, AcceptingAClientThatHasGoneFails)
{
	ASSERT_EQ(connect(), 0);
	CmEvent request = listener.request();
	server.emplace(node, request.info.get());
	client.ep.reset();
	EXPECT_EQ(fi_accept(server->ep.get(), nullptr, 0), -FI_ECONNRESET);
}

// conformance: fi_cm(3): the accepting endpoint is allocated from the fi_info of the FI_CONNREQ ...
TEST_F(Cm, ARequestIsAcceptedByOneEndpoint)
{
	ASSERT_EQ(connect(), 0);
	CmEvent request = listener.request();
	server.emplace(node, request.info.get());
	fid_ep *second = nullptr;
	EXPECT_EQ(fi_endpoint(node.domain.get(), request.info.get(), &second, nullptr), -FI_EBUSY);
	server.reset();
	EXPECT_EQ(next_eq_error(client.eq.get()).err, FI_ECONNREFUSED) << "it closed unanswered";
}

/* The handle of a request may have the address of a former one. */
// conformance: fi_cm(3): fi_reject refuses a request; the peer has an error event with details
TEST_F(Cm, AnEndpointOfARejectedRequestLeavesOthersAlone)
{
	/* The part of its size that is allocated before the second handle. */
	for (std::size_t before = 0; before < 8; ++before) {
		SCOPED_TRACE(before);
		Active first(node), second(node);
		std::vector<std::unique_ptr<fid>> memory;

		ASSERT_EQ(fi_connect(first.ep.get(), listener.address().data(), nullptr, 0), 0);
		ASSERT_EQ(fi_connect(second.ep.get(), listener.address().data(), nullptr, 0), 0);
		const CmEvent one = listener.request();
		server.emplace(node, one.info.get());
		while (memory.size() < 8)
			memory.push_back(std::make_unique<fid>());
		EXPECT_EQ(fi_reject(listener.pep.get(), one.info->handle, nullptr, 0), 0);
		memory.resize(memory.size() - before);
		const CmEvent other = listener.request();
		server.reset();
		Active answerer(node, other.info.get());
		EXPECT_EQ(fi_accept(answerer.ep.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(second.eq.get()).event, std::uint32_t{FI_CONNECTED});
	}
}

// conformance: fi_cm(3): FI_SHUTDOWN when the peer disconnects or abruptly closes, at both ends
TEST_F(Cm, APeerThatIsKilledShutsDown)
{
	const auto address = listener.address();
	Child child([&](int) {
		Node own(msg_hints());
		Active asker(own);
		if (fi_connect(asker.ep.get(), address.data(), nullptr, 0))
			return 1;
		for (;;)
			pause();
	});
	accept(listener.request());
	EXPECT_EQ(next_event(server->eq.get()).event, std::uint32_t{FI_CONNECTED});
	std::uint64_t in;
	ASSERT_EQ(fi_recv(server->ep.get(), &in, sizeof(in), nullptr, 0, ctx(4)), 0);
	child.kill(SIGKILL);
	EXPECT_EQ(next_event(server->eq.get()).event, std::uint32_t{FI_SHUTDOWN});
	EXPECT_EQ(next_error(server->cq.get()).err, FI_ECANCELED);
	EXPECT_EQ(fi_send(server->ep.get(), &in, sizeof(in), nullptr, 0, nullptr), -FI_ESHUTDOWN);
}

} // namespace
