/*
 * Marks of writes in progress at one key: two writers, of which one may renew its mark, and begin writes
 * that the client sends again at any later time. Marks do not lapse. Time is the store's. Rows are those of
 * PROTOCOL.md.
 *
 * Claim: from its begin to its end, a writer is in the mark; after its end it never is.
 *
 * Each switch breaks one rule, and the claim must then fail:
 *   BEGIN_WITHOUT_NOT_AFTER  a begin write is carried out however late it arrives
 *   NO_END_RECORD            the end of a write is not recorded
 *   SHORT_END_RECORD         the record of the end expires before the begin write does
 *   END_REMOVES_MARK         the end of one write removes the mark of all
 *   BEGIN_REPLACES_MARK      a begin write forgets the other writers
 */
#define PATIENCE 2 /* how long after it was sent a begin write is carried out */
#ifdef SHORT_END_RECORD
#define RECORDED 1
#else
#define RECORDED 3
#endif
#define HORIZON 7

byte now = 0;
bool isMarked[2];
bool isWriting[2];
bool hasEnded[2];
byte recordedUntil[2];

inline begin(writer, notAfter) {
  if
#ifdef BEGIN_WITHOUT_NOT_AFTER
  :: now >= recordedUntil[writer] ->
#elif defined(NO_END_RECORD)
  :: now <= notAfter ->
#else
  :: now <= notAfter && now >= recordedUntil[writer] ->
#endif
#ifdef BEGIN_REPLACES_MARK
     isMarked[1 - writer] = false;
#endif
     isMarked[writer] = true
  :: else
  fi
}

proctype Writer(byte writer) {
  byte notAfter;
  atomic { notAfter = now + PATIENCE; run Repeat(writer, notAfter) }
  atomic { begin(writer, notAfter); isWriting[writer] = isMarked[writer] }
  if /* the mark may be renewed, also by a command that is sent again */
  :: writer == 0 -> atomic { notAfter = now + PATIENCE; run Repeat(writer, notAfter) }
     atomic { begin(writer, notAfter); isWriting[writer] = isMarked[writer] }
  :: skip
  fi;
  atomic { /* row 20 */
    isWriting[writer] = false;
    isMarked[writer] = false;
#ifdef END_REMOVES_MARK
    isMarked[1 - writer] = false;
#endif
    hasEnded[writer] = true;
    recordedUntil[writer] = now + RECORDED
  }
}

proctype Repeat(byte writer; byte notAfter) {
  if
  :: hasEnded[writer] -> atomic { begin(writer, notAfter) }
  :: isWriting[writer] -> atomic { begin(writer, notAfter) }
  fi
}

proctype Time() {
  do
  :: now < HORIZON -> now++
  :: else -> break
  od
}

active proctype Claim() {
  assert(!(isWriting[0] && !isMarked[0]) && !(isWriting[1] && !isMarked[1])
    && !(hasEnded[0] && isMarked[0]) && !(hasEnded[1] && isMarked[1]))
}

init {
  atomic {
    run Writer(0);
    run Writer(1);
    run Time()
  }
}
