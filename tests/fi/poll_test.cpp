// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_poll(3): poll sets and wait sets. */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include "node.h"

namespace
{

Owned<fid_poll> poll_set(const Node &node)
{
	fid_poll *set = nullptr;
	fi_poll_attr attr{};

	EXPECT_EQ(fi_poll_open(node.domain.get(), &attr, &set), 0);
	return Owned<fid_poll>(set);
}

Owned<fid_wait> wait_set(const Node &node, fi_wait_obj object = FI_WAIT_UNSPEC)
{
	fid_wait *set = nullptr;
	fi_wait_attr attr{};

	attr.wait_obj = object;
	EXPECT_EQ(fi_wait_open(node.fabric.get(), &attr, &set), 0);
	return Owned<fid_wait>(set);
}

Owned<fid_cq> cq_in(const Node &node, fid_wait *set)
{
	fid_cq *cq = nullptr;
	fi_cq_attr attr{};

	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = set;
	attr.format = FI_CQ_FORMAT_TAGGED;
	EXPECT_EQ(fi_cq_open(node.domain.get(), &attr, &cq, nullptr), 0);
	return Owned<fid_cq>(cq);
}

Owned<fid_cntr> cntr_in(const Node &node, fid_wait *set, void *context = nullptr)
{
	fid_cntr *cntr = nullptr;
	fi_cntr_attr attr{};

	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = set;
	EXPECT_EQ(fi_cntr_open(node.domain.get(), &attr, &cntr, context), 0);
	return Owned<fid_cntr>(cntr);
}

Owned<fid_cntr> cntr_called(const Node &node, std::uintptr_t name)
{
	fid_cntr *cntr = nullptr;

	EXPECT_EQ(fi_cntr_open(node.domain.get(), nullptr, &cntr, ctx(name)), 0);
	return Owned<fid_cntr>(cntr);
}

/* --- poll sets ----------------------------------------------------------------------- */

// conformance: fi_poll(3): fi_poll: the context of each queue that is not empty, of each counter
//   that was counted or set
TEST(PollSet, ReportsMembersWithNews)
{
	Pair p;
	const auto set = poll_set(p.node);
	const auto cntr = cntr_called(p.node, 7);
	void *who[4];
	char c = 'x';

	p.b.rx_cq->fid.context = ctx(5);
	ASSERT_EQ(fi_poll_add(set.get(), &p.b.rx_cq->fid, 0), 0);
	ASSERT_EQ(fi_poll_add(set.get(), &cntr->fid, 0), 0);
	EXPECT_EQ(fi_poll(set.get(), who, 4), 0);

	ASSERT_EQ(fi_recv(p.b.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_send(p.a.ep.get(), &c, 1, nullptr, p.b_at_a, nullptr), 0);
	ASSERT_EQ(fi_poll(set.get(), who, 4), 1);
	EXPECT_EQ(who[0], ctx(5));
	EXPECT_EQ(fi_poll(set.get(), who, 4), 1) << "until it was read";
	next(p.b.rx_cq.get());
	EXPECT_EQ(fi_poll(set.get(), who, 4), 0);

	for (const auto change : {fi_cntr_add, fi_cntr_adderr}) {
		ASSERT_EQ(change(cntr.get(), 1), 0);
		ASSERT_EQ(fi_poll(set.get(), who, 4), 1);
		EXPECT_EQ(who[0], ctx(7));
		EXPECT_EQ(fi_poll(set.get(), who, 4), 0) << "a change is told once";
	}
	EXPECT_EQ(fi_poll_del(set.get(), &p.b.rx_cq->fid, 0), 0);
	EXPECT_EQ(fi_poll_del(set.get(), &cntr->fid, 0), 0);
}

// conformance: fi_poll(3): fi_poll: the context of each queue that is not empty, of each ...
TEST(PollSet, MembersWithoutRoomComeNext)
{
	Node node;
	const auto set = poll_set(node);
	std::vector<Owned<fid_cntr>> cntrs;
	bool told[6] = {};
	void *who[2];

	for (std::uintptr_t i = 1; i < 6; ++i) {
		cntrs.push_back(cntr_called(node, i));
		ASSERT_EQ(fi_poll_add(set.get(), &cntrs.back()->fid, 0), 0);
		ASSERT_EQ(fi_cntr_add(cntrs.back().get(), 1), 0);
	}
	EXPECT_EQ(fi_poll(set.get(), who, 0), 0);
	for (const int expected : {2, 2, 1, 0}) {
		ASSERT_EQ(fi_poll(set.get(), who, 2), expected);
		for (int i = 0; i < expected; ++i) {
			EXPECT_FALSE(told[reinterpret_cast<std::uintptr_t>(who[i])]);
			told[reinterpret_cast<std::uintptr_t>(who[i])] = true;
		}
	}
	for (const auto &cntr : cntrs)
		EXPECT_EQ(fi_poll_del(set.get(), &cntr->fid, 0), 0);
}

// conformance: fi_poll(3): fi_poll_open, fi_poll_add, fi_poll_del: queues and counters of the
//   domain; flags are 0
TEST(PollSet, HoldsItsMembersAndRefusesOthers)
{
	Node node, other;
	const auto set = poll_set(node);
	const auto cq = node.cq();
	const auto outsider = other.cq();
	const auto eq = node.eq();
	fid_poll *flagged = nullptr;
	fi_poll_attr attr{1};

	EXPECT_EQ(fi_poll_open(node.domain.get(), &attr, &flagged), -FI_EBADFLAGS);
	EXPECT_EQ(fi_poll_add(set.get(), &eq->fid, 0), -FI_EINVAL);
	EXPECT_EQ(fi_poll_add(set.get(), &outsider->fid, 0), -FI_EDOMAIN);
	EXPECT_EQ(fi_poll_add(set.get(), &cq->fid, FI_PEEK), -FI_EBADFLAGS);
	EXPECT_EQ(fi_poll_del(set.get(), &cq->fid, 0), -FI_EINVAL);
	ASSERT_EQ(fi_poll_add(set.get(), &cq->fid, 0), 0);
	ASSERT_EQ(fi_poll_add(set.get(), &cq->fid, 0), 0) << "once is enough";
	EXPECT_EQ(fi_close(&cq->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&set->fid), -FI_EBUSY);
	EXPECT_EQ(fi_poll_del(set.get(), &cq->fid, 0), 0);
}

/* --- wait sets ----------------------------------------------------------------------- */

// conformance: fi_poll(3): fi_wait_open: FI_WAIT_UNSPEC, FD, POLLFD, MUTEX_COND, YIELD
// conformance: fi_poll(3): a queue or counter that is opened with FI_WAIT_SET belongs to the set
// conformance: fi_poll(3): fi_wait: until a member has news. A counter's change is news once, but
//   wakes all threads in fi_wait. Between fi_trywait and a wait for a counter's file, read the
//   counter
TEST(WaitSet, WakesForEachKindOfMember)
{
	Node node;
	const auto set = wait_set(node);
	const auto cq = cq_in(node, set.get());
	const auto cntr = cntr_in(node, set.get());
	fid_eq *eq = nullptr;
	fi_eq_attr attr{};
	std::uint32_t event;
	fi_eq_entry entry{};

	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = set.get();
	attr.flags = FI_WRITE;
	ASSERT_EQ(fi_eq_open(node.fabric.get(), &attr, &eq, nullptr), 0);
	const Owned<fid_eq> owned(eq);

	EXPECT_EQ(fi_wait(set.get(), 0), -FI_ETIMEDOUT);
	EXPECT_EQ(fi_wait(set.get(), 20), -FI_ETIMEDOUT);
	for (int i = 0; i < 12; ++i) {
		std::thread later([&] {
			std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
			if (i % 3 == 0)
				EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
			else if (i % 3 == 1)
				EXPECT_EQ(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0),
					  ssize_t{sizeof(entry)});
			else
				EXPECT_EQ(fi_cq_signal(cq.get()), 0);
		});
		EXPECT_EQ(fi_wait(set.get(), i % 2 ? -1 : patience), 0);
		later.join();
		if (i % 3 == 1) {
			EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof(entry), 0),
				  ssize_t{sizeof(entry)});
		}
		EXPECT_EQ(fi_wait(set.get(), 0), -FI_ETIMEDOUT) << i;
	}
}

