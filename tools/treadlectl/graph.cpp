// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "graph.h"

#include <algorithm>
#include <utility>

#include "svg.h"

namespace ctl
{

std::size_t Graph::add(Node node)
{
	const auto at = std::ranges::find(nodes, node.id, &Node::id);
	const auto number = static_cast<std::size_t>(at - nodes.begin());

	if (at == nodes.end())
		nodes.push_back(std::move(node));
	return number;
}

/* --- dot ------------------------------------------------------------------------------ */

static std::string quoted(const std::string &text)
{
	std::string out = "\"";

	for (const char c : text)
		out += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
	return out + "\"";
}

std::string dot(const Graph &graph)
{
	static const char *const shapes[] = {"", "shape=box, ", "shape=diamond, "};
	std::string out;

	for (const Graph::Node &node : graph.nodes) {
		std::string label;
		for (const std::string &line : node.lines)
			label += (label.empty() ? "" : "\\n") + line;
		out += "\t" + quoted(node.id) + " [" + shapes[static_cast<int>(node.shape)] +
		       "label=\"" + label + "\"" + (node.stuck ? ", color=red" : "") + "];\n";
	}
	for (const Graph::Edge &edge : graph.edges)
		out += "\t" + quoted(graph.nodes[edge.from].id) + " -> " +
		       quoted(graph.nodes[edge.to].id) +
		       (edge.label.empty() ? "" : " [label=\"" + edge.label + "\"]") + ";\n";
	return out;
}

/* --- picture -------------------------------------------------------------------------- */

constexpr double line_height = 15, layer_gap = 60, node_gap = 30, margin = 30, title_height = 40;

struct Place {
	std::size_t layer = 0;
	double x = 0, y = 0, width = 0, height = 0; /* x, y: of the middle */
};

static double width_of(const Graph::Node &node)
{
	double width = 40;

	for (const std::string &line : node.lines)
		width = std::max(width, text_width(line));
	return node.shape == Graph::Shape::diamond ? 1.6 * width + 24 : width + 24;
}

static double height_of(const Graph::Node &node)
{
	const double height = line_height * static_cast<double>(node.lines.size()) + 12;

	return node.shape == Graph::Shape::diamond ? 1.6 * height : height;
}

/*
 * Edges that close a circle: they go to a node from which the search in depth has not come back.
 * Without recursion, as a chain may have very many commands.
 */
static std::vector<bool> backward(const Graph &graph)
{
	enum class State { fresh, open, done };
	std::vector<std::vector<std::size_t>> out(graph.nodes.size());
	std::vector<State> state(graph.nodes.size(), State::fresh);
	std::vector<std::size_t> next(graph.nodes.size()), path;
	std::vector<bool> back(graph.edges.size());

	for (std::size_t i = 0; i < graph.edges.size(); i++)
		out[graph.edges[i].from].push_back(i);
	for (std::size_t root = 0; root < graph.nodes.size(); root++) {
		if (state[root] != State::fresh)
			continue;
		path.push_back(root);
		state[root] = State::open;
		while (!path.empty()) {
			const std::size_t node = path.back();
			if (next[node] == out[node].size()) {
				state[node] = State::done;
				path.pop_back();
				continue;
			}
			const std::size_t edge = out[node][next[node]++];
			const std::size_t to = graph.edges[edge].to;
			if (state[to] == State::open)
				back[edge] = true;
			if (state[to] == State::fresh) {
				state[to] = State::open;
				path.push_back(to);
			}
		}
	}
	return back;
}

/* The longest way from a node without a way to it: each layer is below all that lead to it. */
static void layer(const Graph &graph, const std::vector<bool> &back, std::vector<Place> &places)
{
	std::vector<std::size_t> before(graph.nodes.size()), ready;
	std::vector<std::vector<std::size_t>> out(graph.nodes.size());

	for (std::size_t i = 0; i < graph.edges.size(); i++)
		if (!back[i]) {
			before[graph.edges[i].to]++;
			out[graph.edges[i].from].push_back(graph.edges[i].to);
		}
	for (std::size_t n = 0; n < before.size(); n++)
		if (!before[n])
			ready.push_back(n);
	for (std::size_t i = 0; i < ready.size(); i++)
		for (const std::size_t to : out[ready[i]]) {
			places[to].layer = std::max(places[to].layer, places[ready[i]].layer + 1);
			if (!--before[to])
				ready.push_back(to);
		}
}

/* In each layer, nodes lie in the order of the middle of those above that lead to them. */
static std::vector<std::vector<std::size_t>> order(const Graph &graph,
						   const std::vector<Place> &places)
{
	std::vector<std::vector<std::size_t>> layers;
	std::vector<double> rank(graph.nodes.size());
	std::vector<std::vector<std::size_t>> above(graph.nodes.size());

	for (const Graph::Edge &edge : graph.edges)
		if (places[edge.from].layer < places[edge.to].layer)
			above[edge.to].push_back(edge.from);
	for (std::size_t n = 0; n < places.size(); n++) {
		layers.resize(std::max(layers.size(), places[n].layer + 1));
		layers[places[n].layer].push_back(n);
	}
	for (auto &nodes : layers) {
		for (std::size_t i = 0; i < nodes.size(); i++) {
			const auto &from = above[nodes[i]];
			double sum = 0;
			for (const std::size_t one : from)
				sum += rank[one];
			rank[nodes[i]] = from.empty() ? static_cast<double>(i) :
							sum / static_cast<double>(from.size());
		}
		std::ranges::stable_sort(nodes, {}, [&](std::size_t n) { return rank[n]; });
		for (std::size_t i = 0; i < nodes.size(); i++)
			rank[nodes[i]] = static_cast<double>(i);
	}
	return layers;
}

/* Sets x and y. Returns the size of the picture. */
static Point place(const std::vector<std::vector<std::size_t>> &layers, std::vector<Place> &places)
{
	std::vector<double> widths;
	double y = margin + title_height, width = 0;

	for (const auto &nodes : layers) {
		double sum = -node_gap;
		for (const std::size_t n : nodes)
			sum += places[n].width + node_gap;
		widths.push_back(sum);
		width = std::max(width, sum);
	}
	for (std::size_t i = 0; i < layers.size(); i++) {
		double x = margin + (width - widths[i]) / 2, height = 0;
		for (const std::size_t n : layers[i])
			height = std::max(height, places[n].height);
		for (const std::size_t n : layers[i]) {
			places[n].x = x + places[n].width / 2;
			places[n].y = y + height / 2;
			x += places[n].width + node_gap;
		}
		y += height + layer_gap;
	}
	return {width + 2 * margin, y - layer_gap + margin};
}

static void draw(Svg &svg, const Graph::Node &node, const Place &at)
{
	const char *const colour = node.stuck ? "#c00000" : "#444";
	const char *const fill = node.stuck ? "#fde8e8" : "#f4f6f8";
	const Point corner{at.x - at.width / 2, at.y - at.height / 2};
	double y = at.y - line_height * static_cast<double>(node.lines.size()) / 2 + 11;

	if (node.shape == Graph::Shape::diamond)
		svg.diamond({at.x, at.y}, at.width, at.height, colour, fill);
	else
		svg.box(corner, at.width, at.height,
			node.shape == Graph::Shape::oval ? at.height / 2 : 2, colour, fill);
	for (const std::string &line : node.lines) {
		svg.text({at.x, y}, line, Svg::Anchor::middle, node.stuck ? "#c00000" : "#222");
		y += line_height;
	}
}

std::string svg(const Graph &graph, const std::string &title)
{
	std::vector<Place> places(graph.nodes.size());
	Svg picture;

	for (std::size_t i = 0; i < places.size(); i++) {
		places[i].width = width_of(graph.nodes[i]);
		places[i].height = height_of(graph.nodes[i]);
	}
	layer(graph, backward(graph), places);
	const Point size = place(order(graph, places), places);
	picture.text({margin, 26}, title, Svg::Anchor::start, "#222", true);
	if (graph.nodes.empty())
		picture.text({margin, 50}, "nothing is armed");
	const auto ends = [&](const Graph::Edge &edge) {
		const Place &a = places[edge.from], &b = places[edge.to];
		const int down = b.layer > a.layer ? 1 : -1;
		return std::pair(Point{a.x, a.y + down * a.height / 2},
				 Point{b.x, b.y - down * b.height / 2});
	};
	for (const Graph::Edge &edge : graph.edges)
		picture.curve(ends(edge).first, ends(edge).second, "#444");
	for (const Graph::Edge &edge : graph.edges) {
		const auto [from, to] = ends(edge);
		if (!edge.label.empty())
			picture.label({(from.x + to.x) / 2 + 6, (from.y + to.y) / 2 + 4},
				      edge.label);
	}
	for (std::size_t i = 0; i < places.size(); i++)
		draw(picture, graph.nodes[i], places[i]);
	return picture.picture(std::max(size.x, 2 * margin + text_width(title)),
			       std::max(size.y, 80.0), title);
}

} // namespace ctl
