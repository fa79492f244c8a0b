/* SPDX-License-Identifier: GPL-2.0 */
/* A minimal client of the generic netlink family: requests, dumps, attributes. */
#ifndef TREADLE_KSELFTEST_NETLINK_H
#define TREADLE_KSELFTEST_NETLINK_H

#include "treadle.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>

#include <treadle/netlink.h>

struct nl {
	int fd;
	__u16 family;
	char buf[1 << 16];
	int len, at; /* what was received, and what of it was read */
	bool done;   /* a dump is complete */
	int error;   /* 0 or -errno */
};

/* Sends a request with one attribute, or none (type 0). */
static inline void nl_send(struct nl *nl, __u16 family, __u8 cmd, int flags, int type,
			   const void *data, int len)
{
	struct {
		struct nlmsghdr h;
		struct genlmsghdr g;
		struct nlattr a;
		char data[64];
	} m = {.h = {.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN),
		     .nlmsg_type = family,
		     .nlmsg_flags = NLM_F_REQUEST | flags},
	       .g = {.cmd = cmd, .version = 1}};

	if (type) {
		need(len <= sizeof(m.data));
		m.a = (struct nlattr){.nla_len = NLA_HDRLEN + len, .nla_type = type};
		memcpy(m.data, data, len);
		m.h.nlmsg_len += NLA_HDRLEN + NLA_ALIGN(len);
	}
	nl->len = nl->at = nl->error = 0;
	nl->done = false;
	need(send(nl->fd, &m, m.h.nlmsg_len, 0) == m.h.nlmsg_len);
}

/* The next message of the answer; NULL: there is none, nl->error says why. */
static inline const struct nlmsghdr *nl_next(struct nl *nl)
{
	const struct nlmsghdr *h;

	if (nl->done)
		return NULL;
	if (nl->at >= nl->len) {
		nl->len = recv(nl->fd, nl->buf, sizeof(nl->buf), 0);
		need(nl->len > 0);
		nl->at = 0;
	}
	h = (const void *)(nl->buf + nl->at);
	nl->at += NLMSG_ALIGN(h->nlmsg_len);
	if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) {
		nl->done = true;
		nl->error = *(const int *)NLMSG_DATA(h);
		return NULL;
	}
	nl->done = !(h->nlmsg_flags & NLM_F_MULTI);
	return h;
}

/* An attribute among @len bytes of them; NULL: there is none. */
static inline const struct nlattr *nl_find(const void *from, int len, int type)
{
	const struct nlattr *a = from;

	for (; len >= NLA_HDRLEN; len -= NLA_ALIGN(a->nla_len),
				  a = (const void *)((const char *)a + NLA_ALIGN(a->nla_len)))
		if ((a->nla_type & NLA_TYPE_MASK) == type)
			return a;
	return NULL;
}

static inline const void *nl_data(const struct nlattr *a)
{
	return (const char *)a + NLA_HDRLEN;
}

static inline const struct nlattr *nl_attr(const struct nlmsghdr *h, int type)
{
	return nl_find((const char *)NLMSG_DATA(h) + GENL_HDRLEN,
		       h->nlmsg_len - NLMSG_LENGTH(GENL_HDRLEN), type);
}

static inline const struct nlattr *nl_within(const struct nlattr *nest, int type)
{
	return nest ? nl_find(nl_data(nest), nest->nla_len - NLA_HDRLEN, type) : NULL;
}

/* The number in an attribute; 0: there is none. */
static inline __u64 nl_number(const struct nlattr *a)
{
	__u64 n = 0;

	if (a)
		memcpy(&n, nl_data(a), a->nla_len - NLA_HDRLEN);
	return n;
}

static inline __u64 nl_u(const struct nlmsghdr *h, int type)
{
	return nl_number(nl_attr(h, type));
}

static inline void nl_open(struct nl *nl)
{
	const struct nlmsghdr *h;

	nl->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	need(nl->fd >= 0);
	nl_send(nl, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0, CTRL_ATTR_FAMILY_NAME, TREADLE_FAMILY_NAME,
		sizeof(TREADLE_FAMILY_NAME));
	h = nl_next(nl);
	need(h);
	nl->family = nl_u(h, CTRL_ATTR_FAMILY_ID);
}

