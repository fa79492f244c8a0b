// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_getinfo(3), FI_SOURCE_ERR; fi_cq(3), FI_EADDRNOTAVAIL and error data */
#include <algorithm>

#include "node.h"

#include <rdma/fi_rma.h>

namespace
{

Info hints(std::uint32_t format = FI_FORMAT_UNSPEC, std::uint64_t more = FI_SOURCE_ERR)
{
	Info hints = hints_for(FI_MSG | FI_TAGGED | FI_SOURCE | more);

	hints->addr_format = format;
	return hints;
}

/* A receiver that does not know its sender. */
struct Fixture {
	explicit Fixture(Info hints = ::hints(), std::uint32_t api = api_version)
		: sender_node(hints_for(FI_MSG | FI_TAGGED | FI_RMA)), sender(sender_node),
		  node(std::move(hints), api), receiver(node)
	{
		/* the same address in the sender's format */
		to = insert(sender.av.get(), address_of(receiver.ep.get()));
	}
	fi_addr_t insert(fid_av *av, std::vector<std::byte> name) const
	{
		fi_addr_t index = FI_ADDR_NOTAVAIL;
		const char *text = reinterpret_cast<const char *>(name.data());

		if (node.info->addr_format == FI_ADDR_STR && av == sender.av.get()) {
			const char *port = std::strrchr(text, ':') + 1;
			EXPECT_EQ(fi_av_insertsvc(av, "127.0.0.1", port, &index, 0, nullptr), 1);
		} else {
			EXPECT_EQ(fi_av_insert(av, name.data(), 1, &index, 0, nullptr), 1);
		}
		return index;
	}
	fi_cq_err_entry error(void *data, std::size_t size)
	{
		fi_cq_err_entry entry{};
		fi_cq_tagged_entry none;

		entry.err_data = data;
		entry.err_data_size = size;
		EXPECT_EQ(fi_cq_sread(receiver.rx_cq.get(), &none, 1, nullptr, patience),
			  -FI_EAVAIL);
		EXPECT_EQ(fi_cq_readerr(receiver.rx_cq.get(), &entry, 0), 1);
		return entry;
	}

	Node sender_node;
	Side sender;
	Node node;
	Side receiver;
	fi_addr_t to;
};

/*
 * A message of 77 from an unknown sender. Afterwards the entry's fields for its address are
 * cleared.
 */
void expect_arrived(const fi_cq_err_entry &entry, std::uint64_t flags, std::size_t len)
{
	EXPECT_EQ(entry.err, FI_EADDRNOTAVAIL);
	EXPECT_EQ(entry.flags, flags);
	EXPECT_EQ(entry.len, len);
	EXPECT_EQ(entry.data, 77u);
	EXPECT_EQ(entry.olen, 0u);
	EXPECT_EQ(entry.tag, 0u);
}

} // namespace

// conformance: fi_cq(3): FI_EADDRNOTAVAIL: received; err_data is the source address, to be passed
//   to fi_av_insert
// conformance: ioctl.h: EADDRNOTAVAIL: with EP_SOURCE_ERR: the sender is not in the address vector
TEST(SourceErr, AnUnknownSenderIsReportedWithItsAddress)
{
	Fixture p;
	char in[8] = {}, data[64] = {};

	ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(4)), 0);
	ASSERT_EQ(fi_injectdata(p.sender.ep.get(), "hello", 6, 77, p.to), 0);
	const auto entry = p.error(data, sizeof(data));
	EXPECT_EQ(entry.op_context, ctx(4));
	expect_arrived(entry, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA, 6);
	EXPECT_STREQ(in, "hello") << "it was received all the same";

	const auto name = address_of(p.sender.ep.get());
	ASSERT_EQ(entry.err_data_size, name.size());
	EXPECT_EQ(std::memcmp(data, name.data(), name.size()), 0);

	/* The address may be passed to fi_av_insert. Then the sender is known. */
	fi_addr_t known, src;
	ASSERT_EQ(fi_av_insert(p.receiver.av.get(), data, 1, &known, 0, nullptr), 1);
	ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(4)), 0);
	ASSERT_EQ(fi_inject(p.sender.ep.get(), "again", 6, p.to), 0);
	next(p.receiver.rx_cq.get(), &src);
	EXPECT_EQ(src, known);
}

