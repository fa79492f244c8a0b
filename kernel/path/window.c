// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: windows on the memory of a peer: for which processes
 *
 * An access is checked as the command would be. A page has other bytes than those of the region,
 * perhaps, and can't be mapped for writing only: so the owner must be open to the initiator anyway,
 * as for ptrace(2), unless the map shows nothing that the region doesn't.
 */
#include <linux/slab.h>

#include "copy/mr.h"
#include "core/limits.h"
#include "path/direct.h"
#include "path/window.h"

static struct treadle_win *window_of(struct treadle_obj *obj)
{
	return container_of(obj, struct treadle_win, obj);
}

static void window_hide(struct treadle_obj *obj, struct treadle_run *run)
{
	struct treadle_win *win = window_of(obj);

	if (win->hidden)
		return;
	win->hidden = true;
	if (win->listed)
		treadle_pm_window_end(&win->w);
	treadle_obj_unbind(&win->from->obj);
}

/* Let go of the owner, but for its pagemap. */
static void window_let_go(struct treadle_win *win)
{
	if (win->mr)
		treadle_mr_put(win->mr);
	if (win->to)
		treadle_ep_put(win->to);
	win->mr = NULL;
	win->to = NULL;
}

/* It has ended, and no notifier uses it: drop the reference of window_start(). */
static void window_release(struct treadle_pm_window *w)
{
	struct treadle_win *win = container_of(w, struct treadle_win, w);

	window_let_go(win);
	treadle_obj_put(&win->obj);
}

/* Perhaps under the initiator's mmap_lock: if it was listed, nothing is held any more. */
static void window_free(struct treadle_obj *obj)
{
	struct treadle_win *win = window_of(obj);

	window_let_go(win);
	treadle_pm_window_free(&win->w);
	treadle_area_free(&win->status);
	if (win->w.pm)
		treadle_pm_put(win->w.pm);
	atomic_dec(&obj->ctx->nr_windows);
}

static const struct treadle_area *window_area(struct treadle_obj *obj, enum treadle_region region)
{
	return region == TREADLE_RO ? &window_of(obj)->status : NULL;
}

static const struct treadle_obj_ops window_ops = {
	.type = TREADLE_WINDOW,
	.hide = window_hide,
	.free = window_free,
	.area = window_area,
};

/* --- the rights ------------------------------------------------------------------------------ */

/* Find the endpoint that an access goes to: held, or an ERR_PTR(). */
static struct treadle_ep *find_owner(struct treadle_ep *from, const struct treadle_window_open *arg)
{
	bool write = arg->access & TREADLE_ACCESS_REMOTE_WRITE;
	struct treadle_ep *to;

	if (from->type != TREADLE_EP_RDM && from->type != TREADLE_EP_MSG)
		return ERR_PTR(-EINVAL);
	to = treadle_direct_find(from, write ? TREADLE_OP_WRITE : TREADLE_OP_READ, arg->peer);
	if (!IS_ERR(to) && ((write && to->cntr_remote_write) ||
			    ((arg->access & TREADLE_ACCESS_REMOTE_READ) && to->cntr_remote_read))) {
		treadle_ep_put(to);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return to;
}

/* Find the region of an access. 0, with win->mr held and *@whole set; or -errno. */
static int find_region(struct treadle_win *win, const struct treadle_window_open *arg, u32 access,
		       struct treadle_mr_whole *whole)
{
	const struct treadle_rma_iov range = { arg->addr, arg->len, arg->key };
	struct treadle_iov at[TREADLE_MAX_MR_IOV];
	int ret = treadle_mr_find(win->to, win->from, &range, access, &win->mr, at);

