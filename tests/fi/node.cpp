// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "node.h"

#include <chrono>
#include <mutex>
#include <thread>

#include <rdma/fi_ext.h>

namespace
{

std::mutex log_lock;
std::string log_lines;
bool log_on;

int log_enabled(const fi_provider *provider, fi_log_level level, fi_log_subsys, std::uint64_t)
{
	return log_on && level <= FI_LOG_WARN && !std::strcmp(provider->name, provider_name);
}

int log_ready(const fi_provider *, fi_log_level, fi_log_subsys, std::uint64_t, std::uint64_t *)
{
	return 0;
}

void log_write(const fi_provider *, fi_log_level, fi_log_subsys, const char *, int,
	       const char *line)
{
	const std::lock_guard guard(log_lock);

	log_lines += line;
}

} // namespace

Info no_hints()
{
	Info hints(fi_allocinfo());

	hints->fabric_attr->prov_name = strdup(provider_name);
	return hints;
}

Info hints_for(std::uint64_t caps)
{
	Info hints = no_hints();

	hints->caps = caps;
	if (const char *how = std::getenv("TEST_PROGRESS"); how && !std::strcmp(how, "manual"))
		hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	return hints;
}

Info get_info(const fi_info *hints, int *error, std::uint32_t version, const char *node,
	      const char *service, std::uint64_t flags)
{
	fi_info *info = nullptr;
	const int rc = fi_getinfo(version, node, service, flags, hints, &info);

	if (error)
		*error = rc;
	return Info(rc ? nullptr : info);
}

std::vector<std::byte> address_of(fid_ep *ep)
{
	std::size_t size = 0;

	fi_getname(&ep->fid, nullptr, &size);
	std::vector<std::byte> address(size);
	EXPECT_EQ(fi_getname(&ep->fid, address.data(), &size), 0);
	return address;
}

std::vector<std::uint8_t> pattern(std::size_t size, unsigned int seed)
{
	std::vector<std::uint8_t> bytes(size);
	std::uint32_t x = seed * 2654435761u + 1;

	for (auto &byte : bytes) {
		x = x * 1664525 + 1013904223;
		byte = static_cast<std::uint8_t>(x >> 24);
	}
	return bytes;
}

Node::Node(Info hints, std::uint32_t version)
{
	int error;
	fid_fabric *f = nullptr;
	fid_domain *d = nullptr;

	info = get_info(hints.get(), &error, version);
	if (!info)
		throw std::runtime_error(std::string("fi_getinfo: ") + fi_strerror(-error));
	EXPECT_EQ(fi_fabric(info->fabric_attr, &f, nullptr), 0);
	fabric.reset(f);
	EXPECT_EQ(fi_domain(f, info.get(), &d, nullptr), 0);
	domain.reset(d);
}

Owned<fid_eq> Node::eq(fi_wait_obj wait, std::uint64_t flags) const
{
	fi_eq_attr attr{};
	fid_eq *eq = nullptr;

	attr.wait_obj = wait;
	attr.flags = flags;
	EXPECT_EQ(fi_eq_open(fabric.get(), &attr, &eq, nullptr), 0);
	return Owned<fid_eq>(eq);
}

Owned<fid_av> Node::av(std::uint64_t flags, fi_av_type type) const
{
	fi_av_attr attr{};
	fid_av *av = nullptr;

	attr.type = type;
	attr.flags = flags;
	EXPECT_EQ(fi_av_open(domain.get(), &attr, &av, nullptr), 0);
	return Owned<fid_av>(av);
}

Owned<fid_cq> Node::cq(fi_cq_format format, fi_wait_obj wait, std::size_t size) const
{
	fi_cq_attr attr{};
	fid_cq *cq = nullptr;

	attr.format = format;
	attr.wait_obj = wait;
	attr.size = size;
	EXPECT_EQ(fi_cq_open(domain.get(), &attr, &cq, nullptr), 0);
	return Owned<fid_cq>(cq);
}

