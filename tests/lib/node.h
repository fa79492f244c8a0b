// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_LIB_NODE_H
#define TREADLE_TESTS_LIB_NODE_H

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include <sys/mman.h>

#include <gtest/gtest.h>
#include <treadle/treadle.h>

using namespace treadle;
using namespace std::chrono_literals;

/*
 * How long to wait for what must come: long, because the tests run under emulation. TEST_PATIENCE:
 * see tests/run-programs. What must not come is waited for during a_moment.
 */
inline const std::chrono::nanoseconds patience = [] {
	const char *times = std::getenv("TEST_PATIENCE");
	return 20s * (times ? std::atoi(times) : 1);
}();
inline const int patience_ms = static_cast<int>(patience / std::chrono::milliseconds(1));
constexpr std::chrono::nanoseconds a_moment = 100ms;

/* What a call without error returns. */
inline const std::error_code ok = from_errno(0);

template <class T> T must(Result<T> result, const char *what)
{
	if (result)
		return std::move(*result);
	ADD_FAILURE() << what << ": " << result.error().message();
	std::abort();
}

/* A context with one endpoint, everything bound to it, everything small enough to overflow. */
struct Node {
	struct Options {
		std::uint32_t ring = 64;
		std::uint32_t queue = 64;
		std::uint32_t buffered = 0;
		std::uint32_t flags = TREADLE_EP_SOURCE;
	};

	explicit Node(const Options &options);
	Node() : Node(Options{}) {}

	Context context;
	AddressVector av;
	CompletionQueue tx_cq;
	CompletionQueue rx_cq;
	Counter sent;
	Counter received;
	TransmitRing tx;
	ReceiveRing rx;
	Endpoint ep;

	/* The index that a message to another endpoint needs. */
	Peer to(const treadle_addr &address);
	Peer to(const Node &other) { return to(other.ep.address()); }

	/* Plain messages, each with a completion. */
	std::error_code send(std::span<const std::byte> data, Peer peer, std::uint64_t context = 0,
			     std::uint32_t flags = 0);
	std::error_code receive(std::span<std::byte> buffer, std::uint64_t context = 0,
				Peer peer = Peer::any);
	std::error_code send_tagged(std::span<const std::byte> data, Peer peer, std::uint64_t tag,
				    std::uint64_t context = 0, std::uint32_t flags = 0);
	std::error_code receive_tagged(std::span<std::byte> buffer, std::uint64_t tag,
				       std::uint64_t ignore = 0, std::uint64_t context = 0,
				       Peer peer = Peer::any);
};

/* Two nodes that have each other in their address vectors. */
class PairTest : public testing::Test
{
protected:
	Node a;
	Node b;
	Peer a_to_b = a.to(b);
	Peer b_to_a = b.to(a);
};

/* Pages that were never accessed. */
class Pages
{
public:
	explicit Pages(std::size_t n, int prot = PROT_READ | PROT_WRITE)
		: len_(n * 4096),
		  addr_(mmap(nullptr, len_, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
	{
	}
	Pages(const Pages &) = delete;
	Pages &operator=(const Pages &) = delete;
	~Pages() { munmap(addr_, len_); }

	std::span<std::byte> span() { return {static_cast<std::byte *>(addr_), len_}; }
	void unmap(std::size_t page) { munmap(static_cast<char *>(addr_) + page * 4096, 4096); }

private:
	std::size_t len_;
	void *addr_;
};

/* BasicCompletionQueue::read, with completions as the kernel has written them. */
template <class Queue> Result<std::uint32_t> read_raw(Queue &queue, std::span<treadle_cqe> out)
{
	auto to = out.begin();

	return queue.consume(static_cast<std::uint32_t>(out.size()), [&](const treadle_cqe &cqe) {
		*to++ = cqe;
		return true;
	});
}

/* Waits for n completions, which all come within patience; fewer if they do not. */
template <class Queue> std::vector<treadle_cqe> reap(Queue &queue, std::size_t n)
{
	const auto deadline = std::chrono::steady_clock::now() + patience;
	std::vector<treadle_cqe> all(n);
	std::size_t have = 0;

	while (have < n) {
		const auto got = read_raw(queue, std::span(all).subspan(have));

		if (got)
			have += *got;
		else if (got.error() != from_errno(EAGAIN) ||
			 std::chrono::steady_clock::now() > deadline)
			break;
		else
			std::ignore = queue.wait(1s);
	}
	all.resize(have);
	EXPECT_EQ(have, n) << "completions are missing";
	return all;
}

/* One completion, of zeros if none came. */
template <class Queue> treadle_cqe reap_one(Queue &queue)
{
	const auto all = reap(queue, 1);

	return all.empty() ? treadle_cqe{} : all[0];
}

/* Whether a queue stays empty for a moment. */
template <class Queue> bool stays_empty(Queue &queue)
{
	return queue.wait(a_moment) == from_errno(ETIMEDOUT) && !queue.ready();
}

/* Whether a counter comes to be a value within patience, and is no more. */
inline bool reaches(const Counter &counter, std::uint64_t value)
{
	return !counter.wait(value, counter.error(), patience) && counter.value() == value;
}

/* The same for its errors. */
inline bool fails(const Counter &counter, std::uint64_t errors)
{
	while (counter.error() != errors)
		if (counter.wait(UINT64_MAX, counter.error(), patience))
			return counter.error() == errors;
	return true;
}

/* Buffers of len bytes. */
inline std::span<std::byte> bytes_at(void *at, std::size_t len)
{
	return {static_cast<std::byte *>(at), len};
}
inline std::span<const std::byte> bytes_at(const void *at, std::size_t len)
{
	return {static_cast<const std::byte *>(at), len};
}

/* len bytes, different for each seed. */
std::vector<std::byte> pattern(std::size_t len, std::uint64_t seed);

inline std::span<const std::byte> bytes(std::string_view text)
{
	return std::as_bytes(std::span(text));
}

template <class T> std::span<std::byte> bytes_of(T &value)
{
	return std::as_writable_bytes(std::span(&value, 1));
}

#endif
