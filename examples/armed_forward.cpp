// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/*
 * A message, and a treadle: a command that was armed before runs when the message arrives.
 *
 * Two processes. The child posts a receive. It arms a send of the same buffer back to the parent,
 * to start when its receive counter reaches 1. Then it stops itself. The parent sends one message,
 * and gets it back, although the child never ran in between.
 *
 *	c++ -std=c++23 armed_forward.cpp -ltreadle && ./a.out
 */

#include <cstring>

#include <signal.h>
#include <sys/wait.h>

#include "example.h"

using namespace treadle;

/*
 * The objects that an endpoint needs. They are destroyed in reverse order of their declaration: the
 * endpoint before the objects that it is bound to, the context last.
 */
struct Side {
	Context context = value_of(Context::open(), "open " TREADLE_DEVICE);
	AddressVector peers = value_of(AddressVector::create(context), "address vector");
	CompletionQueue completions =
		value_of(CompletionQueue::create(context, 16), "completion queue");
	Counter received = value_of(Counter::create(context), "counter");
	TransmitRing tx = value_of(TransmitRing::create(context, 16), "transmit ring");
	ReceiveRing rx = value_of(ReceiveRing::create(context, 16), "receive ring");
	/* 127.0.0.1 and any free port */
	Endpoint endpoint = value_of(Endpoint::create(context, loopback()), "endpoint");

	Side()
	{
		check(endpoint.enable({.tx = tx.id(),
				       .rx = rx.id(),
				       .av = peers.id(),
				       .tx_cq = completions.id(),
				       .rx_cq = completions.id(),
				       .recv = received.id()}),
		      "enable");
	}

	/* Messages name a peer by its index in the address vector. */
	std::uint64_t meet(int line)
	{
		return value_of(peers.insert(exchange(line, endpoint.address())), "insert address");
	}

	/* Posting a receive is no system call. */
	void receive(char *buffer, std::size_t len)
	{
		check(rx.post({.opcode = TREADLE_OP_RECV,
			       .flags = TREADLE_F_COMPLETION,
			       .addr = address_of(buffer),
			       .len = len}),
		      "receive");
	}
};

static void child(int line)
{
	Side side;
	const std::uint64_t parent = side.meet(line);
	char buffer[32] = "";

	side.receive(buffer, sizeof(buffer));
	/* condition and operation; there is no notification */
	check(side.context.submit(Command::send(buffer, sizeof(buffer), parent)
					  .on(side.endpoint.id())
					  .work()
					  .when(side.received.id(), 1)),
	      "arm");
	raise(SIGSTOP);
}

static void parent(int line, pid_t pid)
{
	Side side;
	const std::uint64_t child = side.meet(line);
	const char out[32] = "one press, and the threads move";
	char in[32] = "";
	int status;

	waitpid(pid, &status, WUNTRACED);
	std::printf("the child has %s\n", WIFSTOPPED(status) ? "stopped" : "failed");

	side.receive(in, sizeof(in));
	check(side.tx.post({.opcode = TREADLE_OP_SEND,
			    .addr = address_of(out),
			    .len = sizeof(out),
			    .peer = child}),
	      "send");
	const treadle_cqe cqe = next(side.completions);
	std::printf("%llu bytes came back: \"%s\"\n", cqe.len, in);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	std::exit(std::memcmp(in, out, sizeof(in)) != 0 || status != 0);
}

int main()
{
	return in_two_processes(parent, child);
}
