// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Calls that lack an argument: NULL is refused like any other bad value. */
// conformance: fi_domain(3): on error, a negative value is returned, also if a required argument is
//   NULL; transfers do not check that

#include "node.h"

#include <rdma/fi_collective.h>

namespace
{

constexpr std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;

TEST(Missing, TheArgumentOfACommand)
{
	Node node;
	const auto eq = node.eq(FI_WAIT_FD);
	const auto cq = node.cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD);
	const auto cntr = node.cntr(FI_WAIT_FD);
	const auto ep = node.ep();
	Log log;
	const auto expect_refused = [&](::fid &object, int command) {
		log.clear();
		EXPECT_EQ(fi_control(&object, command, nullptr), -FI_EINVAL) << command;
		EXPECT_TRUE(log.has("needs an argument")) << log.all();
	};

	for (::fid *object : {&eq->fid, &cq->fid, &cntr->fid}) {
		expect_refused(*object, FI_GETWAIT);
		expect_refused(*object, FI_GETWAITOBJ);
	}
	for (const int command : {FI_GETOPSFLAG, FI_SETOPSFLAG, FI_ALIAS})
		expect_refused(ep->fid, command);
	for (const int command : {FI_GETOPSFLAG, FI_SETOPSFLAG})
		expect_refused(cntr->fid, command);
	for (const int command : {FI_QUEUE_WORK, FI_CANCEL_WORK, FI_MAP_RAW_MR})
		expect_refused(node.domain->fid, command);
	char memory[64];
	fid_mr *mr = nullptr;
	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), access, 0, 7, 0, &mr,
			    nullptr),
		  0);
	for (const int command : {FI_REFRESH, FI_GET_RAW_MR})
		expect_refused(mr->fid, command);
	EXPECT_EQ(fi_close(&mr->fid), 0);
}

TEST(Missing, TheBacklogOfAPassiveEndpoint)
{
	Info hints = no_hints();
	hints->ep_attr->type = FI_EP_MSG;
	Node node(std::move(hints));
	fid_pep *pep = nullptr;
	Log log;

	ASSERT_EQ(fi_passive_ep(node.fabric.get(), node.info.get(), &pep, nullptr), 0);
	EXPECT_EQ(fi_control(&pep->fid, FI_BACKLOG, nullptr), -FI_EINVAL);
	EXPECT_EQ(fi_close(&pep->fid), 0);
}

TEST(Missing, BuffersToRegister)
{
	Node node;
	fid_mr *mr = nullptr;
	Log log;

	EXPECT_EQ(fi_mr_regattr(node.domain.get(), nullptr, 0, &mr), -FI_EINVAL);
	EXPECT_TRUE(log.has("fi_mr_attr")) << log.all();
	EXPECT_EQ(fi_mr_regv(node.domain.get(), nullptr, 2, access, 0, 1, 0, &mr, nullptr),
		  -FI_EINVAL);
	EXPECT_TRUE(log.has("mr_iov")) << log.all();
}

// conformance: fi_mr(3): fi_mr_raw_attr: key and base address (0, with FI_MR_VIRT_ADDR that of ...
TEST(Missing, TheRawKey)
{
	Node node;
	char memory[64];
	std::uint8_t raw[8];
	std::uint64_t base, key = 0;
	std::size_t size = sizeof(raw);
	fid_mr *mr = nullptr;
	Log log;

	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), access, 0, 7, 0, &mr,
			    nullptr),
		  0);
	EXPECT_EQ(fi_mr_raw_attr(mr, &base, nullptr, &size, 0), -FI_EINVAL);
	EXPECT_EQ(fi_mr_raw_attr(mr, &base, raw, nullptr, 0), -FI_EINVAL);
	EXPECT_TRUE(log.has("raw_attr: needs")) << log.all();
	/* The size may be asked for without a buffer. */
	size = 0;
	EXPECT_EQ(fi_mr_raw_attr(mr, nullptr, nullptr, &size, 0), -FI_ETOOSMALL);
	EXPECT_EQ(size, sizeof(raw));
	EXPECT_EQ(fi_mr_raw_attr(mr, nullptr, raw, &size, 0), 0);
	EXPECT_EQ(fi_mr_map_raw(node.domain.get(), 0, nullptr, size, &key, 0), -FI_EINVAL);
	EXPECT_EQ(fi_mr_map_raw(node.domain.get(), 0, raw, size, nullptr, 0), -FI_EINVAL);
	EXPECT_TRUE(log.has("map_raw: needs")) << log.all();
	EXPECT_EQ(fi_mr_map_raw(node.domain.get(), 0, raw, size, &key, 0), 0);
	EXPECT_EQ(key, 7u);
	EXPECT_EQ(fi_close(&mr->fid), 0);
}

