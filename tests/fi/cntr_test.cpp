// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_cntr(3) */
// conformance: fi_poll(3): fi_trywait of queues, counters and wait sets; each change of a ...
// conformance: fi_arch(7): completion counters

#include "node.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace
{

using namespace std::chrono_literals;

TEST(Cntr, BothValuesCanBeSetAndAddedTo)
{
	Node node;
	const auto cntr = node.cntr();

	EXPECT_EQ(fi_cntr_read(cntr.get()), 0u);
	EXPECT_EQ(fi_cntr_add(cntr.get(), 5), 0);
	EXPECT_EQ(fi_cntr_add(cntr.get(), 3), 0);
	EXPECT_TRUE(reaches(cntr.get(), 8));
	EXPECT_EQ(fi_cntr_set(cntr.get(), 2), 0);
	EXPECT_EQ(fi_cntr_read(cntr.get()), 2u);
	EXPECT_EQ(fi_cntr_adderr(cntr.get(), 7), 0);
	EXPECT_EQ(fi_cntr_readerr(cntr.get()), 7u);
	EXPECT_EQ(fi_cntr_seterr(cntr.get(), 1), 0);
	EXPECT_EQ(fi_cntr_readerr(cntr.get()), 1u);
	EXPECT_EQ(fi_cntr_read(cntr.get()), 2u);
	/* All 64 bits count. */
	EXPECT_EQ(fi_cntr_set(cntr.get(), ~0ULL), 0);
	EXPECT_EQ(fi_cntr_read(cntr.get()), ~0ULL);
	EXPECT_EQ(fi_cntr_wait(cntr.get(), ~0ULL, 0), 0);
}

TEST(Cntr, WaitsForAThresholdATimeOrAnError)
{
	Node node;
	const auto cntr = node.cntr();

	EXPECT_EQ(fi_cntr_wait(cntr.get(), 0, -1), 0);
	EXPECT_EQ(fi_cntr_wait(cntr.get(), 1, 0), -FI_ETIMEDOUT);
	EXPECT_EQ(fi_cntr_wait(cntr.get(), 1, 30), -FI_ETIMEDOUT);
	std::thread later([&] {
		std::this_thread::sleep_for(30ms);
		EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
		std::this_thread::sleep_for(30ms);
		EXPECT_EQ(fi_cntr_adderr(cntr.get(), 1), 0);
	});
	EXPECT_EQ(fi_cntr_wait(cntr.get(), 1, -1), 0);
	EXPECT_EQ(fi_cntr_wait(cntr.get(), 2, -1), -FI_EAVAIL);
	later.join();
	/* Only a change of the error count ends a wait. */
	EXPECT_EQ(fi_cntr_wait(cntr.get(), 2, 10), -FI_ETIMEDOUT);
	/* Errors that the application added itself do not end a wait. */
	EXPECT_EQ(fi_cntr_adderr(cntr.get(), 3), 0);
	EXPECT_EQ(fi_cntr_wait(cntr.get(), 2, 10), -FI_ETIMEDOUT);
}

/* Nor do errors that two threads add at the same time. */
TEST(Cntr, ErrorsThatAreAddedAtTheSameTimeAreKnown)
{
	Node node;
	const auto cntr = node.cntr();

	for (int i = 0; i < 2'000; ++i) {
		std::atomic<int> ready{0};
		auto adds = [&] {
			++ready;
			while (ready < 2)
				;
			EXPECT_EQ(fi_cntr_adderr(cntr.get(), 1), 0);
		};
		std::thread other(adds);
		adds();
		other.join();
		ASSERT_EQ(fi_cntr_wait(cntr.get(), 1, 0), -FI_ETIMEDOUT) << i;
	}
	EXPECT_EQ(fi_cntr_readerr(cntr.get()), 4'000u);
}

/*
 * A wait that an error has ended is no success, even if the error was reset before the waiter
 * looks.
 */
// conformance: fi_cntr(3): fi_cntr_wait: until the threshold, or a change of the error value, or
//   the timeout; 0 only for the first
TEST(Cntr, SuccessMeansThatTheThresholdIsReached)
{
	Node node;
	const auto cntr = node.cntr();
	std::atomic<bool> over = false;

	std::thread other([&] {
		while (!over) {
			EXPECT_EQ(fi_cntr_adderr(cntr.get(), 1), 0);
			EXPECT_EQ(fi_cntr_seterr(cntr.get(), 0), 0);
		}
	});
	int successes = 0;
	for (int i = 0; i < 1'000; ++i)
		successes += !fi_cntr_wait(cntr.get(), 1, 1);
	over = true;
	other.join();
	EXPECT_EQ(successes, 0);
}

/*
 * fi_cntr(3): it waits "until the counter reaches the specified threshold, or until an error or
 * timeout occurs".
 */
// conformance: fi_cntr(3): fi_cntr_wait: until the threshold, or a change of the error value, ...
TEST(Cntr, SignalsDontEndAWait)
{
	static std::atomic<int> signals;
	Node node;
	const auto cntr = node.cntr();
	const auto waiter = pthread_self();
	struct sigaction action = {}, before;

	signals = 0;
	action.sa_handler = [](int) { ++signals; };
	ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
	std::thread other([&] {
		for (int i = 0; i < 20; ++i) {
			pthread_kill(waiter, SIGUSR1);
			usleep(5'000);
			while (signals <= i) /* two at a time would count as one */
				usleep(1'000);
		}
		EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	});
	EXPECT_EQ(fi_cntr_wait(cntr.get(), 1, -1), 0);
	other.join();
	EXPECT_EQ(signals, 20);
	/* nor does each signal restart the timeout */
	std::atomic<bool> over = false;
	std::thread third([&] {
		while (!over) {
			pthread_kill(waiter, SIGUSR1);
			usleep(5'000);
		}
	});
	EXPECT_EQ(fi_cntr_wait(cntr.get(), 2, 100), -FI_ETIMEDOUT);
	over = true;
	third.join();
	sigaction(SIGUSR1, &before, nullptr);
}

void counts_what_it_is_bound_for(bool beside_a_queue)
{
	Node node(hints_for(FI_MSG | FI_TAGGED));
	const auto av = node.av();
	const auto cq = node.cq();
	const auto sends = node.cntr(), receives = node.cntr();
	const auto ep = node.ep();
	char c;

	ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	if (beside_a_queue) {
		ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	}
	EXPECT_EQ(fi_ep_bind(ep.get(), &sends->fid, FI_SEND), 0);
	if (!beside_a_queue) {
		EXPECT_EQ(fi_enable(ep.get()), -FI_ENOCQ) << "receives are not reported";
	}
	ASSERT_EQ(fi_ep_bind(ep.get(), &receives->fid, FI_RECV), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	fi_addr_t self;
	ASSERT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr), 1);

	for (int i = 0; i < 3; ++i)
		ASSERT_EQ(fi_recv(ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_trecv(ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), 0);
	ASSERT_EQ(fi_send(ep.get(), &c, 1, nullptr, self, nullptr), 0);
	ASSERT_EQ(fi_inject(ep.get(), &c, 1, self), 0);
	ASSERT_EQ(fi_tsend(ep.get(), &c, 1, nullptr, self, 1, nullptr), 0);
	EXPECT_TRUE(reaches(sends.get(), 3));
	EXPECT_TRUE(reaches(receives.get(), 3));
	/* A failure counts as an error only. */
	ASSERT_EQ(fi_send(ep.get(), "long", 4, nullptr, self, nullptr), 0);
	EXPECT_EQ(fi_cntr_wait(receives.get(), 4, patience), -FI_EAVAIL);
	EXPECT_EQ(fi_cntr_readerr(receives.get()), 1u);
	EXPECT_TRUE(reaches(sends.get(), 4));
}

TEST(Cntr, CountsTheBoundOperations)
{
	counts_what_it_is_bound_for(true);
}

/* fi_cntr(3): "a light-weight completion mechanism"; so it needs no queue. */
// conformance: fi_endpoint(3): an endpoint needs a completion queue or a counter for each
//   direction: -FI_ENOCQ
TEST(Cntr, AloneReportsCompletions)
{
	counts_what_it_is_bound_for(false);
}

/* fi_endpoint(3), FI_REMOTE_READ: "requires that the endpoint be created using FI_RMA_EVENT." */
// conformance: fi_endpoint(3): counters of FI_REMOTE_READ, FI_REMOTE_WRITE need FI_RMA_EVENT;
//   without it they are ignored beside others
TEST(Cntr, OfRemoteOperationsNeedsRmaEvent)
{
	Node node(hints_for(FI_MSG));
	const auto cntr = node.cntr();
	const auto ep = node.ep();

	EXPECT_EQ(fi_ep_bind(ep.get(), &cntr->fid, FI_REMOTE_READ | FI_REMOTE_WRITE), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(ep.get(), &cntr->fid, FI_RECV | FI_REMOTE_WRITE), 0)
		<< "one counter for everything that there is";
}

TEST(Cntr, TheFileReportsEveryChange)
{
	Node node;
	const auto cntr = node.cntr(FI_WAIT_FD);
	fid *objects[] = {&cntr->fid};
	int fd = -1;

	ASSERT_EQ(fi_control(&cntr->fid, FI_GETWAIT, &fd), 0);
	EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), 0);
	for (int i = 1; i <= 20; ++i) {
		pollfd file{fd, POLLIN, 0};
		EXPECT_EQ(poll(&file, 1, 0), 0);
		std::thread later([&] {
			std::this_thread::sleep_for(std::chrono::milliseconds(i % 3));
			EXPECT_EQ(i % 2 ? fi_cntr_add(cntr.get(), 1) :
					  fi_cntr_adderr(cntr.get(), 1),
				  0);
		});
		EXPECT_EQ(poll(&file, 1, patience), 1);
		later.join();
		EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), -FI_EAGAIN)
			<< "it has changed";
		EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), 0) << "and that was told";
	}
	/* A change between reading the counter and fi_trywait is noticed. */
	EXPECT_EQ(fi_cntr_read(cntr.get()), 10u);
	EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), -FI_EAGAIN);
}

