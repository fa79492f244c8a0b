// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "names/av.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <numeric>

#include <arpa/inet.h>

#include "names/avset.h"

namespace treadle::fi
{

namespace
{

constexpr std::uint64_t insert_flags = FI_MORE | FI_SYNC_ERR | FI_AV_USER_ID;

/* The most addresses of one call. There would be no memory for more. */
constexpr std::size_t most_inserted = std::numeric_limits<std::uint32_t>::max();

/* The most entries of map_addr. No attribute announces it, but some programs read it. */
constexpr std::size_t most_mapped = 65536;

/* The address plus n: 10.1.1.1 and 3 give 10.1.1.4. */
Address advanced(Address address, std::size_t n) noexcept
{
	const std::size_t size = address.family == AF_INET6 ? 16 : 4;

	for (std::size_t i = size; i-- > 0 && n; n >>= 8) {
		n += address.addr[i];
		address.addr[i] = static_cast<std::uint8_t>(n);
	}
	return address;
}

/* The host name plus n: host10 and 3 give host13; node09 and 1, node10. */
std::string advanced(const std::string &host, std::size_t n)
{
	const std::size_t digits = host.find_last_not_of("0123456789") + 1;
	std::size_t number = 0;

	if (!n)
		return host;
	if (std::from_chars(host.data() + digits, host.data() + host.size(), number).ec !=
	    std::errc())
		return {};
	const std::string next = std::to_string(number + n);
	const std::size_t width = std::max(host.size() - digits, next.size());
	return host.substr(0, digits) + std::string(width - next.size(), '0') + next;
}

/* The first address of the domain's format; family 0 if there is none. */
Address resolve_one(std::uint32_t format, const char *node, const char *service)
{
	for (const Address &address : resolve(node, service, false)) {
		if (format == FI_ADDR_STR || format_of(address.family, format) == format)
			return address;
	}
	return {};
}

bool is_numeric(const char *node) noexcept
{
	unsigned char buf[sizeof(in6_addr)];

	return inet_pton(AF_INET, node, buf) == 1 || inet_pton(AF_INET6, node, buf) == 1;
}

/* Refused: keys belong to domains, endpoints and regions here. */
int insert_auth_key(fid_av *, const void *, std::size_t, fi_addr_t *, std::uint64_t) noexcept
{
	return REFUSE(-FI_ENOSYS, FI_LOG_AV, "insert_auth_key: FI_AV_AUTH_KEY is not offered");
}

int look_up_auth_key(fid_av *, fi_addr_t, void *, std::size_t *) noexcept
{
	return REFUSE(-FI_ENOSYS, FI_LOG_AV, "lookup_auth_key: FI_AV_AUTH_KEY is not offered");
}

} // namespace

later::ops_av Av::av_ops{
	.first =
		{
			.size = sizeof(later::ops_av),
			.insert = Av::insert,
			.insertsvc = Av::insert_service,
			.insertsym = Av::insert_symmetric,
			.remove = Av::remove,
			.lookup = Av::look_up,
			.straddr = Av::describe,
			.av_set = opens<AvSet::open>,
		},
	.insert_auth_key = fi::insert_auth_key,
	.lookup_auth_key = fi::look_up_auth_key,
	.set_user_id = Av::set_user_id,
};

Av::Av(Domain &domain, AddressVector kernel, bool asynchronous, Ids ids, void *context)
	: Object(context), domain_(domain), domain_use_(domain.users), kernel_(std::move(kernel)),
	  asynchronous_(asynchronous), ids_(ids)
{
	ops = &av_ops.first;
}

int Av::open(fid_domain *domain, fi_av_attr *attr, fid_av **out, void *context) noexcept
{
	Domain &in = Domain::of(domain);

	if (!attr)
		return REFUSE(-FI_EINVAL, subsys, "open: needs a fi_av_attr");
	if ((attr->name && !*attr->name) || (attr->flags & FI_READ && !attr->name))
		return REFUSE(-FI_EINVAL, subsys, "open: needs a name for FI_READ, and not \"\"");
	if (attr->flags & ~(FI_EVENT | FI_READ | FI_SYMMETRIC | FI_AV_USER_ID))
		return REFUSE(-FI_EBADFLAGS, subsys, "open: flags 0x%" PRIx64, attr->flags);
	/* A shared vector has no identifiers: they would be those of one process. */
	Ids ids = Ids::none;
	if (!attr->name && in.user_ids())
		ids = attr->flags & FI_AV_USER_ID ? Ids::set : Ids::inserted;
	if (attr->flags & FI_AV_USER_ID &&
	    !(ids == Ids::set && in.kernel().limits().features & TREADLE_FEATURE_AV_SET_ID))
		return REFUSE(-FI_EBADFLAGS, subsys,
			      "open: FI_AV_USER_ID needs that capability of the domain, a vector "
			      "without a name, and a module that has AV_SET_ID");
	if (attr->type != FI_AV_UNSPEC && attr->type != FI_AV_MAP && attr->type != FI_AV_TABLE)
		return REFUSE(-FI_EINVAL, subsys, "open: type %d", attr->type);
	if (attr->type && in.av_type() && attr->type != in.av_type())
		return REFUSE(-FI_EINVAL, subsys, "open: type %s, the domain's is %s",
			      Text(attr->type, FI_TYPE_AV_TYPE).c_str(),
			      Text(in.av_type(), FI_TYPE_AV_TYPE).c_str());
	if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > TREADLE_RX_CTX_BITS)
		return REFUSE(-FI_EINVAL, subsys, "open: rx_ctx_bits %d: 0 to %d",
			      attr->rx_ctx_bits, TREADLE_RX_CTX_BITS);

