// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/peer_map.h"

#include <new>
#include <utility>

#include <treadle/peer_window.h>

#include "base/refuses.h"
#include "endpoint/port.h"

namespace treadle::fi
{

namespace
{

/* The application has the first part, and reads it. */
struct PeerMap : fi_treadle_map {
	PeerMap(Window &&from, Users &users) noexcept
		: fi_treadle_map{.base = from.at(from.addr()),
				 .addr = from.addr(),
				 .len = from.size(),
				 .status = &from.status(),
				 .skip = from.skip(),
				 .page_shift = from.page_shift()},
		  window(std::move(from)), use(users)
	{
	}

	Window window;
	Use use; /* of the view of the endpoint */
};

int refused(const char *call, const char *why) noexcept
{
	return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA, "%s: %s", call, why);
}

} // namespace

int map_peer(fid_ep *ep, fi_addr_t peer, std::uint64_t addr, std::size_t len, std::uint64_t key,
	     std::uint64_t access, fi_treadle_map **out) noexcept
{
	Port *const port = Port::known(ep);

	if (!port || !out)
		return refused("map", "NULL, or no endpoint of this provider");
	if (!len || !access || access & ~(FI_READ | FI_WRITE))
		return refused("map", "no bytes, or an access that is not FI_READ or FI_WRITE");
	const Endpoint &endpoint = port->endpoint();
	if (!endpoint.enabled())
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_DATA, "map: the endpoint is not enabled");
	if (!direct_wanted())
		return -FI_EOPNOTSUPP;
	auto window = Window::open(endpoint.domain().kernel(), endpoint.id(), Peer{peer},
				   {.addr = addr, .key = key}, len,
				   (access & FI_READ ? TREADLE_ACCESS_REMOTE_READ : 0U) |
					   (access & FI_WRITE ? TREADLE_ACCESS_REMOTE_WRITE : 0U));
	if (!window)
		return -window.error().value();
	if (!window->holds(addr, len))
		return -FI_EOPNOTSUPP;
	*out = new (std::nothrow) PeerMap(std::move(*window), port->users);
	return *out ? 0 : -FI_ENOMEM;
}

int fill_map(fi_treadle_map *map, std::uint64_t addr, std::size_t len) noexcept
{
	if (!map)
		return refused("fill", "NULL");
	Window &window = static_cast<PeerMap *>(map)->window;
	if (!len || !window.holds(addr, len))
		return refused("fill", "not within the map");
	return -window.fill(addr, len).value();
}

int unmap_peer(fi_treadle_map *map) noexcept
{
	if (!map)
		return refused("unmap", "NULL");
	delete static_cast<PeerMap *>(map);
	return 0;
}

} // namespace treadle::fi
