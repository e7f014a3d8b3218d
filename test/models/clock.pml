/*
 * One key whose value has one tag, and the invalidation clock of one server: a position that every
 * invalidation raises, the exact position of the tag, and a floor for what was trimmed. Two processes
 * keep copies of the record (maps), and load, join and read. The chain of a lease (gen) keeps its position.
 *
 * Claim (P3): a reader that starts after an invalidation of the tag was confirmed never gets an older
 * value, whoever loaded it, and whenever it was stored.
 *
 * Each switch breaks one rule, and the claim must then fail:
 *   NO_EPOCH               a clock that was lost and made again looks like the old one
 *   POSITION_AFTER_LOAD    an entry gets the position that its process knows when the load ends
 *   TAKEOVER_NEW_POSITION  a takeover gives the chain the position of the new holder
 *   LOCAL_VERSION_FIRST    a process notes the new version before it has the positions
 *   SERVER_VERSION_FIRST   an invalidation raises the version first and records the tag second
 *   NO_FLOOR               trimming does not raise the floor
 *   NO_NONCE               two versions with the same position count as the same
 *   NO_ANCESTOR_CHECK      a process fetches what is later than its own position on any server
 *   GRANT_UNCHECKED        a grant takes a position that the server does not have
 *   JOIN_UNCHECKED         a reader that joins a load does not compare the tags of its result
 */
#define NONE 0

mtype = { ABSENT, PENDING, VALUE };

byte source = 1;
byte confirmed = 1;

/* The clock on the server. */
byte epoch = 1;
byte clock = 1;
byte nonce = 1;
byte lastNonce = 1;
byte nonceAt[8];
byte tagAt = NONE;
byte floorAt = NONE;

/* The entry. */
mtype state = ABSENT;
byte gen = NONE;
byte lastGen = NONE;
byte value = NONE;
byte entryAt = NONE;
byte entryEpoch = NONE;

/* What each process knows. */
typedef Map { byte epoch; byte clock; byte nonce; byte tagAt; byte floorAt };
Map map[2];

/* The load of each process, which its readers may join. */
byte loadGen[2];
byte loadAt[2];
byte loadEpoch[2];
byte loaded[2];

#ifdef NO_EPOCH
#define SAME_EPOCH(one, other) true
#else
#define SAME_EPOCH(one, other) (one == other)
#endif
#ifdef NO_NONCE
#define IS_KNOWN(p) (SAME_EPOCH(map[p].epoch, seenEpoch) && map[p].clock == seenClock)
#else
#define IS_KNOWN(p) (SAME_EPOCH(map[p].epoch, seenEpoch) && map[p].clock == seenClock && map[p].nonce == seenNonce)
#endif
#ifdef NO_ANCESTOR_CHECK
#define IS_ANCESTOR(p) SAME_EPOCH(map[p].epoch, epoch)
#else
#define IS_ANCESTOR(p) (SAME_EPOCH(map[p].epoch, epoch) && map[p].clock <= clock && nonceAt[map[p].clock] == map[p].nonce)
#endif
/* An entry that is older than the floor is absent, whatever is known of its tag. */
#define IS_VALID(p, at, ofEpoch) (SAME_EPOCH(ofEpoch, map[p].epoch) && map[p].floorAt <= at && map[p].tagAt <= at)

inline seeVersion() { seenEpoch = epoch; seenClock = clock; seenNonce = nonce }

/* One script: what is later than the version of the process, or everything. */
inline fetch(p) {
  if
  :: IS_ANCESTOR(p) ->
     if
     :: tagAt > map[p].clock -> map[p].tagAt = tagAt
     :: else
     fi
  :: else -> map[p].tagAt = tagAt
  fi;
  map[p].floorAt = floorAt
}
inline noteVersion(p) { map[p].epoch = epoch; map[p].clock = clock; map[p].nonce = nonce }

inline refresh(p) {
#ifdef LOCAL_VERSION_FIRST
  if
  :: atomic { !IS_KNOWN(p) -> map[p].epoch = seenEpoch; map[p].clock = seenClock; map[p].nonce = seenNonce }
     d_step { map[p].tagAt = tagAt; map[p].floorAt = floorAt; noteVersion(p) }
  :: atomic { IS_KNOWN(p) -> skip }
  fi
#else
  if
  :: atomic { !IS_KNOWN(p) -> d_step { fetch(p); noteVersion(p) } }
  :: atomic { IS_KNOWN(p) -> skip }
  fi
#endif
}

