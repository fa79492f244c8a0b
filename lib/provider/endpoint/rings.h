// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_RINGS_H
#define TREADLE_PROVIDER_RINGS_H

#include <cstdint>
#include <memory>

#include <rdma/fi_endpoint.h>

#include <treadle/context.h>
#include <treadle/endpoint.h>

namespace treadle::fi
{

class Endpoint;
class Port;
class Stx;

/*
 * The rings of an endpoint. Their lock depends on the threading level, so transfer/ implements
 * this, together with the ports that post to them.
 */
class Rings
{
public:
	/* serialized: one thread at a time calls for the endpoint. May throw. */
	static std::unique_ptr<Rings> make(bool serialized);

	virtual ~Rings() = default;

	/* Makes a ring, and names it in `bindings`. 0 or -errno. */
	virtual int make_tx(const Context &context, const fi_tx_attr &attr,
			    Bindings &bindings) noexcept = 0;
	virtual int make_rx(const Context &context, const fi_rx_attr &attr, std::uint32_t flags,
			    Bindings &bindings) noexcept = 0;
	/* Transmits go to the ring of a shared context. */
	virtual void share_tx(Stx &stx) noexcept = 0;

	/* Rings the doorbell for what FI_MORE has put off. */
	virtual void flush() noexcept = 0;
	/* Free slots; 0 without a ring. */
	virtual std::uint32_t tx_room() noexcept = 0;
	virtual std::uint32_t rx_room() noexcept = 0;

	/* A port that posts to these rings once the endpoint is enabled. May throw. */
	virtual Port *new_port(std::shared_ptr<Endpoint> endpoint, void *context) = 0;
};

} // namespace treadle::fi

#endif
