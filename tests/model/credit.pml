/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The credits of one connection: two nodes send frames to each other at once. A node has ROOM receive
 * buffers for numbered frames, and EXTRA ones for those without a number: bare acknowledgments, a PING, or its
 * answer. Every frame tells how many numbered frames its sender has processed; with ROOM more, that is the limit
 * of the other one. A frame takes a buffer when it is sent, the worst case, and gives it back when
 * it has been processed, however late. tests/spin searches all orders.
 *
 * DATA is sent only while more than SPARE numbered frames may be sent: what is left is for control frames. Every
 * second DATA that arrives asks for a control frame (as GRANT or DONE). A bare acknowledgment is sent for STEP frames
 * that were not told, no sooner, so that ROOM / STEP of them at most are unheard. One PING at most is unanswered.
 * Here node 0 pings, and node 1 answers; so each needs one buffer for that, and two if both ping.
 *
 * Proven, for DATA0 and DATA1 frames of the nodes, and PINGS:
 *	- a frame always finds a receive buffer (rnr_retry_count is 0);
 *	- a control frame can be sent, unless SPARE control frames are unheard: it waits for no DATA;
 *	- at rest all frames have been sent and processed: the nodes never wait for each other.
 *
 * Left out: loss of the connection (session.pml), the credits of commands (remote.pml), the send queue.
 *
 * Each of these takes a piece away, and the search has to find out:
 *	NO_EXTRA	there are no buffers for frames without a number
 *	ACK_SOON	a bare acknowledgment is sent for each frame
 *	NO_ACK		there are no bare acknowledgments, and no PING
 *	PING_AGAIN	a PING is sent although one is unanswered
 *	EARLY_LIMIT	what answers a frame tells it as processed, before its buffer is given back
 *	ALL_DATA	DATA is sent as long as any numbered frame may be sent
 */
#define DATA0 5
#define DATA1 2
#ifdef PING_AGAIN
#define PINGS 4
#else
#define PINGS 2
#endif
#define ROOM  4
#define STEP  2
#define SPARE 1
#ifdef NO_EXTRA
#define EXTRA 0
#else
#define EXTRA (ROOM / STEP + 1)
#endif

mtype = { data, control, ack, ping, answer };

/* What has arrived at a node: the kind, and what the sender had processed. */
chan arrived[2] = [ROOM + ROOM / STEP + 4] of { mtype, byte };
byte buffers[2], extra[2]; /* in use */

byte to_send[2], to_control[2], pings[2];
byte posted[2], heard[2];    /* numbered frames; those of them that the peer told it had processed */
byte processed[2], told[2];
bool unanswered[2], asked[2]; /* its PING; a PING of the peer's */
bool is_control[8];	      /* node * ROOM + number % ROOM */
byte unheard[2];	      /* control frames */

#define left(n) (ROOM + heard[n] - posted[n])

inline send(n, kind)
{
	if
	:: kind == data || kind == control -> assert(buffers[1 - n] < ROOM); buffers[1 - n]++
	:: else -> assert(extra[1 - n] < EXTRA); extra[1 - n]++
	fi;
	arrived[1 - n]!kind,processed[n];
	told[n] = processed[n]
}

inline send_numbered(n, kind)
{
	posted[n]++;
	is_control[n * ROOM + posted[n] % ROOM] = (kind == control);
	unheard[n] = unheard[n] + (kind == control);
	assert(left(n) + unheard[n] >= SPARE);
	send(n, kind)
}

inline give_back(n, numbered)
{
	buffers[n] = buffers[n] - numbered;
	extra[n] = extra[n] - !numbered;
	numbered = false
}

proctype node(bit n)
{
	bool numbered;
	byte told_me;
	mtype kind;

end:	do
#ifdef ALL_DATA
	:: atomic { to_send[n] && left(n) > 0 -> to_send[n]--; send_numbered(n, data) }
#else
	:: atomic { to_send[n] && left(n) > SPARE -> to_send[n]--; send_numbered(n, data) }
#endif
	:: atomic { to_control[n] && left(n) > 0 -> to_control[n]--; send_numbered(n, control) }
#ifndef NO_ACK
#ifdef ACK_SOON
	:: atomic { processed[n] != told[n] -> send(n, ack) }
#else
	:: atomic { processed[n] - told[n] >= STEP -> send(n, ack) }
#endif
#ifdef PING_AGAIN
	:: atomic { pings[n] -> pings[n]--; send(n, ping) }
#else
	:: atomic { pings[n] && !unanswered[n] -> pings[n]--; unanswered[n] = true; send(n, ping) }
#endif
	:: atomic { asked[n] -> asked[n] = false; send(n, answer) }
#endif
	:: atomic {
		nempty(arrived[n]) ->
		arrived[n]?kind,told_me;
		do
		:: heard[n] < told_me ->
			heard[n]++;
			unheard[n] = unheard[n] - is_control[n * ROOM + heard[n] % ROOM];
			is_control[n * ROOM + heard[n] % ROOM] = false
		:: else -> break
		od;
		told_me = 0;
		if
		:: kind == data || kind == control ->
			processed[n]++;
			to_control[n] = to_control[n] + (kind == data && processed[n] % 2 == 0)
		:: kind == ping -> asked[n] = true
		:: kind == answer -> unanswered[n] = false
		:: kind == ack
		fi;
		numbered = (kind == data || kind == control);
		kind = 0;
#ifndef EARLY_LIMIT
		give_back(n, numbered)
	   }
#else
		if
		:: to_control[n] && left(n) > 0 -> to_control[n]--; send_numbered(n, control)
		:: true
		fi
	   }
		atomic { give_back(n, numbered) }
#endif
	od
}

init {
	atomic {
		to_send[0] = DATA0;
		to_send[1] = DATA1;
		pings[0] = PINGS;
		run node(0);
		run node(1)
	}
	timeout;
	assert(!to_send[0] && !to_send[1] && !to_control[0] && !to_control[1]);
	assert(processed[0] == posted[1] && processed[1] == posted[0]);
	assert(!buffers[0] && !buffers[1] && !extra[0] && !extra[1])
}
