/*
 * One key whose value has one tag that is known only after the load, the version of that tag, and the
 * invalidation log of PROTOCOL.md. Processes trim the log by settings of their own, so it may forget
 * at any time; it may be lost, and the version of the tag may be evicted.
 *
 * Claim (P3): a reader that starts after an invalidation of the tag was confirmed never gets an older
 * value.
 *
 * Each switch breaks one rule, and the claim must then fail:
 *   LOG_FORGETS_SILENTLY   the log does not say up to when it has forgotten
 *   NO_LOG_ID              a log that was lost looks like one without invalidations
 *   VERSION_BEFORE_LOG     an invalidation changes the version first and writes the log second
 *   CHECK_BEFORE_VERSIONS  a store checks the log first and reads the versions second
 *   POSITION_AFTER_LOAD    a load reads the position of the log when it ends
 *   JOIN_BEFORE_STORED     a reader that joins a load does not wait until its value was stored
 *   JOIN_ENDED_LOAD        a reader uses a load that had ended, and checked the log, before it joined
 */
#define NONE 0

mtype = { ABSENT, PENDING, VALUE };

byte source = 1;
byte confirmed = 1;

mtype state = ABSENT;
byte value = NONE;
byte valueVersion = NONE;

byte version = 1;
byte lastVersion = 1;

byte logId = 1;
byte logEnd = 1;
byte invalidatedAt = NONE; /* when the log last saw the tag; NONE: it is not in the log */
byte forgottenAt = NONE;

/* The load in flight, which another reader of its process may join. */
byte loaded = NONE;
bool isOver = false;
bool isStored = false;

inline readVersion(seen) {
  atomic {
    if
    :: version == NONE -> lastVersion++; version = lastVersion
    :: else
    fi;
    seen = version
  }
}

#ifdef NO_LOG_ID
#define IS_SAME_LOG true
#else
#define IS_SAME_LOG (logId == seenLogId)
#endif
#ifdef LOG_FORGETS_SILENTLY
#define HAS_FORGOTTEN false
#else
#define HAS_FORGOTTEN (forgottenAt > position)
#endif

inline checkLog() {
  isUnchanged = IS_SAME_LOG && !HAS_FORGOTTEN && !(invalidatedAt > position)
}

proctype Load() {
  byte got;
  byte seenLogId;
  byte position;
  byte seenVersion;
  bool isUnchanged;
  state = PENDING;
#ifndef POSITION_AFTER_LOAD
  atomic { seenLogId = logId; position = logEnd }
#endif
  got = source;
  loaded = got; /* the load ends */
#ifdef POSITION_AFTER_LOAD
  atomic { seenLogId = logId; position = logEnd }
#endif
#ifdef CHECK_BEFORE_VERSIONS
  checkLog();
  readVersion(seenVersion);
#else
  readVersion(seenVersion);
  checkLog();
#endif
  atomic { /* row 11, or row 14 */
    if
    :: isUnchanged -> state = VALUE; value = loaded; valueVersion = seenVersion; isStored = true
    :: else -> state = ABSENT
    fi;
    isOver = true
  }
}

proctype Reader() {
  bool hadEnded;
  byte since;
  byte got;
  byte seenVersion;
  since = confirmed;
  if
  :: atomic { state == VALUE -> got = value; seenVersion = valueVersion }
     if
     :: version == seenVersion -> assert(got >= since)
     :: else
     fi
  :: atomic { state == PENDING -> hadEnded = (loaded != NONE) } /* it joins the load */
#ifdef JOIN_BEFORE_STORED
     if
     :: atomic { loaded != NONE && !hadEnded -> assert(loaded >= since) }
     :: hadEnded
     fi
#else
     atomic {
       isOver;
       if
#ifdef JOIN_ENDED_LOAD
       :: isStored -> assert(loaded >= since)
#else
       :: isStored && !hadEnded -> assert(loaded >= since)
#endif
       :: else /* it reads again */
       fi
     }
#endif
  :: true
  fi
}

inline writeLog() { atomic { logEnd++; invalidatedAt = logEnd } }
inline changeVersion() {
  atomic {
    if
    :: version != NONE -> lastVersion++; version = lastVersion
    :: else
    fi
  }
}

proctype Invalidator() {
  source++;
#ifdef VERSION_BEFORE_LOG
  changeVersion();
  writeLog();
#else
  writeLog();
  changeVersion();
#endif
  confirmed++;
  if
  :: true -> writeLog(); changeVersion() /* the client sends the commands again */
  :: true
  fi
}

/* Another process invalidates another tag, and drops what is older than its own retention. */
proctype OtherInvalidator() {
  atomic {
    logEnd++;
    if
    :: invalidatedAt != NONE -> forgottenAt = invalidatedAt; invalidatedAt = NONE
    :: true
    fi
  }
}

proctype Loss() {
  if
  :: atomic { logId++; logEnd = 1; invalidatedAt = NONE; forgottenAt = NONE }
  :: version = NONE
  :: true
  fi
}

init {
  atomic {
    run Load();
    run Reader();
    run Invalidator();
    run OtherInvalidator();
    run Loss()
  }
}
