// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Two ends of a connection in one process, and the steps to connect them. */
#ifndef TREADLE_TESTS_FI_CM_H
#define TREADLE_TESTS_FI_CM_H

#include <optional>

#include "connection.h"

class Cm : public testing::Test
{
protected:
	Node node{msg_hints()};
	Listener listener{node};
	Active client{node};
	std::optional<Active> server;

	int connect(const std::string &data = {})
	{
		return fi_connect(client.ep.get(), listener.address().data(), data.data(),
				  data.size());
	}
	void accept(const CmEvent &request, const std::string &data = {})
	{
		server.emplace(node, request.info.get());
		EXPECT_EQ(fi_accept(server->ep.get(), data.data(), data.size()), 0);
	}
	/* Both ends get their events; returns the data of the client's. */
	// conformance: fi_cm(3): FI_CONNECTED on both sides; on the passive one with the fid of the
	//   accepting endpoint
	std::string expect_connected()
	{
		CmEvent there = next_event(client.eq.get());
		EXPECT_EQ(there.event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(there.object, &client.ep->fid);
		CmEvent here = next_event(server->eq.get());
		EXPECT_EQ(here.event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(here.object, &server->ep->fid);
		EXPECT_EQ(here.data, "");
		return there.data;
	}
	void establish()
	{
		ASSERT_EQ(connect(), 0);
		accept(listener.request());
		expect_connected();
	}
	void send(Active &from, Active &to)
	{
		std::uint64_t out = 0x5eed, in = 0;

		ASSERT_EQ(fi_recv(to.ep.get(), &in, sizeof(in), nullptr, 0, ctx(1)), 0);
		ASSERT_EQ(fi_send(from.ep.get(), &out, sizeof(out), nullptr, 0, ctx(2)), 0);
		EXPECT_EQ(next(to.cq.get()).op_context, ctx(1));
		EXPECT_EQ(next(from.cq.get()).op_context, ctx(2));
		EXPECT_EQ(in, out);
	}
};

#endif