/*
 * "Waits on a wait set until one or more of its underlying wait objects is signaled": that holds
 * for all waiters.
 */
// conformance: fi_poll(3): fi_wait: until a member has news. A counter's change is news once, ...
TEST(WaitSet, WakesAllWaiters)
{
	Node node;
	const auto set = wait_set(node);
	const auto cntr = cntr_in(node, set.get());
	constexpr std::uint64_t times = 200;
	constexpr int count = 3;
	std::atomic<std::uint64_t> woken = 0;
	std::atomic<pid_t> threads[count]{};
	std::vector<std::thread> waiters;
	/*
	 * A thread that has read the counter, but does not wait yet, would miss news that another
	 * one takes.
	 */
	const auto sleeps = [](const std::atomic<pid_t> &thread) {
		std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
		std::string id, name, state;

		stat >> id >> name >> state;
		return state == "S";
	};

	for (int i = 0; i < count; ++i)
		waiters.emplace_back([&, i] {
			threads[i] = gettid();
			for (std::uint64_t n = 1; n <= times; ++n) {
				while (fi_cntr_read(cntr.get()) < n)
					ASSERT_EQ(fi_wait(set.get(), patience), 0);
				++woken;
			}
		});
	for (std::uint64_t n = 1; n <= times; ++n) {
		/* fi_trywait takes the news as well */
		::fid *object = n % 2 ? &set->fid : &cntr->fid;

		while (!std::ranges::all_of(threads, sleeps) && !HasFailure())
			std::this_thread::yield();
		EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
		if (n % 4 > 1)
			fi_trywait(node.fabric.get(), &object, 1);
		while (woken < n * count && !HasFailure())
			std::this_thread::yield();
	}
	for (std::thread &waiter : waiters)
		waiter.join();
	EXPECT_EQ(woken, times * count);
	fi_wait(set.get(), 0);
	EXPECT_EQ(fi_wait(set.get(), 20), -FI_ETIMEDOUT) << "it is quiet again";
}