	const std::size_t expected =
		std::min<std::size_t>(attr->count, in.kernel().limits().max_av);
	const std::string_view name = attr->name ? attr->name : "";
	const auto count = static_cast<std::uint32_t>(expected);
	const auto bits = static_cast<std::uint32_t>(attr->rx_ctx_bits);
	const auto create = [&]() -> Result<AddressVector> {
		using Access = AddressVector::Access;
		const Access access = attr->flags & FI_READ ? Access::read : Access::write;

		if (!name.empty())
			return AddressVector::open(in.kernel(), name, access, count, bits);
		if (ids != Ids::none)
			return AddressVector::create_with_ids(in.kernel(), count, bits);
		return AddressVector::create(in.kernel(), count, bits);
	};
	auto kernel = create();
	if (!kernel)
		return REFUSE(fabric_error(negative(kernel.error())), subsys, "open \"%.*s\"",
			      static_cast<int>(name.size()), name.data());
	return guard([&] {
		std::unique_ptr<Av> av(
			new Av(in, std::move(*kernel), attr->flags & FI_EVENT, ids, context));
		if (attr->name && !attr->map_addr)
			attr->map_addr =
				av->map(std::clamp<std::size_t>(attr->count, 1, most_mapped));
		if (!attr->type)
			attr->type = in.av_type() ? in.av_type() : FI_AV_TABLE;
		av->table_ = attr->type == FI_AV_TABLE;
		av->shared_ = !name.empty();
		*out = av.release();
		return 0;
	});
}

std::vector<fi_addr_t> Av::universe() const
{
	std::vector<fi_addr_t> all;

	for (fi_addr_t i = 0;; ++i) {
		if (find(i))
			all.push_back(i);
		else if (i >= end_.load(std::memory_order_relaxed))
			return all;
	}
}

fi_addr_t *Av::map(std::size_t count)
{
	map_.resize(count);
	std::iota(map_.begin(), map_.end(), fi_addr_t{0});
	return map_.data();
}

void Av::note(fi_addr_t index) noexcept
{
	fi_addr_t end = end_.load(std::memory_order_relaxed);

	while (end <= index && !end_.compare_exchange_weak(end, index + 1))
		;
}

int Av::bind(::fid *other, std::uint64_t flags)
{
	return bind_eq(other, flags, subsys, eq_, eq_use_);
}

int Av::prepare_close() noexcept
{
	const int rc = negative(kernel_.close());

	return rc ? REFUSE(fabric_error(rc), subsys, "close") : 0;
}

/* --- insertion ----------------------------------------------------------------------- */

