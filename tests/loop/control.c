// SPDX-License-Identifier: GPL-2.0
/*
 * treadle_loop: nodes, and the device that takes commands. Each write(2) is one:
 *
 *   listen ADDRESS [OPTION…]   opens a node in the network namespace of the writer
 *   mirror ADDRESS ADDRESS [OPTION…]   opens a node there, and a second one, by which the first
 *                              one reaches this namespace itself
 *   close ADDRESS              closes a node, and its mirror; reboot ADDRESS opens it again
 *   reset N, refuse N          one of N frames ends its link, one of N attempts is refused
 *   hostile N [SEED]           one of N frames is not what was sent
 *   intrude ADDRESS FROM       offers a link to a node, as if from the address FROM, that says it
 *                              is of another session, and then nothing
 *   delay USEC                 a frame is processed so much later, at most
 *   stall MSEC                 the cables are out for so long, from now on
 *   off                        nothing goes wrong any more
 *
 * Options are secret=TEXT, insecure, trust_uids and peer_timeout=SECONDS. read(2) gives counts of
 * what has happened.
 */
#include <linux/fs.h>
#include <linux/inet.h>
#include <linux/jiffies.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <net/net_namespace.h>

#include "loop.h"

#define MOST_WORDS 8

/* struct loop_node - @mirror: it opens, reboots and closes with this one */
struct loop_node {
	struct list_head list;
	struct treadle_node *node;
	struct treadle_node_listen listen;
	struct loop_node *mirror;
	char secret[64];
};

/*
 * command_lock: one command at a time. nodes_lock: the list of open nodes, which links look
 * through; it is not held while a node opens or closes.
 */
static DEFINE_MUTEX(command_lock);
static DEFINE_MUTEX(nodes_lock);
static LIST_HEAD(nodes);

static bool same_address(const struct treadle_addr *a, const struct treadle_addr *b)
{
	return a->family == b->family && !memcmp(a->addr, b->addr, sizeof(a->addr));
}

static struct loop_node *find(const struct treadle_addr *addr)
{
	struct loop_node *node;

	lockdep_assert_held(&nodes_lock);
	list_for_each_entry(node, &nodes, list)
		if (same_address(&node->listen.addr, addr))
			return node;
	return NULL;
}

/**
 * loop_address() - where a node listens
 * @node:	the node
 *
 * Context: any; the node is open, or just opening.
 * Return: its address.
 */
const struct treadle_addr *loop_address(struct treadle_node *node)
{
	const struct loop_node *own = treadle_node_private(node);

	return &own->listen.addr;
}

/**
 * loop_is_mirrored() - is a node a mirror, or has it one?
 * @node:	the node
 *
 * Context: as loop_address().
 */
bool loop_is_mirrored(struct treadle_node *node)
{
	const struct loop_node *own = treadle_node_private(node);

	return own->mirror || own->listen.mirror;
}

/**
 * loop_offer() - offer a link to the node at its end
 * @end:	the passive side
 *
 * Context: may sleep. The work of @end.
 * Return: 0; or -errno: there is no such node, or it doesn't take the link.
 */
int loop_offer(struct loop_end *end)
{
	struct loop_node *node;
	int ret = -ECONNREFUSED;

	mutex_lock(&nodes_lock);
	node = find(&end->wire->to);
	if (node)
		ret = treadle_link_offer(node->node, &end->link, &end->wire->from, &end->told,
					 end->told_bytes);
	mutex_unlock(&nodes_lock);
	return ret;
}

/* A link may be offered to the node as soon as it is in the list. */
static int node_open(struct loop_node *node)
{
	node->node = treadle_node_open(&loop_transport, &node->listen, node);
	if (IS_ERR(node->node))
		return PTR_ERR(node->node);
	mutex_lock(&nodes_lock);
	list_add_tail(&node->list, &nodes);
	mutex_unlock(&nodes_lock);
	return 0;
}

static void node_close(struct loop_node *node)
{
	mutex_lock(&nodes_lock);
	list_del(&node->list);
	mutex_unlock(&nodes_lock);
	treadle_node_close(node->node);
}

static void node_free(struct loop_node *node)
{
	if (!node)
		return;
	put_net(node->listen.net);
	kfree_sensitive(node);
}

