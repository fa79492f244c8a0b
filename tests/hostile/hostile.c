// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile node. It runs on machine 1, in user space (peer.h), at addresses of its own, and plays
 * against treadle_rdma of machine 0. After each step two processes there have to answer an honest
 * one here, over the session of both machines' modules (honest.h).
 *
 * hostile serve: the processes on machine 0
 * hostile: each step once. hostile SEED FRAMES: then so many frames with random faults
 */
#include "random.h"
#include "rules.h"

/* --- without the secret ---------------------------------------------------- */

static void garbage_instead_of_a_hail(void)
{
	__u64 garbage[7];
	struct peer p;

	for (int i = 0; i < 10; i++) {
		need(getrandom(garbage, sizeof(garbage), 0) == sizeof(garbage));
		need(dial_to(&p, 3, 1, garbage, i % 2 ? sizeof(garbage) : i, BUFFERS) ==
		     ECONNREFUSED);
		need(p.other.magic == 0);
	}
}

static void wrong_hails(void)
{
	struct hail hail;
	__u64 node;
	struct peer p;

	hail = hail_of(1, 1);
	hail.magic++;
	need(dial(&p, 3, &hail) == ECONNREFUSED && p.other.magic == 0);
	for (int version = 0; version < 3; version += 2) {
		hail = hail_of(1, 1);
		hail.version = version;
		need(dial(&p, 3, &hail) == ECONNREFUSED && p.other.version == 1);
	}
	node = p.other.node;
	hail = hail_of(node, 1); /* it is the other node itself */
	need(dial(&p, 3, &hail) == ECONNREFUSED && p.other.magic == 0);
	hail = hail_of(1, 1);
	for (int i = 0; i < 2; i++) {
		hail.attempt = i ? ~0ULL : 0;
		need(dial(&p, 3, &hail) == ECONNREFUSED && p.other.node == node);
	}
}

/* Connects, and is accepted. */
static void knock(struct peer *p)
{
	struct hail hail;
	int tries = 0;

	do {
		need(tries++ < 40);
		if (tries > 1)
			usleep(100000);
		hail = hail_of(random_word(), random_word());
	} while (dial(p, 3, &hail));
}

static void out_of_turn(void)
{
	const char *name = "";
	struct peer p;

	for (int i = 0; name; i++) {
		knock(&p);
		name = speak_out_of_turn(&p, i);
		about("%s", name ?: "");
		need(!name || is_over(&p, ROUND_MS));
		leave(&p);
	}
	about("%s", "");
}

static void wrong_secrets(void)
{
	struct hello first, replayed;
	char secret[64];
	struct peer p;
	int stayed = 0;

	for (int i = 0; i < 10; i++) {
		about("secret %d", i);
		knock(&p);
		need(say_hello(&p) && hear_hello(&p, HELLO));
		/* shorter, longer, another one; and what the other side has to prove */
		memset(secret, i, sizeof(secret));
		p.passive = i == 9;
		read_secret(secret);
		say_proof(&p, secret, i == 9 ? read_secret(secret) : 1 + i);
		need(hear_hello(&p, REFUSED));
		stayed += !ended(&p);
		need(is_over(&p, ROUND_MS));
		leave(&p);
	}
	/* a link that is left at once may take the refusal along */
	note("%d links were still there when the refusal was read", stayed);
	need(stayed);
	about("a proof that was seen on the last link");
	enter(&p);
	first = p.hello[0];
	memcpy(&replayed, p.out, sizeof(replayed));
	leave(&p);
	for (int i = 0; i < 2; i++) {
		struct hail hail;

		do
			hail = hail_of(first.node, first.session);
		while (dial(&p, 3, &hail));
		need(send_bytes(&p, &first, sizeof(first)) && hear_hello(&p, HELLO));
		send_bytes(&p, &replayed, sizeof(replayed));
		need(hear_hello(&p, REFUSED));
		need(is_over(&p, ROUND_MS));
		leave(&p);
	}
	about("the session goes on");
	enter_as(&p, 3, first.node, first.session, BUFFERS);
	need(goes_on(&p));
	leave(&p);
	about("%s", "");
}

