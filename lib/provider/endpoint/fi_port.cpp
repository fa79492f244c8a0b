// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* struct fid_ep: the calls of an endpoint and its aliases, besides data transfers. */
#include "endpoint/port.h"

#include "base/refuses.h"
#include "connect/pep.h"
#include "endpoint/options.h"
#include "endpoint/scalable_endpoint.h"

namespace treadle::fi
{

namespace
{

ssize_t cancel(fid_t f, void *context) noexcept
{
	return Port::of(f).endpoint().cancel(context);
}

ssize_t tx_size_left(fid_ep *ep) noexcept
{
	return Port::of(ep).endpoint().tx_room();
}
ssize_t rx_size_left(fid_ep *ep) noexcept
{
	return Port::of(ep).endpoint().rx_room();
}

int set_name(fid_t f, void *addr, std::size_t size) noexcept
{
	return guard([&] { return Port::of(f).endpoint().set_name(addr, size); });
}

int get_name(fid_t f, void *addr, std::size_t *size) noexcept
{
	if (!size)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "getname: NULL");
	return guard([&] { return Port::of(f).endpoint().get_name(addr, size); });
}

int get_peer(fid_ep *ep, void *addr, std::size_t *size) noexcept
{
	if (!size)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "getpeer: NULL");
	return guard([&] { return Port::of(ep).endpoint().get_peer(addr, size); });
}

int connect(fid_ep *ep, const void *addr, const void *param, std::size_t size) noexcept
{
	return guard([&] { return Port::of(ep).endpoint().connect(addr, cm_data(param, size)); });
}

int accept(fid_ep *ep, const void *param, std::size_t size) noexcept
{
	return guard([&] { return Port::of(ep).endpoint().accept(cm_data(param, size)); });
}

int shut_down(fid_ep *ep, std::uint64_t flags) noexcept
{
	return Port::of(ep).endpoint().shutdown(flags);
}

int join(fid_ep *ep, const void *addr, std::uint64_t flags, fid_mc **out, void *context) noexcept
{
	Port &port = Port::of(ep);

	return port.endpoint().groups().join(port, addr, flags, out, context);
}

/* Do the flags name exactly one direction? */
bool is_one_direction(std::uint64_t flags) noexcept
{
	return !!(flags & FI_TRANSMIT) != !!(flags & FI_RECV);
}

/* needed: all of these capabilities */
Calls calls_of(std::uint64_t caps, std::uint64_t needed, bool enabled, bool reported,
	       bool special) noexcept
{
	if (needed & ~caps)
		return Calls::absent;
	if (!enabled)
		return Calls::disabled;
	if (!reported)
		return Calls::unreported;
	return special ? Calls::special : Calls::plain;
}

} // namespace

fi_ops_ep Port::ep_ops{
	.size = sizeof(fi_ops_ep),
	.cancel = cancel,
	.getopt = get_option,
	.setopt = set_option,
	.tx_ctx = opens<open_tx_context>,
	.rx_ctx = opens<open_rx_context>,
	.rx_size_left = rx_size_left,
	.tx_size_left = tx_size_left,
};

fi_ops_cm Port::cm_ops{
	.size = sizeof(fi_ops_cm),
	.setname = set_name,
	.getname = get_name,
	.getpeer = get_peer,
	.connect = connect,
	.listen = not_opened_for,
	.accept = accept,
	.reject = not_opened_for,
	.shutdown = shut_down,
	.join = opens<join>,
};

Port::Port(std::shared_ptr<Endpoint> endpoint, void *context)
	: Object(context), endpoint_(std::move(endpoint)),
	  tx_op_flags_(endpoint_->info().tx_attr->op_flags),
	  rx_op_flags_(endpoint_->info().rx_attr->op_flags),
	  absent_levels_(endpoint_->info().ep_attr->type == FI_EP_DGRAM ?
				 FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE :
				 0),
	  shares_tx_(endpoint_->shares_tx()), primary_(endpoint_->ports_.empty())
{
	ops = &ep_ops;
	cm = &cm_ops;
	msg = &msg_ops_;
	tagged = &tagged_ops_;
	rma = &rma_ops_;
	atomic = &atomic_ops_;
	collective = &collective_ops_;
}