TEST(Missing, TheAddressesToInsert)
{
	Node node;
	const auto av = node.av();
	fi_addr_t index = 0;
	Log log;

	EXPECT_EQ(fi_av_insert(av.get(), nullptr, 1, &index, 0, nullptr), -FI_EINVAL);
	EXPECT_NE(log.all(), "");
	EXPECT_EQ(fi_av_insert(av.get(), nullptr, 0, &index, 0, nullptr), 0);
	const auto self = address_of(node.ep().get());
	log.clear();
	EXPECT_EQ(fi_av_insert(av.get(), self.data(), 1, &index, FI_SYNC_ERR, nullptr), -FI_EINVAL);
	EXPECT_TRUE(log.has("room for errors")) << log.all();
}

TEST(Missing, TheResultOfALookup)
{
	Node node(hints_for(FI_MSG | FI_COLLECTIVE));
	Side side(node);
	const fi_addr_t self = side.insert(side.ep.get());
	char memory[64];
	fi_av_set_attr attr{};
	fid_av_set *set = nullptr;
	Log log;

	EXPECT_EQ(fi_av_lookup(side.av.get(), self, memory, nullptr), -FI_EINVAL);
	EXPECT_TRUE(log.has("needs an addrlen")) << log.all();
	EXPECT_EQ(fi_av_straddr(side.av.get(), address_of(side.ep.get()).data(), memory, nullptr),
		  nullptr);
	EXPECT_TRUE(log.has("needs a len")) << log.all();
	attr.start_addr = attr.end_addr = self;
	attr.stride = 1;
	ASSERT_EQ(fi_av_set(side.av.get(), &attr, &set, nullptr), 0);
	EXPECT_EQ(fi_av_set_addr(set, nullptr), -FI_EINVAL);
	EXPECT_TRUE(log.has("nowhere to put it")) << log.all();
	EXPECT_EQ(fi_close(&set->fid), 0);
}

/* The kind of an event need not be asked for. */
// conformance: fi_eq(3): no place for the number of the event: it is not returned
TEST(Missing, TheKindOfAnEvent)
{
	Node node;
	const auto eq = node.eq(FI_WAIT_UNSPEC, FI_WRITE);
	fi_eq_entry entry{};
	Log log;

	EXPECT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, nullptr, 1, 0), -FI_EINVAL);
	EXPECT_TRUE(log.has("1 bytes at NULL")) << log.all();
	ASSERT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, nullptr, 0, 0), 0);
	EXPECT_EQ(fi_eq_read(eq.get(), nullptr, &entry, sizeof(entry), 0), 0);
	entry.context = ctx(5);
	ASSERT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof(entry), 0),
		  ssize_t{sizeof(entry)});
	entry = {};
	EXPECT_EQ(fi_eq_sread(eq.get(), nullptr, &entry, sizeof(entry), patience, 0),
		  ssize_t{sizeof(entry)});
	EXPECT_EQ(entry.context, ctx(5));
}

