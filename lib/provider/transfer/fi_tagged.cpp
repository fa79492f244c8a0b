// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/port_of.h"

namespace treadle::fi
{

namespace
{

Message send_message(const void *buf, std::size_t len, fi_addr_t dest, std::uint64_t tag,
		     void *context) noexcept
{
	return {.opcode = TREADLE_OP_TSEND,
		.context = address_of(context),
		.addr = address_of(buf),
		.len = len,
		.peer = dest,
		.tag = tag};
}

Message recv_message(void *buf, std::size_t len, fi_addr_t src, std::uint64_t tag,
		     std::uint64_t ignore, void *context) noexcept
{
	return {.opcode = TREADLE_OP_TRECV,
		.context = address_of(context),
		.addr = address_of(buf),
		.len = len,
		.peer = src,
		.tag = tag,
		.ignore = ignore};
}

/* The calls of fi_tagged(3), as in fi_msg.cpp. */
template <class Lock, Way Kind> struct TaggedCalls {
	using P = PortOf<Lock>;

	/* recv_here jumps there */
	[[gnu::noinline, gnu::noclone]] static ssize_t recv(fid_ep *ep, void *buf, std::size_t len,
							    void *, fi_addr_t src,
							    std::uint64_t tag, std::uint64_t ignore,
							    void *context) noexcept
	{
		return P::of(ep).template receive<Kind>(
			recv_message(buf, len, src, tag, ignore, context));
	}
	static ssize_t recv_here(fid_ep *ep, void *buf, std::size_t len, void *desc, fi_addr_t src,
				 std::uint64_t tag, std::uint64_t ignore, void *context) noexcept
	{
		if (P::of(ep).receive_here(recv_message(buf, len, src, tag, ignore, context)))
			return 0;
		return recv(ep, buf, len, desc, src, tag, ignore, context);
	}
	static ssize_t recvv(fid_ep *ep, const iovec *iov, void **, std::size_t count,
			     fi_addr_t src, std::uint64_t tag, std::uint64_t ignore,
			     void *context) noexcept
	{
		P &port = P::of(ep);
		return port.template receive<Kind>(recv_message(nullptr, 0, src, tag, ignore,
								context),
						   iov, count, port.rx_op_flags() & ~FI_MULTI_RECV);
	}
	static ssize_t recvmsg(fid_ep *ep, const fi_msg_tagged *msg, std::uint64_t flags) noexcept
	{
		/* FI_PEEK and FI_DISCARD transfer no data, so the buffers are ignored. */
		const bool ignored = flags & (FI_PEEK | FI_DISCARD);
		return P::of(ep).template receive<Kind>(
			recv_message(nullptr, 0, msg->addr, msg->tag, msg->ignore, msg->context),
			msg->msg_iov, ignored ? 0 : msg->iov_count, flags);
	}
	[[gnu::noinline, gnu::noclone]] static ssize_t send(fid_ep *ep, const void *buf,
							    std::size_t len, void *, fi_addr_t dest,
							    std::uint64_t tag,
							    void *context) noexcept
	{
		return P::of(ep).template transmit<Kind>(
			send_message(buf, len, dest, tag, context));
	}
	static ssize_t send_word(fid_ep *ep, const void *buf, std::size_t len, void *desc,
				 fi_addr_t dest, std::uint64_t tag, void *context) noexcept
	{
		if (P::of(ep).send_word(send_message(buf, len, dest, tag, context)))
			return 0;
		return send(ep, buf, len, desc, dest, tag, context);
	}
	static ssize_t sendv(fid_ep *ep, const iovec *iov, void **, std::size_t count,
			     fi_addr_t dest, std::uint64_t tag, void *context) noexcept
	{
		P &port = P::of(ep);
		return port.template transmit<Kind>(send_message(nullptr, 0, dest, tag, context),
						    iov, count, port.tx_op_flags());
	}
	static ssize_t sendmsg(fid_ep *ep, const fi_msg_tagged *msg, std::uint64_t flags) noexcept
	{
		Message message = send_message(nullptr, 0, msg->addr, msg->tag, msg->context);
		message.data = msg->data;
		return P::of(ep).template transmit<Kind>(message, msg->msg_iov, msg->iov_count,
							 flags);
	}
	[[gnu::noinline, gnu::noclone]] static ssize_t inject(fid_ep *ep, const void *buf,
							      std::size_t len, fi_addr_t dest,
							      std::uint64_t tag) noexcept
	{
		return P::of(ep).template inject<Kind>(
			send_message(buf, len, dest, tag, ep->fid.context));
	}
	static ssize_t inject_word(fid_ep *ep, const void *buf, std::size_t len, fi_addr_t dest,
				   std::uint64_t tag) noexcept
	{
		if (P::of(ep).inject_word(send_message(buf, len, dest, tag, nullptr)))
			return 0;
		return inject(ep, buf, len, dest, tag);
	}
	static ssize_t senddata(fid_ep *ep, const void *buf, std::size_t len, void *,
				std::uint64_t data, fi_addr_t dest, std::uint64_t tag,
				void *context) noexcept
	{
		Message message = send_message(buf, len, dest, tag, context);
		message.data = data;
		return P::of(ep).template transmit<Kind>(message, FI_REMOTE_CQ_DATA,
							 TREADLE_F_REMOTE_CQ_DATA);
	}
	static ssize_t injectdata(fid_ep *ep, const void *buf, std::size_t len, std::uint64_t data,
				  fi_addr_t dest, std::uint64_t tag) noexcept
	{
		Message message = send_message(buf, len, dest, tag, ep->fid.context);
		message.data = data;
		return P::of(ep).template inject<Kind>(message, TREADLE_F_REMOTE_CQ_DATA);
	}
};

} // namespace

void choose_calls(fi_ops_tagged &ops, bool serialized, Calls tx, Calls rx, Lanes lanes) noexcept
{
	choose_for<TaggedCalls>(ops, serialized, tx, rx, lanes);
}

} // namespace treadle::fi
