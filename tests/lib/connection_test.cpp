// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Event queues, passive endpoints, and endpoints that are connected. */

#include <optional>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node.h"

namespace
{

/* Waits for one event; of zeros if none came. */
treadle_event next(EventQueue &queue)
{
	const auto event = queue.next(patience);

	EXPECT_TRUE(event) << event.error().message();
	return event.value_or(treadle_event{});
}

bool is_silent(EventQueue &queue)
{
	treadle_event event;

	return queue.wait(a_moment) == from_errno(ETIMEDOUT) &&
	       queue.read(event) == from_errno(EAGAIN);
}

/* A context with an event queue, and a connected endpoint with its rings. */
struct End {
	Context context = must(Context::open(), "open");
	EventQueue events = must(EventQueue::create(context), "events");
	CompletionQueue cq = must(CompletionQueue::create(context, 64), "cq");
	TransmitRing tx = must(TransmitRing::create(context, 16), "tx");
	ReceiveRing rx = must(ReceiveRing::create(context, 16), "rx");
	std::optional<Endpoint> ep;

	void enable(Result<Endpoint> endpoint, std::uint64_t id)
	{
		ep = must(std::move(endpoint), "endpoint");
		ASSERT_EQ(ep->bind(events, id), ok);
		ASSERT_EQ(
			ep->enable(
				{.tx = tx.id(), .rx = rx.id(), .tx_cq = cq.id(), .rx_cq = cq.id()}),
			ok);
	}
};

class ConnectionTest : public testing::Test
{
protected:
	Context context = must(Context::open(), "open");
	EventQueue requests = must(EventQueue::create(context), "events");
	PassiveEndpoint listener = must(PassiveEndpoint::create(context, loopback()), "listener");
	End client, server;

	void SetUp() override
	{
		ASSERT_EQ(listener.listen(), from_errno(EINVAL)) << "without an event queue";
		ASSERT_EQ(listener.bind(requests, 7), ok);
		ASSERT_EQ(listener.bind(requests, 7), from_errno(EISCONN));
		ASSERT_EQ(listener.listen(), ok);
		client.enable(Endpoint::create(client.context, loopback(), TREADLE_EP_MSG), 1);
	}

	treadle_event ask(std::string_view data = {})
	{
		EXPECT_EQ(client.ep->connect(listener.address(), bytes(data)), ok);
		const auto event = next(requests);
		EXPECT_EQ(event.event, __u32{TREADLE_EVENT_CONNREQ});
		EXPECT_EQ(event.context, 7u);
		return event;
	}