TEST(SourceErr, TaggedMessagesKeepTheirTag)
{
	Fixture p;
	char in[8] = {}, data[64] = {};

	ASSERT_EQ(fi_trecv(p.receiver.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, 0x1234, 0, ctx(4)),
		  0);
	ASSERT_EQ(fi_tinject(p.sender.ep.get(), "hello", 6, p.to, 0x1234), 0);
	const auto entry = p.error(data, sizeof(data));
	EXPECT_EQ(entry.err, FI_EADDRNOTAVAIL);
	EXPECT_EQ(entry.tag, 0x1234u);
	EXPECT_EQ(entry.flags, FI_RECV | FI_TAGGED);
	EXPECT_EQ(std::memcmp(data, address_of(p.sender.ep.get()).data(), entry.err_data_size), 0);
}

// conformance: fi_cq(3): FI_EADDRNOTAVAIL: received; err_data is the source address, to be ...
// conformance: ioctl.h: EADDRNOTAVAIL: with EP_SOURCE_ERR: the sender is not in the address vector
TEST(SourceErr, AWriteWithDataHasItsAddressToo)
{
	Fixture p(hints(FI_FORMAT_UNSPEC, FI_SOURCE_ERR | FI_RMA));
	char buf[8] = {}, data[64] = {};
	fi_addr_t known, src;
	fid_mr *mr = nullptr;

	ASSERT_EQ(fi_mr_reg(p.node.domain.get(), buf, 8, FI_REMOTE_WRITE, 0, 1, 0, &mr, nullptr),
		  0);
	const auto write = [&] {
		return fi_writedata(p.sender.ep.get(), "1234567", 8, nullptr, 77, p.to, 0,
				    fi_mr_key(mr), nullptr);
	};
	ASSERT_EQ(write(), 0);
	const auto entry = p.error(data, sizeof(data));
	expect_arrived(entry, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, 8);
	EXPECT_STREQ(buf, "1234567") << "it was written all the same";
	ASSERT_EQ(entry.err_data_size, address_of(p.sender.ep.get()).size());
	ASSERT_EQ(fi_av_insert(p.receiver.av.get(), data, 1, &known, 0, nullptr), 1);
	ASSERT_EQ(write(), 0);
	next(p.receiver.rx_cq.get(), &src);
	EXPECT_EQ(src, known);
	EXPECT_EQ(fi_close(&mr->fid), 0);
}

