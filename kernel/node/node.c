// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: nodes: addresses of this machine for others, which transports open
 */
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "node/session.h"

struct workqueue_struct *treadle_node_wq;

/**
 * treadle_nodes_init() - at module load
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int treadle_nodes_init(void)
{
	int ret;

	treadle_node_wq = alloc_workqueue("treadle_node", WQ_UNBOUND, 0);
	if (!treadle_node_wq)
		return -ENOMEM;
	ret = treadle_hosts_init();
	if (ret)
		destroy_workqueue(treadle_node_wq);
	return ret;
}

/**
 * treadle_nodes_exit() - at module exit: no node is open, and no context is left
 *
 * Context: may sleep.
 */
void treadle_nodes_exit(void)
{
	destroy_workqueue(treadle_node_wq); /* first: waits for the release of sessions */
	treadle_hosts_exit();
}

static bool usable(const struct treadle_transport *transport)
{
	return transport->version == TREADLE_TRANSPORT_VERSION && transport->connect &&
	       transport->accept && transport->refuse && transport->leave && transport->free &&
	       transport->post && (transport->map != NULL) == (transport->unmap != NULL);
}

static void node_free(struct treadle_node *node)
{
	put_net(node->listen.net);
	kfree_sensitive(node->listen.secret);
	kfree_rcu(node, rcu);
}

/**
 * treadle_node_open() - let a network namespace be reached by other nodes
 * @transport: connects them; constant as long as the node is open
 * @listen:    how; copied
 * @private:   for treadle_node_private()
 *
 * The namespace is held until treadle_node_close(). The transport may offer links before this
 * function returns, if it has the node by other means.
 *
 * Context: may sleep.
 * Return: the node. -EINVAL: @transport is of another version, or @listen has neither a secret nor
 * ->insecure; -EEXIST: the namespace has a node; -ENOENT: a second one needs a first one; -ENOMEM.
 */
struct treadle_node *treadle_node_open(const struct treadle_transport *transport,
				       const struct treadle_node_listen *listen, void *private)
{
	struct treadle_node *node;
	int ret;

	if (!usable(transport) || (!listen->secret_bytes && !listen->insecure))
		return ERR_PTR(-EINVAL);
	node = kzalloc(sizeof(*node), GFP_KERNEL);
	if (!node)
		return ERR_PTR(-ENOMEM);
	node->transport = transport;
	node->listen = *listen;
	node->private = private;
	node->id = get_random_u64();
	atomic_set(&node->sessions, 1);
	if (!node->listen.peer_timeout)
		node->listen.peer_timeout = TREADLE_NODE_TIMEOUT;
	node->listen.secret = NULL;
	get_net(node->listen.net);
	ret = -ENOMEM;
	if (listen->secret_bytes) {
		node->listen.secret = kmemdup(listen->secret, listen->secret_bytes, GFP_KERNEL);
		if (!node->listen.secret)
			goto fail;
	}
	ret = treadle_hosts_attach(node);
	if (ret)
		goto fail;
	return node;
fail:
	node_free(node);
	return ERR_PTR(ret);
}
EXPORT_SYMBOL_GPL(treadle_node_open);

/**
 * treadle_node_close() - end all sessions of a node, and let nothing reach it any more
 * @node: the node; freed. A second one of a namespace is closed before the first one
 *
 * The transport offers no link any more, and none of its links is left when this function returns.
 *
 * Context: may sleep, but waits for no process and no other node.
 */
void treadle_node_close(struct treadle_node *node)
{
	treadle_hosts_detach(node);
	node_free(node);
}
EXPORT_SYMBOL_GPL(treadle_node_close);

/**
 * treadle_node_private() - what the transport has given to treadle_node_open()
 * @node: the node
 *
 * Context: any.
 */
void *treadle_node_private(const struct treadle_node *node)
{
	return node->private;
}
EXPORT_SYMBOL_GPL(treadle_node_private);

/**
 * treadle_session_node() - the node of a session, for ->connect of the transport
 * @s: the session
 *
 * Context: a function of the transport, or an event of a link.
 * Return: the node; it is there as long as the session has a link.
 */
struct treadle_node *treadle_session_node(const struct treadle_session *s)
{
	return s->node;
}
EXPORT_SYMBOL_GPL(treadle_session_node);

/**
 * treadle_node_trusts_uids() - does this node believe what the other one says of its users?
 * @s: the session; has begun
 *
 * Context: any.
 */
bool treadle_node_trusts_uids(const struct treadle_session *s)
{
	const struct treadle_node *node = READ_ONCE(s->node);

	return node && node->listen.trust_uids;
}
