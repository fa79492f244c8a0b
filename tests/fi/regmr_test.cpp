// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Asynchronous registration: fi_domain_bind with FI_REG_MR, fi_mr(3), fi_eq(3). */
#include "child.h"
#include "node.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <rdma/fi_rma.h>

namespace
{

constexpr std::uint64_t both = FI_REMOTE_READ | FI_REMOTE_WRITE;

/* Not a fixture, so that a child can have one of its own. */
struct Bound {
	explicit Bound(Info hints = hints_for(0)) : node(std::move(hints)), eq(node.eq(FI_WAIT_FD))
	{
		EXPECT_EQ(fi_domain_bind(node.domain.get(), &eq->fid, FI_REG_MR), 0);
	}
	~Bound() { node.domain.reset(); /* which uses the queue */ }
	fid_mr *reg(std::uint64_t key, void *context)
	{
		fid_mr *mr = nullptr;

		EXPECT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), both, 0, key, 0, &mr,
				    context),
			  0);
		return mr;
	}
	/* The next event; the file must be readable for it. */
	std::uint32_t next(fi_eq_entry &entry)
	{
		std::uint32_t event = 0;
		int fd = -1;

		EXPECT_EQ(fi_control(&eq->fid, FI_GETWAIT, &fd), 0);
		for (;;) {
			const ssize_t n = fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0);
			if (n != -FI_EAGAIN) {
				EXPECT_EQ(n, n == -FI_EAVAIL ? n : ssize_t{sizeof(entry)});
				return n < 0 ? 0 : event;
			}
			pollfd file{fd, POLLIN, 0};
			if (poll(&file, 1, patience) != 1) {
				ADD_FAILURE() << "no event";
				return 0;
			}
		}
	}
	void expect_complete(const fid_mr *mr)
	{
		fi_eq_entry entry{};

		EXPECT_EQ(next(entry), std::uint32_t{FI_MR_COMPLETE});
		EXPECT_EQ(entry.fid, &mr->fid);
		EXPECT_EQ(entry.context, mr->fid.context);
	}

	Node node;
	Owned<fid_eq> eq;
	char memory[8192];
};

// conformance: fi_domain(3): fi_domain_bind with FI_REG_MR: registration reports through the EQ
// conformance: fi_domain(3): FI_PROGRESS_AUTO, control and data: progress without intervention
// conformance: fi_mr(3): asynchronous registration: context is returned with the completion event
TEST(RegMr, TheResultIsReportedThroughTheEventQueue)
{
	Bound b;
	fid_mr *const mr = b.reg(5, ctx(1));

	b.expect_complete(mr);
	EXPECT_EQ(fi_mr_key(mr), 5u);
	EXPECT_NE(fi_mr_desc(mr), nullptr);
	const auto cntr = b.node.cntr();
	EXPECT_EQ(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), 0);
	EXPECT_EQ(fi_mr_enable(mr), 0);
	EXPECT_EQ(fi_close(&mr->fid), 0);
	/* The queue can't be replaced. */
	const auto other = b.node.eq();
	EXPECT_EQ(fi_domain_bind(b.node.domain.get(), &other->fid, FI_REG_MR), -FI_EINVAL);
	EXPECT_EQ(fi_close(&b.eq->fid), -FI_EBUSY);
}

