// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "domain/domain.h"

#include <algorithm>
#include <span>

#include "info/address.h"
#include "info/negotiate.h"
#include "info/offer.h"

namespace treadle::fi
{

namespace
{

/* Capabilities of info and of its domain, which the structure has from 1.5 on. */
std::uint64_t wanted_caps(const fi_info &info, std::uint32_t api) noexcept
{
	return info.caps | (FI_VERSION_GE(api, FI_VERSION(1, 5)) ? info.domain_attr->caps : 0);
}

/* Expands FI_MR_BASIC to its single bits. */
int mr_bits(int mode) noexcept
{
	constexpr int basic = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;

	return mode == FI_MR_BASIC ? basic : mode & basic;
}

} // namespace

Domain::Domain(Fabric &fabric, Context kernel, const fi_info &info, void *context)
	: Object(context), fabric_(fabric), fabric_use_(fabric.users), kernel_(std::move(kernel)),
	  addr_format_(format_of(info.addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET,
				 info.addr_format)),
	  threading_(info.domain_attr->threading ? info.domain_attr->threading : FI_THREAD_SAFE),
	  av_type_(info.domain_attr->av_type), mr_mode_(mr_bits(info.domain_attr->mr_mode)),
	  user_ids_(wanted_caps(info, api()) & FI_AV_USER_ID),
	  directed_(info.caps & FI_DIRECTED_RECV), xpu_(info.caps & FI_XPU_TRIGGER),
	  manual_(info.domain_attr->data_progress == FI_PROGRESS_MANUAL),
	  serialized_(threading_ != FI_THREAD_SAFE)
{
	const fi_domain_attr &attr = *info.domain_attr;

	/* older structures may end before this field */
	if (FI_VERSION_GE(api(), FI_VERSION(1, 5)) && attr.auth_key) {
		const auto *key = reinterpret_cast<const std::byte *>(attr.auth_key);
		auth_key_.assign(key, key + attr.auth_key_size);
	}
	ops = &domain_ops;
	mr = mr_ops;
	Fabric::register_domain(this);
}

int Domain::open(fid_fabric *fabric, fi_info *info, fid_domain **out, void *context) noexcept
{
	if (!info || !info->domain_attr)
		return REFUSE(-FI_EINVAL, subsys, "open: needs a fi_info with a domain_attr");
	const bool one = info->domain_attr->threading == FI_THREAD_DOMAIN;
	auto kernel = Context::open(TREADLE_DEVICE, one ? Threads::one_at_a_time : Threads::any);
	if (!kernel)
		return REFUSE(negative(kernel.error()), subsys, "%s", TREADLE_DEVICE);
	const InfoPtr all = offer(kernel->limits(), FI_EP_RDM);
	if (!all)
		return -FI_ENOMEM;
	return guard([&] {
		Fabric &on = Fabric::of(fabric);
		fi_info asked{}; /* only domain attributes: those of endpoints don't matter here */
		asked.domain_attr = info->domain_attr;
		asked.addr_format = info->addr_format;
		allow_others(*all);
		if (!agrees(*all, asked, on.api_version, "fi_domain", FI_LOG_WARN))
			return -FI_EINVAL;
		*out = new Domain(on, std::move(*kernel), *info, context);
		return 0;
	});
}

bool Domain::suits(const fi_info &answer) const noexcept
{
	const fi_domain_attr &attr = *answer.domain_attr;
	const auto key = std::as_bytes(std::span(attr.auth_key, attr.auth_key_size));

	/*
	 * Levels between FI_THREAD_SAFE and FI_THREAD_DOMAIN mean the same here: one thread at a
	 * time for each object.
	 */
	return (!serialized() || attr.threading != FI_THREAD_SAFE) &&
	       (!serialized(true) || attr.threading == FI_THREAD_DOMAIN) &&
	       (!((answer.caps | attr.caps) & FI_AV_USER_ID) || user_ids_) &&
	       std::ranges::equal(key, auth_key_) &&
	       (attr.data_progress == FI_PROGRESS_MANUAL || !manual_) &&
	       (!attr.av_type || !av_type_ || attr.av_type == av_type_) &&
	       mr_bits(attr.mr_mode) == mr_mode_ && answer.addr_format == addr_format_;
}

} // namespace treadle::fi
