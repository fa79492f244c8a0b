// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_SCALABLE_H
#define TREADLE_TESTS_FI_SCALABLE_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "node.h"

/* Helpers for tests of scalable endpoints. */

inline constexpr int contexts = 3;
inline constexpr int bits = 2; /* leaves one index that is no context */
inline constexpr std::uint64_t all_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC |
					  FI_NAMED_RX_CTX | FI_SOURCE | FI_DIRECTED_RECV |
					  FI_RMA_EVENT | FI_MULTI_RECV | FI_TRIGGER;

inline Info hints(std::uint64_t caps = all_caps, fi_ep_type type = FI_EP_RDM)
{
	Info hints = hints_for(caps);

	hints->ep_attr->type = type;
	hints->ep_attr->tx_ctx_cnt = contexts;
	hints->ep_attr->rx_ctx_cnt = contexts;
	return hints;
}

inline Owned<fid_av> av_with(const Node &node, int rx_ctx_bits, const char *name = nullptr)
{
	fi_av_attr attr{};
	fid_av *av = nullptr;

	attr.rx_ctx_bits = rx_ctx_bits;
	attr.name = name;
	EXPECT_EQ(fi_av_open(node.domain.get(), &attr, &av, nullptr), 0);
	return Owned<fid_av>(av);
}

inline Owned<fid_ep> scalable(const Node &node)
{
	fid_ep *ep = nullptr;

	EXPECT_EQ(fi_scalable_ep(node.domain.get(), node.info.get(), &ep, nullptr), 0);
	return Owned<fid_ep>(ep);
}

inline Owned<fid_ep> tx_context(const Owned<fid_ep> &sep, int index, fi_tx_attr *attr = nullptr)
{
	fid_ep *ep = nullptr;

	EXPECT_EQ(fi_tx_context(sep.get(), index, attr, &ep, nullptr), 0);
	return Owned<fid_ep>(ep);
}

inline Owned<fid_ep> rx_context(const Owned<fid_ep> &sep, int index, fi_rx_attr *attr = nullptr)
{
	fid_ep *ep = nullptr;

	EXPECT_EQ(fi_rx_context(sep.get(), index, attr, &ep, nullptr), 0);
	return Owned<fid_ep>(ep);
}

/* A scalable endpoint, and contexts with a queue and a counter each, enabled. */
struct Many {
	explicit Many(Info asked = hints())
		: node(std::move(asked)), av(av_with(node, bits)), sep(scalable(node))
	{
		EXPECT_EQ(fi_scalable_ep_bind(sep.get(), &av->fid, 0), 0);
		EXPECT_EQ(fi_enable(sep.get()), 0);
		for (int i = 0; i < contexts; ++i) {
			tx_cq[i] = node.cq();
			rx_cq[i] = node.cq();
			sent[i] = node.cntr();
			received[i] = node.cntr();
			tx[i] = tx_context(sep, i);
			rx[i] = rx_context(sep, i);
			bind(tx[i], tx_cq[i], FI_TRANSMIT);
			bind(rx[i], rx_cq[i], FI_RECV);
			bind(tx[i], sent[i], FI_SEND);
			bind(rx[i], received[i], FI_RECV);
			if (node.info->caps & FI_RMA_EVENT) {
				events[i] = node.cntr();
				bind(rx[i], events[i], FI_REMOTE_WRITE);
			}
			EXPECT_EQ(fi_enable(tx[i].get()), 0);
			EXPECT_EQ(fi_enable(rx[i].get()), 0);
		}
	}
	template <class Other>
	void bind(const Owned<fid_ep> &ep, const Owned<Other> &other, std::uint64_t flags)
	{
		EXPECT_EQ(fi_ep_bind(ep.get(), &other->fid, flags), 0);
	}
	fi_addr_t insert(fid_ep *peer)
	{
		const auto address = address_of(peer);
		fi_addr_t index = FI_ADDR_NOTAVAIL;

		EXPECT_EQ(fi_av_insert(av.get(), address.data(), 1, &index, 0, nullptr), 1);
		return index;
	}
	bool nothing_but(int who)
	{
		for (int i = 0; i < contexts; ++i) {
			if (i != who && !is_silent(rx_cq[i].get()))
				return false;
		}
		return true;
	}

	Node node;
	Owned<fid_av> av;
	Owned<fid_cq> tx_cq[contexts], rx_cq[contexts];
	Owned<fid_cntr> sent[contexts], received[contexts], events[contexts];
	Owned<fid_ep> sep, tx[contexts], rx[contexts];
};

class Scalable : public testing::Test
{
protected:
	explicit Scalable(Info (*asked)() = [] { return hints(); }) : a(asked()), b(asked()) {}

	fi_addr_t to(int index) const { return fi_rx_addr(b_at_a, index, bits); }

	Many a, b;
	fi_addr_t b_at_a = a.insert(b.sep.get()), a_at_b = b.insert(a.sep.get());
	char in[64] = {};
};

#endif
