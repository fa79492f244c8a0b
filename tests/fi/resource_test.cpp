// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_domain(3), "resource management": the cells of its table, for each type of endpoint. */
#include "connection.h"

#include <optional>

#include <rdma/fi_rma.h>

namespace
{

/* Sizes of queues and rings to be overrun. */
struct Sizes {
	std::size_t tx = 256, rx = 256, tx_cq = 1024, rx_cq = 1024;
};

/* a sends to b: endpoints of any type, with queues of their own. */
class Ends
{
public:
	Ends(fi_ep_type type, const Sizes &sizes)
		: node(hints(type, sizes)), tx_cq(cq(sizes.tx_cq)), rx_cq(cq(sizes.rx_cq)),
		  other_cq(cq(1024))
	{
		if (type == FI_EP_MSG)
			connect();
		else
			address();
	}

	Node node;
	Owned<fid_cq> tx_cq, rx_cq, other_cq; /* a's transmissions, b's receives, the rest */
	fi_addr_t to = FI_ADDR_UNSPEC;

private:
	std::optional<Listener> listener_;
	Owned<fid_eq> a_eq_, b_eq_;
	Owned<fid_av> av_;

public:
	Owned<fid_ep> a, b;

private:
	static Info hints(fi_ep_type type, const Sizes &sizes)
	{
		Info out = hints_for(type == FI_EP_DGRAM ? FI_MSG : FI_MSG | FI_RMA);

		out->ep_attr->type = type;
		out->domain_attr->resource_mgmt = FI_RM_ENABLED;
		out->tx_attr->size = sizes.tx;
		out->rx_attr->size = sizes.rx;
		return out;
	}
	Owned<fid_cq> cq(std::size_t size) const
	{
		return node.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC, size);
	}
	Owned<fid_ep> open(fi_info *info, fid *names, fid_cq *tx, fid_cq *rx) const
	{
		fid_ep *ep = nullptr;

		EXPECT_EQ(fi_endpoint(node.domain.get(), info, &ep, nullptr), 0);
		EXPECT_EQ(fi_ep_bind(ep, names, 0), 0);
		EXPECT_EQ(fi_ep_bind(ep, &tx->fid, FI_TRANSMIT), 0);
		EXPECT_EQ(fi_ep_bind(ep, &rx->fid, FI_RECV), 0);
		return Owned<fid_ep>(ep);
	}
	void address()
	{
		av_ = node.av();
		a = open(node.info.get(), &av_->fid, tx_cq.get(), other_cq.get());
		b = open(node.info.get(), &av_->fid, other_cq.get(), rx_cq.get());
		EXPECT_EQ(fi_enable(a.get()), 0);
		EXPECT_EQ(fi_enable(b.get()), 0);
		EXPECT_EQ(fi_av_insert(av_.get(), address_of(b.get()).data(), 1, &to, 0, nullptr),
			  1);
	}
	void connect()
	{
		listener_.emplace(node);
		a_eq_ = node.eq(FI_WAIT_UNSPEC);
		b_eq_ = node.eq(FI_WAIT_UNSPEC);
		a = open(node.info.get(), &a_eq_->fid, tx_cq.get(), other_cq.get());
		EXPECT_EQ(fi_connect(a.get(), listener_->address().data(), nullptr, 0), 0);
		const CmEvent request = listener_->request();
		b = open(request.info.get(), &b_eq_->fid, other_cq.get(), rx_cq.get());
		EXPECT_EQ(fi_accept(b.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(a_eq_.get()).event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(next_event(b_eq_.get()).event, std::uint32_t{FI_CONNECTED});
		to = 0;
	}
};

class Resource : public testing::TestWithParam<fi_ep_type>
{
protected:
	bool reliable() const { return GetParam() != FI_EP_DGRAM; }
	Ends &make(const Sizes &sizes = {}) { return ends.emplace(GetParam(), sizes); }

	ssize_t send(const void *buf, std::size_t len, std::uintptr_t context)
	{
		return fi_send(ends->a.get(), buf, len, nullptr, ends->to, ctx(context));
	}
	ssize_t recv(void *buf, std::size_t len, std::uintptr_t context)
	{
		return fi_recv(ends->b.get(), buf, len, nullptr, FI_ADDR_UNSPEC, ctx(context));
	}
	/* The endpoint is not disabled: another message gets through. */
	void expect_usable()
	{
		int in = 0;
		const int out = 11;

		ASSERT_EQ(recv(&in, sizeof(in), 101), 0);
		ASSERT_EQ(send(&out, sizeof(out), 102), 0);
		EXPECT_EQ(next(ends->rx_cq.get()).op_context, ctx(101));
		EXPECT_EQ(next(ends->tx_cq.get()).op_context, ctx(102));
		EXPECT_EQ(in, 11);
	}

	std::optional<Ends> ends;
};

class Reliable : public Resource
{
};

/* Datagrams do not stay in their sender's ring: the slots are free at once. */
// conformance: fi_domain(3): resource management: Tx Ctx or Rx Ctx full: EAGAIN
TEST_P(Resource, AFullTransmitContextIsEagain)
{
	Ends &e = make({.tx = 32});
	const auto out = pattern(64 << 10);
	std::vector<std::uint8_t> in(out.size());
	std::uintptr_t posted = 0;
	ssize_t rc;

	while ((rc = send(out.data(), out.size(), posted)) == 0 && posted < 500)
		++posted;
	EXPECT_EQ(rc, reliable() ? -FI_EAGAIN : 0);
	EXPECT_GE(posted, 32u);
	for (std::uintptr_t i = 0; i < posted; ++i) {
		if (reliable()) {
			ASSERT_EQ(recv(in.data(), in.size(), 0), 0);
			next(e.rx_cq.get());
		}
		ASSERT_EQ(next(e.tx_cq.get()).op_context, ctx(i));
	}
	if (reliable())
		expect_usable();
}

// conformance: fi_domain(3): resource management: Tx Ctx or Rx Ctx full: EAGAIN
TEST_P(Resource, AFullReceiveContextIsEagain)
{
	Ends &e = make({.rx = 32});
	int in = 0, out = 7;
	std::uintptr_t posted = 0;
	ssize_t rc;

	while ((rc = recv(&in, sizeof(in), posted)) == 0 && posted < 1000)
		++posted;
	EXPECT_EQ(rc, -FI_EAGAIN);
	EXPECT_GE(posted, 32u);
	ASSERT_EQ(send(&out, sizeof(out), 1), 0);
	EXPECT_EQ(next(e.rx_cq.get()).op_context, ctx(0));
	EXPECT_EQ(recv(&in, sizeof(in), posted), 0);
}

// conformance: fi_domain(3): resource management: Tx CQ full: EAGAIN; completions that do not ...
TEST_P(Resource, AFullQueueOfTransmissionsIsEagain)
{
	Ends &e = make({.tx_cq = 16});
	const int out = 7;
	std::uintptr_t posted = 0;
	ssize_t rc;

	while ((rc = send(&out, sizeof(out), posted)) == 0 && posted < 1000)
		++posted;
	EXPECT_EQ(rc, -FI_EAGAIN);
	EXPECT_GE(posted, 16u);
	for (std::uintptr_t i = 0; i < posted; ++i)
		ASSERT_EQ(next(e.tx_cq.get()).op_context, ctx(i));
	EXPECT_TRUE(is_silent(e.tx_cq.get()));
	EXPECT_EQ(send(&out, sizeof(out), posted), 0);
	EXPECT_EQ(next(e.tx_cq.get()).op_context, ctx(posted));
}

/*
 * Received messages wait for their completions to be read. Nothing is lost except datagrams, which
 * come too late.
 */
// conformance: fi_domain(3): resource management: Rx CQ full: completions are kept, never lost
TEST_P(Resource, AFullQueueOfReceivesLosesNothing)
{
	constexpr int n = 200;
	Ends &e = make({.rx_cq = 16});
	std::vector<int> in(n, -1);
	int came = 0;
	fi_cq_tagged_entry entry;

	for (int i = 0; i < n; ++i)
		ASSERT_EQ(recv(&in[i], sizeof(int), i), 0);
	for (int i = 0; i < n; ++i)
		ASSERT_EQ(send(&i, sizeof(i), i), 0);
	if (reliable()) {
		for (; came < n; ++came)
			ASSERT_EQ(next(e.rx_cq.get()).op_context, ctx(came));
	} else {
		for (; fi_cq_sread(e.rx_cq.get(), &entry, 1, nullptr, 20) == 1; ++came)
			ASSERT_EQ(entry.op_context, ctx(came));
		EXPECT_GE(came, 16);
	}
	EXPECT_TRUE(is_silent(e.rx_cq.get()));
	for (int i = 1; i < came; ++i)
		ASSERT_GT(in[i], in[i - 1]);
	for (int i = 0; i < n; ++i)
		ASSERT_EQ(next(e.tx_cq.get()).op_context, ctx(i));
}

/* A message without room at the receiver waits at its sender, or is dropped. */
// conformance: fi_domain(3): resource management: target EP without an Rx buffer: the message ...
TEST_P(Resource, WithoutAReceiveAMessageIsRetriedOrDropped)
{
	Ends &e = make();
	const std::size_t room = e.node.info->rx_attr->total_buffered_recv;
	const auto out = pattern(64 << 10);
	std::vector<std::uint8_t> in(out.size());
	const std::uintptr_t n = room / out.size() + 10;

	ASSERT_LT(n, 256u);
	for (std::uintptr_t i = 0; i < n; ++i)
		ASSERT_EQ(send(out.data(), out.size(), i), 0);
	if (!reliable()) {
		for (std::uintptr_t i = 0; i < n; ++i)
			ASSERT_EQ(next(e.tx_cq.get()).op_context, ctx(i));
		std::uintptr_t came = 0;
		for (std::uintptr_t i = 0; i < n; ++i)
			ASSERT_EQ(recv(in.data(), in.size(), i), 0);
		for (fi_cq_tagged_entry entry;
		     fi_cq_sread(e.rx_cq.get(), &entry, 1, nullptr, 20) == 1; ++came)
			EXPECT_EQ(entry.op_context, ctx(came));
		EXPECT_GT(came, 0u);
		EXPECT_LT(came, n);
		return;
	}
	std::uintptr_t sent = 0;
	for (fi_cq_tagged_entry entry; fi_cq_read(e.tx_cq.get(), &entry, 1) == 1; ++sent)
		EXPECT_EQ(entry.op_context, ctx(sent));
	EXPECT_LT(sent, n);
	for (std::uintptr_t i = 0; i < n; ++i) {
		ASSERT_EQ(recv(in.data(), in.size(), i), 0);
		ASSERT_EQ(next(e.rx_cq.get()).op_context, ctx(i));
		ASSERT_EQ(in, out);
	}
	for (; sent < n; ++sent)
		ASSERT_EQ(next(e.tx_cq.get()).op_context, ctx(sent));
	expect_usable();
}

// conformance: fi_domain(3): resource management: Rx buffer overrun: truncated, FI_ETRUNC at ...
// conformance: fi_domain(3): resource management: an error disables the endpoint: it does not here
TEST_P(Resource, AMessageThatOverrunsItsBufferIsTruncated)
{
	Ends &e = make();
	const auto out = pattern(100);
	std::vector<std::uint8_t> in(100, 0xee);

	ASSERT_EQ(recv(in.data(), 8, 1), 0);
	ASSERT_EQ(send(out.data(), out.size(), 2), 0);
	const auto error = next_error(e.rx_cq.get());
	EXPECT_EQ(error.err, FI_ETRUNC);
	EXPECT_EQ(error.op_context, ctx(1));
	EXPECT_EQ(error.olen, 92u);
	EXPECT_TRUE(std::equal(in.begin(), in.begin() + 8, out.begin()));
	EXPECT_EQ(in[8], 0xee);
	EXPECT_EQ(next(e.tx_cq.get()).op_context, ctx(2)) << "the sender has no error";
	expect_usable();
}

// conformance: fi_domain(3): resource management: unmatched RMA and RMA overrun are transmit ...
// conformance: fi_domain(3): resource management: an error disables the endpoint: it does not here
TEST_P(Reliable, RmaThatMatchesNothingOrOverrunsIsATransmitError)
{
	Ends &e = make();
	std::uint64_t there[4]{}, here[2]{5, 5};
	fid_mr *opened = nullptr;

	ASSERT_EQ(fi_mr_reg(e.node.domain.get(), there, 24, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 9,
			    0, &opened, nullptr),
		  0);
	const Owned<fid_mr> mr(opened);
	const struct {
		std::uint64_t at, key;
		int error;
	} cases[] = {{0, 10, FI_EKEYREJECTED}, {24, 9, FI_EREMOTEIO}, {16, 9, FI_EREMOTEIO}};
	for (const auto &c : cases) {
		ASSERT_EQ(fi_write(e.a.get(), here, sizeof(here), nullptr, e.to, c.at, c.key,
				   ctx(1)),
			  0);
		auto error = next_error(e.tx_cq.get());
		EXPECT_EQ(error.err, c.error) << c.at;
		EXPECT_EQ(error.op_context, ctx(1));
		ASSERT_EQ(fi_read(e.a.get(), here, sizeof(here), nullptr, e.to, c.at, c.key,
				  ctx(2)),
			  0);
		error = next_error(e.tx_cq.get());
		EXPECT_EQ(error.err, c.error) << c.at;
		EXPECT_EQ(error.op_context, ctx(2));
	}
	for (const std::uint64_t word : there)
		EXPECT_EQ(word, 0u);
	EXPECT_EQ(here[0], 5u);
	expect_usable();
}

std::string name_of(const testing::TestParamInfo<fi_ep_type> &info)
{
	return info.param == FI_EP_RDM ? "Rdm" : info.param == FI_EP_MSG ? "Msg" : "Dgram";
}

INSTANTIATE_TEST_SUITE_P(Type, Resource, testing::Values(FI_EP_RDM, FI_EP_MSG, FI_EP_DGRAM),
			 name_of);
INSTANTIATE_TEST_SUITE_P(Type, Reliable, testing::Values(FI_EP_RDM, FI_EP_MSG), name_of);

} // namespace
