// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Contexts, endpoints, address vectors, regions: creation, limits, destruction. */

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <tuple>

#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <unistd.h>

#include <treadle/registrar.h>

#include "node.h"

class ObjectTest : public testing::Test
{
protected:
	Context context = must(Context::open(), "open");
};

TEST(Errors, have_words)
{
	EXPECT_EQ(from_errno(EAGAIN).message(), "Resource temporarily unavailable");
	EXPECT_NE(from_errno(TREADLE_ETRUNC).message(), from_errno(99999).message());
	EXPECT_STREQ(describe(EAGAIN), "Resource temporarily unavailable");
}

TEST(Open, no_device)
{
	EXPECT_EQ(Context::open("/nowhere").error(), from_errno(ENOENT));
	EXPECT_EQ(Context::open("/dev/null").error(), from_errno(ENOTTY));
}

TEST_F(ObjectTest, limits_are_sensible)
{
	const auto &limits = context.limits();

	EXPECT_EQ(limits.abi_version, static_cast<std::uint32_t>(TREADLE_ABI_VERSION));
	EXPECT_GE(limits.max_msg_size, 1ULL << 30);
	EXPECT_GE(limits.inject_size, 64u);
	EXPECT_TRUE(limits.opcodes & (1 << TREADLE_OP_SEND));
	EXPECT_EQ(fcntl(context.device(), F_GETFD), FD_CLOEXEC);
}

TEST_F(ObjectTest, sizes_are_rounded_up_and_limited)
{
	EXPECT_GE(must(TransmitRing::create(context, 5), "tx").entries(), 8u);
	EXPECT_TRUE(std::has_single_bit(must(TransmitRing::create(context, 5), "tx").entries()));
	EXPECT_EQ(must(ReceiveRing::create(context, 64), "rx").entries(), 64u);
	EXPECT_EQ(must(CompletionQueue::create(context, 100), "cq").entries(), 128u);
	EXPECT_EQ(TransmitRing::create(context, 0).error(), from_errno(EINVAL));
	EXPECT_EQ(TransmitRing::create(context, context.limits().max_ring + 1).error(),
		  from_errno(EINVAL));
	EXPECT_EQ(CompletionQueue::create(context, context.limits().max_cq + 1).error(),
		  from_errno(EINVAL));
	EXPECT_EQ(TransmitRing::create(context, 8, 1U << 31).error(), from_errno(EINVAL));
	EXPECT_TRUE(must(TransmitRing::create(context, context.limits().max_ring), "tx").entries());
}

TEST_F(ObjectTest, number_of_objects_is_limited)
{
	std::vector<AddressVector> all;

	for (;;) {
		auto av = AddressVector::create(context);

		if (!av) {
			EXPECT_EQ(av.error(), from_errno(ENOSPC));
			break;
		}
		ASSERT_LE(all.size(), context.limits().max_objects);
		all.push_back(std::move(*av));
	}
	EXPECT_GE(all.size(), context.limits().max_objects / 2);
	all.pop_back();
	EXPECT_TRUE(AddressVector::create(context));
}

TEST_F(ObjectTest, owners_move)
{
	auto first = must(Counter::create(context), "counter");
	const auto id = first.id();
	auto second = std::move(first);

	EXPECT_EQ(first.id(), CounterId{});
	EXPECT_EQ(second.id(), id);
	EXPECT_EQ(second.add(1), ok);

	auto third = must(Counter::create(context), "counter");
	const auto gone = third.id();
	third = std::move(second);
	EXPECT_EQ(third.id(), id);
	EXPECT_EQ(third.value(), 1u);
	EXPECT_EQ(context.submit(Command::add(gone, 1).work()), from_errno(ENOENT))
		<< "what was assigned to is destroyed";

	Context elsewhere = std::move(context);
	EXPECT_EQ(third.add(1), ok);
	EXPECT_EQ(third.value(), 2u);
	EXPECT_EQ(third.close(), ok);
}