/* The mirror opens last and closes first: it has no numbers of its own. */
static int pair_open(struct loop_node *node)
{
	int ret = node_open(node);

	if (ret || !node->mirror)
		return ret;
	ret = node_open(node->mirror);
	if (ret)
		node_close(node);
	return ret;
}

static void pair_close(struct loop_node *node)
{
	if (node->mirror)
		node_close(node->mirror);
	node_close(node);
}

static void pair_free(struct loop_node *node)
{
	node_free(node->mirror);
	node_free(node);
}

static int parse_address(const char *word, struct treadle_addr *addr)
{
	*addr = (struct treadle_addr){.family = AF_INET};
	if (word && in4_pton(word, -1, addr->addr, '\0', NULL))
		return 0;
	addr->family = AF_INET6;
	return word && in6_pton(word, -1, addr->addr, '\0', NULL) ? 0 : -EINVAL;
}

static int parse_option(struct loop_node *node, const char *word)
{
	struct treadle_node_listen *listen = &node->listen;

	if (!strncmp(word, "secret=", 7)) {
		if (strscpy(node->secret, word + 7, sizeof(node->secret)) < 0)
			return -E2BIG;
		listen->secret = node->secret;
		listen->secret_bytes = strlen(node->secret);
	} else if (!strncmp(word, "peer_timeout=", 13)) {
		return kstrtou32(word + 13, 0, &listen->peer_timeout);
	} else if (!strcmp(word, "insecure")) {
		listen->insecure = true;
	} else if (!strcmp(word, "trust_uids")) {
		listen->trust_uids = true;
	} else {
		return -EINVAL;
	}
	return 0;
}

static struct loop_node *node_alloc(const char *address, char **options)
{
	struct loop_node *node = kzalloc(sizeof(*node), GFP_KERNEL);
	int ret;

	if (!node)
		return ERR_PTR(-ENOMEM);
	node->listen.net = get_net(current->nsproxy->net_ns);
	node->listen.peer_timeout = 15;
	ret = parse_address(address, &node->listen.addr);
	while (!ret && *options)
		ret = parse_option(node, *options++);
	if (!ret)
		return node;
	node_free(node);
	return ERR_PTR(ret);
}

static bool is_taken(const struct treadle_addr *addr)
{
	bool taken;

	mutex_lock(&nodes_lock);
	taken = find(addr);
	mutex_unlock(&nodes_lock);
	return taken;
}

static int do_open(char **words, bool mirrored)
{
	struct loop_node *node = node_alloc(words[1], words + 2 + mirrored), *mirror = NULL;
	int ret;

	if (IS_ERR(node))
		return PTR_ERR(node);
	if (mirrored) {
		mirror = node_alloc(words[2], words + 3);
		if (IS_ERR(mirror)) {
			node_free(node);
			return PTR_ERR(mirror);
		}
		mirror->listen.mirror = true;
		node->mirror = mirror;
	}
	ret = -EADDRINUSE;
	if (!is_taken(&node->listen.addr) && (!mirror || !is_taken(&mirror->listen.addr)))
		ret = pair_open(node);
	if (ret)
		pair_free(node);
	return ret;
}

static int do_close(char **words, bool reboot)
{
	struct treadle_addr addr;
	struct loop_node *node;
	int ret = parse_address(words[1], &addr);

	if (ret)
		return ret;
	mutex_lock(&nodes_lock);
	node = find(&addr);
	mutex_unlock(&nodes_lock);
	if (!node || node->listen.mirror)
		return -ENOENT;
	pair_close(node);
	if (reboot)
		ret = pair_open(node);
	if (!reboot || ret)
		pair_free(node);
	return ret;
}

static int do_fault(char **words, u32 *fault)
{
	u64 seed = 1;
	u32 value;
	int ret = words[1] ? kstrtou32(words[1], 0, &value) : -EINVAL;

	if (!ret && words[1] && words[2])
		ret = kstrtou64(words[2], 0, &seed);
	if (ret)
		return ret;
	loop_fault_seed(seed);
	WRITE_ONCE(*fault, value);
	WRITE_ONCE(loop_faults.active, loop_faults.reset || loop_faults.hostile);
	return 0;
}