/* A change to the same value is a change: a wait after a reset must not go on sleeping. */
TEST(Cntr, AValueThatComesBackIsNoticed)
{
	Node node;
	const auto cntr = node.cntr(FI_WAIT_FD);
	fid *objects[] = {&cntr->fid};
	fid_poll *set = nullptr;
	fi_poll_attr attr{};
	void *context = nullptr;
	int fd = -1;

	ASSERT_EQ(fi_poll_open(node.domain.get(), &attr, &set), 0);
	const Owned<fid_poll> owned(set);
	ASSERT_EQ(fi_poll_add(set, &cntr->fid, 0), 0);
	ASSERT_EQ(fi_control(&cntr->fid, FI_GETWAIT, &fd), 0);
	EXPECT_EQ(fi_cntr_add(cntr.get(), 3), 0);
	EXPECT_EQ(fi_poll(set, &context, 1), 1);
	EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), -FI_EAGAIN);
	EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), 0);
	EXPECT_EQ(fi_cntr_set(cntr.get(), 0), 0);
	EXPECT_EQ(fi_cntr_add(cntr.get(), 3), 0);
	pollfd file{fd, POLLIN, 0};
	EXPECT_EQ(poll(&file, 1, 0), 1);
	EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), -FI_EAGAIN);
	EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), 0);
	EXPECT_EQ(fi_poll(set, &context, 1), 1);
	EXPECT_EQ(fi_poll(set, &context, 1), 0);
	EXPECT_EQ(fi_poll_del(set, &cntr->fid, 0), 0);
}

