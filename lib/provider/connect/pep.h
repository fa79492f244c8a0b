// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_PEP_H
#define TREADLE_PROVIDER_PEP_H

#include <atomic>
#include <functional>
#include <mutex>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <treadle/endpoint.h>
#include <treadle/passive_endpoint.h>

#include "domain/fabric.h"
#include "info/negotiate.h"
#include "notify/eq.h"

namespace treadle::fi
{

/* Data of a request or an answer. fi_cm(3) cuts off the rest silently. */
std::span<const std::byte> cm_data(const void *param, std::size_t size) noexcept;

/* fi_passive_ep(3) */
class Pep : public Object<Pep, fid_pep, FI_CLASS_PEP, FI_LOG_EP_CTRL>
{
public:
	static int open(fid_fabric *fabric, fi_info *info, fid_pep **out, void *context) noexcept;

	~Pep();

	int bind(::fid *other, std::uint64_t flags);
	int control(int command, void *arg);

	/*
	 * An endpoint takes over the address: fi_endpoint(3), fi_info::handle. The passive endpoint
	 * then has no address and no event queue. If that endpoint can't be made, this one gets its
	 * address back, but no longer listens.
	 */
	using Take = std::function<Result<treadle::Endpoint>(const Address &)>;
	Result<treadle::Endpoint> give_address(const Take &take);

private:
	Pep(Fabric &fabric, const Context &context, InfoPtr info, PassiveEndpoint kernel,
	    void *user_context);

	int listen();
	int set_name(const void *addr, std::size_t size);
	int get_name(void *addr, std::size_t *size);
	/*
	 * Called under the lock of the queue, which is taken inside lock_. kernel_ does not change
	 * once it listens.
	 */
	InfoPtr make_info(const treadle_event &event);

	static int set_name(fid_t pep, void *addr, std::size_t size) noexcept;
	static int get_name(fid_t pep, void *addr, std::size_t *size) noexcept;
	static int listen(fid_pep *pep) noexcept;
	static int reject(fid_pep *pep, fid_t handle, const void *param, std::size_t size) noexcept;

	static fi_ops_cm cm_ops;
	static fi_ops_ep ep_ops;

	Fabric &fabric_;
	Use fabric_use_;
	const Context &context_;
	InfoPtr info_; /* what its endpoints will have */
	std::atomic<Eq *> eq_ = nullptr;
	Use eq_use_;
	std::mutex lock_; /* protects all that follows */
	Eq::Source source_;
	PassiveEndpoint kernel_; /* destroyed before the source of its events */
	int backlog_ = 0;
	bool listening_ = false;
};

} // namespace treadle::fi

#endif