/* Removes the port first, so that it is not updated while it is being destroyed. */
int Port::prepare_close() noexcept
{
	{
		const std::lock_guard guard(endpoint_->control_lock());
		if (primary_ && endpoint_->ports_.size() > 1)
			return REFUSE(-FI_EBUSY, subsys, "close: aliases are open");
		std::erase(endpoint_->ports_, this);
		/*
		 * An alias drops its reference under the lock: the primary port may close the
		 * endpoint from now on. It still holds the endpoint now, and its lock with it.
		 */
		if (!primary_)
			endpoint_.reset();
	}
	if (primary_)
		endpoint_->close();
	return 0;
}

Calls Port::tx_calls(std::uint64_t needed) const noexcept
{
	return calls_of(endpoint_->tx_caps(), needed, endpoint_->enabled(), true,
			tx_op_flags_ & FI_TRIGGER || shares_tx_);
}

Calls Port::rx_calls(std::uint64_t needed) const noexcept
{
	/* Receives in a shared context are posted there. */
	return calls_of(endpoint_->shares_rx() ? 0 : endpoint_->rx_caps(), needed,
			endpoint_->enabled(), endpoint_->reports_rx(),
			rx_op_flags_ & (FI_TRIGGER | FI_MULTI_RECV));
}

void Port::update() noexcept
{
	const Endpoint &endpoint = *endpoint_;

	if (endpoint.enabled())
		attach();
	update_directed();
	tx_always_ = endpoint.tx_selective() ? 0 : TREADLE_F_COMPLETION;
	tx_flags_ = tx_desc_flags(tx_op_flags_);
	rx_always_ = endpoint.rx_selective() ? 0 : TREADLE_F_COMPLETION;
	rx_flags_ = rx_desc_flags(rx_op_flags_);
	inject_flags_ =
		TREADLE_F_INJECT | desc_flags_of(tx_op_flags_ & (FI_FENCE | FI_MATCH_COMPLETE));
	choose_transfers();
	endpoint.groups().choose_calls(collective_ops_,
				       calls_of(endpoint.collective_caps(), FI_COLLECTIVE,
						endpoint.enabled(), endpoint.reports_tx(), false));
}

int Port::control(int command, void *arg)
{
	const std::lock_guard guard(endpoint_->control_lock());

	switch (command) {
	case FI_ENABLE:
		return endpoint_->enable();
	case FI_GETOPSFLAG: {
		auto &flags = *static_cast<std::uint64_t *>(arg);
		if (!is_one_direction(flags))
			return REFUSE(-FI_EINVAL, subsys,
				      "GETOPSFLAG: either FI_TRANSMIT or FI_RECV");
		flags = flags & FI_TRANSMIT ? tx_op_flags_ : rx_op_flags_;
		return 0;
	}
	case FI_SETOPSFLAG: {
		const int rc = set_op_flags(*static_cast<std::uint64_t *>(arg));
		if (!rc)
			update();
		return rc;
	}
	case FI_ALIAS:
		if (!static_cast<struct fi_alias *>(arg)->fid)
			return REFUSE(-FI_EINVAL, subsys, "ALIAS: nowhere to put it");
		return make_alias(*static_cast<struct fi_alias *>(arg));
	default:
		return Object::control(command, arg);
	}
}

int Port::set_op_flags(std::uint64_t flags)
{
	const std::uint64_t op_flags = flags & ~(FI_TRANSMIT | FI_RECV);
	const std::uint64_t known =
		flags & FI_TRANSMIT ? fi::tx_op_flags & ~absent_levels_ : rx_op_flags;

	if (!is_one_direction(flags))
		return REFUSE(-FI_EINVAL, subsys, "operation flags: either FI_TRANSMIT or FI_RECV");
	if (op_flags & ~known)
		return REFUSE(-FI_EBADFLAGS, subsys, "operation flags: %s can't be a default",
			      Text(op_flags & ~known, FI_TYPE_OP_FLAGS).c_str());
	if (op_flags & FI_TRIGGER && !endpoint_->can_trigger())
		return REFUSE(-FI_EINVAL, subsys,
			      "operation flags: the endpoint was opened without FI_TRIGGER");
	(flags & FI_TRANSMIT ? tx_op_flags_ : rx_op_flags_) = op_flags;
	return 0;
}

int Port::make_alias(const struct fi_alias &alias)
{
	Port *port = Endpoint::make_port(endpoint_, fid.context);

	port->fid.fclass = fid.fclass;
	port->tx_op_flags_ = tx_op_flags_;
	port->rx_op_flags_ = rx_op_flags_;
	const int rc = port->set_op_flags(alias.flags);
	if (rc) {
		port->prepare_close();
		delete port;
		return rc;
	}
	port->update();
	*alias.fid = &port->fid;
	return 0;
}

} // namespace treadle::fi
