/* SPDX-License-Identifier: GPL-2.0 */
/* Connections: event queues, misuse, and the right to connect. */
#include "connection.h"
#include "cred.h"

static __u32 ep_of_kind(int fd, __u32 type)
{
	struct treadle_addr addr = loopback(0);
	__u32 id;

	need(ep_create_as(fd, type, 0, &addr, NULL, &id) == 0);
	return id;
}

/* --- event queues --------------------------------------------------------------------------- */

// conformance: ioctl.h: EAGAIN: nothing to report
TEST(an_event_stays_until_it_was_read)
{
	struct treadle_wait w = {.size = sizeof(w)};
	struct treadle_event ev;
	char *bad = pages(PAGE);
	struct listener l;
	struct node c;

	listener_open(&l);
	w.id = l.eq_id;
	EXPECT_EQ(-EAGAIN, call(l.fd, TREADLE_IOC_WAIT, &w));
	w.timeout_ns = 1000000;
	EXPECT_EQ(-ETIMEDOUT, call(l.fd, TREADLE_IOC_WAIT, &w));
	EXPECT_EQ(0, call(l.fd, TREADLE_IOC_SIGNAL, (void *)(unsigned long)l.eq_id));
	EXPECT_EQ(-ECANCELED, call(l.fd, TREADLE_IOC_WAIT, &w));
	w.threshold = 1;
	EXPECT_EQ(-EINVAL, call(l.fd, TREADLE_IOC_WAIT, &w));
	w.threshold = 0;

	msg_open(&c, (struct options){0}, l.eq, CLIENT);
	ASSERT_EQ(0, connect_to(c.fd, c.ep, l.addr, "hello", 5));
	EXPECT_EQ(0, call(l.fd, TREADLE_IOC_WAIT, &w));
	EXPECT_EQ(-1, read(l.eq, &ev, offsetof(struct treadle_event, data) + 4));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, read(l.eq, bad + PAGE, sizeof(ev)));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(offsetof(struct treadle_event, data) + 5,
		  read(l.eq, &ev, offsetof(struct treadle_event, data) + 5));
	EXPECT_EQ(0, memcmp(ev.data, "hello", 5));
	EXPECT_EQ(-EAGAIN, event_take(l.eq, &ev));
	node_close(&c);
	listener_close(&l);
}

// conformance: ioctl.h: ESHUTDOWN: (event queue) destroyed
TEST(an_event_queue_that_is_destroyed)
{
	int fd = device(), eq;
	__u32 id = eq_create(fd), ep = ep_of_kind(fd, TREADLE_EP_PASSIVE);
	struct treadle_event ev;
	struct pollfd p = {.events = POLLIN};

	p.fd = eq = wait_fd(fd, id);
	ASSERT_EQ(0, ep_eq(fd, ep, eq, 1));
	EXPECT_EQ(-EBUSY, destroy(fd, id));
	ASSERT_EQ(0, destroy(fd, ep));
	EXPECT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(0, destroy(fd, id));
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(-ESHUTDOWN, event_take(eq, &ev));
	ep = ep_of_kind(fd, TREADLE_EP_PASSIVE);
	EXPECT_EQ(-ENOENT, ep_eq(fd, ep, eq, 1));
}

/* The context of the event queue and of the listener goes first: the connection stays. */
TEST(a_fabric_may_go_before_its_endpoints)
{
	struct treadle_event ev;
	struct pair p;

	pair_open(&p);
	close(p.l.fd);
	EXPECT_EQ(-ESHUTDOWN, event_take(p.l.eq, &ev));
	expect_message(&p.client, &p.server, 64, 1);
	expect_message(&p.server, &p.client, 64, 2);
	node_close(&p.client);
	EXPECT_EQ(-ESHUTDOWN, event_take(p.l.eq, &ev));
}

/* --- mistakes ------------------------------------------------------------------------------- */

