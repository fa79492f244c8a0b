/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections: how they are made, which endpoints they reach, and the rings that they receive in.
 */
// conformance: fi_arch(7): endpoint types: FI_EP_MSG

#include "connection.h"

/* --- getting connected ------------------------------------------------------------- */

TEST(both_sides_get_events_and_data)
{
	static char ask[TREADLE_CM_DATA], answer[TREADLE_CM_DATA];
	struct treadle_event ev;
	struct listener l;
	struct node c, s;

	listener_open(&l);
	for (int size = 0; size <= TREADLE_CM_DATA; size += 64) {
		fill(ask, size, size);
		fill(answer, size, size + 1);
		msg_open(&c, (struct options){0}, l.eq, CLIENT);
		ASSERT_EQ(0, connect_to(c.fd, c.ep, l.addr, size ? ask : NULL, size));
		ev = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP);
		EXPECT_EQ(size, ev.data_size);
		EXPECT_TRUE(same(ev.data, size, size));
		EXPECT_EQ(0, memcmp(&ev.addr, &c.addr, sizeof(ev.addr)));
		EXPECT_LT(0, ev.request);

		msg_open(&s, (struct options){.request = ev.request}, l.eq, SERVER);
		EXPECT_EQ(0, memcmp(&s.addr, &l.addr, sizeof(s.addr)));
		ASSERT_EQ(0, accept_with(s.fd, s.ep, size ? answer : NULL, size));
		ev = event_is(l.eq, TREADLE_EVENT_CONNECTED, CLIENT);
		EXPECT_EQ(size, ev.data_size);
		EXPECT_TRUE(same(ev.data, size, size + 1));
		EXPECT_EQ(0, memcmp(&ev.addr, &l.addr, sizeof(ev.addr)));
		ev = event_is(l.eq, TREADLE_EVENT_CONNECTED, SERVER);
		EXPECT_EQ(0, ev.data_size);
		EXPECT_EQ(0, memcmp(&ev.addr, &c.addr, sizeof(ev.addr)));
		EXPECT_TRUE(eq_empty(l.eq));
		node_close(&c);
		event_is(l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
		node_close(&s);
	}
	listener_close(&l);
}

TEST(messages_go_both_ways_in_order)
{
	static const size_t lengths[] = {0, 1, 64, 4096, 4097, 65536, 1 << 20, 3 << 20};
	struct treadle_cqe cqe;
	struct pair p;
	char buf[8][64], out[64];

	pair_open(&p);
	for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
		expect_message(&p.client, &p.server, lengths[i], i);
		expect_message(&p.server, &p.client, lengths[i], i + 100);
	}
	/* Unexpected messages, plain and tagged: each kind stays in order. */
	for (int i = 0; i < 8; i++) {
		fill(out, 64, i);
		ASSERT_EQ(1, post(&p.client,
				  i % 2 ? tsend_of(out, 64, 77, 5, i) : send_of(out, 64, ANY, i)));
		EXPECT_EQ(0, cq_next(&p.client.cq).error);
	}
	for (int i = 0; i < 8; i++) {
		int n = i < 4 ? 2 * i : 2 * (i - 4) + 1;

		ASSERT_EQ(0, post_recv(&p.server, n % 2 ? trecv_of(buf[i], 64, ANY, 5, 0, i) :
							  recv_of(buf[i], 64, ANY, i)));
		cqe = cq_next(&p.server.rcq);
		EXPECT_EQ(0, cqe.error);
		EXPECT_EQ(i, cqe.context);
		EXPECT_TRUE(same(buf[i], 64, n));
	}
}

