// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Windows of connected endpoints, and of contexts of scalable ones. */
#include "connection.h"
#include "scalable.h"
#include "window.h"

namespace
{

Info connected_hints()
{
	Info h = hints_for(FI_MSG | FI_RMA | FI_ATOMIC);

	h->ep_attr->type = FI_EP_MSG;
	return h;
}

struct WindowOfConnection : testing::Test {
	WindowOfConnection()
	{
		const auto address = listener.address();

		EXPECT_EQ(fi_enable(client.ep.get()), 0);
		EXPECT_EQ(fi_connect(client.ep.get(), address.data(), nullptr, 0), 0);
		const CmEvent request = listener.request();
		server.emplace(node, request.info.get());
		EXPECT_EQ(fi_enable(server->ep.get()), 0);
		EXPECT_EQ(fi_accept(server->ep.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(server->eq.get()).event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(next_event(client.eq.get()).event, std::uint32_t{FI_CONNECTED});
	}
	std::uint64_t direct() { return stats_of(node, client.ep.get()).direct; }
	ssize_t write(std::uint64_t value, std::uint64_t at, fi_addr_t whatever)
	{
		return fi_inject_write(client.ep.get(), &value, 8, whatever, at, 7);
	}

	Memory there;
	Node node{connected_hints()};
	Listener listener{node};
	Active client{node};
	std::optional<Active> server;
	Owned<fid_mr> mr = reg(node, there);
};

TEST_F(WindowOfConnection, ThePeerIsThatOfTheConnectionWhateverNamesIt)
{
	for (const fi_addr_t whatever : {fi_addr_t{0}, FI_ADDR_UNSPEC, fi_addr_t{5}}) {
		const auto before = direct();

		for (std::uint64_t i = 1; i <= 20; ++i) {
			ASSERT_EQ(write(i, 8, whatever), 0);
			EXPECT_EQ(there.seen(1), i);
		}
		EXPECT_GE(direct(), before + 10);
	}
	std::uint64_t value = 0;
	ASSERT_EQ(fi_read(client.ep.get(), &value, 8, nullptr, 0, 8, 7, ctx(1)), 0);
	EXPECT_EQ(next(client.cq.get()).op_context, ctx(1));
	EXPECT_EQ(value, 20u);
}

TEST_F(WindowOfConnection, EndsWithTheConnection)
{
	for (std::uint64_t i = 1; i <= 20; ++i)
		ASSERT_EQ(write(i, 0, 0), 0);
	ASSERT_GT(direct(), 0u);
	ASSERT_EQ(fi_shutdown(server->ep.get(), 0), 0);
	ASSERT_EQ(next_event(client.eq.get()).event, std::uint32_t{FI_SHUTDOWN});
	const auto before = direct();
	std::uint64_t value = 99;
	const ssize_t rc = fi_write(client.ep.get(), &value, 8, nullptr, 0, 0, 7, ctx(1));
	if (rc == 0) {
		EXPECT_NE(next_error(client.cq.get()).err, 0);
	}
	EXPECT_EQ(direct(), before);
	EXPECT_EQ(there.seen(), 20u);
}

TEST_F(WindowOfConnection, AnEndpointWithWindowsCloses)
{
	for (std::uint64_t i = 1; i <= 20; ++i)
		ASSERT_EQ(write(i, 0, 0), 0);
	fid_ep *const ep = client.ep.release();
	EXPECT_EQ(fi_close(&ep->fid), 0);
	EXPECT_EQ(next_event(server->eq.get()).event, std::uint32_t{FI_SHUTDOWN});
}

struct WindowOfContext : Scalable {
	WindowOfContext() : Scalable([] { return hints(all_caps & ~FI_RMA_EVENT); }) {}
};

/* Each transmit context has windows of its own, on whatever context of the peer. */
TEST_F(WindowOfContext, ReachesTheEndpointOfAnyContext)
{
	Memory there;
	const auto mr = reg(b.node, there);

	for (int from = 0; from < contexts; ++from) {
		for (int at = 0; at < contexts; ++at) {
			SCOPED_TRACE(from * 10 + at);
			const auto before = stats_of(a.node, a.tx[from].get()).direct;
			for (std::uint64_t i = 1; i <= 20; ++i) {
				const std::uint64_t value =
					static_cast<std::uint64_t>(from) << 32 | i;
				ASSERT_EQ(fi_inject_write(a.tx[from].get(), &value, 8, to(at), 16,
							  7),
					  0);
				EXPECT_EQ(there.seen(2), value);
			}
			EXPECT_GE(stats_of(a.node, a.tx[from].get()).direct, before + 10);
		}
	}
	/* A context closes with its windows, and opens again. */
	a.tx[1].reset();
	a.tx[1] = tx_context(a.sep, 1);
	EXPECT_TRUE(a.tx[1]);
}

} // namespace
