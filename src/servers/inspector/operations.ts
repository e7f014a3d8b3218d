import type { Section } from "../../tools/inspection/asking.js";

/** What the page can ask for. Nothing else is executed, or sent to an endpoint. */
export interface Operation {
  /** The type of each variable, by its name. */
  readonly variables: Readonly<Record<string, string>>;
  readonly sections: readonly Section[];
}

const DURATIONS = "count meanMs p50Ms p90Ms p99Ms";
const COUNT = `reads hit stale staleIfError loaded coalesced bypassed bypassedOnPurpose servedWithoutLoad loads refreshes failedLoads
  refusedStores loadMs { ${DURATIONS} } bypasses { reason reads }`;
const SERIES = `coordinate sinceStart { ${COUNT} } minutes { at count { ${COUNT} } }`;
const EVENT = `process name at count coordinates digest node detail error
  invalidation { kind via mutation tookMs isConfirmed isClear tags tagCount entryCount }`;

/** All of them, by the name that the page sends. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  overview: {
    variables: {},
    sections: [
      { name: "counts", text: `counts { since processes total { ${SERIES} } fields { ${SERIES} } }` },
      {
        name: "processes",
        text: "processes { id isThis host pid version nodeVersion startedAt reportedAt isComplete }",
      },
      { name: "missing", text: "missing" },
      { name: "events", text: `events(first: 100) { ${EVENT} }` },
    ],
  },
  policies: {
    variables: {},
    sections: [
      {
        name: "policies",
        text: `policies { coordinate kind variant invalidatedBy policy { maxAge maxAgeLimit staleWhileRevalidate refresh neverExpires
          staleIfError negativeMaxAge jitter earlyRefresh scope readOnly key tags version followsHints } }`,
      },
    ],
  },
  entry: {
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
        text: `entry(coordinate: $coordinate, args: $args, source: $source, context: $context, id: $id, private: $private) {
          state use negative ageMs freshForMs servableForMs loadMs storedBytes variant digest
          reasons { reason since tag invalidation { ${EVENT} } }
          tags { text digest invalidatedAt isSoft } lease { process since endsInMs hasWaiters } }`,
      },
    ],
  },
};