/* FI_CNTR_EVENTS_BYTES, libfabric 2.x */
Owned<fid_cntr> byte_counter(const Node &node)
{
	fid_cntr *cntr = nullptr;
	fi_cntr_attr attr{};

	attr.events = fi_cntr_events(FI_CNTR_EVENTS_COMP + 1);
	EXPECT_EQ(fi_cntr_open(node.domain.get(), &attr, &cntr, nullptr), 0);
	return Owned<fid_cntr>(cntr);
}

/*
 * "On error, the transfer size is not applied to the error field, that field is increment by 1." A
 * queued operation counts into its completion_cntr.
 */
// conformance: fi_cntr(3): FI_CNTR_EVENTS_BYTES (2.x): the bytes of operations that succeed, 1 for
//   an error; collectives add nothing
TEST(Cntr, OfBytesGrowsByTheLengthOfTransfers)
{
	Node node(hints_for(FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT | FI_TRIGGER));
	const auto sends = byte_counter(node), receives = byte_counter(node);
	const auto writes = byte_counter(node), reads = byte_counter(node);
	const auto remote_writes = byte_counter(node), remote_reads = byte_counter(node);
	const auto own = byte_counter(node);
	const auto av = node.av();
	const auto ep = node.ep();
	std::vector<char> from(10'000), to(10'000);
	fid_mr *mr = nullptr;
	fi_addr_t self;

	ASSERT_EQ(fi_mr_reg(node.domain.get(), to.data(), to.size(),
			    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, nullptr),
		  0);
	const Owned<fid_mr> region(mr);
	const std::uint64_t base = node.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ?
					   reinterpret_cast<std::uintptr_t>(to.data()) :
					   0;
	const std::uint64_t key = fi_mr_key(mr);
	ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &sends->fid, FI_SEND), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &receives->fid, FI_RECV), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &writes->fid, FI_WRITE), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &reads->fid, FI_READ), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &remote_writes->fid, FI_REMOTE_WRITE), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &remote_reads->fid, FI_REMOTE_READ), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	ASSERT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr), 1);

	for (const std::size_t len : {8, 0, 5000}) {
		ASSERT_EQ(fi_trecv(ep.get(), to.data(), to.size(), nullptr, FI_ADDR_UNSPEC, 1, 0,
				   nullptr),
			  0);
		ASSERT_EQ(fi_tsend(ep.get(), from.data(), len, nullptr, self, 1, nullptr), 0);
	}
	ASSERT_EQ(fi_inject(ep.get(), from.data(), 3, self), 0);
	ASSERT_EQ(fi_recv(ep.get(), to.data(), to.size(), nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	EXPECT_TRUE(reaches(sends.get(), 5011));
	EXPECT_TRUE(reaches(receives.get(), 5011));
	ASSERT_EQ(fi_write(ep.get(), from.data(), 100, nullptr, self, base, key, nullptr), 0);
	ASSERT_EQ(fi_read(ep.get(), from.data(), 7000, nullptr, self, base, key, nullptr), 0);
	EXPECT_TRUE(reaches(writes.get(), 100));
	EXPECT_TRUE(reaches(remote_writes.get(), 100));
	EXPECT_TRUE(reaches(reads.get(), 7000));
	EXPECT_TRUE(reaches(remote_reads.get(), 7000));

	fi_op_rma op{};
	iovec iov{from.data(), 300};
	fi_rma_iov range{base, 300, key};
	op.ep = ep.get();
	op.msg = {&iov, nullptr, 1, self, &range, 1, nullptr, 0};
	fi_deferred_work work{};
	work.threshold = 100;
	work.triggering_cntr = writes.get();
	work.completion_cntr = own.get();
	work.op_type = FI_OP_WRITE;
	work.op.rma = &op;
	ASSERT_EQ(fi_control(&node.domain->fid, FI_QUEUE_WORK, &work), 0);
	EXPECT_TRUE(reaches(own.get(), 300));
	EXPECT_TRUE(reaches(remote_writes.get(), 400));

	ASSERT_EQ(fi_write(ep.get(), from.data(), 1000, nullptr, self, base, key + 1, nullptr), 0);
	EXPECT_EQ(fi_cntr_wait(writes.get(), 1000, patience), -FI_EAVAIL);
	EXPECT_EQ(fi_cntr_readerr(writes.get()), 1u);
	EXPECT_EQ(fi_cntr_read(writes.get()), 100u);
	EXPECT_EQ(fi_cntr_read(remote_writes.get()), 400u);
}

TEST(Cntr, OpeningRefusesUnknownAttributes)
{
	Node node;
	fid_cntr *cntr = nullptr;
	fi_cntr_attr attr{};

	attr.wait_obj = fi_wait_obj(99);
	EXPECT_EQ(fi_cntr_open(node.domain.get(), &attr, &cntr, nullptr), -FI_ENOSYS);
	attr = {};
	attr.flags = 1;
	EXPECT_EQ(fi_cntr_open(node.domain.get(), &attr, &cntr, nullptr), -FI_EBADFLAGS);
	attr = {};
	attr.events = fi_cntr_events(5);
	EXPECT_EQ(fi_cntr_open(node.domain.get(), &attr, &cntr, nullptr), -FI_ENOSYS);
	ASSERT_EQ(fi_cntr_open(node.domain.get(), nullptr, &cntr, nullptr), 0);
	std::uint64_t flags = 5;
	EXPECT_EQ(fi_control(&cntr->fid, FI_GETOPSFLAG, &flags), 0);
	EXPECT_EQ(flags, 0u);
	EXPECT_EQ(fi_close(&cntr->fid), 0);
}

} // namespace
