// SPDX-License-Identifier: GPL-2.0
/*
 * treadle_rdma: parameters, and the nodes that they open
 *
 * Nothing is open by default: the administrator names the addresses, and the file with the secret
 * that all nodes know.
 */
#include <linux/fs.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <treadle/version.h>

#include "rdma/verbs.h"

#define SECRET_BYTES 4096
#define BACKLOG	     16

static char *listen;
module_param(listen, charp, 0444);
MODULE_PARM_DESC(listen, "addresses at which other nodes reach this one: ADDRESS[,ADDRESS...]");
static ushort port = 18770;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "port of all nodes");
static char *secret;
module_param(secret, charp, 0444);
MODULE_PARM_DESC(secret, "file with the secret of all nodes, which only root may read");
static bool insecure;
module_param(insecure, bool, 0444);
MODULE_PARM_DESC(insecure, "admit every node that reaches an address, without a secret");
static bool trust_uids;
module_param(trust_uids, bool, 0444);
MODULE_PARM_DESC(trust_uids, "believe what other nodes say of their users");
static unsigned int peer_timeout = 15;
module_param(peer_timeout, uint, 0444);
MODULE_PARM_DESC(peer_timeout, "seconds after which a node that is not reached is dead");
static unsigned int ack_timeout = 17;
module_param(ack_timeout, uint, 0444);
MODULE_PARM_DESC(ack_timeout, "the adapter sends again after 4.096 us * 2^N; 0: its default");

/* One node of the initial network namespace: devices in software exist only there. */
struct treadle_node *treadle_rdma_node;
bool treadle_rdma_closing; /* the module is being unloaded */
unsigned int treadle_rdma_ack_timeout;
/*
 * Works of links, which process frames: soon, on the processor that was interrupted, but not to the
 * harm of other works. And works that end links, each of which may take a minute.
 */
struct workqueue_struct *treadle_rdma_wq, *treadle_rdma_end_wq;

static LIST_HEAD(listeners); /* constant while the node is open */

#define AGAIN (2 * HZ)

/**
 * treadle_rdma_addr() - an address as treadle has it
 * @to:   is filled
 * @from: AF_INET or AF_INET6
 *
 * Context: any.
 */
void treadle_rdma_addr(struct treadle_addr *to, const struct sockaddr_storage *from)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;

	*to = (struct treadle_addr){ .family = from->ss_family };
	if (from->ss_family == AF_INET) {
		to->port = in->sin_port;
		memcpy(to->addr, &in->sin_addr, sizeof(in->sin_addr));
		return;
	}
	to->port = in6->sin6_port;
	memcpy(to->addr, &in6->sin6_addr, sizeof(in6->sin6_addr));
	if (ipv6_addr_type(&in6->sin6_addr) & IPV6_ADDR_LINKLOCAL)
		to->scope = in6->sin6_scope_id;
}

/**
 * treadle_rdma_source() - the address from which this node connects to others
 * @family: AF_INET or AF_INET6
 *
 * Context: any.
 * Return: the address, or NULL.
 */
const struct sockaddr_storage *treadle_rdma_source(u16 family)
{
	struct rdma_listener *l;

	list_for_each_entry(l, &listeners, list)
		if (l->at.ss_family == family)
			return &l->at;
	return NULL;
}

/* --- listening -------------------------------------------------------------------------------- */

/* A handler of rdma_cm: it never waits. */
static int listener_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rdma_listener *l = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return treadle_rdma_request(id, event);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		WRITE_ONCE(l->lost, true);
		mod_delayed_work(system_wq, &l->again, 0);
		return 0;
	default:
		return 0;
	}
}

