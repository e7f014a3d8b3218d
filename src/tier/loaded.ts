import type { Content } from "../codec/codec.js";
import type { ResponseHint } from "../store/body.js";

/**
 * Why a value is not stored: the codec cannot restore it, it is larger than `maxValueBytes`, or
 * GraphQL would refuse it.
 */
export type Refusal = "unserializable" | "too-large" | "invalid";

/**
 * The result of a load. `value` is the source's own object. `content` is what copies of it are
 * decoded from; undefined if the codec cannot encode the value, which must not be shared then.
 */
export type Loaded =
  | {
      readonly kind: "loaded";
      readonly content: Content | undefined;
      /** Undefined if the value can be stored. */
      readonly refusal: Refusal | undefined;
      readonly value: unknown;
      readonly hint: ResponseHint | undefined;
      readonly loadMs: number;
    }
  | {
      readonly kind: "failed";
      readonly error: unknown;
      readonly loadMs: number;
      /**
       * Whether the failure concerns only the caller that the load was run for, since its request was
       * aborted or `isCallerError` says so. Nobody else may get it.
       */
      readonly isCallersOwn: boolean;
    };

/** Returns whether others than the caller that the load was run for have to load again. */
export const isCallersOwn = (loaded: Loaded): boolean => loaded.kind === "failed" && loaded.isCallersOwn;
