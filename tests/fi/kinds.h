// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_KINDS_H
#define TREADLE_TESTS_FI_KINDS_H

#include "node.h"

/* The calls of both pages under one name; a plain message has no tag. */
struct Plain {
	static constexpr std::uint64_t caps = FI_MSG;
	static constexpr std::uint64_t kind = FI_MSG;

	static ssize_t recv(fid_ep *ep, void *buf, std::size_t len, fi_addr_t src, void *context)
	{
		return fi_recv(ep, buf, len, nullptr, src, context);
	}
	static ssize_t recvv(fid_ep *ep, const iovec *iov, std::size_t n, fi_addr_t src,
			     void *context)
	{
		return fi_recvv(ep, iov, nullptr, n, src, context);
	}
	static ssize_t recvmsg(fid_ep *ep, const iovec *iov, std::size_t n, fi_addr_t src,
			       void *context, std::uint64_t flags)
	{
		const fi_msg msg{iov, nullptr, n, src, context, 0};
		return fi_recvmsg(ep, &msg, flags);
	}
	static ssize_t send(fid_ep *ep, const void *buf, std::size_t len, fi_addr_t dest,
			    void *context)
	{
		return fi_send(ep, buf, len, nullptr, dest, context);
	}
	static ssize_t sendv(fid_ep *ep, const iovec *iov, std::size_t n, fi_addr_t dest,
			     void *context)
	{
		return fi_sendv(ep, iov, nullptr, n, dest, context);
	}
	static ssize_t sendmsg(fid_ep *ep, const iovec *iov, std::size_t n, fi_addr_t dest,
			       void *context, std::uint64_t data, std::uint64_t flags)
	{
		const fi_msg msg{iov, nullptr, n, dest, context, data};
		return fi_sendmsg(ep, &msg, flags);
	}
	static ssize_t inject(fid_ep *ep, const void *buf, std::size_t len, fi_addr_t dest)
	{
		return fi_inject(ep, buf, len, dest);
	}
	static ssize_t senddata(fid_ep *ep, const void *buf, std::size_t len, std::uint64_t data,
				fi_addr_t dest, void *context)
	{
		return fi_senddata(ep, buf, len, nullptr, data, dest, context);
	}
	static ssize_t injectdata(fid_ep *ep, const void *buf, std::size_t len, std::uint64_t data,
				  fi_addr_t dest)
	{
		return fi_injectdata(ep, buf, len, data, dest);
	}
};

struct Tagged {
	static constexpr std::uint64_t caps = FI_TAGGED;
	static constexpr std::uint64_t kind = FI_TAGGED;
	static constexpr std::uint64_t tag = 0xabcdef0123456789;

	static ssize_t recv(fid_ep *ep, void *buf, std::size_t len, fi_addr_t src, void *context)
	{
		return fi_trecv(ep, buf, len, nullptr, src, tag, 0, context);
	}
	static ssize_t recvv(fid_ep *ep, const iovec *iov, std::size_t n, fi_addr_t src,
			     void *context)
	{
		return fi_trecvv(ep, iov, nullptr, n, src, tag ^ 0xff, 0xff, context);
	}
	static ssize_t recvmsg(fid_ep *ep, const iovec *iov, std::size_t n, fi_addr_t src,
			       void *context, std::uint64_t flags)
	{
		const fi_msg_tagged msg{iov, nullptr, n, src, tag, 0, context, 0};
		return fi_trecvmsg(ep, &msg, flags);
	}
	static ssize_t send(fid_ep *ep, const void *buf, std::size_t len, fi_addr_t dest,
			    void *context)
	{
		return fi_tsend(ep, buf, len, nullptr, dest, tag, context);
	}
	static ssize_t sendv(fid_ep *ep, const iovec *iov, std::size_t n, fi_addr_t dest,
			     void *context)
	{
		return fi_tsendv(ep, iov, nullptr, n, dest, tag, context);
	}
	static ssize_t sendmsg(fid_ep *ep, const iovec *iov, std::size_t n, fi_addr_t dest,
			       void *context, std::uint64_t data, std::uint64_t flags)
	{
		const fi_msg_tagged msg{iov, nullptr, n, dest, tag, 0, context, data};
		return fi_tsendmsg(ep, &msg, flags);
	}
	static ssize_t inject(fid_ep *ep, const void *buf, std::size_t len, fi_addr_t dest)
	{
		return fi_tinject(ep, buf, len, dest, tag);
	}
	static ssize_t senddata(fid_ep *ep, const void *buf, std::size_t len, std::uint64_t data,
				fi_addr_t dest, void *context)
	{
		return fi_tsenddata(ep, buf, len, nullptr, data, dest, tag, context);
	}
	static ssize_t injectdata(fid_ep *ep, const void *buf, std::size_t len, std::uint64_t data,
				  fi_addr_t dest)
	{
		return fi_tinjectdata(ep, buf, len, data, dest, tag);
	}
};

template <class Calls> class Message : public testing::Test
{
protected:
	static Info hints(std::uint64_t more = 0) { return hints_for(Calls::caps | more); }

	/* Expects this completion of a receive. */
	void expect_received(fid_cq *cq, void *context, std::size_t len, std::uint64_t data = 0,
			     std::uint64_t more_flags = 0)
	{
		const auto entry = next(cq);
		EXPECT_EQ(entry.op_context, context);
		EXPECT_EQ(entry.flags, FI_RECV | Calls::kind | more_flags);
		EXPECT_EQ(entry.len, len);
		if (more_flags & FI_REMOTE_CQ_DATA) {
			EXPECT_EQ(entry.data, data);
		}
		if (Calls::kind == FI_TAGGED) {
			EXPECT_EQ(entry.tag, Tagged::tag);
		}
	}
	void expect_sent(fid_cq *cq, void *context)
	{
		const auto entry = next(cq);
		EXPECT_EQ(entry.op_context, context);
		EXPECT_EQ(entry.flags, FI_SEND | Calls::kind);
	}
};

using Kinds = testing::Types<Plain, Tagged>;

#endif