// conformance: fi_domain(3): max_err_data: 256, the data of a rejected connection; an address ...
TEST(SourceErr, TheAddressHasTheFormatOfTheDomain)
{
	for (const std::uint32_t format : {FI_SOCKADDR_IN, FI_ADDR_STR}) {
		SCOPED_TRACE(format);
		Fixture p(hints(format));
		char in[8] = {}, data[100] = {};
		fi_addr_t known = FI_ADDR_NOTAVAIL;

		ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		ASSERT_EQ(fi_inject(p.sender.ep.get(), "hello", 6, p.to), 0);
		const auto entry = p.error(data, sizeof(data));
		EXPECT_LE(entry.err_data_size, p.node.info->domain_attr->max_err_data);
		const char *text = data;
		ASSERT_EQ(fi_av_insert(p.receiver.av.get(),
				       format == FI_ADDR_STR ? static_cast<const void *>(&text) :
							       data,
				       1, &known, 0, nullptr),
			  1);
		ASSERT_EQ(fi_send(p.receiver.ep.get(), "back", 5, nullptr, known, nullptr), 0);
		ASSERT_EQ(fi_recv(p.sender.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		next(p.sender.rx_cq.get());
		EXPECT_STREQ(in, "back");
	}
}

/* If err_data_size is 0, or the interface is older, the buffer is the provider's. */
// conformance: fi_cq(3): err_data_size: in, the caller's buffer; 0, without a buffer or before ...
TEST(SourceErr, TheBufferMayBeTheProviders)
{
	for (const std::uint32_t api : {api_version, std::uint32_t{FI_VERSION(1, 4)}}) {
		SCOPED_TRACE(api);
		Fixture p(hints(FI_SOCKADDR_IN), api);
		char in[8] = {}, ignored[4] = "abc";

		ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		ASSERT_EQ(fi_inject(p.sender.ep.get(), "hello", 6, p.to), 0);
		const auto entry = p.error(ignored, 0);
		ASSERT_NE(entry.err_data, nullptr);
		ASSERT_NE(entry.err_data, ignored);
		const auto name = address_of(p.sender.ep.get());
		EXPECT_EQ(std::memcmp(entry.err_data, name.data(), name.size()), 0);
		EXPECT_EQ(entry.err_data_size, api == api_version ? name.size() : 0);
		EXPECT_STREQ(ignored, "abc");
	}
}

// conformance: fi_cq(3): err_data_size: in, the caller's buffer; 0, without a buffer or before ...
TEST(SourceErr, ASizeAloneIsNoBuffer)
{
	Fixture p;
	char in[8] = {};

	ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(p.sender.ep.get(), "hello", 6, p.to), 0);
	const auto entry = p.error(nullptr, 64);
	const auto name = address_of(p.sender.ep.get());
	ASSERT_NE(entry.err_data, nullptr);
	ASSERT_EQ(entry.err_data_size, name.size());
	EXPECT_EQ(std::memcmp(entry.err_data, name.data(), name.size()), 0);
}

/* From 1.20 on there is one more field, for a key of FI_AV_AUTH_KEY. */
// conformance: fi_cq(3): FI_EADDRNOTAVAIL: from API 1.20 on, src_addr is FI_ADDR_NOTAVAIL without
//   FI_AV_AUTH_KEY
TEST(SourceErr, ThereIsNoKeyOfTheSender)
{
	for (const std::uint32_t api : {api_version, std::uint32_t{FI_VERSION(1, 20)}}) {
		SCOPED_TRACE(api);
		Fixture p;
		struct {
			fi_cq_err_entry entry;
			fi_addr_t src_addr;
		} error{{}, 5};
		fi_cq_tagged_entry entry;
		char in[8] = {};

		/* as if libfabric with that field had been asked for */
		p.node.fabric->api_version = api;
		ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		ASSERT_EQ(fi_inject(p.sender.ep.get(), "hello", 6, p.to), 0);
		ASSERT_EQ(fi_cq_sread(p.receiver.rx_cq.get(), &entry, 1, nullptr, patience),
			  -FI_EAVAIL);
		ASSERT_EQ(fi_cq_readerr(p.receiver.rx_cq.get(), &error.entry, 0), 1);
		EXPECT_EQ(error.entry.err, FI_EADDRNOTAVAIL);
		EXPECT_EQ(error.src_addr, api == api_version ? 5 : FI_ADDR_NOTAVAIL);
	}
}

// conformance: fi_cq(3): err_data_size: in, the caller's buffer; 0, without a buffer or before API
//   1.5: the provider's
TEST(SourceErr, AsMuchAsFitsIsCopied)
{
	Fixture p;
	char in[8] = {}, data[8] = "xxxxxxx";

	ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(p.sender.ep.get(), "hello", 6, p.to), 0);
	EXPECT_EQ(p.error(data, 4).err_data_size, 4u);
	EXPECT_EQ(std::memcmp(data, address_of(p.sender.ep.get()).data(), 4), 0);
	EXPECT_STREQ(data + 4, "xxx");
}

// conformance: fi_cq(3): olen: the truncated length
TEST(SourceErr, TruncationTakesPrecedence)
{
	Fixture p;
	char in[3] = {}, data[64];

	ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 3, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(p.sender.ep.get(), "hello", 6, p.to), 0);
	const auto entry = p.error(data, sizeof(data));
	EXPECT_EQ(entry.err, FI_ETRUNC);
	EXPECT_EQ(entry.olen, 3u);
	EXPECT_EQ(entry.err_data_size, 0u);
}

/* Nothing was received, and there is no address to insert. */
// conformance: fi_cq(3): FI_EADDRNOTAVAIL: received; err_data is the source address, to be ...
TEST(SourceErr, AReceiveOfAnUnknownSourceIsAnotherError)
{
	Fixture p(hints(FI_FORMAT_UNSPEC, FI_SOURCE_ERR | FI_DIRECTED_RECV));
	char in[8] = {}, data[64];

	ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 8, nullptr, 4711, ctx(4)), 0);
	ASSERT_EQ(fi_inject(p.sender.ep.get(), "hello", 6, p.to), 0);
	const auto entry = p.error(data, sizeof(data));
	EXPECT_EQ(entry.op_context, ctx(4));
	EXPECT_EQ(entry.err, FI_EINVAL);
	EXPECT_EQ(entry.prov_errno, EDESTADDRREQ);
	EXPECT_EQ(entry.err_data_size, 0u);
}

// conformance: fi_cq(3): FI_SOURCE alone: FI_ADDR_NOTAVAIL
TEST(SourceErr, WithoutItAnUnknownSenderIsNotAvailable)
{
	Fixture p(hints(FI_FORMAT_UNSPEC, 0));
	char in[8] = {};
	fi_addr_t src = 0;

	ASSERT_EQ(fi_recv(p.receiver.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(p.sender.ep.get(), "hello", 6, p.to), 0);
	next(p.receiver.rx_cq.get(), &src);
	EXPECT_EQ(src, FI_ADDR_NOTAVAIL);
}
