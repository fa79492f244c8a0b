/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sweeps of sweep.h over a session: this network namespace reaches itself by a second node
 * (tests/loop), so both sides of a command can fail. Besides, what only sessions do: they begin,
 * connect endpoints, and tell receives of collectives about their sources.
 *
 * test-timeout: 1500
 */
#include "fail.h"
#include "fail_mirror.h"

#include "../collective.h"
#include "../sweep_commands.h"
#include "../sweep_endings.h"
#include "../sweep_receives.h"

static __attribute__((constructor)) void ends_are_far(void)
{
	far = true;
}

/* --- sessions ------------------------------------------------------------------------- */

TEST(opening_nodes_fails_cleanly_wherever_it_fails)
{
	long long had;
	int n = 0, result;

	mirror_close();
	had = live();
	do {
		fail_nth(++n);
		result = mirror_open();
		EXPECT_EQ(result != 0, has_failed());
		EXPECT_TRUE(!result || is_clean(result));
		if (result)
			EXPECT_TRUE(all_given_back(had));
	} while (result);
	EXPECT_LT(4, n);
	note("%d points of failure", n - 1);
	session_begin();
}

/* An attempt that fails is repeated, so most of this is not noticed. */
TEST(a_session_begins_wherever_that_fails)
{
	int n = 0, errors = 0;
	bool failed = true;
	long long had;

	mirror_close();
	had = live();
	for (; failed; mirror_close()) {
		struct couple l;
		int result;

		need(mirror_open() == 0);
		couple_open(&l, RDM, false);
		fill(l.out, 8, n);
		about("the beginning, failing at %d", ++n);
		result = outcome(&l, &kinds[0], 8, n, &failed);
		errors += !!result;
		EXPECT_TRUE(!result || is_clean_completion(result))
		{
			TH_LOG("result %d", result);
		}
		EXPECT_TRUE(same(l.in, 8, n - 1));
		couple_close(&l);
		ASSERT_GT(1000, n);
	}
	need(all_given_back(had));
	note("%d points of failure, of which %d were noticed", n - 1, errors);
	need(mirror_open() == 0);
	session_begin();
}

/* --- connections ---------------------------------------------------------------------- */

/* Waits for an event without reading it, as that could fail. */
static void await_event(int eq)
{
	struct pollfd p = {.fd = eq, .events = POLLIN};

	need(poll(&p, 1, PATIENCE_NS / 1000000) > 0);
}

/* Both ends; the request is asked or accepted while the @n-th point fails. */
struct making {
	struct listener l;
	int ceq_fd, eq[2];
	struct node client, server;
	bool failed;
};

static void making_open(struct making *m)
{
	listener_open(&m->l);
	m->ceq_fd = device();
	m->eq[0] = wait_fd(m->ceq_fd, eq_create(m->ceq_fd));
	m->eq[1] = m->l.eq;
	msg_open(&m->client, (struct options){}, m->eq[0], CLIENT);
}

static void making_close(struct making *m)
{
	node_close(&m->client);
	close(m->eq[0]);
	close(m->ceq_fd);
	listener_close(&m->l);
}

/* Makes the call until it is not refused for want of memory. */
#define INSIST(call)                                        \
	do {                                                \
		int result_;                                \
                                                            \
		while ((result_ = (call)))                  \
			need(is_clean(result_)); /* once */ \
	} while (0)

/* Asks; returns the number of the request, or 0: it was refused for want of memory. */
static __u32 asks(struct making *m, int n)
{
	struct treadle_event ev;
	struct pollfd p[2];

	fail_nth(n);
	INSIST(connect_to(m->client.fd, m->client.ep, m->l.addr, NULL, 0));
	for (int i = 0; i < 2; i++)
		p[i] = (struct pollfd){.fd = m->eq[i], .events = POLLIN};
	need(poll(p, 2, PATIENCE_NS / 1000000) > 0);
	m->failed = has_failed();
	if (p[1].revents)
		return event_is(m->eq[1], TREADLE_EVENT_CONNREQ, PEP).request;
	ev = event_is(m->eq[0], TREADLE_EVENT_CONNREFUSED, CLIENT);
	need(m->failed && is_clean(-(int)ev.error));
	return 0;
}

TEST(asking_for_a_connection_fails_cleanly_wherever_it_fails)
{
	long long had = live();
	int n = 0, errors = 0;
	bool failed = true;

	while (failed) {
		struct making m;

		about("asking, failing at %d", ++n);
		making_open(&m);
		if (!asks(&m, n)) {
			node_close(&m.client);
			msg_open(&m.client, (struct options){}, m.eq[0], CLIENT);
			failed = m.failed;
			need(asks(&m, 0));
			errors++;
		} else {
			failed = m.failed;
		}
		making_close(&m);
		ASSERT_GT(1000, n);
	}
	EXPECT_TRUE(all_given_back(had));
	note("%d points of failure, of which %d were noticed", n - 1, errors);
}

