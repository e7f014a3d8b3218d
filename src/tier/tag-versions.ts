import { longestFreshMs, longestStaleMs, type Policy } from "../policy/policy.js";
import type { Store } from "../store/store.js";
import type { ReadRequest } from "./request.js";

/**
 * Returns how long the store keeps a value. Undefined: it never expires. Lengthened by a random share,
 * so that a server does not have to drop values that were stored together all at once. The age of a
 * value, not its presence, decides whether it is served. Whole milliseconds, as stores expect them.
 */
export const valueTtlMs = (policy: Policy, maxAgeMs: number, random: number): number | undefined =>
  policy.neverExpires
    ? undefined
    : Math.ceil(
        maxAgeMs * (1 + policy.jitterRatio * random) + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs),
      );

/**
 * Returns how long a tag must last, undefined for ever: it outlives every entry that is stored under
 * it now, since a version that expires makes all of them misses at once, and a load that begins now,
 * since its value is not stored under another version.
 */
export function tagTtlMs(policy: Policy, loadTimeoutMs: number): number | undefined {
  const longest = { ...policy, staleWhileRevalidateMs: longestStaleMs(policy) };
  const ttlMs = valueTtlMs(longest, longestFreshMs(policy), 1);
  return ttlMs === undefined ? undefined : Math.max(ttlMs, loadTimeoutMs);
}

/**
 * Returns the versions of the tags of `requests` by name, and creates those that are missing. Leaves
 * out those that could not be read or created. Never rejects.
 */
export async function createTagVersions(
  store: Store,
  requests: readonly Pick<ReadRequest, "policy" | "tags">[],
  loadTimeoutMs: number,
): Promise<ReadonlyMap<string, string>> {
  const namesByTtl = new Map<number | undefined, Set<string>>();
  for (const { policy, tags } of requests) {
    const ttlMs = tagTtlMs(policy, loadTimeoutMs);
    const names = namesByTtl.get(ttlMs) ?? new Set();
    namesByTtl.set(ttlMs, names);
    for (const name of tags.names) names.add(name);
  }
  const versionOf = new Map<string, string>();
  await Promise.all(
    [...namesByTtl].map(async ([ttlMs, wanted]) => {
      const names = [...wanted];
      const versions = await store.ensureTags(names, ttlMs).catch((): string[] => []);
      for (const [index, version] of versions.entries()) versionOf.set(names[index] as string, version);
    }),
  );
  return versionOf;
}
