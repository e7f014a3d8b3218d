import { messageOf } from "../errors.js";
import type { Listener } from "./events.js";

/** Where log lines go. */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
}

/** A store that goes away is said once, and once that it is back; what keeps a field from being cached is said once a field and cause. */
export function logListener(logger: Logger): Listener {
  const away = new Set<string>();
  const named = (node: string): string => (node === "" ? "the store" : `the store's node ${node}`);
  const said = new Set<string>();
  const sayOnce = (about: string, message: string): void => {
    if (said.has(about)) return;
    said.add(about);
    logger.warn(`graphql-cached: ${message}`);
  };
  return (event) => {
    if (event.name === "store.failed" && !away.has(event.node)) {
      away.add(event.node);
      logger.warn(`graphql-cached: ${named(event.node)} is away, requests go on uncached: ${messageOf(event.error)}`);
    } else if (event.name === "store.recovered" && away.delete(event.node)) {
      logger.info(`graphql-cached: ${named(event.node)} is back`);
    } else if (event.name === "context.read") {
      sayOnce(`${event.coordinate} context.${event.property}`, contextRead(event.coordinate, event.property));
    } else if (event.name === "value.refused" || event.name === "entry.corrupt" || event.name === "resolver.bypassed") {
      if (event.error !== undefined) sayOnce(`${event.coordinate} ${event.error.code}`, event.error.message);
    }
  };
}

const contextRead = (coordinate: string, property: string): string =>
  `\`${coordinate}\` is PUBLIC and its load reads \`context.${property}\`, which is not in its key, so one user can be given what was made for another; ` +
  `say scope: PRIVATE, or add \`$context.${property}\` to \`key\`; if a permission check reads it, apply permissions after applyCached, to the schema it answers; ` +
  "if it is the same for everybody, name it in createCache({ sharedContextKeys })";
