import { attempt } from "../base/built-in.js";
import { ignoreRejection } from "../base/deferred.js";
import { inOneLine, messageOf } from "../base/errors.js";
import type { Listener } from "./events.js";

/** Logs outages and recoveries, and warns once of each cause that keeps a coordinate uncached. */
export function logListener(logger: Logger, reads: { add(coordinate: string, property: string): void }): Listener {
  const unavailable = new Set<string>();
  const storeName = (node: string): string => (node === "" ? "the store" : `store node ${node}`);
  const warned = new Set<string>();
  const warn = (message: string): void => logger.warn(`graphql-cached: ${inOneLine(message, MAX_LENGTH)}`);
  const warnOnce = (cause: string, message: string): void => {
    if (!warned.has(cause)) warn(message);
    warned.add(cause);
  };
  return (event) => {
    if (event.name === "store.failed" && !unavailable.has(event.node)) {
      unavailable.add(event.node);
      logger.warn(
        `graphql-cached: ${storeName(event.node)} is unavailable, requests continue uncached: ${inOneLine(messageOf(event.error))}`,
      );
    } else if (event.name === "store.recovered" && unavailable.delete(event.node)) {
      logger.info(`graphql-cached: ${storeName(event.node)} is available again`);
    } else if (event.name === "connection.failed") {
      logger.warn(`graphql-cached: ${inOneLine(event.error.message)}; ${MEANWHILE[event.use]}`);
    } else if (event.name === "connection.recovered") {
      logger.info("graphql-cached: all connections of the store can be used again");
    } else if (event.name === "invalidations.overflowed") {
      logger.warn(`graphql-cached: ${event.error.message}`);
    } else if (event.name === "context.read") {
      reads.add(event.coordinate, event.property);
    } else if (event.name === "context.written") {
      warn(writtenMessage(event.coordinate, event.property));
    } else if (event.name === "tag.mistaken") {
      warn(event.error.message);
    } else if (event.name === "sharing.suspended") {
      warnOnce(`${event.coordinate} ${event.name}`, unsharedMessage(event.coordinate, event.error));
    } else if (
      event.name === "value.refused" ||
      event.name === "entry.corrupt" ||
      event.name === "resolver.bypassed" ||
      event.name === "lifetime.refused" ||
      event.name === "signal.refused"
    ) {
      if (event.error !== undefined) warnOnce(`${event.coordinate} ${event.error.code}`, event.error.message);
    }
  };
}

export interface Logger {
  info(message: string): void;
  warn(message: string): void;
}

/** Returns a logger that never throws, since a failing log must not fail a request or mutation. */
export function infallible(logger: Logger): Logger {
  // There is nowhere else to report what it throws.
  const tryTo = (write: () => unknown): void => ignoreRejection(attempt(write));
  return { info: (message) => tryTo(() => logger.info(message)), warn: (message) => tryTo(() => logger.warn(message)) };
}

/** The most characters of a message of the cache, which can contain that of another error. */
const MAX_LENGTH = 1_500;
export function onceLog(logger: Logger): Logger {
  const isNew = unrepeated();
  return { info: (line) => isNew(line) && logger.info(line), warn: (line) => isNew(line) && logger.warn(line) };
}

/** Returns true for each text once, and for none after a thousand. */
export function unrepeated(): (text: string) => boolean {
  const known = new Set<string>();
  return (text) => {
    if (known.has(text) || known.size >= MAX_TEXTS) return false;
    known.add(text);
    return true;
  };
}

const MAX_TEXTS = 1_000;

/** What happens while a connection of the store cannot be used. */
const MEANWHILE = {
  "wake-ups": "callers that wait for another process poll the store",
  memory: "memory learns of invalidations when the process asks, every half second",
} as const;

const unsharedMessage = (coordinate: string, error: unknown): string =>
  `\`${coordinate}\`: two loads of a key in a row failed with an error that concerns one caller only, so for a moment each caller loads for itself: ${inOneLine(messageOf(error))}; ` +
  "check permissions outside of the cache, or set createCache({ loads: { isCallerError } }) if the error concerns every caller";

const writtenMessage = (coordinate: string, property: string): string =>
  `\`context.${property}\` is written by the load of \`${coordinate}\`, which does not run on a hit; return it as a part of the value, or do not cache \`${coordinate}\`; ` +
  `if nothing depends on it, list it in createCache({ privacy: { sharedContextKeys: [${JSON.stringify(property)}] } })`;
