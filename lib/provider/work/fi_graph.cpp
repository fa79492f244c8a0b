// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "work/work_graph.h"

#include <cstring>

#include "endpoint/port.h"
#include "notify/cntr.h"
#include "notify/wait.h"
#include "work/work.h"

namespace treadle::fi
{

namespace
{

/* Converts an error of a graph to libfabric's, and logs it. */
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
	.graph_open = opens<open>,
	.graph_add = add,
	.graph_order = order,
	.graph_install = install,
	.graph_launch = launch,
	.graph_wait = wait,
	.graph_cancel = cancel,
	.graph_print = print,
};

/*
 * Validates the graph first: functions of fi_treadle_ops_graph can be passed any pointer, as they
 * are not in a table of the object.
 */
template <class F> int WorkGraph::with(fid_treadle_graph *graph, F &&call) noexcept
{
	WorkGraph *const self = known(graph);

	return self ? guard([&] { return call(*self); }) :
		      REFUSE(-FI_EINVAL, subsys, "graph: NULL, or no graph of %s", name);
}

int WorkGraph::open(fid_domain *f, fid_treadle_graph **graph, void *context) noexcept
{
	Domain *const domain = Domain::known(f);

	if (!domain)
		return REFUSE(-FI_EINVAL, subsys, "graph_open: NULL, or no domain of %s", name);
	return guard([&] {
		*graph = new WorkGraph(*domain, context);
		return 0;
	});
}

int WorkGraph::add(fid_treadle_graph *graph, const fi_deferred_work *work,
		   const std::uint32_t *after, std::size_t count, std::uint32_t *node) noexcept
{
	return with(graph, [&](WorkGraph &self) {
		if (!work || (count && !after))
			return REFUSE(-FI_EINVAL, subsys, "graph_add: %s is NULL",
				      work ? "after" : "work");
		if (work->triggering_cntr || work->completion_cntr || work->threshold)
			return REFUSE(
				-FI_EINVAL, subsys,
				"graph: its work has no counters and no threshold of its own");
		const auto command = command_of(self.domain_, *work);
		if (!command)
			return command.error();
		if (const auto op = endpoint_of(*work))
			self.uses_.emplace_back(Port::known(op)->users);
		else
			self.uses_.emplace_back(Cntr::known(work->op.cntr->cntr)->users);
		const auto added = self.graph_.add(*command, {after, count});
		if (node)
			*node = added;
		return 0;
	});
}

int WorkGraph::order(fid_treadle_graph *graph, std::uint32_t before, std::uint32_t after) noexcept
{
	return with(graph, [&](WorkGraph &self) {
		if (self.graph_.order(before, after))
			return REFUSE(-FI_EINVAL, subsys, "graph: there is no command %u", after);
		return 0;
	});
}

int WorkGraph::install(fid_treadle_graph *graph, fid_cntr *launches, fid_cntr *ended) noexcept
{
	return with(graph, [&](WorkGraph &self) {
		Cntr *const first = Cntr::known(launches), *const last = Cntr::known(ended);
		std::vector<Use> uses;

		if ((launches && (!first || &first->domain() != &self.domain_)) ||
		    (ended && (!last || &last->domain() != &self.domain_)))
			return REFUSE(-FI_EINVAL, subsys, "graph: no counter of this domain");
		for (Cntr *cntr : {first, last}) {
			if (cntr)
				uses.emplace_back(cntr->users);
		}
		if (const int given = first ? first->give_to_kernel() : 0)
			return given;
		const int rc = negative(self.graph_.install(first ? &first->counter() : nullptr,
							    last ? &last->counter() : nullptr));
		if (!rc)
			self.installed_ = std::move(uses);
		return graph_error(rc, "install");
	});
}

int WorkGraph::launch(fid_treadle_graph *graph) noexcept
{
	return with(graph, [](WorkGraph &self) {
		if (!self.graph_.launches())
			return REFUSE(-FI_EOPBADSTATE, subsys, "graph: it is not installed");
		return graph_error(negative(self.graph_.launch()), "launch");
	});
}

int WorkGraph::wait(fid_treadle_graph *graph, int timeout) noexcept
{
	return with(graph, [&](const WorkGraph &self) {
		const int rc = negative(self.graph_.wait(timeout_of(timeout)));

		if (rc)
			return rc == -ETIMEDOUT ? -FI_ETIMEDOUT : fabric_error(rc);
		return self.graph_.failed() ? -FI_EAVAIL : 0;
	});
}

int WorkGraph::cancel(fid_treadle_graph *graph) noexcept
{
	return with(graph, [](WorkGraph &self) {
		self.graph_.cancel();
		return 0;
	});
}

/* Prints as snprintf does. */
int WorkGraph::print(fid_treadle_graph *graph, fi_treadle_graph_format format, char *buf,
		     std::size_t *len) noexcept
{
	return with(graph, [&](const WorkGraph &self) {
		if (!len || (*len && !buf))
			return REFUSE(-FI_EINVAL, subsys, "graph_print: %s is NULL",
				      len ? "buf" : "len");
		const std::string out = format == FI_TREADLE_GRAPH_DOT ? self.graph_.graphviz() :
									 self.graph_.text();
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
