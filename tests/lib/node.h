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

/* Generous, because the tests run under emulation; TEST_PATIENCE: tests/run-programs. What must not come is waited for shortly. */
inline const std::chrono::nanoseconds patience = [] {
	const char *times = std::getenv("TEST_PATIENCE");
	return 20s * (times ? std::atoi(times) : 1);
}();
inline const int patience_ms = static_cast<int>(patience / std::chrono::milliseconds(1));
constexpr std::chrono::nanoseconds a_moment = 100ms;

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
	std::uint64_t to(const treadle_addr &address);
	std::uint64_t to(const Node &other) { return to(other.ep.address()); }

	/* Plain messages, each with a completion. */
	int send(std::span<const std::byte> data, std::uint64_t peer, std::uint64_t context = 0,
		 std::uint32_t flags = 0);
	int receive(std::span<std::byte> buffer, std::uint64_t context = 0,
		    std::uint64_t peer = TREADLE_ADDR_ANY);
	int send_tagged(std::span<const std::byte> data, std::uint64_t peer, std::uint64_t tag,
			std::uint64_t context = 0, std::uint32_t flags = 0);
	int receive_tagged(std::span<std::byte> buffer, std::uint64_t tag, std::uint64_t ignore = 0,
			   std::uint64_t context = 0, std::uint64_t peer = TREADLE_ADDR_ANY);
};

/* Two of them which know each other. */
class PairTest : public testing::Test
{
protected:
	Node a;
	Node b;
	std::uint64_t a_to_b = a.to(b);
	std::uint64_t b_to_a = b.to(a);
};

/* Memory that nobody has touched. */
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

/* Waits for n completions, which all come within patience; fewer if they do not. */
template <class Queue> std::vector<treadle_cqe> reap(Queue &queue, std::size_t n)
{
	const auto deadline = std::chrono::steady_clock::now() + patience;
	std::vector<treadle_cqe> all(n);
	std::size_t have = 0;

	while (have < n) {
		const int rc = queue.read(std::span(all).subspan(have));

		if (rc > 0)
			have += static_cast<std::size_t>(rc);
		else if (rc != -EAGAIN || std::chrono::steady_clock::now() > deadline)
			break;
		else
			queue.wait(std::chrono::nanoseconds(1s).count());
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
	treadle_cqe cqe;

	return queue.wait(a_moment.count()) == -ETIMEDOUT && queue.read({&cqe, 1}) == -EAGAIN;
}

/* Whether a counter comes to be a value within patience, and is no more. */
inline bool reaches(const Counter &counter, std::uint64_t value)
{
	return !counter.wait(value, counter.error(), patience.count()) && counter.value() == value;
}

/* The same of its errors. */
inline bool fails(const Counter &counter, std::uint64_t errors)
{
	while (counter.error() != errors)
		if (counter.wait(UINT64_MAX, counter.error(), patience.count()))
			return counter.error() == errors;
	return true;
}

/* len bytes that no other seed has. */
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
