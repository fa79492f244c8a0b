// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "graph.h"

#include <cstring>

#include "cntr.h"
#include "endpoint.h"
#include "transfer.h"
#include "trigger.h"

namespace treadle::fi
{

namespace
{

/* What a graph says of itself, in libfabric's terms. */
int graph_error(int rc, const char *what) noexcept
{
	switch (rc) {
	case 0:
		return 0;
	case -ELOOP:
		return REFUSE(-FI_EINVAL, FI_LOG_DOMAIN,
			      "graph: some commands wait for each other");
	case -EBUSY:
		return REFUSE(-FI_EBUSY, FI_LOG_DOMAIN, "graph: it runs");
	default:
		return REFUSE(fabric_error(rc), FI_LOG_DOMAIN, "graph: %s: a command was refused",
			      what);
	}
}

} // namespace

fi_treadle_ops_graph WorkGraph::ops{
	.size = sizeof(fi_treadle_ops_graph),
	.graph_open = open,
	.graph_add = add,
	.graph_order = order,
	.graph_install = install,
	.graph_launch = launch,
	.graph_wait = wait,
	.graph_cancel = cancel,
	.graph_print = print,
};

int WorkGraph::open(fid_domain *domain, fid_treadle_graph **graph, void *context) noexcept
{
	return guard([&] {
		*graph = new WorkGraph(Domain::of(domain), context);
		return 0;
	});
}

int WorkGraph::add(fid_treadle_graph *graph, const fi_deferred_work *work,
		   const std::uint32_t *after, std::size_t count, std::uint32_t *node) noexcept
{
	return guard([&] {
		WorkGraph &self = of(graph);

		if (work->triggering_cntr || work->completion_cntr || work->threshold)
			return REFUSE(
				-FI_EINVAL, subsys,
				"graph: its work has no counters and no threshold of its own");
		const auto command = command_of(self.domain_, *work);
		if (!command)
			return command.error();
		if (const auto op = endpoint_of(*work))
			self.uses_.emplace_back(Port::of(op).users);
		else
			self.uses_.emplace_back(Cntr::of(work->op.cntr->cntr).users);
		const auto added = self.graph_.add(*command, {after, count});
		if (node)
			*node = added;
		return 0;
	});
}

int WorkGraph::order(fid_treadle_graph *graph, std::uint32_t before, std::uint32_t after) noexcept
{
	return guard([&] {
		if (of(graph).graph_.order(before, after))
			return REFUSE(-FI_EINVAL, subsys, "graph: there is no command %u", after);
		return 0;
	});
}

int WorkGraph::install(fid_treadle_graph *graph, fid_cntr *launches, fid_cntr *ended) noexcept
{
	return guard([&] {
		WorkGraph &self = of(graph);
		std::vector<Use> uses;

		if ((launches && &Cntr::of(launches).domain() != &self.domain_) ||
		    (ended && &Cntr::of(ended).domain() != &self.domain_))
			return REFUSE(-FI_EINVAL, subsys, "graph: no counter of this domain");
		for (fid_cntr *cntr : {launches, ended}) {
			if (cntr)
				uses.emplace_back(Cntr::of(cntr).users);
		}
		const int rc =
			self.graph_.install(launches ? &Cntr::of(launches).counter() : nullptr,
					    ended ? &Cntr::of(ended).counter() : nullptr);
		if (!rc)
			self.installed_ = std::move(uses);
		return graph_error(rc, "install");
	});
}

int WorkGraph::launch(fid_treadle_graph *graph) noexcept
{
	return guard([&] {
		Graph &self = of(graph).graph_;

		if (!self.launches())
			return REFUSE(-FI_EOPBADSTATE, subsys, "graph: it is not installed");
		return graph_error(self.launch(), "launch");
	});
}

int WorkGraph::wait(fid_treadle_graph *graph, int timeout) noexcept
{
	const Graph &self = of(graph).graph_;
	const int rc = self.wait(timeout < 0 ? -1 : timeout * std::int64_t{1'000'000});

	if (rc)
		return rc == -ETIMEDOUT ? -FI_ETIMEDOUT : fabric_error(rc);
	return self.failed() ? -FI_EAVAIL : 0;
}

int WorkGraph::cancel(fid_treadle_graph *graph) noexcept
{
	of(graph).graph_.cancel();
	return 0;
}

/* As snprintf. */
int WorkGraph::print(fid_treadle_graph *graph, fi_treadle_graph_format format, char *buf,
		     std::size_t *len) noexcept
{
	return guard([&] {
		const Graph &self = of(graph).graph_;
		const std::string out =
			format == FI_TREADLE_GRAPH_DOT ? self.graphviz() : self.text();
		const std::size_t room = std::exchange(*len, out.size() + 1);

		if (room < *len) {
			if (room)
				buf[out.copy(buf, room - 1)] = '\0';
			return too_small(subsys, "graph_print", room, *len);
		}
		std::memcpy(buf, out.c_str(), *len);
		return 0;
	});
}

} // namespace treadle::fi