// conformance: ioctl.h: EADDRNOTAVAIL: not of this machine, of no known family
// conformance: ioctl.h: EOPNOTSUPP: not for endpoints of this type
// conformance: ioctl.h: EISCONN: the endpoint has an event queue
// conformance: ioctl.h: ENOTCONN: the endpoint is not enabled
TEST(misuse_is_refused)
{
	int fd = device(), null = open("/dev/null", O_RDWR | O_CLOEXEC);
	__u32 pep = ep_of_kind(fd, TREADLE_EP_PASSIVE), msg = ep_of_kind(fd, TREADLE_EP_MSG);
	__u32 rdm = ep_of_kind(fd, TREADLE_EP_RDM), dgram = ep_of_kind(fd, TREADLE_EP_DGRAM);
	__u32 eq_id = eq_create(fd), id;
	struct treadle_addr addr = loopback(0), odd = {.family = AF_UNIX};
	struct treadle_ep_enable e = {.size = sizeof(e)};
	struct cq cq;
	char *data = pages(PAGE) + PAGE - 8;
	int eq = wait_fd(fd, eq_id), cq_file;

	cq_open(&cq, fd, 8);
	cq_file = wait_fd(fd, cq.id);

	EXPECT_EQ(-EINVAL, ep_create_as(fd, 0, 0, &addr, NULL, &id));
	EXPECT_EQ(-EINVAL, ep_create_as(fd, 5, 0, &addr, NULL, &id));
	EXPECT_EQ(-ENOENT, ep_create_as(fd, TREADLE_EP_MSG, 0x7fffffff, &addr, NULL, &id));
	EXPECT_EQ(-EINVAL, ep_create_as(fd, TREADLE_EP_RDM, 1, &addr, NULL, &id));
	EXPECT_EQ(-EINVAL, ep_create_as(fd, TREADLE_EP_PASSIVE, 1, &addr, NULL, &id));

	EXPECT_EQ(-EBADF, ep_eq(fd, pep, -1, 0));
	EXPECT_EQ(-EBADF, ep_eq(fd, pep, fd, 0));
	EXPECT_EQ(-EBADF, ep_eq(fd, pep, null, 0));
	EXPECT_EQ(-EBADF, ep_eq(fd, pep, cq_file, 0));
	EXPECT_EQ(-EOPNOTSUPP, ep_eq(fd, rdm, eq, 0));
	EXPECT_EQ(-EOPNOTSUPP, ep_eq(fd, dgram, eq, 0));
	EXPECT_EQ(-EINVAL, listen_to(fd, pep, 0));
	EXPECT_EQ(0, ep_eq(fd, pep, eq, 0));
	EXPECT_EQ(-EISCONN, ep_eq(fd, pep, eq, 0));

	EXPECT_EQ(-EOPNOTSUPP, listen_to(fd, msg, 0));
	EXPECT_EQ(-EOPNOTSUPP, listen_to(fd, rdm, 0));
	EXPECT_EQ(-EINVAL, listen_to(fd, pep, 65537));
	EXPECT_EQ(0, listen_to(fd, pep, 65536));

	e.ep = pep;
	EXPECT_EQ(-EOPNOTSUPP, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	EXPECT_EQ(-EOPNOTSUPP, connect_to(fd, pep, addr, NULL, 0));
	EXPECT_EQ(-EOPNOTSUPP, connect_to(fd, rdm, addr, NULL, 0));
	EXPECT_EQ(-ENOTCONN, connect_to(fd, msg, addr, NULL, 0));
	e.ep = msg;
	e.av = av_open(fd);
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	e.av = 0;
	EXPECT_EQ(0, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	/* the endpoint has no event queue */
	EXPECT_EQ(-EINVAL, connect_to(fd, msg, addr, NULL, 0));
	EXPECT_EQ(0, ep_eq(fd, msg, eq, 0));
	EXPECT_EQ(-EADDRNOTAVAIL, connect_to(fd, msg, odd, NULL, 0));
	odd = loopback(0);
	odd.scope = 1;
	EXPECT_EQ(-EINVAL, connect_to(fd, msg, odd, NULL, 0));
	EXPECT_EQ(-EINVAL, connect_to(fd, msg, addr, data, TREADLE_CM_DATA + 1));
	EXPECT_EQ(-EINVAL, connect_to(fd, msg, addr, data, 0));
	EXPECT_EQ(-EFAULT, connect_to(fd, msg, addr, data, 9));
	EXPECT_EQ(-ENOTCONN, hang_up(fd, msg));
	EXPECT_EQ(-EOPNOTSUPP, hang_up(fd, rdm));
	EXPECT_EQ(-EOPNOTSUPP, hang_up(fd, pep));
	/* the endpoint was not created for a request */
	EXPECT_EQ(-EINVAL, accept_with(fd, msg, NULL, 0));
	EXPECT_EQ(-EOPNOTSUPP, accept_with(fd, pep, NULL, 0));
	EXPECT_EQ(-EFAULT, accept_with(fd, msg, data, 9));
	EXPECT_EQ(-EINVAL, accept_with(fd, msg, data, TREADLE_CM_DATA + 1));
	EXPECT_EQ(-EOPNOTSUPP, reject_with(fd, msg, 1, NULL, 0));
	EXPECT_EQ(-ENOENT, reject_with(fd, pep, 0, NULL, 0));
	EXPECT_EQ(-ENOENT, reject_with(fd, pep, 0x7fffffff, NULL, 0));
	EXPECT_EQ(-EFAULT, reject_with(fd, pep, 1, data, 9));
	/* None of the refused calls used up the one attempt. */
	EXPECT_EQ(0, connect_to(fd, msg, loopback(1), NULL, 0));
	EXPECT_EQ(ECONNREFUSED, event_is(eq, TREADLE_EVENT_CONNREFUSED, 0).error);
}

/*
 * A MSG endpoint without a receive ring can be connected. Only commands that need no receive reach
 * it.
 */
TEST(a_peer_that_does_not_receive_refuses)
{
	__u64 key = 5, word = 0;
	struct treadle_ep_enable e;
	struct node client, server;
	char buf[8] = "message";
	struct listener l;
	struct cntr c;
	__u32 id;

	listener_open(&l);
	node_create(&client, (struct options){.type = TREADLE_EP_MSG});
	ASSERT_EQ(0, ep_eq(client.fd, client.ep, l.eq, CLIENT));
	e = node_bindings(&client);
	e.rx = e.rx_cq = e.cntr_recv = 0;
	ASSERT_EQ(0, call(client.fd, TREADLE_IOC_EP_ENABLE, &e));
	ASSERT_EQ(0, connect_to(client.fd, client.ep, l.addr, NULL, 0));
	id = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
	msg_open(&server, (struct options){.request = id}, l.eq, SERVER);
	ASSERT_EQ(0, accept_with(server.fd, server.ep, NULL, 0));

	ASSERT_EQ(1, post(&server, send_of(buf, 8, 0, 1)));
	EXPECT_EQ(ECONNREFUSED, cq_next(&server.cq).error);
	ASSERT_EQ(1, post(&server, tsend_of(buf, 8, 0, 1, 2)));
	EXPECT_EQ(ECONNREFUSED, cq_next(&server.cq).error);
	cntr_open(&c, server.fd);
	ASSERT_EQ(1, post(&server, when(send_of(buf, 8, 0, 3), &c, 1)));
	ASSERT_EQ(1, post(&server, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 0)));
	EXPECT_EQ(ECONNREFUSED, cq_next(&server.cq).error);
	ASSERT_EQ(0, mr(client.fd, &word, 8, TREADLE_ACCESS_REMOTE_WRITE, 0, &key, &id));
	ASSERT_EQ(1, post(&server, write_of(buf, 8, 0, 0, key, 4)));
	EXPECT_EQ(0, cq_next(&server.cq).error);
	EXPECT_EQ(0, memcmp(buf, &word, 8));
	/* the other direction has a receive ring */
	ASSERT_EQ(0, post_recv(&server, recv_of(buf, 8, ANY, 5)));
	ASSERT_EQ(1, post(&client, send_of(&word, 8, 0, 6)));
	EXPECT_EQ(0, cq_next(&server.rcq).error);
	node_close(&client);
	node_close(&server);
	listener_close(&l);
}

/* A request belongs to its process, not to another one that guesses its id. */
static void intrudes(void *arg)
{
	struct pair *p = arg;
	struct treadle_addr addr = loopback(0);
	struct treadle_event ev;
	struct listener l;
	__u32 id;

	need(event_take(p->l.eq, &ev) == -EPERM);
	need(reject_with(p->l.fd, p->l.ep, p->request, NULL, 0) == -EPERM);
	listener_open(&l);
	need(ep_create_as(l.fd, TREADLE_EP_MSG, p->request, &addr, NULL, &id) == -ENOENT);
	need(reject_with(l.fd, l.ep, p->request, NULL, 0) == -ENOENT);
	need(ep_create_as(l.fd, TREADLE_EP_PASSIVE, 0, &addr, NULL, &id) == 0);
	need(ep_eq(l.fd, id, p->l.eq, 0) == -EBADF);
}

TEST(another_process_has_no_part_in_it)
{
	struct pair p;

	pair_ask(&p);
	EXPECT_EQ(0, reap(spawn(intrudes, &p)));
	EXPECT_EQ(0, reject_with(p.l.fd, p.l.ep, p.request, NULL, 0));
}

/* --- too many ------------------------------------------------------------------------------- */

enum { MANY = 10000, BACKLOG = 128 };

/* Asks for a connection by a new endpoint, which only has an event queue. */
static __u32 asks(int fd, int eq, struct treadle_addr to, __u64 context)
{
	struct treadle_ep_enable e = {.size = sizeof(e), .ep = ep_of_kind(fd, TREADLE_EP_MSG)};

	need(ep_eq(fd, e.ep, eq, context) == 0);
	need(call(fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
	need(connect_to(fd, e.ep, to, NULL, 0) == 0);
	return e.ep;
}

static void is_refused(int fd, int eq, struct treadle_addr to, __u64 context)
{
	__u32 ep = asks(fd, eq, to, context);

	need(event_is(eq, TREADLE_EVENT_CONNREFUSED, context).error == ECONNREFUSED);
	need(destroy(fd, ep) == 0);
}

/* Memory may be freed, and uncharged, a little later. */
static bool grew_less(const char *group, long long before, long long bytes)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (cgroup_kernel(group) - before >= bytes && now_ns() < end)
		usleep(10000);
	note("%lld bytes more", cgroup_kernel(group) - before);
	return cgroup_kernel(group) - before < bytes;
}

/*
 * As many requests as the backlog wait, and take memory. All others are refused at once, through
 * the client's queue, and take none.
 */
TEST(ten_thousand_requests_without_an_answer)
{
	int fd = device(), eq = wait_fd(fd, eq_create(fd));
	__u32 waiting[BACKLOG], request;
	long long before = 0;
	struct listener l;
	char group[64];

	cgroup_enter(group);
	listener_open(&l);
	for (int i = 0; i < BACKLOG; i++)
		waiting[i] = asks(fd, eq, l.addr, i);
	EXPECT_TRUE(eq_empty(eq));
	before = cgroup_kernel(group);
	for (int i = BACKLOG; i < MANY; i++)
		is_refused(fd, eq, l.addr, i);
	EXPECT_TRUE(grew_less(group, before, 1 << 20));
	request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
	for (int i = 1; i < BACKLOG; i++)
		event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP);
	EXPECT_TRUE(eq_empty(l.eq));
	/*
	 * A request that was read, but not answered, keeps its place in the backlog, even if its
	 * client has gone.
	 */
	is_refused(fd, eq, l.addr, MANY);
	ASSERT_EQ(0, destroy(fd, waiting[0]));
	is_refused(fd, eq, l.addr, MANY);
	ASSERT_EQ(0, reject_with(l.fd, l.ep, request, NULL, 0));
	waiting[0] = asks(fd, eq, l.addr, BACKLOG);
	event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP);
	ASSERT_EQ(0, destroy(l.fd, l.ep));
	for (int i = 1; i <= BACKLOG; i++)
		EXPECT_EQ(ECONNREFUSED, event_is(eq, TREADLE_EVENT_CONNREFUSED, i).error);
	EXPECT_TRUE(eq_empty(eq));
	EXPECT_TRUE(eq_empty(l.eq));
}