TEST_F(ObjectTest, what_is_bound_lives)
{
	std::optional<Node> node(std::in_place);

	EXPECT_EQ(node->tx.close(), from_errno(EBUSY));
	EXPECT_EQ(node->rx.close(), from_errno(EBUSY));
	EXPECT_EQ(node->av.close(), from_errno(EBUSY));
	EXPECT_EQ(node->tx_cq.close(), from_errno(EBUSY));
	EXPECT_EQ(node->rx_cq.close(), from_errno(EBUSY));
	EXPECT_EQ(node->sent.close(), from_errno(EBUSY));
	EXPECT_EQ(node->ep.close(), ok);
	EXPECT_EQ(node->ep.close(), ok);
	EXPECT_EQ(node->tx.close(), ok);
	EXPECT_EQ(node->rx.close(), ok);
	EXPECT_EQ(node->av.close(), ok);
	EXPECT_EQ(node->tx_cq.close(), ok);
	EXPECT_EQ(node->rx_cq.close(), ok);
	EXPECT_EQ(node->sent.close(), ok);
}

TEST_F(ObjectTest, closed_rings_say_so)
{
	Node node;
	std::uint64_t word = 0;

	EXPECT_EQ(node.ep.close(), ok);
	EXPECT_NE(node.send(bytes_of(word), Peer{0}), ok) << "no endpoint";
	EXPECT_EQ(node.tx.close(), ok);
	EXPECT_EQ(node.send(bytes_of(word), Peer{0}), from_errno(ENOENT));
	EXPECT_EQ(node.rx_cq.wait(0ns), from_errno(EAGAIN));
	EXPECT_EQ(node.rx_cq.close(), ok);
	EXPECT_EQ(node.rx_cq.wait(0ns), from_errno(ENOENT));
	EXPECT_EQ(node.rx_cq.signal(), from_errno(ENOENT));
}

TEST_F(ObjectTest, endpoint_addresses)
{
	const auto any = must(Endpoint::create(context, loopback()), "ep");

	EXPECT_EQ(any.address().family, AF_INET);
	EXPECT_NE(any.address().port, 0);
	EXPECT_EQ(any.address().addr[0], 127);

	EXPECT_EQ(Endpoint::create(context, any.address()).error(), from_errno(EADDRINUSE));

	treadle_addr far = loopback(4711);
	far.addr[0] = 192;
	EXPECT_EQ(Endpoint::create(context, far).error(), from_errno(EADDRNOTAVAIL));
	far.family = AF_UNIX;
	EXPECT_EQ(Endpoint::create(context, far).error(), from_errno(EADDRNOTAVAIL));

	treadle_addr unspecified = loopback(0);
	unspecified.addr[0] = unspecified.addr[3] = 0;
	EXPECT_EQ(must(Endpoint::create(context, unspecified), "ep").address().addr[0], 127);
}

TEST_F(ObjectTest, a_port_is_free_again)
{
	auto ep = must(Endpoint::create(context, loopback()), "ep");
	const treadle_addr address = ep.address();

	EXPECT_EQ(ep.close(), ok);
	EXPECT_TRUE(Endpoint::create(context, address));
}

TEST_F(ObjectTest, endpoint_of_ipv6)
{
	treadle_addr address{};

	address.family = AF_INET6;
	address.addr[15] = 1;
	Node a;
	Node b;
	auto ep = must(Endpoint::create(a.context, address), "ep");
	auto rx = must(ReceiveRing::create(a.context, 8), "rx");
	std::uint64_t in = 0;
	std::uint64_t out = 6;

	ASSERT_EQ(ep.enable({.rx = rx.id(), .rx_cq = a.rx_cq.id()}), ok);
	ASSERT_EQ(rx.post({.opcode = TREADLE_OP_RECV,
			   .flags = TREADLE_F_COMPLETION,
			   .addr = address_of(&in),
			   .len = 8}),
		  ok);
	ASSERT_EQ(b.send(bytes_of(out), b.to(ep.address())), ok);
	EXPECT_EQ(reap_one(a.rx_cq).error, 0u);
	EXPECT_EQ(in, 6u);
}

