import { types } from "node:util";
import { attempt, isContainer, isPlainObject } from "../base/built-in.js";
import { ignoreRejection } from "../base/deferred.js";
import { TooLarge, Unstorable } from "./codec.js";

/** A promise in a value to be encoded. GraphQL waits for it, and so can the cache: `settled`. */
export class PromiseFound extends Unstorable {}

/**
 * Returns a value with what they resolve to in the place of all promises in its arrays and plain
 * objects, as GraphQL completes it. The value itself stays as it is; what has no promises is not
 * copied. Getters are not called. Rejects with the error of a promise, and with `TooLarge` beyond
 * `maxNodes` arrays, objects and promises.
 */
export async function settled(value: unknown, maxNodes: number): Promise<unknown> {
  let nodes = 0;
  const settle = (part: unknown): unknown => {
    if (typeof part !== "object" || part === null) return part;
    if (++nodes > maxNodes) throw new TooLarge(maxNodes);
    if (types.isPromise(part)) return waitFor(part.then(settle));
    if (Array.isArray(part)) {
      const members = Object.keys(part).length === part.length ? part.map(settle) : part;
      return members.every((member, nth) => member === part[nth]) ? part : waitFor(Promise.all(members));
    }
    return isPlainObject(part) ? settledFields(part, settle) : part;
  };
  return settle(value);
}

/**
 * Handles the rejections of all promises in a value that GraphQL gets later: in its arrays and
 * objects, those of classes included, but not in instances of instances, which lead to clients and
 * connections. Getters are not called. Looks at `maxNodes` arrays and objects at most.
 */
export function ignoreRejectionsIn(value: unknown, maxNodes: number): void {
  const seen = new Set<unknown>();
  const pending = [value];
  const add = (member: unknown): void => {
    if (!types.isPromise(member)) pending.push(member);
    else member.then((part) => ignoreRejectionsIn(part, maxNodes), ignore);
  };
  add(pending.pop());
  while (pending.length > 0 && seen.size < maxNodes) {
    const part = pending.pop();
    if (typeof part !== "object" || part === null || seen.has(part)) continue;
    seen.add(part);
    // A Proxy may throw.
    attempt(() => {
      if (Array.isArray(part) || part instanceof Map || part instanceof Set) return part.forEach(add);
      const members = Object.values(Object.getOwnPropertyDescriptors(part)).map(({ value: member }): unknown => member);
      return (isPlainObject(part) ? members : members.filter(isContainer)).forEach(add);
    });
  }
}

const ignore = (): void => undefined;

/** Another one may reject first, so that nobody waits for this one any more. */
function waitFor<T>(promise: Promise<T>): Promise<T> {
  ignoreRejection(promise);
  return promise;
}

function settledFields(object: Readonly<Record<string, unknown>>, settle: (part: unknown) => unknown): unknown {
  const own = Object.getOwnPropertyDescriptors(object);
  const pending: Promise<void>[] = [];
  for (const descriptor of Object.values(own)) {
    const member: unknown = descriptor.value;
    const part = settle(member);
    if (part === member) continue;
    const write = Promise.resolve(part).then((resolved) => {
      descriptor.value = resolved;
    });
    pending.push(waitFor(write));
  }
  if (pending.length === 0) return object;
  const copied = (): object => Object.create(Object.getPrototypeOf(object) as object | null, own) as object;
  return waitFor(Promise.all(pending)).then(copied);
}
