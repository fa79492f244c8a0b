// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_mr(3) */
// conformance: fi_domain(3): mr_mode: FI_MR_UNSPEC, BASIC, SCALABLE (1.4 and earlier)
// conformance: fi_arch(7): registration: permissions and keys

#include "node.h"

#include <netinet/in.h>
#include <sys/mman.h>

#include <rdma/fi_rma.h>

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

// conformance: fi_domain(3): mr_key_size: 8
// conformance: fi_mr(3): -FI_ENOKEY: the requested key is in use
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
	EXPECT_EQ(fi_mr_refresh(mr.get(), nullptr, 0, FI_RMA), -FI_EBADFLAGS);
}

/* FI_KEY_NOTAVAIL is a valid key if a program asks for it. */
// conformance: fi_domain(3): mr_key_size: 8
// conformance: fi_mr(3): -FI_EKEYREJECTED: the requested key is not available: any key is, also
//   FI_KEY_NOTAVAIL
TEST_F(Mr, AnyKeyCanBeAskedFor)
{
	Node node;
	int error;
	const auto last = reg(node, FI_KEY_NOTAVAIL);

	EXPECT_EQ(fi_mr_key(last.get()), FI_KEY_NOTAVAIL);
	EXPECT_FALSE(reg(node, FI_KEY_NOTAVAIL, &error));
	EXPECT_EQ(error, -FI_ENOKEY);
	EXPECT_EQ(fi_mr_key(reg(node, FI_KEY_NOTAVAIL - 1).get()), FI_KEY_NOTAVAIL - 1);

	Info hints = hints_for(0);
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
	Node other(std::move(hints));
	EXPECT_NE(fi_mr_key(reg(other, FI_KEY_NOTAVAIL).get()), FI_KEY_NOTAVAIL);
}

// conformance: fi_domain(3): mr_mode: FI_MR_VIRT_ADDR, FI_MR_PROV_KEY are not required; with ...
// conformance: fi_mr(3): Basic Memory Registration: FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, ...
TEST_F(Mr, BasicModeMeansKeysOfTheProvider)
{
	Info hints = hints_for(0);
	hints->domain_attr->mr_mode = FI_MR_BASIC;
	Node node(std::move(hints));
	const auto first = reg(node, 7), second = reg(node, 7);

	EXPECT_NE(fi_mr_key(first.get()), fi_mr_key(second.get()));
	EXPECT_NE(fi_mr_key(first.get()), FI_KEY_NOTAVAIL);
}

// conformance: fi_mr(3): length of memory buffer to register must be > 0: -FI_EINVAL
// conformance: fi_mr(3): FI_RMA_PMEM, FI_HMEM_DEVICE_ONLY, FI_HMEM_HOST_ALLOC are not offered:
//   -FI_EBADFLAGS
TEST_F(Mr, TheThreeCallsAreOne)
{
	Node node;
	fid_mr *mr = nullptr;
	iovec iov[2] = {{memory, 4096}, {memory + 4096, 4096}};
	fi_mr_attr attr{};

	ASSERT_EQ(fi_mr_regv(node.domain.get(), iov, 1, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr), 0);
	EXPECT_EQ(fi_close(&mr->fid), 0);
	ASSERT_EQ(fi_mr_regv(node.domain.get(), iov, 2, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr), 0);
	EXPECT_EQ(fi_close(&mr->fid), 0);
	EXPECT_EQ(fi_mr_regv(node.domain.get(), iov, 0, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr),
		  -FI_EINVAL);
	iov[1].iov_len = 0; /* "must be > 0" */
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
	for (const std::uint64_t flag :
	     {FI_PEEK, FI_RMA_PMEM, FI_HMEM_DEVICE_ONLY, FI_HMEM_HOST_ALLOC})
		EXPECT_EQ(fi_mr_regattr(node.domain.get(), &attr, flag, &mr), -FI_EBADFLAGS);
	attr.access = FI_SEND | FI_MULTICAST;
	EXPECT_EQ(fi_mr_regattr(node.domain.get(), &attr, 0, &mr), -FI_EINVAL);
	attr.access = FI_SEND | FI_COLLECTIVE;
	ASSERT_EQ(fi_mr_regattr(node.domain.get(), &attr, 0, &mr), 0);
	EXPECT_EQ(fi_close(&mr->fid), 0);
}

