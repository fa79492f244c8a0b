// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A broadcast with deferred work: the calls of MPICH's trigger_tree_tagged and trigger_tree_rma
 * (src/mpid/ch4/netmod/ofi/coll), with their flags, attributes and keys, in a tree of four ranks.
 */
#include <list>

#include "scalable.h"
#include "work.h"

namespace
{

constexpr std::size_t ranks = 4, root = 0;
constexpr std::size_t parent_of[ranks] = {0, 0, 0, 1};
constexpr std::uint64_t ready_tag = 1, data_tag = 2;

enum class Contexts { scalable, whole };

Info asked(Contexts contexts)
{
	Info hints = hints_for(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV |
			       FI_MULTI_RECV | FI_NAMED_RX_CTX | FI_TRIGGER | FI_RMA_EVENT);

	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->ep_attr->tx_ctx_cnt = hints->ep_attr->rx_ctx_cnt =
		contexts == Contexts::scalable ? 2 : 1;
	return hints;
}

struct Rank {
	explicit Rank(Contexts contexts)
		: node(asked(contexts)), av(av_with(node, 8)), cq(node.cq()), rma(node.cntr())
	{
		if (contexts == Contexts::scalable)
			open_scalable();
		else
			open_whole();
	}

	/* Neither attribute has FI_TRIGGER: the fi_info of the endpoint has it. */
	void open_scalable()
	{
		fi_tx_attr tx_attr = *node.info->tx_attr;
		fi_rx_attr rx_attr = *node.info->rx_attr;

		tx_attr.op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
		tx_attr.caps = FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MSG | FI_NAMED_RX_CTX;
		rx_attr.caps = FI_TAGGED | FI_DIRECTED_RECV | FI_RMA | FI_REMOTE_READ |
			       FI_REMOTE_WRITE | FI_ATOMIC | FI_MSG | FI_MULTI_RECV |
			       FI_NAMED_RX_CTX;
		ep = scalable(node);
		EXPECT_EQ(fi_scalable_ep_bind(ep.get(), &av->fid, 0), 0);
		EXPECT_EQ(fi_enable(ep.get()), 0);
		own_tx = tx_context(ep, 0, &tx_attr);
		own_rx = rx_context(ep, 0, &rx_attr);
		bind(own_tx.get(), &cq->fid, FI_SEND | FI_SELECTIVE_COMPLETION);
		bind(own_tx.get(), &rma->fid, FI_WRITE | FI_READ);
		bind(own_rx.get(), &cq->fid, FI_RECV);
		EXPECT_EQ(fi_enable(own_tx.get()), 0);
		EXPECT_EQ(fi_enable(own_rx.get()), 0);
		tx = own_tx.get();
		rx = own_rx.get();
	}
	void open_whole()
	{
		ep = node.ep();
		bind(ep.get(), &av->fid, 0);
		bind(ep.get(), &cq->fid, FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION);
		bind(ep.get(), &rma->fid, FI_WRITE | FI_READ);
		EXPECT_EQ(fi_enable(ep.get()), 0);
		tx = rx = ep.get();
	}
	static void bind(fid_ep *to, fid *what, std::uint64_t flags)
	{
		EXPECT_EQ(fi_ep_bind(to, what, flags), 0);
	}

	Node node;
	Owned<fid_av> av;
	Owned<fid_cq> cq;
	Owned<fid_cntr> rma;
	Owned<fid_ep> ep, own_tx, own_rx;
	fid_ep *tx = nullptr, *rx = nullptr;
	fi_addr_t peers[ranks] = {};
};

/* Queues a write; its buffers may go after the call. */
int queue_write(Rank &self, Work &work, fi_op_rma &rma, const iovec &iov, fi_addr_t peer,
		std::uint64_t key)
{
	const fi_rma_iov there{0, iov.iov_len, key};

	rma.ep = self.tx;
	rma.msg = {&iov, nullptr, 1, peer, &there, 1, &work.work.context, 0};
	work.work.op.rma = &rma;
	return work.queue(self.node);
}

class Broadcast : public testing::TestWithParam<Contexts>
{
protected:
	Broadcast()
	{
		for (std::size_t i = 0; i < ranks; ++i)
			all.emplace_back(GetParam());
		for (Rank &self : all) {
			std::size_t i = 0;
			for (const Rank &peer : all) {
				const auto name = address_of(peer.ep.get());
				EXPECT_EQ(fi_av_insert(self.av.get(), name.data(), 1,
						       &self.peers[i++], 0, nullptr),
					  1);
			}
		}
	}
	fi_addr_t to(Rank &self, std::size_t peer) const
	{
		return fi_rx_addr(self.peers[peer], 0, 8);
	}
	static bool is_child(std::size_t rank, std::size_t of)
	{
		return rank != root && parent_of[rank] == of;
	}

