// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_TRANSFER_H
#define TREADLE_PROVIDER_TRANSFER_H

#include <array>
#include <optional>
#include <span>

#include <sys/uio.h>

#include <treadle/receive_ring.h>
#include <treadle/transmit_ring.h>

#include "endpoint.h"
#include "stx.h"
#include "trigger.h"

/* Where all variants of fi_msg(3) and fi_tagged(3) meet: each is one transmit or receive. */
namespace treadle::fi
{

/* Flags that a call may have besides its endpoint's defaults. */
inline constexpr std::uint64_t transmit_flags = tx_op_flags | FI_MORE | FI_REMOTE_CQ_DATA;
inline constexpr std::uint64_t peek_flags = FI_PEEK | FI_CLAIM | FI_DISCARD;
constexpr std::uint64_t receive_flags(std::uint8_t opcode) noexcept
{
	return (rx_op_flags & ~FI_MULTI_RECV) | FI_MORE |
	       (opcode == TREADLE_OP_RECV ? FI_MULTI_RECV : peek_flags);
}

/*
 * The flags of an operation, for the kernel. A buffer to inject is free when the
 * call returns, so the doorbell, which copies it, can't wait for more.
 */
constexpr std::uint32_t desc_flags_of(std::uint64_t flags) noexcept
{
	const auto when = [flags](std::uint64_t any_of, std::uint32_t desc_flag) {
		return flags & any_of ? desc_flag : 0;
	};

	return when(FI_COMPLETION, TREADLE_F_COMPLETION) | when(FI_INJECT, TREADLE_F_INJECT) |
	       (flags & FI_INJECT ? 0 : when(FI_MORE, TREADLE_F_MORE)) |
	       when(FI_FENCE, TREADLE_F_FENCE) | when(FI_REMOTE_CQ_DATA, TREADLE_F_REMOTE_CQ_DATA) |
	       when(FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE, TREADLE_F_DELIVERY_COMPLETE) |
	       when(FI_MULTI_RECV, TREADLE_F_MULTI_RECV) | when(FI_PEEK, TREADLE_F_PEEK) |
	       when(FI_CLAIM, TREADLE_F_CLAIM) | when(FI_DISCARD, TREADLE_F_DISCARD);
}

/* The buffers of one operation. */
class Buffers
{
public:
	Buffers(const iovec *iov, std::size_t count) noexcept : count_(count)
	{
		for (std::size_t i = 0; i < count && i < iov_.size(); ++i)
			iov_[i] = {address_of(iov[i].iov_base), iov[i].iov_len};
	}
	bool too_many() const noexcept { return count_ > iov_.size(); }
	std::span<const treadle_iov> span() const noexcept { return {iov_.data(), count_}; }

private:
	std::array<treadle_iov, TREADLE_MAX_IOV> iov_;
	std::size_t count_;
};

/* The errors of a post, logged unless it is the one that says "later". */
ssize_t posting_failed(int error, const char *what) noexcept;
ssize_t flags_refused(std::uint64_t flags, const char *what) noexcept;

template <class Lock> class PortOf;

template <class Lock> class EndpointOf final : public Endpoint
{
public:
	EndpointOf(Domain &domain, InfoPtr info, std::optional<treadle::Endpoint> kernel)
		: Endpoint(domain, std::move(info), std::move(kernel))
	{
	}
	~EndpointOf() override
	{
		if (kernel_)
			kernel_->close();
	}

	BasicTransmitRing<Lock> *tx() noexcept
	{
		if constexpr (std::is_same_v<Lock, Mutex>) {
			if (shared_tx_)
				return &shared_tx_->ring();
		}
		return tx_ ? &*tx_ : nullptr;
	}
	BasicReceiveRing<Lock> *rx() noexcept { return rx_ ? &*rx_ : nullptr; }

	ssize_t tx_room() noexcept override { return room(tx()); }
	ssize_t rx_room() noexcept override { return room(rx()); }

private:
	static ssize_t room(auto *ring) noexcept { return ring ? ring->room() : -FI_EOPBADSTATE; }
	int make_rings(Bindings &bindings) override;
	Port *new_port(std::shared_ptr<Endpoint> self, void *context) override
	{
		return new PortOf<Lock>(std::move(self), context);
	}

	std::optional<BasicTransmitRing<Lock>> tx_;
	std::optional<BasicReceiveRing<Lock>> rx_;
};

template <class Lock> int EndpointOf<Lock>::make_rings(Bindings &bindings)
{
	const Context &context = domain().kernel();

	if (tx_caps() && !shares_tx()) {
		auto ring = BasicTransmitRing<Lock>::create(context, info().tx_attr->size);
		if (!ring)
			return ring.error().negative();
		bindings.tx = tx_.emplace(std::move(*ring)).id();
	}
	if (rx_caps() && !shares_rx()) {
		auto ring = BasicReceiveRing<Lock>::create(context, info().rx_attr->size,
							   info().rx_attr->total_buffered_recv);
		if (!ring)
			return ring.error().negative();
		bindings.rx = rx_.emplace(std::move(*ring)).id();
	}
	return 0;
}

template <class Lock> class PortOf final : public Port
{
public:
	PortOf(std::shared_ptr<Endpoint> endpoint, void *context)
		: Port(std::move(endpoint), context)
	{
	}

	static PortOf &of(fid_ep *ep) noexcept { return static_cast<PortOf &>(Port::of(ep)); }

	/* One buffer, the port's default flags, and perhaps more: TREADLE_F_*. */
	template <bool Special>
	ssize_t transmit(Message message, std::uint64_t flags = 0,
			 std::uint32_t desc_flags = 0) noexcept
	{
		if constexpr (Special)
			return transmit_as(message, tx_op_flags_ | flags);
		message.flags = tx_flags_ | desc_flags;
		return finish(tx_->post(message), "send");
	}
	template <bool Special> ssize_t receive(Message message) noexcept
	{
		if constexpr (Special) /* a tagged one takes one message, whatever the default is */
			return receive_as(message, rx_op_flags_ & receive_flags(message.opcode));
		message.flags = rx_flags_;
		message.peer |= any_source_;
		return finish(rx_->post(message), "recv");
	}

	/* The buffer is free at return, and success is not reported. */
	template <bool Special>
	ssize_t inject(Message message, std::uint32_t desc_flags = 0) noexcept
	{
		message.flags = TREADLE_F_INJECT | desc_flags;
		if constexpr (Special)
			return finish(post(message), "inject");
		return finish(tx_->post(message), "inject");
	}

	/* Any buffers, any flags. */
	ssize_t transmit(Message message, const iovec *iov, std::size_t count,
			 std::uint64_t flags) noexcept
	{
		if (count == 1) {
			message.addr = address_of(iov->iov_base);
			message.len = iov->iov_len;
			return transmit_as(message, flags);
		}
		return transmit_as(message, flags, Buffers(iov, count));
	}
	ssize_t receive(Message message, const iovec *iov, std::size_t count,
			std::uint64_t flags) noexcept
	{
		if (count == 1) {
			message.addr = address_of(iov->iov_base);
			message.len = iov->iov_len;
			return receive_as(message, flags);
		}
		return receive_as(message, flags, Buffers(iov, count));
	}

	std::uint64_t tx_op_flags() const noexcept { return tx_op_flags_; }
	std::uint64_t rx_op_flags() const noexcept { return rx_op_flags_; }

private:
	template <class... B>
	ssize_t transmit_as(Message message, std::uint64_t flags, const B &...buffers) noexcept
	{
		if (flags & ~transmit_flags || (buffers.too_many() || ...)) [[unlikely]]
			return flags_refused(flags & ~transmit_flags, "send");
		message.flags = tx_desc_flags(flags);
		if (!(flags & FI_REMOTE_CQ_DATA))
			message.data = 0;
		if (flags & FI_TRIGGER) {
			Command command = command_of(message).on(endpoint_->id());
			const int rc = when_triggered(command, *endpoint_);
			(command.buffers(buffers.span()), ...);
			return finish(rc ? rc : tx_->post(command), "triggered send");
		}
		return finish(post(message, buffers...), "send");
	}
	template <class... B>
	ssize_t receive_as(Message message, std::uint64_t flags, const B &...buffers) noexcept
	{
		const std::uint64_t unknown = flags & ~receive_flags(message.opcode);

		if (unknown || (buffers.too_many() || ...)) [[unlikely]]
			return flags_refused(unknown, "recv");
		message.flags = rx_desc_flags(flags);
		message.peer |= any_source_;
		if (flags & FI_MULTI_RECV) {
			if (sizeof...(buffers))
				return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA,
					      "recv: FI_MULTI_RECV is for one buffer");
			message.data = endpoint_->min_multi_recv();
		}
		if (flags & (FI_TRIGGER | peek_flags)) {
			/* A receive ring holds receives that are ready and may wait: this is none. */
			Command command = command_of(message).on(endpoint_->id());
			const int rc = flags & FI_TRIGGER ? when_triggered(command, *endpoint_) : 0;
			(command.buffers(buffers.span()), ...);
			if (flags & (FI_PEEK | FI_DISCARD))
				command.buffers({});
			return finish(rc ? rc : endpoint_->domain().kernel().submit(command),
				      flags & FI_TRIGGER ? "triggered recv" : "peek or claim");
		}
		return finish(rx_->post(message, buffers.span()...), "recv");
	}

