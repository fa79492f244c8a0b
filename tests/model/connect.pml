/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two nodes connect to each other whenever they have no connection, so also at once. An attempt can fail at
 * its node while its request is still on the way: the request arrives late, or never. A connection
 * breaks on one side first, and the other side finds out. One node may boot again. tests/spin searches
 * all orders. What goes over the connections is in session.pml.
 *
 * An attempt carries a number, one more than its node has seen. A node accepts a larger number than its own only,
 * and a rejected node learns the other's. If both nodes attempt, the attempt of node 0 stays.
 *
 * Proven, for FAILS failures (or one less, and a boot):
 *	- a connection that both nodes hold is not given up for a late request;
 *	- a node leaves its connection before it accepts another, and holds one at a time;
 *	- attempts end: after a failure there are TRIES at most until both nodes have the same connection;
 *	- at rest both nodes hold the same connection, and have told each other the boots that they are in.
 *
 * Assumed: what a node sent before it booted does not arrive after what it sent later; a rejected node waits
 * until the attempt that it lost to has ended; SLOTS requests and connections at most are there at once.
 * Left out: the proof of the secret, timeouts; and that a node asks over its connection whether it is used before it
 * accepts another one: if so, it was not the peer that attempts. A timeout is a failure here, which comes at any time. That the
 * peer has booted is believed after the proof only (link.c, hello.c), so it may take one attempt more.
 *
 * Each of these takes a piece away, and the search has to find out:
 *	NO_TIE		a node that attempts rejects the other's attempt, also node 1
 *	NO_NUMBER	a request is accepted whatever its number is
 *	NO_LEARN	a rejected node doesn't learn the number that the other one has seen
 *	NEW_NUMBER	numbers begin at 0 again when the peer has booted
 */
#define FAILS 2
#define SLOTS 3
#define TRIES 6

bit life[2];	  /* boot ids */
bit known[2];	  /* that of the peer, as far as the node knows */
byte number[2];	  /* of the last connection that the node has accepted, or seen accepted */
byte holds[2];	  /* its attempt, or its connection: the slot */
bool attempts[2]; /* it is an attempt */
bool lost[2];	  /* its attempt was rejected for one of the peer's */
bool used[SLOTS + 1];
bit by[SLOTS + 1];   /* the node that attempts */
bit born[SLOTS + 1]; /* its boot */
byte its[SLOTS + 1]; /* the attempt's number */
byte tries, fails, boots;

/* The node leaves its connection, and gets nothing more of it (session.pml). */
inline leave(n)
{
	holds[n] = 0;
	attempts[n] = false
}

/* A request or a reply comes from another boot of the peer: the session starts afresh. */
inline compare_boots(n)
{
	if
	:: known[n] != life[1 - n] ->
		known[n] = life[1 - n]
#ifdef NEW_NUMBER
		; number[n] = 0
#endif
	:: else
	fi
}

/* An attempt of node a, with a number, and the connection that it becomes */
proctype connection(byte c)
{
	bit a, b, life_b;

end:	atomic { used[c] -> a = by[c]; b = 1 - a };
	/* The request is on the way, also after the attempt has ended. */
	do
	:: atomic { fails && holds[a] == c -> fails--; tries = 0; leave(a) }
	:: atomic { holds[a] != c -> goto out }
	:: atomic {
		life[a] == born[c] ->
		if
		:: known[b] != life[a] ->
			if
			:: !attempts[b] -> leave(b)
			:: else
			fi;
			compare_boots(b)
		:: else
		fi;
		if
#ifndef NO_NUMBER
		:: its[c] <= number[b] ->
			if
			:: holds[a] == c ->
				leave(a);
#ifndef NO_LEARN
				number[a] = (number[a] > number[b] -> number[a] : number[b])
#endif
			:: else
			fi;
			goto out
		:: its[c] > number[b] && attempts[b] &&
#else
		:: attempts[b] &&
#endif
#ifdef NO_TIE
		   true ->
#else
		   b == 0 ->
#endif
			if
			:: holds[a] == c -> leave(a); lost[a] = true
			:: else
			fi;
			goto out
		:: else ->
			assert(attempts[b] || !holds[b] || holds[a] != holds[b]);
			leave(b);
			holds[b] = c;
			number[b] = its[c];
			life_b = life[b];
			break
		fi
	   }
	od;

	/* The reply */
	do
	:: atomic {
		holds[a] == c && attempts[a] && holds[b] == c && life[b] == life_b ->
		compare_boots(a);
		attempts[a] = false;
		number[a] = (number[a] > its[c] -> number[a] : its[c]);
		break
	   }
	:: atomic { fails && holds[a] == c -> fails--; tries = 0; leave(a) }
	:: atomic { fails && holds[b] == c -> fails--; tries = 0; leave(b) }
	:: atomic { holds[a] != c && holds[b] == c -> leave(b); goto out }
	:: atomic { holds[a] == c && holds[b] != c -> leave(a); goto out }
	:: atomic { holds[a] != c && holds[b] != c -> goto out }
	od;

	/* It is established, until it breaks. */
end_up:	if
	:: atomic { fails && holds[a] == c -> fails--; tries = 0; leave(a) }
	:: atomic { fails && holds[b] == c -> fails--; tries = 0; leave(b) }
	:: atomic { holds[a] != c || holds[b] != c }
	fi;
	if
	:: atomic { holds[a] == c -> leave(a) }
	:: atomic { holds[b] == c -> leave(b) }
	:: atomic { holds[a] != c && holds[b] != c }
	fi;
out:	atomic { used[c] = false; its[c] = 0; by[c] = 0; born[c] = 0; a = 0; b = 0; life_b = 0; goto end }
}

proctype connects(bit n)
{
	byte c;

end:	do
	:: atomic {
		!holds[n] && (!lost[n] || !attempts[1 - n]) && !(used[1] && used[2] && used[3]) ->
		c = (!used[1] -> 1 : (!used[2] -> 2 : 3));
		used[c] = true;
		lost[n] = false;
		assert(tries < TRIES);
		tries++;
		holds[n] = c;
		attempts[n] = true;
		by[c] = n;
		born[c] = life[n];
		its[c] = number[n] + 1;
		c = 0
	   }
	od
}

proctype boots_again(bit n)
{
	atomic {
		life[n] = 1 - life[n];
		tries = 0;
		known[n] = life[1 - n];
		number[n] = 0;
		lost[n] = false;
		leave(n)
	}
}

init {
	atomic {
		run connection(1);
		run connection(2);
		run connection(3);
		run connects(0);
		run connects(1);
		if
		:: fails = FAILS
		:: fails = FAILS - 1; run boots_again(0)
		:: fails = FAILS - 1; run boots_again(1)
		fi
	}
	timeout;
	assert(holds[0] && holds[0] == holds[1] && !attempts[0] && !attempts[1]);
	assert(known[0] == life[1] && known[1] == life[0])
}
