/* SPDX-License-Identifier: GPL-2.0 */
/* Address vectors: a peer is inserted before the machine has its address. */

#include "treadle.h"

#include <net/if.h>
#include <sched.h>

/* Give this machine, in a network namespace of its own, one more address. */
static void get_address(const struct treadle_addr *addr)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct ifreq request = {.ifr_name = "lo:1"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	need(fd >= 0);
	memcpy(&in.sin_addr, addr->addr, sizeof(in.sin_addr));
	memcpy(&request.ifr_addr, &in, sizeof(in));
	need(ioctl(fd, SIOCSIFADDR, &request) == 0);
	close(fd);
}

/* @n by an address that the machine does not have yet. */
static struct treadle_addr elsewhere(const struct node *n)
{
	return (struct treadle_addr){
		.family = AF_INET, .port = n->addr.port, .addr = {192, 0, 2, 1}};
}

TEST(a_peer_is_reached_once_the_machine_has_its_address)
{
	struct treadle_addr addr;
	struct treadle_cqe c;
	struct node a, b;
	char buf[8] = {};
	__u64 to, from;

	need(unshare(CLONE_NEWNET) == 0);
	node_open(&a, (struct options){});
	node_open(&b, (struct options){.flags = TREADLE_EP_SOURCE});
	addr = elsewhere(&b);
	to = peer(&a, addr);
	addr = elsewhere(&a);
	from = peer(&b, addr);
	ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, ANY, 1)));
	ASSERT_EQ(1, post(&a, send_of(buf, 8, to, 2)));
	EXPECT_EQ(EHOSTUNREACH, cq_next(&a.cq).error);

	get_address(&addr);
	ASSERT_EQ(1, post(&a, send_of(buf, 8, to, 3)));
	c = cq_next(&a.cq);
	EXPECT_EQ(3, c.context);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(ANY, cq_next(&b.rcq).src); /* its entry was not looked at again yet */

	/* From the first command on that names it, completions name it, too. */
	ASSERT_EQ(0, post_recv(&a, recv_of(buf, 8, ANY, 4)));
	ASSERT_EQ(1, post(&b, send_of(buf, 8, from, 5)));
	EXPECT_EQ(0, cq_next(&b.cq).error);
	ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, from, 6)));
	ASSERT_EQ(1, post(&a, send_of(buf, 8, to, 7)));
	EXPECT_EQ(from, cq_next(&b.rcq).src);
}

/* A receive of a ring looks while its matcher is locked. */
TEST(a_receive_finds_its_source_once_the_machine_has_its_address)
{
	struct treadle_addr addr;
	struct treadle_cqe c;
	struct node a, b;
	char buf[8] = {};
	__u64 from;

	need(unshare(CLONE_NEWNET) == 0);
	node_open(&a, (struct options){});
	node_open(&b, (struct options){.flags = TREADLE_EP_SOURCE});
	addr = elsewhere(&a);
	from = peer(&b, addr);
	get_address(&addr);
	ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, from, 1)));
	ASSERT_EQ(1, post(&a, send_of(buf, 8, peer(&a, b.addr), 2)));
	c = cq_next(&b.rcq);
	EXPECT_EQ(1, c.context);
	EXPECT_EQ(from, c.src);
}

TEST_HARNESS_MAIN
