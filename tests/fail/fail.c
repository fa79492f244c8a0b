// SPDX-License-Identifier: GPL-2.0
/*
 * For tests only: makes operations of the module fail (see fail.h). Parameters, also when the
 * module is loaded:
 *
 *   fail_nth   n: the n-th operation from here on that can fail does fail, in the process that
 *              writes this and in the kernel's workers; 0: none. Reads as 0 afterwards
 *   fail_times failures in a row (1): if the module tries again, later tries fail, too. Read with
 *              fail_nth
 *   fail_live  what the module holds: allocations, pages, references to pages of processes
 */
#include <linux/sched.h>
#include <net/net_namespace.h>

static pid_t victim;
static atomic_t left, more;
static int times = 1;
atomic_long_t treadle_live;

bool treadle_fails(gfp_t gfp)
{
	if ((!atomic_read(&left) && !atomic_read(&more)) ||
	    (current->tgid != READ_ONCE(victim) && !(current->flags & PF_WQ_WORKER)))
		return false;
	if (atomic_dec_if_positive(&left) == 0) {
		atomic_set(&more, READ_ONCE(times) - 1);
		return true;
	}
	return !atomic_read(&left) && atomic_dec_if_positive(&more) >= 0;
}

#undef register_pernet_subsys
#undef unregister_pernet_subsys
int register_pernet_subsys(struct pernet_operations *ops);
int treadle_register_pernet(struct pernet_operations *ops)
{
	int ret = FAILS(-ENOMEM, register_pernet_subsys(ops));

	if (!ret)
		treadle_kcov_begin();
	return ret;
}

void unregister_pernet_subsys(struct pernet_operations *ops);
void treadle_unregister_pernet(struct pernet_operations *ops)
{
	treadle_kcov_end();
	unregister_pernet_subsys(ops);
}

static int set_nth(const char *text, const struct kernel_param *kp)
{
	int n, ret = kstrtoint(text, 0, &n);

	if (ret)
		return ret;
	WRITE_ONCE(victim, current->tgid);
	atomic_set(&more, 0);
	atomic_set(&left, n);
	return 0;
}

static int get_nth(char *text, const struct kernel_param *kp)
{
	return sprintf(text, "%d\n", atomic_read(&left));
}

static int get_live(char *text, const struct kernel_param *kp)
{
	return sprintf(text, "%ld\n", atomic_long_read(&treadle_live));
}

static const struct kernel_param_ops nth_ops = {.set = set_nth, .get = get_nth};
static const struct kernel_param_ops live_ops = {.get = get_live};

module_param_cb(fail_nth, &nth_ops, NULL, 0600);
module_param_named(fail_times, times, int, 0600);
module_param_cb(fail_live, &live_ops, NULL, 0400);
