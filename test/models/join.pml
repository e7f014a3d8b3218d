/*
 * One key, two processes: readers that join a load of their own process, wait for a load of another
 * one, or take its lease over. Messages may be lost, late and repeated. Rows are those of PROTOCOL.md.
 *
 * Claim (P3): a reader that starts after an invalidation was confirmed never gets an older value.
 *
 * Each switch breaks one rule, and the claim must then fail:
 *   JOIN_WITHOUT_GEN     a reader joins any load of its process
 *   MESSAGE_WITHOUT_GEN  a waiter uses the entry in any message about its key
 *   STORE_WITHOUT_GEN    a store does not compare the lease chain
 */
#define READERS 3
#define ROUNDS 2 /* of one reader */
#define GENS 5
#define NONE 0

mtype = { ABSENT, PENDING, VALUE };

/* The source, and the latest version whose invalidation was confirmed. */
byte source = 1;
byte confirmed = 1;

mtype state = ABSENT;
byte gen = NONE;
byte value = NONE;
byte lastGen = NONE;

/* The messages sent so far, with the value that the load of this chain has produced. */
byte messageGen[GENS];
byte messageValue[GENS];
byte messages = 0;

/* The loads in flight, by process and chain: 1 + the reader that runs the load. */
byte inFlight[10];
#define IN_FLIGHT(chain) inFlight[process * GENS + chain]
/* What the load of each reader has returned. */
byte loaded[READERS];

inline publish(endedGen, result) {
  messageGen[messages] = endedGen;
  messageValue[messages] = result;
  messages++
}

proctype Reader(byte process; byte me) {
  byte since;
  byte seen = NONE; /* the chain that the store has shown */
  byte load = NONE; /* the load to join */
  byte got = NONE;
  byte rounds = 0;
  byte message = 0;
  since = confirmed;
again:
  atomic { /* a read */
    if
    :: rounds == ROUNDS -> goto done
    :: else -> rounds++; seen = NONE; load = NONE; message = 0
    fi;
    if
    :: state == VALUE -> got = value; goto answer
    :: state == PENDING -> seen = gen
    :: state == ABSENT
    fi
  }
  atomic { /* later, the reply is handled */
    if
#ifdef JOIN_WITHOUT_GEN
    :: lastGen >= 1 && IN_FLIGHT(1) != NONE -> load = IN_FLIGHT(1); goto endJoin
    :: lastGen >= 2 && IN_FLIGHT(2) != NONE -> load = IN_FLIGHT(2); goto endJoin
#endif
    :: seen != NONE && IN_FLIGHT(seen) != NONE -> load = IN_FLIGHT(seen); goto endJoin
    :: else
    fi
  }
  atomic { /* a lease request */
    if
    :: state == VALUE -> got = value; goto answer /* row 4 */
    :: state == ABSENT -> lastGen++; state = PENDING; gen = lastGen; seen = gen; goto granted /* row 1 */
    :: state == PENDING -> seen = gen /* row 2 */
    :: state == PENDING -> seen = gen; goto granted /* row 3 */
    fi
  }
  atomic { /* later, the reply "busy" is handled */
    if
    :: IN_FLIGHT(seen) != NONE -> load = IN_FLIGHT(seen); goto endJoin
    :: else
    fi
  }
  atomic { /* the wait ends */
    if
    :: true -> goto again /* a poll */
    :: messages > 0 ->
       if
       :: message = 0
       :: messages > 1 -> message = 1
       :: messages > 2 -> message = 2
       fi;
       if
#ifdef MESSAGE_WITHOUT_GEN
       :: messageValue[message] != NONE -> got = messageValue[message]; goto answer
#else
       :: messageValue[message] != NONE && messageGen[message] == seen -> got = messageValue[message]; goto answer
#endif
       :: else -> goto again
       fi
    fi
  }
granted:
  atomic { IN_FLIGHT(seen) = me + 1; load = me + 1 }
  if
  :: atomic { loaded[me] = source; got = source } /* the load ends, and its callers get the value */
  :: goto done /* the process dies, with its other readers */
  fi;
  assert(got >= since);
  atomic { /* rows 10 and 11 */
    if
#ifdef STORE_WITHOUT_GEN
    :: state == PENDING ->
#else
    :: state == PENDING && gen == seen ->
#endif
       publish(gen, got);
       state = VALUE;
       value = got;
       gen = NONE
    :: else
    fi
  }
  IN_FLIGHT(seen) = NONE;
  goto done;
endJoin: /* its process may die, and this reader with it */
  atomic { loaded[load - 1] != NONE -> got = loaded[load - 1] }
answer:
  assert(got >= since);
done:
  skip
}

proctype Invalidator() {
  source++;
  atomic { /* row 16 */
    if
    :: state == PENDING -> publish(gen, NONE)
    :: else
    fi;
    state = ABSENT;
    gen = NONE;
    value = NONE
  }
  confirmed++
}

init {
  atomic {
    run Reader(0, 0);
    run Reader(0, 1);
    run Reader(1, 2);
    run Invalidator()
  }
}
