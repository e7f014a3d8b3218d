/*
 * Two releases that share a store and make the key of one call in two forms, and the control record that lists their
 * variants. An invalidation reaches the entry of each form that is listed.
 *
 * Claim (P3, P10): a reader that starts after the invalidation was confirmed never gets an older
 * value, whichever release it belongs to.
 *
 * Each switch breaks one rule, and the claim must then fail:
 *   LIST_AFTER_STORE  a release lists its variant after its first store
 *   LIST_AFTER_LOAD   a release lists its variant before its first store, but after its first lease
 *   NO_RECHECK        an invalidation does not check that the record is still the same
 */
#define NONE 0

mtype = { ABSENT, PENDING, VALUE };

byte source = 1;
byte confirmed = 1;

mtype state[2] = ABSENT;
byte gen[2];
byte value[2];
byte lastGen = NONE;

/* The control record. */
bool isListed[2];
byte recordVersion = 1;

inline list(variant) {
  atomic {
    if
    :: !isListed[variant] -> isListed[variant] = true; recordVersion++
    :: else
    fi
  }
}

/* The first load of a release. */
proctype Load(byte variant) {
  byte chain;
  byte got;
#if !defined(LIST_AFTER_STORE) && !defined(LIST_AFTER_LOAD)
  list(variant);
#endif
  atomic { lastGen++; chain = lastGen; gen[variant] = chain; state[variant] = PENDING }
  got = source;
#ifdef LIST_AFTER_LOAD
  list(variant);
#endif
  atomic { /* rows 10 and 11 */
    if
    :: state[variant] == PENDING && gen[variant] == chain -> state[variant] = VALUE; value[variant] = got; gen[variant] = NONE
    :: else
    fi
  }
#ifdef LIST_AFTER_STORE
  list(variant);
#endif
}

proctype Reader(byte variant) {
  byte since;
  since = confirmed;
  if
  :: atomic { state[variant] == VALUE -> assert(value[variant] >= since) }
  :: true
  fi
}

inline remove(variant) {
  if
  :: known[variant] -> atomic { state[variant] = ABSENT; gen[variant] = NONE; value[variant] = NONE }
  :: else
  fi
}

inline learn() { atomic { known[0] = isListed[0]; known[1] = isListed[1]; knownVersion = recordVersion } }

proctype Invalidator() {
  bool known[2];
  byte knownVersion;
  learn(); /* the record that the process knows, from any earlier time */
  source++;
again:
  remove(0);
  remove(1);
#ifndef NO_RECHECK
  if
  :: knownVersion != recordVersion -> learn(); goto again
  :: else
  fi;
#endif
  confirmed++
}

init {
  atomic {
    run Load(0);
    run Load(1);
    run Reader(0);
    run Reader(1);
    run Invalidator()
  }
}
