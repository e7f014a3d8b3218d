import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { systemClock, systemRandom } from "./core/base/clock.js";
import { synchronous } from "./core/base/deferred.js";
import { inOneLine, messageOf, optionInvalid } from "./core/base/errors.js";
import { KnownResolvers } from "./core/base/known-resolvers.js";
import { VERSION } from "./core/base/version.js";
import { createPacking } from "./core/codec/packing.js";
import { keyFormsOf } from "./core/codec/value-type.js";
import { createKeySpace } from "./core/keys/key.js";
import { KnownTags } from "./core/keys/known-tags.js";
import { tagNormalizer } from "./core/keys/tag-template.js";
import { ContextWatch } from "./core/loader/context-watch.js";
import { IdentityCheck } from "./core/loader/identity-check.js";
import { RequestSignals } from "./core/loader/request-signals.js";
import { RequestStates } from "./core/loader/request-states.js";
import { TypeShapes } from "./core/loader/type-shapes.js";
import { secondsDoubts } from "./core/policy/policy.js";
import { AppliedRules } from "./core/schema-rules.js";
import { FailOpenStore } from "./core/store/fail-open-store.js";
import { Channel } from "./core/telemetry/channel.js";
import { ContextReadLog } from "./core/telemetry/context-read-log.js";
import { Counters } from "./core/telemetry/counters.js";
import { infallible, logListener, onceLog } from "./core/telemetry/log-listener.js";
import { Failures } from "./core/tier/entry/failure.js";
import { longestMsOf } from "./core/tier/entry/plausible.js";
import { Invalidation } from "./core/tier/invalidation/invalidate.js";
import { ListedTags } from "./core/tier/invalidation/listed-tags.js";
import { Leases } from "./core/tier/lease/leases.js";
import { LoadSharing } from "./core/tier/lease/load-sharing.js";
import { Waiting } from "./core/tier/lease/waiting.js";
import { Memory } from "./core/tier/memory/memory.js";
import { Reads } from "./core/tier/read/hit.js";
import { Memos } from "./core/tier/request/known-key.js";
import { ValueDecoder } from "./core/tier/request/value-decoder.js";
import { InvalidationClock } from "./core/tier/shared/invalidation-clock.js";
import { Modes } from "./core/tier/shared/modes.js";
import { Variants } from "./core/tier/shared/variants.js";
import { Loads } from "./core/tier/source/loads.js";
import { ParentComparison } from "./core/tier/source/parent-comparison.js";
import { LongTick } from "./core/tier/tick/long-tick.js";
import { WorkUnderWay } from "./core/tier/tick/work-under-way.js";
import type { ResolvedOptions } from "./option-checks.js";
import type { MemoryOptions } from "./options.js";
import { memoryStore } from "./stores/memory/memory-store.js";
import { RecentEvents } from "./tools/inspection/recent-events.js";
import { type ProcessIdentity, Reports } from "./tools/inspection/reports.js";
import type { InspectedParts } from "./tools/inspection/resolvers.js";

