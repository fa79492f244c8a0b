// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* struct fid_ep: the calls of an endpoint and its aliases, besides data transfers. */
#include <algorithm>

#include "endpoint/endpoint.h"
#include "endpoint/xpu.h"
#include "base/later.h"
#include "connect/pep.h"
#include "transfer/transfer.h"

namespace treadle::fi
{

namespace
{

ssize_t cancel(fid_t f, void *context) noexcept
{
	return Port::of(f).endpoint().cancel(context);
}

/*
 * Options that are sizes of transfers: the capability needed, and the value. Returns false for
 * other options.
 */
bool get_size(const fi_info &info, int option, std::uint64_t &needed, std::size_t &answer) noexcept
{
	const std::size_t most = info.ep_attr->max_msg_size, inject = info.tx_attr->inject_size;
	const std::size_t most_atomic = std::min<std::size_t>(most, TREADLE_MAX_ATOMIC);
	const struct {
		int option;
		std::uint64_t cap;
		std::size_t size;
	} sizes[] = {
		{later::FI_OPT_MAX_MSG_SIZE, FI_MSG, most},
		{later::FI_OPT_MAX_TAGGED_SIZE, FI_TAGGED, most},
		{later::FI_OPT_MAX_RMA_SIZE, FI_RMA, most},
		{later::FI_OPT_MAX_ATOMIC_SIZE, FI_ATOMIC, most_atomic},
		{later::FI_OPT_INJECT_MSG_SIZE, FI_MSG, inject},
		{later::FI_OPT_INJECT_TAGGED_SIZE, FI_TAGGED, inject},
		{later::FI_OPT_INJECT_RMA_SIZE, FI_RMA, inject},
		{later::FI_OPT_INJECT_ATOMIC_SIZE, FI_ATOMIC, std::min(inject, most_atomic)},
	};
	const auto *found =
		std::ranges::find(sizes, option, &std::decay_t<decltype(*sizes)>::option);

	if (found == std::end(sizes))
		return false;
	needed = found->cap;
	answer = found->size;
	return true;
}

int get_option(fid_t f, int level, int option, void *value, std::size_t *size) noexcept
{
	const Endpoint &endpoint = Port::of(f).endpoint();
	const fi_info &info = endpoint.info();
	std::uint64_t needed;
	std::size_t answer;

	if (level != FI_OPT_ENDPOINT)
		return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL, "getopt: level %d", level);
	if (!value || !size)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "getopt: NULL");
	switch (option) {
	case FI_OPT_TX_SIZE:
		answer = info.tx_attr->size;
		break;
	case FI_OPT_RX_SIZE:
		answer = info.rx_attr->size;
		break;
	case FI_OPT_CM_DATA_SIZE:
		if (!Port::of(f).endpoint().connected())
			return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL,
				      "getopt: CM_DATA_SIZE: no FI_EP_MSG");
		answer = TREADLE_CM_DATA;
		break;
	case FI_OPT_MIN_MULTI_RECV:
		answer = Port::of(f).endpoint().min_multi_recv();
		break;
	case FI_OPT_FI_HMEM_P2P:
		if (*size < sizeof(int))
			return too_small(FI_LOG_EP_CTRL, "getopt", *size, sizeof(int));
		*size = sizeof(int);
		*static_cast<int *>(value) = Port::of(f).endpoint().hmem_p2p;
		return 0;
	case FI_OPT_XPU_TRIGGER:
		return xpu_variables(Port::of(f).endpoint(), value, size);
	default:
		if (!get_size(info, option, needed, answer))
			return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL, "getopt: option %d", option);
		if (needed & ~(endpoint.tx_caps() | endpoint.rx_caps()))
			return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL,
				      "getopt: option %d: the endpoint has no %s", option,
				      Text(needed, FI_TYPE_CAPS).c_str());
	}
	if (*size < sizeof(answer))
		return too_small(FI_LOG_EP_CTRL, "getopt", *size, sizeof(answer));
	*size = sizeof(answer);
	*static_cast<std::size_t *>(value) = answer;
	return 0;
}

/* Device memory is not supported at all, so transfers between devices never happen. */
int set_p2p(Endpoint &endpoint, const void *value, std::size_t size) noexcept
{
	if (size != sizeof(int))
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setopt: a value of %zu bytes", size);
	switch (*static_cast<const int *>(value)) {
	case FI_HMEM_P2P_ENABLED: /* "may be used" */
	case FI_HMEM_P2P_PREFERRED:
	case FI_HMEM_P2P_DISABLED:
		endpoint.hmem_p2p = *static_cast<const int *>(value);
		return 0;
	case FI_HMEM_P2P_REQUIRED:
		return REFUSE(-FI_EOPNOTSUPP, FI_LOG_EP_CTRL,
			      "setopt: HMEM_P2P: there is none to be required");
	default:
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setopt: HMEM_P2P: %d",
			      *static_cast<const int *>(value));
	}
}

