// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "memory/mr.h"

#include <cstring>

#include "base/buffers.h"
#include "base/later.h"
#include "endpoint/port.h"
#include "notify/cntr.h"

namespace treadle::fi
{

namespace
{

struct Right {
	std::uint64_t flag;
	std::uint32_t kernel;
};
constexpr Right rights[] = {
	{FI_SEND, TREADLE_ACCESS_SEND},
	{FI_RECV, TREADLE_ACCESS_RECV},
	{FI_READ, TREADLE_ACCESS_READ},
	{FI_WRITE, TREADLE_ACCESS_WRITE},
	{FI_REMOTE_READ, TREADLE_ACCESS_REMOTE_READ},
	{FI_REMOTE_WRITE, TREADLE_ACCESS_REMOTE_WRITE},
	{FI_COLLECTIVE, 0}, /* collectives need no region */
};

/* Converts access rights to the kernel's. Returns the unknown ones. */
std::uint64_t translate(std::uint64_t access, std::uint32_t &kernel) noexcept
{
	kernel = 0;
	for (const Right &right : rights) {
		if (access & right.flag)
			kernel |= right.kernel;
		access &= ~right.flag;
	}
	return access;
}

/*
 * FI_MR_DMABUF: the range is an offset in a dma-buf. Domains need no FI_HMEM for it. Logs why it is
 * refused.
 */
int take_dmabuf(const Domain &domain, const fi_mr_attr &attr, bool pinned, iovec &range,
		MemoryRegion::Options &options) noexcept
{
	const auto &buffer = *reinterpret_cast<const later::fi_mr_dmabuf *>(attr.mr_iov);

	if (!(domain.kernel().limits().features & TREADLE_FEATURE_MR_DMABUF))
		return REFUSE(-FI_EOPNOTSUPP, FI_LOG_MR, "reg: the kernel has no dma-bufs");
	if (attr.iov_count != 1 || pinned)
		return REFUSE(-FI_EINVAL, FI_LOG_MR, "reg: FI_MR_DMABUF: %zu buffers%s, not one",
			      attr.iov_count, pinned ? ", pinned" : "");
	if (buffer.fd < 0)
		return REFUSE(-FI_EBADF, FI_LOG_MR, "reg: FI_MR_DMABUF: file %d", buffer.fd);
	/* an offset, which the kernel takes as the address of the range */
	range = {reinterpret_cast<void *>(buffer.offset), buffer.len};
	options.flags |= TREADLE_MR_DMABUF;
	options.dmabuf = buffer.fd;
	if (domain.mr_mode() & FI_MR_VIRT_ADDR)
		options.base = address_of(buffer.base_addr);
	return 0;
}

/* Logs why a registration has failed. Returns rc. */
int failed(int rc, const fi_mr_attr &attr, const Buffers &buffers,
	   const MemoryRegion::Options &options) noexcept
{
	const treadle_iov &first = buffers.span().front();

	if (!(options.flags & TREADLE_MR_DMABUF))
		return REFUSE(rc, FI_LOG_MR, "reg: %zu buffers, 0x%llx, %llu bytes, key 0x%" PRIx64,
			      attr.iov_count, first.addr, first.len, attr.requested_key);
	if (rc == -FI_EOPNOTSUPP)
		return REFUSE(rc, FI_LOG_MR,
			      "reg: FI_MR_DMABUF: file %d: the processor does not reach its memory "
			      "(the exporter maps none, or that of a device)",
			      options.dmabuf);
	return REFUSE(rc, FI_LOG_MR,
		      "reg: FI_MR_DMABUF: file %d, offset 0x%llx, %llu bytes, key 0x%" PRIx64,
		      options.dmabuf, first.addr, first.len, attr.requested_key);
}

} // namespace

fi_ops_mr Mr::ops{
	.size = sizeof(fi_ops_mr),
	.reg = Mr::reg,
	.regv = Mr::regv,
	.regattr = Mr::regattr,
};

/* Memory that the kernel reads and writes until the registration is done. */
class Mr::Request final : public Eq::Pending
{
public:
	Request(Mr &mr, const Buffers &buffers, const MemoryRegion::Options &options)
		: Pending(mr.domain_.kernel(), buffers.span(), options), mr_(mr)
	{
	}