/** Creates the parts of a cache, and the function that shuts them down. */
export function assemble(options: ResolvedOptions): { parts: InspectedParts; close(): Promise<void> } {
  const { clock = systemClock, random = systemRandom, onEvent } = options;
  const logger = infallible(options.logger ?? console);
  for (const doubt of secondsDoubts(options.defaults))
    logger.warn(`graphql-cached: createCache: \`defaults\`: ${doubt}`);
  const counters = new Counters();
  const channel = new Channel(counters, options.prefix, (error) =>
    logger.warn(
      `graphql-cached: a listener of events, such as \`onEvent\`, has failed: ${inOneLine(messageOf(error))}`,
    ),
  );
  const contextReads = new ContextReadLog(logger, clock);
  channel.listen(logListener(logger, contextReads), []);
  const recentEvents = new RecentEvents(clock);
  channel.listen(recentEvents.record, []);
  if (onEvent !== undefined) channel.listen(onEvent);
  const inner = options.store ?? memoryStore({ clock });
  const store = new FailOpenStore(inner, clock, channel, options.storeTimeoutMs, options.maxValueBytes);
  const waiting = new Waiting(clock, random);
  const packing = createPacking(options);
  const reportTag = (problem: string): void => channel.mistaken(null, optionInvalid(problem));
  const normalizeTag = options.normalizeTag && tagNormalizer(options.normalizeTag, reportTag);
  const isNormalized = normalizeTag === undefined ? [] : ["normalizeTag"];
  const release = JSON.stringify([options.version ?? null, packing.format, ...isNormalized]);
  const keys = createKeySpace(options.prefix, release, keyFormsOf(options.types), normalizeTag);
  const longTick = new LongTick(clock);
  const identity = identityOfProcess();
  const knownTags = new KnownTags(normalizeTag);
  const loads = new Loads({
    clock,
    channel,
    packing,
    longTick,
    settings: {
      ...options,
      isCallerError: synchronous(options.isCallerError, () => logger.warn(asynchronous("isCallerError"))),
      isSourceFailure: synchronous(options.isSourceFailure, () => logger.warn(asynchronous("isSourceFailure"))),
    },
    subjectsOf(tags) {
      for (const tag of tags) knownTags.learn(tag);
      return keys.tags(tags);
    },
  });
  const variants = new Variants();
  const invalidations = new InvalidationClock(store, keys.subjects, clock, random);
  const base = {
    store,
    modes: new Modes(),
    invalidations,
    clock,
    random,
    channel,
    packing,
    failures: new Failures(packing),
    longTick,
    longestMs: longestMsOf(options),
    settings: options,
  };
  // Who encrypts what others could read does not expect it in the memory of every process.
  const isAsked = options.memory !== undefined && options.memory !== false;
  const hasMemory = isAsked || (options.memory === undefined && options.encryption === undefined);
  const { maxBytes = MEMORY_MAX_BYTES, maxStalenessMs = 0 } = isAsked ? (options.memory as MemoryOptions) : {};
  const memos = new Memos(hasMemory ? maxBytes : KEYS_MAX_BYTES);
  const memory = hasMemory ? new Memory({ ...base, memos, settings: { maxBytes, maxStalenessMs } }) : undefined;
  const sharing = new LoadSharing(clock, longTick, options);
  const decoder = new ValueDecoder(packing, channel);
  const underWay = new WorkUnderWay();
  const holder = (): string => Buffer.from(identity.id, "hex").toString("latin1");
  const leases = new Leases({ ...base, loads, sharing, underWay, holder, memory });
  const invalidation = new Invalidation({ ...base, variants, underWay, keys });
  const { unconfirmed } = invalidation;
  const tier = new Reads({ ...base, loads, leases, sharing, decoder, waiting, unconfirmed, memory });
  const closeStore = store.open(keys, {
    wake: waiting.wake,
    clockChanged: memory && maxStalenessMs > 0 ? (head) => memory.hear(head) : undefined,
    reconnected: () => invalidation.retryNow(),
  });
  const reports = new Reports({ ...base, counters, events: recentEvents, identity, logger });
  const requestStates = new RequestStates(tier, invalidation.made, options);
  const { defaults, isProduction, leaseWaitMs, errorBackoffMs } = options;
  const reportsMistakes = options.warnOnContextReads ?? !isProduction;
  const contextWatch = new ContextWatch(channel, options.sharedContextKeys, reportsMistakes);
  if (reportsMistakes) {
    loads.parents = new ParentComparison(logger);
    if (options.identify !== undefined)
      contextWatch.identities = new IdentityCheck(options.identify, logger, (read) => contextWatch.pause(read));
  }
  const parts: InspectedParts = {
    ...base,
    get processId() {
      return identity.id;
    },
    tier,
    leases,
    invalidation,
    listedTags: new ListedTags(clock),
    requestStates,
    signals: new RequestSignals(options.abortSignal, channel, contextWatch),
    keys,
    memos,
    leaseWaitMs,
    hasValueTypes: Object.keys(options.types ?? {}).length > 0,
    errorBackoffMs,
    counters,
    reports,
    logger,
    isProduction,
    onceLog: onceLog(logger),
    defaults,
    identify: uncollected(contextWatch.identities?.identify ?? options.identify, contextWatch),
    contextWatch,
    contextReads,
    rules: new AppliedRules(),
    knownTags,
    variants,
    typeShapes: new TypeShapes(),
    resolvers: new KnownResolvers(),
    loaders: new Map(),
    requestFactories: new Map(),
    limits: options,
    underWay,
    drain: () => underWay.drain(clock, DRAIN_MS),
    settled: () => underWay.drain(clock, options.loadTimeoutMs, (untilAt) => invalidation.settled(untilAt)),
  };
  if (options.report === true) reports.start();
  return {
    parts,
    close: async () => {
      tier.modes.close();
      contextReads.flush();
      await parts.drain();
      loads.close();
      await leases.held.close();
      await invalidation.close();
      invalidations.close();
      memory?.close();
      await reports.close();
      closeStore();
      contextWatch.close();
    },
  };
}

/** What `identify` reads decides about the key, and is no part of a load or a response. */
const uncollected = (identify: InspectedParts["identify"], watch: ContextWatch): InspectedParts["identify"] =>
  identify && ((context) => watch.asIdentity(() => identify(context)));

const asynchronous = (name: string): string =>
  `graphql-cached: createCache: \`loads.${name}\`: expected a function that returns true or false, got a promise, which counts as no answer; let it decide by the error alone`;

/** How long `close` and a stopping server wait for loads and mutations under way. */
const DRAIN_MS = 2_000;

/** Draws the id when it is first used: Cloudflare Workers allow no randomness during evaluation. */
function identityOfProcess(): ProcessIdentity {
  let id: string | undefined;
  return {
    get id() {
      id ??= randomBytes(8).toString("hex");
      return id;
    },
    host: hostname(),
    pid: process.pid,
    version: VERSION,
    nodeVersion: process.version,
  };
}

const MEMORY_MAX_BYTES = 64 * 1024 * 1024;
/** What is remembered of keys without values. */
const KEYS_MAX_BYTES = 32 * 1024 * 1024;
