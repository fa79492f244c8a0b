// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/*
 * A message, and a treadle: what was armed before moves when it arrives.
 *
 * Two processes. The child posts a receive, and arms a send of the same buffer
 * back to where it came from, to start when its receive counter reaches 1. Then it
 * stops itself. The parent sends one message, and gets it back, although the
 * child never ran in between.
 *
 *	c++ -std=c++23 armed_forward.cpp -ltreadle && ./a.out
 */

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <treadle/treadle.h>

using namespace treadle;

/* Creating something gives a value or an errno; never an exception. */
template <class T> static T value_of(Result<T> result, const char *what)
{
	if (!result) {
		std::fprintf(stderr, "%s: %s\n", what, result.error().message());
		std::exit(1);
	}
	return std::move(*result);
}

/* Posting gives 0 or -errno. */
static void check(int rc, const char *what)
{
	if (rc < 0) {
		std::fprintf(stderr, "%s: %s\n", what, Errno(-rc).message());
		std::exit(1);
	}
}

/*
 * What an endpoint needs. Owners are destroyed in reverse order of their
 * declaration: the endpoint before what it is bound to, the context last. A
 * context belongs to the process that opened it, so each process makes its own
 * after fork.
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

	/* Addresses are exchanged by other means, here a socket; messages then name an index. */
	std::uint64_t meet(int line)
	{
		treadle_addr other = endpoint.address();

		if (write(line, &other, sizeof(other)) != sizeof(other) ||
		    read(line, &other, sizeof(other)) != sizeof(other))
			std::exit(1);
		return value_of(peers.insert(other), "insert address");
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

	/* Nor is reading completions; waiting for one is. */
	treadle_cqe complete()
	{
		treadle_cqe cqe;
		int rc;

		while ((rc = completions.read({&cqe, 1})) == -EAGAIN)
			check(completions.wait(-1), "wait");
		check(rc, "read completions");
		check(-static_cast<int>(cqe.error), "completion");
		return cqe;
	}
};

static void child(int line)
{
	Side side;
	const std::uint64_t parent = side.meet(line);
	char buffer[32] = "";

	side.receive(buffer, sizeof(buffer));
	/* condition, operation; the notification is left out */
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
	const treadle_cqe cqe = side.complete();
	std::printf("%llu bytes came back: \"%s\"\n", cqe.len, in);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	std::exit(std::memcmp(in, out, sizeof(in)) != 0 || status != 0);
}

int main()
{
	int line[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, line))
		return 1;
	const pid_t pid = fork();
	if (pid < 0)
		return 1;
	/* The other end is closed, so that nobody waits for one who has failed. */
	close(line[pid ? 1 : 0]);
	if (pid)
		parent(line[0], pid);
	else
		child(line[1]);
	return 0;
}
