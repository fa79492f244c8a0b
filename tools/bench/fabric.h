// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What these programs need of libfabric, for any provider. */
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

namespace bench
{

using Clock = std::chrono::steady_clock;

inline uint64_t nanoseconds(Clock::duration d)
{
	return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
}

/* A libfabric call failed. These programs only report it. */
class Failure : public std::runtime_error
{
public:
	Failure(const std::string &what, int error)
		: std::runtime_error(what + ": " + fi_strerror(error))
	{
	}
};

inline ssize_t must(ssize_t rc, const char *what)
{
	if (rc < 0)
		throw Failure(what, static_cast<int>(-rc));
	return rc;
}

struct Close {
	template <class T> void operator()(T *object) const { fi_close(&object->fid); }
};
template <class T> using Fid = std::unique_ptr<T, Close>;

/*
 * Calls an opening function of libfabric. All of them end in the arguments "where to put it" and
 * "context".
 */
template <class T, class Call, class... Args> Fid<T> open(const char *what, Call call, Args... args)
{
	T *object = nullptr;
	must(call(args..., &object, nullptr), what);
	return Fid<T>(object);
}

struct FreeInfo {
	void operator()(fi_info *info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/*
 * Makes libfabric load its providers, once, before processes are forked: that takes long, as it
 * reads /proc/kallsyms, for example. Objects are opened after the fork, which few providers
 * survive.
 */
inline void load_providers()
{
	fi_info *names = nullptr;

	must(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &names),
	     "fi_getinfo");
	fi_freeinfo(names);
}

/* What a program asks of a provider. Sizes of 0 leave the choice to the provider. */
struct Need {
	std::string provider;
	uint64_t caps;
	size_t rx_size = 0;
	fi_ep_type type = FI_EP_RDM;
	std::string address = "127.0.0.1"; /* of this end, if the provider has such addresses */
	fi_progress progress = FI_PROGRESS_UNSPEC;
	fi_threading threading = FI_THREAD_DOMAIN;
};

/* The provider's endpoint of that type, or null if it has none. */
inline Info find(const Need &need)
{
	Info hints(fi_allocinfo());
	if (!hints)
		throw Failure("fi_allocinfo", FI_ENOMEM);
	hints->caps = need.caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = need.type;
	hints->rx_attr->size = need.rx_size;
	hints->domain_attr->threading = need.threading;
	hints->domain_attr->data_progress = need.progress;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	hints->fabric_attr->prov_name = strdup(need.provider.c_str());

	/* Providers without Internet addresses choose a name themselves. */
	fi_info *found = nullptr;
	hints->addr_format =
		need.address.find(':') == std::string::npos ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
	int rc = fi_getinfo(FI_VERSION(1, 17), need.address.c_str(), nullptr, FI_SOURCE,
			    hints.get(), &found);
	if (rc == -FI_ENODATA) {
		hints->addr_format = FI_FORMAT_UNSPEC;
		rc = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found);
	}
	if (rc == -FI_ENODATA)
		return nullptr;
	must(rc, "fi_getinfo");
	return Info(found);
}

/* What the other end needs in order to reach this one. Plain bytes, for a pipe. */
struct Card {
	uint8_t name[256];
	uint64_t addr; // of the buffer, for RMA
	uint64_t key;
};

/* Zeroed memory in pages of its own. */
class Buffer
{
public:
	explicit Buffer(size_t bytes)
		: size_((bytes + page - 1) & ~(page - 1)),
		  data_(static_cast<std::byte *>(std::aligned_alloc(page, size_)))
	{
		if (!data_)
			throw Failure("aligned_alloc", FI_ENOMEM);
		std::memset(data_.get(), 0, size_);
	}

	std::byte *data() const { return data_.get(); }
	size_t size() const { return size_; }

