/** The entry point `graphql-cached/store`: what a store of your own implements and may reuse. */
export type { Cancel, Clock, Random } from "../clock.js";
export type { ConnectionUse } from "../telemetry/events.js";
export { type Entry, type EntryState, NO_SIGNATURE } from "./entry.js";
export { readEntry, readStoredEntry, writeStoredEntry } from "./entry-layout.js";
export type { History, HistoryLimits, HistoryPart } from "./history.js";
export type {
  ProcessReport,
  ReportingProcess,
  ReportPart,
  ReportReply,
  ReportStore,
  WriteReply,
} from "./report-store.js";
export {
  type AcquireRequest,
  type ChangeListener,
  type ConnectionFailure,
  type ConnectionListener,
  type ControlReading,
  type Grant,
  type Hold,
  isWriteInProgress,
  type LeaseTimes,
  type LogPosition,
  type LossCheck,
  type LossListener,
  type Reading,
  type Release,
  type Store,
  type StoreNames,
  type StoreOutcome,
  type StoreRead,
  type StoreReport,
  type StoreRequest,
  type TagVersion,
  type VersionedControl,
  type Wake,
} from "./store.js";
export { type StoredEntry, transitions } from "./transitions.js";
