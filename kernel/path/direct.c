// SPDX-License-Identifier: GPL-2.0
/* treadle: for which processes there is memory that both have mapped: windows and lanes */
#include <linux/cred.h>
#include <linux/sched/coredump.h>

#include "path/direct.h"
#include "path/path.h"

static bool same_user(const struct cred *a, const struct cred *b)
{
	return a->user_ns == b->user_ns && uid_eq(a->euid, b->uid) && uid_eq(a->euid, b->euid) &&
	       uid_eq(a->euid, b->suid) && gid_eq(a->egid, b->gid) && gid_eq(a->egid, b->egid) &&
	       gid_eq(a->egid, b->sgid);
}

/**
 * treadle_is_open() - is all memory of a process open to another one anyway?
 * @ctx:	of the process that asks
 * @owner:	of the other one
 *
 * The rule of ptrace(2), by the credentials with which both have opened the device, in both
 * directions.
 *
 * Context: any. Both have an mm.
 * Return: whether it is.
 */
bool treadle_is_open(const struct treadle_ctx *ctx, const struct treadle_ctx *owner)
{
	return same_user(ctx->cred, owner->cred) && same_user(owner->cred, ctx->cred) &&
	       cap_issubset(owner->cred->cap_permitted, ctx->cred->cap_permitted) &&
	       get_dumpable(owner->mm) == SUID_DUMP_USER && get_dumpable(ctx->mm) == SUID_DUMP_USER;
}

/**
 * treadle_direct_find() - find the endpoint that a command would go to, if it is of a process here
 * @from:	the initiator, held
 * @opcode:	of the command
 * @peer:	as in its descriptor
 *
 * Context: any.
 * Return: the endpoint, held, which admits @from. ERR_PTR(): -ENOTCONN, -EINVAL: @from is not
 * enabled, or has no transmit ring; -EOPNOTSUPP: the peer is on another node; or what the
 * command would complete with.
 */
struct treadle_ep *treadle_direct_find(struct treadle_ep *from, u8 opcode, u64 peer)
{
	struct treadle_cmd cmd = { .ep = from, .d.opcode = opcode, .d.peer = peer };
	struct treadle_ep *to;
	int ret;

	if (!smp_load_acquire(&from->enabled)) /* pairs with ep_enable() */
		return ERR_PTR(-ENOTCONN);
	if (!from->tx)
		return ERR_PTR(-EINVAL);
	ret = treadle_cmd_aim(&cmd);
	if (ret)
		return ERR_PTR(ret);
	if (cmd.path != TREADLE_PATH_LOCAL)
		return ERR_PTR(-EOPNOTSUPP);
	to = treadle_find_target(&cmd);
	if (to == ERR_PTR(-EXDEV))
		return ERR_PTR(-EOPNOTSUPP);
	if (IS_ERR(to))
		return to;
	if (to->far || !to->obj.ctx->mm) {
		treadle_ep_put(to);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return to;
}