/* Two connections of the same two contexts, and an endpoint that is not connected. */
TEST(only_the_peer_is_reached)
{
	struct pair p, q;
	struct node outsider;
	struct treadle_cqe c;
	char a[8], b[8], out[8];

	pair_open(&p);
	pair_open(&q);
	ASSERT_EQ(0, post_recv(&p.server, recv_of(a, 8, ANY, 1)));
	ASSERT_EQ(0, post_recv(&q.server, recv_of(b, 8, ANY, 2)));
	fill(out, 8, 9);
	ASSERT_EQ(1, post(&q.client, send_of(out, 8, 0, 3)));
	c = cq_next(&q.server.rcq);
	EXPECT_EQ(2, c.context);
	EXPECT_TRUE(same(b, 8, 9));
	EXPECT_TRUE(cq_empty(&p.server.rcq));

	node_open(&outsider, (struct options){0});
	for (int i = 0; i < 2; i++) {
		struct treadle_addr to = i ? p.client.addr : p.l.addr;

		ASSERT_EQ(1, post(&outsider, send_of(out, 8, peer(&outsider, to), 4)));
		EXPECT_EQ(ECONNREFUSED, cq_next(&outsider.cq).error);
	}
	/* Nor can an endpoint that does not listen be asked. */
	struct node c2;

	msg_open(&c2, (struct options){0}, p.ceq, 7);
	ASSERT_EQ(0, connect_to(c2.fd, c2.ep, outsider.addr, NULL, 0));
	EXPECT_EQ(ECONNREFUSED, event_is(p.ceq, TREADLE_EVENT_CONNREFUSED, 7).error);
}

// conformance: ioctl.h: EISCONN: the endpoint was connected once
// conformance: ioctl.h: ECONNREFUSED: the connection was rejected
TEST(a_request_that_is_rejected)
{
	static char why[TREADLE_CM_DATA];
	struct treadle_event ev;
	struct pair p;

	for (int size = 0; size <= TREADLE_CM_DATA; size += 128) {
		fill(why, size, size);
		pair_ask(&p);
		EXPECT_EQ(0, reject_with(p.l.fd, p.l.ep, p.request, size ? why : NULL, size));
		EXPECT_EQ(-ENOENT, reject_with(p.l.fd, p.l.ep, p.request, NULL, 0));
		ev = event_is(p.ceq, TREADLE_EVENT_CONNREFUSED, CLIENT);
		EXPECT_EQ(ECONNREFUSED, ev.error);
		EXPECT_EQ(size, ev.data_size);
		EXPECT_TRUE(same(ev.data, size, size));
		EXPECT_TRUE(eq_empty(p.ceq));
		/* An endpoint may ask once. */
		EXPECT_EQ(-EISCONN, connect_to(p.client.fd, p.client.ep, p.l.addr, NULL, 0));
		EXPECT_EQ(-ENOTCONN, hang_up(p.client.fd, p.client.ep));
	}
}

// conformance: ioctl.h: ECONNREFUSED: no endpoint listens at that address
// conformance: ioctl.h: EHOSTUNREACH: the address is not on this machine, nor on a node that
//   is reached
TEST(no_listener_refuses)
{
	struct treadle_addr foreign = loopback(7), v6 = {.family = AF_INET6, .port = htons(7)};
	struct listener l;
	struct node n[5];

	listener_create(&l, NULL);
	memcpy(foreign.addr, "\xc0\x00\x02\x01", 4);
	v6.addr[15] = 1;
	for (int i = 0; i < 5; i++)
		msg_open(&n[i], (struct options){0}, l.eq, i);
	ASSERT_EQ(0, connect_to(n[0].fd, n[0].ep, loopback(1), NULL, 0));
	EXPECT_EQ(ECONNREFUSED, event_is(l.eq, TREADLE_EVENT_CONNREFUSED, 0).error);
	ASSERT_EQ(0, connect_to(n[1].fd, n[1].ep, foreign, NULL, 0));
	EXPECT_EQ(EHOSTUNREACH, event_is(l.eq, TREADLE_EVENT_CONNREFUSED, 1).error);
	/* The passive endpoint is bound, but does not listen. */
	ASSERT_EQ(0, connect_to(n[2].fd, n[2].ep, l.addr, NULL, 0));
	EXPECT_EQ(ECONNREFUSED, event_is(l.eq, TREADLE_EVENT_CONNREFUSED, 2).error);
	ASSERT_EQ(0, connect_to(n[3].fd, n[3].ep, n[4].addr, NULL, 0));
	EXPECT_EQ(ECONNREFUSED, event_is(l.eq, TREADLE_EVENT_CONNREFUSED, 3).error);
	ASSERT_EQ(0, connect_to(n[4].fd, n[4].ep, v6, NULL, 0));
	EXPECT_EQ(ECONNREFUSED, event_is(l.eq, TREADLE_EVENT_CONNREFUSED, 4).error);
	EXPECT_TRUE(eq_empty(l.eq));
}

