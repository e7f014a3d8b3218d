import { throwIfAllFailed } from "../store/answers.js";
import type { Script, ScriptArgument } from "./define-script.js";
import { type Command, groupByNode, sendScripts } from "./pipeline.js";
import type { RedisClient } from "./redis-client.js";

/** A script, the keys it runs over, its arguments for the `nth` call to a node, and the values that each key brings along. */
export type RunArguments<Args extends readonly string[]> = [
  script: Script<Args>,
  keys: readonly string[],
  argsOf: (node: string, nth: number) => { readonly [Name in Args[number]]: ScriptArgument },
  valuesOf?: (index: number) => readonly ScriptArgument[],
];

/**
 * Runs a script over keys, one trip to every node at the same time, `trailing` after it. Answers one reply a key, in their order; a key whose call
 * failed has the Error in its place. Rejects if all failed.
 */
export async function runScript<Args extends readonly string[]>(
  client: RedisClient,
  trailing: readonly Command[],
  ...[script, keys, argsOf, valuesOf = () => []]: RunArguments<Args>
): Promise<readonly unknown[]> {
  const replies = new Array<unknown>(keys.length);
  let nth = 0;
  const trips = groupByNode(client, keys).map(async ({ node, calls }) => {
    const sent = calls.map((indexes) => {
      const names = indexes.map((index) => keys[index] as string);
      const values = indexes.flatMap((index) => valuesOf(index));
      return { script, args: script.argumentsFor(names, argsOf(node, nth++), values) };
    });
    for (const [at, reply] of (await sendScripts(client, sent as never, trailing)).entries())
      for (const [place, index] of (calls[at] as readonly number[]).entries())
        replies[index] = Array.isArray(reply) ? (reply as unknown[])[place] : reply;
  });
  await Promise.all(trips);
  throwIfAllFailed(replies);
  return replies;
}
