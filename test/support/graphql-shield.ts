import { createRequire } from "node:module";
import util from "node:util";

/**
 * graphql-shield and the copy of graphql-middleware that it uses. Its latest release (7.6.5) calls `util.isUndefined`, which Node 24 removed; its
 * CommonJS build reads the function at run time, so it can be restored before the first call.
 */
Object.defineProperty(util, "isUndefined", { value: (value: unknown) => value === undefined, configurable: true });

const require = createRequire(import.meta.url);

export const { rule, shield } = require("graphql-shield") as typeof import("graphql-shield");
export const { applyMiddleware } = require("graphql-middleware") as typeof import("graphql-middleware");