	if (ret < 0)
		return READ_ONCE(win->to->dead) ? -ECONNRESET : ret;
	return ret == 1 && treadle_mr_whole(win->mr, whole) ? 0 : -EOPNOTSUPP;
}

/* Does the region grant @access, too? */
static bool grants(const struct treadle_win *win, const struct treadle_window_open *arg, u32 access)
{
	const struct treadle_rma_iov range = { arg->addr, arg->len, arg->key };
	struct treadle_iov at[TREADLE_MAX_MR_IOV];
	struct treadle_mr *mr;

	if (treadle_mr_find(win->to, win->from, &range, access, &mr, at) < 0)
		return false;
	treadle_mr_put(mr);
	return true;
}

/* Set the range of the window: the region, as far as it is in the same TREADLE_WINDOW_MAX. */
static void set_range(struct treadle_win *win, const struct treadle_window_open *arg,
		      const struct treadle_mr_whole *whole)
{
	const struct treadle_iov *iov = &whole->iov;
	u64 at = iov->addr + (arg->addr - whole->start), first, last;

	first = max(iov->addr, at & ~(TREADLE_WINDOW_MAX - 1));
	last = min(iov->addr + iov->len - 1, at | (TREADLE_WINDOW_MAX - 1));
	win->addr = whole->start + (first - iov->addr);
	win->len = last - first + 1;
	win->skip = offset_in_page(first);
	win->w.range.start = first & PAGE_MASK;
	win->w.range.last = last | ~PAGE_MASK;
	win->w.count = (win->w.range.last - win->w.range.start + 1) >> PAGE_SHIFT;
	if (whole->pages)
		win->w.pinned = whole->pages +
				((win->w.range.start - (iov->addr & PAGE_MASK)) >> PAGE_SHIFT);
}

/* Check the access, and set what depends on the owner. 0 or -errno: the caller aborts. */
static int window_validate(struct treadle_win *win, struct treadle_window_open *arg)
{
	u32 access = arg->access | TREADLE_ACCESS_RMA, both;
	struct treadle_mr_whole whole;
	int ret;

	ret = find_region(win, arg, access, &whole);
	if (ret)
		return ret;
	set_range(win, arg, &whole);
	if (win->w.range.last >= PM_END)
		return -EOPNOTSUPP;
	both = TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE;
	if (!treadle_is_open(win->obj.ctx, win->to->obj.ctx) &&
	    (win->skip || (win->len & ~PAGE_MASK) ||
	     !grants(win, arg, access | TREADLE_ACCESS_REMOTE_READ)))
		return -EXDEV;
	win->w.write = arg->access & TREADLE_ACCESS_REMOTE_WRITE;
	win->w.revoked = whole.revoked;
	win->w.closed = &win->to->closed;
	win->w.pm = treadle_pm_of(win->to->obj.ctx);
	kref_get(&win->w.pm->ref);
	if (win->w.pinned && (arg->access & both) == both &&
	    grants(win, arg, both | TREADLE_ACCESS_ATOMIC))
		arg->flags |= TREADLE_WINDOW_ATOMIC;
	return 0;
}

/* Allocate, and list the window. 0 or -errno: the caller aborts. */
static int window_start(struct treadle_win *win, const struct treadle_window_open *arg)
{
	size_t words = BITS_TO_LONGS(win->w.count);
	struct treadle_mr_whole whole;
	int ret;

	ret = treadle_pm_window_alloc(&win->w);
	if (!ret)
		ret = treadle_area_alloc(&win->status,
					 sizeof(*win->w.status) + words * sizeof(u64));
	if (ret)
		return ret;
	win->w.status = win->status.addr;
	win->w.mapping = &win->obj.ctx->mapping;
	win->w.pgoff =
		(TREADLE_WINDOW_OFFSET | (u64)win->obj.id << TREADLE_WINDOW_BITS) >> PAGE_SHIFT;
	win->w.release = window_release;
	kref_get(&win->obj.ref);
	ret = treadle_pm_window_list(&win->w);
	if (ret) {
		treadle_obj_put(&win->obj);
		return READ_ONCE(win->to->dead) ? -ECONNRESET : ret;
	}
	win->listed = true;
	/* mr_bind() ends the windows that it finds: what it has bound before is seen here */
	return treadle_mr_whole(win->mr, &whole) && grants(win, arg, arg->access) ? 0 : -EOPNOTSUPP;
}

/**
 * treadle_ioc_window_open() - WINDOW_OPEN: make a window on the region that an access goes to
 * @u: the call, with a struct treadle_window_open
 *
 * Context: may sleep. Takes ctx->lock, and pm->lock of the owner.
 * Return: 0, with the window in u->new; or -errno.
 */
int treadle_ioc_window_open(struct treadle_ucmd *u)
{
	struct treadle_window_open *arg = u->arg;
	struct treadle_win *win;
	struct treadle_obj *from;
	struct treadle_ep *to;
	int ret;

	if (arg->flags || arg->reserved || !arg->len || !arg->access ||
	    (arg->access & ~(TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE)))
		return -EINVAL;
	if (!READ_ONCE(treadle_direct))
		return -EOPNOTSUPP;
	from = treadle_obj_bind(u->ctx, arg->ep, TREADLE_EP);
	if (IS_ERR(from))
		return PTR_ERR(from);
	to = find_owner(container_of(from, struct treadle_ep, obj), arg);
	if (IS_ERR(to)) {
		treadle_obj_unbind(from);
		return PTR_ERR(to);
	}
	ret = -ENOSPC;
	if (atomic_inc_return(&u->ctx->nr_windows) > treadle_max_windows)
		goto fail;
	ret = -ENOMEM;
	win = kzalloc(sizeof(*win), TREADLE_GFP);
	if (!win)
		goto fail;
	win->from = container_of(from, struct treadle_ep, obj);
	win->from_id = from->id;
	win->access = arg->access;
	win->to = to;
	mutex_init(&win->filling);
	ret = treadle_obj_init(u->ctx, &win->obj, &window_ops);
	if (ret) {
		kfree(win);
		goto fail;
	}
	ret = treadle_scratch_alloc(u->ctx) ?: window_validate(win, arg) ?: window_start(win, arg);
	if (ret) {
		treadle_obj_abort(&win->obj);
		return ret;
	}
	arg->id = win->obj.id;
	arg->addr = win->addr;
	arg->len = win->len;
	arg->skip = win->skip;
	arg->data.offset = (u64)win->w.pgoff << PAGE_SHIFT;
	arg->data.length = (u64)win->w.count << PAGE_SHIFT;
	treadle_map_cookie(&win->obj, &win->status, TREADLE_RO, &arg->ro);
	u->new = &win->obj;
	return 0;
fail:
	atomic_dec(&u->ctx->nr_windows);
	treadle_ep_put(to);
	treadle_obj_unbind(from);
	return ret;
}

/**
 * treadle_window_describe() - say what is to be shown of a window
 * @obj:	the window; complete
 * @info:	what it is now; each of its numbers may be older than the next one
 *
 * Context: any.
 */
void treadle_window_describe(struct treadle_obj *obj, struct treadle_window_info *info)
{
	const struct treadle_win *win = window_of(obj);
	const struct treadle_window_status *status = win->w.status;
	unsigned long i;

	*info = (struct treadle_window_info){
		.ep = win->from_id,
		.access = win->access,
		.pages = win->w.count,
		.addr = win->addr,
		.len = win->len,
		.taken = READ_ONCE(status->generation),
		.closed = READ_ONCE(status->flags) & TREADLE_WINDOW_CLOSED,
	};
	for (i = 0; i < BITS_TO_U64(win->w.count); i++)
		info->present += hweight64(READ_ONCE(status->present[i]));
}

/**
 * treadle_ioc_window_fill() - WINDOW_FILL: enter the pages that the owner has in memory
 * @u: the call, with a struct treadle_window_fill
 *
 * Context: may sleep. Waits for no other process.
 * Return: 0 or -errno.
 */
int treadle_ioc_window_fill(struct treadle_ucmd *u)
{
	struct treadle_window_fill *arg = u->arg;
	struct treadle_win *win;
	struct treadle_obj *obj;
	u64 off;
	int ret;

	if (arg->flags || arg->reserved || !arg->len)
		return -EINVAL;
	obj = treadle_obj_get(u->ctx, arg->window, TREADLE_WINDOW);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	win = window_of(obj);
	off = arg->addr - win->addr;
	ret = -EREMOTEIO;
	if (off >= win->len || arg->len > win->len - off)
		goto out;
	ret = -EINTR;
	if (mutex_lock_killable(&win->filling))
		goto out;
	off += win->skip;
	ret = treadle_pm_window_fill(&win->w, off >> PAGE_SHIFT,
				     (off + arg->len - 1) >> PAGE_SHIFT);
	mutex_unlock(&win->filling);
out:
	treadle_obj_put(obj);
	return ret;
}
