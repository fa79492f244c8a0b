// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_endpoint(3), "SCALABLE ENDPOINTS": objects, their relations, and limits */
#include <unistd.h>

#include "scalable.h"

namespace
{

/* --- relations ------------------------------------------------------------------------------ */

// conformance: fi_endpoint(3): address vectors bound to a scalable endpoint are implicitly bound to
//   its contexts; binding the same one to a context changes nothing
TEST(ScalableObjects, AddressVectorsAreImplicitlyBoundToContexts)
{
	const Node node(hints());
	const auto cq = node.cq();
	const auto cntr = node.cntr();
	const auto av = av_with(node, bits);
	const auto sep = scalable(node);
	const auto tx = tx_context(sep, 0);

	EXPECT_EQ(fi_ep_bind(tx.get(), &av->fid, 0), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(tx.get(), &cq->fid, FI_TRANSMIT), 0);
	EXPECT_EQ(fi_enable(tx.get()), -FI_ENOAV);
	EXPECT_EQ(fi_enable(sep.get()), -FI_ENOAV);
	EXPECT_EQ(fi_scalable_ep_bind(sep.get(), &cq->fid, FI_TRANSMIT), -FI_EINVAL);
	EXPECT_EQ(fi_scalable_ep_bind(sep.get(), &cntr->fid, FI_SEND), -FI_EINVAL);
	EXPECT_EQ(fi_scalable_ep_bind(sep.get(), &av->fid, 0), 0);
	EXPECT_EQ(fi_scalable_ep_bind(sep.get(), &av->fid, 0), -FI_EINVAL) << "a single one";
	/* Binding it again is allowed; binding another one is an error. */
	const auto other = av_with(node, bits);
	EXPECT_EQ(fi_ep_bind(tx.get(), &other->fid, 0), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(tx.get(), &av->fid, 0), 0);
	EXPECT_EQ(fi_enable(tx.get()), 0);
	EXPECT_EQ(fi_enable(sep.get()), 0);
	EXPECT_EQ(fi_close(&av->fid), -FI_EBUSY);
}

// conformance: fi_endpoint(3): a scalable endpoint cannot be used directly for communication
//   operations
TEST_F(Scalable, ItIsNotUsedDirectlyForCommunication)
{
	fid_ep *const sep = a.sep.get();

	EXPECT_EQ(fi_send(sep, "x", 1, nullptr, to(0), nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_tinject(sep, "x", 1, to(0), 0), -FI_ENOSYS);
	EXPECT_EQ(fi_recv(sep, in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_write(sep, in, 1, nullptr, to(0), 0, 0, nullptr), -FI_ENOSYS);
	/* And a context has one direction. */
	EXPECT_EQ(fi_recv(a.tx[0].get(), in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_send(a.rx[0].get(), "x", 1, nullptr, to(0), nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_read(a.rx[0].get(), in, 1, nullptr, to(0), 0, 0, nullptr), -FI_ENOSYS);
}

// conformance: fi_endpoint(3): -FI_EBUSY if contexts are open when the scalable endpoint is closed
TEST(ScalableObjects, ThereMustBeNoOpenedContextsWhenItIsClosed)
{
	const Node node(hints());
	auto sep = scalable(node);
	auto tx = tx_context(sep, 1), rx = rx_context(sep, 1);

	EXPECT_EQ(fi_close(&sep->fid), -FI_EBUSY);
	tx.reset();
	EXPECT_EQ(fi_close(&sep->fid), -FI_EBUSY);
	rx.reset();
	sep.reset();
}

// conformance: fi_endpoint(3): fi_tx_context, fi_rx_context retrieve a specific context, identified
//   by an index; twice: -FI_EBUSY
TEST(ScalableObjects, TheIndexIdentifiesAContext)
{
	const Node node(hints());
	const auto sep = scalable(node);
	auto tx = tx_context(sep, contexts - 1), rx = rx_context(sep, contexts - 1);
	fid_ep *ep = nullptr;
	Log log;

	EXPECT_EQ(tx->fid.fclass, std::size_t{FI_CLASS_TX_CTX});
	EXPECT_EQ(rx->fid.fclass, std::size_t{FI_CLASS_RX_CTX});
	EXPECT_EQ(sep->fid.fclass, std::size_t{FI_CLASS_SEP});
	for (const int index : {-1, contexts, 1000}) {
		EXPECT_EQ(fi_tx_context(sep.get(), index, nullptr, &ep, nullptr), -FI_EINVAL);
		EXPECT_EQ(fi_rx_context(sep.get(), index, nullptr, &ep, nullptr), -FI_EINVAL);
	}
	EXPECT_TRUE(log.has("index 1000"));
	EXPECT_EQ(fi_tx_context(sep.get(), contexts - 1, nullptr, &ep, nullptr), -FI_EBUSY);
	EXPECT_EQ(fi_rx_context(sep.get(), contexts - 1, nullptr, &ep, nullptr), -FI_EBUSY);
	tx.reset();
	rx.reset();
	tx = tx_context(sep, contexts - 1);
	rx = rx_context(sep, contexts - 1);
	/* An endpoint that is not scalable has none. */
	EXPECT_EQ(fi_tx_context(tx.get(), 0, nullptr, &ep, nullptr), -FI_ENOSYS);
	const Node plain(hints_for(FI_MSG));
	const auto endpoint = plain.ep();
	EXPECT_EQ(fi_rx_context(endpoint.get(), 0, nullptr, &ep, nullptr), -FI_ENOSYS);
}

// conformance: fi_endpoint(3): a context inherits the scalable endpoint's properties, may have
//   fewer capabilities and other attributes; the actual ones are returned
TEST(ScalableObjects, AContextMayHaveFewerCapabilitiesAndOtherAttributes)
{
	const Node node(hints());
	const auto sep = scalable(node);
	fi_tx_attr tx_attr{};
	fi_rx_attr rx_attr{};
	fid_ep *ep = nullptr;
	std::size_t size, len = sizeof(size);
	char c;

	tx_attr.caps = FI_TAGGED | FI_SEND;
	tx_attr.size = 16;
	const auto tx = tx_context(sep, 0, &tx_attr);
	EXPECT_EQ(tx_attr.caps & (FI_TAGGED | FI_MSG | FI_SEND), FI_TAGGED | FI_SEND);
	EXPECT_EQ(tx_attr.size, 16u);
	EXPECT_EQ(tx_attr.inject_size, node.info->tx_attr->inject_size) << "of the endpoint";
	ASSERT_EQ(fi_getopt(&tx->fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &size, &len), 0);
	EXPECT_EQ(size, 16u);
	EXPECT_EQ(fi_send(tx.get(), &c, 1, nullptr, 0, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_tsend(tx.get(), &c, 1, nullptr, 0, 0, nullptr), -FI_EOPBADSTATE);

	rx_attr.caps = FI_MSG;
	const auto rx = rx_context(sep, 0, &rx_attr);
	EXPECT_EQ(rx_attr.caps & (FI_TAGGED | FI_MSG | FI_RECV), FI_MSG | FI_RECV);
	EXPECT_EQ(rx_attr.size, node.info->rx_attr->size);
	EXPECT_EQ(fi_trecv(rx.get(), &c, 1, nullptr, 0, 0, 0, nullptr), -FI_ENOSYS);

	tx_attr.size = std::size_t{1} << 40;
	EXPECT_EQ(fi_tx_context(sep.get(), 1, &tx_attr, &ep, nullptr), -FI_EINVAL);
	const Node few(hints(FI_MSG));
	const auto other = scalable(few);
	tx_attr = {};
	tx_attr.caps = FI_MSG | FI_RMA;
	EXPECT_EQ(fi_tx_context(other.get(), 1, &tx_attr, &ep, nullptr), -FI_EINVAL);
	/* A domain that only receives has no transmit contexts. */
	const Node deaf(hints(FI_MSG | FI_RECV));
	const auto receiver = scalable(deaf);
	EXPECT_EQ(fi_tx_context(receiver.get(), 0, nullptr, &ep, nullptr), -FI_EINVAL);
}

// conformance: fi_endpoint(3): a context inherits the scalable endpoint's properties, may have ...
TEST(ScalableObjects, OptionsAndNames)
{
	const Node node(hints());
	const auto sep = scalable(node);
	const auto spare = scalable(node);
	const auto free_address = address_of(spare.get());
	std::size_t bytes = 100, len = sizeof(bytes);

	ASSERT_EQ(fi_setopt(&sep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, len), 0);
	EXPECT_EQ(fi_setname(&sep->fid, const_cast<std::byte *>(free_address.data()),
			     free_address.size()),
		  -FI_EADDRINUSE);
	const auto rx = rx_context(sep, 0);
	bytes = 0;
	ASSERT_EQ(fi_getopt(&rx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, &len), 0);
	EXPECT_EQ(bytes, 100u) << "inherited";
	auto any = free_address;
	EXPECT_EQ(fi_setname(&sep->fid, any.data(), any.size()), -FI_EOPBADSTATE);
	EXPECT_EQ(fi_setname(&rx->fid, any.data(), any.size()), -FI_EOPBADSTATE);
	bytes = 200;
	ASSERT_EQ(fi_setopt(&rx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, len), 0);
	ASSERT_EQ(fi_getopt(&sep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, &len), 0);
	EXPECT_EQ(bytes, 100u);
}

TEST(ScalableObjects, ItsNameCanBeSetAsLongAsThereIsNoContext)
{
	const Node node(hints());
	const auto sep = scalable(node);
	auto spare = scalable(node);
	auto name = address_of(spare.get());

	spare.reset();
	ASSERT_EQ(fi_setname(&sep->fid, name.data(), name.size()), 0);
	EXPECT_EQ(address_of(sep.get()), name);
	EXPECT_EQ(address_of(rx_context(sep, 0).get()), name);
}

TEST_F(Scalable, AContextHasAliases)
{
	fid_ep *alias = nullptr;

	ASSERT_EQ(fi_ep_alias(a.tx[0].get(), &alias, FI_TRANSMIT | FI_DELIVERY_COMPLETE), 0);
	const Owned<fid_ep> owned(alias);
	EXPECT_EQ(alias->fid.fclass, std::size_t{FI_CLASS_TX_CTX});
	ASSERT_EQ(fi_send(alias, "x", 1, nullptr, to(1), nullptr), 0);
	EXPECT_TRUE(is_silent(a.tx_cq[0].get()));
	ASSERT_EQ(fi_recv(b.rx[1].get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	next(a.tx_cq[0].get());
	EXPECT_EQ(fi_close(&a.tx[0]->fid), -FI_EBUSY);
}

/* --- shared contexts ------------------------------------------------------------------------- */

/*
 * "an endpoint may use a shared context of one type, but a scalable set of contexts of the alternate
 * type"
 */
class SharedAndScalable : public Scalable
{
protected:
	SharedAndScalable() : av(av_with(b.node, bits)), cq(b.node.cq()), other_cq(b.node.cq()) {}
	/* Opens an endpoint at b's side. */
	Owned<fid_ep> open(std::size_t tx_cnt, std::size_t rx_cnt, fid *shared,
			   std::uint64_t direction)
	{
		b.node.info->ep_attr->tx_ctx_cnt = tx_cnt;
		b.node.info->ep_attr->rx_ctx_cnt = rx_cnt;
		auto sep = scalable(b.node);
		b.bind(sep, av, 0);
		EXPECT_EQ(fi_enable(sep.get()), -FI_ENOCQ);
		b.bind(sep, cq, direction);
		EXPECT_EQ(fi_enable(sep.get()), -FI_EOPBADSTATE) << "no shared context is bound";
		EXPECT_EQ(fi_ep_bind(sep.get(), shared, 0), 0);
		EXPECT_EQ(fi_enable(sep.get()), 0);
		const auto address = address_of(a.sep.get());
		EXPECT_EQ(fi_av_insert(av.get(), address.data(), 1, &a_here, 0, nullptr), 1);
		here_at_a = a.insert(sep.get());
		return sep;
	}
	void enable(const Owned<fid_ep> &context, std::uint64_t direction)
	{
		b.bind(context, other_cq, direction);
		EXPECT_EQ(fi_enable(context.get()), 0);
	}

	Owned<fid_av> av;
	Owned<fid_cq> cq, other_cq;
	fi_addr_t a_here = 0, here_at_a = 0;
	fid_ep *none = nullptr;
};

// conformance: fi_endpoint(3): an endpoint may use a shared context of one type, but a scalable set
//   of the other
TEST_F(SharedAndScalable, ASharedTransmitContextAndSeveralToReceive)
{
	fid_stx *stx = nullptr;

	ASSERT_EQ(fi_stx_context(b.node.domain.get(), nullptr, &stx, nullptr), 0);
	const Owned<fid_stx> shared(stx);
	const auto sep = open(FI_SHARED_CONTEXT, contexts, &stx->fid, FI_TRANSMIT);
	EXPECT_EQ(fi_tx_context(sep.get(), 0, nullptr, &none, nullptr), -FI_EINVAL);
	const auto rx = rx_context(sep, 2);
	enable(rx, FI_RECV);
	/* Operations are posted directly to the endpoint, and come from its address. */
	fi_addr_t src;
	ASSERT_EQ(fi_recv(a.rx[1].get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_send(sep.get(), "there", 6, nullptr, fi_rx_addr(a_here, 1, bits), ctx(1)), 0);
	EXPECT_EQ(next(cq.get()).op_context, ctx(1));
	next(a.rx_cq[1].get(), &src);
	EXPECT_EQ(src, here_at_a);
	EXPECT_STREQ(in, "there");
	ASSERT_EQ(fi_recv(rx.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(2)), 0);
	ASSERT_EQ(fi_inject(a.tx[0].get(), "back", 5, fi_rx_addr(here_at_a, 2, bits)), 0);
	EXPECT_EQ(next(other_cq.get()).op_context, ctx(2));
	EXPECT_STREQ(in, "back");
	/* A waiting message is canceled at the endpoint. */
	std::vector<char> large(1 << 16);
	ASSERT_EQ(fi_send(sep.get(), large.data(), large.size(), nullptr, a_here, ctx(3)), 0);
	EXPECT_EQ(fi_cancel(&sep->fid, ctx(3)), 0);
	EXPECT_EQ(next_error(cq.get()).err, FI_ECANCELED);
	EXPECT_EQ(fi_close(&sep->fid), -FI_EBUSY);
}

// conformance: fi_endpoint(3): an endpoint may use a shared context of one type, but a scalable ...
TEST_F(SharedAndScalable, ASharedReceiveContextAndSeveralToTransmit)
{
	fid_ep *srx = nullptr;

	ASSERT_EQ(fi_srx_context(b.node.domain.get(), nullptr, &srx, nullptr), 0);
	const Owned<fid_ep> shared(srx);
	const auto sep = open(contexts, FI_SHARED_CONTEXT, &srx->fid, FI_RECV);
	EXPECT_EQ(fi_rx_context(sep.get(), 0, nullptr, &none, nullptr), -FI_EINVAL);
	const auto tx = tx_context(sep, 2);
	enable(tx, FI_TRANSMIT);
	ASSERT_EQ(fi_recv(srx, in, 8, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_inject(a.tx[0].get(), "there", 6, here_at_a), 0);
	EXPECT_EQ(next(cq.get()).op_context, ctx(1));
	EXPECT_STREQ(in, "there");
	ASSERT_EQ(fi_recv(a.rx[0].get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_send(tx.get(), "back", 5, nullptr, a_here, ctx(2)), 0);
	EXPECT_EQ(next(other_cq.get()).op_context, ctx(2));
	next(a.rx_cq[0].get());
	EXPECT_STREQ(in, "back");
	/* It receives through the first context, and has no other. */
	ASSERT_EQ(fi_send(a.tx[0].get(), "x", 1, nullptr, fi_rx_addr(here_at_a, 1, bits), nullptr),
		  0);
	EXPECT_EQ(next_error(a.tx_cq[0].get()).err, FI_ECONNREFUSED);
	ASSERT_EQ(fi_recv(srx, in, 8, nullptr, FI_ADDR_UNSPEC, ctx(4)), 0);
	EXPECT_EQ(fi_cancel(&srx->fid, ctx(4)), 0);
	EXPECT_EQ(next_error(cq.get()).err, FI_ECANCELED);
}

/* --- limits ----------------------------------------------------------------------------------- */

// conformance: fi_domain(3): max_ep_tx_ctx, max_ep_rx_ctx: 256; of FI_EP_MSG 1
TEST(ScalableInfo, AsManyContextsAsAreOffered)
{
	Info asked = hints_for(FI_MSG | FI_NAMED_RX_CTX);
	const Info offer = get_info(asked.get());
	const fi_domain_attr &domain = *offer->domain_attr;

	ASSERT_GT(domain.max_ep_rx_ctx, 1u);
	ASSERT_GE(domain.tx_ctx_cnt, domain.max_ep_tx_ctx);
	ASSERT_GE(domain.rx_ctx_cnt, domain.max_ep_rx_ctx);
	EXPECT_EQ(offer->ep_attr->rx_ctx_cnt, 1u) << "unless more are asked for";
	asked->ep_attr->tx_ctx_cnt = domain.max_ep_tx_ctx;
	asked->ep_attr->rx_ctx_cnt = domain.max_ep_rx_ctx;
	asked->rx_attr->size = asked->tx_attr->size = 4;

	const Node node(std::move(asked));
	const auto av = av_with(node, 8);
	const auto cq = node.cq();
	const auto sep = scalable(node);
	const auto address = address_of(sep.get());
	std::vector<Owned<fid_ep>> tx, rx;
	std::vector<char> in(domain.max_ep_rx_ctx);
	fi_addr_t self;
	ASSERT_EQ(fi_scalable_ep_bind(sep.get(), &av->fid, 0), 0);
	ASSERT_EQ(fi_av_insert(av.get(), address.data(), 1, &self, 0, nullptr), 1);
	const auto enable = [&](const Owned<fid_ep> &ep) {
		ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ASSERT_EQ(fi_enable(ep.get()), 0);
	};
	for (int i = 0; i < static_cast<int>(domain.max_ep_rx_ctx); ++i) {
		tx.push_back(tx_context(sep, i));
		rx.push_back(rx_context(sep, i));
		enable(tx.back());
		enable(rx.back());
	}
	/* Each gets its own message. */
	for (std::size_t i = 0; i < rx.size(); ++i) {
		const char c = static_cast<char>(i);
		ASSERT_EQ(fi_recv(rx[i].get(), &in[i], 1, nullptr, FI_ADDR_UNSPEC, ctx(i)), 0);
		ASSERT_EQ(fi_inject(tx[rx.size() - 1 - i].get(), &c, 1,
				    fi_rx_addr(self, static_cast<int>(i), 8)),
			  0);
		EXPECT_EQ(next(cq.get()).op_context, ctx(i));
		EXPECT_EQ(in[i], c);
	}
}

// conformance: fi_domain(3): max_ep_tx_ctx, max_ep_rx_ctx: 256; of FI_EP_MSG 1
// conformance: fi_endpoint(3): scalable endpoints: connected ones are not offered: FI_EP_MSG has
//   one context of each kind
TEST(ScalableInfo, PlainEndpointsAreNotScalable)
{
	fid_ep *ep = nullptr;
	int error;

	EXPECT_EQ(get_info(hints(FI_MSG, FI_EP_MSG).get(), &error), nullptr);
	EXPECT_EQ(error, -FI_ENODATA);
	Info connected = hints_for(FI_MSG);
	connected->ep_attr->type = FI_EP_MSG;
	const Node node(std::move(connected));
	EXPECT_EQ(node.info->domain_attr->max_ep_rx_ctx, 1u);
	EXPECT_FALSE(node.info->caps & FI_NAMED_RX_CTX);
	EXPECT_EQ(fi_scalable_ep(node.domain.get(), node.info.get(), &ep, nullptr), -FI_EINVAL);
	/* fi_endpoint opens one context of each kind, however many there could be. */
	const Node several(hints());
	ASSERT_EQ(fi_endpoint(several.domain.get(), several.info.get(), &ep, nullptr), 0);
	const Owned<fid_ep> whole(ep);
	EXPECT_EQ(fi_tx_context(ep, 0, nullptr, &ep, nullptr), -FI_ENOSYS);
	/* With both directions shared it is a plain endpoint. */
	several.info->ep_attr->tx_ctx_cnt = several.info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	EXPECT_EQ(fi_scalable_ep(several.domain.get(), several.info.get(), &ep, nullptr),
		  -FI_EINVAL);
}

// conformance: fi_endpoint(3): FI_NAMED_RX_CTX, fi_rx_addr, rx_ctx_bits: an initiator targets a ...
TEST(ScalableInfo, BitsOfAnAddressVector)
{
	const Node node(hints(FI_MSG | FI_NAMED_RX_CTX | FI_SHARED_AV));
	const std::string name = "bits" + std::to_string(getpid());
	fi_av_attr attr{};
	fid_av *av = nullptr;

	for (const int bad : {-1, 17, 64}) {
		attr.rx_ctx_bits = bad;
		EXPECT_EQ(fi_av_open(node.domain.get(), &attr, &av, nullptr), -FI_EINVAL);
	}
	/* All that open a shared vector have the same number of bits. */
	const auto first = av_with(node, 2, name.c_str()), second = av_with(node, 2, name.c_str());
	attr.name = name.c_str();
	attr.rx_ctx_bits = 3;
	EXPECT_EQ(fi_av_open(node.domain.get(), &attr, &av, nullptr), -FI_EINVAL);
}

/* An address that one process has inserted can name contexts in another one. */
TEST(ScalableInfo, ASharedAddressVector)
{
	const std::string name = "sep" + std::to_string(getpid());
	Node node(hints(FI_MSG | FI_NAMED_RX_CTX | FI_SHARED_AV)),
		other(hints(FI_SHARED_AV | FI_MSG));
	Many target(hints(FI_MSG | FI_NAMED_RX_CTX));
	const auto av = av_with(node, bits, name.c_str()),
		   same = av_with(other, bits, name.c_str());
	const auto cq = node.cq();
	const auto sep = scalable(node);
	const auto address = address_of(target.sep.get());
	fi_addr_t index;
	char c = 0;

	ASSERT_EQ(fi_av_insert(same.get(), address.data(), 1, &index, 0, nullptr), 1);
	ASSERT_EQ(fi_scalable_ep_bind(sep.get(), &av->fid, 0), 0);
	const auto tx = tx_context(sep, 0);
	ASSERT_EQ(fi_ep_bind(tx.get(), &cq->fid, FI_TRANSMIT), 0);
	ASSERT_EQ(fi_enable(tx.get()), 0);
	ASSERT_EQ(fi_recv(target.rx[2].get(), &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(tx.get(), "x", 1, fi_rx_addr(index, 2, bits)), 0);
	next(target.rx_cq[2].get());
	EXPECT_EQ(c, 'x');
}

TEST(ScalableInfo, Datagrams)
{
	constexpr std::uint64_t caps = FI_MSG | FI_NAMED_RX_CTX | FI_SOURCE;
	Many a(hints(caps, FI_EP_DGRAM)), b(hints(caps, FI_EP_DGRAM));
	const fi_addr_t there = a.insert(b.sep.get());
	char c = 0;

	ASSERT_EQ(fi_recv(b.rx[1].get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_send(a.tx[2].get(), "x", 1, nullptr, fi_rx_addr(there, 1, bits), nullptr), 0);
	next(a.tx_cq[2].get());
	EXPECT_EQ(next(b.rx_cq[1].get()).op_context, ctx(1));
	EXPECT_EQ(c, 'x');
	ASSERT_EQ(fi_send(a.tx[2].get(), "x", 1, nullptr, fi_rx_addr(there, contexts, bits),
			  nullptr),
		  0);
	next(a.tx_cq[2].get()); /* dropped, and not reported */
	EXPECT_TRUE(b.nothing_but(-1));
}

} // namespace
