/** Options by where they belong, for those who write them elsewhere. */
export const OPTIONS_OF: Readonly<Record<string, string>> = {
  "applyCached(schema, cache, { … })": "policies cacheControl entityTags idFields exists",
  "createCache({ … })":
    "store prefix identify defaultScope memory onEvent logger codec types encryption defaults loads leases storage invalidation privacy limits inspection testing version",
  "createCache({ loads })":
    "loadTimeoutMs maxConcurrentLoads maxQueuedLoads errorBackoffMs errorMaxAgeMs breakerThreshold isSourceFailure isCallerError abortSignal abandonedLoadMs refreshQueue",
  "createCache({ leases })": "leaseMs leaseWaitMs nestedWaitMs softTimeoutMs",
  "createCache({ storage })": "storeTimeoutMs maxValueBytes compressAboveBytes storeBeforeResponse",
  "createCache({ invalidation })": "replicaLagMs writeGuardMs normalizeTag",
  "createCache({ privacy })": "warnOnContextReads sharedContextKeys",
  "createCache({ limits })": "maxKeyBytes maxTagCombinations",
  "a policy: @cached, `policies` of applyCached, or cache.loader":
    "maxAge maxAgeLimit key tags scope staleWhileRevalidate staleIfError negativeMaxAge neverExpires jitter earlyRefresh refresh readOnly",
  "cache.loader": "batch cacheKeyFn maxBatchSize",
  "the plugin of the server, such as cachedPlugin(cache, { … })": "responses edge allow",
};
