/*
 * The invalidation clock on a Cluster: the first copy makes positions, the other one (on the node of the
 * entry) is raised to them before an invalidation is confirmed. A copy is a head: the position,
 * its nonce, and here what the log says up to it of the tag. One key with one tag, on the node of the second copy.
 * The first copy may fail over to a replica that lacks an invalidation of another tag, and whose clock is behind.
 *
 * Claim (P3): a reader that starts after an invalidation of the tag was confirmed never gets an older value.
 *
 * Each switch breaks one rule, and the claim must then fail:
 *   CONFIRMS_EARLY         an invalidation is confirmed when the first copy has it
 *   LOWERS_COPIES          a copy is overwritten with an earlier head
 *   IGNORES_CONFLICT       a copy with the same or a later position counts as raised, whatever its nonce
 *   READS_FIRST_COPY       a process takes a position from the copy that makes them, which no other may have yet
 *   POSITION_AFTER_LOAD    an entry gets the position that its process knows when the load ends
 */
#define NONE 0

typedef Head { byte at; byte nonce; byte tagAt };
Head head[2];
byte nonceAt[10];
byte lastNonce = 1;
byte source = 1;
byte confirmed = 1;

bool isStored = false;
byte value = NONE;
byte entryAt = NONE;

/* The process that loads, and the one that reads. */
typedef Map { byte at; byte tagAt };
Map map[2];

/* A process reads a copy; what it knows already may be later. It reads the log. */
inline see(p, copy) {
  d_step {
    if
    :: head[copy].at > map[p].at -> map[p].at = head[copy].at; map[p].tagAt = head[copy].tagAt
    :: else
    fi
  }
}

proctype Load(byte copy) {
  byte at; byte got;
  see(0, copy);
  at = map[0].at;
  got = source;
#ifdef POSITION_AFTER_LOAD
  see(0, copy);
  at = map[0].at;
#endif
  d_step { isStored = true; value = got; entryAt = at }
}

proctype Reader() {
  byte since;
  since = confirmed;
  see(1, 1);
  d_step {
    if
    :: isStored && map[1].tagAt <= entryAt -> assert(value >= since)
    :: else
    fi
  }
}

inline mint(isOfTag) {
  d_step {
    head[0].at = (head[0].at + 1 > atLeast -> head[0].at + 1 : atLeast);
    lastNonce++; head[0].nonce = lastNonce; nonceAt[head[0].at] = lastNonce;
    if :: isOfTag -> head[0].tagAt = head[0].at :: else fi;
    made.at = head[0].at; made.nonce = head[0].nonce; made.tagAt = head[0].tagAt
  }
}

inline raise() {
  d_step {
    seen.at = head[1].at; seen.nonce = head[1].nonce;
#ifdef LOWERS_COPIES
    head[1].at = made.at; head[1].nonce = made.nonce; head[1].tagAt = made.tagAt; seen.at = NONE
#else
    if
    :: head[1].at < made.at -> head[1].at = made.at; head[1].nonce = made.nonce; head[1].tagAt = made.tagAt; seen.at = NONE
    :: else
    fi
#endif
  }
}

/* Whether what the copy shows was made by the first copy as it is now, after this invalidation. */
#ifdef IGNORES_CONFLICT
#define IS_LATER true
#else
#define IS_LATER (head[0].at >= seen.at && nonceAt[seen.at] == seen.nonce)
#endif

proctype Invalidator() {
  byte atLeast; byte written; bool isOver;
  Head made; Head seen;
  atomic { source++; written = source }
  do
  :: !isOver ->
     mint(true);
#ifdef CONFIRMS_EARLY
     atomic { if :: written > confirmed -> confirmed = written :: else fi }
#endif
     raise();
     d_step {
       if
       :: seen.at == NONE || IS_LATER -> isOver = true
       :: else -> atLeast = seen.at + 1
       fi
     }
  :: isOver -> break
  od;
  atomic { if :: written > confirmed -> confirmed = written :: else fi }
}

/* A failover of the first copy that loses just this one. */
inline lose() {
  d_step {
    if
    :: head[0].nonce == made.nonce && made.at > 1 -> head[0].at = made.at - 1; head[0].nonce = nonceAt[made.at - 1]
    :: else
    fi
  }
}

proctype Other() {
  byte atLeast;
  Head made; Head seen;
  mint(false);
  if
  :: lose()
  :: raise()
  :: raise(); lose()
  fi
}

init {
  atomic {
    head[0].at = 1; head[0].nonce = 1; head[1].at = 1; head[1].nonce = 1; nonceAt[1] = 1;
    map[0].at = 1; map[1].at = 1;
#ifdef READS_FIRST_COPY
    run Load(0);
#else
    run Load(1);
#endif
    run Reader();
    run Invalidator();
    run Invalidator();
    run Other()
  }
}
