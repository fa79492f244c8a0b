// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/*
 * Memory of a stopped process, written, changed and read by another one.
 *
 * Two processes. The child registers some words, sends their key in a tagged message, and stops
 * itself. The parent writes them, adds to one of them, swaps another and reads them back, although
 * the child never ran in between.
 *
 *	c++ -std=c++23 remote_memory.cpp -ltreadle && ./a.out
 */

#include <signal.h>
#include <sys/wait.h>

#include "example.h"

using namespace treadle;

struct Side {
	Station station = value_of(Station::open(), "open " TREADLE_DEVICE);
	Peer peer;

	explicit Side(int line)
		: peer(value_of(station.peers.insert(exchange(line, station.address())),
				"insert address"))
	{
	}

	/* Waits for the end of a command that was posted. */
	void finish(std::error_code posted, const char *what)
	{
		check(posted, what);
		next(station.queue);
	}
};

constexpr std::size_t words = 4;
constexpr std::uint64_t where_it_is = 7; /* a tag */

static void child(int line)
{
	Side side(line);
	std::uint64_t memory[words]{};
	/* The kernel picks the key, so that no other process can guess it. */
	const MemoryRegion region =
		value_of(MemoryRegion::create(side.station.context, bytes_of(memory),
					      {.access = TREADLE_ACCESS_REMOTE_READ |
							 TREADLE_ACCESS_REMOTE_WRITE,
					       .flags = TREADLE_MR_KERNEL_KEY}),
			 "memory region");
	const std::uint64_t key = region.key();

	side.finish(side.station.tx.send_tagged(bytes_of(key), side.peer, where_it_is),
		    "tagged send");
	raise(SIGSTOP);
	/* The parent has sent SIGCONT, after it had done all of this without the child. */
	std::exit(memory[0] != 15 || memory[1] != 99 || memory[2] != 30 || memory[3] != 40);
}

static void parent(int line, pid_t pid)
{
	Side side(line);
	TransmitRing &tx = side.station.tx;
	const std::uint64_t out[words] = {10, 20, 30, 40}, five = 5, twenty = 20, ninety_nine = 99;
	std::uint64_t key, before, swapped, in[words];
	int status;

	side.finish(side.station.rx.receive_tagged(bytes_of(key), where_it_is), "tagged receive");
	waitpid(pid, &status, WUNTRACED);
	std::printf("the child has %s\n", WIFSTOPPED(status) ? "stopped" : "failed");

	/* Peers name offsets into the region, which are addresses with TREADLE_MR_VIRT_ADDR. */
	const Remote first{.addr = 0, .key = key}, second{.addr = 8, .key = key};

	side.finish(tx.write(bytes_of(out), side.peer, first), "write");
	side.finish(tx.post(Command::fetch(TREADLE_ATOMIC_SUM, TREADLE_UINT64, bytes_of(five),
					   bytes_of(before), side.peer, first)
				    .completion()),
		    "fetch and add");
	side.finish(tx.post(Command::compare(TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
					     bytes_of(ninety_nine), bytes_of(twenty),
					     bytes_of(swapped), side.peer, second)
				    .completion()),
		    "compare and swap");
	side.finish(tx.read(bytes_of(in), side.peer, first), "read");
	std::printf("its memory: %lu (was %lu), %lu (was %lu), %lu, %lu\n", in[0], before, in[1],
		    swapped, in[2], in[3]);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	std::exit(before != 10 || swapped != 20 || status != 0);
}

int main()
{
	return in_two_processes(parent, child);
}
