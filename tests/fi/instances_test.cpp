// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_getinfo(3), fi_domain(3): the open fabric and domain that an answer names, and answers for
 * named ones.
 */
#include "node.h"

#include <cstring>
#include <utility>

namespace
{

void set_key(fi_info &hints, const char *key)
{
	hints.domain_attr->auth_key_size = std::strlen(key);
	hints.domain_attr->auth_key = reinterpret_cast<std::uint8_t *>(strdup(key));
}

#define SET(statement) [](fi_info &hints) { statement; }

// conformance: fi_domain(3): domain: an opened instance restricts the output; the first opened one
//   that agrees with the answer is returned, and decides what hints that name it leave open
TEST(Instances, OpenInstancesAreNamed)
{
	const Info before = get_info(no_hints().get());
	ASSERT_TRUE(before);
	EXPECT_EQ(before->fabric_attr->fabric, nullptr);
	EXPECT_EQ(before->domain_attr->domain, nullptr);

	Node node;
	const Info info = get_info(no_hints().get());
	ASSERT_TRUE(info);
	EXPECT_EQ(info->fabric_attr->fabric, node.fabric.get());
	EXPECT_EQ(info->domain_attr->domain, node.domain.get());

	Node other;
	Info hints = no_hints();
	hints->domain_attr->domain = other.domain.get();
	const Info restricted = get_info(hints.get());
	ASSERT_TRUE(restricted);
	EXPECT_EQ(restricted->domain_attr->domain, other.domain.get());
	EXPECT_EQ(restricted->fabric_attr->fabric, other.fabric.get());
	hints->fabric_attr->fabric = node.fabric.get();
	EXPECT_FALSE(get_info(hints.get())) << "it is of the other";
	hints->domain_attr->domain = reinterpret_cast<fid_domain *>(node.fabric.get());
	EXPECT_FALSE(get_info(hints.get()));
	hints->domain_attr->domain = nullptr;
	hints->fabric_attr->fabric = other.fabric.get();
	const Info there = get_info(hints.get());
	ASSERT_TRUE(there);
	EXPECT_EQ(there->domain_attr->domain, other.domain.get());
	hints->fabric_attr->fabric = nullptr;
}

/* Attributes of an open domain can't change any more. */
// conformance: fi_domain(3): domain: an opened instance restricts the output; the first opened ...
TEST(Instances, OfOpenDomainsOnlyThoseThatAgreeAreNamed)
{
	Info hints = hints_for(FI_MSG | FI_RMA);
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
	hints->addr_format = FI_ADDR_STR;
	Node node(std::move(hints));
	const auto ask = [](auto change) {
		Info hints = hints_for(FI_MSG | FI_RMA);
		change(*hints);
		return get_info(hints.get());
	};
	const auto same = [](fi_info &hints) {
		hints.domain_attr->threading = FI_THREAD_DOMAIN;
		hints.domain_attr->mr_mode = FI_MR_PROV_KEY;
		hints.addr_format = FI_ADDR_STR;
	};
	const std::pair<const char *, void (*)(fi_info &)> others[] = {
		{"threading", SET(hints.domain_attr->threading = FI_THREAD_SAFE)},
		{"threading of less", SET(hints.domain_attr->threading = FI_THREAD_FID)},
		{"identifiers", SET(hints.caps |= FI_SOURCE | FI_AV_USER_ID)},
		{"the domain's identifiers", SET(hints.domain_attr->caps = FI_AV_USER_ID)},
		{"auth_key", SET(set_key(hints, "key"))},
		{"av_type", SET(hints.domain_attr->av_type = FI_AV_MAP)},
		{"mr_mode", SET(hints.domain_attr->mr_mode = FI_MR_SCALABLE)},
		{"addr_format", SET(hints.addr_format = FI_SOCKADDR)},
	};

	const Info agrees = ask(same);
	ASSERT_TRUE(agrees);
	EXPECT_EQ(agrees->domain_attr->domain, node.domain.get());
	const Info restricted =
		ask([&](fi_info &hints) { hints.domain_attr->domain = node.domain.get(); });
	ASSERT_TRUE(restricted);
	EXPECT_EQ(restricted->domain_attr->domain, node.domain.get());
	EXPECT_EQ(restricted->domain_attr->threading, FI_THREAD_DOMAIN);
	EXPECT_EQ(restricted->domain_attr->av_type, FI_AV_TABLE);
	EXPECT_EQ(restricted->domain_attr->mr_mode, FI_MR_PROV_KEY);
	EXPECT_EQ(restricted->addr_format, std::uint32_t{FI_ADDR_STR});
	for (const auto &[name, differ] : others) {
		Log log;
		const Info other = ask([&](fi_info &hints) { same(hints), differ(hints); });
		ASSERT_TRUE(other) << name;
		EXPECT_EQ(other->domain_attr->domain, nullptr) << name;
		EXPECT_EQ(other->fabric_attr->fabric, node.fabric.get()) << name;
		EXPECT_FALSE(ask([&](fi_info &hints) {
			differ(hints);
			hints.domain_attr->domain = node.domain.get();
		})) << name;
		EXPECT_TRUE(log.has("was opened with another")) << name << ": " << log.all();
	}
}

// conformance: fi_domain(3): domain: an opened instance restricts the output; the first opened ...
TEST(Instances, AgreeingInstancesAreNamed)
{
	Info hints = hints_for(FI_MSG | FI_SOURCE | FI_AV_USER_ID);
	hints->domain_attr->threading = FI_THREAD_FID;
	set_key(*hints, "key");
	Node node(std::move(hints));
	for (const fi_threading level :
	     {FI_THREAD_FID, FI_THREAD_ENDPOINT, FI_THREAD_COMPLETION, FI_THREAD_DOMAIN}) {
		Info again = hints_for(FI_MSG | FI_SOURCE | FI_AV_USER_ID);
		again->domain_attr->threading = level;
		set_key(*again, "key");
		const Info info = get_info(again.get());
		ASSERT_TRUE(info);
		EXPECT_EQ(info->domain_attr->domain, node.domain.get()) << level;
	}
	Info other = hints_for(FI_MSG);
	other->domain_attr->threading = FI_THREAD_FID;
	set_key(*other, "kez");
	EXPECT_EQ(get_info(other.get())->domain_attr->domain, nullptr);
}

// conformance: fi_domain(3): domain: an opened instance restricts the output; the first opened ...
TEST(Instances, AnAnswerHasTheKeyAndTheProgressOfItsDomain)
{
	Info hints = hints_for(FI_MSG);
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	set_key(*hints, "key");
	Node node(std::move(hints));

	EXPECT_EQ(get_info(hints_for(FI_MSG).get())->domain_attr->domain, nullptr);
	Info named = hints_for(FI_MSG);
	named->domain_attr->domain = node.domain.get();
	Info info = get_info(named.get());
	ASSERT_TRUE(info);
	ASSERT_EQ(info->domain_attr->auth_key_size, 3u);
	EXPECT_EQ(std::memcmp(info->domain_attr->auth_key, "key", 3), 0);
	EXPECT_EQ(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	EXPECT_FALSE(info->caps & FI_TRIGGER);
	named->tx_attr->op_flags = FI_TRIGGER;
	info = get_info(named.get());
	ASSERT_TRUE(info);
	EXPECT_TRUE(info->caps & FI_TRIGGER);
	named->tx_attr->op_flags = 0;
	named->domain_attr->data_progress = FI_PROGRESS_AUTO;
	EXPECT_FALSE(get_info(named.get()));
	named->domain_attr->data_progress = FI_PROGRESS_UNSPEC;
	named->caps |= FI_TRIGGER;
	info = get_info(named.get());
	ASSERT_TRUE(info);
	EXPECT_TRUE(info->caps & FI_TRIGGER);
}

/* Before 1.5 there are two modes, and 0 means any. */
// conformance: fi_domain(3): mr_mode: FI_MR_UNSPEC, BASIC, SCALABLE (1.4 and earlier)
TEST(Instances, TheModeOfAnOldProgramsDomainIsOneThatItKnows)
{
	constexpr std::uint32_t old = FI_VERSION(1, 4);

	for (const int mode : {FI_MR_BASIC, FI_MR_SCALABLE}) {
		Info hints = hints_for(FI_MSG | FI_RMA);
		hints->domain_attr->mr_mode = mode;
		Node node(std::move(hints), old);
		Info open = hints_for(FI_MSG | FI_RMA);
		open->domain_attr->mr_mode = 0;
		open->domain_attr->domain = node.domain.get();
		Info info = get_info(open.get(), nullptr, old);
		ASSERT_TRUE(info) << mode;
		EXPECT_EQ(info->domain_attr->mr_mode, mode);
		fid_ep *ep = nullptr;
		ASSERT_EQ(fi_endpoint(node.domain.get(), info.get(), &ep, nullptr), 0) << mode;
		EXPECT_EQ(fi_close(&ep->fid), 0);
		open->domain_attr->domain = nullptr;
	}
}

/* Unless the hints name a format, their addresses have the domain's format. */
// conformance: fi_domain(3): domain: an opened instance restricts the output; the first opened ...
TEST(Instances, AddressesAreInTheFormatOfTheDomain)
{
	Info hints = hints_for(FI_MSG);
	hints->addr_format = FI_ADDR_STR;
	Node node(std::move(hints));
	Info named = hints_for(FI_MSG);
	named->domain_attr->domain = node.domain.get();
	named->addr_format = FI_FORMAT_UNSPEC;
	named->src_addr = strdup("fi_sockaddr_in://127.0.0.1:7471");
	named->src_addrlen = std::strlen(static_cast<char *>(named->src_addr)) + 1;
	const Info info = get_info(named.get());
	ASSERT_TRUE(info);
	EXPECT_STREQ(static_cast<char *>(info->src_addr), "fi_sockaddr_in://127.0.0.1:7471");
}

} // namespace
