/** What the page can ask for. Nothing else is executed, or sent to an endpoint. */
export interface Operation {
  readonly query: string;
  readonly variables: readonly string[];
}

const COUNT = "reads hit stale staleIfError loaded coalesced bypassed bypassedOnPurpose loads failedLoads";
const SERIES = `coordinate minutes { at count { ${COUNT} } }
  sinceStart { ${COUNT} refreshes refusedStores loadMs { count p50Ms p90Ms p99Ms } bypasses { reason reads } }`;
const EVENT = `process name at count coordinates digest node detail error
  invalidation { kind via mutation tookMs isConfirmed isClear tags tagCount entryCount }`;

const ENTRY_VARIABLES = {
  coordinate: "String!",
  args: "CacheArguments",
  source: "CacheArguments",
  context: "CacheArguments",
  id: "CacheId",
  private: "ID",
};
const declared = Object.entries(ENTRY_VARIABLES).map(([name, type]) => `$${name}: ${type}`);
const passed = Object.keys(ENTRY_VARIABLES).map((name) => `${name}: $${name}`);

/** All of them, by the name that the page sends. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  overview: {
    variables: [],
    query: `query GraphqlCached { cacheInspection {
      counts { since processes total { ${SERIES} } fields { ${SERIES} } }
      processes { id isThis host pid version nodeVersion startedAt reportedAt isComplete }
      missing
      events(first: 300) { ${EVENT} } } }`,
  },
  policies: {
    variables: [],
    query: `query GraphqlCached { cacheInspection { policies { coordinate kind variant invalidatedBy
      policy { maxAge staleWhileRevalidate refresh neverExpires staleIfError jitter scope readOnly key tags version } } } }`,
  },
  entry: {
    variables: Object.keys(ENTRY_VARIABLES),
    query: `query GraphqlCached(${declared.join(", ")}) { cacheInspection { entry(${passed.join(", ")}) {
      state use negative ageMs freshForMs servableForMs loadMs storedBytes variant digest
      reasons { reason since tag invalidation { ${EVENT} } }
      tags { text digest invalidatedAt isSoft } lease { process since endsInMs hasWaiters } } } }`,
  },
};
