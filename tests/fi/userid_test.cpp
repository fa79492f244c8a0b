// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_av(3), "User identifiers for addresses", as in libfabric 1.17 and 2.x; FI_AV_AUTH_KEY */
#include "later.h"
#include "node.h"

#include <rdma/fi_rma.h>

namespace
{

struct Named {
	explicit Named(std::uint64_t more = 0, std::uint64_t av_flags = 0)
		: Named(hints_for(FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE | FI_AV_USER_ID | more),
			av_flags)
	{
	}
	explicit Named(Info hints, std::uint64_t av_flags = 0)
		: node(std::move(hints)), sender(node),
		  receiver(node, Side::Options{.av_flags = av_flags})
	{
	}
	fi_addr_t insert(fi_addr_t id)
	{
		EXPECT_EQ(fi_av_insert(receiver.av.get(), address_of(sender.ep.get()).data(), 1,
				       &id, FI_AV_USER_ID, nullptr),
			  1);
		return id;
	}
	Node node;
	Side sender, receiver;
};

// conformance: fi_av(3): FI_AV_USER_ID: a completion reports the identifier in place of the address
TEST(UserId, ACompletionReportsItInPlaceOfTheAddress)
{
	Named n;
	const fi_addr_t id = 0xfeedfacecafebeef, at = n.insert(id);
	const fi_addr_t to = n.sender.insert(n.receiver.ep.get());
	char buf[8];
	fi_addr_t src = 0;

	/* "the output from the AV insertion call is unchanged", and is what transfers take */
	EXPECT_EQ(at, 0u);
	ASSERT_EQ(fi_trecv(n.receiver.ep.get(), buf, 8, nullptr, at, 5, 0, nullptr), 0);
	ASSERT_EQ(fi_tsend(n.sender.ep.get(), "hello", 6, nullptr, to, 5, nullptr), 0);
	next(n.receiver.rx_cq.get(), &src);
	EXPECT_EQ(src, id);
	ASSERT_EQ(fi_recv(n.sender.ep.get(), buf, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_send(n.receiver.ep.get(), "hello", 6, nullptr, at, nullptr), 0);
	next(n.sender.rx_cq.get(), &src);
	EXPECT_EQ(src, to); /* it was inserted there without an identifier */

	fid_mr *mr = nullptr;
	ASSERT_EQ(fi_mr_reg(n.node.domain.get(), buf, 8, FI_REMOTE_WRITE, 0, 1, 0, &mr, nullptr),
		  0);
	ASSERT_EQ(fi_writedata(n.sender.ep.get(), "12345678", 8, nullptr, 3, to, 0, fi_mr_key(mr),
			       nullptr),
		  0);
	next(n.receiver.rx_cq.get(), &src);
	EXPECT_EQ(src, id);
	EXPECT_EQ(fi_close(&mr->fid), 0);
}

// conformance: fi_av(3): FI_AV_USER_ID may be unavailable if shared AVs are requested:
//   -FI_EBADFLAGS
TEST(UserId, NeedsTheCapability)
{
	Named without(hints_for(FI_MSG | FI_TAGGED | FI_SOURCE));
	Node any;
	fi_addr_t id = 5;
	const auto address = address_of(without.sender.ep.get());

	EXPECT_FALSE(any.info->caps & FI_AV_USER_ID);
	EXPECT_FALSE(without.node.info->caps & FI_AV_USER_ID);
	EXPECT_EQ(fi_av_insert(without.receiver.av.get(), address.data(), 1, &id, FI_AV_USER_ID,
			       nullptr),
		  -FI_EBADFLAGS);
	Named with;
	EXPECT_TRUE(with.node.info->caps & FI_AV_USER_ID);
	EXPECT_EQ(fi_av_insert(with.receiver.av.get(), address.data(), 1, nullptr, FI_AV_USER_ID,
			       nullptr),
		  -FI_EINVAL);
	/* "may be unavailable if shared AVs are requested" */
	fi_av_attr attr{};
	const std::string name = "treadle-user-id";
	fid_av *shared = nullptr;
	attr.name = name.c_str();
	ASSERT_EQ(fi_av_open(with.node.domain.get(), &attr, &shared, nullptr), 0);
	EXPECT_EQ(fi_av_insert(shared, address.data(), 1, &id, FI_AV_USER_ID, nullptr),
		  -FI_EBADFLAGS);
	EXPECT_EQ(fi_close(&shared->fid), 0);
}

/* It is an ordinary value; FI_SOURCE_ERR is for a sender that is not in the vector. */
// conformance: fi_av(3): FI_AV_USER_ID: a completion reports the identifier in place of the address
TEST(UserId, NotAvailableIsNoError)
{
	Named n(FI_SOURCE_ERR);
	const fi_addr_t to = n.sender.insert(n.receiver.ep.get());
	char buf[8];
	fi_addr_t src = 0;

	EXPECT_EQ(n.insert(FI_ADDR_NOTAVAIL), 0u);
	ASSERT_EQ(fi_recv(n.receiver.ep.get(), buf, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(n.sender.ep.get(), "hello", 6, to), 0);
	next(n.receiver.rx_cq.get(), &src);
	EXPECT_EQ(src, FI_ADDR_NOTAVAIL);
}

/* --- libfabric 2.x: fi_av_set_user_id, FI_AV_AUTH_KEY --------------------------------------- */

constexpr std::uint64_t with_auth_key = 1ULL << 57; /* FI_AUTH_KEY */

const LaterAvOps &later(const Owned<fid_av> &av)
{
	EXPECT_GE(av->ops->size, sizeof(LaterAvOps));
	return static_cast<const LaterAvOps &>(*av->ops);
}

int set_user_id(const Owned<fid_av> &av, fi_addr_t index, fi_addr_t id, std::uint64_t flags = 0)
{
	return later(av).set_user_id(av.get(), index, id, flags);
}

// conformance: fi_av(3): FI_AV_USER_ID of fi_av_open (2.x): FI_ADDR_NOTAVAIL until
//   fi_av_set_user_id; no error of FI_SOURCE_ERR
TEST(SetUserId, UntilThenThereIsNone)
{
	Named n(FI_SOURCE_ERR, FI_AV_USER_ID);
	Side outsider(n.node);
	const fi_addr_t id = 0xfeedfacecafebeef;
	const fi_addr_t to = n.sender.insert(n.receiver.ep.get());
	const fi_addr_t at = n.receiver.insert(n.sender.ep.get());
	char buf[8];
	const auto source = [&] {
		fi_addr_t src = 0;

		EXPECT_EQ(fi_recv(n.receiver.ep.get(), buf, 8, nullptr, FI_ADDR_UNSPEC, nullptr),
			  0);
		EXPECT_EQ(fi_inject(n.sender.ep.get(), "hello", 6, to), 0);
		next(n.receiver.rx_cq.get(), &src);
		return src;
	};

	EXPECT_TRUE(n.node.info->domain_attr->caps & FI_AV_USER_ID);
	EXPECT_EQ(at, 0u);
	EXPECT_EQ(source(), FI_ADDR_NOTAVAIL);
	EXPECT_EQ(set_user_id(n.receiver.av, at, id), 0);
	EXPECT_EQ(source(), id);
	EXPECT_EQ(set_user_id(n.receiver.av, at, 7), 0);
	EXPECT_EQ(source(), 7u);
	EXPECT_EQ(set_user_id(n.receiver.av, at, FI_ADDR_NOTAVAIL), 0);
	EXPECT_EQ(source(), FI_ADDR_NOTAVAIL);

	/* The vector does not hold this sender. */
	ASSERT_EQ(fi_recv(n.receiver.ep.get(), buf, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(outsider.ep.get(), "hello", 6, outsider.insert(n.receiver.ep.get())),
		  0);
	EXPECT_EQ(next_error(n.receiver.rx_cq.get()).err, FI_EADDRNOTAVAIL);

	/* Transfers use the index, and a reused index has no identifier. */
	EXPECT_EQ(set_user_id(n.receiver.av, at, id), 0);
	ASSERT_EQ(fi_recv(n.sender.ep.get(), buf, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(n.receiver.ep.get(), "hello", 6, at), 0);
	next(n.sender.rx_cq.get());
	fi_addr_t gone = at;
	EXPECT_EQ(fi_av_remove(n.receiver.av.get(), &gone, 1, 0), 0);
	EXPECT_EQ(n.receiver.insert(n.sender.ep.get()), at);
	EXPECT_EQ(source(), FI_ADDR_NOTAVAIL);
}

// conformance: fi_av(3): FI_AV_USER_ID of fi_av_open needs the capability, in the fi_info at ...
// conformance: fi_av(3): FI_AV_USER_ID may be unavailable if shared AVs are requested: ...
TEST(SetUserId, BadCallsAreRefused)
{
	Named n(0, FI_AV_USER_ID);
	const auto address = address_of(n.sender.ep.get());
	fi_addr_t id = 5, at = n.receiver.insert(address);
	const Node without(hints_for(FI_MSG | FI_SOURCE));
	fi_av_attr attr{};
	fid_av *av = nullptr;
	Log log;

	/* "Using the FI_AV_USER_ID flag per insert is invalid if the AV was opened with" it */
	EXPECT_EQ(fi_av_insert(n.receiver.av.get(), address.data(), 1, &id, FI_AV_USER_ID, nullptr),
		  -FI_EBADFLAGS);
	EXPECT_EQ(set_user_id(n.receiver.av, at + 1, id), -FI_EINVAL);
	EXPECT_EQ(set_user_id(n.receiver.av, FI_ADDR_UNSPEC, id), -FI_EINVAL);
	EXPECT_EQ(set_user_id(n.receiver.av, at, id, with_auth_key), -FI_EBADFLAGS);
	EXPECT_EQ(set_user_id(n.sender.av, 0, id), -FI_EINVAL);
	EXPECT_TRUE(log.has("opened without FI_AV_USER_ID")) << log.all();
	/* "may be unavailable if shared AVs are requested" */
	attr.flags = FI_AV_USER_ID;
	attr.name = "treadle-set-user-id";
	EXPECT_EQ(fi_av_open(n.node.domain.get(), &attr, &av, nullptr), -FI_EBADFLAGS);
	/*
	 * "If this domain capability is not set, address vectors cannot be opened" with the flag.
	 */
	EXPECT_FALSE(without.info->domain_attr->caps & FI_AV_USER_ID);
	attr.name = nullptr;
	EXPECT_EQ(fi_av_open(without.domain.get(), &attr, &av, nullptr), -FI_EBADFLAGS);
	EXPECT_TRUE(log.has("needs that capability of the domain")) << log.all();
}

/* The capability of the domain is enough. */
// conformance: fi_av(3): FI_AV_USER_ID of fi_av_open needs the capability, in the fi_info at least:
//   else -FI_EBADFLAGS; insertions with the flag are refused then
TEST(SetUserId, IsACapabilityOfTheDomain)
{
	Info hints = hints_for(FI_MSG | FI_SOURCE);

	hints->domain_attr->caps = FI_AV_USER_ID;
	const Node node(std::move(hints));
	EXPECT_TRUE(node.info->domain_attr->caps & FI_AV_USER_ID);
	EXPECT_FALSE(node.info->caps & FI_AV_USER_ID);
	EXPECT_TRUE(node.av(FI_AV_USER_ID));
}

TEST(AvAuthKey, IsNotOffered)
{
	Info hints = hints_for(FI_MSG);
	Node node;
	const auto av = node.av();
	fi_addr_t index = 0;
	std::uint8_t key[8] = {};
	std::size_t size = sizeof(key);
	int error = 0;
	Log log;

	hints->domain_attr->auth_key_size = SIZE_MAX; /* FI_AV_AUTH_KEY */
	EXPECT_FALSE(get_info(hints.get(), &error));
	EXPECT_EQ(error, -FI_ENODATA);
	EXPECT_TRUE(log.has("FI_AV_AUTH_KEY asked, not offered")) << log.all();
	node.info->domain_attr->auth_key_size = SIZE_MAX;
	fid_domain *domain = nullptr;
	EXPECT_EQ(fi_domain(node.fabric.get(), node.info.get(), &domain, nullptr), -FI_EINVAL);
	node.info->domain_attr->auth_key_size = 0;
	log.clear();
	EXPECT_EQ(later(av).insert_auth_key(av.get(), key, size, &index, 0), -FI_ENOSYS);
	EXPECT_EQ(later(av).lookup_auth_key(av.get(), 0, key, &size), -FI_ENOSYS);
	EXPECT_TRUE(log.has("FI_AV_AUTH_KEY is not offered")) << log.all();
	EXPECT_EQ(fi_av_insert(av.get(), key, 0, &index, with_auth_key, nullptr), -FI_EBADFLAGS);
	EXPECT_EQ(fi_av_remove(av.get(), &index, 1, with_auth_key), -FI_EBADFLAGS);
}

} // namespace