// conformance: fi_mr(3): asynchronous registration: the mr parameter is written before any event
//   may be read
TEST(RegMr, ManyAreUnderWayAtOnce)
{
	Bound b;
	std::map<fid *, fid_mr *> open;
	fi_eq_entry entry{};

	for (std::uintptr_t i = 0; i < 300; ++i) {
		fid_mr *const mr = b.reg(i, ctx(i + 1));
		open[&mr->fid] = mr;
	}
	for (int i = 0; i < 300; ++i) {
		ASSERT_EQ(b.next(entry), std::uint32_t{FI_MR_COMPLETE});
		const auto found = open.find(entry.fid);
		ASSERT_NE(found, open.end()); /* each once */
		EXPECT_EQ(ctx(fi_mr_key(found->second) + 1), entry.context);
		EXPECT_EQ(fi_close(entry.fid), 0);
		open.erase(found);
	}
	std::uint32_t event;
	EXPECT_EQ(fi_eq_read(b.eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
}

// conformance: fi_mr(3): fi_mr_refresh, fi_mr_enable do nothing, as a region is enabled from ...
// conformance: fi_mr(3): fi_mr_key: FI_KEY_NOTAVAIL if the registration has not completed
TEST(RegMr, AnErrorIsReportedAsAnErrorEntry)
{
	Bound b;
	fid_mr *const first = b.reg(5, ctx(1));
	fi_eq_err_entry error{};
	fi_eq_entry entry{};

	b.expect_complete(first);
	fid_mr *const second = b.reg(5, ctx(2));
	EXPECT_EQ(fi_mr_key(second), FI_KEY_NOTAVAIL);
	EXPECT_EQ(b.next(entry), 0u);
	ASSERT_EQ(fi_eq_readerr(b.eq.get(), &error, 0), ssize_t{sizeof(error)});
	EXPECT_EQ(error.fid, &second->fid);
	EXPECT_EQ(error.context, ctx(2));
	EXPECT_EQ(error.err, FI_ENOKEY);
	EXPECT_EQ(fi_mr_key(second), FI_KEY_NOTAVAIL);
	const auto cntr = b.node.cntr();
	EXPECT_EQ(fi_mr_bind(second, &cntr->fid, FI_REMOTE_WRITE), -FI_EOPBADSTATE);
	Log log;
	EXPECT_EQ(fi_mr_enable(second), -FI_EOPBADSTATE);
	EXPECT_TRUE(log.has("enable: is not registered")) << log.all();
	EXPECT_EQ(fi_mr_refresh(second, nullptr, 0, 0), -FI_EOPBADSTATE);
	EXPECT_TRUE(log.has("refresh: is not registered")) << log.all();
	EXPECT_EQ(fi_close(&second->fid), 0);
	EXPECT_EQ(fi_close(&first->fid), 0);
}

/* Calls that need the region find it complete, and its event can still be read. */
// conformance: fi_mr(3): fi_mr_refresh, fi_mr_enable do nothing, as a region is enabled from ...
// conformance: fi_mr(3): fi_mr_key: FI_KEY_NOTAVAIL if the registration has not completed
TEST(RegMr, RegionsWorkWithoutReadingEvents)
{
	Bound b;
	const auto cntr = b.node.cntr();
	const std::function<int(fid_mr *)> calls[] = {
		[](fid_mr *mr) { return fi_mr_enable(mr); },
		[](fid_mr *mr) { return fi_mr_refresh(mr, nullptr, 0, 0); },
		[&](fid_mr *mr) { return fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE); },
		[](fid_mr *mr) {
			std::uint64_t base = 1, raw = 0;
			std::size_t size = sizeof(raw);
			const int rc = fi_mr_raw_attr(
				mr, &base, reinterpret_cast<std::uint8_t *>(&raw), &size, 0);
			EXPECT_EQ(raw, rc ? 0u : 5u);
			return rc;
		},
	};

	for (const auto &call : calls) {
		fid_mr *const mr = b.reg(5, ctx(1));
		const auto end =
			std::chrono::steady_clock::now() + std::chrono::milliseconds(patience);
		int rc;
		while ((rc = call(mr)) == -FI_EOPBADSTATE && std::chrono::steady_clock::now() < end)
			std::this_thread::yield();
		EXPECT_EQ(rc, 0);
		EXPECT_EQ(fi_mr_key(mr), 5u);
		b.expect_complete(mr);
		EXPECT_EQ(fi_close(&mr->fid), 0);
	}
}

/* Another thread reads the events meanwhile. */
// conformance: fi_mr(3): fi_mr_key: FI_KEY_NOTAVAIL if the registration has not completed
TEST(RegMr, ARegionMayBeBoundOnceItsKeyIsSet)
{
	Bound b;
	const auto cntr = b.node.cntr();
	std::atomic<bool> over = false;
	std::thread reader([&] {
		fi_eq_entry entry{};
		std::uint32_t event;
		while (!over)
			(void)fi_eq_read(b.eq.get(), &event, &entry, sizeof(entry), 0);
	});

	for (int round = 0; round < 2000; ++round) {
		fid_mr *const mr = b.reg(5, ctx(1));
		while (*const_cast<volatile std::uint64_t *>(&mr->key) == FI_KEY_NOTAVAIL)
			;
		EXPECT_EQ(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), 0);
		EXPECT_EQ(fi_close(&mr->fid), 0);
	}
	over = true;
	reader.join();
}