	static constexpr size_t page = 4096;

private:
	struct Free {
		void operator()(std::byte *p) const { std::free(p); }
	};
	size_t size_;
	std::unique_ptr<std::byte, Free> data_;
};

struct Shape {
	size_t bytes;		     // of the buffer
	uint64_t cq_flags = 0;	     // FI_SELECTIVE_COMPLETION, for example
	bool count_received = false; // open `received`
	bool events = false;	     // open `eq`
};

/*
 * One end of a conversation: a domain, an endpoint, a completion queue, an optional counter of
 * receives, and a buffer that the peer may access. It has a domain of its own even if both ends are
 * in one process.
 *
 * An FI_EP_MSG end listens. It opens its endpoint when it asks for a connection or answers a
 * request.
 */
class End
{
public:
	End(const fi_info *info, const Shape &shape)
		: connected(info->ep_attr->type == FI_EP_MSG), shape_(shape),
		  mr_mode_(info->domain_attr->mr_mode), info_(info),
		  fabric(open<fid_fabric>("fi_fabric", fi_fabric, info->fabric_attr)),
		  domain(open<fid_domain>("fi_domain", fi_domain, fabric.get(),
					  const_cast<fi_info *>(info))),
		  buffer(shape.bytes)
	{
		fi_av_attr av_attr{};
		av_attr.type = info->domain_attr->av_type;
		fi_cq_attr cq_attr{};
		cq_attr.format = FI_CQ_FORMAT_MSG;
		cq_attr.wait_obj = FI_WAIT_NONE;
		fi_cntr_attr cntr_attr{};
		cntr_attr.events = FI_CNTR_EVENTS_COMP;
		cntr_attr.wait_obj = FI_WAIT_UNSPEC;

		if (!connected)
			av = open<fid_av>("fi_av_open", fi_av_open, domain.get(), &av_attr);
		cq = open<fid_cq>("fi_cq_open", fi_cq_open, domain.get(), &cq_attr);
		if (shape.count_received)
			received = open<fid_cntr>("fi_cntr_open", fi_cntr_open, domain.get(),
						  &cntr_attr);
		if (shape.events || connected) {
			fi_eq_attr eq_attr{};
			eq_attr.wait_obj = connected ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
			eq = open<fid_eq>("fi_eq_open", fi_eq_open, fabric.get(), &eq_attr);
		}
		register_buffer(info);
		if (connected) {
			pep = open<fid_pep>("fi_passive_ep", fi_passive_ep, fabric.get(),
					    const_cast<fi_info *>(info));
			must(fi_pep_bind(pep.get(), &eq->fid, 0), "fi_pep_bind");
			must(fi_listen(pep.get()), "fi_listen");
		} else {
			open_endpoint(info);
		}
	}

	Card card() const
	{
		Card card{};
		size_t length = sizeof(card.name);
		must(fi_getname(connected ? &pep->fid : &ep->fid, card.name, &length),
		     "fi_getname");
		card.addr = remote_addr_;
		card.key = mr ? fi_mr_key(mr.get()) : 0;
		return card;
	}

	void meet(const Card &card)
	{
		peer_card = card;
		if (must(fi_av_insert(av.get(), card.name, 1, &peer, 0, nullptr), "fi_av_insert") !=
		    1)
			throw Failure("fi_av_insert", FI_EADDRNOTAVAIL);
	}

	/* FI_EP_MSG: one end asks, the other answers, then both wait for the connection. */
	void ask(const Card &card)
	{
		peer_card = card;
		peer = 0;
		open_endpoint(info_);
		must(fi_connect(ep.get(), card.name, nullptr, 0), "fi_connect");
	}
	void answer(const Card &card)
	{
		peer_card = card;
		peer = 0;
		const Info request = await_event(FI_CONNREQ);
		open_endpoint(request.get());
		must(fi_accept(ep.get(), nullptr, 0), "fi_accept");
	}
	void await_connection() { await_event(FI_CONNECTED); }

