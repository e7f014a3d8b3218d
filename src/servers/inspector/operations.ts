import type { Section } from "../../tools/inspection/asking.js";

/** What the page can ask for. Nothing else is executed, or sent to an endpoint. */
export type Operation =
  | {
      readonly kind: "query";
      /** The type of each variable, by its name. */
      readonly variables: Readonly<Record<string, string>>;
      readonly sections: readonly Section[];
    }
  | {
      readonly kind: "mutation";
      readonly variables: Readonly<Record<string, string>>;
      /** The variables that have to be there, so that one entry is never taken for all of them. */
      readonly required: readonly string[];
      /** The mutation field. */
      readonly field: string;
      readonly selection: string;
      /** What a server without the mutation lacks. */
      readonly typeDefs: string;
    };

const COUNTS = "reads hit stale staleIfError loaded coalesced bypassed hitRatio loads loadsSaved failedLoads";
const DURATIONS = "count meanMs p50Ms p90Ms p99Ms";
const PROCESS = "id isThis host pid";
const INVALIDATION = `id at tookMs kind via mutation process { ${PROCESS} } isConfirmed isClear coordinates keys tags nameCount`;
const KEYS = "keys { coordinate digest reads maxError args source id } reads maxError since";
const BASIC_ENTRY = "state negative ageMs freshForMs loadMs valueBytes leaseForMs outdated stale";
const ENTRY = `${BASIC_ENTRY} use reason explanation servableForMs variant digest
  lease { since endsInMs hasWaiters waiters process { ${PROCESS} } }
  tags { static resultCount }
  invalidation { ${INVALIDATION} }`;

const ENTRY_ARGUMENTS =
  "coordinate: $coordinate, args: $args, source: $source, context: $context, id: $id, private: $private";
const WINDOW = { window: "CacheWindow!" };

const mutation = (
  field: string,
  typeDefs: string,
  variables: Readonly<Record<string, string>>,
  required: readonly string[],
  selection = "",
): Operation => ({ kind: "mutation", field, typeDefs, variables, required, selection });

/** All of them, by the name that the page sends. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  overview: {
    kind: "query",
    variables: WINDOW,
    sections: [
      { name: "total", text: "total: stats { reads hit stale staleIfError loaded coalesced bypassed loads until }" },
      {
        name: "stats",
        text: `stats(window: $window) { ${COUNTS} refusedStores storeFailures storedBytes readBytes since until processes missing loadMs { ${DURATIONS} } waitMs { ${DURATIONS} } bypasses { reason reads } }`,
        older: "stats { reads hit stale staleIfError loaded coalesced bypassed loads failedLoads }",
      },
      {
        name: "hotKeys",
        text: `hotKeys(window: $window, first: 50) { ${KEYS} }`,
        older: "hotKeys(first: 50) { keys { coordinate digest reads args id } }",
      },
      { name: "leases", text: "leases(first: 200) { process coordinate digest state since forMs isRefresh waiters }" },
      {
        name: "states",
        text: `states { process at leases queues { waitingReaders waitingKeys unleasedRunning unleasedQueued enqueuing }
          nearCache { entries maxEntries bytes maxBytes hits isLive confirmedAt }
          unconfirmedInvalidations { keys tags coordinates everything since } }`,
      },
      {
        name: "processes",
        text: "processes { id isThis host pid version nodeVersion startedAt reportedAt isAlive missing }",
      },
      {
        name: "events",
        text: "events(first: 100) { process name at firstAt count coordinate digest node detail error }",
      },
      {
        name: "invalidations",
        text: `invalidations(first: 100) { since isThisProcessOnly count items { ${INVALIDATION} } }`,
      },
    ],
  },
  fields: {
    kind: "query",
    variables: WINDOW,
    sections: [
      {
        name: "fields",
        text: `fields(window: $window) { coordinate maxAge scope
          stats { ${COUNTS} refusedStores storedBytes loadMs { ${DURATIONS} } waitMs { ${DURATIONS} } }
          bypasses { reason reads } }`,
        older:
          "fields { coordinate maxAge stats { reads hit stale staleIfError loaded coalesced bypassed loads failedLoads } }",
      },
    ],
  },
  policies: {
    kind: "query",
    variables: {},
    sections: [
      {
        name: "fields",
        text: `fields { coordinate variant breaker { process state since } policy { maxAge maxAgeLimit staleWhileRevalidate refresh
          neverExpires staleIfError negativeMaxAge jitter earlyRefresh scope readOnly key tags profile version followsHints } }`,
        older: "fields { coordinate }",
      },
    ],
  },
  store: {
    kind: "query",
    variables: {},
    sections: [
      {
        name: "store",
        text: `store { name nodes { node serverMissing
          server { version role entries usedBytes maxBytes evictionPolicy evictions }
          connections { process breaker { state since } latency { operations p50Ms p95Ms p99Ms maxMs } operations failures
            lastFailure { at message } lastConnectionError { at message } } } }`,
      },
    ],
  },
  entry: {
    kind: "query",
    variables: {
      coordinate: "String!",
      args: "CacheArguments",
      source: "CacheArguments",
      context: "CacheArguments",
      id: "CacheId",
      private: "ID",
    },
    sections: [
      {
        name: "entry",
        text: `entry(${ENTRY_ARGUMENTS}) { ${ENTRY} }`,
        older: `entry(${ENTRY_ARGUMENTS}) { ${BASIC_ENTRY} }`,
      },
    ],
  },
  invalidateEntry: mutation(
    "cacheInvalidate",
    "invalidationTypeDefs",
    {
      coordinate: "String!",
      args: "CacheKeyPart",
      source: "CacheKeyPart",
      context: "CacheKeyPart",
      id: "CacheKeyPart",
      private: "ID",
      soft: "Boolean!",
    },
    ["coordinate", "soft"],
  ),
  invalidateAll: mutation("cacheInvalidateAll", "invalidationTypeDefs", { coordinate: "String!", soft: "Boolean!" }, [
    "coordinate",
    "soft",
  ]),
  invalidateTags: mutation("cacheInvalidateTags", "invalidationTypeDefs", { tags: "[String!]!", soft: "Boolean!" }, [
    "tags",
    "soft",
  ]),
};
