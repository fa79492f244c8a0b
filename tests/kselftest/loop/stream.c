/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stream property: numbered messages of mixed sizes go in both directions while the link is
 * reset again and again. Each arrives once, in order, with its bytes.
 *
 * STREAM_MESSAGES=100000, STREAM_RESETS=1000: how many, in each direction; at least so many resets.
 * test-timeout: 900
 */
#include "loop.h"

#define WINDOW 64 /* messages under way in a direction */
#define LARGE  (1UL << 20)

static __u64 number_of(const char *name, __u64 otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

/* Most messages are small; the large ones are most of the bytes. */
static size_t size_of(__u64 number)
{
	__u64 dice = pattern(7, number) % 1000;

	return dice < 1	  ? LARGE - number % 9 :
	       dice < 20  ? 65536 - number % 9 :
	       dice < 150 ? 4096 + number % 9 :
	       dice < 300 ? number % 3000 :
	       dice < 400 ? 0 :
			    8;
}

/* A direction: from @from to @to */
struct stream {
	struct node *from, *to;
	__u64 seed, count, peer;
};

/* A small message may complete while a large one before it still waits. */
static void *sends(void *arg)
{
	struct stream *s = arg;
	bool busy[WINDOW] = {0};
	char *buf[WINDOW];
	__u64 sent = 0, completed = 0;

	for (int i = 0; i < WINDOW; i++)
		buf[i] = pages(LARGE);
	while (completed < s->count) {
		struct treadle_cqe c;

		for (; sent < s->count && !busy[sent % WINDOW]; sent++) {
			char *bytes = buf[sent % WINDOW];
			struct treadle_desc d = send_of(bytes, size_of(sent), s->peer, sent);

			fill(bytes, d.len, s->seed + sent);
			d.flags |= TREADLE_F_REMOTE_CQ_DATA;
			d.data = sent;
			need(post(s->from, d) == 1);
			busy[sent % WINDOW] = true;
		}
		c = cq_next(&s->from->cq);
		if (c.error)
			note("message %llu: error %u", c.context, c.error);
		need(c.error == 0);
		busy[c.context % WINDOW] = false;
		completed++;
	}
	return NULL;
}

/*
 * The receive with a number takes the message with that number. One that waits for a page may
 * complete after the next ones.
 */
static void *receives(void *arg)
{
	struct stream *s = arg;
	bool busy[WINDOW] = {0};
	char *buf[WINDOW];
	__u64 posted = 0;

	for (int i = 0; i < WINDOW; i++)
		buf[i] = pages(LARGE);
	for (__u64 done = 0; done < s->count; done++) {
		struct treadle_cqe c;
		size_t len, at;

		/* Some messages come before their receive. */
		for (; posted < s->count && posted - done < WINDOW / 2 && !busy[posted % WINDOW];
		     posted++) {
			need(post_recv(s->to, recv_of(buf[posted % WINDOW], LARGE, ANY, posted)) >=
			     0);
			busy[posted % WINDOW] = true;
		}
		c = cq_next(&s->to->rcq);
		len = size_of(c.data);
		at = c.error ? 0 : differs(buf[c.context % WINDOW], len, s->seed + c.data);
		if (c.error || c.context != c.data || c.len != len || at != len ||
		    !busy[c.context % WINDOW])
			note("receive %llu: message %llu, error %u, %llu bytes of %zu, to %zu",
			     c.context, c.data, c.error, c.len, len, at);
		need(!c.error && c.context == c.data && c.len == len && at == len);
		need(busy[c.context % WINDOW]);
		busy[c.context % WINDOW] = false;
	}
	return NULL;
}

TEST(each_message_arrives_once_in_order_while_links_break)
{
	const __u64 count = number_of("STREAM_MESSAGES", 100000);
	const __u64 resets = number_of("STREAM_RESETS", 1000);
	struct node a, b;
	struct stream way[2] = {{&a, &b, 1000, count}, {&b, &a, 1ULL << 40, count}};
	__u64 began = now_ns();
	pthread_t threads[4];

	join("insecure trust_uids", "insecure trust_uids");
	node_of(1, &a, (struct options){.tx = 256, .rx = 256, .cq = 512, .rcq = 512});
	node_of(2, &b, (struct options){.tx = 256, .rx = 256, .cq = 512, .rcq = 512});
	way[0].peer = peer(&a, b.addr);
	way[1].peer = peer(&b, a.addr);
	ASSERT_EQ(0, loop("reset %llu", resets ? count / resets : 0));
	for (int i = 0; i < 2; i++) {
		threads[i] = thread(sends, &way[i]);
		threads[2 + i] = thread(receives, &way[i]);
	}
	for (int i = 0; i < 4; i++)
		need(pthread_join(threads[i], NULL) == 0);
	note("%llu messages in each direction, %lld frames, %lld resets, %lld links, %llu ms",
	     count, loop_count("frames"), loop_count("resets"), loop_count("links"),
	     (now_ns() - began) / 1000000);
	EXPECT_LE(resets, loop_count("resets"));
	EXPECT_LE(resets, loop_count("links"));
	ASSERT_EQ(0, loop("off"));
	EXPECT_TRUE(cq_empty(&a.cq) && cq_empty(&a.rcq));
	EXPECT_TRUE(cq_empty(&b.cq) && cq_empty(&b.rcq));
	close(a.fd);
	close(b.fd);
	part();
}

TEST_HARNESS_MAIN
