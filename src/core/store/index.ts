/** The entry point `graphql-cached/store`: what a store of your own implements and may reuse. */
export type { Cancel, Clock, Random } from "../base/clock.js";
export type { Subject } from "../keys/key.js";
export type { ConnectionUse } from "../telemetry/events.js";
export {
  appendToClock,
  appendToCopies,
  type ClockHead,
  type ClockRecord,
  type CopiedClock,
  HEAD_BYTES,
  laterHead,
  readHead,
  type StoredClock,
  writeRecord,
} from "./clock-log.js";
export { type Entry, type EntryState, NO_EPOCH } from "./entry.js";
export { readEntry, readStoredEntry, writeStoredEntry } from "./entry-layout.js";
export type {
  History,
  HistoryLimits,
  HistoryPart,
  ProcessReport,
  ReportingProcess,
  ReportPart,
  ReportReply,
  ReportStore,
  WriteReply,
} from "./report-store.js";
export type {
  AcquireRequest,
  ClockListener,
  ClockOrigin,
  Grant,
  Hold,
  LeaseTimes,
  Reading,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreRead,
  StoreRequest,
  Wake,
} from "./store.js";
export type { ConnectionFailure, ConnectionListener, StoreReport } from "./store-state.js";
export { type StoredEntry, transitions } from "./transitions.js";