// conformance: ioctl.h: ECONNREFUSED: no endpoint listens at that address
TEST(the_backlog_is_kept)
{
	struct listener l;
	struct node n[5];
	__u32 request;

	listener_create(&l, NULL);
	ASSERT_EQ(0, listen_to(l.fd, l.ep, 2));
	for (int i = 0; i < 5; i++)
		msg_open(&n[i], (struct options){0}, l.eq, i);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, connect_to(n[i].fd, n[i].ep, l.addr, NULL, 0));
	}
	request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
	event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP);
	EXPECT_EQ(ECONNREFUSED, event_is(l.eq, TREADLE_EVENT_CONNREFUSED, 2).error);
	/* A request that was read still counts, an answered one does not. */
	ASSERT_EQ(0, reject_with(l.fd, l.ep, request, NULL, 0));
	event_is(l.eq, TREADLE_EVENT_CONNREFUSED, 0);
	ASSERT_EQ(0, connect_to(n[3].fd, n[3].ep, l.addr, NULL, 0));
	event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP);
	ASSERT_EQ(0, listen_to(l.fd, l.ep, 3));
	ASSERT_EQ(0, connect_to(n[4].fd, n[4].ep, l.addr, NULL, 0));
	event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP);
}

TEST(an_event_queue_goes_with_its_context)
{
	int fd = device(), eq = wait_fd(fd, eq_create(fd));
	struct node n;

	close(fd);
	node_create(&n, (struct options){.type = TREADLE_EP_MSG});
	EXPECT_EQ(-ENOENT, ep_eq(n.fd, n.ep, eq, 0));
}

/* --- what ends early ------------------------------------------------------------------ */

TEST(a_passive_endpoint_closes_with_requests)
{
	struct listener l;
	struct node n[3], s;
	__u32 request[2];
	int ceq_fd = device(), ceq = wait_fd(ceq_fd, eq_create(ceq_fd));

	listener_open(&l);
	for (int i = 0; i < 3; i++) {
		msg_open(&n[i], (struct options){0}, ceq, i);
		ASSERT_EQ(0, connect_to(n[i].fd, n[i].ep, l.addr, NULL, 0));
	}
	/* The first request has an endpoint, the second was read, the third was not. */
	request[0] = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
	request[1] = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
	msg_open(&s, (struct options){.request = request[0]}, l.eq, SERVER);
	EXPECT_EQ(-EBUSY, destroy(l.fd, l.eq_id));
	ASSERT_EQ(0, destroy(l.fd, l.ep));
	EXPECT_EQ(ECONNREFUSED, event_is(ceq, TREADLE_EVENT_CONNREFUSED, 1).error);
	EXPECT_EQ(ECONNREFUSED, event_is(ceq, TREADLE_EVENT_CONNREFUSED, 2).error);
	EXPECT_TRUE(eq_empty(l.eq));
	EXPECT_TRUE(eq_empty(ceq));
	EXPECT_EQ(-ENOENT, ep_create_as(s.fd, TREADLE_EP_MSG, request[1], &s.addr, NULL, &s.av));

	ASSERT_EQ(0, accept_with(s.fd, s.ep, NULL, 0));
	event_is(ceq, TREADLE_EVENT_CONNECTED, 0);
	event_is(l.eq, TREADLE_EVENT_CONNECTED, SERVER);
	expect_message(&n[0], &s, 100, 1);
}

/* More requests than are refused under one hold of the lock. */
TEST(a_passive_endpoint_closes_with_many_requests)
{
	enum { MANY = 150 };
	int ceq_fd = device(), ceq = wait_fd(ceq_fd, eq_create(ceq_fd));
	static struct node n[MANY];
	struct listener l;

	listener_create(&l, NULL);
	ASSERT_EQ(0, listen_to(l.fd, l.ep, MANY));
	for (int i = 0; i < MANY; i++) {
		msg_open(&n[i], (struct options){0}, ceq, i);
		ASSERT_EQ(0, connect_to(n[i].fd, n[i].ep, l.addr, NULL, 0));
	}
	ASSERT_EQ(0, destroy(l.fd, l.ep));
	for (int i = 0; i < MANY; i++)
		EXPECT_EQ(ECONNREFUSED, event_is(ceq, TREADLE_EVENT_CONNREFUSED, i).error);
	EXPECT_TRUE(eq_empty(l.eq));
	EXPECT_TRUE(eq_empty(ceq));
}