class AddressTest : public ObjectTest
{
protected:
	AddressVector av = must(AddressVector::create_with_ids(context), "av");
};

TEST_F(AddressTest, indices_count_from_zero_and_are_used_again)
{
	const treadle_addr all[] = {loopback(1), loopback(2), loopback(3)};
	std::uint64_t indices[3];

	const auto [count, error] = av.insert(all, indices);
	EXPECT_EQ(error, ok);
	EXPECT_EQ(count, 3u);
	for (std::uint64_t i = 0; i < 3; ++i) {
		EXPECT_EQ(indices[i], i);
		EXPECT_EQ(must(av.lookup(Peer{i}), "lookup").port, all[i].port);
	}
	EXPECT_EQ(av.remove({&indices[1], 1}), ok);
	EXPECT_EQ(av.lookup(Peer{1}).error(), from_errno(ENOENT));
	EXPECT_EQ(av.remove({&indices[1], 1}), from_errno(ENOENT));
	EXPECT_EQ(must(av.insert(loopback(4)), "insert"), Peer{1});
	EXPECT_EQ(must(av.lookup(Peer{1}), "lookup").port, htons(4));
}

TEST_F(AddressTest, identifiers_are_of_entries_in_a_vector_for_them)
{
	AddressVector without = must(AddressVector::create(context), "av");

	EXPECT_EQ(av.set_id(Peer{0}, 5), from_errno(ENOENT));
	EXPECT_EQ(must(av.insert(loopback(1)), "insert"), Peer{0});
	EXPECT_EQ(av.set_id(Peer{0}, 5), ok);
	EXPECT_EQ(must(without.insert(loopback(1)), "insert"), Peer{0});
	EXPECT_EQ(without.set_id(Peer{0}, 5), from_errno(EINVAL));
}

/* Other nodes don't reach this one. */
TEST_F(AddressTest, a_peer_has_a_place)
{
	treadle_addr here = loopback(7), far = loopback(8);

	here.addr[3] = 2;
	far.addr[0] = 192;
	const auto near = must(av.place(must(av.insert(here), "insert")), "place");
	EXPECT_TRUE(near.here);
	here = loopback(7);
	EXPECT_EQ(std::memcmp(&near.address, &here, sizeof(here)), 0);
	const auto away = must(av.place(must(av.insert(far), "insert")), "place");
	EXPECT_FALSE(away.here);
	EXPECT_EQ(std::memcmp(&away.address, &far, sizeof(far)), 0);
	EXPECT_EQ(av.place(Peer{2}).error(), from_errno(ENOENT));
}

TEST_F(AddressTest, unknown_families_are_skipped)
{
	treadle_addr all[] = {loopback(1), loopback(2), loopback(3)};
	std::uint64_t indices[3];

	all[1].family = AF_UNIX;
	const auto [count, error] = av.insert(all, indices);
	EXPECT_EQ(error, ok);
	EXPECT_EQ(count, 2u);
	EXPECT_EQ(indices[1], TREADLE_ADDR_ANY);
	EXPECT_NE(indices[2], TREADLE_ADDR_ANY);
	EXPECT_EQ(av.insert(all[1]).error(), from_errno(EADDRNOTAVAIL));
}

TEST_F(AddressTest, a_million)
{
	const std::uint32_t n = std::min(1'000'000u, context.limits().max_av);
	std::vector<treadle_addr> all(n, loopback(1));
	std::vector<std::uint64_t> indices(n);

	/* Mostly addresses of other machines: one machine has not that many ports. */
	for (std::uint32_t i = 0; i < n; ++i) {
		all[i].addr[0] = 10;
		std::memcpy(&all[i].addr[1], &i, 3);
	}
	const auto [count, error] = av.insert(all, indices.data());
	EXPECT_EQ(error, ok);
	EXPECT_EQ(count, n);
	EXPECT_EQ(std::memcmp(must(av.lookup(Peer{indices[n - 1]}), "lookup").addr, all[n - 1].addr,
			      16),
		  0);
	EXPECT_EQ(av.remove(indices), ok);
	EXPECT_EQ(av.lookup(Peer{0}).error(), from_errno(ENOENT));
}

