#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0
#
# Draws architecture.svg (make Documentation/architecture.svg). The ground is opaque, so that a page
# of any colour may be behind it.

function escape(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); return s }
function text(x, y, class, s) {
	printf "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, escape(s)
}
function rect(x, y, w, h, radius, class) {
	printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", x, y, w, h
	printf " rx=\"%d\" class=\"%s\"/>\n", radius, class
}
# A box with a title and, below it, up to two lines of what it does
function box(x, y, w, h, class, title, line1, line2,    lines, top) {
	rect(x, y, w, h, 6, class)
	lines = 1 + (line1 != "") + (line2 != "")
	top = y + h / 2 - 8 * (lines - 1) + 5
	text(x + w / 2, top, "title", title)
	if (line1 != "") text(x + w / 2, top + 16, "line", line1)
	if (line2 != "") text(x + w / 2, top + 32, "line", line2)
}
function arrow(class, points) {
	printf "<polyline points=\"%s\" class=\"%s\"", points, class
	printf " marker-end=\"url(#%s)\"/>\n", class
}
# The head of the arrows of a class; the line ends at point
function marker(class, colour, size, point) {
	printf "<marker id=\"%s\" viewBox=\"0 0 10 10\" refX=\"%d\" refY=\"5\"", class, point
	printf " markerWidth=\"%d\" markerHeight=\"%d\" orient=\"auto\">", size, size
	printf "<path d=\"M0 0 10 5 0 10z\" fill=\"%s\"/></marker>\n", colour
}
function style(selector, rules) { printf "%s { %s }\n", selector, rules }
# A number in a circle
function step(x, y, n) {
	printf "<circle cx=\"%d\" cy=\"%d\" r=\"9\" class=\"step\"/>\n", x, y
	text(x, y + 4, "number", n)
}
# What happens at that number, in a line or two
function legend(y, n, line1, line2) {
	step(334, y, n)
	text(352, y + 4, "label", line1)
	text(352, y + 20, "label", line2)
}
# What a process has in user space, from its left edge on
function process(x, name, role) {
	rect(x, 16, 270, 330, 10, "process")
	text(x + 135, 38, "head", name)
	text(x + 135, 54, "line", role)
	box(x + 20, 62, 230, 32, "user", "application")
	box(x + 20, 110, 150, 36, "system", "libfabric", "of the system")
	box(x + 20, 162, 150, 38, "user", "libtreadle-fi.so", "the provider")
	box(x + 20, 216, 230, 40, "user", "libtreadle.so", "the C++ library")
	arrow("call", (x + 95) ",94 " (x + 95) ",109")
	arrow("call", (x + 95) ",146 " (x + 95) ",161")
	arrow("call", (x + 95) ",200 " (x + 95) ",215")
	arrow("call", (x + 215) ",94 " (x + 215) ",215")
}
BEGIN {
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 660\" role=\"img\""
	print " font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\">"
	print "<!-- SPDX-License-Identifier: GPL-2.0; written by architecture.awk -->"
	print "<title>How a message goes from process A to process B through treadle</title>"
	print "<style>"
	style("text", "fill: #1c2430; text-anchor: middle; font-size: 12px")
	style(".head", "font-size: 14px; font-weight: bold")
	style(".title", "font-size: 13px; font-weight: bold")
	style(".line", "font-size: 11px; fill: #46505e")
	style(".label", "text-anchor: start")
	style(".number", "font-size: 11px; font-weight: bold; fill: #ffffff")
	style("rect", "stroke: #5b6675")
	style(".ground", "fill: #fbfcfe; stroke: #8a94a3")
	style(".process", "fill: #eef3fa")
	style(".user", "fill: #cfe0f7")
	style(".system", "fill: #ffffff; stroke-dasharray: 4 3")
	style(".mapped", "fill: #fbe3b3")
	style(".kernel", "fill: #eaf4ea")
	style(".room", "fill: #cbe6cb")
	style(".base", "fill: #dcebdc")
	style(".step", "fill: #1f5fa8")
	style("polyline", "fill: none; stroke-width: 1.6")
	style(".call", "stroke: #5b6675")
	style(".data", "stroke: #b3541e; stroke-width: 4")
	style(".control", "stroke: #1f5fa8; stroke-width: 2")
	style(".fire", "stroke: #8a2f8a; stroke-width: 2; stroke-dasharray: 6 3")
	style(".border", "stroke: #5b6675; stroke-dasharray: 8 5")
	print "</style><defs>"
	marker("call", "#5b6675", 7, 9)
	marker("control", "#1f5fa8", 7, 9)
	marker("fire", "#8a2f8a", 7, 9)
	marker("data", "#b3541e", 4, 7)
	print "</defs>"
	rect(1, 1, 958, 658, 12, "ground")

	process(30, "process A", "the sender")
	process(660, "process B", "the receiver: need not run")

	# Memory of the process, which the kernel reads and writes, too
	box(50, 284, 56, 50, "mapped", "TX", "ring")
	box(122, 284, 56, 50, "mapped", "CQ", "counters")
	box(194, 284, 86, 50, "user", "buffer")
	box(680, 284, 86, 50, "user", "buffer")
	box(782, 284, 56, 50, "mapped", "RX", "ring")
	box(854, 284, 56, 50, "mapped", "CQ", "counters")

	print "<polyline points=\"14,366 946,366\" class=\"border\"/>"
	text(480, 356, "line", "user space")
	text(480, 384, "line", "kernel")
	rect(30, 402, 900, 240, 10, "kernel")
	text(480, 624, "head", "treadle.ko")

	box(50, 420, 120, 56, "room", "dev", "ioctl, doorbell,", "mmap")
	box(200, 420, 120, 56, "room", "exec", "commands, order,", "triggers")
	box(350, 420, 120, 56, "room", "path", "opcodes: how to", "reach the peer")
	box(500, 420, 120, 56, "room", "match", "messages meet", "receives")
	box(650, 420, 120, 56, "room", "copy", "bytes; memory", "regions")
	box(800, 420, 110, 56, "room", "notify", "queues, counters,", "waiting")
	box(50, 550, 116, 46, "base", "proxy", "of other nodes")
	box(174, 550, 116, 46, "base", "ep", "endpoints")
	box(298, 550, 116, 46, "base", "names", "addresses, ports")
	box(422, 550, 116, 46, "base", "node", "sessions, links")
	box(546, 550, 116, 46, "base", "core", "objects, workers")
	box(670, 550, 116, 46, "base", "mm", "pages")
	box(794, 550, 116, 46, "base", "pure", "logic by itself")

	arrow("control", "78,256 78,283")
	arrow("control", "150,284 150,257")
	arrow("control", "810,256 810,283")
	arrow("control", "882,284 882,257")
	arrow("control", "50,236 18,236 18,448 49,448")
	arrow("control", "170,448 199,448")
	arrow("control", "320,448 349,448")
	arrow("control", "470,448 499,448")
	arrow("control", "620,448 649,448")
	arrow("control", "770,448 799,448")
	arrow("control", "882,420 882,335")
	arrow("control", "830,420 830,410 150,410 150,335")
	arrow("data", "237,334 237,396 723,396 723,337")
	arrow("fire", "855,476 855,514 260,514 260,477")

	step(796, 270, 1); step(64, 270, 2); step(18, 342, 3); step(480, 396, 4)
	step(882, 378, 5); step(150, 378, 5); step(558, 514, 6)
	legend(44, 1, "B posts a receive: stores into its", "ring, no system call")
	legend(90, 2, "A writes a descriptor: stores, too")
	legend(122, 3, "A rings the doorbell: one system call", "for a batch of descriptors")
	legend(168, 4, "message and receive meet; one copy,", "from buffer to buffer")
	legend(214, 5, "completions and counters, read by", "loads: no system call")
	legend(260, 6, "a counter that reaches a threshold", "fires the commands armed on it")
	text(352, 306, "label", "B need not run: A's doorbell does it all.")
	text(352, 324, "label", "Long copies and page faults: a worker.")
	print "</svg>"
}
