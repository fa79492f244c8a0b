// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_getinfo(3), fi_domain(3): which open fabric and domain an answer names, and an answer for one that is named. */
#include "node.h"

#include <utility>

namespace
{

#define SET(statement) [](fi_info &hints) { statement; }

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

/* What an open domain is like can't be changed any more. */
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
		hints.domain_attr->threading = FI_THREAD_FID;
		hints.domain_attr->mr_mode = FI_MR_PROV_KEY;
		hints.addr_format = FI_ADDR_STR;
	};
	const std::pair<const char *, void (*)(fi_info &)> others[] = {
		{"threading", SET(hints.domain_attr->threading = FI_THREAD_SAFE)},
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

} // namespace