	int finish(::fid *&owner) noexcept override
	{
		Mr &mr = mr_;
		auto kernel = result();

		owner = &mr.fid;
		mr.pending_.reset(); /* destroys this */
		if (!kernel)
			return fabric_error(negative(kernel.error()));
		const std::uint64_t key = kernel->key();
		mr.registered_.store(&mr.kernel_.emplace(std::move(*kernel)),
				     std::memory_order_release);
		std::atomic_ref(mr.key).store(key, std::memory_order_release);
		return 0;
	}

private:
	Mr &mr_;
};

Mr::Mr(Domain &domain, void *context) noexcept
	: Object(context), domain_(domain), domain_use_(domain.users), events_(domain.mr_events())
{
	mem_desc = this;
	key = FI_KEY_NOTAVAIL;
}

int Mr::reg(::fid *domain, const void *buf, std::size_t len, std::uint64_t access,
	    std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr **out,
	    void *context) noexcept
{
	const iovec iov{const_cast<void *>(buf), len};

	return regv(domain, &iov, 1, access, offset, key, flags, out, context);
}

int Mr::regv(::fid *domain, const iovec *iov, std::size_t count, std::uint64_t access,
	     std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr **out,
	     void *context) noexcept
{
	fi_mr_attr attr{};

	attr.mr_iov = iov;
	attr.iov_count = count;
	attr.access = access;
	attr.offset = offset;
	attr.requested_key = key;
	attr.context = context;
	return regattr(domain, &attr, flags, out);
}

int Mr::regattr(::fid *f, const fi_mr_attr *attr, std::uint64_t flags, fid_mr **out) noexcept
{
	Domain *const domain = Domain::known(f);

	if (!domain || !attr)
		return REFUSE(-FI_EINVAL, subsys, "reg: needs a domain of %s and a fi_mr_attr",
			      name);
	return reg(*domain, *attr, flags, false, out);
}

int Mr::reg_pinned(fid_domain *f, const fi_mr_attr *attr, std::uint64_t flags,
		   fid_mr **out) noexcept
{
	Domain *const domain = Domain::known(f);

	if (!domain || !attr)
		return REFUSE(-FI_EINVAL, subsys,
			      "mr_regpinned: needs a domain of %s and a fi_mr_attr", name);
	return reg(*domain, *attr, flags, true, out);
}

/*
 * FI_RMA_EVENT announces a counter that will be bound. It has no effect here, because no mode
 * returned by this provider asks for it. iface is ignored: it counts only with FI_HMEM, which is
 * not offered.
 */
int Mr::reg(Domain &domain, const fi_mr_attr &attr, std::uint64_t flags, bool pinned,
	    fid_mr **out) noexcept
{
	MemoryRegion::Options options{};

	if (!out)
		return REFUSE(-FI_EINVAL, subsys, "reg: nowhere to put the region");
	const bool dmabuf = flags & later::FI_MR_DMABUF;
	if (flags & ~(FI_RMA_EVENT | later::FI_MR_DMABUF))
		return REFUSE(-FI_EBADFLAGS, subsys, "reg: flags 0x%" PRIx64, flags);
	if (attr.offset)
		return REFUSE(-FI_EINVAL, subsys, "reg: offset is reserved");
	if (!attr.mr_iov)
		return REFUSE(-FI_EINVAL, subsys, "reg: needs an mr_iov");
	iovec range{};
	if (dmabuf) {
		if (const int rc = take_dmabuf(domain, attr, pinned, range, options))
			return rc;
	}
	const Buffers buffers(dmabuf ? &range : attr.mr_iov, attr.iov_count);
	if (!attr.iov_count || buffers.too_many())
		return REFUSE(-FI_EINVAL, subsys, "reg: %zu buffers, mr_iov_limit is %d",
			      attr.iov_count, TREADLE_MAX_MR_IOV);
	if (const std::uint64_t unknown = translate(attr.access, options.access))
		return REFUSE(-FI_EINVAL, subsys, "reg: access 0x%" PRIx64 " is unknown", unknown);
	if (domain.mr_mode() & FI_MR_PROV_KEY)
		options.flags |= TREADLE_MR_KERNEL_KEY;
	else /* any, even FI_KEY_NOTAVAIL: MPICH asks for 2^64 - 1, and other providers take it */
		options.key = attr.requested_key;
	if (domain.mr_mode() & FI_MR_VIRT_ADDR)
		options.flags |= TREADLE_MR_VIRT_ADDR;
	/*
	 * Without FI_MR_ALLOCATED, memory may be mapped after the registration: what counts is
	 * there when a peer accesses it.
	 */
	if (pinned)
		options.flags |= TREADLE_MR_PINNED;
	else if (!dmabuf && !(domain.mr_mode() & FI_MR_ALLOCATED) &&
		 domain.kernel().limits().features & TREADLE_FEATURE_MR_IOV)
		options.flags |= TREADLE_MR_UNMAPPED;
	options.auth_key = domain.auth_key();
	const bool has_key = FI_VERSION_GE(domain.api(), FI_VERSION(1, 5)) && attr.auth_key_size;
	if (has_key && !attr.auth_key)
		return REFUSE(-FI_EINVAL, subsys, "reg: auth_key_size %zu, but auth_key is NULL",
			      attr.auth_key_size);
	if (has_key)
		options.auth_key = std::as_bytes(std::span(attr.auth_key, attr.auth_key_size));

	return guard([&] {
		std::unique_ptr<Mr> own(new Mr(domain, attr.context));
		if (domain.mr_mode() & FI_MR_VIRT_ADDR)
			own->base_ = options.base + buffers.span().front().addr;
		own->auth_key_.assign(options.auth_key.begin(), options.auth_key.end());
		options.auth_key = own->auth_key_;
		own->pending_ = std::make_unique<Request>(*own, buffers, options);
		Mr *const mr = own.release();
		/*
		 * The event may be read and the region closed as soon as the registration has
		 * begun.
		 */
		*out = mr;
		if (mr->events_ && !mr->events_->begin(*mr->pending_))
			return 0;
		own.reset(mr);
		*out = nullptr;
		Eq::Reserve event(mr->events_ ? 1 : 0);
		if (const int rc = mr->register_now())
			return failed(rc, attr, buffers, options);
		*out = own.release();
		if (mr->events_)
			mr->events_->report(event, mr->fid);
		return 0;
	});
}

int Mr::address(fid_mr *f, std::uint64_t *address) noexcept
{
	Mr *const mr = f ? Mr::known(&f->fid) : nullptr;

	if (!mr || !address)
		return REFUSE(-FI_EINVAL, subsys, "mr_address: NULL, or no region of %s", name);
	const MemoryRegion *const kernel = mr->registered("mr_address");
	if (!kernel)
		return -FI_EOPBADSTATE;
	if (!kernel->address())
		return REFUSE(-FI_EINVAL, subsys, "mr_address: the region is no dma-buf");
	if (!mr->domain_.show_buffers())
		return REFUSE(
			-FI_EOPBADSTATE, subsys,
			"mr_address: an endpoint of the domain has lanes (FI_PROGRESS_MANUAL), "
			"and copies from and to buffers itself");
	*address = kernel->address();
	return 0;
}

int Mr::register_now() noexcept
{
	::fid *self;

	pending_->run();
	return pending_->finish(self);
}

/* Takes finished registrations itself, so it also works if the application reads no events. */
MemoryRegion *Mr::registered(const char *call) noexcept
{
	MemoryRegion *region = registered_.load(std::memory_order_acquire);

	if (!region && events_) {
		events_->take_finished();
		region = registered_.load(std::memory_order_acquire);
	}
	if (!region)
		REFUSE(-FI_EOPBADSTATE, subsys, "%s: is not registered, or not yet", call);
	return region;
}

int Mr::bind(::fid *other, std::uint64_t flags)
{
	MemoryRegion *const kernel = registered("bind");
	int rc;

	if (!kernel)
		return -FI_EOPBADSTATE;
	if (Cntr *const cntr = Cntr::known(other)) {
		if (&cntr->domain() != &domain_)
			return REFUSE(-FI_EDOMAIN, subsys, "bind: counter of another domain");
		/*
		 * fi_mr(3) has no events for reads. MPICH passes both flags and only wants writes.
		 */
		if ((flags & ~FI_REMOTE_READ) != FI_REMOTE_WRITE)
			return REFUSE(-FI_EBADFLAGS, subsys,
				      "bind: a counter counts FI_REMOTE_WRITE, not 0x%" PRIx64,
				      flags);
		const Cntr::Kept &kept = cntr->keep();
		rc = negative(kernel->bind(cntr->id()));
		if (!rc)
			cntr_ = kept;
	} else if (Port *const port = Port::known(other);
		   port && other->fclass != FI_CLASS_TX_CTX && other->fclass != FI_CLASS_SRX_CTX) {
		if (&port->endpoint().domain() != &domain_)
			return REFUSE(-FI_EDOMAIN, subsys, "bind: endpoint of another domain");
		/* "should be 0", fi_mr(3); SOS passes the accesses of its peers. */
		if (flags & ~(FI_REMOTE_READ | FI_REMOTE_WRITE))
			return REFUSE(-FI_EBADFLAGS, subsys,
				      "bind: flags for an endpoint: 0x%" PRIx64, flags);
		rc = port->endpoint().bind_region(*kernel);
	} else {
		return not_bound_to(*other);
	}
	return rc ? REFUSE(fabric_error(rc), subsys, "bind") : 0;
}

int Mr::prepare_close() noexcept
{
	if (events_)
		events_->withdraw(pending_, fid);
	const int rc = kernel_ ? negative(kernel_->close()) : 0;

	return rc ? REFUSE(fabric_error(rc), subsys, "close") : 0;
}

int Mr::raw_attr(const struct fi_mr_raw_attr &attr) noexcept
{
	if (!registered("raw_attr"))
		return -FI_EOPBADSTATE;
	if (attr.flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "raw_attr: flags 0x%" PRIx64, attr.flags);
	if (!attr.key_size || (*attr.key_size && !attr.raw_key))
		return REFUSE(-FI_EINVAL, subsys,
			      "raw_attr: needs a key_size, and a raw_key of it");
	const std::size_t room = *attr.key_size;
	*attr.key_size = sizeof(key);
	if (room < sizeof(key))
		return too_small(subsys, "raw_attr", room, sizeof(key));
	std::memcpy(attr.raw_key, &key, sizeof(key));
	if (attr.base_addr)
		*attr.base_addr = base_;
	return 0;
}

int Mr::control(int command, void *arg) noexcept
{
	switch (command) {
	case FI_ENABLE: /* enabled since it was registered */
		return registered("enable") ? 0 : -FI_EOPBADSTATE;
	case FI_REFRESH: /* nothing to do: the kernel follows changes of its pages */
		if (!registered("refresh"))
			return -FI_EOPBADSTATE;
		if (const auto flags = static_cast<const fi_mr_modify *>(arg)->flags)
			return REFUSE(-FI_EBADFLAGS, subsys, "refresh: flags 0x%" PRIx64, flags);
		return 0;
	case FI_GET_RAW_MR:
		return raw_attr(*static_cast<struct fi_mr_raw_attr *>(arg));
	default:
		return Object::control(command, arg);
	}
}

} // namespace treadle::fi
