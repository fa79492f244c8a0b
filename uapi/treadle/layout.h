/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The ABI, byte by byte: the same for every width and compiler. The module and the library assert
 * it in their builds; it is not installed. Nothing here may ever change.
 */
#ifndef TREADLE_LAYOUT_H
#define TREADLE_LAYOUT_H

#ifndef __KERNEL__
#include <assert.h>
#include <stddef.h>
#endif

#include <treadle/ioctl.h>
#include <treadle/ring.h>

#define TREADLE_SIZE(type, size) static_assert(sizeof(struct type) == (size), #type)
#define TREADLE_AT(type, member, offset) \
	static_assert(offsetof(struct type, member) == (offset), #type)

static_assert(sizeof(union treadle_slot) == TREADLE_SLOT_SIZE, "one slot");
static_assert(sizeof(struct treadle_rma_iov) * TREADLE_MAX_RMA_IOV <= TREADLE_SLOT_SIZE,
	      "one slot");

TREADLE_SIZE(treadle_iov, 16);
TREADLE_AT(treadle_iov, addr, 0);
TREADLE_AT(treadle_iov, len, 8);

TREADLE_SIZE(treadle_rma_iov, 24);
TREADLE_AT(treadle_rma_iov, addr, 0);
TREADLE_AT(treadle_rma_iov, len, 8);
TREADLE_AT(treadle_rma_iov, key, 16);

TREADLE_SIZE(treadle_desc, 128);
TREADLE_AT(treadle_desc, opcode, 0);
TREADLE_AT(treadle_desc, iov_count, 1);
TREADLE_AT(treadle_desc, reserved0, 2);
TREADLE_AT(treadle_desc, flags, 4);
TREADLE_AT(treadle_desc, context, 8);
TREADLE_AT(treadle_desc, addr, 16);
TREADLE_AT(treadle_desc, len, 24);
TREADLE_AT(treadle_desc, peer, 32);
TREADLE_AT(treadle_desc, tag, 40);
TREADLE_AT(treadle_desc, remote_addr, 40);
TREADLE_AT(treadle_desc, ignore, 48);
TREADLE_AT(treadle_desc, remote_key, 48);
TREADLE_AT(treadle_desc, data, 56);
TREADLE_AT(treadle_desc, ep, 64);
TREADLE_AT(treadle_desc, cond, 68);
TREADLE_AT(treadle_desc, threshold, 72);
TREADLE_AT(treadle_desc, notify, 80);
TREADLE_AT(treadle_desc, atomic_op, 84);
TREADLE_AT(treadle_desc, datatype, 85);
TREADLE_AT(treadle_desc, rma_iov_count, 86);
TREADLE_AT(treadle_desc, fetch_iov_count, 87);
TREADLE_AT(treadle_desc, result, 88);
TREADLE_AT(treadle_desc, compare, 96);
TREADLE_AT(treadle_desc, value, 104);
TREADLE_AT(treadle_desc, rest, 112);
TREADLE_AT(treadle_desc, reserved1, 116);
TREADLE_AT(treadle_desc, rest_threshold, 120);

TREADLE_SIZE(treadle_ring_prod, 64);
TREADLE_AT(treadle_ring_prod, prod, 0);
TREADLE_AT(treadle_ring_prod, reserved, 4);

TREADLE_SIZE(treadle_ring_cons, 64);
TREADLE_AT(treadle_ring_cons, released, 0);
TREADLE_AT(treadle_ring_cons, flags, 4);
TREADLE_AT(treadle_ring_cons, offers, 8);
TREADLE_AT(treadle_ring_cons, reserved, 12);

TREADLE_SIZE(treadle_cqe, 64);
TREADLE_AT(treadle_cqe, context, 0);
TREADLE_AT(treadle_cqe, len, 8);
TREADLE_AT(treadle_cqe, data, 16);
TREADLE_AT(treadle_cqe, tag, 24);
TREADLE_AT(treadle_cqe, buf, 32);
TREADLE_AT(treadle_cqe, src, 40);
TREADLE_AT(treadle_cqe, flags, 48);
TREADLE_AT(treadle_cqe, error, 52);
TREADLE_AT(treadle_cqe, olen, 56);

TREADLE_SIZE(treadle_cq_prod, 64);
TREADLE_AT(treadle_cq_prod, prod, 0);
TREADLE_AT(treadle_cq_prod, flags, 4);
TREADLE_AT(treadle_cq_prod, signals, 8);
TREADLE_AT(treadle_cq_prod, reserved, 12);

TREADLE_SIZE(treadle_cq_cons, 64);
TREADLE_AT(treadle_cq_cons, cons, 0);
TREADLE_AT(treadle_cq_cons, reserved, 4);

TREADLE_SIZE(treadle_cntr_page, 64);
TREADLE_AT(treadle_cntr_page, success, 0);
TREADLE_AT(treadle_cntr_page, error, 8);
TREADLE_AT(treadle_cntr_page, changes, 16);
TREADLE_AT(treadle_cntr_page, reserved, 24);

TREADLE_SIZE(treadle_map, 16);
TREADLE_AT(treadle_map, offset, 0);
TREADLE_AT(treadle_map, length, 8);

TREADLE_SIZE(treadle_addr, 24);
TREADLE_AT(treadle_addr, family, 0);
TREADLE_AT(treadle_addr, port, 2);
TREADLE_AT(treadle_addr, scope, 4);
TREADLE_AT(treadle_addr, addr, 8);

TREADLE_SIZE(treadle_query, 96);
TREADLE_AT(treadle_query, size, 0);
TREADLE_AT(treadle_query, abi_version, 4);
TREADLE_AT(treadle_query, features, 8);
TREADLE_AT(treadle_query, opcodes, 16);
TREADLE_AT(treadle_query, desc_flags, 24);
TREADLE_AT(treadle_query, max_msg_size, 32);
TREADLE_AT(treadle_query, inject_size, 40);
TREADLE_AT(treadle_query, max_objects, 44);
TREADLE_AT(treadle_query, max_ring, 48);
TREADLE_AT(treadle_query, max_cq, 52);
TREADLE_AT(treadle_query, max_av, 56);
TREADLE_AT(treadle_query, max_armed, 60);
TREADLE_AT(treadle_query, max_buffered, 64);
TREADLE_AT(treadle_query, max_auth_key, 68);
TREADLE_AT(treadle_query, node, 72);

TREADLE_SIZE(treadle_cq_create, 48);
TREADLE_AT(treadle_cq_create, size, 0);
TREADLE_AT(treadle_cq_create, flags, 4);
TREADLE_AT(treadle_cq_create, entries, 8);
TREADLE_AT(treadle_cq_create, id, 12);
TREADLE_AT(treadle_cq_create, ro, 16);
TREADLE_AT(treadle_cq_create, rw, 32);

TREADLE_SIZE(treadle_cntr_create, 32);
TREADLE_AT(treadle_cntr_create, size, 0);
TREADLE_AT(treadle_cntr_create, flags, 4);
TREADLE_AT(treadle_cntr_create, id, 8);
TREADLE_AT(treadle_cntr_create, reserved, 12);
TREADLE_AT(treadle_cntr_create, ro, 16);

TREADLE_SIZE(treadle_av_create, 32);
TREADLE_AT(treadle_av_create, size, 0);
TREADLE_AT(treadle_av_create, flags, 4);
TREADLE_AT(treadle_av_create, count, 8);
TREADLE_AT(treadle_av_create, id, 12);
TREADLE_AT(treadle_av_create, name, 16);
TREADLE_AT(treadle_av_create, name_size, 24);
TREADLE_AT(treadle_av_create, rx_ctx_bits, 28);

TREADLE_SIZE(treadle_av_insert, 40);
TREADLE_AT(treadle_av_insert, size, 0);
TREADLE_AT(treadle_av_insert, av, 4);
TREADLE_AT(treadle_av_insert, flags, 8);
TREADLE_AT(treadle_av_insert, count, 12);
TREADLE_AT(treadle_av_insert, addrs, 16);
TREADLE_AT(treadle_av_insert, out, 24);
TREADLE_AT(treadle_av_insert, ids, 32);

TREADLE_SIZE(treadle_av_remove, 24);
TREADLE_AT(treadle_av_remove, size, 0);
TREADLE_AT(treadle_av_remove, av, 4);
TREADLE_AT(treadle_av_remove, flags, 8);
TREADLE_AT(treadle_av_remove, count, 12);
TREADLE_AT(treadle_av_remove, indices, 16);

TREADLE_SIZE(treadle_av_lookup, 72);
TREADLE_AT(treadle_av_lookup, size, 0);
TREADLE_AT(treadle_av_lookup, av, 4);
TREADLE_AT(treadle_av_lookup, index, 8);
TREADLE_AT(treadle_av_lookup, addr, 16);
TREADLE_AT(treadle_av_lookup, flags, 40);
TREADLE_AT(treadle_av_lookup, reserved, 44);
TREADLE_AT(treadle_av_lookup, common, 48);

TREADLE_SIZE(treadle_ring_create, 56);
TREADLE_AT(treadle_ring_create, size, 0);
TREADLE_AT(treadle_ring_create, flags, 4);
TREADLE_AT(treadle_ring_create, entries, 8);
TREADLE_AT(treadle_ring_create, buffered, 12);
TREADLE_AT(treadle_ring_create, id, 16);
TREADLE_AT(treadle_ring_create, idle, 20);
TREADLE_AT(treadle_ring_create, rw, 24);
TREADLE_AT(treadle_ring_create, ro, 40);

TREADLE_SIZE(treadle_ep_create, 64);
TREADLE_AT(treadle_ep_create, size, 0);
TREADLE_AT(treadle_ep_create, type, 4);
TREADLE_AT(treadle_ep_create, flags, 8);
TREADLE_AT(treadle_ep_create, id, 12);
TREADLE_AT(treadle_ep_create, addr, 16);
TREADLE_AT(treadle_ep_create, auth_key, 40);
TREADLE_AT(treadle_ep_create, auth_key_size, 48);
TREADLE_AT(treadle_ep_create, request, 52);
TREADLE_AT(treadle_ep_create, parent, 56);
TREADLE_AT(treadle_ep_create, index, 60);

TREADLE_SIZE(treadle_ep_enable, 56);
TREADLE_AT(treadle_ep_enable, size, 0);
TREADLE_AT(treadle_ep_enable, ep, 4);
TREADLE_AT(treadle_ep_enable, flags, 8);
TREADLE_AT(treadle_ep_enable, tx, 12);
TREADLE_AT(treadle_ep_enable, rx, 16);
TREADLE_AT(treadle_ep_enable, av, 20);
TREADLE_AT(treadle_ep_enable, tx_cq, 24);
TREADLE_AT(treadle_ep_enable, rx_cq, 28);
TREADLE_AT(treadle_ep_enable, cntr_send, 32);
TREADLE_AT(treadle_ep_enable, cntr_recv, 36);
TREADLE_AT(treadle_ep_enable, cntr_read, 40);
TREADLE_AT(treadle_ep_enable, cntr_write, 44);
TREADLE_AT(treadle_ep_enable, cntr_remote_read, 48);
TREADLE_AT(treadle_ep_enable, cntr_remote_write, 52);

TREADLE_SIZE(treadle_mr_create, 80);
TREADLE_AT(treadle_mr_create, size, 0);
TREADLE_AT(treadle_mr_create, flags, 4);
TREADLE_AT(treadle_mr_create, access, 8);
TREADLE_AT(treadle_mr_create, iov_count, 12);
TREADLE_AT(treadle_mr_create, iov, 16);
TREADLE_AT(treadle_mr_create, key, 24);
TREADLE_AT(treadle_mr_create, cntr, 32);
TREADLE_AT(treadle_mr_create, ep, 36);
TREADLE_AT(treadle_mr_create, auth_key, 40);
TREADLE_AT(treadle_mr_create, auth_key_size, 48);
TREADLE_AT(treadle_mr_create, id, 52);
TREADLE_AT(treadle_mr_create, fd, 56);
TREADLE_AT(treadle_mr_create, reserved, 60);
TREADLE_AT(treadle_mr_create, base, 64);
TREADLE_AT(treadle_mr_create, addr, 72);

TREADLE_SIZE(treadle_cntr_copy, 24);
TREADLE_AT(treadle_cntr_copy, size, 0);
TREADLE_AT(treadle_cntr_copy, flags, 4);
TREADLE_AT(treadle_cntr_copy, cntr, 8);
TREADLE_AT(treadle_cntr_copy, cells, 12);
TREADLE_AT(treadle_cntr_copy, offset, 16);

TREADLE_SIZE(treadle_mr_bind, 24);
TREADLE_AT(treadle_mr_bind, size, 0);
TREADLE_AT(treadle_mr_bind, mr, 4);
TREADLE_AT(treadle_mr_bind, flags, 8);
TREADLE_AT(treadle_mr_bind, cntr, 12);
TREADLE_AT(treadle_mr_bind, ep, 16);
TREADLE_AT(treadle_mr_bind, reserved, 20);

TREADLE_SIZE(treadle_destroy, 8);
TREADLE_AT(treadle_destroy, size, 0);
TREADLE_AT(treadle_destroy, id, 4);

TREADLE_SIZE(treadle_cancel, 40);
TREADLE_AT(treadle_cancel, size, 0);
TREADLE_AT(treadle_cancel, kind, 4);
TREADLE_AT(treadle_cancel, id, 8);
TREADLE_AT(treadle_cancel, flags, 12);
TREADLE_AT(treadle_cancel, context, 16);
TREADLE_AT(treadle_cancel, threshold, 24);
TREADLE_AT(treadle_cancel, count, 32);

TREADLE_SIZE(treadle_wait, 40);
TREADLE_AT(treadle_wait, size, 0);
TREADLE_AT(treadle_wait, id, 4);
TREADLE_AT(treadle_wait, flags, 8);
TREADLE_AT(treadle_wait, signals, 12);
TREADLE_AT(treadle_wait, timeout_ns, 16);
TREADLE_AT(treadle_wait, threshold, 24);
TREADLE_AT(treadle_wait, error, 32);

TREADLE_SIZE(treadle_wait_fd, 16);
TREADLE_AT(treadle_wait_fd, size, 0);
TREADLE_AT(treadle_wait_fd, id, 4);
TREADLE_AT(treadle_wait_fd, flags, 8);
TREADLE_AT(treadle_wait_fd, fd, 12);

TREADLE_SIZE(treadle_eq_create, 16);
TREADLE_AT(treadle_eq_create, size, 0);
TREADLE_AT(treadle_eq_create, flags, 4);
TREADLE_AT(treadle_eq_create, id, 8);
TREADLE_AT(treadle_eq_create, reserved, 12);

TREADLE_SIZE(treadle_ep_eq, 24);
TREADLE_AT(treadle_ep_eq, size, 0);
TREADLE_AT(treadle_ep_eq, ep, 4);
TREADLE_AT(treadle_ep_eq, eq_fd, 8);
TREADLE_AT(treadle_ep_eq, flags, 12);
TREADLE_AT(treadle_ep_eq, context, 16);

TREADLE_SIZE(treadle_listen, 16);
TREADLE_AT(treadle_listen, size, 0);
TREADLE_AT(treadle_listen, ep, 4);
TREADLE_AT(treadle_listen, backlog, 8);
TREADLE_AT(treadle_listen, flags, 12);

TREADLE_SIZE(treadle_connect, 48);
TREADLE_AT(treadle_connect, size, 0);
TREADLE_AT(treadle_connect, ep, 4);
TREADLE_AT(treadle_connect, addr, 8);
TREADLE_AT(treadle_connect, data, 32);
TREADLE_AT(treadle_connect, data_size, 40);
TREADLE_AT(treadle_connect, flags, 44);

TREADLE_SIZE(treadle_accept, 24);
TREADLE_AT(treadle_accept, size, 0);
TREADLE_AT(treadle_accept, ep, 4);
TREADLE_AT(treadle_accept, data, 8);
TREADLE_AT(treadle_accept, data_size, 16);
TREADLE_AT(treadle_accept, flags, 20);

TREADLE_SIZE(treadle_reject, 32);
TREADLE_AT(treadle_reject, size, 0);
TREADLE_AT(treadle_reject, ep, 4);
TREADLE_AT(treadle_reject, request, 8);
TREADLE_AT(treadle_reject, data_size, 12);
TREADLE_AT(treadle_reject, data, 16);
TREADLE_AT(treadle_reject, flags, 24);
TREADLE_AT(treadle_reject, reserved, 28);

TREADLE_SIZE(treadle_shutdown, 16);
TREADLE_AT(treadle_shutdown, size, 0);
TREADLE_AT(treadle_shutdown, ep, 4);
TREADLE_AT(treadle_shutdown, flags, 8);
TREADLE_AT(treadle_shutdown, reserved, 12);

TREADLE_SIZE(treadle_event, 72 + TREADLE_CM_DATA);
TREADLE_AT(treadle_event, size, 0);
TREADLE_AT(treadle_event, event, 4);
TREADLE_AT(treadle_event, context, 8);
TREADLE_AT(treadle_event, addr, 16);
TREADLE_AT(treadle_event, request, 40);
TREADLE_AT(treadle_event, error, 44);
TREADLE_AT(treadle_event, data_size, 48);
TREADLE_AT(treadle_event, reserved0, 52);
TREADLE_AT(treadle_event, reserved1, 56);
TREADLE_AT(treadle_event, data, 72);

TREADLE_SIZE(treadle_window_open, 96);
TREADLE_AT(treadle_window_open, size, 0);
TREADLE_AT(treadle_window_open, ep, 4);
TREADLE_AT(treadle_window_open, flags, 8);
TREADLE_AT(treadle_window_open, access, 12);
TREADLE_AT(treadle_window_open, peer, 16);
TREADLE_AT(treadle_window_open, key, 24);
TREADLE_AT(treadle_window_open, addr, 32);
TREADLE_AT(treadle_window_open, len, 40);
TREADLE_AT(treadle_window_open, data, 48);
TREADLE_AT(treadle_window_open, ro, 64);
TREADLE_AT(treadle_window_open, id, 80);
TREADLE_AT(treadle_window_open, skip, 84);
TREADLE_AT(treadle_window_open, reserved, 88);

TREADLE_SIZE(treadle_window_fill, 32);
TREADLE_AT(treadle_window_fill, size, 0);
TREADLE_AT(treadle_window_fill, window, 4);
TREADLE_AT(treadle_window_fill, flags, 8);
TREADLE_AT(treadle_window_fill, reserved, 12);
TREADLE_AT(treadle_window_fill, addr, 16);
TREADLE_AT(treadle_window_fill, len, 24);

TREADLE_SIZE(treadle_window_status, 64);
TREADLE_AT(treadle_window_status, generation, 0);
TREADLE_AT(treadle_window_status, flags, 8);
TREADLE_AT(treadle_window_status, reserved, 16);
TREADLE_AT(treadle_window_status, present, 64);

TREADLE_SIZE(treadle_lane, 192);
TREADLE_AT(treadle_lane, tail, 0);
TREADLE_AT(treadle_lane, gone, 8);
TREADLE_AT(treadle_lane, reserved0, 12);
TREADLE_AT(treadle_lane, state, 64);
TREADLE_AT(treadle_lane, reserved1, 68);
TREADLE_AT(treadle_lane, head, 128);
TREADLE_AT(treadle_lane, reserved2, 136);

TREADLE_SIZE(treadle_lane_msg, 24);
TREADLE_AT(treadle_lane_msg, len, 0);
TREADLE_AT(treadle_lane_msg, flags, 4);
TREADLE_AT(treadle_lane_msg, tag, 8);
TREADLE_AT(treadle_lane_msg, data, 16);

TREADLE_SIZE(treadle_lane_make, 64);
TREADLE_AT(treadle_lane_make, size, 0);
TREADLE_AT(treadle_lane_make, ep, 4);
TREADLE_AT(treadle_lane_make, flags, 8);
TREADLE_AT(treadle_lane_make, id, 12);
TREADLE_AT(treadle_lane_make, reserved, 16);
TREADLE_AT(treadle_lane_make, peer, 24);
TREADLE_AT(treadle_lane_make, rw, 32);
TREADLE_AT(treadle_lane_make, ro, 48);

TREADLE_SIZE(treadle_lane_take, 40);
TREADLE_AT(treadle_lane_take, size, 0);
TREADLE_AT(treadle_lane_take, rx, 4);
TREADLE_AT(treadle_lane_take, flags, 8);
TREADLE_AT(treadle_lane_take, id, 12);
TREADLE_AT(treadle_lane_take, reserved, 16);
TREADLE_AT(treadle_lane_take, rw, 24);

TREADLE_SIZE(treadle_lane_source, 24);
TREADLE_AT(treadle_lane_source, size, 0);
TREADLE_AT(treadle_lane_source, lane, 4);
TREADLE_AT(treadle_lane_source, flags, 8);
TREADLE_AT(treadle_lane_source, reserved, 12);
TREADLE_AT(treadle_lane_source, src, 16);

#endif