static inline void nl_dump(struct nl *nl, __u8 cmd, int type, __u32 only)
{
	nl_send(nl, nl->family, cmd, NLM_F_DUMP, only ? type : 0, &only, sizeof(only));
}

/* --- counters -------------------------------------------------------------- */

/* What a struct treadle counters nest says. */
struct counters {
	__u64 n[TREADLE_A_COUNTERS_MAX + 1];
	__u64 messages[6][2], bytes[6][2]; /* by kind and direction */
	__u64 failures[512];		   /* by errno */
};

static inline struct counters nl_counters(const struct nlattr *nest)
{
	struct counters c = {0};
	const struct nlattr *a;
	int left, step;

	need(nest);
	a = nl_data(nest);
	for (left = nest->nla_len - NLA_HDRLEN; left >= NLA_HDRLEN; left -= step) {
		int type = a->nla_type & NLA_TYPE_MASK;

		need(type <= TREADLE_A_COUNTERS_MAX);
		if (type == TREADLE_A_COUNTERS_TRAFFIC) {
			__u64 kind = nl_number(nl_within(a, TREADLE_A_TRAFFIC_KIND));
			__u64 way = nl_number(nl_within(a, TREADLE_A_TRAFFIC_DIRECTION));

			need(kind < 6 && way < 2);
			c.messages[kind][way] = nl_number(nl_within(a, TREADLE_A_TRAFFIC_MESSAGES));
			c.bytes[kind][way] = nl_number(nl_within(a, TREADLE_A_TRAFFIC_BYTES));
		} else if (type == TREADLE_A_COUNTERS_FAILURE) {
			c.failures[nl_number(nl_within(a, TREADLE_A_FAILURE_ERRNO)) % 512] =
				nl_number(nl_within(a, TREADLE_A_FAILURE_COUNT));
		} else {
			c.n[type] = nl_number(a);
		}
		step = NLA_ALIGN(a->nla_len);
		a = (const void *)((const char *)a + step);
	}
	return c;
}

/* The number of the context in which the endpoint with this port is; 0: it is not seen. */
static inline __u32 nl_context_of(struct nl *nl, const struct node *n)
{
	const struct nlmsghdr *h;
	__u32 found = 0;

	nl_dump(nl, TREADLE_CMD_ENDPOINT_GET, 0, 0);
	while ((h = nl_next(nl)))
		if (nl_u(h, TREADLE_A_ENDPOINT_PORT) == ntohs(n->addr.port))
			found = nl_u(h, TREADLE_A_ENDPOINT_CONTEXT);
	need(nl->error == 0);
	return found;
}

/*
 * The counters of the object with this id (0: any), in this context, or of the context itself
 * (TREADLE_CMD_CONTEXT_GET).
 */
static inline struct counters nl_counters_of(struct nl *nl, __u8 cmd, __u32 context, __u32 id)
{
	static const int attrs[][3] = {
		[TREADLE_CMD_CONTEXT_GET] = {TREADLE_A_CONTEXT_ID, 0, TREADLE_A_CONTEXT_COUNTERS},
		[TREADLE_CMD_ENDPOINT_GET] = {TREADLE_A_ENDPOINT_CONTEXT, TREADLE_A_ENDPOINT_ID,
					      TREADLE_A_ENDPOINT_COUNTERS},
		[TREADLE_CMD_REGION_GET] = {TREADLE_A_REGION_CONTEXT, TREADLE_A_REGION_ID,
					    TREADLE_A_REGION_COUNTERS},
	};
	const int *a = attrs[cmd];
	struct counters c = {0};
	const struct nlmsghdr *h;
	int found = 0;

	nl_dump(nl, cmd, 0, 0);
	while ((h = nl_next(nl))) {
		if (nl_u(h, a[0]) != context || (a[1] && nl_u(h, a[1]) != id))
			continue;
		c = nl_counters(nl_attr(h, a[2]));
		found++;
	}
	need(nl->error == 0 && found == 1);
	return c;
}

#endif
