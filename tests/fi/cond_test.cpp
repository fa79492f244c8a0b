// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * FI_WAIT_MUTEX_COND of queues, counters and wait sets: fi_cq(3), fi_eq(3), fi_cntr(3), fi_poll(3).
 */
// conformance: fi_poll(3): FI_WAIT_MUTEX_COND: struct fi_mutex_cond by FI_GETWAIT; also of queues
//   and counters

#include "child.h"
#include "node.h"

#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace
{

fi_mutex_cond objects_of(fid *object)
{
	fi_mutex_cond objects{};
	fi_wait_obj kind = FI_WAIT_NONE;

	EXPECT_EQ(fi_control(object, FI_GETWAITOBJ, &kind), 0);
	EXPECT_EQ(kind, FI_WAIT_MUTEX_COND);
	EXPECT_EQ(fi_control(object, FI_GETWAIT, &objects), 0);
	EXPECT_NE(objects.mutex, nullptr);
	EXPECT_NE(objects.cond, nullptr);
	return objects;
}

/* Waits as fi_poll(3) tells applications to; returns 0 when there is something. */
int wait_for(const Node &node, fid *object, const fi_mutex_cond &objects)
{
	timespec end;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 20;
	pthread_mutex_lock(objects.mutex);
	while (!rc && fi_trywait(node.fabric.get(), &object, 1) == 0)
		rc = pthread_cond_timedwait(objects.cond, objects.mutex, &end);
	pthread_mutex_unlock(objects.mutex);
	return rc;
}

/* Runs an action in another thread, sooner or later, and waits for it. */
template <class F> void expect_wakes(const Node &node, fid *object, F &&happens)
{
	const fi_mutex_cond objects = objects_of(object);

	for (int i = 0; i < 200; ++i) {
		std::thread other([&] {
			for (int spin = 0; spin < i % 50 * 100; ++spin)
				std::atomic_signal_fence(std::memory_order_seq_cst);
			if (i % 20 == 0)
				std::this_thread::sleep_for(std::chrono::milliseconds(5));
			happens(i, true);
		});
		EXPECT_EQ(wait_for(node, object, objects), 0) << i;
		happens(i, false); /* take the event */
		other.join();
	}
}

TEST(Cond, ACompletionQueueSignals)
{
	Node node;
	Side::Options options;
	options.wait = FI_WAIT_MUTEX_COND;
	Side a(node), b(node, options);
	const fi_addr_t peer = a.insert(b.ep.get());
	char in[8], out[8] = "message";

	expect_wakes(node, &b.rx_cq->fid, [&](int i, bool now) {
		fi_cq_tagged_entry entry;
		if (now) {
			EXPECT_EQ(fi_recv(b.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(i)), 0);
			EXPECT_EQ(fi_send(a.ep.get(), out, 8, nullptr, peer, nullptr), 0);
			next(a.tx_cq.get());
		} else {
			EXPECT_EQ(fi_cq_read(b.rx_cq.get(), &entry, 1), 1);
			EXPECT_EQ(entry.op_context, ctx(i));
		}
	});
	/* The other ways to wait work, too. */
	fi_cq_tagged_entry entry;
	EXPECT_EQ(fi_cq_sread(b.rx_cq.get(), &entry, 1, nullptr, 10), -FI_EAGAIN);
}

TEST(Cond, ASignalledQueueSignals)
{
	Node node;
	const auto cq = node.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_MUTEX_COND);

	expect_wakes(node, &cq->fid, [&](int, bool now) {
		if (now) {
			EXPECT_EQ(fi_cq_signal(cq.get()), 0);
		}
	});
}

TEST(Cond, ACounterSignals)
{
	Node node;
	const auto cntr = node.cntr(FI_WAIT_MUTEX_COND);

	expect_wakes(node, &cntr->fid, [&](int i, bool now) {
		if (now) {
			EXPECT_EQ((i % 2 ? fi_cntr_adderr : fi_cntr_add)(cntr.get(), 1), 0);
		}
	});
}

// conformance: fi_eq(3): wait objects
TEST(Cond, AnEventQueueSignals)
{
	Node node;
	const auto eq = node.eq(FI_WAIT_MUTEX_COND, FI_WRITE);

	expect_wakes(node, &eq->fid, [&](int, bool now) {
		fi_eq_entry entry{};
		std::uint32_t event;
		if (now)
			EXPECT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof(entry), 0),
				  ssize_t{sizeof(entry)});
		else
			EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0),
				  ssize_t{sizeof(entry)});
	});
}

Owned<fid_wait> set_of(const Node &node)
{
	fi_wait_attr attr{.wait_obj = FI_WAIT_MUTEX_COND, .flags = 0};
	fid_wait *set = nullptr;

	EXPECT_EQ(fi_wait_open(node.fabric.get(), &attr, &set), 0);
	return Owned<fid_wait>(set);
}

Owned<fid_cntr> cntr_in(const Node &node, fid_wait *set)
{
	fi_cntr_attr attr{};
	fid_cntr *cntr = nullptr;

	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = set;
	EXPECT_EQ(fi_cntr_open(node.domain.get(), &attr, &cntr, nullptr), 0);
	return Owned<fid_cntr>(cntr);
}