/*
 * A client that goes before its request is read takes the request along, so the backlog has room
 * for the next.
 */
TEST(ten_thousand_clients_ask_and_go)
{
	int fd = device(), eq = wait_fd(fd, eq_create(fd));
	struct listener l;
	long long before;
	char group[64];

	cgroup_enter(group);
	listener_open(&l);
	before = cgroup_kernel(group);
	for (int i = 0; i < MANY; i++)
		ASSERT_EQ(0, destroy(fd, asks(fd, eq, l.addr, i)));
	EXPECT_TRUE(eq_empty(eq));
	EXPECT_TRUE(eq_empty(l.eq));
	EXPECT_TRUE(grew_less(group, before, 1 << 20));
	asks(fd, eq, l.addr, MANY);
	event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP);
}

/* ACCEPT of a client that has gone answers the request, which leaves the backlog. */
TEST(accept_of_a_client_that_has_gone_is_an_answer)
{
	struct pair p;

	pair_ask(&p);
	ASSERT_EQ(0, destroy(p.client.fd, p.client.ep));
	msg_open(&p.server, (struct options){.request = p.request}, p.l.eq, SERVER);
	EXPECT_EQ(-ECONNRESET, accept_with(p.server.fd, p.server.ep, NULL, 0));
	EXPECT_EQ(-ECONNRESET, accept_with(p.server.fd, p.server.ep, NULL, 0));
	EXPECT_EQ(-ENOENT, reject_with(p.l.fd, p.l.ep, p.request, NULL, 0));
	EXPECT_TRUE(eq_empty(p.l.eq));
}