TEST(Sockaddr, there_and_back)
{
	sockaddr_storage storage{};
	auto &in6 = reinterpret_cast<sockaddr_in6 &>(storage);
	auto *const generic = reinterpret_cast<sockaddr *>(&storage);

	ASSERT_EQ(to_sockaddr(loopback(4711), storage), sizeof(sockaddr_in));
	EXPECT_EQ(reinterpret_cast<sockaddr_in &>(storage).sin_port, htons(4711));
	EXPECT_EQ(reinterpret_cast<sockaddr_in &>(storage).sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	auto address = must(from_sockaddr(generic, sizeof(sockaddr_in)), "from");
	EXPECT_EQ(address.port, htons(4711));
	EXPECT_EQ(address.addr[0], 127);

	in6 = {};
	in6.sin6_family = AF_INET6;
	in6.sin6_port = htons(1);
	in6.sin6_scope_id = 7;
	in6.sin6_addr = in6addr_loopback;
	address = must(from_sockaddr(generic, sizeof(in6)), "from");
	EXPECT_EQ(address.scope, 7u);
	storage = {};
	ASSERT_EQ(to_sockaddr(address, storage), sizeof(sockaddr_in6));
	EXPECT_EQ(in6.sin6_scope_id, 7u);
	EXPECT_TRUE(IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr));

	EXPECT_EQ(from_sockaddr(generic, sizeof(in6) - 1).error(), from_errno(EINVAL));
	EXPECT_EQ(from_sockaddr(generic, 1).error(), from_errno(EINVAL));
	storage.ss_family = AF_UNIX;
	EXPECT_EQ(from_sockaddr(generic, sizeof(storage)).error(), from_errno(EADDRNOTAVAIL));
	address.family = AF_UNIX;
	EXPECT_EQ(to_sockaddr(address, storage), 0u);
}

class RegionTest : public ObjectTest
{
protected:
	std::vector<std::byte> buffer = std::vector<std::byte>(100'000);
};

TEST_F(RegionTest, keys)
{
	const auto make = [&](std::uint64_t key, std::uint32_t flags = 0) {
		return MemoryRegion::create(
			context, bytes_at(buffer.data(), buffer.size()),
			{.access = TREADLE_ACCESS_REMOTE_WRITE, .flags = flags, .key = key});
	};
	auto first = must(make(5), "mr");

	EXPECT_EQ(first.key(), 5u);
	EXPECT_EQ(make(5).error(), from_errno(EEXIST));
	EXPECT_EQ(first.close(), ok);
	EXPECT_EQ(must(make(5), "mr").key(), 5u);

	const auto a = must(make(0, TREADLE_MR_KERNEL_KEY), "mr");
	const auto b = must(make(0, TREADLE_MR_KERNEL_KEY), "mr");
	EXPECT_NE(a.key(), b.key());
}

/* An empty key is no key, at any address; a key that is too long is not cut off. */
TEST_F(RegionTest, authorization_keys)
{
	const std::span<const std::byte> key(buffer);
	const std::span<const std::byte> huge(buffer.data(), std::size_t{1} << 32);
	const auto endpoint = [&](std::span<const std::byte> of) {
		return Endpoint::create(context, loopback(), TREADLE_EP_RDM, of);
	};
	const auto region = [&](std::span<const std::byte> of) {
		return MemoryRegion::create(
			context, bytes_at(buffer.data(), 8),
			{.access = 0, .flags = TREADLE_MR_KERNEL_KEY, .auth_key = of});
	};

	for (const std::size_t size : {0, 1, 64}) {
		EXPECT_TRUE(endpoint(key.first(size))) << size;
		EXPECT_TRUE(region(key.first(size))) << size;
	}
	for (const auto &bad : {key.first(65), huge}) {
		EXPECT_EQ(endpoint(bad).error(), from_errno(EINVAL)) << bad.size();
		EXPECT_EQ(region(bad).error(), from_errno(EINVAL)) << bad.size();
	}
}

TEST_F(RegionTest, memory_must_be_there)
{
	const MemoryRegion::Options read{.access = TREADLE_ACCESS_REMOTE_READ, .key = 1};
	const MemoryRegion::Options write{.access = TREADLE_ACCESS_REMOTE_WRITE, .key = 2};
	void *const fixed = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	EXPECT_TRUE(MemoryRegion::create(context, bytes_at(fixed, 8192), read));
	EXPECT_EQ(MemoryRegion::create(context, bytes_at(fixed, 8192), write).error(),
		  from_errno(EFAULT));
	munmap(fixed, 8192);
	EXPECT_EQ(MemoryRegion::create(context, bytes_at(fixed, 8192), read).error(),
		  from_errno(EFAULT));
	EXPECT_TRUE(MemoryRegion::create(context, bytes_at(buffer.data(), 8), {.access = 0}));
	EXPECT_EQ(MemoryRegion::create(context, bytes_at(buffer.data(), 8), {.access = 1U << 31})
			  .error(),
		  from_errno(EINVAL));
}

TEST_F(RegionTest, pinned)
{
	const auto mr = MemoryRegion::create(
		context, bytes_at(buffer.data(), buffer.size()),
		{.access = TREADLE_ACCESS_REMOTE_WRITE, .flags = TREADLE_MR_PINNED, .key = 9});

	if (context.limits().features & TREADLE_FEATURE_MR_PINNED)
		EXPECT_TRUE(mr);
	else
		EXPECT_EQ(mr.error(), from_errno(EOPNOTSUPP));
}

class RegistrarTest : public ObjectTest
{
protected:
	/* Pinning it takes a while. */
	Pages memory{65536};
	const treadle_iov range{address_of(memory.span().data()), memory.span().size()};
	const MemoryRegion::Options pinned{.access = TREADLE_ACCESS_REMOTE_WRITE,
					   .flags = TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY};
	Registration registration{context, {&range, 1}, pinned};

