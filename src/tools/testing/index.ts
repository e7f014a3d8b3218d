/** The entry point `graphql-cached/testing`: tools to test stores and code that uses a cache. */
export { type Chaos, chaosStore } from "./chaos-store.js";
export type { CheckOptions, ContextFactory, SchemaFactory } from "./check-fleet.js";
export { FakeClock, settle } from "./fake-clock.js";
export { type Gate, gate } from "./gate.js";
export {
  expectNoLeaks,
  expectOneLoad,
  expectSameResponse,
  type NoLeaksOptions,
  type OneLoadOptions,
  type SameResponseOptions,
} from "./schema-checks.js";
export {
  type ConformanceCase,
  type ConformanceSubject,
  type StoreFeature,
  storeConformance,
} from "./store-conformance.js";
export type { TestQuery } from "./test-query.js";