// conformance: ioctl.h: EBUSY: the request has an endpoint
TEST(an_endpoint_for_a_request_closes)
{
	struct pair p;

	pair_ask(&p);
	msg_open(&p.server, (struct options){.request = p.request}, p.l.eq, SERVER);
	EXPECT_EQ(-EBUSY, ep_create_as(p.server.fd, TREADLE_EP_MSG, p.request, &p.server.addr, NULL,
				       &p.server.av));
	ASSERT_EQ(0, destroy(p.server.fd, p.server.ep));
	EXPECT_EQ(ECONNREFUSED, event_is(p.ceq, TREADLE_EVENT_CONNREFUSED, CLIENT).error);
	EXPECT_EQ(-ENOENT, reject_with(p.l.fd, p.l.ep, p.request, NULL, 0));
}

TEST(a_rejected_request_cannot_be_accepted)
{
	struct pair p;

	pair_ask(&p);
	msg_open(&p.server, (struct options){.request = p.request}, p.l.eq, SERVER);
	ASSERT_EQ(0, reject_with(p.l.fd, p.l.ep, p.request, NULL, 0));
	event_is(p.ceq, TREADLE_EVENT_CONNREFUSED, CLIENT);
	EXPECT_EQ(-ECONNRESET, accept_with(p.server.fd, p.server.ep, NULL, 0));
	EXPECT_EQ(-ENOTCONN, hang_up(p.server.fd, p.server.ep));
}

// conformance: ioctl.h: ECONNRESET: the client of ACCEPT is gone
TEST(a_client_that_goes_takes_its_request_along)
{
	struct listener l;
	struct node c, s;
	__u32 request;

	listener_open(&l);
	/* The client goes before its request is read. */
	msg_open(&c, (struct options){0}, l.eq, CLIENT);
	ASSERT_EQ(0, connect_to(c.fd, c.ep, l.addr, NULL, 0));
	ASSERT_EQ(0, destroy(c.fd, c.ep));
	EXPECT_TRUE(eq_empty(l.eq));
	/*
	 * The client goes after its request is read: the request's id stays, but refers to no peer.
	 */
	for (int adopted = 0; adopted < 2; adopted++) {
		msg_open(&c, (struct options){0}, l.eq, CLIENT);
		ASSERT_EQ(0, connect_to(c.fd, c.ep, l.addr, NULL, 0));
		request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
		if (adopted)
			msg_open(&s, (struct options){.request = request}, l.eq, SERVER);
		ASSERT_EQ(0, destroy(c.fd, c.ep));
		if (!adopted)
			msg_open(&s, (struct options){.request = request}, l.eq, SERVER);
		EXPECT_EQ(-ECONNRESET, accept_with(s.fd, s.ep, NULL, 0));
		ASSERT_EQ(0, destroy(s.fd, s.ep));
		EXPECT_EQ(-ENOENT, reject_with(l.fd, l.ep, request, NULL, 0));
	}
	msg_open(&c, (struct options){0}, l.eq, CLIENT);
	ASSERT_EQ(0, connect_to(c.fd, c.ep, l.addr, NULL, 0));
	request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
	ASSERT_EQ(0, destroy(c.fd, c.ep));
	EXPECT_EQ(0, reject_with(l.fd, l.ep, request, NULL, 0));
	EXPECT_TRUE(eq_empty(l.eq));
}

/* --- receive rings -------------------------------------------------------------------- */

