// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Bytes that the kernel has written count as defined for valgrind's memcheck. test-timeout: 900 */
#include "child.h"
#include "node.h"

#include <fcntl.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_COUNT_ERRORS 0
#endif

namespace
{

/* New memory without defined bytes; look() lets memcheck complain. */
struct Fresh {
	explicit Fresh(std::size_t size) : size(size), bytes(static_cast<char *>(std::malloc(size)))
	{
	}
	~Fresh() { std::free(bytes); }
	int look() const
	{
		volatile int seen = 0;

		for (std::size_t i = 0; i < size; ++i) {
			if (bytes[i] == 'x')
				seen = seen + 1;
		}
		return seen;
	}
	std::size_t size;
	char *bytes;
};

void receive(Pair &p)
{
	for (const std::size_t size : {std::size_t{16}, std::size_t{20'000}}) {
		const std::vector<char> out(size, 'x');
		const Fresh in(size), part(size / 2), rest(size / 2);
		const iovec iov[] = {{part.bytes, part.size}, {rest.bytes, rest.size}};

		ASSERT_EQ(fi_recv(p.b.ep.get(), in.bytes, size, nullptr, FI_ADDR_UNSPEC, nullptr),
			  0);
		ASSERT_EQ(fi_trecvv(p.b.ep.get(), iov, nullptr, 2, FI_ADDR_UNSPEC, 1, 0, nullptr),
			  0);
		ASSERT_EQ(fi_send(p.a.ep.get(), out.data(), size, nullptr, p.b_at_a, nullptr), 0);
		ASSERT_EQ(fi_tsend(p.a.ep.get(), out.data(), size, nullptr, p.b_at_a, 1, nullptr),
			  0);
		next(p.b.rx_cq.get());
		next(p.b.rx_cq.get());
		EXPECT_EQ(in.look(), int(size));
		EXPECT_EQ(part.look() + rest.look(), int(size));
	}
}

void read_and_fetch(Pair &p)
{
	const Fresh target(64), in(32), result(8), results(16);
	const std::uint64_t one = 1;
	fid_mr *mr = nullptr;

	ASSERT_EQ(fi_mr_reg(p.node.domain.get(), target.bytes, 64, FI_REMOTE_READ | FI_REMOTE_WRITE,
			    0, 1, 0, &mr, nullptr),
		  0);
	const std::string xs(64, 'x');
	ASSERT_EQ(fi_write(p.a.ep.get(), xs.data(), 64, nullptr, p.b_at_a, 0, 1, nullptr), 0);
	next(p.a.tx_cq.get());
	EXPECT_EQ(target.look(), 64);
	ASSERT_EQ(fi_read(p.a.ep.get(), in.bytes, 32, nullptr, p.b_at_a, 0, 1, nullptr), 0);
	next(p.a.tx_cq.get());
	EXPECT_EQ(in.look(), 32);
	ASSERT_EQ(fi_fetch_atomic(p.a.ep.get(), &one, 1, nullptr, result.bytes, nullptr, p.b_at_a,
				  8, 1, FI_UINT64, FI_SUM, nullptr),
		  0);
	next(p.a.tx_cq.get());
	EXPECT_EQ(result.look(), 8);
	const std::uint64_t two[] = {1, 1};
	const fi_ioc ioc{const_cast<std::uint64_t *>(two), 2};
	fi_ioc fetched[] = {{results.bytes, 1}, {results.bytes + 8, 1}};
	ASSERT_EQ(fi_fetch_atomicv(p.a.ep.get(), &ioc, nullptr, 1, fetched, nullptr, 2, p.b_at_a,
				   32, 1, FI_UINT64, FI_SUM, nullptr),
		  0);
	next(p.a.tx_cq.get());
	EXPECT_EQ(results.look(), 16);
	EXPECT_EQ(fi_close(&mr->fid), 0);
}

/* Runs this program under valgrind, with one test. */
TEST(Memcheck, HasNoErrorsForReceivedBytes)
{
#if __has_include(<valgrind/memcheck.h>)
	setenv("FI_PROVIDER", provider_name, 1);
	Child child([](int) {
		char self[4096] = "";
		dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO); /* its output is not this run's */
		if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
			return 126;
		execlp("valgrind", "valgrind", "-q", self,
		       "--gtest_filter=Memcheck.DISABLED_Transfers",
		       "--gtest_also_run_disabled_tests", nullptr);
		return 127;
	});
	EXPECT_EQ(child.wait(), 0);
#else
	GTEST_SKIP() << "built without valgrind's header";
#endif
}

TEST(Memcheck, DISABLED_Transfers)
{
	Pair p(hints_for(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC));

	/*
	 * Not all errors of the run: the dynamic linker reads beyond a block, which valgrind
	 * reports.
	 */
	const auto before = VALGRIND_COUNT_ERRORS;
	receive(p);
	read_and_fetch(p);
	EXPECT_EQ(VALGRIND_COUNT_ERRORS, before);
}

} // namespace
