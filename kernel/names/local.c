// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: valid addresses, and addresses of this machine
 */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/inetdevice.h>
#include <linux/socket.h>
#include <net/addrconf.h>
#include <net/ip_fib.h>
#include <net/ipv6.h>
#include <net/route.h>

#include "names/names.h"
#include "node/node.h"

/**
 * treadle_addr_valid() - check an address from user space
 * @addr:	the address
 *
 * Context: any.
 * Return: false: the family is unknown, or unused bytes are not zero.
 */
bool treadle_addr_valid(const struct treadle_addr *addr)
{
	if (addr->family == AF_INET)
		return !addr->scope && !memchr_inv(addr->addr + 4, 0, 12);
	return addr->family == AF_INET6;
}

/* Is @addr that at which other nodes reach this network namespace? No interface may have it. */
static bool is_node(struct net *net, const struct treadle_addr *addr)
{
	struct treadle_addr node;

	return treadle_node_address(net, &node) && node.family == addr->family &&
	       !memcmp(node.addr, addr->addr, sizeof(node.addr));
}

static bool of_machine(struct net *net, const struct treadle_addr *addr)
{
	const struct in6_addr *v6 = (const struct in6_addr *)addr->addr;
	__be32 v4 = *(const __be32 *)addr->addr;

	if (addr->family == AF_INET6) {
		if (!ipv6_addr_v4mapped(v6))
			return ipv6_addr_any(v6) || ipv6_addr_loopback(v6) ||
#if IS_REACHABLE(CONFIG_IPV6)
			       ipv6_chk_addr(net, v6, NULL, 0);
#else
			       false;
#endif
		v4 = v6->s6_addr32[3];
	}
	return ipv4_is_loopback(v4) || v4 == htonl(INADDR_ANY) ||
	       inet_addr_type(net, v4) == RTN_LOCAL;
}

/**
 * treadle_addr_local() - is an address one of this machine's?
 * @net:	the network namespace that is asked
 * @addr:	a valid address
 *
 * Context: any.
 * Return: true for the unspecified address and loopback, too.
 */
bool treadle_addr_local(struct net *net, const struct treadle_addr *addr)
{
	return of_machine(net, addr) || is_node(net, addr);
}

/* The address of @family at which peers reach this machine; its port stays 0. */
static struct treadle_addr own_address(struct net *net, u16 family)
{
	struct treadle_addr own;

	if (treadle_node_address(net, &own) && (family == AF_UNSPEC || own.family == family)) {
		own.port = 0;
		return own;
	}
	own = (struct treadle_addr){ .family = family ?: AF_INET };
	if (family == AF_INET6)
		*(struct in6_addr *)own.addr = in6addr_loopback;
	else
		*(__be32 *)own.addr = htonl(INADDR_LOOPBACK);
	return own;
}

/**
 * treadle_addr_concrete() - make an address that peers can use of one that a process asks for
 * @net:	its network namespace
 * @addr:	a valid address. The unspecified one, which means this machine, becomes that for
 *		other nodes, if it is of the same family, or loopback
 *
 * Context: any.
 */
void treadle_addr_concrete(struct net *net, struct treadle_addr *addr)
{
	struct in6_addr *v6 = (struct in6_addr *)addr->addr;
	__be16 port = addr->port;

	if (!memchr_inv(addr->addr, 0, sizeof(addr->addr))) {
		*addr = own_address(net, addr->family);
		addr->port = port;
	}
	if (addr->family != AF_INET6 || !(ipv6_addr_type(v6) & IPV6_ADDR_LINKLOCAL))
		addr->scope = 0; /* means nothing for other addresses */
}

/**
 * treadle_addr_common() - the address of a peer that is the same on all nodes
 * @net:	network namespace that is asked
 * @source:	the peer, or one that is not reached
 * @addr:	its address; becomes that of its node, if there is one
 *
 * Context: any.
 * Return: whether it is of this machine.
 */
bool treadle_addr_common(struct net *net, u32 source, struct treadle_addr *addr)
{
	u16 host = treadle_source_host(source);
	bool here = host == TREADLE_HERE || host == treadle_host_mirror(net);
	struct treadle_addr common;

	if (here)
		common = own_address(net, AF_UNSPEC);
	else if (!treadle_host_address(net, host, &common))
		return false;
	common.port = addr->port;
	*addr = common;
	return here;
}
