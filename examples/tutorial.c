// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/*
 * A triggered answer, with libfabric alone: Documentation/tutorial.rst explains it.
 *
 *	cc tutorial.c -lfabric && ./a.out
 */

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_trigger.h>

static void check(long result, const char *call)
{
	if (result < 0)
		errx(1, "%s: %s", call, fi_strerror(-result));
}
#define CHECK(call) check(call, #call)

static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cntr *sent, *received;
static fi_addr_t peer;

/* Opens an endpoint at 127.0.0.1:mine, with 127.0.0.1:theirs as its peer. */
static void open_endpoint(const char *mine, const char *theirs)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
	struct fi_av_attr table = {.type = FI_AV_TABLE};
	struct fid_fabric *fabric;
	struct fid_av *av;

	hints->caps = FI_MSG | FI_TRIGGER;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("treadle");
	CHECK(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", mine, FI_SOURCE, hints, &info));
	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
	CHECK(fi_domain(fabric, info, &domain, NULL));
	CHECK(fi_endpoint(domain, info, &ep, NULL));
	CHECK(fi_av_open(domain, &table, &av, NULL));
	CHECK(fi_cntr_open(domain, &cntr, &sent, NULL));
	CHECK(fi_cntr_open(domain, &cntr, &received, NULL));
	CHECK(fi_ep_bind(ep, &av->fid, 0));
	CHECK(fi_ep_bind(ep, &sent->fid, FI_SEND));
	CHECK(fi_ep_bind(ep, &received->fid, FI_RECV));
	CHECK(fi_enable(ep));
	CHECK(fi_av_insertsvc(av, "127.0.0.1", theirs, &peer, 0, NULL));
}

/* Arms an answer, and stops this process. */
static void child(void)
{
	char text[32];
	struct iovec all = {text, sizeof(text)};
	struct fi_op_msg answer = {.ep = ep,
				   .msg = {.msg_iov = &all, .iov_count = 1, .addr = peer}};
	struct fi_deferred_work work = {.triggering_cntr = received,
					.threshold = 1,
					.op_type = FI_OP_SEND,
					.op.msg = &answer,
					.completion_cntr = sent};

	CHECK(fi_recv(ep, text, sizeof(text), NULL, FI_ADDR_UNSPEC, NULL));
	CHECK(fi_control(&domain->fid, FI_QUEUE_WORK, &work));
	raise(SIGSTOP);
	printf("child: %lu answer was sent\n", fi_cntr_read(sent));
}

/* Sends a message to the stopped child, and gets its answer. */
static int parent(pid_t pid)
{
	char out[32] = "one press, and the threads move", in[32] = "";
	int status;

	waitpid(pid, &status, WUNTRACED);
	printf("parent: the child has %s\n", WIFSTOPPED(status) ? "stopped" : "failed");
	CHECK(fi_recv(ep, in, sizeof(in), NULL, peer, NULL));
	CHECK(fi_send(ep, out, sizeof(out), NULL, peer, NULL));
	CHECK(fi_cntr_wait(received, 1, 10000));
	printf("parent: it has answered \"%s\"\n", in);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	return strcmp(in, out) != 0 || status != 0;
}

int main(void)
{
	pid_t pid = fork(); /* first: a child can't use what its parent has opened */

	open_endpoint(pid ? "7701" : "7702", pid ? "7702" : "7701");
	if (pid)
		return parent(pid);
	child();
	return 0;
}