	std::span<const std::byte> bytes() { return std::as_bytes(std::span(&registration, 1)); }
};

TEST_F(RegistrarTest, ends_what_is_under_way_before_it_goes)
{
	{
		auto registrar = must(Registrar::create(), "registrar");
		ASSERT_EQ(registrar.begin(registration), ok);
		usleep(20'000); /* gives it time to begin, which is not required */
	}
	const std::vector before(bytes().begin(), bytes().end());
	usleep(1'500'000);
	EXPECT_TRUE(std::ranges::equal(before, bytes()));
	const auto region = registration.result();
	EXPECT_TRUE(region || region.error() == from_errno(ECANCELED));
}

TEST_F(RegistrarTest, waits_for_registrations_and_not_for_cancels)
{
	auto registrar = must(Registrar::create(), "registrar");

	for (int i = 0; i < 5; ++i) {
		ASSERT_EQ(registrar.begin(registration), ok);
		usleep(20'000);
		registrar.cancel(registration);
		ASSERT_EQ(registrar.wait(), ok);
		ASSERT_EQ(registrar.next(), &registration);
		std::ignore = registration.result();
	}
}

/* There is no result before run() and after it was taken: nothing could close object 0. */
TEST_F(RegistrarTest, has_a_result_once)
{
	EXPECT_EQ(registration.result().error(), from_errno(ENOENT));
	registration.run();
	const auto region = registration.result();
	EXPECT_TRUE(region || region.error() != from_errno(ENOENT));
	EXPECT_EQ(registration.result().error(), from_errno(ENOENT));
}

/* A program that derives from a class, or casts to it, uses the library's type. */
TEST(Exports, types_of_classes_with_virtual_functions)
{
	void *const library = dlopen("libtreadle.so.1", RTLD_NOW | RTLD_NOLOAD);

	ASSERT_NE(library, nullptr);
	for (const char *symbol : {"_ZTIN7treadle8WorkRingE", "_ZTSN7treadle8WorkRingE"})
		EXPECT_NE(dlsym(library, symbol), nullptr) << symbol;
	dlclose(library);
}
