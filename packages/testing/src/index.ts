/** The package `@graphql-cached/testing`: tools to test stores and code that uses a cache. */
export { type Chaos, chaosStore } from "./chaos-store.js";
export { FakeClock, settle } from "./fake-clock.js";
export { type Gate, gate } from "./gate.js";
export {
  type ConformanceCase,
  type ConformanceSubject,
  type StoreFeature,
  storeConformance,
} from "./store-conformance.js";
