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
	Context context = value_of(Context::open(), "open " TREADLE_DEVICE);
	AddressVector peers = value_of(AddressVector::create(context), "address vector");
	CompletionQueue completions =
		value_of(CompletionQueue::create(context, 16), "completion queue");
	TransmitRing tx = value_of(TransmitRing::create(context, 16), "transmit ring");
	ReceiveRing rx = value_of(ReceiveRing::create(context, 16), "receive ring");
	Endpoint endpoint = value_of(Endpoint::create(context, loopback()), "endpoint");
	std::uint64_t peer;

	explicit Side(int line)
	{
		check(endpoint.enable({.tx = tx.id(),
				       .rx = rx.id(),
				       .av = peers.id(),
				       .tx_cq = completions.id(),
				       .rx_cq = completions.id()}),
		      "enable");
		peer = value_of(peers.insert(exchange(line, endpoint.address())), "insert address");
	}

	/* Posts a command and waits for its end. */
	void run(Command command, const char *what)
	{
		check(tx.post(command.completion()), what);
		next(completions);
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
		value_of(MemoryRegion::create(side.context, memory, sizeof(memory),
					      {.access = TREADLE_ACCESS_REMOTE_READ |
							 TREADLE_ACCESS_REMOTE_WRITE,
					       .flags = TREADLE_MR_KERNEL_KEY}),
			 "memory region");
	const std::uint64_t key = region.key();

	side.run(Command::send_tagged(&key, sizeof(key), side.peer, where_it_is), "tagged send");
	raise(SIGSTOP);
	/* The parent has sent SIGCONT, after it had done all of this without the child. */
	std::exit(memory[0] != 15 || memory[1] != 99 || memory[2] != 30 || memory[3] != 40);
}

static void parent(int line, pid_t pid)
{
	Side side(line);
	const std::uint64_t out[words] = {10, 20, 30, 40}, five = 5, twenty = 20, ninety_nine = 99;
	std::uint64_t key, before, swapped, in[words];
	int status;

	check(side.rx.post({.opcode = TREADLE_OP_TRECV,
			    .flags = TREADLE_F_COMPLETION,
			    .addr = address_of(&key),
			    .len = sizeof(key),
			    .tag = where_it_is}),
	      "tagged receive");
	next(side.completions);
	waitpid(pid, &status, WUNTRACED);
	std::printf("the child has %s\n", WIFSTOPPED(status) ? "stopped" : "failed");

	/* Peers name offsets into the region, which are addresses with TREADLE_MR_VIRT_ADDR. */
	side.run(Command::write(out, sizeof(out), side.peer, 0, key), "write");
	side.run(Command::fetch(TREADLE_ATOMIC_SUM, TREADLE_UINT64, &five, &before, sizeof(five),
				side.peer, 0, key),
		 "fetch and add");
	side.run(Command::compare(TREADLE_ATOMIC_CSWAP, TREADLE_UINT64, &ninety_nine, &twenty,
				  &swapped, sizeof(swapped), side.peer, 8, key),
		 "compare and swap");
	side.run(Command::read(in, sizeof(in), side.peer, 0, key), "read");
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
