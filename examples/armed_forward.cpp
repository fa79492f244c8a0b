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

using Text = char[32];

/* An endpoint at 127.0.0.1 and any free port, and all that it needs. */
static Station open_station()
{
	return value_of(Station::open(), "open " TREADLE_DEVICE);
}

/* Messages name a peer by its index in the address vector. */
static Peer meet(Station &station, int line)
{
	return value_of(station.peers.insert(exchange(line, station.address())), "insert address");
}

static void child(int line)
{
	Station station = open_station();
	const Peer parent = meet(station, line);
	Text buffer = "";

	/* Posting a receive is no system call. */
	check(station.rx.receive(bytes_of(buffer)), "receive");
	/* condition and operation; there is no notification */
	check(station.context.submit(Command::send(bytes_of(buffer), parent)
					     .on(station.endpoint.id())
					     .work()
					     .when(station.received.id(), 1)),
	      "arm");
	raise(SIGSTOP);
}

static void parent(int line, pid_t pid)
{
	Station station = open_station();
	const Peer child = meet(station, line);
	const Text out = "one press, and the threads move";
	Text in = "";
	int status;

	waitpid(pid, &status, WUNTRACED);
	std::printf("the child has %s\n", WIFSTOPPED(status) ? "stopped" : "failed");

	check(station.rx.receive(bytes_of(in)), "receive");
	check(station.tx.send(bytes_of(out), child, {.flags = 0 /* no completion */}), "send");
	std::printf("%zu bytes came back: \"%s\"\n", next(station.queue).size(), in);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	std::exit(std::memcmp(in, out, sizeof(in)) != 0 || status != 0);
}

int main()
{
	return in_two_processes(parent, child);
}