// conformance: fi_mr(3): fi_mr_raw_attr: key and base address (0, with FI_MR_VIRT_ADDR that of the
//   first buffer); -FI_ETOOSMALL and the size needed
// conformance: fi_mr(3): fi_mr_map_raw, fi_mr_unmap_key: the raw key is the key
TEST_F(Mr, RawKeysAreTheKeys)
{
	Node node;
	const auto mr = reg(node, 0xfeedface);
	std::uint8_t raw[16];
	std::size_t size = 4;
	std::uint64_t base = 1, key = 0;

	Log log;
	EXPECT_EQ(fi_mr_raw_attr(mr.get(), &base, raw, &size, 0), -FI_ETOOSMALL);
	EXPECT_TRUE(log.has("raw_attr: room for 4, not for 8")) << log.all();
	EXPECT_EQ(size, 8u);
	EXPECT_EQ(fi_mr_raw_attr(mr.get(), &base, raw, &size, FI_RMA), -FI_EBADFLAGS);
	EXPECT_EQ(fi_mr_raw_attr(mr.get(), &base, raw, &size, 0), 0);
	EXPECT_EQ(fi_mr_map_raw(node.domain.get(), base, raw, size, &key, FI_RMA), -FI_EBADFLAGS);
	ASSERT_EQ(fi_mr_map_raw(node.domain.get(), base, raw, size, &key, 0), 0);
	EXPECT_EQ(key, 0xfeedfaceu);
	EXPECT_EQ(fi_mr_unmap_key(node.domain.get(), key), 0);
	EXPECT_EQ(fi_mr_map_raw(node.domain.get(), base, raw, 16, &key, 0), -FI_EINVAL);
}