int Av::insert(std::span<const Address> addresses, fi_addr_t *out, std::uint64_t flags,
	       void *context)
{
	std::vector<fi_addr_t> indices(addresses.size(), FI_ADDR_NOTAVAIL);
	std::vector<int> errors(addresses.size(), 0);

	if (flags & ~insert_flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "insert: flags 0x%" PRIx64, flags);
	if (flags & FI_SYNC_ERR && !asynchronous_ && !context)
		return REFUSE(-FI_EINVAL, subsys, "insert: FI_SYNC_ERR needs room for errors");
	if (flags & FI_AV_USER_ID && !(ids_ == Ids::inserted && out))
		return REFUSE(out ? -FI_EBADFLAGS : -FI_EINVAL, subsys,
			      "insert: FI_AV_USER_ID needs that capability of the domain, a vector "
			      "without a name that was opened without FI_AV_USER_ID, and fi_addr");
	if (asynchronous_ && !eq_)
		return REFUSE(-FI_ENOEQ, subsys,
			      "insert: opened with FI_EVENT, and no event queue is bound");

	const std::vector<fi_addr_t> none(ids_ == Ids::set ? addresses.size() : 0,
					  FI_ADDR_NOTAVAIL);
	const fi_addr_t *ids = none.empty() ? nullptr : none.data();
	if (flags & FI_AV_USER_ID)
		ids = out;
	int failure = negative(kernel_.insert(addresses, indices.data(), ids).error);
	changes_.fetch_add(1, std::memory_order_release);
	std::size_t inserted = 0;
	for (std::size_t i = 0; i < addresses.size(); ++i) {
		if (indices[i] != FI_ADDR_NOTAVAIL) {
			++inserted;
			note(indices[i]);
		} else if (!addresses[i].family) {
			errors[i] = FI_EINVAL;
		} else {
			/* Addresses after the one that failed were not tried. */
			errors[i] = failure ? -fabric_error(failure) : FI_ECANCELED;
			failure = 0;
		}
	}
	if (inserted != addresses.size())
		REFUSE(0, subsys, "insert: %zu of %zu addresses", inserted, addresses.size());
	if (asynchronous_) {
		Eq::Reserve events = reserve_events(addresses.size() - inserted, indices);

		if (out)
			std::copy(indices.begin(), indices.end(), out);
		report(events, errors, inserted, context);
		return 0;
	}
	if (out)
		std::copy(indices.begin(), indices.end(), out);
	if (flags & FI_SYNC_ERR)
		std::copy(errors.begin(), errors.end(), static_cast<int *>(context));
	return static_cast<int>(inserted);
}

/*
 * Reserves one event for each failure, and FI_AV_COMPLETE. Without memory for these, the inserted
 * addresses are removed again.
 */
Eq::Reserve Av::reserve_events(std::size_t failed, std::vector<fi_addr_t> &indices)
{
	try {
		return Eq::Reserve(failed + 1);
	} catch (const std::bad_alloc &) {
		std::erase(indices, FI_ADDR_NOTAVAIL);
		std::ignore = kernel_.remove(indices);
		throw;
	}
}

void Av::report(Eq::Reserve &events, std::span<const int> errors, std::size_t inserted,
		void *context) noexcept
{
	Eq &eq = *eq_;

	for (std::size_t i = 0; i < errors.size(); ++i) {
		if (!errors[i])
			continue;
		fi_eq_err_entry error{};
		error.fid = &fid;
		error.context = context;
		error.data = i;
		error.err = errors[i];
		error.prov_errno = errors[i];
		eq.report(events, error);
	}
	fi_eq_entry done{};
	done.fid = &fid;
	done.context = context;
	done.data = inserted;
	eq.report(events, FI_AV_COMPLETE, done);
}

int Av::insert(fid_av *f, const void *addr, std::size_t count, fi_addr_t *out, std::uint64_t flags,
	       void *context) noexcept
{
	if (count > most_inserted || (count && !addr))
		return REFUSE(-FI_EINVAL, subsys, "insert: %zu addresses at %p", count, addr);
	return guard([&] {
		Av &av = of(f);
		const std::uint32_t format = av.domain_.addr_format();
		const auto *element = static_cast<const char *>(addr);
		std::vector<Address> addresses(count);

		for (Address &address : addresses) {
			address = decode_element(format, element).value_or(Address{});
			element += element_size(format);
		}
		return av.insert(addresses, out, flags, context);
	});
}

int Av::insert_service(fid_av *f, const char *node, const char *service, fi_addr_t *out,
		       std::uint64_t flags, void *context) noexcept
{
	return guard([&] {
		Av &av = of(f);
		const Address address = resolve_one(av.domain_.addr_format(), node, service);

		return av.insert(std::span(&address, 1), out, flags, context);
	});
}

