// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_mr(3) */
#include "node.h"

namespace
{

constexpr std::uint64_t all_access =
	FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

class Mr : public testing::Test
{
protected:
	Owned<fid_mr> reg(Node &node, std::uint64_t key, int *error = nullptr)
	{
		fid_mr *mr = nullptr;
		const int rc = fi_mr_reg(node.domain.get(), memory, sizeof(memory), all_access, 0,
					 key, 0, &mr, ctx(1));

		if (error)
			*error = rc;
		else
			EXPECT_EQ(rc, 0);
		return Owned<fid_mr>(mr);
	}

	char memory[8192];
};

TEST_F(Mr, KeysAreTheApplications)
{
	Node node;
	int error;
	auto mr = reg(node, 0x1234);

	EXPECT_EQ(fi_mr_key(mr.get()), 0x1234u);
	EXPECT_NE(fi_mr_desc(mr.get()), nullptr);
	Log log;
	EXPECT_FALSE(reg(node, 0x1234, &error));
	EXPECT_EQ(error, -FI_ENOKEY);
	EXPECT_NE(log.all(), "");
	mr.reset();
	mr = reg(node, 0x1234);
	EXPECT_EQ(fi_mr_enable(mr.get()), 0);
	EXPECT_EQ(fi_mr_refresh(mr.get(), nullptr, 0, 0), 0);
}

TEST_F(Mr, BasicModeMeansKeysOfTheProvider)
{
	Info hints = hints_for(0);
	hints->domain_attr->mr_mode = FI_MR_BASIC;
	Node node(std::move(hints));
	const auto first = reg(node, 7), second = reg(node, 7);

	EXPECT_NE(fi_mr_key(first.get()), fi_mr_key(second.get()));
	EXPECT_NE(fi_mr_key(first.get()), FI_KEY_NOTAVAIL);
}

TEST_F(Mr, TheThreeCallsAreOne)
{
	Node node;
	fid_mr *mr = nullptr;
	iovec iov[2] = {{memory, 4096}, {memory + 4096, 4096}};
	fi_mr_attr attr{};

	ASSERT_EQ(fi_mr_regv(node.domain.get(), iov, 1, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr), 0);
	EXPECT_EQ(fi_close(&mr->fid), 0);
	EXPECT_EQ(fi_mr_regv(node.domain.get(), iov, 2, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr),
		  -FI_EINVAL);
	attr.mr_iov = iov;
	attr.iov_count = 1;
	attr.access = FI_SEND;
	attr.requested_key = 2;
	ASSERT_EQ(fi_mr_regattr(node.domain.get(), &attr, 0, &mr), 0);
	EXPECT_EQ(fi_mr_key(mr), 2u);
	EXPECT_EQ(fi_close(&mr->fid), 0);
	attr.offset = 1;
	EXPECT_EQ(fi_mr_regattr(node.domain.get(), &attr, 0, &mr), -FI_EINVAL);
	attr.offset = 0;
	EXPECT_EQ(fi_mr_regattr(node.domain.get(), &attr, FI_PEEK, &mr), -FI_EBADFLAGS);
	attr.access = FI_SEND | FI_COLLECTIVE;
	EXPECT_EQ(fi_mr_regattr(node.domain.get(), &attr, 0, &mr), -FI_EINVAL);
}

TEST_F(Mr, RawKeysAreTheKeys)
{
	Node node;
	const auto mr = reg(node, 0xfeedface);
	std::uint8_t raw[16];
	std::size_t size = 4;
	std::uint64_t base = 1, key = 0;

	EXPECT_EQ(fi_mr_raw_attr(mr.get(), &base, raw, &size, 0), -FI_ETOOSMALL);
	EXPECT_EQ(size, 8u);
	EXPECT_EQ(fi_mr_raw_attr(mr.get(), &base, raw, &size, 0), 0);
	ASSERT_EQ(fi_mr_map_raw(node.domain.get(), base, raw, size, &key, 0), 0);
	EXPECT_EQ(key, 0xfeedfaceu);
	EXPECT_EQ(fi_mr_unmap_key(node.domain.get(), key), 0);
	EXPECT_EQ(fi_mr_map_raw(node.domain.get(), base, raw, 16, &key, 0), -FI_EINVAL);
}

TEST_F(Mr, OneCounterAndOneEndpointCanBeBound)
{
	Node node;
	const auto cntr = node.cntr(), other = node.cntr();
	const auto ep = node.ep();
	const auto mr = reg(node, 1);

	EXPECT_EQ(fi_mr_bind(mr.get(), &cntr->fid, FI_REMOTE_READ), -FI_EBADFLAGS);
	EXPECT_EQ(fi_mr_bind(mr.get(), &node.domain->fid, 0), -FI_EINVAL);
	ASSERT_EQ(fi_mr_bind(mr.get(), &cntr->fid, FI_REMOTE_WRITE), 0);
	EXPECT_EQ(fi_mr_bind(mr.get(), &other->fid, FI_REMOTE_WRITE), -FI_EBUSY);
	EXPECT_EQ(fi_close(&cntr->fid), -FI_EBUSY);
	EXPECT_EQ(fi_mr_bind(mr.get(), &ep->fid, FI_TRANSMIT), -FI_EBADFLAGS);
	ASSERT_EQ(fi_mr_bind(mr.get(), &ep->fid, 0), 0);
	EXPECT_EQ(fi_mr_bind(mr.get(), &ep->fid, 0), -FI_EBUSY);
}

TEST_F(Mr, RegistrationsAreReportedToABoundQueue)
{
	Node node;
	const auto eq = node.eq();
	fi_eq_entry entry{};
	std::uint32_t event;

	ASSERT_EQ(fi_domain_bind(node.domain.get(), &eq->fid, FI_REG_MR), 0);
	{
		const auto mr = reg(node, 1);
		ASSERT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0),
			  ssize_t{sizeof(entry)});
		EXPECT_EQ(event, std::uint32_t{FI_MR_COMPLETE});
		EXPECT_EQ(entry.fid, &mr->fid);
		EXPECT_EQ(entry.context, ctx(1));
	}
	/* The queue is in use until the domain is closed. */
	EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
	node.domain.reset();
}

} // namespace
