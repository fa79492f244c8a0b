// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_WORK_GRAPH_H
#define TREADLE_PROVIDER_WORK_GRAPH_H

#include <vector>

#include <treadle/fi_treadle.h>
#include <treadle/graph.h>

#include "domain/domain.h"
#include "base/object.h"

namespace treadle::fi
{

/* FI_TREADLE_GRAPH_OPS_1 */
class WorkGraph final : public Object<WorkGraph, fid_treadle_graph, FI_CLASS_UNSPEC, FI_LOG_DOMAIN>
{
public:
	static fi_treadle_ops_graph ops;

private:
	friend class Object;

	WorkGraph(Domain &domain, void *context)
		: Object(context), domain_(domain), domain_use_(domain.users),
		  graph_(domain.kernel())
	{
	}

	template <class F> static int with(fid_treadle_graph *graph, F &&call) noexcept;
	static int open(fid_domain *domain, fid_treadle_graph **graph, void *context) noexcept;
	static int add(fid_treadle_graph *graph, const fi_deferred_work *work,
		       const std::uint32_t *after, std::size_t count, std::uint32_t *node) noexcept;
	static int order(fid_treadle_graph *graph, std::uint32_t before,
			 std::uint32_t after) noexcept;
	static int install(fid_treadle_graph *graph, fid_cntr *launches, fid_cntr *ended) noexcept;
	static int launch(fid_treadle_graph *graph) noexcept;
	static int wait(fid_treadle_graph *graph, int timeout) noexcept;
	static int cancel(fid_treadle_graph *graph) noexcept;
	static int print(fid_treadle_graph *graph, fi_treadle_graph_format format, char *buf,
			 std::size_t *len) noexcept;

	Domain &domain_;
	Use domain_use_;
	std::vector<Use> uses_;	     /* of endpoints and counters in its commands */
	std::vector<Use> installed_; /* of counters that it is installed on */
	Graph graph_;
};

} // namespace treadle::fi

#endif
