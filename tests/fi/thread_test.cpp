// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Threading levels: FI_THREAD_SAFE with everything shared, the others with what they allow. */
#include "node.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <atomic>
#include <functional>
#include <thread>

#include <rdma/fi_collective.h>

namespace
{

constexpr int threads = 4, per_thread = 500;

/* Calls that begin at the same time, each in a thread of its own. */
void at_once(int count, const std::function<void(int)> &call)
{
	std::atomic<int> ready = 0;
	std::vector<std::thread> all;

	for (int t = 0; t < count; ++t) {
		all.emplace_back([&, t] {
			++ready;
			while (ready < count)
				std::this_thread::yield();
			call(t);
		});
	}
	for (auto &thread : all)
		thread.join();
}

/* Several threads on one endpoint and one queue of each kind. */
// conformance: fi_domain(3): FI_THREAD_UNSPEC: the greatest level of parallelism is returned
// conformance: fi_domain(3): FI_THREAD_SAFE: rings and queues take locks
TEST(Thread, SafeMeansThatEverythingCanBeShared)
{
	Pair p(hints_for(FI_TAGGED));
	std::vector<std::thread> all;
	std::vector<std::uint64_t> in(threads * per_thread), values(threads * per_thread);
	std::atomic<int> received = 0, sent = 0;
	std::vector<std::atomic<int>> seen(threads * per_thread);

	EXPECT_EQ(p.node.info->domain_attr->threading, FI_THREAD_SAFE);
	for (int t = 0; t < threads; ++t) {
		all.emplace_back([&, t] {
			for (int i = 0; i < per_thread; ++i) {
				const int n = t * per_thread + i;
				while (fi_trecv(p.b.ep.get(), &in[n], sizeof(in[n]), nullptr,
						FI_ADDR_UNSPEC, n, 0, ctx(n + 1)) == -FI_EAGAIN)
					std::this_thread::yield();
			}
		});
		all.emplace_back([&, t] {
			for (int i = 0; i < per_thread; ++i) {
				values[t * per_thread + i] = t * per_thread + i;
				const std::uint64_t &n = values[t * per_thread + i];
				const iovec iov{const_cast<std::uint64_t *>(&n), sizeof(n)};
				const fi_msg_tagged msg{&iov, nullptr, 1,	   p.b_at_a,
							n,    0,       ctx(n + 1), 0};
				/* In batches, which several threads share. */
				const std::uint64_t more =
					i % 5 == 4 || i == per_thread - 1 ? 0 : FI_MORE;
				ssize_t rc;
				while ((rc = fi_tsendmsg(p.a.ep.get(), &msg, FI_INJECT | more)) ==
				       -FI_EAGAIN)
					std::this_thread::yield();
				EXPECT_EQ(rc, 0);
			}
		});
		const auto read = [&](fid_cq *cq, std::atomic<int> &count, bool check) {
			fi_cq_tagged_entry entries[8];
			while (count < threads * per_thread) {
				const ssize_t n = fi_cq_read(cq, entries, 8);
				if (n == -FI_EAGAIN) {
					std::this_thread::yield();
					continue;
				}
				ASSERT_GT(n, 0);
				for (ssize_t i = 0; i < n && check; ++i)
					++seen[reinterpret_cast<std::uintptr_t>(
						       entries[i].op_context) -
					       1];
				count += static_cast<int>(n);
			}
		};
		all.emplace_back([&, read] { read(p.b.rx_cq.get(), received, true); });
		all.emplace_back([&, read] { read(p.a.tx_cq.get(), sent, false); });
	}
	for (auto &thread : all)
		thread.join();
	for (int n = 0; n < threads * per_thread; ++n) {
		EXPECT_EQ(in[n], static_cast<std::uint64_t>(n));
		EXPECT_EQ(seen[n], 1);
	}
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
}

/* Lower levels: each thread has objects of its own, in one domain. */
class Level : public testing::TestWithParam<fi_threading>
{
};

// conformance: fi_domain(3): FI_THREAD_FID, ENDPOINT, COMPLETION, DOMAIN: rings and queues take no
//   locks; shared contexts and the domain's ring for counters and deferred work do, but with
//   FI_THREAD_DOMAIN
TEST_P(Level, ThreadsWithTheirOwnObjectsNeedNoLocks)
{
	Info hints = hints_for(FI_MSG);
	hints->domain_attr->threading = GetParam();
	Node node(std::move(hints));
	std::vector<std::thread> all;

	for (int t = 0; t < (GetParam() == FI_THREAD_DOMAIN ? 1 : threads); ++t) {
		all.emplace_back([&] {
			Side side(node);
			const fi_addr_t self = side.insert(side.ep.get());
			for (int i = 0; i < per_thread; ++i) {
				int in = -1;
				ASSERT_EQ(fi_recv(side.ep.get(), &in, sizeof(in), nullptr,
						  FI_ADDR_UNSPEC, ctx(1)),
					  0);
				ASSERT_EQ(fi_send(side.ep.get(), &i, sizeof(i), nullptr, self,
						  ctx(2)),
					  0);
				EXPECT_EQ(next(side.rx_cq.get()).op_context, ctx(1));
				EXPECT_EQ(next(side.tx_cq.get()).op_context, ctx(2));
				EXPECT_EQ(in, i);
			}
		});
	}
	for (auto &thread : all)
		thread.join();
}

INSTANTIATE_TEST_SUITE_P(Thread, Level,
			 testing::Values(FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_ENDPOINT,
					 FI_THREAD_COMPLETION, FI_THREAD_DOMAIN));

/*
 * FI_THREAD_FID: "no serialization is required between the submission of data transmit requests and
 * data receive operations": one thread sends what is refused, and reads each error; another one
 * posts receives, and cancels them.
 */
// conformance: fi_domain(3): FI_THREAD_FID, ENDPOINT, COMPLETION, DOMAIN: rings and queues take ...
TEST(Thread, AReceiverThatCancelsDoesNotDisturbASender)
{
	Info hints = hints_for(FI_MSG);
	hints->domain_attr->threading = FI_THREAD_FID;
	Node node(std::move(hints));
	Side side(node);
	fi_addr_t gone = side.insert(side.ep.get());
	ASSERT_EQ(fi_av_remove(side.av.get(), &gone, 1, 0), 0);
	std::atomic<bool> over{false};

	std::thread receiver([&] {
		char in[8];
		for (int i = 0; !over; ++i) {
			ASSERT_EQ(fi_recv(side.ep.get(), in, sizeof(in), nullptr, FI_ADDR_UNSPEC,
					  ctx(i + 1)),
				  0);
			EXPECT_EQ(fi_cancel(&side.ep->fid, ctx(i + 1)), 0);
			EXPECT_EQ(fi_cancel(&side.ep->fid, ctx(i + 1)), -FI_ENOENT);
			EXPECT_EQ(next_error(side.rx_cq.get()).err, FI_ECANCELED);
		}
	});
	for (int i = 0; i < 20'000; ++i)
		EXPECT_EQ(fi_send(side.ep.get(), &i, sizeof(i), nullptr, gone, nullptr),
			  -FI_EADDRNOTAVAIL);
	over = true;
	receiver.join();
	EXPECT_TRUE(is_silent(side.tx_cq.get()));
}

// conformance: fi_domain(3): control interfaces are always thread safe
TEST(Thread, ControlCallsMayBeMadeAtAnyTime)
{
	Node node;
	std::vector<std::thread> all;

	for (int t = 0; t < threads; ++t) {
		all.emplace_back([&] {
			for (int i = 0; i < 30; ++i) {
				Side side(node);
				const fi_addr_t self = side.insert(side.ep.get());
				char in = 0;
				ASSERT_EQ(fi_recv(side.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC,
						  nullptr),
					  0);
				ASSERT_EQ(fi_inject(side.ep.get(), "x", 1, self), 0);
				next(side.rx_cq.get());
			}
		});
	}
	for (auto &thread : all)
		thread.join();
}

/* fi_domain(3): also on one object. */
// conformance: fi_domain(3): control interfaces are always thread safe
TEST(Thread, OneEndpointIsBoundByMany)
{
	Node node(hints_for(FI_MSG | FI_RMA));
	const auto av = node.av();
	const auto tx = node.cq(), rx = node.cq();
	const auto eq = node.eq();
	std::vector<Owned<fid_cntr>> counters;

	for (int i = 0; i < 4; ++i)
		counters.push_back(node.cntr());
	const std::pair<fid *, std::uint64_t> bindings[] = {
		{&av->fid, 0},
		{&tx->fid, FI_TRANSMIT},
		{&rx->fid, FI_RECV},
		{&eq->fid, 0},
		{&counters[0]->fid, FI_SEND},
		{&counters[1]->fid, FI_RECV},
		{&counters[2]->fid, FI_READ},
		{&counters[3]->fid, FI_WRITE},
	};
	for (int round = 0; round < 50; ++round) {
		const auto ep = node.ep();
		std::atomic<int> ready = 0;
		std::vector<std::thread> all;
		for (const auto &[object, flags] : bindings) {
			all.emplace_back([&] {
				++ready;
				while (ready < static_cast<int>(std::size(bindings)))
					std::this_thread::yield();
				EXPECT_EQ(fi_ep_bind(ep.get(), object, flags), 0);
			});
		}
		for (auto &thread : all)
			thread.join();
		EXPECT_EQ(fi_enable(ep.get()), 0);
		for (const auto &[object, flags] : bindings)
			EXPECT_EQ(fi_close(object), -FI_EBUSY);
	}
}

/* Whichever call comes first: the enabled endpoint has the name. */
// conformance: fi_domain(3): control interfaces are always thread safe
TEST(Thread, ANameIsSetWhileItsEndpointIsEnabled)
{
	Node node;
	const auto av = node.av();
	const auto cq = node.cq();
	char in = 0;

	for (int round = 0; round < 100; ++round) {
		const auto ep = node.ep();
		sockaddr_in name{};
		fi_addr_t self;
		name.sin_family = AF_INET;
		name.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
		ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		at_once(3, [&](int t) {
			if (t == 0) {
				EXPECT_EQ(fi_enable(ep.get()), 0);
			} else if (t == 1) {
				const int rc = fi_setname(&ep->fid, &name, sizeof(name));
				EXPECT_TRUE(rc == 0 || rc == -FI_EOPBADSTATE) << rc;
			} else {
				address_of(ep.get());
			}
		});
		ASSERT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr),
			  1);
		ASSERT_EQ(fi_recv(ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		ASSERT_EQ(fi_inject(ep.get(), "x", 1, self), 0);
		next(cq.get());
	}
}

// conformance: fi_domain(3): control interfaces are always thread safe
TEST(Thread, AVectorAndAPassiveEndpointAreBoundOnce)
{
	Info hints = hints_for(FI_MSG);
	hints->ep_attr->type = FI_EP_MSG;
	Node node(std::move(hints));

	for (int round = 0; round < 200; ++round) {
		const Owned<fid_eq> eq[] = {node.eq(), node.eq(), node.eq(), node.eq()};
		const auto av = node.av(FI_EVENT);
		fid_pep *opened = nullptr;
		ASSERT_EQ(fi_passive_ep(node.fabric.get(), node.info.get(), &opened, nullptr), 0);
		const Owned<fid_pep> pep(opened);
		std::atomic<int> of_av = 0, of_pep = 0;
		at_once(4, [&](int t) {
			of_av += fi_av_bind(av.get(), &eq[t]->fid, 0) == 0;
			of_pep += fi_pep_bind(pep.get(), &eq[t]->fid, 0) == 0;
		});
		EXPECT_EQ(of_av, 1);
		EXPECT_EQ(of_pep, 1);
		at_once(4, [&](int) { EXPECT_EQ(fi_listen(pep.get()), 0); });
	}
}

// conformance: fi_domain(3): control interfaces are always thread safe
TEST(Thread, AliasesCloseWhileTheirEndpointIsEnabled)
{
	Node node;
	const auto av = node.av();
	const auto cq = node.cq();

	for (int round = 0; round < 50; ++round) {
		const auto ep = node.ep();
		std::vector<Owned<fid_ep>> aliases;
		std::vector<std::thread> closers;
		std::atomic<int> closed = 0;
		ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		for (int i = 0; i < 100; ++i) {
			fid_ep *alias = nullptr;
			ASSERT_EQ(fi_ep_alias(ep.get(), &alias, FI_TRANSMIT), 0);
			aliases.emplace_back(alias);
		}
		for (int t = 0; t < threads; ++t) {
			closers.emplace_back([&, t] {
				for (std::size_t i = t; i < aliases.size(); i += threads) {
					aliases[i].reset();
					++closed;
				}
			});
		}
		while (closed < round) /* the threads are closing, and wait for each other */
			;
		EXPECT_EQ(fi_enable(ep.get()), 0);
		for (auto &closer : closers)
			closer.join();
	}
}

/* Sets of one address vector. Each thread removes what it has inserted. */
class Sets : public testing::Test
{
protected:
	Sets()
	{
		EXPECT_EQ(fi_av_insertsym(av.get(), "127.0.0.1", 1, "1000", std::size(members),
					  members, 0, nullptr),
			  static_cast<int>(std::size(members)));
		for (auto &set : sets) {
			fi_av_set_attr attr{};
			fid_av_set *opened = nullptr;
			attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
			EXPECT_EQ(fi_av_set(av.get(), &attr, &opened, nullptr), 0);
			set.reset(opened);
		}
	}

	Node node;
	Owned<fid_av> av = node.av(0, FI_AV_TABLE);
	fi_addr_t members[1000]; /* the first of them are the threads' own */
	Owned<fid_av_set> sets[2];
};

// conformance: fi_domain(3): control interfaces are always thread safe
TEST_F(Sets, OneIsChangedByMany)
{
	/* so that a change takes time */
	for (std::size_t i = threads; i < std::size(members); ++i)
		ASSERT_EQ(fi_av_set_insert(sets[0].get(), members[i]), 0);
	at_once(threads, [&](int t) {
		for (int i = 0; i < 3'000; ++i) {
			ASSERT_EQ(fi_av_set_insert(sets[0].get(), members[t]), 0);
			ASSERT_EQ(fi_av_set_remove(sets[0].get(), members[t]), 0);
		}
	});
	for (std::size_t i = threads; i < std::size(members); ++i)
		EXPECT_EQ(fi_av_set_remove(sets[0].get(), members[i]), 0) << i;
}

/* Two combinations of the same two sets must not deadlock. */
// conformance: fi_domain(3): control interfaces are always thread safe
TEST_F(Sets, TwoAreCombinedBothWaysAtOnce)
{
	at_once(threads, [&](int t) {
		fid_av_set *const to = sets[t % 2].get(), *const from = sets[1 - t % 2].get();
		for (int i = 0; i < 5'000; ++i) {
			ASSERT_EQ(fi_av_set_union(to, from), 0);
			ASSERT_EQ(fi_av_set_union(to, to), 0);
			/* another thread may have inserted it */
			(void)fi_av_set_insert(to, members[t]);
			ASSERT_EQ(fi_av_set_intersect(to, to), 0);
			ASSERT_EQ(fi_av_set_intersect(from, to), 0);
			ASSERT_EQ(fi_av_set_diff(to, to), 0);
			ASSERT_EQ(fi_av_set_diff(from, to), 0);
		}
	});
	for (auto &set : sets) {
		EXPECT_EQ(fi_av_set_diff(set.get(), set.get()), 0);
		for (int t = 0; t < threads; ++t)
			EXPECT_EQ(fi_av_set_remove(set.get(), members[t]), -FI_EINVAL);
	}
}

} // namespace
