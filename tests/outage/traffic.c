/* SPDX-License-Identifier: GPL-2.0 */
/*
 * traffic HERE THERE SECONDS [kill | fail]: processes on two machines send numbered messages of
 * mixed sizes to each other, while tests/outage/run disturbs the machines. HERE, THERE: IPv4
 * addresses of the machines; the same runs on the other one, with the addresses swapped.
 *
 * Without a word more: each message arrives once, in order, with its bytes.
 * kill: now and then a process is killed, and another takes its place. Messages to it may be lost.
 * fail: the other machine goes away for good: sends end with errors, and nothing waits for ever.
 */
#include <arpa/inet.h>
#include <sys/prctl.h>

#include "../kselftest/treadle.h"

#define PROCS	 4  /* on each machine */
#define WINDOW	 16 /* sends, and receives, of a process under way */
#define LARGE	 262144
#define PORT	 20000
#define PATIENCE 60 /* s without any progress */
#define ERRNOS	 256

enum type { HELLO, NUMBERED, END };

/* Begins each message; its bytes follow as in fill(). */
struct head {
	__u32 type, from; /* PROCS * machine + process */
	__u64 life;	  /* of the sender */
	__u64 number;	  /* END: so many NUMBERED ones */
	__u64 length;
};

/* What this process knows of one on the other machine */
struct other {
	__u64 index, sent; /* to it */
	__u64 life, came;  /* from it */
	bool greeted, greets, ended, ends;
};

/* Of all processes of this machine */
struct sums {
	__u64 messages, bytes, silence_ns;
	__u64 errors[ERRNOS];
	int stop;
};

enum mode { ONCE, KILL, FAIL };

static struct sums *sums;
static enum mode mode;
static bool first; /* of the two machines */

struct process {
	struct node n;
	struct other others[PROCS];
	struct {
		char *buf;
		bool busy;
		__u8 type, to;
	} sends[WINDOW];
	struct {
		char *buf;
		bool done, failed;
		__u64 len;
	} recvs[WINDOW];
	__u64 posted, taken; /* receives */
	__u64 life, dice, me;
	__u64 progress; /* ns */
	int under_way;
};

static struct process p;

static size_t size_of(__u64 dice)
{
	size_t size = dice % 1000 < 5	? LARGE - dice % 9 :
		      dice % 1000 < 50	? 60000 + dice % 9000 :
		      dice % 1000 < 200 ? 4096 + dice % 9 :
		      dice % 1000 < 400 ? dice % 3000 :
					  8;

	return size < sizeof(struct head) ? sizeof(struct head) : size;
}

static bool put(int to, enum type type)
{
	struct other *o = &p.others[to];
	struct head *h;
	int i;

	for (i = 0; i < WINDOW && p.sends[i].busy; i++)
		;
	if (i == WINDOW)
		return false;
	h = (struct head *)p.sends[i].buf;
	*h = (struct head){.type = type, .from = p.me, .life = p.life, .number = o->sent};
	h->length = type == NUMBERED ? size_of(lottery(&p.dice)) : sizeof(*h);
	o->sent += type == NUMBERED;
	fill(h + 1, h->length - sizeof(*h), h->life + h->number);
	need(post(&p.n, send_of(h, h->length, o->index, i)) == 1);
	p.sends[i].busy = true;
	p.sends[i].type = type;
	p.sends[i].to = to;
	p.under_way++;
	return true;
}

/* A process says that it is there until the other one has it. */
static void sent(struct treadle_cqe c)
{
	struct other *o = &p.others[p.sends[c.context].to];

	p.sends[c.context].busy = false;
	p.under_way--;
	if (p.sends[c.context].type == HELLO) {
		o->greets = false;
		o->greeted = !c.error;
		return;
	}
	if (c.error) {
		need(c.error < ERRNOS);
		__atomic_fetch_add(&sums->errors[c.error], 1, __ATOMIC_RELAXED);
		about("a send of type %u to %u, error %u", p.sends[c.context].type,
		      p.sends[c.context].to, c.error);
		need(mode != ONCE);
		o->greeted = false;
	}
}

static void came(const struct head *h, __u64 len)
{
	bool here = h->from / PROCS == !first;
	struct other *o = &p.others[h->from % PROCS];

	about("a message of %u, type %u, life %llx, number %llu, %llu bytes", h->from, h->type,
	      h->life, h->number, len);
	need(len >= sizeof(*h) && h->length == len && h->from < 2 * PROCS && !here);
	need(same(h + 1, len - sizeof(*h), h->life + h->number));
	if (o->life != h->life) {
		/* lives of a process follow each other in time */
		need(o->life < h->life && (mode != ONCE || !o->life));
		o->life = h->life;
		o->came = 0;
	}
	if (h->type == NUMBERED) {
		need(mode == ONCE ? h->number == o->came : h->number >= o->came);
		o->came = h->number + 1;
		__atomic_fetch_add(&sums->messages, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&sums->bytes, len, __ATOMIC_RELAXED);
	} else if (h->type == END) {
		need(mode != ONCE || h->number == o->came);
		o->ended = true;
	}
}