/* Either both ends are told that they are connected, or both that they are not. */
TEST(accepting_a_connection_fails_cleanly_wherever_it_fails)
{
	long long had = live();
	int n = 0, errors = 0;
	bool failed = true;

	while (failed) {
		struct treadle_event asker, accepter;
		struct making m;
		__u32 request;

		about("accepting, failing at %d", ++n);
		making_open(&m);
		request = asks(&m, 0);
		msg_open(&m.server, (struct options){.request = request}, m.eq[1], SERVER);
		fail_nth(n);
		INSIST(accept_with(m.server.fd, m.server.ep, NULL, 0));
		await_event(m.eq[0]);
		await_event(m.eq[1]);
		failed = has_failed();
		asker = event_next(m.eq[0]);
		accepter = event_next(m.eq[1]);
		if (asker.event == TREADLE_EVENT_CONNECTED) {
			need(accepter.event == TREADLE_EVENT_CONNECTED);
			expect_message(&m.client, &m.server, 8, n);
			expect_message(&m.server, &m.client, 8, n);
		} else {
			errors++;
			need(failed && asker.event == TREADLE_EVENT_CONNREFUSED);
			need(is_clean(-(int)asker.error));
			if (accepter.event == TREADLE_EVENT_CONNECTED)
				event_is(m.eq[1], TREADLE_EVENT_SHUTDOWN, SERVER);
		}
		node_close(&m.server);
		making_close(&m);
		ASSERT_GT(1000, n);
	}
	EXPECT_TRUE(all_given_back(had));
	note("%d points of failure, of which %d were noticed", n - 1, errors);
}

/* The other end hears of the end of a connection, wherever that fails. */
TEST(connections_end_wherever_that_fails)
{
	long long had = live();
	int points = 0;

	for (int way = 0; way < 4; way++) {
		bool failed = true;
		int n = 0;

		while (failed) {
			struct pair p;
			struct node *self = way % 2 ? &p.server : &p.client;

			about("%s, failing at %d", way < 2 ? "hanging up" : "closing", ++n);
			pair_open(&p);
			fail_nth(n);
			INSIST(way < 2 ? hang_up(self->fd, self->ep) : destroy(self->fd, self->ep));
			await_event(way % 2 ? p.ceq : p.l.eq);
			failed = has_failed();
			event_is(way % 2 ? p.ceq : p.l.eq, TREADLE_EVENT_SHUTDOWN,
				 way % 2 ? CLIENT : SERVER);
			node_close(&p.client);
			node_close(&p.server);
			close(p.ceq);
			close(p.ceq_fd);
			listener_close(&p.l);
			ASSERT_GT(1000, n);
		}
		points += n - 1;
	}
	EXPECT_TRUE(all_given_back(had));
	note("%d points of failure", points);
}

/* --- sources of collective receives --------------------------------------------------------- */

/*
 * The receive gets the message, or fails. The next one gets it in any case. A node that has no
 * memory for the answer says that it has no such endpoint.
 */
TEST(a_collective_receive_knows_its_source_wherever_that_fails)
{
	long long had = live();
	int n = 0, errors = 0;
	bool failed = true;

	while (failed) {
		struct treadle_cqe c;
		struct couple l;
		int result;

		about("awaiting a source, failing at %d", ++n);
		couple_open(&l, RDM, false);
		fail_nth(n);
		result = post(&l.b, crecv(l.in, 8, l.back, TAG, 9));
		need(result == 1 || is_clean(result));
		if (result != 1)
			need(post(&l.b, crecv(l.in, 8, l.back, TAG, 9)) == 1);
		usleep(20000); /* the other node answers meanwhile */
		failed = has_failed();
		if (cq_poll(&l.b.rcq, &c)) {
			errors++;
			EXPECT_TRUE(failed && (is_clean(-(int)c.error) || c.error == ECONNREFUSED))
			{
				TH_LOG("error %u", c.error);
			}
			need(post(&l.b, crecv(l.in, 8, l.back, TAG, 9)) == 1);
		}
		fill(l.out, 8, n);
		need(post(&l.a, csend(l.out, 8, l.to, TAG, 7)) == 1);
		c = cq_next(&l.b.rcq);
		need(c.error == 0 && same(l.in, 8, n) && cq_next(&l.a.cq).error == 0);
		couple_close(&l);
		ASSERT_GT(1000, n);
	}
	EXPECT_TRUE(all_given_back(had));
	note("%d points of failure, of which %d were noticed", n - 1, errors);
}

/* The end of a source is told to the receive, wherever something has failed before. */
TEST(a_collective_receive_hears_of_its_sources_end_wherever_that_fails)
{
	long long had = live();
	bool failed = true;
	int n = 0;

	while (failed) {
		struct couple l;
		int result;

		about("the end of a source, failing at %d", ++n);
		couple_open(&l, RDM, false);
		fail_nth(n);
		result = post(&l.b, crecv(l.in, 8, l.back, TAG, 9));
		need(result == 1 || is_clean(result));
		if (result != 1)
			need(post(&l.b, crecv(l.in, 8, l.back, TAG, 9)) == 1);
		if (n % 2)
			usleep(20000);
		INSIST(destroy(l.a.fd, l.a.ep));
		until_completed(&l.b.rcq, 1, false);
		failed = has_failed();
		EXPECT_NE(0, cq_next(&l.b.rcq).error);
		couple_close(&l);
		ASSERT_GT(1000, n);
	}
	EXPECT_TRUE(all_given_back(had));
	note("%d points of failure", n - 1);
}

FAIL_MIRROR_MAIN