// conformance: fi_mr(3): asynchronous registration: no event is generated unless the registration
//   call returns success
TEST(RegMr, AnImmediateErrorHasNoEvent)
{
	Bound b;
	fid_mr *mr = nullptr;
	fi_eq_entry entry{};
	std::uint32_t event;

	EXPECT_EQ(fi_mr_reg(b.node.domain.get(), b.memory, 8, both, 1, 0, 0, &mr, nullptr),
		  -FI_EINVAL);
	EXPECT_EQ(fi_eq_read(b.eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
}

/* Its event goes with it, whether it is in the queue or not; events of others stay. */
TEST(RegMr, ARegistrationUnderWayCanBeClosed)
{
	Bound b;

	for (int round = 0; round < 50; ++round) {
		fid_mr *const stays = b.reg(1, ctx(1));
		for (int i = 0; i < 20; ++i) {
			fid_mr *const mr = b.reg(2, ctx(2));
			EXPECT_EQ(fi_close(&mr->fid), 0);
		}
		b.expect_complete(stays);
		EXPECT_EQ(fi_close(&stays->fid), 0);
	}
	fi_eq_entry entry{};
	std::uint32_t event;
	EXPECT_EQ(fi_eq_read(b.eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	int fd = -1;
	ASSERT_EQ(fi_control(&b.eq->fid, FI_GETWAIT, &fd), 0);
	pollfd file{fd, POLLIN, 0};
	EXPECT_EQ(poll(&file, 1, 0), 0);
}

/* A registration completes even if its thread has gone. */
TEST(RegMr, ARegistrationOutlivesItsThread)
{
	Bound b;
	fi_eq_entry entry{};

	for (int round = 0; round < 10; ++round) {
		std::vector<fid_mr *> mrs;
		std::thread([&] {
			for (int i = 0; i < 20; ++i)
				mrs.push_back(b.reg(i, ctx(i)));
		}).join();
		for (int i = 0; i < 20; ++i)
			EXPECT_EQ(b.next(entry), std::uint32_t{FI_MR_COMPLETE});
		for (fid_mr *const mr : mrs) {
			EXPECT_NE(fi_mr_key(mr), FI_KEY_NOTAVAIL);
			EXPECT_EQ(fi_close(&mr->fid), 0);
		}
	}
}

TEST(RegMr, PeersReachItAfterItsEvent)
{
	Bound b(hints_for(FI_MSG | FI_RMA));
	Side x(b.node), y(b.node);
	char from[8] = "written";
	fid_mr *const mr = b.reg(77, ctx(1));

	b.expect_complete(mr);
	ASSERT_EQ(fi_write(x.ep.get(), from, 8, nullptr, x.insert(y.ep.get()), 100, fi_mr_key(mr),
			   ctx(3)),
		  0);
	EXPECT_EQ(next(x.tx_cq.get()).op_context, ctx(3));
	EXPECT_STREQ(b.memory + 100, from);
	EXPECT_EQ(fi_close(&mr->fid), 0);
}

/* A child sees its parent's queue, but not its parent's events. */
TEST(RegMr, AChildTakesNothingFromItsParent)
{
	Bound b;
	std::vector<fid_mr *> mrs;

	for (int i = 0; i < 20; ++i)
		mrs.push_back(b.reg(i, ctx(i)));
	Child child([&](int) {
		fid_mr *mr = nullptr;
		fi_eq_entry entry;
		std::uint32_t event;

		EXPECT_LT(fi_mr_reg(b.node.domain.get(), b.memory, 8, both, 0, 50, 0, &mr, nullptr),
			  0);
		for (int i = 0; i < 1000; ++i)
			EXPECT_LT(fi_eq_read(b.eq.get(), &event, &entry, sizeof(entry), 0), 0);
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
	for (int i = 0; i < 20; ++i) {
		fi_eq_entry entry{};
		EXPECT_EQ(b.next(entry), std::uint32_t{FI_MR_COMPLETE});
	}
	for (fid_mr *const mr : mrs)
		EXPECT_EQ(fi_close(&mr->fid), 0);
}

/* Makes a system call fail in this thread, as a container may. */
bool forbid(std::uint32_t call, std::uint32_t error)
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const sock_fprog program{std::size(code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// conformance: fi_mr(3): asynchronous registration: no event is generated unless the ...
TEST(RegMr, TheEventComesAlsoWithoutIoUring)
{
	Child child([](int) {
		EXPECT_TRUE(forbid(SYS_io_uring_setup, EPERM));
		Log log;
		Bound b;
		EXPECT_TRUE(log.has("io_uring")) << log.all();
		fid_mr *mr = b.reg(5, ctx(1));
		b.expect_complete(mr);
		EXPECT_EQ(fi_mr_key(mr), 5u);
		/* Errors are returned by the call now. */
		fid_mr *second = nullptr;
		EXPECT_EQ(fi_mr_reg(b.node.domain.get(), b.memory, 8, both, 0, 5, 0, &second,
				    nullptr),
			  -FI_ENOKEY);
		EXPECT_EQ(fi_close(&mr->fid), 0);
		/* An unread event goes with its region. */
		mr = b.reg(5, ctx(1));
		EXPECT_EQ(fi_close(&mr->fid), 0);
		fi_eq_entry entry{};
		std::uint32_t event;
		EXPECT_EQ(fi_eq_read(b.eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
}

/* Registrations, or ends of them, that could not be submitted do not affect later ones. */
// conformance: fi_mr(3): asynchronous registration: no event is generated unless the ...
TEST(RegMr, RegistrationsThatCouldNotBeginLeaveNothingBehind)
{
	Bound b;
	fid_mr *const taken = b.reg(1, ctx(1));
	fi_eq_entry entry{};
	std::uint32_t event;

	b.expect_complete(taken);
	for (const int failed : {1, 100}) { /* that many are more than there is room for */
		std::vector<fid_mr *> mrs;
		for (int i = 0; i < std::min(failed, 20); ++i)
			mrs.push_back(b.reg(2, ctx(2)));
		std::thread([&] {
			EXPECT_TRUE(forbid(SYS_io_uring_enter, EAGAIN));
			for (fid_mr *const mr : mrs)
				EXPECT_EQ(fi_close(&mr->fid), 0);
			for (int i = 0; i < failed; ++i) {
				fid_mr *const mr = b.reg(3, ctx(3));
				EXPECT_EQ(fi_mr_key(mr), 3u) << "by the call";
				EXPECT_EQ(fi_close(&mr->fid), 0);
			}
		}).join();
		for (int i = 0; i < 20; ++i) {
			/* The registration begins, so one event reports the error. */
			fid_mr *const mr = b.reg(1, ctx(4));
			ASSERT_NE(mr, nullptr);
			EXPECT_EQ(b.next(entry), 0u);
			fi_eq_err_entry error{};
			ASSERT_EQ(fi_eq_readerr(b.eq.get(), &error, 0), ssize_t{sizeof(error)});
			EXPECT_EQ(error.fid, &mr->fid);
			EXPECT_EQ(error.err, FI_ENOKEY);
			EXPECT_EQ(fi_close(&mr->fid), 0);
		}
		EXPECT_EQ(fi_eq_read(b.eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	}
	EXPECT_EQ(fi_close(&taken->fid), 0);
}

} // namespace
