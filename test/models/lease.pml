/*
 * One key: leases and takeovers, removing the entry, ending its leases, loss of the entry,
 * and commands that are late, lost, or carried out twice. Rows are those of PROTOCOL.md.
 *
 * Claim (P2): a value is stored only if the entry has not been removed, nor its leases ended, since its load began. Invalidations are
 * in clock.pml; they do not depend on this.
 *
 * A lease may expire at any time, so a takeover is possible whenever there is a lease; a renewal
 * (row 12) needs no step of its own.
 *
 * Each switch breaks one rule, and the claim must then fail:
 *   NO_GEN_CHECK       a store does not compare the lease chain
 *   STORE_INTO_ABSENT  a store is also accepted where the entry is gone
 *   CLIENT_CHOSEN_GEN  the client chooses the id of the lease chain, not the store
 *   SOFT_KEEPS_GEN     ending the leases leaves that on a value
 *   HARD_KEEPS_PENDING removing leaves a pending entry as it is
 */
#define LOADS 2
#define CHANGES 3 /* by other processes, or by the store itself */
#define REPEATS 2
#define NONE 0

mtype = { ABSENT, PENDING, VALUE, FAILED };

mtype state = ABSENT;
byte gen = NONE;
byte token = NONE;

/* What acquire, store and release of each load contain. */
byte sentToken[LOADS];
byte sentGen[LOADS];
bool isOutdated[LOADS]; /* whether an invalidation has run since the load began */

inline setEntry(newState, newGen, newToken) { state = newState; gen = newGen; token = newToken }

#define IS_SENT(id, at) (sentToken[at] == id || sentGen[at] == id)

/* An id that nothing refers to any more may be used again: nothing can tell the difference. */
inline newId(id) {
  id = 1;
  do
  :: gen == id || token == id || IS_SENT(id, 0) || IS_SENT(id, 1) -> id++
  :: else -> break
  od
}

inline newChain(newState, at) {
#ifdef CLIENT_CHOSEN_GEN
  reply = sentToken[at];
#else
  newId(reply);
#endif
  setEntry(newState, reply, sentToken[at])
}

/* Rows 1 to 9. `reply` is the gen if the lease is granted, and NONE otherwise. */
inline acquire(at) {
  reply = NONE;
  if
  :: state == ABSENT -> newChain(PENDING, at) /* row 1 */
  :: state != ABSENT /* rows 2, 4, 5 and 8 */
  :: state == PENDING || (state == VALUE && gen != NONE) -> /* rows 3 and 7 */
     reply = gen;
     token = sentToken[at]
  :: state == VALUE && gen == NONE -> newChain(VALUE, at) /* row 6 */
  :: state != ABSENT -> newChain(PENDING, at) /* row 1, outdated; row 9 */
  fi
}

#define IS_LEASED (state == PENDING || state == VALUE)

/* Rows 10 and 11. */
inline storeValue(at) {
  if
#if defined(NO_GEN_CHECK)
  :: IS_LEASED ->
#elif defined(STORE_INTO_ABSENT)
  :: state == ABSENT || (IS_LEASED && gen == sentGen[at]) ->
#else
  :: IS_LEASED && gen == sentGen[at] ->
#endif
     assert(!isOutdated[at]);
     setEntry(VALUE, NONE, NONE)
  :: IS_LEASED && gen == sentGen[at] -> setEntry(ABSENT, NONE, NONE) /* the ttl is over */
  :: else
  fi
}

/* Rows 13 to 15. */
inline release(at) {
  if
  :: token == sentToken[at] ->
     if
     :: state == PENDING -> setEntry(ABSENT, NONE, NONE)
     :: state == VALUE -> setEntry(VALUE, NONE, NONE)
     :: setEntry(FAILED, NONE, NONE)
     fi
  :: else
  fi
}

inline outdateLoads() { isOutdated[0] = true; isOutdated[1] = true }

/* One load. Any time may pass between two steps, and its process may die. */
proctype Load(byte me) {
  byte reply;
  atomic {
    newId(reply);
    sentToken[me] = reply;
    reply = NONE
  }
  atomic { acquire(me) }
  if
  :: atomic { true -> acquire(me) } /* the reply was lost, and the client has sent it again */
  :: true
  fi;
  if
  :: atomic { reply != NONE -> sentGen[me] = reply; isOutdated[me] = false; reply = NONE }
     if
     :: true -> atomic { storeValue(me) }
     :: true -> atomic { release(me) }
     :: true
     fi
  :: reply == NONE
  fi
}

/* Carries out a command that was sent once more, at any later time. Nobody reads the reply. */
proctype Network() {
  byte count;
  byte load;
  byte reply;
  do
  :: count < REPEATS ->
     atomic {
       count++;
       if
       :: sentToken[0] != NONE -> load = 0
       :: sentToken[1] != NONE -> load = 1
       fi;
       if
       :: true -> acquire(load)
       :: sentGen[load] != NONE -> storeValue(load)
       :: true -> release(load)
       fi;
       load = 0;
       reply = NONE
     }
  :: break
  od
}

/* Other processes, and what happens to the store. */
proctype Others() {
  byte count;
  do
  :: atomic { /* row 16 */
       count < CHANGES -> count++;
       outdateLoads();
       if
#ifdef HARD_KEEPS_PENDING
       :: state == PENDING
       :: state != PENDING -> setEntry(ABSENT, NONE, NONE)
#else
       :: true -> setEntry(ABSENT, NONE, NONE)
#endif
       fi
     }
  :: atomic { /* row 17 */
       count < CHANGES -> count++;
       outdateLoads();
       if
#ifdef SOFT_KEEPS_GEN
       :: state == VALUE
#else
       :: state == VALUE -> setEntry(VALUE, NONE, NONE)
#endif
       :: state != VALUE -> setEntry(ABSENT, NONE, NONE)
       fi
     }
  :: atomic { count < CHANGES -> count++; setEntry(ABSENT, NONE, NONE) } /* row 18 */
  :: count == CHANGES -> break
  od
}

init {
  atomic {
    run Load(0);
    run Load(1);
    run Network();
    run Others()
  }
}
