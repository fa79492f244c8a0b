// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_CONNECTION_H
#define TREADLE_TESTS_FI_CONNECTION_H

#include <cstring>
#include <string>

#include "node.h"

/* Shared by the tests of connected endpoints. */

inline Info msg_hints()
{
	Info hints = hints_for(FI_MSG | FI_TAGGED);

	hints->ep_attr->type = FI_EP_MSG;
	return hints;
}

/* Sends to the peer of a connected endpoint. */
inline ssize_t sendmsg(fid_ep *ep, void *buf, std::size_t len, void *context, std::uint64_t flags)
{
	const iovec iov{buf, len};
	fi_msg msg{};

	msg.msg_iov = &iov;
	msg.iov_count = 1;
	msg.context = context;
	return fi_sendmsg(ep, &msg, flags);
}

/* An event about a connection, with its data; the reader frees info. */
struct CmEvent {
	std::uint32_t event = 0;
	fid *object = nullptr;
	Info info;
	std::string data;
};

/* Waits for an event; fails the test if there is none, or an error. */
inline CmEvent next_event(fid_eq *eq, std::size_t room = 512)
{
	alignas(fi_eq_cm_entry) char buf[1024];
	auto *entry = reinterpret_cast<fi_eq_cm_entry *>(buf);
	CmEvent out;
	const std::size_t len = sizeof(*entry) + room;
	const ssize_t n = fi_eq_sread(eq, &out.event, buf, len, patience, 0);

	EXPECT_GE(n, ssize_t{sizeof(*entry)}) << fi_strerror(static_cast<int>(-n));
	if (n < ssize_t{sizeof(*entry)})
		return out;
	out.object = entry->fid;
	out.info.reset(entry->info);
	out.data.assign(buf + sizeof(*entry), static_cast<std::size_t>(n) - sizeof(*entry));
	return out;
}

/* The same for an error, with its data. */
inline fi_eq_err_entry next_eq_error(fid_eq *eq, std::string *data = nullptr)
{
	fi_eq_err_entry error{};
	fi_eq_cm_entry entry;
	std::uint32_t event;

	EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof(entry), patience, 0), -FI_EAVAIL);
	EXPECT_EQ(fi_eq_readerr(eq, &error, 0), ssize_t{sizeof(error)});
	if (data)
		data->assign(static_cast<const char *>(error.err_data), error.err_data_size);
	return error;
}

inline ::testing::AssertionResult is_silent(fid_eq *eq)
{
	fi_eq_cm_entry entry;
	std::uint32_t event;
	const ssize_t n = fi_eq_sread(eq, &event, &entry, sizeof(entry), 20, 0);

	if (n == -FI_EAGAIN)
		return ::testing::AssertionSuccess();
	return ::testing::AssertionFailure() << "fi_eq_sread: " << n << ", event " << event;
}

/* Uses up a context's objects while it lives. */
class Exhausted
{
public:
	explicit Exhausted(Node &node)
	{
		static char memory;
		fid_mr *mr = nullptr;
		int rc = 0;

		while (!rc) {
			rc = fi_mr_reg(node.domain.get(), &memory, 1, FI_REMOTE_READ, 0,
				       regions_.size(), 0, &mr, nullptr);
			if (!rc)
				regions_.emplace_back(mr);
		}
		EXPECT_EQ(rc, -FI_ENOSPC);
	}

private:
	std::vector<Owned<fid_mr>> regions_;
};

/* A connected endpoint with queues of its own; not enabled. */
struct Active {
	Active(Node &node, const fi_info *info, bool own_eq = true)
		: eq(own_eq ? node.eq(FI_WAIT_UNSPEC) : nullptr), cq(node.cq())
	{
		fid_ep *e = nullptr;

		EXPECT_EQ(fi_endpoint(node.domain.get(), const_cast<fi_info *>(info), &e, this), 0);
		ep.reset(e);
		if (!ep)
			throw std::runtime_error("fi_endpoint");
		if (eq) {
			EXPECT_EQ(fi_ep_bind(e, &eq->fid, 0), 0);
		}
		EXPECT_EQ(fi_ep_bind(e, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	}
	explicit Active(Node &node) : Active(node, node.info.get()) {}

	Owned<fid_eq> eq;
	Owned<fid_cq> cq;
	Owned<fid_ep> ep;
};

/* A passive endpoint that listens. */
struct Listener {
	explicit Listener(Node &node) : Listener(node, node.info.get()) {}
	Listener(Node &node, fi_info *info, fi_wait_obj wait = FI_WAIT_UNSPEC) : eq(node.eq(wait))
	{
		fid_pep *p = nullptr;

		EXPECT_EQ(fi_passive_ep(node.fabric.get(), info, &p, this), 0);
		pep.reset(p);
		if (!pep)
			throw std::runtime_error("fi_passive_ep");
		EXPECT_EQ(fi_pep_bind(p, &eq->fid, 0), 0);
		EXPECT_EQ(fi_listen(p), 0);
	}

	std::vector<std::byte> address() const
	{
		std::size_t size = 0;

		fi_getname(&pep->fid, nullptr, &size);
		std::vector<std::byte> out(size);
		EXPECT_EQ(fi_getname(&pep->fid, out.data(), &size), 0);
		return out;
	}

	/* Reads a request. */
	CmEvent request()
	{
		CmEvent event = next_event(eq.get());

		EXPECT_EQ(event.event, std::uint32_t{FI_CONNREQ});
		EXPECT_EQ(event.object, &pep->fid);
		return event;
	}

	Owned<fid_eq> eq;
	Owned<fid_pep> pep;
};

#endif