static int start_listener(struct rdma_listener *l)
{
	struct rdma_cm_id *id;
	int ret;

	lockdep_assert_held(&l->lock);
	id = rdma_create_id(&init_net, listener_event, l, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	/* One address, even if it is of IPv6. */
	ret = rdma_set_afonly(id, 1)				    ?:
		      rdma_bind_addr(id, (struct sockaddr *)&l->at) ?:
								      rdma_listen(id, BACKLOG);
	if (ret)
		rdma_destroy_id(id);
	else
		l->id = id;
	return ret;
}

/* The device of the address was removed. It waits until the listener is gone, and may come back. */
static void again_work(struct work_struct *work)
{
	struct rdma_listener *l = container_of(work, struct rdma_listener, again.work);

	mutex_lock(&l->lock); /* it may be lost while it is started for the first time */
	if (READ_ONCE(l->closing))
		goto out;
	if (READ_ONCE(l->lost) && l->id) {
		pr_warn("%pISc: the device is gone, or another one has the address\n", &l->at);
		rdma_destroy_id(l->id);
		l->id = NULL;
	}
	if (l->id) /* what was said of an earlier one */
		goto out;
	/* no handler runs any more: one that comes from now on means the next one */
	WRITE_ONCE(l->lost, false);
	if (start_listener(l))
		mod_delayed_work(system_wq, &l->again, AGAIN);
	else
		pr_info("listening at %pISpc again\n", &l->at);
out:
	mutex_unlock(&l->lock);
}

static void stop_listener(struct rdma_listener *l)
{
	WRITE_ONCE(l->closing, true);
	cancel_delayed_work_sync(&l->again);
	if (l->id)
		rdma_destroy_id(l->id);
	/* The device may have been removed since: that queues it, but it does nothing. */
	cancel_delayed_work_sync(&l->again);
}

/* --- parameters ------------------------------------------------------------------------------- */

/* Can other nodes reach this one at @at? */
static bool outside(const struct sockaddr_storage *at)
{
	__be32 in = ((const struct sockaddr_in *)at)->sin_addr.s_addr;

	if (at->ss_family == AF_INET)
		return in && !ipv4_is_loopback(in) && !ipv4_is_multicast(in);
	return (ipv6_addr_type(&((const struct sockaddr_in6 *)at)->sin6_addr) &
		(IPV6_ADDR_UNICAST | IPV6_ADDR_LOOPBACK)) == IPV6_ADDR_UNICAST;
}

/* Parse the addresses. 0, or -errno after a message; free_listeners() follows in either case. */
static int make_listeners(void)
{
	char *names = kstrdup(listen, GFP_KERNEL), *rest = names, *name, service[8];
	struct rdma_listener *l;
	int ret = 0;

	if (!names)
		return -ENOMEM;
	snprintf(service, sizeof(service), "%u", port);
	while (!ret && (name = strsep(&rest, ","))) {
		l = kzalloc(sizeof(*l), GFP_KERNEL);
		if (!l) {
			ret = -ENOMEM;
			break;
		}
		mutex_init(&l->lock);
		INIT_DELAYED_WORK(&l->again, again_work);
		list_add_tail(&l->list, &listeners);
		name = strim(name);
		if (inet_pton_with_scope(&init_net, AF_UNSPEC, name, service, &l->at) ||
		    !outside(&l->at)) {
			pr_err("listen=%s: not an address of this machine for others\n", name);
			ret = -EINVAL;
		}
	}
	kfree(names);
	return ret;
}

static void free_listeners(void)
{
	struct rdma_listener *l, *next;

	list_for_each_entry_safe(l, next, &listeners, list) {
		list_del(&l->list);
		kfree(l);
	}
}

static int open_node(const void *key, u32 key_bytes)
{
	struct treadle_node_listen how = {
		.net = &init_net,
		.secret = key,
		.secret_bytes = key_bytes,
		.insecure = insecure,
		.trust_uids = trust_uids,
		.peer_timeout = peer_timeout,
	};
	struct treadle_node *node;

	/* Others learn the first address. */
	treadle_rdma_addr(&how.addr, &list_first_entry(&listeners, struct rdma_listener, list)->at);
	node = treadle_node_open(&treadle_rdma_transport, &how, NULL);
	if (IS_ERR(node)) {
		pr_err("treadle does not open the node: %ld\n", PTR_ERR(node));
		return PTR_ERR(node);
	}
	treadle_rdma_node = node;
	return 0;
}

static int start_listeners(void)
{
	struct rdma_listener *l;
	int ret = 0;

	list_for_each_entry(l, &listeners, list) {
		mutex_lock(&l->lock);
		ret = start_listener(l);
		mutex_unlock(&l->lock);
		if (ret == -ENODEV || ret == -EADDRNOTAVAIL)
			pr_err("%pISc: no RDMA device has this address\n", &l->at);
		else if (ret)
			pr_err("%pISpc: cannot listen: %d\n", &l->at, ret);
		else
			pr_info("listening at %pISpc\n", &l->at);
		if (ret)
			break;
	}
	return ret;
}

static void close_node(void)
{
	struct rdma_listener *l;

	WRITE_ONCE(treadle_rdma_closing, true);
	list_for_each_entry(l, &listeners, list)
		stop_listener(l);
	/* Requests that have come are offered; then the node refuses them. */
	flush_workqueue(treadle_rdma_wq);
	treadle_node_close(treadle_rdma_node);
}

/* Waits for the ends of links. */
static void destroy_queues(void)
{
	destroy_workqueue(treadle_rdma_end_wq);
	destroy_workqueue(treadle_rdma_wq);
}

static int create_queues(void)
{
	treadle_rdma_wq = alloc_workqueue("treadle_rdma", WQ_HIGHPRI | WQ_CPU_INTENSIVE, 0);
	if (!treadle_rdma_wq)
		return -ENOMEM;
	treadle_rdma_end_wq = alloc_workqueue("treadle_rdma_end", WQ_UNBOUND, 0);
	if (treadle_rdma_end_wq)
		return 0;
	destroy_workqueue(treadle_rdma_wq);
	return -ENOMEM;
}

/* Reads the file of the secret into @key. Returns its length, or -errno after a message. */
static int read_secret(char *key)
{
	struct file *file;
	struct inode *inode;
	loff_t pos = 0;
	int ret;

	/* O_NONBLOCK: a FIFO is refused, and not waited for. */
	file = filp_open(secret, O_RDONLY | O_NONBLOCK, 0);
	if (IS_ERR(file)) {
		pr_err("secret=%s: cannot be opened: %ld\n", secret, PTR_ERR(file));
		return -EINVAL; /* insmod has other words for -ENOENT */
	}
	inode = file_inode(file);
	ret = -EPERM;
	if (!S_ISREG(inode->i_mode)) {
		pr_err("secret=%s: not a file\n", secret);
	} else if (!uid_eq(inode->i_uid, GLOBAL_ROOT_UID) || (inode->i_mode & 077)) {
		pr_err("secret=%s: must be root's, and of mode 0600 or 0400\n", secret);
	} else {
		ret = kernel_read(file, key, SECRET_BYTES + 1, &pos);
		if (ret == 0 || ret > SECRET_BYTES) {
			pr_err("secret=%s: must have 1 to %u bytes\n", secret, SECRET_BYTES);
			ret = -EINVAL;
		} else if (ret < 0) {
			pr_err("secret=%s: cannot be read: %d\n", secret, ret);
		}
	}
	fput(file);
	return ret;
}

static bool given(const char *string)
{
	return string && *string;
}

static int check_parameters(void)
{
	if (!given(listen))
		pr_err("listen=ADDRESS is missing: the address of this node for others\n");
	else if (!port)
		pr_err("port=0: must be 1 to 65535\n");
	else if (given(secret) == insecure)
		pr_err("either secret=FILE or insecure=1 must be given\n");
	else if (!peer_timeout || peer_timeout > 3600)
		pr_err("peer_timeout=%u: must be 1 to 3600 seconds\n", peer_timeout);
	else if (ack_timeout > 31)
		pr_err("ack_timeout=%u: must be 31 at most\n", ack_timeout);
	else
		return 0;
	return -EINVAL;
}

static int __init treadle_rdma_init(void)
{
	char *key = NULL;
	int bytes = 0, ret = check_parameters();

	if (ret)
		return ret;
	treadle_rdma_ack_timeout = ack_timeout;
	ret = make_listeners();
	if (ret)
		goto fail_listeners;
	if (!insecure) {
		ret = -ENOMEM;
		key = kmalloc(SECRET_BYTES + 1, GFP_KERNEL);
		if (!key)
			goto fail_listeners;
		ret = bytes = read_secret(key);
		if (ret < 0)
			goto fail_listeners;
	}
	ret = create_queues();
	if (ret)
		goto fail_listeners;
	ret = open_node(key, bytes);
	if (ret)
		goto fail_queues;
	ret = start_listeners();
	if (!ret)
		goto out;
	close_node();
fail_queues:
	destroy_queues();
fail_listeners:
	free_listeners();
out:
	kfree_sensitive(key);
	return ret;
}

static void __exit treadle_rdma_exit(void)
{
	close_node();
	destroy_queues();
	free_listeners();
}

module_init(treadle_rdma_init);
module_exit(treadle_rdma_exit);
MODULE_DESCRIPTION("treadle between nodes, over RDMA");
MODULE_LICENSE("GPL");
MODULE_VERSION(TREADLE_VERSION);
