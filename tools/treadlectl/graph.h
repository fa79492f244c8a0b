// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* A graph of what waits for what: as text for dot(1), and as a picture. */
#ifndef TREADLE_TOOLS_TREADLECTL_GRAPH_H
#define TREADLE_TOOLS_TREADLECTL_GRAPH_H

#include <string>
#include <vector>

namespace ctl
{

struct Graph {
	enum class Shape { oval, box, diamond };
	struct Node {
		std::string id; /* of dot */
		std::vector<std::string> lines;
		Shape shape;
		bool stuck;
	};
	struct Edge {
		std::size_t from, to;
		std::string label;
	};
	std::vector<Node> nodes;
	std::vector<Edge> edges;

	/* The number of the node; adds it if it is new. */
	std::size_t add(Node node);
};

/* Nodes and edges for dot(1). */
std::string dot(const Graph &graph);
/* What waits is below what it waits for, where there is no circle. */
std::string svg(const Graph &graph, const std::string &title);

} // namespace ctl

#endif