/* --- rights ----------------------------------------------------------------------------------- */

struct visitor {
	struct treadle_addr to;
	const char *key;
	int uid, netns, userns, error;
	bool heard; /* the listener got the request */
};

static void visits(void *arg)
{
	struct visitor *v = arg;
	int fd, eq;
	struct node n;

	if (v->netns)
		need(unshare(CLONE_NEWNET) == 0);
	if (v->userns)
		become(ELSEWHERE);
	if (v->uid)
		need(setresuid(v->uid, v->uid, v->uid) == 0);
	fd = device();
	eq = wait_fd(fd, eq_create(fd));
	msg_open(&n, (struct options){.auth_key = v->key}, eq, CLIENT);
	need(connect_to(n.fd, n.ep, v->to, NULL, 0) == 0);
	need(event_is(eq, TREADLE_EVENT_CONNREFUSED, CLIENT).error == v->error);
}

// conformance: ioctl.h: EACCES: the owner of the peer does not admit this process
TEST(the_right_to_send_is_the_right_to_connect)
{
	static struct visitor visitors[] = {
		{.uid = 1000, .error = EACCES},
		{.uid = 1000, .key = "no", .error = EACCES},
		{.netns = 1, .error = ECONNREFUSED},
		{.userns = 1, .error = EACCES},
		{.uid = 1000, .key = "yes", .error = ECONNREFUSED, .heard = true},
		{.error = ECONNREFUSED, .heard = true},
	};
	struct listener l;

	listener_create(&l, "yes");
	ASSERT_EQ(0, listen_to(l.fd, l.ep, 0));
	for (int i = 0; i < ARRAY_SIZE(visitors); i++) {
		pid_t pid;

		about("visitor %d", i);
		visitors[i].to = l.addr;
		pid = spawn(visits, &visitors[i]);
		if (visitors[i].heard) {
			__u32 request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;

			EXPECT_EQ(0, reject_with(l.fd, l.ep, request, NULL, 0));
		}
		EXPECT_EQ(0, reap(pid));
		EXPECT_TRUE(eq_empty(l.eq));
	}
}

TEST_HARNESS_MAIN