proctype Load(byte p) {
  byte seenEpoch; byte seenClock; byte seenNonce;
  byte at; byte ofEpoch; byte got; byte own;
  d_step { seeVersion() }
  refresh(p);
  d_step { at = map[p].clock; ofEpoch = map[p].epoch } /* its request is on the way */
  atomic { /* rows 1 to 3: acquire */
#ifndef GRANT_UNCHECKED
    if
    :: at > clock -> at = clock
    :: else
    fi;
#endif
    if
    :: state == ABSENT || !IS_VALID(p, entryAt, entryEpoch) ->
       lastGen++; gen = lastGen; state = PENDING; entryAt = at; entryEpoch = ofEpoch; own = gen
    :: state == PENDING && IS_VALID(p, entryAt, entryEpoch) -> /* its lease has expired */
       own = gen;
#ifdef TAKEOVER_NEW_POSITION
       entryAt = at; entryEpoch = ofEpoch
#else
       at = entryAt; ofEpoch = entryEpoch
#endif
    :: else -> goto done
    fi;
    loadGen[p] = own; loadAt[p] = at; loadEpoch[p] = ofEpoch; loaded[p] = NONE
  }
  got = source;
  loaded[p] = got;
#ifdef POSITION_AFTER_LOAD
  d_step { seeVersion() }
  refresh(p);
#endif
  atomic { /* rows 10 and 11 */
    if
    :: state != ABSENT && gen == own ->
       state = VALUE; value = got; gen = NONE;
#ifdef POSITION_AFTER_LOAD
       entryAt = map[p].clock; entryEpoch = map[p].epoch
#endif
    :: else
    fi
  }
done: skip;
  d_step { seenEpoch = 0; seenClock = 0; seenNonce = 0; at = 0; ofEpoch = 0; got = 0; own = 0 }
}

proctype Reader(byte p) {
  byte seenEpoch; byte seenClock; byte seenNonce;
  byte since; byte got; byte at; byte ofEpoch; byte chain;
  mtype kind;
  since = confirmed;
  d_step { seeVersion(); kind = state; got = value; at = entryAt; ofEpoch = entryEpoch; chain = gen } /* one MGET */
  refresh(p);
  if
  :: kind == VALUE -> d_step { if :: IS_VALID(p, at, ofEpoch) -> assert(got >= since) :: else fi }
  :: kind == PENDING && chain == loadGen[p] -> /* it joins the load */
     atomic {
       loaded[p] != NONE || loadGen[p] != chain;
       if
#ifdef JOIN_UNCHECKED
       :: loadGen[p] == chain -> assert(loaded[p] >= since)
#else
       :: loadGen[p] == chain && IS_VALID(p, loadAt[p], loadEpoch[p]) -> assert(loaded[p] >= since)
#endif
       :: else
       fi
     }
  :: else
  fi
}

inline raise() { clock++; lastNonce++; nonce = lastNonce; nonceAt[clock] = nonce }

proctype Invalidator() {
  byte written;
  byte mine;
  atomic { source++; written = source }
#ifdef SERVER_VERSION_FIRST
  d_step { raise(); mine = clock }
  d_step { tagAt = mine }
#else
  d_step { raise(); tagAt = clock }
#endif
  atomic { if :: written > confirmed -> confirmed = written :: else fi }
}

/* Invalidates another tag. The record then trims this one, or a failover loses the invalidation. */
proctype Other() {
  byte mine;
  d_step { raise(); mine = clock }
  if
  :: d_step { /* trim */
       if
       :: tagAt != NONE ->
#ifndef NO_FLOOR
          floorAt = tagAt;
#endif
          tagAt = NONE
       :: else
       fi
     }
  :: d_step { /* a replica takes over that lacks it and what came after it; its clock is behind */
       if
       :: clock == mine && epoch == 1 && nonce == nonceAt[mine] && tagAt < mine ->
          clock = mine - 1; nonce = nonceAt[clock];
          if :: entryAt > clock -> state = ABSENT; gen = NONE :: else fi
       :: else
       fi
     }
  :: true
  fi
}

/* The record is evicted, and made again while the time of the server is behind. */
proctype Loss() {
  if
  :: d_step { epoch = 2; clock = 1; lastNonce++; nonce = lastNonce; nonceAt[1] = nonce; tagAt = NONE; floorAt = NONE }
  :: true
  fi
}

init {
  atomic {
    nonceAt[1] = 1;
    map[0].epoch = 1; map[0].clock = 1; map[0].nonce = 1;
    map[1].epoch = 1; map[1].clock = 1; map[1].nonce = 1;
    run Load(1);
    run Reader(1);
    run Invalidator();
    if
    :: run Load(0); run Loss()
    :: run Load(0); run Other()
    :: run Invalidator(); run Other()
    fi
  }
}
