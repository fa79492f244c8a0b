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
 * treadle_addr_concrete() - make an address that peers can use of the one that a process asks for
 * @addr:	a valid address; the unspecified one, which means this machine, becomes loopback
 *
 * The one place that knows which address this machine has for its peers.
 *
 * Context: any.
 */
void treadle_addr_concrete(struct treadle_addr *addr)
{
	struct in6_addr *v6 = (struct in6_addr *)addr->addr;
	__be32 *v4 = (__be32 *)addr->addr;

	if (addr->family == AF_INET && *v4 == htonl(INADDR_ANY))
		*v4 = htonl(INADDR_LOOPBACK);
	else if (addr->family == AF_INET6 && ipv6_addr_any(v6))
		*v6 = in6addr_loopback;
	if (addr->family != AF_INET6 || !(ipv6_addr_type(v6) & IPV6_ADDR_LINKLOCAL))
		addr->scope = 0; /* means nothing for other addresses */
}
