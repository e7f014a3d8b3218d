import { MAX_TIMER_MS } from "../../base/clock.js";
import { ignoreRejection } from "../../base/deferred.js";
import { CachedError, describeSetting } from "../../base/errors.js";
import type { Key } from "../../keys/key.js";
import type { Channel } from "../../telemetry/channel.js";
import { subjectOf } from "../../telemetry/subject.js";

/** The option that decides for how long an error is shared. */
export type ErrorMaxAgeMs = (error: unknown, coordinate: string) => number | undefined;

/**
 * Returns for how long the option says that the error of a load is shared. Undefined: it does not say, as of a whole response, or has made a mistake,
 * which is reported and must not take the place of the error.
 */
export function ownErrorMaxAgeMs(
  errorMaxAgeMs: ErrorMaxAgeMs | undefined,
  error: unknown,
  key: Key,
  channel: Channel,
): number | undefined {
  const { coordinate, kind } = key;
  // The error of one field in a response says nothing of the others.
  if (errorMaxAgeMs === undefined || kind === "response") return undefined;
  let problem: string;
  let cause: unknown;
  try {
    const given: unknown = errorMaxAgeMs(error, coordinate);
    if (given === undefined || given === null) return undefined;
    if (typeof given === "number" && given >= 0 && given <= MAX_TIMER_MS) return given;
    ignoreRejection(given);
    problem = `got ${describeSetting(given)}`;
  } catch (thrown) {
    problem = "it threw an exception, the cause of this error";
    cause = thrown;
  }
  const mistake = new CachedError(
    "CACHED_OPTION_INVALID",
    `createCache: \`loads.errorMaxAgeMs\`: expected a number from 0 to ${MAX_TIMER_MS} (milliseconds) or undefined, ${problem}; until then errors of \`${coordinate}\` are shared for \`errorBackoffMs\``,
    cause === undefined ? { coordinate } : { coordinate, cause },
  );
  channel.publish({ name: "lifetime.refused", ...subjectOf(key), error: mistake });
  return undefined;
}