// conformance: fi_poll(3): fi_wait: until a member has news. A counter's change is news once, ...
TEST(WaitSet, StaysAwakeWhileACompletionLies)
{
	Node node;
	const auto set = wait_set(node);
	const auto cq = cq_in(node, set.get());
	Side a(node), b(node);
	const auto ep = node.ep();
	char c = 'x';

	/* An endpoint with receives that complete into the queue of the set. */
	ASSERT_EQ(fi_ep_bind(ep.get(), &a.av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	ASSERT_EQ(fi_recv(ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(3)), 0);
	EXPECT_EQ(fi_wait(set.get(), 0), -FI_ETIMEDOUT);
	ASSERT_EQ(fi_send(b.ep.get(), &c, 1, nullptr, b.insert(ep.get()), nullptr), 0);
	EXPECT_EQ(fi_wait(set.get(), patience), 0);
	EXPECT_EQ(fi_wait(set.get(), patience), 0);
	EXPECT_EQ(next(cq.get()).op_context, ctx(3));
	EXPECT_EQ(fi_wait(set.get(), 0), -FI_ETIMEDOUT);
}

// conformance: fi_poll(3): fi_wait_open: FI_WAIT_UNSPEC, FD, POLLFD, MUTEX_COND, YIELD
// conformance: fi_poll(3): fi_trywait of queues, counters and wait sets; each change of a counter
//   is reported once, also after fi_cntr_read
TEST(WaitSet, HasOneFile)
{
	Node node;
	const auto set = wait_set(node, FI_WAIT_FD);
	const auto cntr = cntr_in(node, set.get());
	fi_wait_obj object;
	fid *fids[] = {&set->fid};
	int fd = -1;

	ASSERT_EQ(fi_control(&set->fid, FI_GETWAIT, &fd), 0);
	ASSERT_EQ(fi_control(&set->fid, FI_GETWAITOBJ, &object), 0);
	EXPECT_EQ(object, FI_WAIT_FD);
	pollfd file{fd, POLLIN, 0};
	EXPECT_EQ(fi_trywait(node.fabric.get(), fids, 1), 0);
	EXPECT_EQ(poll(&file, 1, 0), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(poll(&file, 1, patience), 1);
	EXPECT_EQ(fi_trywait(node.fabric.get(), fids, 1), -FI_EAGAIN);
	EXPECT_EQ(fi_trywait(node.fabric.get(), fids, 1), 0);
	EXPECT_EQ(poll(&file, 1, 0), 0);
}

// conformance: fi_poll(3): fi_wait_open: FI_WAIT_UNSPEC, FD, POLLFD, MUTEX_COND, YIELD
// conformance: fi_poll(3): FI_GETWAIT: a file, or with FI_WAIT_POLLFD a list of files with a change
//   index
TEST(WaitSet, ListsTheFilesOfItsMembers)
{
	Node node;
	const auto set = wait_set(node, FI_WAIT_POLLFD);
	const auto cq = cq_in(node, set.get());
	pollfd files[3];
	struct fi_wait_pollfd list {
		0, 0, files
	};

	EXPECT_EQ(fi_control(&set->fid, FI_GETWAIT, &list), -FI_ETOOSMALL);
	EXPECT_EQ(list.nfds, 1u);
	const std::uint64_t before = list.change_index;
	{
		const auto cntr = cntr_in(node, set.get());
		list.nfds = 3;
		ASSERT_EQ(fi_control(&set->fid, FI_GETWAIT, &list), 0);
		EXPECT_EQ(list.nfds, 2u);
		EXPECT_NE(list.change_index, before);
		ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
		EXPECT_EQ(poll(files, 2, patience), 1);
	}
	list.nfds = 3;
	ASSERT_EQ(fi_control(&set->fid, FI_GETWAIT, &list), 0);
	EXPECT_EQ(list.nfds, 1u) << "what is closed has left";
}

// conformance: fi_poll(3): fi_close of a set in use: -FI_EBUSY
TEST(WaitSet, IsBusyWhileItHasMembers)
{
	Node node;
	fid_wait *refused = nullptr;
	fi_wait_attr attr{};
	fid_cq *cq = nullptr;
	fi_cq_attr cq_attr{};

	for (const auto object : {FI_WAIT_NONE, FI_WAIT_SET}) {
		attr.wait_obj = object;
		EXPECT_EQ(fi_wait_open(node.fabric.get(), &attr, &refused), -FI_ENOSYS);
	}
	attr = {FI_WAIT_FD, 1};
	EXPECT_EQ(fi_wait_open(node.fabric.get(), &attr, &refused), -FI_EBADFLAGS);
	cq_attr.wait_obj = FI_WAIT_SET;
	EXPECT_EQ(fi_cq_open(node.domain.get(), &cq_attr, &cq, nullptr), -FI_EINVAL);

	const auto set = wait_set(node);
	int fd;
	EXPECT_EQ(fi_control(&set->fid, FI_GETWAIT, &fd), -FI_ENODATA) << "FI_WAIT_UNSPEC has none";
	const auto member = cntr_in(node, set.get());
	EXPECT_EQ(fi_close(&set->fid), -FI_EBUSY);
}

// conformance: fi_poll(3): FI_GETWAIT: a file, or with FI_WAIT_POLLFD a list of files with a ...
TEST(Wait, AQueueMayListItsFile)
{
	Node node;
	const auto cq = node.cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_POLLFD);
	pollfd file{};
	struct fi_wait_pollfd list {
		7, 0, &file
	};
	fid *fids[] = {&cq->fid};

	EXPECT_EQ(fi_control(&cq->fid, FI_GETWAIT, &list), -FI_ETOOSMALL);
	EXPECT_EQ(list.nfds, 1u);
	ASSERT_EQ(fi_control(&cq->fid, FI_GETWAIT, &list), 0);
	EXPECT_EQ(fi_trywait(node.fabric.get(), fids, 1), 0);
	EXPECT_EQ(poll(&file, 1, 0), 0);
	ASSERT_EQ(fi_cq_signal(cq.get()), 0);
	EXPECT_EQ(poll(&file, 1, patience), 1);
}

} // namespace
