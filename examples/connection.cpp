// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/*
 * A connection: requested, accepted, used, and ended.
 *
 * Two processes. The parent listens, and accepts the child's request. The child sends a message
 * over the connection and exits; the parent gets an event for that.
 *
 *	c++ -std=c++23 connection.cpp -ltreadle && ./a.out
 */

#include <cstring>
#include <string_view>

#include <sys/wait.h>

#include "example.h"

using namespace treadle;

/* The objects that a connected endpoint needs: an event queue instead of an address vector. */
struct Side {
	Context context = value_of(Context::open(), "open " TREADLE_DEVICE);
	EventQueue events = value_of(EventQueue::create(context), "event queue");
	CompletionQueue completions =
		value_of(CompletionQueue::create(context, 16), "completion queue");
	TransmitRing tx = value_of(TransmitRing::create(context, 16), "transmit ring");
	ReceiveRing rx = value_of(ReceiveRing::create(context, 16), "receive ring");

	Endpoint enabled(Result<Endpoint> made)
	{
		Endpoint endpoint = value_of(std::move(made), "endpoint");

		check(endpoint.bind(events, 0), "bind");
		check(endpoint.enable({.tx = tx.id(),
				       .rx = rx.id(),
				       .tx_cq = completions.id(),
				       .rx_cq = completions.id()}),
		      "enable");
		return endpoint;
	}

	/* Waits for the next event, which must be of this kind. */
	treadle_event await(std::uint32_t kind, const char *what)
	{
		const treadle_event event = value_of(events.next(), "read events");

		if (event.event != kind) {
			std::fprintf(stderr, "event %u, not %s\n", event.event, what);
			std::exit(1);
		}
		return event;
	}
};

static std::span<const std::byte> bytes(std::string_view text)
{
	return std::as_bytes(std::span(text));
}

static void print(const char *what, std::span<const std::byte> said)
{
	std::printf("%s: \"%.*s\"\n", what, static_cast<int>(said.size()),
		    reinterpret_cast<const char *>(said.data()));
}

static void child(int line)
{
	Side side;
	const char out[] = "over and out";

	Endpoint endpoint =
		side.enabled(Endpoint::create(side.context, loopback(), TREADLE_EP_MSG));
	const treadle_addr server = exchange(line, endpoint.address());
	/* Up to TREADLE_CM_DATA bytes are sent along with the request, and with its answer. */
	check(endpoint.connect(server, bytes("may I?")), "connect");
	print("the answer", data_of(side.await(TREADLE_EVENT_CONNECTED, "connected")));
	/* A connected endpoint has one peer only, so none is named. */
	check(side.tx.send(bytes_of(out), Peer::any), "send");
	next(side.completions);
}

static void parent(int line, pid_t pid)
{
	Side side;
	PassiveEndpoint listener =
		value_of(PassiveEndpoint::create(side.context, loopback()), "passive endpoint");
	char in[32] = "";
	int status;

	check(listener.bind(side.events, 0), "bind");
	check(listener.listen(), "listen");
	exchange(line, listener.address());

	const treadle_event request = side.await(TREADLE_EVENT_CONNREQ, "a request");
	print("a request", data_of(request));
	Endpoint endpoint = side.enabled(Endpoint::create(side.context, request_of(request)));
	check(side.rx.receive(bytes_of(in)), "receive");
	check(endpoint.accept(bytes("you may")), "accept");
	side.await(TREADLE_EVENT_CONNECTED, "connected");
	std::printf("%zu bytes came: \"%s\"\n", next(side.completions).size(), in);
	side.await(TREADLE_EVENT_SHUTDOWN, "the end");
	std::printf("the other side has gone\n");
	waitpid(pid, &status, 0);
	std::exit(std::strcmp(in, "over and out") != 0 || status != 0);
}

int main()
{
	return in_two_processes(parent, child);
}