// conformance: fi_poll(3): fi_wait_open: FI_WAIT_UNSPEC, FD, POLLFD, MUTEX_COND, YIELD
TEST(Cond, AWaitSetSignalsForItsMembers)
{
	Node node;
	const auto set = set_of(node);
	const auto cntr = cntr_in(node, set.get());
	fi_cq_attr of_cq{};
	of_cq.wait_obj = FI_WAIT_SET;
	of_cq.wait_set = set.get();
	fid_cq *cq = nullptr;
	ASSERT_EQ(fi_cq_open(node.domain.get(), &of_cq, &cq, nullptr), 0);
	const Owned<fid_cq> owned_cq(cq);

	expect_wakes(node, &set->fid, [&](int i, bool now) {
		if (now) {
			EXPECT_EQ(i % 2 ? fi_cntr_add(cntr.get(), 1) : fi_cq_signal(cq), 0);
		}
	});
	EXPECT_EQ(fi_wait(set.get(), 10), -FI_ETIMEDOUT);
}

/*
 * One thread waits for the counter. Another one calls fi_trywait as soon as it has changed, which
 * takes the news.
 */
void expect_woken_although_taken(const Node &node, fid_cntr *cntr, fid *object)
{
	const fi_mutex_cond objects = objects_of(object);
	const fi_mutex_cond *const o = &objects;

	for (std::uint64_t i = 1; i <= 300; ++i) {
		std::atomic<bool> waits{false};
		int rc = 0;
		std::thread waiter([&] {
			timespec end;

			clock_gettime(CLOCK_REALTIME, &end);
			end.tv_sec += 10;
			pthread_mutex_lock(o->mutex);
			waits = true;
			while (!rc && fi_cntr_read(cntr) < i)
				if (fi_trywait(node.fabric.get(), &object, 1) == 0)
					rc = pthread_cond_timedwait(o->cond, o->mutex, &end);
			pthread_mutex_unlock(o->mutex);
		});
		while (!waits)
			std::this_thread::yield();
		/* The thread waits now. A late wake-up can't make it take the news itself. */
		pthread_mutex_lock(o->mutex);
		EXPECT_EQ(fi_cntr_add(cntr, 1), 0);
		EXPECT_EQ(fi_trywait(node.fabric.get(), &object, 1), -FI_EAGAIN);
		pthread_mutex_unlock(o->mutex);
		waiter.join();
		ASSERT_EQ(rc, 0) << i;
	}
}

TEST(Cond, TakingTheNewsOfACounterWakesTheWaiter)
{
	Node node;
	const auto cntr = node.cntr(FI_WAIT_MUTEX_COND);

	expect_woken_although_taken(node, cntr.get(), &cntr->fid);
}

TEST(Cond, TakingTheNewsOfAWaitSetWakesTheWaiter)
{
	Node node;
	const auto set = set_of(node);
	const auto cntr = cntr_in(node, set.get());

	expect_woken_although_taken(node, cntr.get(), &set->fid);
}

/* An object that is closed leaves no thread behind. */
TEST(Cond, ManyCanBeOpenedAndClosed)
{
	Node node;

	for (int round = 0; round < 20; ++round) {
		std::vector<Owned<fid_cntr>> cntrs;
		for (int i = 0; i < 20; ++i) {
			cntrs.push_back(node.cntr(FI_WAIT_MUTEX_COND));
			EXPECT_EQ(fi_cntr_add(cntrs.back().get(), 1), 0);
		}
	}
	/* a thread that was joined may be listed a little longer */
	const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience);
	const auto threads = [] {
		return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
	};
	while (threads() != 1 && std::chrono::steady_clock::now() < until)
		std::this_thread::yield();
	EXPECT_EQ(threads(), 1);
}

/* A mutex that is held for long delays only waits on its own object. */
TEST(Cond, ObjectsAreIndependent)
{
	Node node;
	const auto busy = node.cntr(FI_WAIT_MUTEX_COND), other = node.cntr(FI_WAIT_MUTEX_COND);
	const fi_mutex_cond held = objects_of(&busy->fid);

	pthread_mutex_lock(held.mutex);
	EXPECT_EQ(fi_cntr_add(busy.get(), 1), 0);
	expect_wakes(node, &other->fid, [&](int, bool now) {
		if (now) {
			EXPECT_EQ(fi_cntr_add(other.get(), 1), 0);
		}
	});
	pthread_mutex_unlock(held.mutex);
}

/* The thread runs in the parent only: a child that closes the object does not wait for it. */
TEST(Cond, AChildMayCloseWhatItHasInherited)
{
	Node node;
	const auto cntr = node.cntr(FI_WAIT_MUTEX_COND);
	Child child([&](int) { return fi_close(&cntr->fid) == 0 ? 0 : 2; });

	EXPECT_EQ(child.wait(), 0);
	EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(wait_for(node, &cntr->fid, objects_of(&cntr->fid)), 0);
}

/* The limit of files is reached at each step of the call in turn. */
TEST(Cond, WithoutRoomForFilesItIsEmfile)
{
	const Node node;
	const auto warm = node.eq(FI_WAIT_MUTEX_COND); /* files that are opened once */
	rlimit before{};

	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	const int free = dup(0);
	ASSERT_GE(free, 0);
	close(free);
	bool opened = false;
	for (int room = 0; room < 16 && !opened; ++room) {
		const rlimit limit{static_cast<rlim_t>(free + room), before.rlim_max};
		fi_eq_attr attr{};
		fid_eq *eq = nullptr;
		fi_mutex_cond objects;

		attr.wait_obj = FI_WAIT_MUTEX_COND;
		ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
		int rc = fi_eq_open(node.fabric.get(), &attr, &eq, nullptr);
		if (!rc) {
			rc = fi_control(&eq->fid, FI_GETWAIT, &objects);
			fi_close(&eq->fid);
		}
		setrlimit(RLIMIT_NOFILE, &before);
		opened = !rc;
		EXPECT_TRUE(opened || rc == -FI_EMFILE) << "room for " << room << ": " << rc;
	}
	EXPECT_TRUE(opened);
}

} // namespace