/* After the end of a connection, the ring may serve another one. */
TEST(a_receive_ring_serves_one_connection_after_the_other)
{
	struct listener l;
	struct node c, s;
	struct ring rx;
	char in[8];
	int fd = device();

	listener_open(&l);
	rx_open(&rx, fd, 64, 0);
	for (int i = 0; i < 3; i++) {
		msg_open(&c, (struct options){0}, l.eq, CLIENT);
		ASSERT_EQ(0, connect_to(c.fd, c.ep, l.addr, NULL, 0));
		msg_open(&s,
			 (struct options){
				 .context = fd,
				 .shared_rx = &rx,
				 .request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request},
			 l.eq, SERVER);
		ASSERT_EQ(0, accept_with(s.fd, s.ep, NULL, 0));
		event_is(l.eq, TREADLE_EVENT_CONNECTED, CLIENT);
		event_is(l.eq, TREADLE_EVENT_CONNECTED, SERVER);
		expect_message(&c, &s, 64, i);
		node_close(&c);
		event_is(l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
		ASSERT_EQ(0, post_recv(&s, recv_of(in, 8, ANY, 1)));
		EXPECT_EQ(ECANCELED, cq_next(&s.rcq).error);
		ASSERT_EQ(0, destroy(fd, s.ep));
		EXPECT_FALSE(ring_needs_doorbell(&s.rx));
		rx = s.rx;
	}
}

// conformance: ioctl.h: EBUSY: the ring has an endpoint
TEST(connections_share_a_receive_ring)
{
	struct listener l;
	struct node c[3], s[3], extra;
	struct ring rx, own;
	struct treadle_cqe cqe;
	struct treadle_ep_enable e;
	char in[8][8], out[8];
	int fd = device();

	listener_open(&l);
	ring_open(&rx, fd, TREADLE_IOC_RX_CREATE, TREADLE_RX_SHARED, 64, 0);
	for (int i = 0; i < 3; i++) {
		msg_open(&c[i], (struct options){0}, l.eq, CLIENT + i);
		ASSERT_EQ(0, connect_to(c[i].fd, c[i].ep, l.addr, NULL, 0));
		msg_open(&s[i],
			 (struct options){
				 .context = fd,
				 .shared_rx = &rx,
				 .request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request},
			 l.eq, SERVER + i);
		ASSERT_EQ(0, accept_with(fd, s[i].ep, NULL, 0));
		event_is(l.eq, TREADLE_EVENT_CONNECTED, CLIENT + i);
		event_is(l.eq, TREADLE_EVENT_CONNECTED, SERVER + i);
	}
	for (int i = 0; i < 8; i++) {
		ASSERT_EQ(0, post_recv(&s[0], recv_of(in[i], 8, ANY, i)));
	}
	for (int i = 0; i < 3; i++) {
		fill(out, 8, i);
		ASSERT_EQ(1, post(&c[i], send_of(out, 8, 0, i)));
		cqe = cq_next(&s[i].rcq);
		EXPECT_EQ(i, cqe.context);
		EXPECT_EQ(0, cqe.error);
		EXPECT_TRUE(same(in[i], 8, i));
	}
	/* One connection ends: the receives are for the other ones. */
	node_close(&c[0]);
	event_is(l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
	EXPECT_TRUE(cq_empty(&s[0].rcq));
	ASSERT_EQ(0, destroy(fd, s[0].ep));
	ASSERT_EQ(1, post(&c[1], send_of(out, 8, 0, 1)));
	EXPECT_EQ(0, cq_next(&s[1].rcq).error);

	/* A ring that was created for one connection can't be shared. */
	node_create(&extra, (struct options){.context = fd, .type = TREADLE_EP_MSG});
	own = extra.rx;
	e = node_bindings(&extra);
	ASSERT_EQ(0, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	node_create(&extra,
		    (struct options){.context = fd, .type = TREADLE_EP_MSG, .shared_rx = &own});
	e = node_bindings(&extra);
	EXPECT_EQ(-EBUSY, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	node_create(&extra, (struct options){.context = fd, .shared_rx = &own});
	e = node_bindings(&extra);
	EXPECT_EQ(-EBUSY, call(fd, TREADLE_IOC_EP_ENABLE, &e));
}

/*
 * On a shared ring the sources are those of the first endpoint with an address vector. A connected
 * endpoint is never a source, whichever endpoint posted the receive.
 */
TEST(a_connected_endpoint_is_no_source)
{
	struct node c, s, rdm[2], far, same;
	struct treadle_cqe cqe;
	struct listener l;
	struct ring rx;
	char in[8], out[8];
	int fd = device();

	listener_open(&l);
	ring_open(&rx, fd, TREADLE_IOC_RX_CREATE, TREADLE_RX_SHARED, 64, 0);
	msg_open(&c, (struct options){.context = fd, .shared_rx = &rx}, l.eq, CLIENT);
	ASSERT_EQ(0, connect_to(fd, c.ep, l.addr, NULL, 0));
	msg_open(&s,
		 (struct options){.request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request},
		 l.eq, SERVER);
	ASSERT_EQ(0, accept_with(s.fd, s.ep, NULL, 0));
	node_open(&far, (struct options){0});
	fill(out, 8, 7);

	/* No endpoint of the ring has an address vector. */
	ASSERT_EQ(0, post_recv(&c, recv_of(in, 8, 0, 1)));
	ASSERT_EQ(0, ring_doorbell(&c.rx));
	EXPECT_EQ(EDESTADDRREQ, cq_next(&c.rcq).error);
	for (int i = 0; i < 2; i++)
		node_open(&rdm[i], (struct options){.context = fd, .shared_rx = &rx});
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, post_recv(&c, recv_of(in, 8, peer(&rdm[i], far.addr), 2 + i)));
		ASSERT_EQ(1, post(&far, send_of(out, 8, peer(&far, rdm[1].addr), 0)));
		cqe = cq_next(&rdm[1].rcq);
		EXPECT_EQ(2 + i, cqe.context);
		EXPECT_EQ(0, cqe.error);
		ASSERT_EQ(0, i ? 0 : destroy(fd, rdm[0].ep));
	}

	/* Another endpoint has the address at which the connection was accepted. */
	ASSERT_EQ(0, destroy(l.fd, l.ep));
	node_open(&same, (struct options){.addr = l.addr});
	ASSERT_EQ(0, post_recv(&c, recv_of(in, 8, peer(&rdm[1], same.addr), 4)));
	ASSERT_EQ(0, post_recv(&c, recv_of(in, 8, ANY, 5)));
	ASSERT_EQ(1, post(&s, send_of(out, 8, 0, 0)));
	EXPECT_EQ(5, cq_next(&c.rcq).context);
	ASSERT_EQ(1, post(&same, send_of(out, 8, peer(&same, rdm[1].addr), 0)));
	EXPECT_EQ(4, cq_next(&rdm[1].rcq).context);
}

// conformance: ioctl.h: ENOTCONN: the endpoint is not connected yet
TEST(armed_commands_wait_for_the_connection)
{
	struct treadle_cqe cqe;
	struct cntr go;
	struct pair p;
	char in[8], out[8];

	pair_ask(&p);
	cntr_open(&go, p.client.fd);
	fill(out, 8, 3);
	EXPECT_EQ(-ENOTCONN, post(&p.client, send_of(out, 8, 0, 0)));
	for (int i = 1; i <= 3; i++) {
		ASSERT_EQ(1, post(&p.client, when(send_of(out, 8, 0, i), &go, i)));
	}
	ASSERT_EQ(1, post(&p.client, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)));
	cqe = cq_next(&p.client.cq);
	EXPECT_EQ(1, cqe.context);
	EXPECT_EQ(ENOTCONN, cqe.error);

	msg_open(&p.server, (struct options){.request = p.request}, p.l.eq, SERVER);
	ASSERT_EQ(0, accept_with(p.server.fd, p.server.ep, NULL, 0));
	ASSERT_EQ(0, post_recv(&p.server, recv_of(in, 8, ANY, 7)));
	ASSERT_EQ(1, post(&p.client, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)));
	EXPECT_EQ(0, cq_next(&p.client.cq).error);
	EXPECT_EQ(7, cq_next(&p.server.rcq).context);
	EXPECT_TRUE(same(in, 8, 3));

	node_close(&p.server);
	event_is(p.ceq, TREADLE_EVENT_CONNECTED, CLIENT);
	event_is(p.ceq, TREADLE_EVENT_SHUTDOWN, CLIENT);
	ASSERT_EQ(1, post(&p.client, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)));
	cqe = cq_next(&p.client.cq);
	EXPECT_EQ(3, cqe.context);
	EXPECT_EQ(ECONNRESET, cqe.error);
	/* So does an armed receive. */
	ASSERT_EQ(1, post(&p.client, when(recv_of(in, 8, ANY, 9), &go, 4)));
	ASSERT_EQ(1, post(&p.client, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)));
	cqe = cq_next(&p.client.rcq);
	EXPECT_EQ(9, cqe.context);
	EXPECT_EQ(ECANCELED, cqe.error);
}

TEST_HARNESS_MAIN