static void silence_ends(void)
{
	__u64 now = now_ns(), gap = now - p.progress, most = sums->silence_ns;

	p.progress = now;
	while (gap > most && !__atomic_compare_exchange_n(&sums->silence_ns, &most, gap, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Receives match in the order of their posting, and may complete in another. */
static void receive(void)
{
	struct treadle_cqe c;

	while (cq_poll(&p.n.rcq, &c)) {
		about("a receive, error %u", c.error);
		need(!c.error || mode != ONCE); /* its sender is gone */
		p.recvs[c.context].done = true;
		p.recvs[c.context].failed = c.error;
		p.recvs[c.context].len = c.len;
	}
	while (p.taken < p.posted && p.recvs[p.taken % WINDOW].done) {
		int i = p.taken++ % WINDOW;

		if (!p.recvs[i].failed)
			came((struct head *)p.recvs[i].buf, p.recvs[i].len);
		p.recvs[i].done = false;
		silence_ends();
	}
	for (; p.posted < p.taken + WINDOW; p.posted++)
		need(post_recv(&p.n, recv_of(p.recvs[p.posted % WINDOW].buf, LARGE, ANY,
					     p.posted % WINDOW)) >= 0);
}

static void greet(int to)
{
	struct other *o = &p.others[to];

	if (!o->greeted && !o->greets)
		o->greets = put(to, HELLO);
}

static bool all_is_done(void)
{
	int i;

	for (i = 0; i < PROCS; i++) {
		struct other *o = &p.others[i];

		if (mode == ONCE && !o->ends && o->greeted)
			o->ends = put(i, END);
		if (mode == ONCE && !(o->ends && o->ended))
			return false;
	}
	return !p.under_way;
}

static void process_open(const char *here, const char *there, int me)
{
	struct treadle_addr at = loopback(PORT + me);
	int i;

	need(inet_pton(AF_INET, here, at.addr) == 1);
	node_open(&p.n, (struct options){.addr = at, .buffered = 1 << 20});
	need(inet_pton(AF_INET, there, at.addr) == 1);
	for (i = 0; i < PROCS; i++) {
		at.port = htons(PORT + i);
		p.others[i].index = peer(&p.n, at);
	}
	for (i = 0; i < WINDOW; i++) {
		p.sends[i].buf = pages(LARGE);
		p.recvs[i].buf = pages(LARGE);
	}
	p.me = first ? me : PROCS + me;
	p.life = now_ns() << 3 | p.me;
	p.dice = p.life;
	p.progress = now_ns();
}

static void stuck(void)
{
	char explain[64];

	note("%d sends under way, nothing came for %d s", p.under_way, PATIENCE);
	snprintf(explain, sizeof(explain), "build/bin/treadlectl explain %d", getpid());
	if (system(explain))
		note("%s: failed", explain);
	_exit(1);
}

static void process_run(const char *here, const char *there, int me)
{
	struct treadle_cqe c;

	process_open(here, there, me);
	for (;;) {
		bool stop = __atomic_load_n(&sums->stop, __ATOMIC_ACQUIRE);
		int to = lottery(&p.dice) % PROCS;

		receive();
		while (cq_poll(&p.n.cq, &c))
			sent(c);
		if (mode == ONCE || !stop)
			greet(to);
		if (p.others[to].greeted && !stop)
			put(to, NUMBERED);
		if (stop && all_is_done())
			break;
		if (mode != FAIL && now_ns() - p.progress > PATIENCE * 1000000000ULL)
			stuck();
		if (p.under_way == WINDOW || stop)
			cq_wait(&p.n.rcq, 1000000);
	}
	_exit(0);
}

static pid_t start(const char *here, const char *there, int me)
{
	pid_t pid = fork();

	need(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		process_run(here, there, me);
	}
	return pid;
}

int main(int argc, char **argv)
{
	__u64 dice = getpid(), end;
	pid_t pids[PROCS];
	int i, kills = 0, failed = 0;

	need(argc >= 4);
	first = strcmp(argv[1], argv[2]) < 0;
	mode = argc == 4 ? ONCE : strcmp(argv[4], "kill") ? FAIL : KILL;
	sums = shared(sizeof(*sums));
	for (i = 0; i < PROCS; i++)
		pids[i] = start(argv[1], argv[2], i);
	end = now_ns() + strtoull(argv[3], NULL, 0) * 1000000000ULL;
	while (now_ns() < end) {
		usleep(300000);
		if (mode != KILL)
			continue;
		i = lottery(&dice) % PROCS;
		need(waitpid(pids[i], NULL, WNOHANG) == 0);
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		pids[i] = start(argv[1], argv[2], i);
		kills++;
	}
	__atomic_store_n(&sums->stop, 1, __ATOMIC_RELEASE);
	for (i = 0; i < PROCS; i++)
		failed |= reap(pids[i]);
	note("%llu messages, %llu bytes, longest silence %llu ms, %d kills", sums->messages,
	     sums->bytes, sums->silence_ns / 1000000, kills);
	for (i = 0; i < ERRNOS; i++)
		if (sums->errors[i])
			note("%llu sends failed: %s", sums->errors[i], strerror(i));
	need(sums->messages);
	return !!failed;
}