TEST(Missing, PartsOfAMessage)
{
	Node node(hints_for(FI_MSG | FI_TAGGED | FI_TRIGGER));
	Side side(node);
	const auto cntr = node.cntr();
	const fi_addr_t self = side.insert(side.ep.get());
	fi_msg msg{nullptr, nullptr, 1, self, nullptr, 0};
	fi_op_msg op{side.ep.get(), msg, 0};
	fi_deferred_work work{};
	Log log;

	EXPECT_LT(fi_sendmsg(side.ep.get(), &msg, 0), 0);
	EXPECT_LT(fi_recvmsg(side.ep.get(), &msg, 0), 0);
	work.triggering_cntr = cntr.get();
	work.op_type = FI_OP_SEND;
	work.op.msg = &op;
	EXPECT_LT(fi_control(&node.domain->fid, FI_QUEUE_WORK, &work), 0);
	EXPECT_NE(log.all(), "");
}

/* An authorization key without its bytes must not be ignored. */
TEST(Missing, AKeyForAuthorization)
{
	Info hints = hints_for(FI_MSG);
	int error = 0;
	Log log;

	hints->domain_attr->auth_key_size = 8;
	EXPECT_FALSE(get_info(hints.get(), &error));
	EXPECT_EQ(error, -FI_ENODATA);
	EXPECT_TRUE(log.has("auth_key is NULL")) << log.all();
	hints->domain_attr->auth_key_size = 0;
	hints->ep_attr->auth_key_size = 8;
	EXPECT_FALSE(get_info(hints.get(), &error));
	EXPECT_EQ(error, -FI_ENODATA);

	Node node(hints_for(FI_MSG | FI_RMA));
	char memory[8];
	const iovec iov{memory, sizeof(memory)};
	fi_mr_attr attr{};
	fid_mr *mr = nullptr;
	attr.mr_iov = &iov;
	attr.iov_count = 1;
	attr.access = FI_REMOTE_READ;
	attr.auth_key_size = 8;
	EXPECT_EQ(fi_mr_regattr(node.domain.get(), &attr, 0, &mr), -FI_EINVAL);
}

TEST(Missing, ResultsOfCalls)
{
	Info hints = no_hints();
	hints->ep_attr->type = FI_EP_MSG;
	Node node, connected(std::move(hints));
	const auto ep = node.ep();
	fid_pep *pep = nullptr;
	fid_poll *set = nullptr;
	std::size_t size = 64;
	char memory[64];
	Log log;

	ASSERT_EQ(fi_passive_ep(connected.fabric.get(), connected.info.get(), &pep, nullptr), 0);
	for (::fid *object : {&ep->fid, &pep->fid}) {
		const int option = object == &ep->fid ? FI_OPT_MIN_MULTI_RECV : FI_OPT_CM_DATA_SIZE;

		EXPECT_EQ(fi_getopt(object, FI_OPT_ENDPOINT, option, nullptr, &size), -FI_EINVAL);
		EXPECT_EQ(fi_getopt(object, FI_OPT_ENDPOINT, option, memory, nullptr), -FI_EINVAL);
		EXPECT_EQ(fi_getname(object, memory, nullptr), -FI_EINVAL);
	}
	EXPECT_EQ(fi_getpeer(ep.get(), memory, nullptr), -FI_EINVAL);
	EXPECT_EQ(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, nullptr, size),
		  -FI_EINVAL);
	EXPECT_EQ(fi_close(&pep->fid), 0);
	::fid *none = nullptr;
	EXPECT_EQ(fi_trywait(node.fabric.get(), &none, 1), -FI_EINVAL);
	ASSERT_EQ(fi_poll_open(node.domain.get(), nullptr, &set), 0);
	EXPECT_EQ(fi_poll_add(set, nullptr, 0), -FI_EINVAL);
	EXPECT_EQ(fi_close(&set->fid), 0);
	EXPECT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), access, 0, 7, 0, nullptr,
			    nullptr),
		  -FI_EINVAL);
}

} // namespace
