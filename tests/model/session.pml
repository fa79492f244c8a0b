/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A session that outlives its connections: one node sends numbered frames, the other processes them. A
 * connection breaks at any time, on one side first. The next one begins when both nodes have left it
 * (connect.pml), and the receiver then tells the last number that it has processed. One node may boot again.
 * tests/spin searches all orders.
 *
 * A frame is kept in its place of a ring until the peer acknowledges it, as it may have to be replayed. A node
 * that leaves a connection gets nothing more of it, but processes what its queue pair holds already.
 *
 * Proven, for FRAMES frames in a ring of WINDOW, and FAILS failures (and a boot, or none):
 *	- each frame is processed once and in order, in each session; a session is one boot of each node;
 *	- a frame that is on the way, or is replayed, is still in the ring;
 *	- at rest all frames are processed and acknowledged.
 *
 * Assumed: a connection keeps the order of frames, and loses none before it breaks. Left out: credits
 * (credit.pml), commands (remote.pml), and the other direction, for which the same holds.
 *
 * Each of these takes a piece away, and the search has to find out:
 *	NO_DRAIN	the receiver tells its number while the old queue pair still holds frames
 *	EARLY_TELL	it tells the number that it had when it left the connection
 *	NO_REPLAY	the sender goes on behind what it posted, whatever the receiver tells
 *	EARLY_FREE	the sender frees a frame when it has posted it
 *	NO_BOOT		boot ids are not compared
 */
#define FRAMES 5
#define WINDOW 3
#define FAILS  3

/* Of the sender: frames given, posted on this connection, and acknowledged */
byte given, posted, acked;
byte ring[WINDOW];
byte processed; /* by the receiver */

/* Two connections: the one in use, and the one before */
bit now;
bool sends, receives;	/* the node has not left the connection in use */
byte last;		/* the receiver tells this number, plus 1; it is on the way */
byte received[2], done[2];
byte acks;		/* the acknowledgment that is on the way */
byte fails;
bool changed[2];	/* the receiver, the sender has booted, and its peer doesn't know */
#ifdef EARLY_TELL
byte early;
#endif

/* The session starts afresh: commands that were sent have failed. */
inline sender_starts() { given = 0; posted = 0; acked = 0 }
inline receiver_starts()
{
	processed = 0;
#ifdef EARLY_TELL
	early = 0
#endif
}

proctype sender()
{
end:	do
	:: atomic {
		given < FRAMES && given - acked < WINDOW ->
		given++;
		ring[given % WINDOW] = given
	   }
	/* It hears what was processed, and goes on behind it. */
	:: atomic {
		sends && last ->
		assert(last - 1 >= acked && last - 1 <= given);
#ifdef NO_REPLAY
		posted = (posted > last - 1 -> posted : last - 1);
#else
		posted = last - 1;
#endif
		acked = last - 1;
		received[now] = posted;
		done[now] = posted;
		last = 0;
		acks = 0
	   }
	:: atomic {
		sends && !last && posted < given ->
		posted++;
#ifdef EARLY_FREE
		acked = posted;
#endif
		assert(ring[posted % WINDOW] == posted)
	   }
#ifndef EARLY_FREE
	:: atomic { sends && !last && acks > acked -> acked = acks }
#endif
	od
}

proctype receiver()
{
	bit c;

end:	do
	:: atomic {
		receives && !last && received[now] < posted ->
		received[now]++;
		assert(ring[received[now] % WINDOW] == received[now])
	   }
	/* One worker for each connection */
	:: atomic {
		if
		:: done[0] < received[0] -> c = 0
		:: done[1] < received[1] -> c = 1
		fi;
		done[c]++;
		assert(done[c] == processed + 1);
		processed = done[c];
		if
		:: c == now && receives -> acks = processed
		:: else
		fi;
		c = 0
	   }
	od
}

proctype connects()
{
end:	do
	/* It breaks on one side, and the other side finds out. */
	:: atomic { fails && sends && receives -> fails--; sends = false }
	:: atomic { fails && sends && receives -> fails--; receives = false;
#ifdef EARLY_TELL
		early = processed
#endif
	   }
	:: atomic { sends && !receives -> sends = false }
	:: atomic { !sends && receives -> receives = false;
#ifdef EARLY_TELL
		early = processed
#endif
	   }
	:: atomic {
		!sends && !receives &&
#ifndef NO_DRAIN
		done[now] == received[now] &&
#endif
		done[1 - now] == received[1 - now] ->
#ifndef NO_BOOT
		if
		:: changed[0] -> sender_starts()
		:: else
		fi;
		if
		:: changed[1] -> receiver_starts()
		:: else
		fi;
#endif
		changed[0] = false;
		changed[1] = false;
		now = 1 - now;
		received[now] = 0;
		done[now] = 0;
		acks = 0;
		sends = true;
		receives = true;
#ifdef EARLY_TELL
		last = early + 1
#else
		last = processed + 1
#endif
	   }
	od
}

proctype receiver_boots()
{
	atomic {
		receives = false;
		changed[0] = true;
		receiver_starts();
		received[0] = done[0];
		received[1] = done[1]
	}
}

proctype sender_boots()
{
	atomic { sends = false; changed[1] = true; sender_starts() }
}

init {
	atomic {
		fails = FAILS;
		run sender();
		run receiver();
		run connects();
		if
		:: run receiver_boots()
		:: run sender_boots()
		:: true
		fi
	}
	timeout;
	assert(sends && receives && !last);
	assert(given == FRAMES && processed == FRAMES && acked == FRAMES)
}
