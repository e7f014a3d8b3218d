/*
 * One key under one tag that is known before the load. The reply to a read may show the entry and the
 * version of the tag as they were at different times, as on a Cluster. Rows are those of PROTOCOL.md.
 *
 * Claim (P3): a reader that starts after an invalidation of the tag was confirmed never gets an older
 * value, also when the version is evicted or a client sends the invalidation again.
 *
 * Each switch breaks one rule, and the claim must then fail:
 *   CLIENT_CHOSEN_VERSION   the client chooses the new version of the tag, not the store
 *   EVICTED_VERSION_RETURNS a tag without a version gets the one that it had at first
 *   NO_SIGNATURE_CHECK      a reader does not compare the signature of an entry
 *   SIGNATURE_OF_STORE      a value gets the version at the time of its store, not that of its lease
 */
#define NONE 0

mtype = { ABSENT, PENDING, VALUE };

byte source = 1;
byte confirmed = 1;

mtype state = ABSENT;
byte gen = NONE;
byte signature = NONE; /* the version of the tag */
byte value = NONE;
byte lastGen = NONE;

byte version = 1;
byte lastVersion = 1;

#ifdef EVICTED_VERSION_RETURNS
#define CREATED_VERSION 1
#else
#define CREATED_VERSION lastVersion
#endif

proctype Reader() {
  byte since;
  byte seenVersion = NONE;
  byte seenSignature = NONE;
  byte got = NONE;
  byte chain = NONE;
  since = confirmed;
  if
  :: seenVersion = version;
     atomic { got = value; seenSignature = signature }
  :: atomic { got = value; seenSignature = signature };
     seenVersion = version
  fi;
  if
#ifdef NO_SIGNATURE_CHECK
  :: got != NONE ->
#else
  :: got != NONE && seenVersion != NONE && seenSignature == seenVersion ->
#endif
     assert(got >= since);
     goto done
  :: else
  fi;
  if
  :: seenVersion == NONE ->
     atomic { /* ensure-tags */
       if
       :: version == NONE -> lastVersion++; version = CREATED_VERSION
       :: else
       fi;
       seenVersion = version
     }
  :: else
  fi;
  atomic {
    if
    :: state == ABSENT || signature != seenVersion -> /* row 1 */
       lastGen++;
       state = PENDING;
       gen = lastGen;
       signature = seenVersion;
       value = NONE;
       chain = gen
    :: state == PENDING && signature == seenVersion -> chain = gen /* row 3 */
    :: state == PENDING && signature == seenVersion -> goto done /* row 2 */
    :: state == VALUE && signature == seenVersion -> /* row 4 */
       assert(value >= since);
       goto done
    fi
  }
  got = source;
  assert(got >= since);
  atomic { /* rows 11 and 12 */
    if
    :: state == PENDING && gen == chain ->
       state = VALUE;
       value = got;
       gen = NONE;
#ifdef SIGNATURE_OF_STORE
       signature = version
#endif
    :: else
    fi
  }
done:
  skip
}

proctype Invalidator(bool isSentAgain) {
  byte chosen = NONE;
  byte written;
  atomic { source++; written = source }
  atomic {
    if
    :: version != NONE -> lastVersion++; version = lastVersion; chosen = version
    :: else
    fi
  }
  atomic {
    if
    :: confirmed < written -> confirmed = written
    :: else
    fi
  }
  if
  :: atomic { isSentAgain -> /* the client sends the command again, at any later time */
       if
#ifdef CLIENT_CHOSEN_VERSION
       :: version != NONE && chosen != NONE -> version = chosen
#else
       :: version != NONE -> lastVersion++; version = lastVersion
#endif
       :: else
       fi
     }
  :: true
  fi
}

/* The version of the tag is evicted. The entry need not be: without it, there is nothing to serve. */
proctype Eviction() {
  if
  :: version = NONE
  :: true
  fi
}

init {
  atomic {
    run Reader();
    run Reader();
    run Invalidator(true);
    run Invalidator(false);
    run Eviction()
  }
}