int set_option(fid_t f, int level, int option, const void *value, std::size_t size) noexcept
{
	if (!value)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setopt: NULL");
	if (level == FI_OPT_ENDPOINT && option == FI_OPT_FI_HMEM_P2P)
		return set_p2p(Port::of(f).endpoint(), value, size);
	if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV)
		return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL,
			      "setopt: level %d, option %d: only FI_OPT_MIN_MULTI_RECV can be set",
			      level, option);
	if (size != sizeof(std::size_t))
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setopt: a value of %zu bytes", size);
	Port::of(f).endpoint().set_min_multi_recv(*static_cast<const std::size_t *>(value));
	return 0;
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

/* Do the flags name exactly one direction? */
bool is_one_direction(std::uint64_t flags) noexcept
{
	return !!(flags & FI_TRANSMIT) != !!(flags & FI_RECV);
}

/* needed: all of these capabilities are needed */
Calls calls_of(std::uint64_t caps, std::uint64_t needed, bool enabled, bool told,
	       bool special) noexcept
{
	if (needed & ~caps)
		return Calls::absent;
	if (!enabled)
		return Calls::disabled;
	if (!told)
		return Calls::untold;
	return special ? Calls::special : Calls::plain;
}

} // namespace

fi_ops_ep Port::ep_ops{
	.size = sizeof(fi_ops_ep),
	.cancel = cancel,
	.getopt = get_option,
	.setopt = set_option,
	.tx_ctx = opens<Endpoint::open_tx_context>,
	.rx_ctx = opens<Endpoint::open_rx_context>,
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
	.join = opens<Group::join>,
};

Port::Port(std::shared_ptr<Endpoint> endpoint, void *context)
	: Object(context), endpoint_(std::move(endpoint)),
	  tx_op_flags_(endpoint_->info().tx_attr->op_flags),
	  rx_op_flags_(endpoint_->info().rx_attr->op_flags),
	  unheard_(endpoint_->info().ep_attr->type == FI_EP_DGRAM ?
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
	const std::lock_guard guard(endpoint_->control_lock());

	if (primary_ && endpoint_->ports_.size() > 1)
		return REFUSE(-FI_EBUSY, subsys, "close: aliases are open");
	std::erase(endpoint_->ports_, this);
	/*
	 * An alias drops its reference under the lock: the primary port may close the endpoint from
	 * now on. The primary port still holds the endpoint now, and its lock with it.
	 */
	if (!primary_)
		endpoint_.reset();
	return 0;
}

void Port::update() noexcept
{
	const Endpoint &own = *endpoint_;
	const bool enabled = own.enabled();
	const bool serialized = own.serialized();
	const auto tx = [&](std::uint64_t needed) {
		return calls_of(own.tx_caps(), needed, enabled, true,
				tx_op_flags_ & FI_TRIGGER || own.shares_tx());
	};
	const auto rx = [&](std::uint64_t needed) {
		/* Receives in a shared context are posted there. */
		return calls_of(own.shares_rx() ? 0 : own.rx_caps(), needed, enabled,
				own.reports_rx(), rx_op_flags_ & (FI_TRIGGER | FI_MULTI_RECV));
	};

	if (enabled)
		attach();
	update_directed();
	tx_always_ = own.tx_selective() ? 0 : TREADLE_F_COMPLETION;
	tx_flags_ = tx_desc_flags(tx_op_flags_);
	rx_always_ = own.rx_selective() ? 0 : TREADLE_F_COMPLETION;
	rx_flags_ = rx_desc_flags(rx_op_flags_);
	inject_flags_ =
		TREADLE_F_INJECT | desc_flags_of(tx_op_flags_ & (FI_FENCE | FI_MATCH_COMPLETE));
	choose_calls(msg_ops_, serialized, tx(FI_MSG | FI_SEND), rx(FI_MSG | FI_RECV));
	choose_calls(tagged_ops_, serialized, tx(FI_TAGGED | FI_SEND), rx(FI_TAGGED | FI_RECV));
	choose_calls(rma_ops_, serialized, tx(FI_RMA | FI_READ), tx(FI_RMA | FI_WRITE));
	choose_calls(atomic_ops_, serialized, tx(FI_ATOMIC | FI_WRITE), tx(FI_ATOMIC | FI_READ),
		     own.tx_caps() & FI_ATOMIC);
	choose_calls(collective_ops_, calls_of(own.collective_caps(), FI_COLLECTIVE, enabled,
					       own.reports_tx(), false));
}

std::uint32_t Port::rx_desc_flags(std::uint64_t flags) const noexcept
{
	/*
	 * FI_MORE is ignored: putting off the doorbell of a receive gains nothing, as it hardly
	 * ever rings.
	 */
	return desc_flags_of(flags & (FI_COMPLETION | FI_MULTI_RECV | peek_flags)) | rx_always_;
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
	const std::uint64_t known = flags & FI_TRANSMIT ? fi::tx_op_flags & ~unheard_ : rx_op_flags;

	if (!is_one_direction(flags))
		return REFUSE(-FI_EINVAL, subsys, "operation flags: either FI_TRANSMIT or FI_RECV");
	if (op_flags & ~known)
		return REFUSE(-FI_EBADFLAGS, subsys, "operation flags: %s can't be a default",
			      Text(op_flags & ~known, FI_TYPE_OP_FLAGS).c_str());
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
