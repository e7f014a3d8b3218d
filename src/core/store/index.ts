/** The entry point `graphql-cached/store`: what a store of your own implements and may reuse. */
export {
  type Cancel,
  type Clock,
  EXPECTED_TIMER_MS,
  isTimerMs,
  type Random,
  systemClock,
  systemRandom,
  within,
} from "../base/clock.js";
export { describeSetting, inOneLine, messageOf } from "../base/errors.js";
export { checkOptionNames, checkOptionRules, type OptionRules } from "../base/option-names.js";
export type { Subject } from "../keys/key.js";
export { errorTypeOf } from "../telemetry/error-type.js";
export type { ConnectionUse } from "../telemetry/events.js";
export { asError, throwIfAllFailed, throwIfAnyFailed } from "./answers.js";
export {
  appendToClock,
  appendToCopies,
  type ClockHead,
  type ClockLog,
  type ClockRecord,
  type CopiedClock,
  HEAD_BYTES,
  LOG_HEAD_BYTES,
  laterHead,
  MAX_AHEAD_MICROS,
  type ReadRecord,
  readHead,
  readLog,
  readRecords,
  type StoredClock,
  writeRecord,
} from "./clock-log.js";
export { type Entry, type EntryState, NO_EPOCH } from "./entry.js";
export { readEntry, readStoredEntry, writeStoredEntry } from "./entry-layout.js";
export { learnOffset, type ServerOffset } from "./server-offset.js";
export type {
  AcquireRequest,
  ClockListener,
  ClockOrigin,
  ConnectionFailure,
  ConnectionState,
  Grant,
  Hold,
  LeaseTimes,
  Reading,
  Release,
  Store,
  StoreListener,
  StoreNames,
  StoreOutcome,
  StoreRead,
  StoreRequest,
  Wake,
} from "./store.js";
export { checkPrefix, REPORTS_WANTED_MS } from "./store.js";
export { type Decision, decisions, newTokens, type StoredEntry, transitions } from "./transitions.js";
