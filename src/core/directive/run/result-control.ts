import { describeSetting, optionInvalid } from "../../base/errors.js";
import { inertControl, type ResultControl } from "../../tier/request/result-control.js";

/**
 * Returns the control of the result of a field: whether it is cached, for how long, with which
 * tags, and the value that it replaces. `info` is the fourth argument of the resolver. If the field
 * is not cached, or if this call of the resolver bypasses the cache, nothing that is set has an
 * effect.
 *
 * Throws `CACHED_OPTION_INVALID` if `info` is something else.
 */
export function resultControl(info: object): ResultControl {
  const { [CONTROL]: control, parentType, fieldName } = (info ?? {}) as PartialInfo;
  if (control !== undefined) return control;
  if (typeof fieldName !== "string")
    throw optionInvalid(
      `resultControl: expected the \`info\` of a resolver, got ${describeSetting(info)}; pass the fourth argument of the resolver`,
    );
  return inertControl(`${String(parentType)}.${fieldName}`);
}

/** Holds the control on the `info` of a load. Registered, for two copies of this package. */
const CONTROL: unique symbol = Symbol.for("graphql-cached.resultControl") as never;

/** What the `info` of a load has of it. */
export const infoOfControl = (control: ResultControl): PartialInfo => ({ [CONTROL]: control });

interface PartialInfo {
  readonly [CONTROL]?: ResultControl;
  readonly parentType?: unknown;
  readonly fieldName?: unknown;
}