	std::list<Rank> all;
};

/* A rank's operations under way. */
struct Part {
	Part(Rank &rank, std::size_t index) : self(rank), me(index)
	{
		for (std::size_t i = 0; i < ranks; ++i)
			children += i != root && parent_of[i] == me;
	}
	Work &receive(fid_cntr *armed_by)
	{
		return works.emplace_back(FI_OP_TRECV, armed_by, 0, armed_by);
	}

	Rank &self;
	std::size_t me, children = 0;
	Owned<fid_cntr> sent = self.node.cntr(), received = self.node.cntr();
	std::list<Work> works;
	std::list<fi_op_rma> writes;
	Owned<fid_mr> region;
	std::vector<std::uint8_t> buffer;
};

TEST_P(Broadcast, DownATreeByTaggedMessages)
{
	const auto data = pattern(100'000);
	std::list<Part> parts;

	for (Rank &self : all) {
		Part &part = parts.emplace_back(self, parts.size());
		fid_cntr *const received = part.received.get();

		part.buffer = part.me == root ? data : std::vector<std::uint8_t>(data.size());
		for (std::size_t i = 0; i < ranks; ++i) {
			if (!is_child(i, part.me))
				continue;
			ASSERT_EQ(part.receive(received)
					  .tagged_message(self.rx, nullptr, 0, to(self, i),
							  ready_tag)
					  .queue(self.node),
				  0);
		}
		if (part.me != root) {
			ASSERT_EQ(part.receive(received)
					  .tagged_message(self.rx, part.buffer.data(), data.size(),
							  to(self, parent_of[part.me]), data_tag)
					  .queue(self.node),
				  0);
			ASSERT_EQ(fi_tinject(self.tx, nullptr, 0, to(self, parent_of[part.me]),
					     ready_tag),
				  0);
		}
		const std::uint64_t threshold = part.children + (part.me != root);
		for (std::size_t i = 0; i < ranks; ++i) {
			if (!is_child(i, part.me))
				continue;
			ASSERT_EQ(part.works
					  .emplace_back(FI_OP_TSEND, received, threshold,
							part.sent.get())
					  .tagged_message(self.tx, part.buffer.data(), data.size(),
							  to(self, i), data_tag)
					  .queue(self.node),
				  0);
		}
	}
	for (Part &part : parts) {
		EXPECT_TRUE(reaches(part.sent.get(), part.children));
		EXPECT_TRUE(reaches(part.received.get(), part.children + (part.me != root)));
		EXPECT_EQ(part.buffer, data) << part.me;
	}
}

// conformance: fi_mr(3): fi_mr_bind: counters of FI_REMOTE_WRITE, endpoints; FI_REMOTE_READ ...
TEST_P(Broadcast, DownATreeByWrites)
{
	constexpr std::uint64_t key = -1; /* MPICH's conn_id without a connection */
	const auto data = pattern(100'000);
	std::list<Part> parts;

	for (Rank &self : all) {
		Part &part = parts.emplace_back(self, parts.size());
		fid_cntr *const received = part.received.get();
		fid_mr *region = nullptr;

		part.buffer = part.me == root ? data : std::vector<std::uint8_t>(data.size());
		ASSERT_EQ(fi_mr_reg(self.node.domain.get(), part.buffer.data(), data.size(),
				    FI_REMOTE_WRITE | FI_REMOTE_READ, 0, key, FI_RMA_EVENT, &region,
				    nullptr),
			  0);
		part.region.reset(region);
		ASSERT_EQ(fi_mr_bind(region, &received->fid, FI_REMOTE_WRITE | FI_REMOTE_READ), 0);
		ASSERT_EQ(fi_mr_enable(region), 0);
		ASSERT_EQ(fi_mr_key(region), key);
		for (std::size_t i = 0; i < ranks; ++i) {
			if (!is_child(i, part.me))
				continue;
			ASSERT_EQ(part.receive(received)
					  .tagged_message(self.rx, nullptr, 0, to(self, i),
							  ready_tag)
					  .queue(self.node),
				  0);
		}
		if (part.me != root) {
			ASSERT_EQ(fi_tinject(self.tx, nullptr, 0, to(self, parent_of[part.me]),
					     ready_tag),
				  0);
		}
		const std::uint64_t threshold = part.children + (part.me != root);
		for (std::size_t i = 0; i < ranks; ++i) {
			if (!is_child(i, part.me))
				continue;
			ASSERT_EQ(queue_write(self,
					      part.works.emplace_back(FI_OP_WRITE, received,
								      threshold, part.sent.get()),
					      part.writes.emplace_back(),
					      {part.buffer.data(), data.size()}, to(self, i),
					      fi_mr_key(region)),
				  0);
		}
	}
	for (Part &part : parts) {
		EXPECT_TRUE(reaches(part.sent.get(), part.children));
		EXPECT_TRUE(reaches(part.received.get(), part.children + (part.me != root)));
		EXPECT_EQ(part.buffer, data) << part.me;
	}
	for (Part &part : parts) { /* in MPICH's order */
		part.received.reset();
		part.sent.reset();
		part.region.reset();
	}
}

INSTANTIATE_TEST_SUITE_P(All, Broadcast, testing::Values(Contexts::scalable, Contexts::whole),
			 [](const auto &info) {
				 return info.param == Contexts::scalable ? "Scalable" : "Whole";
			 });

/* The same for operations that are posted with FI_TRIGGER. */
// conformance: fi_trigger(3): an endpoint must be created with FI_TRIGGER; operations with the ...
TEST(TriggerCaps, AttributesOfAContextTakeNothingAway)
{
	Rank rank(Contexts::scalable);
	const auto cntr = rank.node.cntr(), done = rank.node.cntr();
	char out = 'x', in = 0;
	const auto name = address_of(rank.ep.get());
	fi_addr_t self;
	fi_triggered_context triggered{};

	ASSERT_EQ(fi_av_insert(rank.av.get(), name.data(), 1, &self, 0, nullptr), 1);
	triggered.event_type = FI_TRIGGER_THRESHOLD;
	triggered.trigger.threshold = {cntr.get(), 1};
	const iovec iov{&out, 1};
	const fi_msg msg{&iov, nullptr, 1, self, &triggered, 0};
	ASSERT_EQ(fi_recv(rank.rx, &in, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_sendmsg(rank.tx, &msg, FI_TRIGGER), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(next(rank.cq.get()).op_context, ctx(1));
	EXPECT_EQ(in, 'x');
}

// conformance: fi_trigger(3): an endpoint must be created with FI_TRIGGER; operations with the ...
TEST(TriggerCaps, OfASharedReceiveContext)
{
	Info hints = hints_for(FI_MSG | FI_TAGGED | FI_TRIGGER);
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	const Node node(std::move(hints));
	const auto av = node.av();
	const auto cq = node.cq();
	const auto cntr = node.cntr(), done = node.cntr();
	fi_rx_attr attr{};
	fid_ep *srx = nullptr;
	fi_addr_t self;
	char in = 0;

	attr.caps = FI_MSG | FI_RECV;
	ASSERT_EQ(fi_srx_context(node.domain.get(), &attr, &srx, nullptr), 0);
	const Owned<fid_ep> shared(srx);
	const auto ep = node.ep();
	ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &srx->fid, 0), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	const auto name = address_of(ep.get());
	ASSERT_EQ(fi_av_insert(av.get(), name.data(), 1, &self, 0, nullptr), 1);
	Work receive(FI_OP_RECV, cntr.get(), 1, done.get());
	ASSERT_EQ(receive.message(srx, &in, 1, FI_ADDR_UNSPEC).queue(node), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	ASSERT_EQ(fi_inject(ep.get(), "x", 1, self), 0);
	EXPECT_TRUE(reaches(done.get(), 1));
	EXPECT_EQ(in, 'x');
}

} // namespace
