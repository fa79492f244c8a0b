// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_getinfo(3): what is offered, and what is refused, with the reason. */
// conformance: fi_domain(3): caps: FI_LOCAL_COMM
// conformance: fi_arch(7): discovery through fi_getinfo

#include <cstddef>
#include <fstream>
#include <ostream>

#include <sys/mman.h>

#include "address_text.h"
#include "node.h"

namespace
{

constexpr std::uint64_t all_caps = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_TRIGGER | FI_SOURCE |
				   FI_DIRECTED_RECV | FI_LOCAL_COMM | FI_RMA | FI_READ | FI_WRITE |
				   FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT | FI_FENCE |
				   FI_ATOMIC | FI_MULTI_RECV | FI_SHARED_AV | FI_NAMED_RX_CTX;

#define ASK(statement) [](fi_info &hints) { statement; }

/* --- offers -------------------------------------------------------------------------- */

// conformance: fi_domain(3): mr_key_size: 8
TEST(GetInfo, WithoutHintsOffersEverything)
{
	const Info info = get_info(no_hints().get());

	ASSERT_TRUE(info);
	EXPECT_STREQ(info->fabric_attr->prov_name, "treadle");
	EXPECT_STREQ(info->fabric_attr->name, "treadle");
	EXPECT_STREQ(info->domain_attr->name, "treadle");
	EXPECT_EQ(info->caps, all_caps);
	EXPECT_EQ(info->mode, 0u);
	EXPECT_EQ(info->ep_attr->type, FI_EP_RDM);
	EXPECT_NE(info->ep_attr->protocol & FI_PROV_SPECIFIC, 0u);
	EXPECT_GE(info->ep_attr->max_msg_size, std::size_t{1} << 30);
	EXPECT_EQ(info->tx_attr->inject_size, 4096u);
	EXPECT_EQ(info->tx_attr->iov_limit, 8u);
	EXPECT_EQ(info->rx_attr->iov_limit, 8u);
	for (const std::uint64_t order : {FI_ORDER_SAS, FI_ORDER_RAW, FI_ORDER_WAR, FI_ORDER_WAW}) {
		EXPECT_TRUE(info->tx_attr->msg_order & order);
		EXPECT_TRUE(info->rx_attr->msg_order & order);
	}
	EXPECT_EQ(info->tx_attr->rma_iov_limit, 5u);
	EXPECT_EQ(info->rx_attr->comp_order, FI_ORDER_NONE);
	EXPECT_EQ(info->domain_attr->threading, FI_THREAD_SAFE);
	EXPECT_EQ(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
	EXPECT_EQ(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
	EXPECT_EQ(info->domain_attr->mr_mode, 0);
	EXPECT_EQ(info->domain_attr->cq_data_size, 8u);
	EXPECT_EQ(info->domain_attr->mr_key_size, 8u);
	EXPECT_EQ(info->addr_format, std::uint32_t{FI_SOCKADDR_IN});
}

/* Each kind of object may take all ids of a context; an endpoint takes three. */
// conformance: fi_domain(3): cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, cntr_cnt, mr_cnt: from the
//   module's limit of objects
// conformance: fi_domain(3): max_ep_stx_ctx, max_ep_srx_ctx: as many as endpoints
TEST(GetInfo, CountsAreTheModulesLimits)
{
	const Info info = get_info(hints_for(FI_MSG).get());
	std::size_t objects = 0;

	ASSERT_TRUE(info);
	std::ifstream("/sys/module/treadle/parameters/max_objects") >> objects;
	ASSERT_GT(objects, 8u);
	--objects; /* the domain's ring */
	const std::size_t endpoints = (objects - 2) / 3;
	struct {
		std::size_t fi_domain_attr::*count;
		std::size_t most;
		bool optimal; /* a request for more gets the maximum */
	} const counts[] = {
		{&fi_domain_attr::cq_cnt, objects, true},
		{&fi_domain_attr::cntr_cnt, objects, true},
		{&fi_domain_attr::mr_cnt, objects, true},
		{&fi_domain_attr::tx_ctx_cnt, endpoints, true},
		{&fi_domain_attr::rx_ctx_cnt, endpoints, true},
		{&fi_domain_attr::ep_cnt, endpoints, false},
		{&fi_domain_attr::max_ep_stx_ctx, endpoints, false},
		{&fi_domain_attr::max_ep_srx_ctx, endpoints, false},
	};
	for (const auto &[count, most, optimal] : counts) {
		const Info hints = hints_for(FI_MSG);
		hints->domain_attr->*count = most;
		const Info all = get_info(hints.get());
		hints->domain_attr->*count = most + 1;
		const Info more = get_info(hints.get());
		ASSERT_TRUE(all);
		EXPECT_EQ(all->domain_attr->*count, most);
		ASSERT_EQ(!!more, optimal);
		EXPECT_EQ(more ? more->domain_attr->*count : most, most);
	}
	EXPECT_EQ(info->domain_attr->max_ep_stx_ctx, info->domain_attr->ep_cnt);
	EXPECT_EQ(info->domain_attr->max_ep_srx_ctx, info->domain_attr->ep_cnt);
}

/* The first is what most callers take: FI_EP_RDM over IPv4. */
TEST(GetInfo, EveryTypeOfEndpointIsOffered)
{
	const Info all = get_info(no_hints().get());
	std::vector<std::pair<fi_ep_type, std::uint32_t>> found;

	for (const fi_info *info = all.get(); info; info = info->next)
		found.emplace_back(info->ep_attr->type, info->addr_format);
	EXPECT_EQ(found, (decltype(found){{FI_EP_RDM, FI_SOCKADDR_IN},
					  {FI_EP_RDM, FI_SOCKADDR_IN6},
					  {FI_EP_MSG, FI_SOCKADDR_IN},
					  {FI_EP_MSG, FI_SOCKADDR_IN6},
					  {FI_EP_DGRAM, FI_SOCKADDR_IN},
					  {FI_EP_DGRAM, FI_SOCKADDR_IN6}}));
}

TEST(GetInfo, NoUtilityProviderLayersOnIt)
{
	const Info all = get_info(no_hints().get());

	ASSERT_TRUE(all);
	for (const fi_info *info = all.get(); info; info = info->next)
		EXPECT_STREQ(info->fabric_attr->prov_name, "treadle");
}

/* An answer, used as a question, gives the same answer. */
TEST(GetInfo, ItsAnswerIsAnAcceptableQuestion)
{
	struct Hints {
		std::uint64_t caps, both; /* caps, and caps that both contexts have */
	};
	for (const auto &[caps, both] :
	     {Hints{0, 0}, Hints{FI_MSG, 0}, Hints{FI_TAGGED | FI_RECV, 0},
	      Hints{FI_MSG | FI_RMA, FI_RECV | FI_REMOTE_WRITE}, Hints{FI_MSG | FI_RMA, FI_SEND}}) {
		const Info hints = hints_for(caps);
		hints->tx_attr->caps = hints->rx_attr->caps = both;
		const Info first = get_info(hints.get());
		ASSERT_TRUE(first);
		const Info second = get_info(first.get());
		ASSERT_TRUE(second);
		EXPECT_EQ(first->caps, second->caps);
		EXPECT_EQ(first->tx_attr->caps, second->tx_attr->caps);
		EXPECT_EQ(first->rx_attr->caps, second->rx_attr->caps);
		EXPECT_EQ(first->tx_attr->size, second->tx_attr->size);
		EXPECT_EQ(first->rx_attr->total_buffered_recv,
			  second->rx_attr->total_buffered_recv);
		EXPECT_EQ(first->domain_attr->ep_cnt, second->domain_attr->ep_cnt);
		EXPECT_EQ(first->addr_format, second->addr_format);
		EXPECT_EQ(text_of(first->src_addr, first->addr_format),
			  text_of(second->src_addr, second->addr_format));
	}
}

TEST(GetInfo, PrimaryCapabilitiesAreOnlyThoseAskedFor)
{
	const Info msg = get_info(hints_for(FI_MSG).get());
	ASSERT_TRUE(msg);
	EXPECT_EQ(msg->caps, FI_MSG | FI_SEND | FI_RECV | FI_TRIGGER | FI_FENCE | FI_LOCAL_COMM);

	const Info send = get_info(hints_for(FI_TAGGED | FI_SEND).get());
	ASSERT_TRUE(send);
	EXPECT_EQ(send->caps, FI_TAGGED | FI_SEND | FI_TRIGGER | FI_FENCE | FI_LOCAL_COMM);
	EXPECT_EQ(send->tx_attr->caps, FI_TAGGED | FI_SEND | FI_TRIGGER | FI_FENCE);
	EXPECT_EQ(send->rx_attr->caps, 0u);
}

/* --- negotiation: one line each ------------------------------------------------------ */

struct Case {
	const char *name;
	void (*ask)(fi_info &hints);
	const char *refusal; /* in the log; null: the question is accepted */
	bool (*answer)(const fi_info &info);
};

void PrintTo(const Case &line, std::ostream *out)
{
	*out << line.name;
}

constexpr std::uint32_t sockaddr_ip = 17;	      /* FI_SOCKADDR_IP of 2.0 */
constexpr auto unified = static_cast<fi_progress>(3); /* FI_PROGRESS_CONTROL_UNIFIED of 2.0 */

#define ANSWER(condition) [](const fi_info &info) -> bool { return condition; }

const Case cases[] = {
	{"TypeMsg", ASK(hints.ep_attr->type = FI_EP_MSG), nullptr,
	 ANSWER(info.ep_attr->type == FI_EP_MSG && !(info.caps & FI_SOURCE))},
	{"TypeMsgSource", ASK(hints.ep_attr->type = FI_EP_MSG; hints.caps = FI_MSG | FI_SOURCE),
	 "FI_SOURCE", nullptr},
	{"TypeDgram", ASK(hints.ep_attr->type = FI_EP_DGRAM), nullptr,
	 ANSWER(info.ep_attr->type == FI_EP_DGRAM && info.ep_attr->max_msg_size == 65536)},
	{"TypeDgramDelivery",
	 ASK(hints.ep_attr->type = FI_EP_DGRAM; hints.tx_attr->op_flags = FI_DELIVERY_COMPLETE),
	 "op_flags", nullptr},
	{"TypeDgramLong",
	 ASK(hints.ep_attr->type = FI_EP_DGRAM; hints.ep_attr->max_msg_size = 65537),
	 "max_msg_size", nullptr},
	{"TypeStream", ASK(hints.ep_attr->type = FI_EP_SOCK_STREAM), "ep_attr->type", nullptr},
	{"TypeRdm", ASK(hints.ep_attr->type = FI_EP_RDM), nullptr,
	 ANSWER(info.ep_attr->type == FI_EP_RDM)},
	{"CapsRma", ASK(hints.caps = FI_MSG | FI_RMA), nullptr,
	 ANSWER((info.caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)) ==
		(FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE))},
	{"CapsAtomic", ASK(hints.caps = FI_ATOMIC | FI_WRITE), nullptr,
	 ANSWER((info.caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)) == FI_WRITE)},
	// conformance: fi_getinfo(3): FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE require
	//   FI_RMA or FI_ATOMIC; FI_RMA_EVENT requires one of the last two
	{"CapsReadOfNothing", ASK(hints.caps = FI_MSG | FI_READ), "need FI_RMA or FI_ATOMIC",
	 nullptr},
	// conformance: fi_getinfo(3): FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE ...
	{"CapsRemoteWriteOfNothing", ASK(hints.caps = FI_TAGGED | FI_REMOTE_WRITE),
	 "need FI_RMA or FI_ATOMIC", nullptr},
	// conformance: fi_getinfo(3): FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE ...
	{"CapsRmaEventOfNothing", ASK(hints.caps = FI_MSG | FI_RMA_EVENT), "FI_RMA_EVENT needs",
	 nullptr},
	// conformance: fi_getinfo(3): FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE ...
	{"CapsRmaEventOfAnInitiator", ASK(hints.caps = FI_RMA | FI_READ | FI_WRITE | FI_RMA_EVENT),
	 "FI_RMA_EVENT needs", nullptr},
	// conformance: fi_getinfo(3): FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE ...
	{"CapsRmaEvent", ASK(hints.caps = FI_ATOMIC | FI_REMOTE_READ | FI_RMA_EVENT), nullptr,
	 ANSWER(info.caps &info.rx_attr->caps &FI_RMA_EVENT)},
	// conformance: fi_getinfo(3): FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE ...
	{"CapsOfAContextThatOnlyWrites",
	 ASK(hints.caps = FI_MSG | FI_RMA; hints.tx_attr->caps = FI_WRITE | FI_SEND), nullptr,
	 ANSWER((info.tx_attr->caps & (FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE)) ==
		(FI_MSG | FI_RMA | FI_SEND | FI_WRITE))},
	{"CapsOfAContextThatIsRead", ASK(hints.rx_attr->caps = FI_REMOTE_READ), nullptr,
	 ANSWER((info.rx_attr->caps & (FI_MSG | FI_RMA | FI_ATOMIC | FI_REMOTE_READ |
				       FI_REMOTE_WRITE)) == (FI_RMA | FI_ATOMIC | FI_REMOTE_READ))},
	{"CapsOfAContextThatHasNoDirection",
	 ASK(hints.caps = FI_MSG | FI_RMA; hints.tx_attr->caps = FI_RECV | FI_REMOTE_WRITE),
	 nullptr, ANSWER(!(info.tx_attr->caps & (FI_MSG | FI_RMA | FI_SEND | FI_WRITE)))},
	{"CapsMultiRecv", ASK(hints.caps = FI_MSG | FI_MULTI_RECV), nullptr,
	 ANSWER(info.caps &info.rx_attr->caps &FI_MULTI_RECV)},
	{"CapsRemoteComm", ASK(hints.caps = FI_MSG | FI_REMOTE_COMM), "FI_REMOTE_COMM", nullptr},
	{"CapsHmem", ASK(hints.caps = FI_MSG | FI_HMEM), "FI_HMEM", nullptr},
	// conformance: fi_domain(3): caps: FI_XPU (FI_XPU_TRIGGER in the header) requires ...
	// conformance: fi_trigger(3): endpoints must be created with both FI_TRIGGER and ...
	{"CapsXpuAlone", ASK(hints.caps = FI_MSG | FI_XPU_TRIGGER), "FI_XPU needs FI_TRIGGER",
	 nullptr},
	// conformance: fi_domain(3): caps: FI_XPU (FI_XPU_TRIGGER in the header) requires
	//   FI_TRIGGER; it is given on request; with FI_HMEM: -FI_ENODATA
	{"CapsXpu", ASK(hints.caps = FI_MSG | FI_TRIGGER | FI_XPU_TRIGGER), nullptr,
	 ANSWER(info.caps &info.tx_attr->caps &info.rx_attr->caps &FI_XPU_TRIGGER)},
	// conformance: fi_domain(3): caps: FI_XPU (FI_XPU_TRIGGER in the header) requires ...
	{"CapsXpuNotAsked", ASK(hints.caps = FI_MSG | FI_TRIGGER), nullptr,
	 ANSWER(!((info.caps | info.tx_attr->caps | info.rx_attr->caps) & FI_XPU_TRIGGER))},
	// conformance: fi_domain(3): caps: FI_XPU (FI_XPU_TRIGGER in the header) requires ...
	{"CapsXpuOfDeviceMemory", ASK(hints.caps = FI_MSG | FI_TRIGGER | FI_XPU_TRIGGER | FI_HMEM),
	 "FI_HMEM", nullptr},
	// conformance: fi_getinfo(3): FI_SOURCE_ERR: must be paired with FI_SOURCE
	{"CapsSourceErrAlone", ASK(hints.caps = FI_MSG | FI_SOURCE_ERR), "FI_SOURCE_ERR", nullptr},
	// conformance: fi_getinfo(3): FI_SOURCE_ERR: must be paired with FI_SOURCE
	{"CapsSourceErrAloneOfOneSide", ASK(hints.rx_attr->caps = FI_MSG | FI_SOURCE_ERR),
	 "FI_SOURCE_ERR", nullptr},
	{"CapsXpuAloneOfOneSide", ASK(hints.tx_attr->caps = FI_MSG | FI_SEND | FI_XPU_TRIGGER),
	 "FI_XPU", nullptr},
	{"CapsSourceErr", ASK(hints.caps = FI_MSG | FI_SOURCE | FI_SOURCE_ERR), nullptr,
	 ANSWER(info.caps &info.rx_attr->caps &FI_SOURCE_ERR)},
	{"CapsOfOneSideOnly", ASK(hints.rx_attr->caps = FI_MSG | FI_SOURCE | FI_SOURCE_ERR),
	 nullptr, ANSWER(info.caps &info.rx_attr->caps &FI_SOURCE_ERR)},
	{"CapsSource", ASK(hints.caps = FI_MSG | FI_SOURCE), nullptr, ANSWER(info.caps &FI_SOURCE)},
	{"CapsDirectedAlone", ASK(hints.caps = FI_DIRECTED_RECV), nullptr,
	 ANSWER(info.rx_attr->caps &FI_DIRECTED_RECV)},
	{"CapsDirected", ASK(hints.caps = FI_TAGGED | FI_DIRECTED_RECV), nullptr,
	 ANSWER(info.rx_attr->caps &FI_DIRECTED_RECV)},
	// conformance: fi_getinfo(3): FI_MSG_PREFIX is never required; set if the hints set it,
	//   with msg_prefix_size 0: buffers begin with no bytes for the provider
	{"ModeNone", ASK(hints.mode = 0), nullptr, ANSWER(info.mode == 0)},
	// conformance: fi_getinfo(3): FI_MSG_PREFIX is never required; set if the hints set it, ...
	{"ModeAll", ASK(hints.mode = ~0ULL), nullptr,
	 ANSWER(info.mode == FI_MSG_PREFIX && info.tx_attr->mode == FI_MSG_PREFIX &&
		info.ep_attr->msg_prefix_size == 0)},
	// conformance: fi_getinfo(3): FI_MSG_PREFIX is never required; set if the hints set it, ...
	{"ModeMsgPrefix", ASK(hints.mode = FI_MSG_PREFIX), nullptr,
	 ANSWER(info.mode &info.tx_attr->mode &info.rx_attr->mode &FI_MSG_PREFIX &&info.ep_attr
			->msg_prefix_size == 0)},
	{"ModeMsgPrefixOneWay", ASK(hints.tx_attr->mode = FI_MSG_PREFIX), nullptr,
	 ANSWER(info.mode == FI_MSG_PREFIX && info.tx_attr->mode == FI_MSG_PREFIX &&
		info.rx_attr->mode == 0)},
	// conformance: fi_getinfo(3): FI_MSG_PREFIX is never required; set if the hints set it, ...
	{"MsgPrefixSize", ASK(hints.ep_attr->msg_prefix_size = 8), nullptr,
	 ANSWER(info.ep_attr->msg_prefix_size == 0)},
	// conformance: fi_domain(3): mode: FI_RESTRICTED_COMP is not set, and is cleared if the
	//   hints set it: any queue goes with any endpoint
	{"ModeRestrictedComp", ASK(hints.domain_attr->mode = FI_RESTRICTED_COMP), nullptr,
	 ANSWER(info.domain_attr->mode == 0)},
	{"FormatStr", ASK(hints.addr_format = FI_ADDR_STR), nullptr,
	 ANSWER(info.addr_format == FI_ADDR_STR)},
	{"FormatSockaddr", ASK(hints.addr_format = FI_SOCKADDR), nullptr,
	 ANSWER(info.addr_format == FI_SOCKADDR_IN)},
	{"FormatIp", ASK(hints.addr_format = sockaddr_ip), nullptr,
	 ANSWER(info.addr_format == FI_SOCKADDR_IN && info.next &&
		info.next->addr_format == FI_SOCKADDR_IN6)},
	{"FormatIn6", ASK(hints.addr_format = FI_SOCKADDR_IN6), nullptr,
	 ANSWER(info.addr_format == FI_SOCKADDR_IN6)},
	{"FormatIb", ASK(hints.addr_format = FI_SOCKADDR_IB), "addr_format", nullptr},
	{"Protocol", ASK(hints.ep_attr->protocol = FI_PROTO_UDP), "ep_attr->protocol", nullptr},
	{"ProtocolVersion", ASK(hints.ep_attr->protocol_version = 99), "protocol_version", nullptr},
	{"MaxMsgSize", ASK(hints.ep_attr->max_msg_size = SIZE_MAX), "max_msg_size", nullptr},
	{"MaxMsgSizeSmall", ASK(hints.ep_attr->max_msg_size = 1), nullptr,
	 ANSWER(info.ep_attr->max_msg_size >= 1)},
	{"SharedTx", ASK(hints.ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT), nullptr,
	 ANSWER(info.ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT && info.ep_attr->rx_ctx_cnt == 1)},
	{"SharedRx", ASK(hints.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT), nullptr,
	 ANSWER(info.ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT)},
	{"SeveralTx", ASK(hints.ep_attr->tx_ctx_cnt = 2), nullptr,
	 ANSWER(info.ep_attr->tx_ctx_cnt == 2 && info.ep_attr->rx_ctx_cnt == 1 &&
		info.domain_attr->max_ep_tx_ctx >= 2)},
	{"SeveralRx", ASK(hints.ep_attr->rx_ctx_cnt = 4), nullptr,
	 ANSWER(info.ep_attr->rx_ctx_cnt == 4 && info.domain_attr->max_ep_rx_ctx >= 4)},
	{"TooManyTx", ASK(hints.ep_attr->tx_ctx_cnt = 100000), "tx_ctx_cnt", nullptr},
	{"SharedAndSeveral",
	 ASK(hints.ep_attr->tx_ctx_cnt = 2; hints.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT), nullptr,
	 ANSWER(info.ep_attr->tx_ctx_cnt == 2 && info.ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT)},
	{"NamedRxCtx", ASK(hints.caps = FI_MSG | FI_NAMED_RX_CTX), nullptr,
	 ANSWER(info.caps &FI_NAMED_RX_CTX &&info.tx_attr->caps &FI_NAMED_RX_CTX)},
	{"TagFormat", ASK(hints.ep_attr->mem_tag_format = 0x30ff), nullptr,
	 ANSWER(info.ep_attr->mem_tag_format == 0x30ff)},
	{"ThreadFid", ASK(hints.domain_attr->threading = FI_THREAD_FID), nullptr,
	 ANSWER(info.domain_attr->threading == FI_THREAD_FID)},
	{"ThreadDomain", ASK(hints.domain_attr->threading = FI_THREAD_DOMAIN), nullptr,
	 ANSWER(info.domain_attr->threading == FI_THREAD_DOMAIN)},
	{"ThreadCompletion", ASK(hints.domain_attr->threading = FI_THREAD_COMPLETION), nullptr,
	 ANSWER(info.domain_attr->threading == FI_THREAD_COMPLETION)},
	{"ThreadEndpoint", ASK(hints.domain_attr->threading = FI_THREAD_ENDPOINT), nullptr,
	 ANSWER(info.domain_attr->threading == FI_THREAD_ENDPOINT)},
	{"ThreadUnknown", ASK(hints.domain_attr->threading = fi_threading(77)), "threading",
	 nullptr},
	{"DataProgressManual", ASK(hints.domain_attr->data_progress = FI_PROGRESS_MANUAL), nullptr,
	 ANSWER(info.domain_attr->data_progress == FI_PROGRESS_MANUAL)},
	{"ControlProgressManual", ASK(hints.domain_attr->control_progress = FI_PROGRESS_MANUAL),
	 nullptr, ANSWER(info.domain_attr->control_progress == FI_PROGRESS_MANUAL)},
	{"ControlProgressUnified", ASK(hints.domain_attr->control_progress = unified), nullptr,
	 ANSWER(info.domain_attr->control_progress == unified)},
	{"DataProgressUnified", ASK(hints.domain_attr->data_progress = unified), nullptr,
	 ANSWER(info.domain_attr->data_progress == unified)},
	{"DataProgressUnknown", ASK(hints.domain_attr->data_progress = fi_progress(4)),
	 "data_progress", nullptr},
	{"ResourcesDisabled", ASK(hints.domain_attr->resource_mgmt = FI_RM_DISABLED), nullptr,
	 ANSWER(info.domain_attr->resource_mgmt == FI_RM_ENABLED)},
	{"AvMap", ASK(hints.domain_attr->av_type = FI_AV_MAP), nullptr,
	 ANSWER(info.domain_attr->av_type == FI_AV_MAP)},
	{"AvTable", ASK(hints.domain_attr->av_type = FI_AV_TABLE), nullptr,
	 ANSWER(info.domain_attr->av_type == FI_AV_TABLE)},
	{"MrBasic", ASK(hints.domain_attr->mr_mode = FI_MR_BASIC), nullptr,
	 ANSWER(info.domain_attr->mr_mode == FI_MR_BASIC)},
	{"MrScalable", ASK(hints.domain_attr->mr_mode = FI_MR_SCALABLE), nullptr,
	 ANSWER(info.domain_attr->mr_mode == FI_MR_SCALABLE)},
	{"MrBasicAndMore", ASK(hints.domain_attr->mr_mode = FI_MR_BASIC | FI_MR_LOCAL), "mr_mode",
	 nullptr},
	{"MrEverything", ASK(hints.domain_attr->mr_mode = 0xffc), nullptr,
	 ANSWER(info.domain_attr->mr_mode == 0)},
	{"MrWanted",
	 ASK(hints.caps = FI_RMA; hints.domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR),
	 nullptr, ANSWER(info.domain_attr->mr_mode == (FI_MR_PROV_KEY | FI_MR_VIRT_ADDR))},
	{"MrKeySize", ASK(hints.domain_attr->mr_key_size = 16), nullptr,
	 ANSWER(info.domain_attr->mr_key_size == 8)},
	{"CqDataSize", ASK(hints.domain_attr->cq_data_size = 16), "cq_data_size", nullptr},
	{"MrIovLimit", ASK(hints.domain_attr->mr_iov_limit = 9), "mr_iov_limit", nullptr},
	{"OptimalCounts",
	 ASK(hints.domain_attr->cq_cnt = hints.domain_attr->cntr_cnt = hints.domain_attr->mr_cnt =
		     hints.domain_attr->tx_ctx_cnt = hints.domain_attr->rx_ctx_cnt = SIZE_MAX),
	 nullptr,
	 ANSWER(info.domain_attr->cq_cnt < SIZE_MAX && info.domain_attr->cntr_cnt < SIZE_MAX &&
		info.domain_attr->mr_cnt < SIZE_MAX && info.domain_attr->tx_ctx_cnt < SIZE_MAX &&
		info.domain_attr->rx_ctx_cnt < SIZE_MAX)},
	{"EpCnt", ASK(hints.domain_attr->ep_cnt = SIZE_MAX), "ep_cnt", nullptr},
	{"DomainCaps", ASK(hints.domain_attr->caps = FI_LOCAL_COMM), nullptr,
	 ANSWER(info.domain_attr->caps == (FI_LOCAL_COMM | FI_SHARED_AV))},
	{"DomainCapsRemote", ASK(hints.domain_attr->caps = FI_REMOTE_COMM), "domain_attr->caps",
	 nullptr},
	{"DomainSharedAv", ASK(hints.domain_attr->caps = FI_SHARED_AV), nullptr,
	 ANSWER(info.domain_attr->caps &FI_SHARED_AV)},
	{"CapsSharedAv", ASK(hints.caps = FI_MSG | FI_SHARED_AV), nullptr,
	 ANSWER(info.caps &FI_SHARED_AV)},
	{"DomainName", ASK(hints.domain_attr->name = strdup("eth0")), "domain_attr->name", nullptr},
	{"FabricName", ASK(hints.fabric_attr->name = strdup("10.0.0.0/8")), "fabric_attr->name",
	 nullptr},
	{"ProviderVersion", ASK(hints.fabric_attr->prov_version = FI_VERSION(99, 0)),
	 "prov_version", nullptr},
	{"InjectSize", ASK(hints.tx_attr->inject_size = 4097), "inject_size", nullptr},
	{"InjectSizeSmall", ASK(hints.tx_attr->inject_size = 64), nullptr,
	 ANSWER(info.tx_attr->inject_size >= 64)},
	{"TxSize", ASK(hints.tx_attr->size = 8192), nullptr, ANSWER(info.tx_attr->size >= 8192)},
	{"TxSizeHuge", ASK(hints.tx_attr->size = SIZE_MAX), "tx_attr->size", nullptr},
	{"RxSizeHuge", ASK(hints.rx_attr->size = SIZE_MAX), "rx_attr->size", nullptr},
	{"TxIov", ASK(hints.tx_attr->iov_limit = 9), "tx_attr->iov_limit", nullptr},
	{"RxIov", ASK(hints.rx_attr->iov_limit = 8), nullptr, ANSWER(info.rx_attr->iov_limit == 8)},
	{"RmaIov", ASK(hints.tx_attr->rma_iov_limit = 5), nullptr,
	 ANSWER(info.tx_attr->rma_iov_limit == 5)},
	{"RmaIovMany", ASK(hints.tx_attr->rma_iov_limit = 6), "rma_iov_limit", nullptr},
	{"Buffered", ASK(hints.rx_attr->total_buffered_recv = SIZE_MAX), nullptr,
	 ANSWER(info.rx_attr->total_buffered_recv >= 1 << 20 &&
		info.rx_attr->total_buffered_recv < SIZE_MAX)},
	{"TxOrderStrict", ASK(hints.tx_attr->msg_order = FI_ORDER_STRICT), nullptr,
	 ANSWER(!(FI_ORDER_STRICT & ~info.tx_attr->msg_order))},
	{"TxOrderData", ASK(hints.tx_attr->msg_order = FI_ORDER_DATA), "tx_attr->msg_order",
	 nullptr},
	{"TxOrderSas", ASK(hints.tx_attr->msg_order = FI_ORDER_SAS), nullptr,
	 ANSWER(info.tx_attr->msg_order &FI_ORDER_SAS)},
	{"CompOrderStrict", ASK(hints.tx_attr->comp_order = FI_ORDER_STRICT), "comp_order",
	 nullptr},
	{"TxOpFlags", ASK(hints.tx_attr->op_flags = FI_DELIVERY_COMPLETE), nullptr,
	 ANSWER(info.tx_attr->op_flags == FI_DELIVERY_COMPLETE)},
	{"TxOpFlagsMore", ASK(hints.tx_attr->op_flags = FI_MORE), "tx_attr->op_flags", nullptr},
	// conformance: fi_cq(3): FI_COMMIT_COMPLETE: only for persistent memory regions; there are
	//   none (FI_PMEM): -FI_EBADFLAGS
	{"TxOpFlagsCommit", ASK(hints.tx_attr->op_flags = FI_COMMIT_COMPLETE), "0x40000000",
	 nullptr},
	{"RxOpFlagsMultiRecv", ASK(hints.rx_attr->op_flags = FI_MULTI_RECV), nullptr,
	 ANSWER(info.rx_attr->op_flags == FI_MULTI_RECV)},
	{"RxOpFlagsLevels",
	 ASK(hints.rx_attr->op_flags = FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
				       FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE),
	 nullptr,
	 ANSWER(info.rx_attr->op_flags == (FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
					   FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE))},
	{"RxOpFlagsPeek", ASK(hints.rx_attr->op_flags = FI_PEEK), "rx_attr->op_flags", nullptr},
	{"TxCapsBeyondCaps", ASK(hints.caps = FI_MSG; hints.tx_attr->caps = FI_TAGGED),
	 "tx_attr->caps", nullptr},
	{"TxCapsOfTheOtherSide", ASK(hints.caps = FI_MSG; hints.tx_attr->caps = FI_MSG | FI_RECV),
	 nullptr, ANSWER(info.caps &FI_MSG)},
	{"TrafficClass", ASK(hints.tx_attr->tclass = FI_TC_LOW_LATENCY), nullptr,
	 ANSWER(info.tx_attr->tclass == FI_TC_LOW_LATENCY)},
};

class Negotiation : public testing::TestWithParam<Case>
{
};

// conformance: fi_domain(3): name: "treadle"
// conformance: fi_domain(3): FI_PROGRESS_MANUAL, and FI_PROGRESS_CONTROL_UNIFIED of 2.x, are
//   granted; progress is automatic but for messages by lanes
// conformance: fi_domain(3): FI_RM_DISABLED is granted, with the same protection
// conformance: fi_domain(3): mr_mode: FI_MR_LOCAL, RAW, ALLOCATED, MMU_NOTIFY, RMA_EVENT, ENDPOINT
//   are requirements; none is ever required
// conformance: fi_domain(3): mr_mode: FI_MR_VIRT_ADDR, FI_MR_PROV_KEY are not required; with RMA or
//   atomics they are granted to hints that have them, and no other bits are
TEST_P(Negotiation, Line)
{
	const Case &line = GetParam();
	Info hints = no_hints();
	int error;
	Log log;

	line.ask(*hints);
	const Info info = get_info(hints.get(), &error);
	if (line.refusal) {
		EXPECT_FALSE(info);
		EXPECT_EQ(error, -FI_ENODATA);
		EXPECT_TRUE(log.has(line.refusal)) << "log: " << log.all();
	} else {
		ASSERT_TRUE(info) << fi_strerror(-error) << ": " << log.all();
		EXPECT_TRUE(line.answer(*info)) << fi_tostr(info.get(), FI_TYPE_INFO);
	}
}

INSTANTIATE_TEST_SUITE_P(GetInfo, Negotiation, testing::ValuesIn(cases),
			 [](const auto &info) { return std::string(info.param.name); });

/* A refusal is logged only if treadle was asked for by name. */
TEST(GetInfo, ARefusalIsQuietUnlessTreadleWasAskedForByName)
{
	Info hints(fi_allocinfo());
	Log log;

	unsetenv("FI_PROVIDER");
	hints->ep_attr->type = FI_EP_MSG;
	hints->ep_attr->max_msg_size = SIZE_MAX;
	const Info answer = get_info(hints.get());
	for (const fi_info *info = answer.get(); info; info = info->next)
		EXPECT_STRNE(info->fabric_attr->prov_name, "treadle");
	EXPECT_EQ(log.all(), "");
}

/* --- versions of the interface ------------------------------------------------------- */

class Version : public testing::TestWithParam<int>
{
};

// conformance: fi_domain(3): mr_mode: FI_MR_UNSPEC, BASIC, SCALABLE (1.4 and earlier)
TEST_P(Version, IsServed)
{
	const std::uint32_t version = FI_VERSION(1, GetParam());
	const Info info = get_info(no_hints().get(), nullptr, version);

	ASSERT_TRUE(info);
	EXPECT_EQ(info->fabric_attr->api_version, version);
	EXPECT_EQ(info->domain_attr->mr_mode, version < FI_VERSION(1, 5) ? FI_MR_SCALABLE : 0);
	/* The version works, too. */
	Node node(no_hints(), version);
	Side side(node);
	const fi_addr_t self = side.insert(side.ep.get());
	char in = 0, out = 'x';
	ASSERT_EQ(fi_recv(side.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_send(side.ep.get(), &out, 1, nullptr, self, ctx(2)), 0);
	EXPECT_EQ(next(side.rx_cq.get()).op_context, ctx(1));
	EXPECT_EQ(next(side.tx_cq.get()).op_context, ctx(2));
	EXPECT_EQ(in, 'x');
}

INSTANTIATE_TEST_SUITE_P(GetInfo, Version, testing::Range(0, 18));

/* The first bytes of a structure, with no memory behind them. */
class Beginning
{
public:
	Beginning(const void *of, std::size_t size)
		: pages_(static_cast<char *>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
		  begin_(pages_ + page - size)
	{
		EXPECT_EQ(mprotect(pages_ + page, page, PROT_NONE), 0);
		std::memcpy(begin_, of, size);
	}
	~Beginning() { munmap(pages_, 2 * page); }
	template <class T> T *as() const { return reinterpret_cast<T *>(begin_); }

private:
	static constexpr std::size_t page = 4096;
	char *const pages_, *const begin_;
};

/* Structures of ABI 1.0, which libfabric passes on unchanged. */
TEST(GetInfo, StructuresOfOldCallersEndEarlier)
{
	Node node(no_hints(), FI_VERSION(1, 4));
	const Beginning of_domain(node.info->domain_attr, offsetof(fi_domain_attr, cntr_cnt));
	const Beginning of_ep(node.info->ep_attr, offsetof(fi_ep_attr, auth_key_size));
	fi_info info = *node.info;
	fid_domain *domain = nullptr;
	fid_ep *ep = nullptr;

	info.domain_attr = of_domain.as<fi_domain_attr>();
	info.ep_attr = of_ep.as<fi_ep_attr>();
	ASSERT_EQ(fi_domain(node.fabric.get(), &info, &domain, nullptr), 0);
	const Owned<fid_domain> owner(domain);
	ASSERT_EQ(fi_endpoint(domain, &info, &ep, nullptr), 0);
	EXPECT_EQ(fi_close(&ep->fid), 0);
}

/* The setting is read once, when libfabric starts, so another process is needed. */
// conformance: fi_domain(3): caps: FI_REMOTE_COMM is offered only if FI_TREADLE_ONE_NODE is set,
//   while no other nodes are reached
TEST(GetInfo, RemoteCommOnlyOnTheUsersWord)
{
	const char ask[] = "fi_info -p treadle -c 'FI_MSG|FI_REMOTE_COMM' >/dev/null";

	setenv("FI_TREADLE_ONE_NODE", "1", 1);
	EXPECT_EQ(std::system(ask), 0);
	setenv("FI_TREADLE_ONE_NODE", "0", 1);
	EXPECT_NE(std::system(ask), 0);
	unsetenv("FI_TREADLE_ONE_NODE");
	EXPECT_NE(std::system(ask), 0);
}

} // namespace