Owned<fid_cntr> Node::cntr(fi_wait_obj wait) const
{
	fi_cntr_attr attr{};
	fid_cntr *cntr = nullptr;

	attr.wait_obj = wait;
	EXPECT_EQ(fi_cntr_open(domain.get(), &attr, &cntr, nullptr), 0);
	return Owned<fid_cntr>(cntr);
}

Owned<fid_ep> Node::ep() const
{
	fid_ep *ep = nullptr;

	EXPECT_EQ(fi_endpoint(domain.get(), info.get(), &ep, nullptr), 0);
	return Owned<fid_ep>(ep);
}

Side::Side(Node &node, const Options &options)
	: av(node.av(options.av_flags)),
	  tx_cq(node.cq(options.format, options.wait, options.cq_size)),
	  rx_cq(node.cq(options.format, options.wait, options.cq_size)), ep(node.ep())
{
	EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &tx_cq->fid, FI_TRANSMIT | options.cq_flags), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &rx_cq->fid, FI_RECV | options.cq_flags), 0);
	if (options.counters) {
		sent = node.cntr();
		received = node.cntr();
		EXPECT_EQ(fi_ep_bind(ep.get(), &sent->fid, FI_SEND), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &received->fid, FI_RECV), 0);
	}
	EXPECT_EQ(fi_enable(ep.get()), 0);
}

fi_addr_t Side::insert(const std::vector<std::byte> &address)
{
	fi_addr_t index = FI_ADDR_NOTAVAIL;

	EXPECT_EQ(fi_av_insert(av.get(), address.data(), 1, &index, 0, nullptr), 1);
	return index;
}

Pair::Pair(Info hints, const Side::Options &options)
	: node(std::move(hints)), a(node, options), b(node, options), b_at_a(a.insert(b.ep.get())),
	  a_at_b(b.insert(a.ep.get()))
{
}

fi_cq_tagged_entry next(fid_cq *cq, fi_addr_t *src)
{
	fi_cq_tagged_entry entry{};
	fi_addr_t from = FI_ADDR_NOTAVAIL;
	const ssize_t n = fi_cq_sreadfrom(cq, &entry, 1, &from, nullptr, patience);

	EXPECT_EQ(n, 1) << (n == -FI_EAVAIL ? fi_strerror(next_error(cq).err) : fi_strerror(-n));
	if (src)
		*src = from;
	return entry;
}

fi_cq_err_entry next_error(fid_cq *cq)
{
	fi_cq_err_entry error{};
	fi_cq_tagged_entry entry;

	EXPECT_EQ(fi_cq_sread(cq, &entry, 1, nullptr, patience), -FI_EAVAIL);
	EXPECT_EQ(fi_cq_readerr(cq, &error, 0), 1);
	return error;
}

::testing::AssertionResult is_silent(fid_cq *cq)
{
	fi_cq_tagged_entry entry;
	const ssize_t n = fi_cq_sread(cq, &entry, 1, nullptr, 20);

	if (n == -FI_EAGAIN)
		return ::testing::AssertionSuccess();
	return ::testing::AssertionFailure() << "fi_cq_sread: " << n;
}

::testing::AssertionResult reaches(fid_cntr *cntr, std::uint64_t value)
{
	const int rc = fi_cntr_wait(cntr, value, patience);

	if (!rc && fi_cntr_read(cntr) == value)
		return ::testing::AssertionSuccess();
	return ::testing::AssertionFailure()
	       << fi_strerror(-rc) << ": " << fi_cntr_read(cntr) << ", " << fi_cntr_readerr(cntr)
	       << " errors; not " << value;
}

Log::Log()
{
	static fi_ops_log ops{sizeof(ops), log_enabled, log_ready, log_write};
	static fid_logging logging{{}, &ops};
	static const int imported = fi_import_log(api_version, 0, &logging);

	EXPECT_EQ(imported, 0);
	clear();
	log_on = true;
}

Log::~Log()
{
	log_on = false;
}

bool Log::has(const std::string &text) const
{
	return all().find(text) != std::string::npos;
}

std::string Log::all() const
{
	const std::lock_guard guard(log_lock);

	return log_lines;
}

void Log::clear()
{
	const std::lock_guard guard(log_lock);

	log_lines.clear();
}