	/* To a ring that may be shared. */
	template <class... B> int post(const Message &message, const B &...buffers) noexcept
	{
		if (shares_tx_) [[unlikely]] {
			Command command = command_of(message).on(endpoint_->id());
			(command.buffers(buffers.span()), ...);
			return tx_->post(command);
		}
		return tx_->post(message, buffers.span()...);
	}

	static ssize_t finish(int rc, const char *what) noexcept
	{
		return rc ? posting_failed(rc, what) : 0;
	}

	void attach() noexcept override
	{
		auto &endpoint = static_cast<EndpointOf<Lock> &>(*endpoint_);

		tx_ = endpoint.tx();
		rx_ = endpoint.rx();
	}

	BasicTransmitRing<Lock> *tx_ = nullptr;
	BasicReceiveRing<Lock> *rx_ = nullptr;
};

/* A class whose members refuse, under the names of the calls, which both tables share. */
template <int Error> struct Refusing {
	static constexpr Refuses<Error> recv{}, recvv{}, recvmsg{};
	static constexpr Refuses<Error> send{}, sendv{}, sendmsg{}, inject{}, senddata{},
		injectdata{};
};

/* Calls fill(C) with the class C of functions that do what `calls` says. */
template <template <class, bool> class Live, class Fill>
void choose(bool serialized, Calls calls, Fill &&fill) noexcept
{
	switch (calls) {
	case Calls::absent:
		return fill(Refusing<-FI_ENOSYS>());
	case Calls::disabled:
		return fill(Refusing<-FI_EOPBADSTATE>());
	case Calls::plain:
		return serialized ? fill(Live<NoLock, false>()) : fill(Live<Mutex, false>());
	case Calls::special:
		return serialized ? fill(Live<NoLock, true>()) : fill(Live<Mutex, true>());
	}
}

/* The table of fi_msg(3) or fi_tagged(3), whose members have the same names. */
template <template <class, bool> class Live, class Ops>
void choose_for(Ops &ops, bool serialized, Calls tx, Calls rx) noexcept
{
	ops.size = sizeof(ops);
	choose<Live>(serialized, rx, [&]<class C>(C) {
		ops.recv = C::recv;
		ops.recvv = C::recvv;
		ops.recvmsg = C::recvmsg;
	});
	choose<Live>(serialized, tx, [&]<class C>(C) {
		ops.send = C::send;
		ops.sendv = C::sendv;
		ops.sendmsg = C::sendmsg;
		ops.inject = C::inject;
		ops.senddata = C::senddata;
		ops.injectdata = C::injectdata;
	});
}

} // namespace treadle::fi

#endif