	void connect()
	{
		server.enable(Endpoint::create(server.context, request_of(ask())), 2);
		ASSERT_EQ(server.ep->accept(), ok);
		for (EventQueue *queue : {&client.events, &server.events})
			ASSERT_EQ(next(*queue).event, __u32{TREADLE_EVENT_CONNECTED});
	}
};

std::string_view text(const treadle_event &event)
{
	return {reinterpret_cast<const char *>(event.data), event.data_size};
}

TEST_F(ConnectionTest, data_goes_along_with_a_request_and_its_answer)
{
	const auto event = ask("please");
	EXPECT_EQ(text(event), "please");
	EXPECT_EQ(data_of(event).size(), 6u);
	EXPECT_EQ(event.addr.port, client.ep->address().port);

	server.enable(Endpoint::create(server.context, request_of(event)), 2);
	EXPECT_EQ(server.ep->address().port, listener.address().port);
	EXPECT_EQ(server.ep->accept(bytes("welcome")), ok);
	const auto there = next(client.events);
	EXPECT_EQ(there.event, __u32{TREADLE_EVENT_CONNECTED});
	EXPECT_EQ(there.context, 1u);
	EXPECT_EQ(text(there), "welcome");
	const auto here = next(server.events);
	EXPECT_EQ(here.event, __u32{TREADLE_EVENT_CONNECTED});
	EXPECT_EQ(here.context, 2u);
	EXPECT_EQ(here.data_size, 0u);
	EXPECT_EQ(client.ep->connect(listener.address()), from_errno(EISCONN));
}

TEST_F(ConnectionTest, messages_go_to_the_peer)
{
	std::uint64_t out = 42, in = 0;

	connect();
	ASSERT_EQ(server.rx.post({.opcode = TREADLE_OP_RECV,
				  .flags = TREADLE_F_COMPLETION,
				  .context = 3,
				  .addr = address_of(&in),
				  .len = sizeof(in)}),
		  ok);
	ASSERT_EQ(client.tx.post({.opcode = TREADLE_OP_SEND,
				  .flags = TREADLE_F_COMPLETION,
				  .context = 4,
				  .addr = address_of(&out),
				  .len = sizeof(out)}),
		  ok);
	EXPECT_EQ(reap_one(server.cq).context, 3u);
	EXPECT_EQ(reap_one(client.cq).context, 4u);
	EXPECT_EQ(in, out);
}

TEST_F(ConnectionTest, a_refusal_says_why)
{
	const auto event = ask();

	EXPECT_EQ(listener.reject(request_of(event), bytes("busy")), ok);
	EXPECT_EQ(listener.reject(request_of(event)), from_errno(ENOENT));
	const auto refused = next(client.events);
	EXPECT_EQ(refused.event, __u32{TREADLE_EVENT_CONNREFUSED});
	EXPECT_EQ(refused.error, __u32{ECONNREFUSED});
	EXPECT_EQ(text(refused), "busy");
	EXPECT_EQ(Endpoint::create(server.context, request_of(event)).error(), from_errno(ENOENT));
}

TEST_F(ConnectionTest, too_much_data_is_refused)
{
	const std::vector<std::byte> data(TREADLE_CM_DATA + 1);

	EXPECT_EQ(client.ep->connect(listener.address(), data), from_errno(EINVAL));
	EXPECT_EQ(client.ep->connect(listener.address(), std::span(data).first(TREADLE_CM_DATA)),
		  ok);
	const auto event = next(requests);
	EXPECT_EQ(event.data_size, __u32{TREADLE_CM_DATA});
	EXPECT_EQ(listener.reject(request_of(event), data), from_errno(EINVAL));
}

TEST_F(ConnectionTest, closing_the_listener_refuses_what_waits)
{
	EXPECT_EQ(client.ep->connect(listener.address()), ok);
	EXPECT_EQ(listener.close(), ok);
	EXPECT_EQ(next(client.events).error, __u32{ECONNREFUSED});
	EXPECT_TRUE(is_silent(requests)) << "the request went with its listener";
}

TEST_F(ConnectionTest, shutdown_is_told_to_both)
{
	std::uint64_t in;

	connect();
	ASSERT_EQ(client.rx.post({.opcode = TREADLE_OP_RECV,
				  .flags = TREADLE_F_COMPLETION,
				  .context = 5,
				  .addr = address_of(&in),
				  .len = sizeof(in)}),
		  ok);
	EXPECT_EQ(server.ep->shutdown(), ok);
	for (EventQueue *queue : {&client.events, &server.events})
		EXPECT_EQ(next(*queue).event, __u32{TREADLE_EVENT_SHUTDOWN});
	const auto cqe = reap_one(client.cq);
	EXPECT_EQ(cqe.context, 5u);
	EXPECT_EQ(cqe.error, __u32{ECANCELED});
	EXPECT_EQ(client.tx.post({.opcode = TREADLE_OP_SEND}), from_errno(ESHUTDOWN));
	EXPECT_EQ(client.ep->shutdown(), ok) << "again: nothing";
	EXPECT_TRUE(is_silent(client.events));
}

/* Receives of a shared ring belong to no endpoint, so they outlive a connection. */
TEST_F(ConnectionTest, a_shared_receive_ring_outlives_a_connection)
{
	auto shared = must(ReceiveRing::create(server.context, 16, 0, TREADLE_RX_SHARED), "rx");
	std::uint64_t in = 0, out = 8;

	std::swap(server.rx, shared);
	connect();
	ASSERT_EQ(server.rx.post({.opcode = TREADLE_OP_RECV,
				  .flags = TREADLE_F_COMPLETION,
				  .context = 6,
				  .addr = address_of(&in),
				  .len = sizeof(in)}),
		  ok);
	ASSERT_EQ(client.ep->close(), ok);
	EXPECT_EQ(next(server.events).event, __u32{TREADLE_EVENT_SHUTDOWN});
	EXPECT_TRUE(stays_empty(server.cq));

	ASSERT_EQ(server.ep->close(), ok);
	client.enable(Endpoint::create(client.context, loopback(), TREADLE_EP_MSG), 1);
	connect();
	ASSERT_EQ(client.tx.post({.opcode = TREADLE_OP_SEND,
				  .addr = address_of(&out),
				  .len = sizeof(out)}),
		  ok);
	EXPECT_EQ(reap_one(server.cq).context, 6u);
	EXPECT_EQ(in, out);
}

TEST_F(ConnectionTest, a_queue_with_endpoints_stays)
{
	EXPECT_EQ(client.events.close(), from_errno(EBUSY));
	EXPECT_EQ(requests.close(), from_errno(EBUSY));
	EXPECT_EQ(listener.close(), ok);
	EXPECT_EQ(requests.close(), ok);
}

TEST_F(ConnectionTest, the_file_is_readable_while_there_is_an_event)
{
	pollfd file{must(requests.fd(), "fd"), POLLIN, 0};

	EXPECT_EQ(poll(&file, 1, 0), 0);
	EXPECT_EQ(client.ep->connect(listener.address()), ok);
	EXPECT_EQ(poll(&file, 1, patience_ms), 1);
	next(requests);
	EXPECT_EQ(poll(&file, 1, 0), 0);
}

TEST_F(ConnectionTest, a_signal_ends_the_wait)
{
	EXPECT_EQ(requests.signal(), ok);
	EXPECT_EQ(requests.wait(patience), from_errno(ECANCELED));
}

TEST_F(ConnectionTest, a_child_reads_nothing)
{
	EXPECT_EQ(client.ep->connect(listener.address()), ok);
	const pid_t child = fork();
	if (!child) {
		treadle_event event;
		_exit(requests.read(event) == from_errno(EPERM) &&
				      client.ep->shutdown() == from_errno(EPERM) ?
			      0 :
			      1);
	}
	int status = -1;
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(next(requests).event, __u32{TREADLE_EVENT_CONNREQ});
}

TEST_F(ConnectionTest, without_a_connection_there_is_nothing_to_end_or_accept)
{
	EXPECT_EQ(client.ep->shutdown(), from_errno(ENOTCONN));
	EXPECT_EQ(client.ep->accept(), from_errno(EINVAL));
	Node other;
	EXPECT_EQ(other.ep.shutdown(), from_errno(EOPNOTSUPP));
	EXPECT_EQ(other.ep.bind(requests, 0), from_errno(EOPNOTSUPP));
}

} // namespace
