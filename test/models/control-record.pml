/*
 * The control record in two copies, as on a Cluster, and a change after which no earlier entry counts, as when a variant is listed
 * again; here `clear`, and what is made by it an epoch. A reader gets the version of the copy on the node of its key with the entry, and fetches the
 * record if it does not know that version.
 *
 * Claim (P3): a reader that starts after `clear` was confirmed never gets an older value.
 *
 * Each switch breaks one rule, and the claim must then fail:
 *   EPOCH_NOT_IN_SIGNATURE  an entry does not say in which epoch its load began
 *   CONFIRM_AFTER_ONE_COPY  `clear` is confirmed when the first copy has the change
 *   FIRST_COPY_UNCONFIRMED  `clear` does not look again at the copy where it began
 *   LOST_COPY_RAISED        a copy that was lost takes any record that is sent to it
 *   COPIES_GO_BACK          a copy takes a record that is older than its own
 *   REPAIR_FROM_MEMORY      a process replaces a record that is lost by the one that it knows
 *   NO_VERSION_IN_READ      a process uses the record that it knows until it has expired
 */
#define NONE 0

byte source = 1;
byte confirmed = 1;

/* The version of the record in each copy, which stands for its epochs: every change is a `clear`. */
byte copy[2] = 1;
byte lastVersion = 1;

/* One key and its node. An entry of another epoch is absent. */
byte node;
byte value;
byte epoch;

/* What the process of the readers knows. */
byte known = 1;

/* A copy that was lost is taken from the other one, or created with a version that never was. */
inline repair(at) {
  if
  :: copy[at] == NONE ->
#ifdef REPAIR_FROM_MEMORY
     copy[at] = known
#else
     if
     :: copy[1 - at] == NONE -> lastVersion++; copy[at] = lastVersion
     :: else -> copy[at] = copy[1 - at]
     fi
#endif
  :: else
  fi
}

inline learn() {
#ifdef NO_VERSION_IN_READ
  skip
#else
  repair(node);
  known = copy[node]
#endif
}

proctype Load() {
  byte began;
  byte got;
  atomic { learn(); began = known }
  got = source;
  atomic { value = got; epoch = began }
}

proctype Reader() {
  byte since;
  since = confirmed;
  atomic {
    learn();
    if
#ifdef EPOCH_NOT_IN_SIGNATURE
    :: value != NONE -> assert(value >= since)
#else
    :: value != NONE && epoch == known -> assert(value >= since)
#endif
    :: else
    fi
  }
}

inline raise(at, version) {
#ifdef COPIES_GO_BACK
  copy[at] = version;
#else
#ifndef LOST_COPY_RAISED
  repair(at);
#endif
  if
  :: copy[at] < version -> copy[at] = version
  :: else
  fi
#endif
}

proctype Clear(bool isSentAgain) {
  byte written;
  byte minted;
  atomic { source++; written = source }
  atomic { lastVersion++; minted = lastVersion; copy[0] = minted }
#ifndef CONFIRM_AFTER_ONE_COPY
  atomic { raise(1, minted) }
#ifndef FIRST_COPY_UNCONFIRMED
  atomic { raise(0, minted) } /* it may have been lost meanwhile, and repaired from the other */
#endif
#endif
  atomic {
    if
    :: confirmed < written -> confirmed = written
    :: else
    fi
  }
#ifdef CONFIRM_AFTER_ONE_COPY
  atomic { raise(1, minted) }
#endif
  if
  :: atomic { isSentAgain -> raise(1, minted) } /* the client sends the command again */
  :: true
  fi
}

proctype Loss() {
  if
  :: atomic { copy[0] = NONE; copy[1] = NONE }
  :: copy[0] = NONE
  :: copy[1] = NONE
  :: true
  fi;
  if
  :: atomic { repair(0); repair(1) } /* by another process */
  :: true
  fi
}

init {
  atomic {
    if
    :: node = 0
    :: node = 1
    fi;
    run Load();
    run Reader();
    run Clear(true);
    run Clear(false);
    run Loss()
  }
}