// conformance: fi_mr(3): fi_mr_bind: counters of FI_REMOTE_WRITE, endpoints; FI_REMOTE_READ beside
//   it counts nothing, and both do nothing for an endpoint
TEST_F(Mr, OneCounterAndOneEndpointCanBeBound)
{
	Node node;
	auto cntr = node.cntr();
	const auto other = node.cntr();
	const auto ep = node.ep();
	const auto mr = reg(node, 1);

	EXPECT_EQ(fi_mr_bind(mr.get(), &cntr->fid, FI_REMOTE_READ), -FI_EBADFLAGS);
	EXPECT_EQ(fi_mr_bind(mr.get(), &node.domain->fid, 0), -FI_EINVAL);
	/* only writes count for both flags, as everywhere */
	ASSERT_EQ(fi_mr_bind(mr.get(), &cntr->fid, FI_REMOTE_WRITE | FI_REMOTE_READ), 0);
	EXPECT_EQ(fi_mr_bind(mr.get(), &other->fid, FI_REMOTE_WRITE), -FI_EBUSY);
	cntr.reset(); /* it is counted here until the region is closed */
	EXPECT_EQ(fi_mr_bind(mr.get(), &other->fid, FI_REMOTE_WRITE), -FI_EBUSY);
	EXPECT_EQ(fi_mr_bind(mr.get(), &ep->fid, FI_TRANSMIT), -FI_EBADFLAGS);
	ASSERT_EQ(fi_mr_bind(mr.get(), &ep->fid, FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
	EXPECT_EQ(fi_mr_bind(mr.get(), &ep->fid, 0), -FI_EBUSY);
	/* An endpoint that has a region can't change its name. */
	const sockaddr_in name{.sin_family = AF_INET,
			       .sin_port = 0,
			       .sin_addr = {htonl(INADDR_LOOPBACK + 1)},
			       .sin_zero = {}};
	EXPECT_EQ(fi_setname(&ep->fid, const_cast<sockaddr_in *>(&name), sizeof(name)),
		  -FI_EOPBADSTATE);
}

/* --- several buffers, and none ---------------------------------------------------------- */

/* Two endpoints, and writes of a to a region of b. */
struct Writes {
	explicit Writes(int mr_mode = 0) : pair(hints(mr_mode)) {}
	static Info hints(int mr_mode)
	{
		Info h = hints_for(FI_MSG | FI_RMA);
		h->domain_attr->mr_mode = mr_mode;
		return h;
	}
	Owned<fid_mr> reg(std::span<const iovec> iov)
	{
		fid_mr *mr = nullptr;

		EXPECT_EQ(fi_mr_regv(pair.node.domain.get(), iov.data(), iov.size(),
				     FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, nullptr),
			  0);
		return Owned<fid_mr>(mr);
	}
	/* Returns 0, or the error of the completion. */
	int write(fid_mr *mr, const void *buf, std::size_t len, std::uint64_t at)
	{
		fid_cq *const cq = pair.a.tx_cq.get();

		EXPECT_EQ(fi_write(pair.a.ep.get(), buf, len, nullptr, pair.b_at_a, at,
				   fi_mr_key(mr), nullptr),
			  0);
		fi_cq_tagged_entry entry;
		const ssize_t n = fi_cq_sread(cq, &entry, 1, nullptr, patience);
		return n == 1 ? 0 : next_error(cq).err;
	}
	Pair pair;
};

/* fi_mr(3): one event for a remote operation, however many ranges of the region it touches. */
TEST_F(Mr, ItsCounterCountsAnOperationOnce)
{
	Writes w;
	const auto cntr = w.pair.node.cntr();
	char first[16], second[16], from[24] = {};
	fid_mr *a = nullptr, *b = nullptr;

	ASSERT_EQ(fi_mr_reg(w.pair.node.domain.get(), first, 16, FI_REMOTE_WRITE, 0, 11, 0, &a,
			    nullptr),
		  0);
	ASSERT_EQ(fi_mr_reg(w.pair.node.domain.get(), second, 16, FI_REMOTE_WRITE, 0, 12, 0, &b,
			    nullptr),
		  0);
	const Owned<fid_mr> owned[] = {Owned<fid_mr>(a), Owned<fid_mr>(b)};
	ASSERT_EQ(fi_mr_bind(a, &cntr->fid, FI_REMOTE_WRITE), 0);

	const iovec buffer = {from, sizeof(from)};
	const fi_rma_iov target[] = {{0, 8, 11}, {0, 8, 12}, {8, 8, 11}};
	const fi_msg_rma msg = {.msg_iov = &buffer,
				.desc = nullptr,
				.iov_count = 1,
				.addr = w.pair.b_at_a,
				.rma_iov = target,
				.rma_iov_count = 3,
				.context = nullptr,
				.data = 0};
	fi_cq_tagged_entry entry;
	ASSERT_EQ(fi_writemsg(w.pair.a.ep.get(), &msg, FI_COMPLETION), 0);
	ASSERT_EQ(fi_cq_sread(w.pair.a.tx_cq.get(), &entry, 1, nullptr, patience), 1);
	EXPECT_EQ(fi_cntr_read(cntr.get()), 1u);
}

// conformance: fi_domain(3): mr_iov_limit: 8
// conformance: fi_mr(3): fi_mr_regv: multiple memory buffers are registered as a single memory
//   region
TEST_F(Mr, MultipleBuffersAreASingleRegion)
{
	Writes w;
	const std::size_t limit = w.pair.node.info->domain_attr->mr_iov_limit;
	const auto from = pattern(limit * 100);
	std::vector<iovec> iov;

	EXPECT_EQ(limit, 8u);
	std::memset(memory, 0, sizeof(memory));
	for (std::size_t i = limit; i-- > 0;)
		iov.push_back({memory + i * 200, 100});
	const auto mr = w.reg(iov);
	EXPECT_EQ(w.write(mr.get(), from.data(), limit * 100, 0), 0);
	for (std::size_t i = 0; i < limit; ++i) {
		EXPECT_EQ(std::memcmp(iov[i].iov_base, from.data() + i * 100, 100), 0);
		EXPECT_EQ(static_cast<char *>(iov[i].iov_base)[100], 0);
	}
	EXPECT_EQ(w.write(mr.get(), from.data(), 101, limit * 100 - 100), FI_EREMOTEIO);
	iov.push_back({memory, 1});
	fid_mr *none = nullptr;
	EXPECT_EQ(fi_mr_regv(w.pair.node.domain.get(), iov.data(), iov.size(), FI_REMOTE_READ, 0, 2,
			     0, &none, nullptr),
		  -FI_EINVAL);
}

// conformance: fi_mr(3): FI_MR_VIRT_ADDR: the target's virtual address
TEST_F(Mr, TheAddressesOfMultipleBuffersAreTheirOwn)
{
	Writes w(FI_MR_VIRT_ADDR);
	const auto address = [&](std::size_t at) {
		return reinterpret_cast<std::uint64_t>(memory) + at;
	};
	const iovec iov[] = {{memory + 4096, 100}, {memory, 100}};

	ASSERT_EQ(w.pair.node.info->domain_attr->mr_mode, FI_MR_VIRT_ADDR);
	std::memset(memory, 0, sizeof(memory));
	const auto mr = w.reg(iov);
	EXPECT_EQ(w.write(mr.get(), "abc", 4, address(0)), 0);
	EXPECT_EQ(w.write(mr.get(), "def", 4, address(4096)), 0);
	EXPECT_STREQ(memory, "abc");
	EXPECT_STREQ(memory + 4096, "def");
	EXPECT_EQ(w.write(mr.get(), "abc", 4, address(97)), FI_EREMOTEIO);
	EXPECT_EQ(w.write(mr.get(), "abc", 4, address(2000)), FI_EREMOTEIO);
	EXPECT_EQ(w.write(mr.get(), "abc", 4, 0), FI_EREMOTEIO);
}

/* "whether or not those addresses are backed by physical pages or have been allocated" */
// conformance: fi_mr(3): any range of addresses can be registered, whether or not it has been
//   allocated
// conformance: fi_mr(3): pages must back addresses prior to being accessed, or transfers will fail:
//   FI_EIO
TEST_F(Mr, AnyRangeOfAddressesCanBeRegistered)
{
	Writes w;
	constexpr std::size_t size = 8192;
	void *const at = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_EQ(munmap(at, size), 0);
	const iovec iov{at, size};
	const auto mr = w.reg({&iov, 1});
	EXPECT_EQ(w.write(mr.get(), "abc", 4, 100), FI_EIO);
	ASSERT_EQ(mmap(at, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
		  at);
	EXPECT_EQ(w.write(mr.get(), "abc", 4, 100), 0);
	EXPECT_STREQ(static_cast<char *>(at) + 100, "abc");
	ASSERT_EQ(mprotect(at, size, PROT_READ), 0);
	EXPECT_EQ(w.write(mr.get(), "def", 4, 100), FI_EIO);
	EXPECT_STREQ(static_cast<char *>(at) + 100, "abc");
	munmap(at, size);
}

/* A map that exists and is read-only is refused at once. */
TEST_F(Mr, AReadOnlyMapIsNotRegisteredForWriting)
{
	Node node(hints_for(FI_MSG | FI_RMA));
	constexpr std::size_t size = 8192;
	void *const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fid_mr *mr = nullptr;

	EXPECT_EQ(fi_mr_reg(node.domain.get(), at, size, FI_REMOTE_WRITE, 0, 1, 0, &mr, nullptr),
		  -FI_EFAULT);
	EXPECT_EQ(fi_mr_reg(node.domain.get(), at, size, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr), 0);
	fi_close(&mr->fid);
	munmap(at, size);
}

// conformance: fi_mr(3): any range of addresses can be registered, whether or not it has been ...
TEST_F(Mr, AllOfTheAddressSpaceCanBeRegistered)
{
	Writes w;
	const iovec all{nullptr, SIZE_MAX};
	const auto mr = w.reg({&all, 1});

	EXPECT_EQ(w.write(mr.get(), "abc", 4, reinterpret_cast<std::uint64_t>(memory)), 0);
	EXPECT_STREQ(memory, "abc");
	EXPECT_EQ(w.write(mr.get(), "abc", 4, 0), FI_EIO);
}

/* What each mode requires works without the mode, too. */
// conformance: fi_mr(3): FI_MR_LOCAL, RAW, ALLOCATED, MMU_NOTIFY, RMA_EVENT, ENDPOINT, HMEM,
//   COLLECTIVE are cleared, as they are not needed; programs that follow them work all the same
// conformance: fi_mr(3): fi_mr_raw_attr: key and base address (0, with FI_MR_VIRT_ADDR that of ...
// conformance: fi_mr(3): fi_mr_refresh, fi_mr_enable do nothing, as a region is enabled from the
//   start; -FI_EOPBADSTATE before it is registered
TEST_F(Mr, RequirementsOfEveryModeMayBeMet)
{
	for (const int mode :
	     {0, FI_MR_LOCAL, FI_MR_RAW, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY,
	      FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT, FI_MR_ENDPOINT, FI_MR_HMEM, FI_MR_COLLECTIVE,
	      FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
		      FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT}) {
		SCOPED_TRACE(fi_tostr(&mode, FI_TYPE_MR_MODE));
		Info hints = hints_for(FI_MSG | FI_RMA | FI_RMA_EVENT);
		hints->domain_attr->mr_mode = mode;
		Pair p(std::move(hints));
		const int granted = p.node.info->domain_attr->mr_mode;
		const auto cntr = p.node.cntr();
		const iovec iov{memory, sizeof(memory)};
		fid_mr *mr = nullptr, *from = nullptr;
		std::uint8_t raw[8];
		std::size_t size = sizeof(raw);
		std::uint64_t base = 0, key = 0;
		char out[] = "abc";

		EXPECT_EQ(granted & ~mode, 0);
		ASSERT_EQ(fi_mr_reg(p.node.domain.get(), memory, sizeof(memory), FI_REMOTE_WRITE, 0,
				    7, FI_RMA_EVENT, &mr, nullptr),
			  0);
		ASSERT_EQ(fi_mr_reg(p.node.domain.get(), out, sizeof(out), FI_WRITE, 0, 8, 0, &from,
				    nullptr),
			  0);
		EXPECT_EQ(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), 0);
		EXPECT_EQ(fi_mr_bind(mr, &p.b.ep->fid, 0), 0);
		EXPECT_EQ(fi_mr_enable(mr), 0);
		EXPECT_EQ(fi_mr_refresh(mr, &iov, 1, 0), 0);
		ASSERT_EQ(fi_mr_raw_attr(mr, &base, raw, &size, 0), 0);
		ASSERT_EQ(fi_mr_map_raw(p.node.domain.get(), base, raw, size, &key, 0), 0);
		EXPECT_EQ(key, fi_mr_key(mr));
		EXPECT_EQ(base,
			  granted & FI_MR_VIRT_ADDR ? reinterpret_cast<std::uint64_t>(memory) : 0);
		std::memset(memory, 0, sizeof(memory));
		ASSERT_EQ(fi_write(p.a.ep.get(), out, sizeof(out), fi_mr_desc(from), p.b_at_a,
				   base + 100, key, nullptr),
			  0);
		next(p.a.tx_cq.get());
		EXPECT_STREQ(memory + 100, out);
		EXPECT_TRUE(reaches(cntr.get(), 1));
		EXPECT_EQ(fi_mr_unmap_key(p.node.domain.get(), key), 0);
		EXPECT_EQ(fi_close(&mr->fid), 0);
		EXPECT_EQ(fi_close(&from->fid), 0);
	}
}

/* The domain's key is the default for objects created in it; a region's own key replaces it. */
// conformance: fi_mr(3): auth_key of a region; the domain's if there is none
TEST_F(Mr, ARegionsOwnAuthorizationKey)
{
	Info hints = hints_for(FI_MSG | FI_RMA);
	std::uint8_t own[] = {1, 2, 3}, long_key[65] = {};
	fi_mr_attr attr{};
	const iovec iov{memory, sizeof(memory)};
	fid_mr *mr = nullptr;

	hints->domain_attr->auth_key = reinterpret_cast<std::uint8_t *>(strdup("domain"));
	hints->domain_attr->auth_key_size = 6;
	Pair p(std::move(hints));
	attr.mr_iov = &iov;
	attr.iov_count = 1;
	attr.access = FI_REMOTE_WRITE;
	attr.auth_key = own;
	attr.auth_key_size = sizeof(own);
	ASSERT_EQ(fi_mr_regattr(p.node.domain.get(), &attr, 0, &mr), 0);
	/* The same user needs no key. */
	ASSERT_EQ(fi_write(p.a.ep.get(), "abc", 4, nullptr, p.b_at_a, 0, fi_mr_key(mr), nullptr),
		  0);
	next(p.a.tx_cq.get());
	EXPECT_EQ(fi_close(&mr->fid), 0);
	attr.auth_key = long_key;
	attr.auth_key_size = sizeof(long_key);
	EXPECT_EQ(fi_mr_regattr(p.node.domain.get(), &attr, 0, &mr), -FI_EINVAL);
}

// conformance: fi_mr(3): Basic Memory Registration: FI_MR_VIRT_ADDR, FI_MR_ALLOCATED,
//   FI_MR_PROV_KEY
TEST_F(Mr, BasicModeMeansThatMemoryIsAllocated)
{
	Info hints = hints_for(0);
	fid_mr *mr = nullptr;

	hints->domain_attr->mr_mode = FI_MR_BASIC;
	Node node(std::move(hints));
	EXPECT_EQ(fi_mr_reg(node.domain.get(), nullptr, 4096, FI_REMOTE_READ, 0, 0, 0, &mr,
			    nullptr),
		  -FI_EFAULT);
}

} // namespace
