// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/port_of.h"

namespace treadle::fi
{

namespace
{

Message send_message(const void *buf, std::size_t len, fi_addr_t dest, void *context) noexcept
{
	return {.opcode = TREADLE_OP_SEND,
		.context = address_of(context),
		.addr = address_of(buf),
		.len = len,
		.peer = dest};
}

Message recv_message(void *buf, std::size_t len, fi_addr_t src, void *context) noexcept
{
	return {.opcode = TREADLE_OP_RECV,
		.context = address_of(context),
		.addr = address_of(buf),
		.len = len,
		.peer = src};
}

/* The calls of fi_msg(3), for one lock type and one Way. */
template <class Lock, Way Kind> struct MessageCalls {
	using P = PortOf<Lock>;

	/* recv_here jumps there */
	[[gnu::noinline, gnu::noclone]] static ssize_t
	recv(fid_ep *ep, void *buf, std::size_t len, void *, fi_addr_t src, void *context) noexcept
	{
		return P::of(ep).template receive<Kind>(recv_message(buf, len, src, context));
	}
	static ssize_t recv_here(fid_ep *ep, void *buf, std::size_t len, void *desc, fi_addr_t src,
				 void *context) noexcept
	{
		if (P::of(ep).receive_here(recv_message(buf, len, src, context)))
			return 0;
		return recv(ep, buf, len, desc, src, context);
	}
	static ssize_t recvv(fid_ep *ep, const iovec *iov, void **, std::size_t count,
			     fi_addr_t src, void *context) noexcept
	{
		P &port = P::of(ep);
		return port.template receive<Kind>(recv_message(nullptr, 0, src, context), iov,
						   count, port.rx_op_flags());
	}
	static ssize_t recvmsg(fid_ep *ep, const fi_msg *msg, std::uint64_t flags) noexcept
	{
		return P::of(ep).template receive<Kind>(recv_message(nullptr, 0, msg->addr,
								     msg->context),
							msg->msg_iov, msg->iov_count, flags);
	}
	[[gnu::noinline, gnu::noclone]] static ssize_t send(fid_ep *ep, const void *buf,
							    std::size_t len, void *, fi_addr_t dest,
							    void *context) noexcept
	{
		return P::of(ep).template transmit<Kind>(send_message(buf, len, dest, context));
	}
	static ssize_t send_word(fid_ep *ep, const void *buf, std::size_t len, void *desc,
				 fi_addr_t dest, void *context) noexcept
	{
		if (P::of(ep).send_word(send_message(buf, len, dest, context)))
			return 0;
		return send(ep, buf, len, desc, dest, context);
	}
	static ssize_t sendv(fid_ep *ep, const iovec *iov, void **, std::size_t count,
			     fi_addr_t dest, void *context) noexcept
	{
		P &port = P::of(ep);
		return port.template transmit<Kind>(send_message(nullptr, 0, dest, context), iov,
						    count, port.tx_op_flags());
	}
	static ssize_t sendmsg(fid_ep *ep, const fi_msg *msg, std::uint64_t flags) noexcept
	{
		Message message = send_message(nullptr, 0, msg->addr, msg->context);
		message.data = msg->data;
		return P::of(ep).template transmit<Kind>(message, msg->msg_iov, msg->iov_count,
							 flags);
	}
	[[gnu::noinline, gnu::noclone]] static ssize_t
	inject(fid_ep *ep, const void *buf, std::size_t len, fi_addr_t dest) noexcept
	{
		return P::of(ep).template inject<Kind>(
			send_message(buf, len, dest, ep->fid.context));
	}
	static ssize_t inject_word(fid_ep *ep, const void *buf, std::size_t len,
				   fi_addr_t dest) noexcept
	{
		if (P::of(ep).inject_word(send_message(buf, len, dest, nullptr)))
			return 0;
		return inject(ep, buf, len, dest);
	}
	static ssize_t senddata(fid_ep *ep, const void *buf, std::size_t len, void *,
				std::uint64_t data, fi_addr_t dest, void *context) noexcept
	{
		Message message = send_message(buf, len, dest, context);
		message.data = data;
		return P::of(ep).template transmit<Kind>(message, FI_REMOTE_CQ_DATA,
							 TREADLE_F_REMOTE_CQ_DATA);
	}
	static ssize_t injectdata(fid_ep *ep, const void *buf, std::size_t len, std::uint64_t data,
				  fi_addr_t dest) noexcept
	{
		Message message = send_message(buf, len, dest, ep->fid.context);
		message.data = data;
		return P::of(ep).template inject<Kind>(message, TREADLE_F_REMOTE_CQ_DATA);
	}
};

} // namespace

void choose_calls(fi_ops_msg &ops, bool serialized, Calls tx, Calls rx, Lanes lanes) noexcept
{
	choose_for<MessageCalls>(ops, serialized, tx, rx, lanes);
}

} // namespace treadle::fi