	/* Reads the completion queue once, and counts what has completed. */
	void progress()
	{
		fi_cq_msg_entry entry;
		ssize_t rc = fi_cq_read(cq.get(), &entry, 1);
		if (rc == 1)
			(entry.flags & FI_RECV ? rx_done : tx_done)++;
		else if (rc != -FI_EAGAIN)
			fail(rc);
	}

	void *desc() const { return local_ ? fi_mr_desc(mr.get()) : nullptr; }

	const bool connected;

private:
	const Shape shape_;
	const int mr_mode_;
	const fi_info *const info_; // valid while the ends connect

public:
	Fid<fid_fabric> fabric;
	Fid<fid_domain> domain;
	Buffer buffer;
	Fid<fid_av> av;
	Fid<fid_cq> cq;
	Fid<fid_cntr> received;
	Fid<fid_eq> eq;
	Fid<fid_pep> pep;
	Fid<fid_ep> ep;
	Fid<fid_mr> mr; // closed before the endpoint that it may be bound to

	fi_addr_t peer = FI_ADDR_UNSPEC;
	Card peer_card{};
	fi_context2 tx_context{}, rx_context{};
	uint64_t tx_done = 0, rx_done = 0;

private:
	void open_endpoint(const fi_info *info)
	{
		ep = open<fid_ep>("fi_endpoint", fi_endpoint, domain.get(),
				  const_cast<fi_info *>(info));
		if (av)
			must(fi_ep_bind(ep.get(), &av->fid, 0), "fi_ep_bind av");
		must(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV | shape_.cq_flags),
		     "fi_ep_bind cq");
		if (received)
			must(fi_ep_bind(ep.get(), &received->fid, FI_RECV), "fi_ep_bind cntr");
		if (eq)
			must(fi_ep_bind(ep.get(), &eq->fid, 0), "fi_ep_bind eq");
		must(fi_enable(ep.get()), "fi_enable");
		if (mr && mr_mode_ & FI_MR_ENDPOINT) {
			must(fi_mr_bind(mr.get(), &ep->fid, 0), "fi_mr_bind");
			must(fi_mr_enable(mr.get()), "fi_mr_enable");
		}
	}

	/* Waits for an event. Returns the fi_info of a request. */
	Info await_event(uint32_t expected)
	{
		fi_eq_cm_entry entry{};
		uint32_t event = 0;
		const ssize_t rc =
			fi_eq_sread(eq.get(), &event, &entry, sizeof(entry), patience, 0);
		fi_eq_err_entry error{};

		if (rc == -FI_EAVAIL && fi_eq_readerr(eq.get(), &error, 0) > 0)
			throw Failure("connection", error.err);
		must(rc, "fi_eq_sread");
		if (event != expected)
			throw Failure("connection", FI_EOTHER);
		return Info(entry.info);
	}

	void register_buffer(const fi_info *info)
	{
		const int mode = info->domain_attr->mr_mode;
		uint64_t access = 0;

		local_ = mode & FI_MR_LOCAL;
		if (local_)
			access |= FI_SEND | FI_RECV;
		if (info->caps & (FI_RMA | FI_ATOMIC))
			access |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
		if (!access)
			return;
		fid_mr *region = nullptr;
		must(fi_mr_reg(domain.get(), buffer.data(), buffer.size(), access, 0, next_key_++,
			       0, &region, nullptr),
		     "fi_mr_reg");
		mr.reset(region);
		if (mode & FI_MR_VIRT_ADDR)
			remote_addr_ = reinterpret_cast<uintptr_t>(buffer.data());
	}

	[[noreturn]] void fail(ssize_t rc)
	{
		fi_cq_err_entry entry{};
		if (rc == -FI_EAVAIL && fi_cq_readerr(cq.get(), &entry, 0) == 1)
			throw Failure("completion", entry.err);
		throw Failure("fi_cq_read", static_cast<int>(-rc));
	}

	static constexpr int patience = 10000; // ms
	/* Two ends in one process may share one space of keys. */
	static inline uint64_t next_key_ = 1;
	uint64_t remote_addr_ = 0;
	bool local_ = false;
};

} // namespace bench
