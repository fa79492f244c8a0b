// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* The library as programs use it: types that refuse what is wrong, errors, times, files, one line. */

#include <fstream>
#include <type_traits>

#include <poll.h>

#include "node.h"

namespace
{

/* --- what must not compile ----------------------------------------------------------------- */

template <class Ring>
concept Sends = requires(Ring &ring, std::span<const std::byte> data)
{
	ring.send(data, Peer{0});
	ring.send_tagged(data, Peer{0}, 1);
	ring.write(data, Peer{0}, Remote{0, 0});
};
template <class Ring>
concept Receives = requires(Ring &ring, std::span<std::byte> buffer)
{
	ring.receive(buffer);
	ring.receive_tagged(buffer, 1);
};
template <class Ring>
concept HasReceive = requires(Ring &ring, std::span<std::byte> buffer)
{
	ring.receive(buffer);
};
template <class Ring>
concept HasSend = requires(Ring &ring, std::span<std::byte> data)
{
	ring.send(data, Peer{0});
};

static_assert(Sends<TransmitRing> && Sends<SharedTransmitRing>);
static_assert(Receives<ReceiveRing> && Receives<SharedReceiveRing>);
static_assert(!HasReceive<TransmitRing> && !HasReceive<SharedTransmitRing>);
static_assert(!HasSend<ReceiveRing> && !HasSend<SharedReceiveRing>);

/* A receive writes, so its buffer is not const; a send takes a peer, not any number. */
template <class Byte>
concept ReceivesInto = requires(ReceiveRing &ring, std::span<Byte> buffer)
{
	ring.receive(buffer);
};
template <class To>
concept SendsTo = requires(TransmitRing &ring, std::span<const std::byte> data, To to)
{
	ring.send(data, to);
};
static_assert(ReceivesInto<std::byte> && !ReceivesInto<const std::byte>);
static_assert(SendsTo<Peer> && !SendsTo<std::uint64_t> && !SendsTo<int>);

/* Setters of a temporary return a temporary, so that no reference to it is left. */
static_assert(std::is_same_v<decltype(Command::nop().work()), Command &&>);
static_assert(std::is_same_v<decltype(std::declval<Command &>().work()), Command &>);
template <class C>
concept LeavesReference = requires(void (*keep)(C &))
{
	keep(C::nop().work());
};
static_assert(!LeavesReference<Command>);

/* A plain number is no time. */
template <class Time>
concept WaitsFor = requires(const CompletionQueue &queue, Time time)
{
	queue.wait(time);
};
static_assert(WaitsFor<std::chrono::milliseconds> && !WaitsFor<int> && !WaitsFor<std::int64_t>);

/* --- errors ---------------------------------------------------------------------------------- */

TEST(Errors, are_error_codes)
{
	const auto error = Context::open("/nowhere").error();

	EXPECT_EQ(error.category(), category());
	EXPECT_STREQ(error.category().name(), "treadle");
	EXPECT_EQ(error.value(), ENOENT);
	EXPECT_EQ(error, std::errc::no_such_file_or_directory);
	EXPECT_NE(error, std::errc::permission_denied);
	EXPECT_EQ(error.default_error_condition().category(), std::generic_category());
	EXPECT_FALSE(from_errno(0));
	EXPECT_TRUE(from_errno(EAGAIN));
}

TEST(Errors, say_what_the_system_has_no_words_for)
{
	EXPECT_EQ(from_errno(TREADLE_ETRUNC).message(), "Message longer than the buffer");
	EXPECT_NE(from_errno(EPROTO).message().find("different ABI versions"), std::string::npos);
	EXPECT_STREQ(describe(99999), "Unknown error");
}

/* --- one line -------------------------------------------------------------------------------- */

class StationTest : public testing::Test
{
protected:
	Station station = must(Station::open(), "station");
	Peer self = must(station.peers.insert(station.address()), "insert");
};

TEST_F(StationTest, sends_and_receives)
{
	const auto out = pattern(100, 1);
	std::vector<std::byte> in(200);

	ASSERT_EQ(station.rx.receive(in, {.context = 1}), ok);
	ASSERT_EQ(station.tx.send(out, self, {.context = 2}), ok);
	for (int i = 0; i < 2; ++i) {
		const auto done = must(station.queue.next(patience), "next");

		EXPECT_EQ(done.error(), ok);
		if (done.context() == 2) {
			EXPECT_EQ(done.flags(), TREADLE_CQ_MSG | TREADLE_CQ_SEND);
			continue;
		}
		EXPECT_EQ(done.context(), 1u);
		EXPECT_EQ(done.flags(), TREADLE_CQ_MSG | TREADLE_CQ_RECV);
		EXPECT_EQ(done.size(), 100u);
		EXPECT_EQ(done.received().data(), in.data());
		EXPECT_TRUE(std::ranges::equal(done.received(), out));
		EXPECT_EQ(done.source(), self);
		EXPECT_EQ(done.data(), std::nullopt);
	}
	EXPECT_TRUE(reaches(station.sent, 1));
	EXPECT_TRUE(reaches(station.received, 1));
}

TEST_F(StationTest, tags_and_remote_memory)
{
	std::uint64_t word = 0, read = 0, tagged = 0;
	const std::uint64_t one = 1;
	const auto region = must(MemoryRegion::create(station.context, bytes_of(word),
						      {.access = TREADLE_ACCESS_REMOTE_READ |
								 TREADLE_ACCESS_REMOTE_WRITE,
						       .flags = TREADLE_MR_KERNEL_KEY}),
				 "region");
	const Remote there{.addr = 0, .key = region.key()};
	const auto out = std::as_bytes(std::span(&one, 1));

	ASSERT_EQ(station.rx.receive_tagged(bytes_of(tagged), 0x75, 0x0f, {.from = self}), ok);
	ASSERT_EQ(station.tx.send_tagged(out, self, 0x7a), ok);
	ASSERT_EQ(station.tx.write(out, self, there), ok);
	ASSERT_EQ(station.tx.read(bytes_of(read), self, there), ok);
	for (int i = 0; i < 4; ++i) {
		const auto done = must(station.queue.next(patience), "next");

		EXPECT_EQ(done.error(), ok);
		if (done.flags() & TREADLE_CQ_RECV) {
			EXPECT_EQ(done.tag(), 0x7au);
		}
	}
	EXPECT_EQ(word, 1u);
	EXPECT_EQ(tagged, 1u);
}

TEST_F(StationTest, an_error_of_an_operation_is_in_its_completion)
{
	std::byte in[4];
	const auto out = pattern(10, 1);

	ASSERT_EQ(station.rx.receive(in), ok);
	ASSERT_EQ(station.tx.send(out, self, {.flags = 0}), ok);
	const auto done = must(station.queue.next(patience), "next");
	EXPECT_EQ(done.error(), from_errno(TREADLE_ETRUNC));
	EXPECT_EQ(done.size(), 4u);
	EXPECT_EQ(done.cut(), 6u);
	EXPECT_EQ(station.tx.send(out, Peer{4711}), std::errc::destination_address_required);
}

TEST_F(StationTest, may_be_moved)
{
	std::uint64_t in = 0;
	const std::uint64_t out = 3;
	Station moved = std::move(station);

	ASSERT_EQ(moved.rx.receive(bytes_of(in)), ok);
	ASSERT_EQ(moved.tx.send(std::as_bytes(std::span(&out, 1)), self, {.flags = 0}), ok);
	EXPECT_EQ(must(moved.queue.next(patience), "next").size(), 8u);
	EXPECT_EQ(moved.sent.add(1), ok);
}

TEST(Station, says_why_it_does_not_open)
{
	const auto first = must(Station::open(), "station");

	EXPECT_EQ(Station::open({.address = first.address()}).error(), std::errc::address_in_use);
	EXPECT_EQ(Station::open({.entries = first.context.limits().max_ring + 1}).error(),
		  std::errc::invalid_argument);
	EXPECT_EQ(Station::open({.type = TREADLE_EP_PASSIVE}).error(),
		  std::errc::operation_not_supported);
}

/* --- atomics: spans have sizes ----------------------------------------------------------------- */

TEST_F(StationTest, buffers_of_an_atomic_are_of_one_size)
{
	std::uint64_t operands[2] = {1, 1}, results[2];
	const auto one = bytes_of(operands[0]), two = bytes_of(operands);
	const auto fetch = [&](std::span<const std::byte> from, std::span<std::byte> to) {
		return station.tx.post(
			Command::fetch(TREADLE_ATOMIC_SUM, TREADLE_UINT64, from, to, self, {0, 0}));
	};
	const auto compare = [&](std::span<const std::byte> with, std::span<std::byte> to) {
		return station.tx.post(Command::compare(TREADLE_ATOMIC_CSWAP, TREADLE_UINT64, one,
							with, to, self, {0, 0}));
	};

	EXPECT_EQ(fetch(two, bytes_of(results[0])), from_errno(EINVAL));
	EXPECT_EQ(fetch(one, bytes_of(results)), from_errno(EINVAL));
	EXPECT_EQ(compare(two, bytes_of(results[0])), from_errno(EINVAL));
	EXPECT_EQ(compare(one, bytes_of(results)), from_errno(EINVAL));
	EXPECT_NE(fetch(one, bytes_of(results[0])), from_errno(EINVAL));
	EXPECT_NE(compare(one, bytes_of(results[0])), from_errno(EINVAL));
}

/* --- times ------------------------------------------------------------------------------------- */

TEST_F(StationTest, times_have_units)
{
	EXPECT_EQ(station.queue.next(0s).error(), from_errno(EAGAIN));
	EXPECT_EQ(station.queue.next(-1h).error(), from_errno(EAGAIN)) << "not for ever";
	EXPECT_EQ(station.queue.wait(-1ns), from_errno(EAGAIN));
	EXPECT_EQ(station.queue.next(50ms).error(), from_errno(ETIMEDOUT));
	EXPECT_EQ(station.received.wait(1, 0, -1ns), from_errno(EAGAIN));
	EXPECT_EQ(station.received.wait(0, 0), ok) << "for ever, if it has to";
	EXPECT_EQ(station.queue.signal(), ok);
	EXPECT_EQ(station.queue.next().error(), from_errno(ECANCELED));
}

TEST_F(StationTest, an_event_queue_waits_for_the_next_event)
{
	auto events = must(EventQueue::create(station.context), "event queue");

	EXPECT_EQ(events.next(0s).error(), from_errno(EAGAIN));
	EXPECT_EQ(events.next(50ms).error(), from_errno(ETIMEDOUT));
	EXPECT_EQ(events.signal(), ok);
	EXPECT_EQ(events.next().error(), from_errno(ECANCELED));
}

/* --- files ------------------------------------------------------------------------------------- */

/* Under one name, for poll, epoll and asio. */
TEST_F(StationTest, all_that_can_be_waited_for_has_a_file)
{
	auto events = must(EventQueue::create(station.context), "event queue");
	Graph graph(station.context);
	pollfd files[] = {{must(station.queue.fd(), "queue"), POLLIN, 0},
			  {must(station.received.fd(), "counter"), POLLIN, 0},
			  {must(graph.fd(), "graph"), POLLIN, 0},
			  {must(events.fd(), "events"), POLLIN, 0}};
	std::byte in[8];

	EXPECT_EQ(poll(files, std::size(files), 0), 0);
	ASSERT_EQ(station.rx.receive(in), ok);
	ASSERT_EQ(station.tx.send(in, self, {.flags = 0}), ok);
	EXPECT_EQ(poll(files, 1, patience_ms), 1);
	EXPECT_EQ(poll(files + 1, 1, patience_ms), 1);
	graph.add(Command::nop().work());
	ASSERT_EQ(graph.launch(), ok);
	EXPECT_EQ(poll(files + 2, 1, patience_ms), 1);
	EXPECT_EQ(poll(files + 3, 1, 0), 0);
}

/* --- the version --------------------------------------------------------------------------------- */

TEST(Version, is_that_of_headers_library_and_module)
{
	std::string module;

	std::ifstream("/sys/module/treadle/version") >> module;
	EXPECT_STREQ(version(), TREADLE_VERSION);
	EXPECT_EQ(version(), module);
	EXPECT_EQ(version(), std::to_string(TREADLE_VERSION_MAJOR) + '.' +
				     std::to_string(TREADLE_VERSION_MINOR));
}

} // namespace