#define CROWD 20
/* Links without HELLO are limited, and left. Others connect nevertheless. */
static void handshakes_that_never_end(void)
{
	static struct peer crowd[CROWD];
	int accepted = 0;
	struct peer p;

	for (int i = 0; i < CROWD; i++) {
		struct hail hail = hail_of(random_word(), random_word());

		accepted += dial(&crowd[i], 10 + i, &hail) == 0;
		if (crowd[i].id && i % 2)
			say_hello(&crowd[i]);
	}
	note("%d of %d were accepted", accepted, CROWD);
	need(accepted > 0);
	ask(ECHO);
	enter(&p);
	leave(&p);
	for (int i = 0; i < CROWD; i++) {
		if (!crowd[i].id)
			continue;
		need(is_over(&crowd[i], ROUND_MS));
		leave(&crowd[i]);
	}
}

static void broken_rules(void)
{
	const char *name = "";
	struct peer p;
	int i;

	for (i = 0; name; i++) {
		enter(&p);
		name = break_a_rule(&p, i);
		about("%s", name ?: "");
		need(!name || is_over(&p, ROUND_MS));
		leave(&p);
		ask(ECHO);
	}
	about("%s", "");
	note("%d rules", i - 1);
}

/* --- with the secret: what is answered, or means nothing --------------------- */

/* Sends what was added, and waits for the end of the command with reference 1. */
static int outcome(struct peer *p)
{
	need(send_frame(p, frame));
	return status_of(p, 1);
}

