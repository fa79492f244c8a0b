// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Two processes: messages between them, fork, and death at any moment. */
#include "child.h"
#include "node.h"

#include <chrono>
#include <thread>

#include <poll.h>
#include <sched.h>

#include <rdma/fi_rma.h>

namespace
{

using namespace std::chrono_literals;

/* The sides exchange their addresses. */
fi_addr_t meet(Side &side, int line)
{
	put(line, address_of(side.ep.get()));
	return side.insert(get(line));
}

/* Sends back each message until an empty one comes. */
int echo(int line)
{
	Node node(hints_for(FI_MSG));
	Side side(node);
	std::vector<std::uint8_t> buffer(8 << 20);
	const fi_addr_t peer = meet(side, line);

	for (;;) {
		if (fi_recv(side.ep.get(), buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC,
			    nullptr))
			return 2;
		const std::size_t len = next(side.rx_cq.get()).len;
		if (fi_send(side.ep.get(), buffer.data(), len, nullptr, peer, nullptr))
			return 3;
		next(side.tx_cq.get());
		if (!len)
			return 0;
	}
}

TEST(Process, MessagesOfAllSizesGoBothWays)
{
	Child child(echo);
	Node node(hints_for(FI_MSG));
	Side side(node);
	const fi_addr_t peer = meet(side, child.line());

	for (const std::size_t size : {1, 64, 4096, 4097, 65536, 1 << 20, (5 << 20) + 3, 0}) {
		SCOPED_TRACE(size);
		const auto out = pattern(size, size);
		std::vector<std::uint8_t> in(size);
		ASSERT_EQ(fi_recv(side.ep.get(), in.data(), size, nullptr, FI_ADDR_UNSPEC, nullptr),
			  0);
		ASSERT_EQ(fi_send(side.ep.get(), out.data(), size, nullptr, peer, nullptr), 0);
		EXPECT_EQ(next(side.rx_cq.get()).len, size);
		next(side.tx_cq.get());
		EXPECT_EQ(in, out);
	}
	EXPECT_EQ(child.wait(), 0);
}

/* The child receives passively: it only reads a counter. */
// conformance: fi_domain(3): FI_PROGRESS_AUTO, control and data: progress without intervention
TEST(Process, DataMovesWhileThePeerIsStopped)
{
	const auto receiver = [](int line) {
		Node node(hints_for(FI_MSG));
		Side side(node);
		std::vector<std::uint8_t> in(1 << 20);
		meet(side, line);
		if (fi_recv(side.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr))
			return 2;
		put(line, {});
		get(line);
		fi_cq_tagged_entry entry;
		if (fi_cq_read(side.rx_cq.get(), &entry, 1) != 1)
			return 3;
		return in == pattern(in.size()) ? 0 : 4;
	};
	Child child(receiver);
	Node node(hints_for(FI_MSG));
	Side side(node);
	const fi_addr_t peer = meet(side, child.line());
	const auto out = pattern(1 << 20);
	const iovec iov{const_cast<std::uint8_t *>(out.data()), out.size()};
	const fi_msg msg{&iov, nullptr, 1, peer, nullptr, 0};

	get(child.line());
	child.kill(SIGSTOP);
	ASSERT_EQ(fi_sendmsg(side.ep.get(), &msg, FI_DELIVERY_COMPLETE), 0);
	next(side.tx_cq.get());
	child.kill(SIGCONT);
	put(child.line(), {});
	EXPECT_EQ(child.wait(), 0);
}

/* "pure RMA target": its process need not run. */
// conformance: fi_domain(3): FI_PROGRESS_AUTO, control and data: progress without intervention
// conformance: fi_arch(7): RMA without the target process
TEST(Process, MemoryIsReadAndWrittenWhileItsOwnerIsStopped)
{
	constexpr std::size_t size = 1 << 20;
	const auto owner = [](int line) {
		Node node(hints_for(FI_MSG | FI_RMA));
		Side side(node);
		std::vector<std::uint8_t> memory = pattern(size, 2);
		fid_mr *mr = nullptr;
		if (fi_mr_reg(node.domain.get(), memory.data(), size,
			      FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, nullptr))
			return 2;
		const Owned<fid_mr> owned(mr);
		meet(side, line);
		put(line, {});
		get(line);
		return memory == pattern(size, 3) ? 0 : 3;
	};
	Child child(owner);
	Node node(hints_for(FI_MSG | FI_RMA));
	Side side(node);
	const fi_addr_t peer = meet(side, child.line());
	const auto out = pattern(size, 3);
	std::vector<std::uint8_t> in(size);

	get(child.line());
	child.kill(SIGSTOP);
	ASSERT_EQ(fi_read(side.ep.get(), in.data(), size, nullptr, peer, 0, 5, nullptr), 0);
	next(side.tx_cq.get());
	EXPECT_EQ(in, pattern(size, 2));
	ASSERT_EQ(fi_write(side.ep.get(), out.data(), size, nullptr, peer, 0, 5, nullptr), 0);
	next(side.tx_cq.get());
	child.kill(SIGCONT);
	put(child.line(), {});
	EXPECT_EQ(child.wait(), 0);
}

TEST(Process, AChildCantUseNorHurtItsParentsObjects)
{
	Pair p(hints_for(FI_MSG));
	int in = 0, out = 5;

	ASSERT_EQ(fi_recv(p.b.ep.get(), &in, sizeof(in), nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	Child child([&](int) {
		fi_cq_tagged_entry entry;
		fid_cq *cq = nullptr;
		int value = 6;
		if (fi_send(p.a.ep.get(), &value, sizeof(value), nullptr, p.b_at_a, nullptr) !=
		    -FI_EPERM)
			return 2;
		if (fi_recv(p.b.ep.get(), &value, sizeof(value), nullptr, FI_ADDR_UNSPEC,
			    nullptr) != -FI_EPERM)
			return 3;
		if (fi_cq_read(p.b.rx_cq.get(), &entry, 1) >= 0)
			return 4;
		if (fi_cq_open(p.node.domain.get(), nullptr, &cq, nullptr) != -FI_EPERM)
			return 5;
		/* The child's own objects work. */
		Pair own(hints_for(FI_MSG));
		if (fi_inject(own.a.ep.get(), &value, sizeof(value), own.b_at_a))
			return 6;
		if (fi_recv(own.b.ep.get(), &value, sizeof(value), nullptr, FI_ADDR_UNSPEC,
			    nullptr))
			return 7;
		next(own.b.rx_cq.get());
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
	ASSERT_EQ(fi_send(p.a.ep.get(), &out, sizeof(out), nullptr, p.b_at_a, ctx(2)), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(2));
	EXPECT_EQ(in, 5);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
}

/* Objects with wait files, which a child shares with its parent. */
class Files : public testing::Test
{
protected:
	Files()
	{
		fi_wait_attr wait_attr{};
		fi_eq_attr eq_attr{};
		fi_cq_attr cq_attr{};
		fi_cntr_attr cntr_attr{};
		fid_wait *w = nullptr;
		fid_eq *e = nullptr;
		fid_cq *q = nullptr;
		fid_cntr *c = nullptr;

		wait_attr.wait_obj = FI_WAIT_FD;
		EXPECT_EQ(fi_wait_open(node.fabric.get(), &wait_attr, &w), 0);
		set.reset(w);
		eq_attr.wait_obj = cq_attr.wait_obj = cntr_attr.wait_obj = FI_WAIT_SET;
		eq_attr.wait_set = cq_attr.wait_set = cntr_attr.wait_set = w;
		eq_attr.flags = FI_WRITE;
		EXPECT_EQ(fi_eq_open(node.fabric.get(), &eq_attr, &e, nullptr), 0);
		eq.reset(e);
		EXPECT_EQ(fi_cq_open(node.domain.get(), &cq_attr, &q, nullptr), 0);
		cq.reset(q);
		EXPECT_EQ(fi_cntr_open(node.domain.get(), &cntr_attr, &c, nullptr), 0);
		cntr.reset(c);
	}
	void write()
	{
		EXPECT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, &note, sizeof(note), 0),
			  ssize_t{sizeof(note)});
	}
	/* There is no other event. */
	void expect_event()
	{
		EXPECT_EQ(fi_wait(set.get(), patience), 0);
		EXPECT_EQ(fi_eq_sread(eq.get(), &event, &note, sizeof(note), patience, 0),
			  ssize_t{sizeof(note)});
		expect_silence();
	}
	void expect_silence()
	{
		pollfd file{-1, POLLIN, 0};

		EXPECT_EQ(fi_wait(set.get(), 0), -FI_ETIMEDOUT);
		EXPECT_EQ(fi_control(&set->fid, FI_GETWAIT, &file.fd), 0);
		EXPECT_EQ(poll(&file, 1, 0), 0);
	}

	Node node{hints_for(FI_MSG)};
	Owned<fid_wait> set;
	Owned<fid_eq> eq;
	Owned<fid_cq> cq;
	Owned<fid_cntr> cntr;
	fi_eq_entry note{};
	std::uint32_t event = 0;
};

TEST_F(Files, AnObjectClosedInAChildStaysInItsParentsWaitSet)
{
	Child child([&](int) {
		Log log;
		EXPECT_EQ(fi_wait(set.get(), patience), -FI_EPERM);
		EXPECT_TRUE(log.has("wait: of the parent")) << log.all();
		for (fid *const f : {&eq->fid, &cq->fid, &cntr->fid, &set->fid})
			EXPECT_EQ(fi_close(f), 0);
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
	expect_silence();
	write();
	expect_event();
	EXPECT_EQ(fi_cq_signal(cq.get()), 0);
	EXPECT_EQ(fi_wait(set.get(), patience), 0);
	EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(fi_wait(set.get(), patience), 0);
	expect_silence();
}

/* Nor can the child's own objects join its parent's set. */
TEST_F(Files, AChildJoinsNoWaitSetOfItsParents)
{
	Child child([&](int line) {
		Node own(hints_for(FI_MSG));
		fi_cntr_attr attr{};
		fid_cntr *c = nullptr;
		attr.wait_obj = FI_WAIT_SET;
		attr.wait_set = set.get();
		EXPECT_EQ(fi_cntr_open(own.domain.get(), &attr, &c, nullptr), -FI_EPERM);
		if (c)
			fi_cntr_add(c, 1);
		put(line, {});
		get(line);
		return 0;
	});
	get(child.line());
	expect_silence();
	put(child.line(), {});
	EXPECT_EQ(child.wait(), 0);
}

TEST_F(Files, AChildNeitherWritesNorTakesItsParentsEvents)
{
	const auto leave_alone = [&](int) {
		fi_eq_err_entry error{};
		fid *objects[] = {&eq->fid};

		EXPECT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, &note, sizeof(note), 0), -FI_EPERM);
		Log log;
		EXPECT_EQ(fi_eq_read(eq.get(), &event, &note, sizeof(note), 0), -FI_EPERM);
		EXPECT_TRUE(log.has("read: of the parent")) << log.all();
		EXPECT_EQ(fi_eq_sread(eq.get(), &event, &note, sizeof(note), patience, 0),
			  -FI_EPERM);
		EXPECT_EQ(fi_eq_readerr(eq.get(), &error, 0), -FI_EPERM);
		EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), -FI_EPERM);
		return 0;
	};
	{
		Child child(leave_alone);
		EXPECT_EQ(child.wait(), 0);
	}
	expect_silence();
	write();
	{
		Child child(leave_alone);
		EXPECT_EQ(child.wait(), 0);
	}
	expect_event();
}

TEST_F(Files, AChildTakesNoNoticeOfItsParentsCounter)
{
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	Child child([&](int) {
		fid *objects[] = {&cntr->fid};
		EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), -FI_EPERM);
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
	pollfd file{-1, POLLIN, 0};
	EXPECT_EQ(fi_control(&set->fid, FI_GETWAIT, &file.fd), 0);
	EXPECT_EQ(poll(&file, 1, 0), 1);
	EXPECT_EQ(fi_wait(set.get(), patience), 0);
	expect_silence();
}

/* The peer is gone before, or while a message waits for it or goes to it. */
TEST(Process, SendersGetErrorsWhenTheirPeerDies)
{
	const auto idle = [](int line) {
		Node node(hints_for(FI_MSG));
		Side side(node);
		meet(side, line);
		pause();
		return 0;
	};
	Child child(idle);
	Node node(hints_for(FI_MSG));
	Side side(node);
	const fi_addr_t peer = meet(side, child.line());
	const auto out = pattern(1 << 20);

	/* Waits at the peer, which has no buffer for it. */
	ASSERT_EQ(fi_send(side.ep.get(), out.data(), out.size(), nullptr, peer, ctx(1)), 0);
	EXPECT_TRUE(is_silent(side.tx_cq.get()));
	child.kill(SIGKILL);
	auto error = next_error(side.tx_cq.get());
	EXPECT_EQ(error.op_context, ctx(1));
	EXPECT_TRUE(error.err == FI_ECONNRESET || error.err == FI_ECONNREFUSED)
		<< fi_strerror(error.err);
	child.wait();
	ASSERT_EQ(fi_send(side.ep.get(), out.data(), 1, nullptr, peer, ctx(2)), 0);
	error = next_error(side.tx_cq.get());
	EXPECT_EQ(error.op_context, ctx(2));
	EXPECT_EQ(error.err, FI_ECONNREFUSED);
}

/* Becomes another user, without root's rights in a user namespace of its own. */
bool become_another_user()
{
	return (getuid() == 0 ? setuid(65534) : unshare(CLONE_NEWUSER)) == 0;
}

void set_key(std::uint8_t *&to, std::size_t &size, const char *key)
{
	to = reinterpret_cast<std::uint8_t *>(strdup(key));
	size = std::strlen(key);
}

/*
 * An endpoint's key is its own, or else the domain's. So is a region's key. Both have to be right.
 */
// conformance: fi_domain(3): auth_key, auth_key_size: the default of endpoints and regions; ...
TEST(Process, KeysOfDomainsEndpointsAndRegions)
{
	const auto hints = [](const char *of_domain, const char *of_endpoint) {
		Info hints = hints_for(FI_MSG | FI_RMA);
		set_key(hints->domain_attr->auth_key, hints->domain_attr->auth_key_size, of_domain);
		if (*of_endpoint)
			set_key(hints->ep_attr->auth_key, hints->ep_attr->auth_key_size,
				of_endpoint);
		return hints;
	};
	char memory[8] = "";
	const iovec iov{memory, sizeof(memory)};
	std::uint8_t other[] = {'o'};
	fi_mr_attr attr{};
	fid_mr *usual = nullptr, *own = nullptr;

	attr.mr_iov = &iov;
	attr.iov_count = 1;
	attr.access = FI_REMOTE_WRITE;
	attr.requested_key = 1;
	Node node(hints("sesame", ""));
	Side side(node);
	ASSERT_EQ(fi_mr_regattr(node.domain.get(), &attr, 0, &usual), 0);
	attr.requested_key = 2;
	attr.auth_key = other;
	attr.auth_key_size = sizeof(other);
	ASSERT_EQ(fi_mr_regattr(node.domain.get(), &attr, 0, &own), 0);
	const auto address = address_of(side.ep.get());
	const struct {
		const char *domain, *endpoint;
		bool usual;
	} cases[] =
		{
			{"sesame", "", true},	    {"simsim", "", false},
			{"simsim", "sesame", true}, {"sesame", "simsim", false},
			{"sesame", "o", false}, /* the endpoint at the other side refuses it */
		};
	for (const auto &c : cases) {
		Child child([&](int) {
			if (!become_another_user())
				return 2;
			Node mine(hints(c.domain, c.endpoint));
			Side from(mine);
			const fi_addr_t to = from.insert(address);
			for (const std::uint64_t key : {1, 2}) {
				EXPECT_EQ(fi_write(from.ep.get(), "abc", 4, nullptr, to, 0, key,
						   nullptr),
					  0);
				if (key == 1 && c.usual)
					next(from.tx_cq.get());
				else
					EXPECT_EQ(next_error(from.tx_cq.get()).err, FI_EACCES);
			}
			return 0;
		});
		EXPECT_EQ(child.wait(), 0) << c.domain << " " << c.endpoint;
	}
	EXPECT_EQ(fi_close(&usual->fid), 0);
	EXPECT_EQ(fi_close(&own->fid), 0);
}

/* Another user may only send to endpoints with the same key. */
TEST(Process, OtherUsersNeedTheKey)
{
	const auto with_key = [](const char *key) {
		Info hints = hints_for(FI_MSG);
		set_key(hints->domain_attr->auth_key, hints->domain_attr->auth_key_size, key);
		return hints;
	};

	Node node(with_key("sesame"));
	EXPECT_EQ(node.info->domain_attr->auth_key_size, 6u);
	Side side(node);
	const auto address = address_of(side.ep.get());
	for (const char *key : {"", "simsim", "sesame"}) {
		const bool right = !std::strcmp(key, "sesame");
		Child child([&](int) {
			if (!become_another_user())
				return 2;
			Node own(*key ? with_key(key) : hints_for(FI_MSG));
			Side from(own);
			if (fi_send(from.ep.get(), "x", 1, nullptr, from.insert(address), nullptr))
				return 3;
			if (right)
				next(from.tx_cq.get());
			else if (next_error(from.tx_cq.get()).err != FI_EACCES)
				return 4;
			return 0;
		});
		EXPECT_EQ(child.wait(), 0) << key;
	}
	char c = 0;
	ASSERT_EQ(fi_recv(side.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	EXPECT_EQ(next(side.rx_cq.get()).op_context, ctx(1));
	EXPECT_EQ(c, 'x');
}

/* A bystander that the same endpoint communicates with is not affected. */
TEST(Process, AKillAtAnyMomentHurtsNoOtherProcess)
{
	Node node(hints_for(FI_MSG | FI_DIRECTED_RECV));
	Side side(node);
	Child bystander(echo);
	const fi_addr_t other = meet(side, bystander.line());
	const auto big = pattern(3 << 20), small = pattern(40'000, 7);
	std::vector<std::uint8_t> from_victim(big.size()), from_other(small.size());
	bool awaited = false; /* of the victim */
	const auto exchange = [&](const auto &out, auto &in, fi_addr_t peer, int receive) {
		if (receive) {
			ASSERT_EQ(fi_recv(side.ep.get(), in.data(), in.size(), nullptr, peer,
					  ctx(receive)),
				  0);
		}
		ASSERT_EQ(fi_send(side.ep.get(), out.data(), out.size(), nullptr, peer,
				  ctx(peer == other ? 4 : 2)),
			  0);
	};
	/*
	 * The next completion is the victim's or the bystander's. Only the victim's may have
	 * failed.
	 */
	const auto take = [&](fid_cq *cq, void *of_victim, void *of_other, int &error) {
		fi_cq_tagged_entry entry{};
		fi_cq_err_entry failed{};
		const ssize_t n = fi_cq_sread(cq, &entry, 1, nullptr, patience);
		error = 0;
		if (n == -FI_EAVAIL) {
			EXPECT_EQ(fi_cq_readerr(cq, &failed, 0), 1);
			EXPECT_EQ(failed.op_context, of_victim);
			error = failed.err;
			return of_victim;
		}
		EXPECT_EQ(n, 1);
		EXPECT_TRUE(entry.op_context == of_victim || entry.op_context == of_other);
		return entry.op_context;
	};
	const auto take_echo = [&] {
		int error;
		void *const which = take(side.rx_cq.get(), ctx(1), ctx(3), error);
		if (which == ctx(3)) {
			EXPECT_EQ(from_other, small);
			return true;
		}
		if (error) {
			EXPECT_TRUE(error == FI_ECONNRESET || error == FI_ECANCELED)
				<< fi_strerror(error);
		} else {
			EXPECT_EQ(from_victim, big);
		}
		awaited = false;
		return false;
	};

	for (int round = 0; round < 10; ++round) {
		Child child(echo);
		const fi_addr_t victim = meet(side, child.line());
		std::thread killer([&] {
			std::this_thread::sleep_for(std::chrono::milliseconds(round * 3));
			child.kill(SIGKILL);
		});
		for (bool lives = true; lives && !HasFailure();) {
			std::ranges::fill(from_other, 0);
			if (!awaited)
				std::ranges::fill(from_victim, 0);
			exchange(big, from_victim, victim, awaited ? 0 : 1);
			awaited = true;
			exchange(small, from_other, other, 3);
			for (int i = 0; i < 2; ++i) {
				int error;
				take(side.tx_cq.get(), ctx(2), ctx(4), error);
				if (error) {
					EXPECT_TRUE(error == FI_ECONNRESET ||
						    error == FI_ECONNREFUSED)
						<< fi_strerror(error);
					lives = false;
				}
			}
			while (!take_echo() && !HasFailure())
				continue;
		}
		killer.join();
		child.wait();
		fi_cancel(&side.ep->fid, ctx(1));
		while (awaited && !HasFailure())
			take_echo();
		ASSERT_FALSE(HasFailure()) << "round " << round;
	}
	ASSERT_EQ(fi_send(side.ep.get(), nullptr, 0, nullptr, other, ctx(4)), 0);
	EXPECT_EQ(bystander.wait(), 0);
}

} // namespace