static int do_intrude(char **words)
{
	struct treadle_addr to, from;

	if (parse_address(words[1], &to) || parse_address(words[1] ? words[2] : NULL, &from))
		return -EINVAL;
	return loop_intrude(&to, &from);
}

static int do_stall(char **words)
{
	u32 value;
	int ret = words[1] ? kstrtou32(words[1], 0, &value) : -EINVAL;

	if (ret)
		return ret;
	WRITE_ONCE(loop_faults.stall, jiffies + msecs_to_jiffies(value));
	WRITE_ONCE(loop_faults.stalled, true);
	return 0;
}

static int do_command(char **words)
{
	lockdep_assert_held(&command_lock);
	if (!words[0])
		return -EINVAL;
	if (!strcmp(words[0], "listen"))
		return do_open(words, false);
	if (!strcmp(words[0], "mirror"))
		return words[1] ? do_open(words, true) : -EINVAL;
	if (!strcmp(words[0], "close"))
		return do_close(words, false);
	if (!strcmp(words[0], "reboot"))
		return do_close(words, true);
	if (!strcmp(words[0], "reset"))
		return do_fault(words, &loop_faults.reset);
	if (!strcmp(words[0], "refuse"))
		return do_fault(words, &loop_faults.refuse);
	if (!strcmp(words[0], "hostile"))
		return do_fault(words, &loop_faults.hostile);
	if (!strcmp(words[0], "delay"))
		return do_fault(words, &loop_faults.delay);
	if (!strcmp(words[0], "intrude"))
		return do_intrude(words);
	if (!strcmp(words[0], "stall"))
		return do_stall(words);
	if (!strcmp(words[0], "off")) {
		memset(&loop_faults, 0, sizeof(loop_faults));
		return 0;
	}
	return -EINVAL;
}

static ssize_t loop_write(struct file *file, const char __user *from, size_t bytes, loff_t *pos)
{
	char *words[MOST_WORDS + 1] = {}, *text, *rest, *word;
	int count = 0, ret = 0;

	if (bytes > 256)
		return -E2BIG;
	text = memdup_user_nul(from, bytes);
	if (IS_ERR(text))
		return PTR_ERR(text);
	rest = strim(text);
	while ((word = strsep(&rest, " ")) && !ret) {
		if (count == MOST_WORDS)
			ret = -E2BIG;
		else if (*word)
			words[count++] = word;
	}
	if (!ret) {
		mutex_lock(&command_lock);
		ret = do_command(words);
		mutex_unlock(&command_lock);
	}
	kfree_sensitive(text);
	return ret ?: bytes;
}

static ssize_t loop_read(struct file *file, char __user *to, size_t bytes, loff_t *pos)
{
	static const char *const names[LOOP_COUNTS] = {"links",	  "frames",  "resets",
						       "refused", "hostile", "declined"};
	char text[256];
	int i, length = 0;

	for (i = 0; i < LOOP_COUNTS; i++)
		length += scnprintf(text + length, sizeof(text) - length, "%s %ld\n", names[i],
				    atomic_long_read(&loop_counts[i]));
	return simple_read_from_buffer(to, bytes, pos, text, length);
}

static const struct file_operations loop_fops = {
	.owner = THIS_MODULE,
	.read = loop_read,
	.write = loop_write,
	.llseek = default_llseek,
};

static struct miscdevice loop_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "treadle_loop",
	.fops = &loop_fops,
	.mode = 0600,
};

static int __init loop_init(void)
{
	int ret = loop_wire_init();

	if (ret)
		return ret;
	ret = loop_exporter_init();
	if (ret)
		goto fail_wire;
	ret = misc_register(&loop_device);
	if (!ret)
		return 0;
	loop_exporter_exit();
fail_wire:
	loop_wire_exit();
	return ret;
}

static void __exit loop_exit(void)
{
	struct loop_node *node;

	misc_deregister(&loop_device);
	/* No command is under way. A mirror goes with its node, which is before it. */
	while (!list_empty(&nodes)) {
		node = list_first_entry(&nodes, struct loop_node, list);
		pair_close(node);
		pair_free(node);
	}
	loop_exporter_exit();
	loop_wire_exit();
}

module_init(loop_init);
module_exit(loop_exit);
MODULE_DESCRIPTION("treadle's nodes joined within a kernel, for tests");
MODULE_LICENSE("GPL");