#define ENDS(status, command)                                    \
	do {                                                     \
		begin(TREADLE_WIRE_ITEMS);                       \
		about("%s", #command);                           \
		command;                                         \
		int got = outcome(&p);                           \
		if (got != (status)) {                           \
			note("%s: %s", #command, strerror(got)); \
			wrong++;                                 \
		}                                                \
	} while (0)

static void false_commands(void)
{
	const __u64 key = ask(ECHO).key;
	struct treadle_wire_intro *intro;
	struct treadle_wire_cmd *cmd;
	struct peer p;
	int wrong = 0;

	enter(&p);
	begin(TREADLE_WIRE_ITEMS);
	intro = add_intro(0, TREADLE_EP_RDM, 0);
	add_intro(1, TREADLE_EP_RDM, 4711);
	prove_key(&p, add_intro(2, TREADLE_EP_RDM, 4711), "a key that is guessed");
	prove_key(&p, add_intro(3, TREADLE_EP_RDM, 4711), KEY);
	add_intro(4, TREADLE_EP_RDM, 4711);
	memcpy(intro[4].proof, intro[3].proof, 32); /* of another handle */
	intro[4].has_key = 1;
	add_intro(5, TREADLE_EP_MSG, 0);
	need(send_frame(&p, frame));
	ENDS(0, add_cmd(1, 0, TARGET, TREADLE_OP_SEND, 8, 8)->flags = TREADLE_F_INJECT);
	ENDS(ENOMEM, add_cmd(1, 77, TARGET, TREADLE_OP_SEND, 8, 8)->flags = TREADLE_F_INJECT);
	ENDS(ENOMEM, add_cmd(1, ~0, TARGET, TREADLE_OP_SEND, 8, 8)->flags = TREADLE_F_INJECT);
	ENDS(ECONNREFUSED, add_cmd(1, 0, NO_ONE, TREADLE_OP_SEND, 8, 8)->flags = TREADLE_F_INJECT);
	ENDS(ECONNREFUSED,
	     add_cmd(1, 0, LISTENER, TREADLE_OP_SEND, 8, 8)->flags = TREADLE_F_INJECT);
	ENDS(ECONNREFUSED,
	     add_cmd(1, 0, TARGET | 3 << 16, TREADLE_OP_SEND, 8, 8)->flags = TREADLE_F_INJECT);
	ENDS(ENOTCONN, add_cmd(1, 5, TARGET, TREADLE_OP_SEND, 8, 8)->flags = TREADLE_F_INJECT);
	for (int i = 1; i < 5; i++)
		ENDS(i == 3 ? EKEYREJECTED : EACCES,
		     add_cmd(1, i, GUARDED, TREADLE_OP_WRITE, 0, 0));
	ENDS(EACCES, add_cmd(1, 1, TARGET, TREADLE_OP_SEND, 8, 8)->flags = TREADLE_F_INJECT);
	ENDS(0, aim(add_cmd(1, 0, TARGET, TREADLE_OP_WRITE, 8, 8), 0, key));
	ENDS(EREMOTEIO, aim(add_cmd(1, 0, TARGET, TREADLE_OP_WRITE, 8, 8), MEMORY - 4, key));
	ENDS(EREMOTEIO, aim(add_cmd(1, 0, TARGET, TREADLE_OP_WRITE, 8, 8), -1, key));
	ENDS(EREMOTEIO, aim(add_cmd(1, 0, TARGET, TREADLE_OP_READ, 8, 0), -4, key));
	ENDS(EREMOTEIO, aim(add_cmd(1, 0, TARGET, TREADLE_OP_READ, 1ULL << 32, 0), 0, key));
	ENDS(EKEYREJECTED, aim(add_cmd(1, 0, TARGET, TREADLE_OP_READ, 8, 0), 0, key + 1));
	ENDS(EOPNOTSUPP, cmd = aim(add_cmd(1, 0, TARGET, TREADLE_OP_ATOMIC, 8, 8), 0, key);
	     cmd->atomic_op = cmd->atomic_type = 255);
	need(wrong == 0);
	leave(&p);
}

/* Items about what does not exist. The link goes on. */
static void meaningless_items(void)
{
	static const __u32 references[] = {0, 1, 1024, 1025, 65535, 65537, 1U << 31 | 3, ~0U};
	struct peer p;

	enter(&p);
	for (unsigned int i = 0; i < sizeof(references) / sizeof(*references); i++) {
		__u32 r = references[i];
		struct treadle_wire_grant *grant;
		struct treadle_wire_data *data;

		about("reference %u", r);
		begin(TREADLE_WIRE_ITEMS);
		((struct treadle_wire_item *)add(200, 8, r))->flags = TREADLE_WIRE_MAY_SKIP;
		add(TREADLE_WIRE_DONE, 16 + 40, r);
		grant = add(TREADLE_WIRE_GRANT, 24, r);
		grant->end = -1;
		data = add(TREADLE_WIRE_DATA, 16 + 100, r);
		data->offset = i ? -1 : 0;
		data = add(TREADLE_WIRE_ANSWER_DATA, 16 + 100, r);
		data->offset = i ? -1 : 0;
		add(TREADLE_WIRE_CANCEL, sizeof(struct treadle_wire_cancel), r);
		add(TREADLE_WIRE_ABORT, sizeof(struct treadle_wire_abort), r);
		add(TREADLE_WIRE_GONE, 8, r & 0xffff);
		add(TREADLE_WIRE_LOST, 8, r & 0xffff);
		add_pair(TREADLE_WIRE_CONN_REQ, r | 1, r, LISTENER, 0);
		add_pair(TREADLE_WIRE_CONN_REP, r, r, 0, 256);
		add_pair(TREADLE_WIRE_CONN_REJ, r, ECONNREFUSED, 0, 256);
		add_pair(TREADLE_WIRE_CONN_OVER, r, r, 0, 0);
		need(send_frame(&p, frame) && goes_on(&p));
	}
	about("%s", "");
	/* questions have an answer */
	begin(TREADLE_WIRE_ITEMS);
	add_pair(TREADLE_WIRE_WATCH, NO_ONE, 0, 0, 0);
	need(send_frame(&p, frame) && await_item(&p, TREADLE_WIRE_LOST, NO_ONE));
	begin(TREADLE_WIRE_ITEMS);
	add_intro(0, TREADLE_EP_MSG, 0);
	add_pair(TREADLE_WIRE_CONN_REQ, 9, 0, TARGET, 0);
	need(send_frame(&p, frame) && await_item(&p, TREADLE_WIRE_CONN_REJ, 9));
	/* bytes that were not asked for, of a message that is asked for twice */
	begin(TREADLE_WIRE_ITEMS);
	add_intro(1, TREADLE_EP_RDM, 0);
	for (int i = 0; i < 2; i++)
		add_cmd(1, 1, TARGET, TREADLE_OP_SEND, 20000, 0);
	need(send_frame(&p, frame) && await_item(&p, TREADLE_WIRE_GRANT, 1));
	for (int i = 0; i < 4; i++) {
		struct treadle_wire_data *data;

		begin(TREADLE_WIRE_ITEMS);
		data = add(TREADLE_WIRE_DATA, 16 + (i ? 10000 : 16000), 1);
		data->offset = i % 2 ? 10000 : 1;
		need(send_frame(&p, frame) && goes_on(&p));
	}
	leave(&p);
}

/* --- commands of this module for the hostile node ---------------------------- */

/* Enters, lets machine 0 start its commands, and gets their references. */
static void be_addressed(struct peer *p, int buffers, __u32 references[COMMANDS])
{
	enter_as(p, 3, random_word(), random_word(), buffers);
	ask(START);
	if (!references)
		return;
	memset(references, 0, COMMANDS * sizeof(*references));
	for (int missing = COMMANDS; missing;) {
		const struct treadle_wire_cmd *cmd = await_item(p, TREADLE_WIRE_CMD, 0);
		int which;

		need(cmd);
		if (cmd->opcode == TREADLE_OP_SEND)
			which = cmd->length == 8 ? INJECTED : LONG;
		else if (cmd->opcode == TREADLE_OP_WRITE)
			which = WRITTEN;
		else
			which = cmd->length == 64 ? READ_SHORT : READ_LONG;
		missing -= !references[which];
		references[which] = cmd->item.reference;
	}
}

static int wrong_results(const int expected[COMMANDS])
{
	struct reply reply = ask(RESULTS);
	int wrong = 0;

	for (int i = 0; i < COMMANDS; i++) {
		wrong += reply.errors[i] != (__u32)expected[i];
		if (reply.errors[i] != (__u32)expected[i])
			note("command %d: %s", i, strerror(reply.errors[i]));
	}
	return wrong;
}

#define ALL(error) ((const int[COMMANDS]){error, error, error, error, error})

static void add_done(__u32 reference, int status, int bytes)
{
	struct treadle_wire_done *done = add(TREADLE_WIRE_DONE, sizeof(*done) + bytes, reference);

	done->status = status;
}

static void false_answers(void)
{
	static const int lies[COMMANDS] = {0, 0, 0, EIO, 0};
	__u32 references[COMMANDS];
	struct peer p;

	for (int i = 0; i < 2; i++) { /* too much comes back; no errno */
		be_addressed(&p, BUFFERS, references);
		begin(TREADLE_WIRE_ITEMS);
		for (int j = 0; j < COMMANDS; j++)
			add_done(references[j], i ? 70000 : 0, i ? 0 : 8);
		need(send_frame(&p, frame));
		need(wrong_results(ALL(EIO)) == 0);
		leave(&p);
	}
	be_addressed(&p, BUFFERS, references);
	for (int j = 0; j < COMMANDS; j++) {
		static const __u64 ranges[][2] = {{50000, 100001}, {8, 0}, {0, -1}, {-1, -1},
						  {-8, 8},	   {0, 8}, {3, 7}};

		begin(TREADLE_WIRE_ITEMS);
		for (unsigned int i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
			struct treadle_wire_grant *grant =
				add(TREADLE_WIRE_GRANT, 24, references[j]);
			struct treadle_wire_data *data =
				add(TREADLE_WIRE_ANSWER_DATA, 16 + 1 + i * 100, references[j]);

			grant->offset = ranges[i][0];
			grant->end = ranges[i][1];
			data->offset = ranges[i][0];
		}
		need(send_frame(&p, frame) && goes_on(&p));
	}
	begin(TREADLE_WIRE_ITEMS);
	for (int j = 0; j < COMMANDS; j++)
		add_done(references[j], 0, j == READ_SHORT ? 64 : 0);
	need(send_frame(&p, frame));
	need(wrong_results(lies) == 0); /* the long READ has not got its bytes */
	leave(&p);
	/* a rule is broken meanwhile */
	be_addressed(&p, BUFFERS, references);
	begin(TREADLE_WIRE_ITEMS);
	add(TREADLE_WIRE_GONE, 8, 65536);
	need(send_frame(&p, frame));
	need(wrong_results(ALL(ECONNRESET)) == 0);
	leave(&p);
}

/*
 * The link lives, but nothing of what is sent is read, nor acknowledged: for no longer than
 * peer_timeout.
 */
static void no_acknowledgments(void)
{
	const __u64 began = now_ns();
	struct peer p;

	be_addressed(&p, 8, NULL);
	while (!p.over && now_ns() - began < PATIENCE_NS) {
		struct treadle_wire_frame ping = {.type = TREADLE_WIRE_PING,
						  .length = sizeof(ping),
						  .limit = 64,
						  .commands = p.commands};

		send_bytes(&p, &ping, sizeof(ping));
		hear(&p, 100);
	}
	note("over after %llu ms", (now_ns() - began) / 1000000);
	need(p.over);
	need(wrong_results(ALL(ECONNRESET)) == 0);
	leave(&p);
}

/* --- connections of this module to the hostile node ---------------------------- */

/* Gets offers until it was said that the other node has another version, or another secret. */
static void answer_wrongly(struct rdma_cm_id **listener, int error)
{
	struct hail hail;
	struct peer p;
	bool told = false;

	while (!told && be_dialed(listener, &p)) {
		hail = hail_of(random_word(), random_word());
		hail.attempt = p.other.attempt;
		hail.version = error == EACCES ? 1 : 7;
		told = pick_up(&p, &hail) &&
		       (error != EACCES || (hear_hello(&p, HELLO) && say_hello(&p) &&
					    hear_hello(&p, PROOF) && say_proof(&p, "guessed", 7)));
		is_over(&p, ROUND_MS);
		leave(&p);
	}
}

static void dialed_without_the_secret(void)
{
	static const int errors[] = {EPROTONOSUPPORT, EACCES};
	struct rdma_cm_id *listener = NULL;

	for (int i = 0; i < 2; i++) {
		int wrong = COMMANDS;

		/* on a busy host, this node may answer too late */
		for (int tries = 0; wrong && tries < 3; tries++) {
			ask(START);
			/* each read waits until the command before it was sent, or has ended */
			for (int round = 0; round < 3; round++)
				answer_wrongly(&listener, errors[i]);
			wrong = wrong_results(ALL(errors[i]));
		}
		need(wrong == 0);
	}
	rdma_destroy_ep(listener);
}

static bool pass_on(struct peer *from, struct peer *to, __u32 step, __u32 *got)
{
	const struct hello *h = (const void *)hear(from, 5000);

	if (!h || h->head.type != TREADLE_WIRE_HELLO)
		return false;
	*got = h->step;
	return send_bytes(to, h, h->head.length) && *got == step;
}

/* What two nodes say to prove themselves is passed on by a third one: neither believes it. */
static void proofs_that_are_passed_on(void)
{
	struct rdma_cm_id *listener = NULL;
	struct peer in, out;
	__u32 got = NOTHING;

	for (int tries = 0; got == NOTHING && tries < 3; tries++) {
		ask(START);
		while (got == NOTHING && be_dialed(&listener, &in)) {
			__u32 step;

			if (dial_to(&out, 3, 2, &in.other, sizeof(in.other), BUFFERS)) {
				leave(&in);
				continue;
			}
			if (pick_up(&in, &out.other) && pass_on(&in, &out, HELLO, &step) &&
			    pass_on(&out, &in, HELLO, &step) && pass_on(&in, &out, PROOF, &step))
				pass_on(&out, &in, PROOF, &got);
			leave(&in);
			leave(&out);
		}
		ask(RESULTS);
	}
	rdma_destroy_ep(listener);
	note("%s", got == REFUSED ? "refused" : "believed");
	need(got == REFUSED);
}

/* A node with the id of another one is another one: its address counts. */
static void the_id_of_another_node(void)
{
	struct hail hail = hail_of(1, 1);
	struct peer p;

	hail.version = 0;
	need(dial_to(&p, 3, 2, &hail, sizeof(hail), BUFFERS) == ECONNREFUSED && p.other.node);
	enter_as(&p, 3, p.other.node, random_word(), BUFFERS);
	ask(ECHO);
	need(goes_on(&p));
	leave(&p);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} steps[] = {
#define RUN(step) {#step, step}
		RUN(garbage_instead_of_a_hail),
		RUN(wrong_hails),
		RUN(out_of_turn),
		RUN(wrong_secrets),
		RUN(handshakes_that_never_end),
		RUN(broken_rules),
		RUN(false_commands),
		RUN(meaningless_items),
		RUN(false_answers),
		RUN(no_acknowledgments),
		RUN(dialed_without_the_secret),
		RUN(proofs_that_are_passed_on),
		RUN(the_id_of_another_node),
	};
	int failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc > 1 && strcmp(argv[1], "quit") == 0) {
		ask(QUIT);
		return 0;
	}
	ask(ECHO);
	for (unsigned int i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		const __u64 began = now_ns();
		pid_t pid = fork();

		need(pid >= 0);
		if (pid == 0) {
			steps[i].run();
			_exit(0);
		}
		bool ok = reap(pid) == 0;

		ask(ECHO);
		printf("%s %s: %llu ms\n", ok ? "ok  " : "FAIL", steps[i].name,
		       (now_ns() - began) / 1000000);
		failed += !ok;
	}
	if (argc > 2)
		random_frames(atoll(argv[1]), atoi(argv[2]));
	if (!failed)
		ask(QUIT);
	return !!failed;
}