int Av::insert_symmetric(fid_av *f, const char *node, std::size_t nodes, const char *service,
			 std::size_t services, fi_addr_t *out, std::uint64_t flags,
			 void *context) noexcept
{
	std::size_t count;

	if (!node || !service)
		return REFUSE(-FI_EINVAL, subsys, "insertsym: needs a node and a service");
	if (__builtin_mul_overflow(nodes, services, &count) || count > most_inserted)
		return REFUSE(-FI_EINVAL, subsys, "insertsym: %zu nodes with %zu services", nodes,
			      services);
	return guard([&] {
		Av &av = of(f);
		const std::uint32_t format = av.domain_.addr_format();
		const bool numeric = is_numeric(node);
		const Address first = resolve_one(format, node, service);
		std::vector<Address> addresses;

		addresses.reserve(count);
		for (std::size_t n = 0; count && n < nodes; ++n) {
			const std::string host = numeric ? "" : advanced(std::string(node), n);
			Address address{};
			if (numeric)
				address = advanced(first, n);
			else if (!host.empty())
				address = resolve_one(format, host.c_str(), service);
			const unsigned int port = ntohs(address.port);
			for (std::size_t s = 0; s < services; ++s) {
				Address next = address;
				next.port = htons(static_cast<std::uint16_t>(port + s));
				if (port + s > std::numeric_limits<std::uint16_t>::max())
					next = {};
				addresses.push_back(next);
			}
		}
		return av.insert(addresses, out, flags, context);
	});
}

/* --- the rest ------------------------------------------------------------------------ */

int Av::remove(fid_av *f, fi_addr_t *indices, std::size_t count, std::uint64_t flags) noexcept
{
	if (flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "remove: flags 0x%" PRIx64, flags);
	Av &av = of(f);
	av.removals_.fetch_add(1, std::memory_order_relaxed);
	const int rc = negative(av.kernel_.remove(std::span(indices, count)));
	/* again: a look at them meanwhile has perhaps found the peers still there */
	av.removals_.fetch_add(1, std::memory_order_release);
	av.changes_.fetch_add(1, std::memory_order_release);
	return rc ? REFUSE(rc == -ENOENT ? -FI_EINVAL : fabric_error(rc), subsys, "remove") : 0;
}

int Av::look_up(fid_av *f, fi_addr_t index, void *addr, std::size_t *size) noexcept
{
	Av &av = of(f);
	const auto address = av.kernel_.lookup(Peer{index});

	if (!size)
		return REFUSE(-FI_EINVAL, subsys, "lookup: needs an addrlen");
	if (!address)
		return REFUSE(-FI_EINVAL, subsys, "lookup: %" PRIu64 ": %s", index,
			      treadle::describe(address.error().value()));
	const std::uint32_t format = av.domain_.addr_format();
	return guard([&] {
		const std::string bytes = encode(format, *address);

		/* another process inserted it in another format, and the vector is shared */
		if (bytes.empty())
			return REFUSE(-FI_EINVAL, subsys,
				      "lookup: %" PRIu64 " has not the domain's format", index);
		copy_out(bytes, addr, size);
		return 0;
	});
}

int Av::set_user_id(fid_av *f, fi_addr_t index, fi_addr_t id, std::uint64_t flags) noexcept
{
	Av &av = of(f);

	if (flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "set_user_id: flags 0x%" PRIx64, flags);
	if (av.ids_ != Ids::set)
		return REFUSE(-FI_EINVAL, subsys, "set_user_id: opened without FI_AV_USER_ID");
	const int rc = negative(av.kernel_.set_id(Peer{index}, id));
	av.changes_.fetch_add(1, std::memory_order_release);
	return rc ? REFUSE(rc == -ENOENT ? -FI_EINVAL : fabric_error(rc), subsys,
			   "set_user_id: %" PRIu64, index) :
		    0;
}

const char *Av::describe(fid_av *f, const void *addr, char *buf, std::size_t *len) noexcept
{
	const std::uint32_t format = of(f).domain_.addr_format();
	const auto address = decode(format, addr);

	if (!len) {
		REFUSE(-FI_EINVAL, subsys, "straddr: needs a len");
		return nullptr;
	}
	guard([&] {
		const std::string text = address ? to_string(*address) : "";
		if (buf && *len)
			std::snprintf(buf, *len, "%s", text.c_str());
		*len = text.size() + 1;
		return 0;
	});
	return buf;
}

} // namespace treadle::fi
