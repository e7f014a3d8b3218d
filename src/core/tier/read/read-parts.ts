import type { Clock, Random } from "../../base/clock.js";
import type { Store } from "../../store/store.js";
import type { Channel } from "../../telemetry/channel.js";
import type { BypassReason } from "../../telemetry/events.js";
import type { Leases } from "../lease/leases.js";
import type { Waiting } from "../lease/waiting.js";
import type { Memory } from "../memory/memory.js";
import type { ReadRequest, ReadResult } from "../request/request.js";
import type { TierSettings } from "../request/settings.js";
import type { ValueDecoder } from "../request/value-decoder.js";
import type { VerdictParts } from "../request/verdict.js";
import type { Modes } from "../shared/modes.js";
import type { Loads } from "../source/loads.js";
import type { LongTick } from "../tick/long-tick.js";
import type { Responder } from "./responder.js";

/** What all ways to read work with. */
export interface ReadParts extends VerdictParts {
  readonly store: Store;
  readonly modes: Modes;
  readonly clock: Clock;
  readonly random: Random;
  readonly channel: Channel;
  /** What lease requests and loads are collected in. */
  readonly longTick: LongTick;
  readonly decoder: ValueDecoder;
  readonly loads: Loads;
  readonly leases: Leases;
  readonly responder: Responder;
  readonly waiting: Waiting;
  readonly memory: Memory | undefined;
  readonly settings: TierSettings;
}

/** What the other ways to read need of the path of a hit: see `Hits`. */
export interface ReadPath {
  /** Reads the store for one request, together with all other reads of the tick. Never rejects. */
  readResultOf(request: ReadRequest): Promise<ReadResult>;
  /** Answers a request from its read. A miss stops waiting at `deadlineAt`. */
  respond(request: ReadRequest, readResult: ReadResult, deadlineAt: number): unknown;
  /** Returns why a request must not read the store. Undefined if it may. */
  bypassReasonOf(request: ReadRequest): BypassReason | undefined;
}
