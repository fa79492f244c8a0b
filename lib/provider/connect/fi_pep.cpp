// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "connect/pep.h"

#include <cstring>

#include "base/refuses.h"
#include "info/address.h"

namespace treadle::fi
{

namespace
{

constexpr int max_backlog = 65536; /* LISTEN, in treadle/ioctl.h */

std::span<const std::byte> key_of(const fi_info &info, std::uint32_t api) noexcept
{
	if (FI_VERSION_LT(api, FI_VERSION(1, 5)))
		return {};
	if (info.ep_attr->auth_key && info.ep_attr->auth_key_size)
		return std::as_bytes(
			std::span(info.ep_attr->auth_key, info.ep_attr->auth_key_size));
	if (info.domain_attr && info.domain_attr->auth_key && info.domain_attr->auth_key_size)
		return std::as_bytes(
			std::span(info.domain_attr->auth_key, info.domain_attr->auth_key_size));
	return {};
}

int get_passive_option(fid_t, int level, int option, void *value, std::size_t *size) noexcept
{
	const std::size_t answer = TREADLE_CM_DATA;

	if (level != FI_OPT_ENDPOINT || option != FI_OPT_CM_DATA_SIZE)
		return REFUSE(-FI_ENOPROTOOPT, Pep::subsys, "getopt: level %d, option %d", level,
			      option);
	if (!value || !size)
		return REFUSE(-FI_EINVAL, Pep::subsys, "getopt: NULL");
	if (*size < sizeof(answer))
		return too_small(Pep::subsys, "getopt", *size, sizeof(answer));
	*size = sizeof(answer);
	std::memcpy(value, &answer, sizeof(answer));
	return 0;
}

} // namespace

std::span<const std::byte> cm_data(const void *param, std::size_t size) noexcept
{
	return {static_cast<const std::byte *>(param),
		param ? std::min<std::size_t>(size, TREADLE_CM_DATA) : 0};
}

fi_ops_cm Pep::cm_ops{
	.size = sizeof(fi_ops_cm),
	.setname = set_name,
	.getname = get_name,
	.getpeer = not_opened_for,
	.connect = not_opened_for,
	.listen = listen,
	.accept = not_opened_for,
	.reject = reject,
	.shutdown = not_opened_for,
	.join = not_opened_for,
};

fi_ops_ep Pep::ep_ops{
	.size = sizeof(fi_ops_ep),
	.cancel = not_opened_for,
	.getopt = get_passive_option,
	.setopt = not_opened_for,
	.tx_ctx = not_opened_for,
	.rx_ctx = not_opened_for,
	.rx_size_left = not_opened_for,
	.tx_size_left = not_opened_for,
};

Pep::Pep(Fabric &fabric, const Context &context, InfoPtr info, PassiveEndpoint kernel,
	 void *user_context)
	: Object(user_context), fabric_(fabric), fabric_use_(fabric.users), context_(context),
	  info_(std::move(info)), kernel_(std::move(kernel))
{
	fabric_.requests.insert(*this, fid);
	ops = &ep_ops;
	cm = &cm_ops;
}

Pep::~Pep()
{
	/* First, so that reading its events adds no further request. */
	std::ignore = kernel_.close();
	source_ = {};
	fabric_.requests.forget_all(*this, true);
}

int Pep::open(fid_fabric *f, fi_info *info, fid_pep **out, void *context) noexcept
{
	Fabric &fabric = Fabric::of(f);
	const auto kernel = fabric.kernel();

	if (!kernel)
		return REFUSE(negative(kernel.error()), subsys, "open: %s", TREADLE_DEVICE);
	return guard([&] {
		InfoPtr agreed;
		const int rc = negotiate((*kernel)->limits(), info, fabric.api_version,
					 "fi_passive_ep", agreed);
		if (rc)
			return rc;
		if (info->ep_attr->type != FI_EP_MSG)
			return REFUSE(-FI_EINVAL, subsys, "open: ep_attr->type is not FI_EP_MSG");
		const auto source = source_of(*info);
		if (!source)
			return REFUSE(-FI_EINVAL, subsys,
				      "open: src_addr has not the format addr_format");
		auto pep = PassiveEndpoint::create(**kernel, *source,
						   key_of(*info, fabric.api_version));
		if (!pep)
			return REFUSE(fabric_error(negative(pep.error())), subsys, "open at %s",
				      to_string(*source).c_str());
		agreed->addr_format = format_of(source->family, info->addr_format);
		*out = new Pep(fabric, **kernel, std::move(agreed), std::move(*pep), context);
		return 0;
	});
}

int Pep::bind(::fid *other, std::uint64_t flags)
{
	return bind_eq(other, flags, subsys, eq_, eq_use_);
}

int Pep::control(int command, void *arg)
{
	if (command != FI_BACKLOG)
		return Object::control(command, arg);
	const int backlog = *static_cast<const int *>(arg);
	if (backlog <= 0)
		return REFUSE(-FI_EINVAL, subsys, "FI_BACKLOG: %d", backlog);
	const std::lock_guard guard(lock_);
	backlog_ = std::min(backlog, max_backlog);
	return listening_ ? negative(kernel_.listen(static_cast<std::uint32_t>(backlog_))) : 0;
}

int Pep::listen()
{
	const std::lock_guard guard(lock_);

	if (!eq_)
		return REFUSE(-FI_ENOEQ, subsys, "listen: no event queue is bound");
	int rc = 0;
	if (!source_) {
		Eq::Source source(*eq_, fid, [this](const auto &e) { return make_info(e); });
		rc = source.bind(kernel_);
		if (!rc)
			source_ = std::move(source);
	}
	if (!rc)
		rc = negative(kernel_.listen(static_cast<std::uint32_t>(backlog_)));
	if (rc)
		return REFUSE(fabric_error(rc), subsys, "listen");
	listening_ = true;
	return 0;
}

int Pep::set_name(const void *addr, std::size_t size)
{
	const auto address = decode(info_->addr_format, addr, size);
	const std::lock_guard guard(lock_);

	if (source_)
		return REFUSE(-FI_EOPBADSTATE, subsys, "setname: the endpoint listens");
	if (!address)
		return REFUSE(-FI_EINVAL, subsys, "setname: not an address of its format");
	return rename(kernel_, *address, [this](const Address &to) {
		return PassiveEndpoint::create(context_, to, key_of(*info_, fabric_.api_version));
	});
}

int Pep::get_name(void *addr, std::size_t *size)
{
	const std::lock_guard guard(lock_);
	const std::size_t room = *size;

	return copy_out(encode(info_->addr_format, kernel_.address()), addr, size) ?
		       0 :
		       too_small(subsys, "getname", room, *size);
}

/* fi_eq(3), FI_CONNREQ: the fi_info for the endpoint that answers the request. */
InfoPtr Pep::make_info(const treadle_event &event)
{
	InfoPtr info(dup_info(info_.get()));

	if (!info ||
	    !set_address(info->addr_format, kernel_.address(), info->src_addr, info->src_addrlen) ||
	    !set_address(info->addr_format, event.addr, info->dest_addr, info->dest_addrlen))
		throw std::bad_alloc();
	info->handle = fabric_.requests.insert(Handle{this, request_of(event), event.addr});
	return info;
}

Result<treadle::Endpoint> Pep::give_address(const Take &take)
{
	const std::lock_guard guard(lock_);
	const Address address = kernel_.address();

	std::ignore = kernel_.close();
	/* Closing has refused all requests. */
	source_ = {};
	listening_ = false;
	fabric_.requests.forget_all(*this, false);
	auto taken = take(address);
	if (taken) {
		eq_ = nullptr;
		eq_use_ = {};
	} else if (auto again = PassiveEndpoint::create(context_, address,
							key_of(*info_, fabric_.api_version))) {
		kernel_ = std::move(*again);
	}
	return taken;
}

int Pep::listen(fid_pep *f) noexcept
{
	return guard([&] { return of(f).listen(); });
}

int Pep::reject(fid_pep *f, fid_t handle, const void *param, std::size_t size) noexcept
{
	Pep &pep = of(f);
	const auto request = pep.fabric_.requests.find(handle);

	if (!request || request->pep != &pep || request->request == RequestId{})
		return REFUSE(-FI_EINVAL, subsys,
			      "reject: not a request to this endpoint that is unanswered");
	const int rc = negative(pep.kernel_.reject(request->request, cm_data(param, size)));
	if (!rc || rc == -ENOENT) /* otherwise it is still unanswered */
		pep.fabric_.requests.forget(handle, request->request);
	return rc ? REFUSE(fabric_error(rc), subsys, "reject") : 0;
}

int Pep::set_name(fid_t f, void *addr, std::size_t size) noexcept
{
	return guard([&] { return of(f).set_name(addr, size); });
}

int Pep::get_name(fid_t f, void *addr, std::size_t *size) noexcept
{
	if (!size)
		return REFUSE(-FI_EINVAL, subsys, "getname: NULL");
	return guard([&] { return of(f).get_name(addr, size); });
}

} // namespace treadle::fi
