import { throwIfAllFailed } from "../../core/store/answers.js";
import type { ClientPort, Command } from "./client-port.js";
import type { Script, ScriptArgument } from "./define-script.js";
import { groupByNode, sendScripts } from "./pipeline.js";

/** A script, its keys, its arguments for each call to a node, the values that follow for each key, and keys that follow those of each call. */
export type RunArguments<Args extends readonly string[]> = [
  script: Script<Args>,
  keys: readonly string[],
  argsOf: (node: string) => { readonly [Name in Args[number]]: ScriptArgument },
  valuesOf?: (index: number) => readonly ScriptArgument[],
  moreKeys?: readonly string[],
];

/**
 * Runs a script over keys: one pipeline per node, all in parallel, each followed by `trailing`.
 * Returns one reply per key in the order of `keys`, with an Error for each key whose call failed.
 * Rejects if all calls failed.
 */
export async function runScript<Args extends readonly string[]>(
  port: ClientPort,
  trailing: readonly Command[],
  ...[script, keys, argsOf, valuesOf = () => [], moreKeys = []]: RunArguments<Args>
): Promise<readonly unknown[]> {
  const replies = new Array<unknown>(keys.length);
  const pipelines = groupByNode(port, keys).map(async ({ node, calls }) => {
    const scriptCalls = calls.map((indexes) => {
      const names = indexes.map((index) => keys[index] as string);
      const values = indexes.flatMap((index) => valuesOf(index));
      return { script, args: script.argumentsFor(names, argsOf(node), values, moreKeys) };
    });
    for (const [at, reply] of (await sendScripts(port, scriptCalls as never, trailing)).entries())
      for (const [place, index] of (calls[at] as readonly number[]).entries())
        replies[index] = Array.isArray(reply) ? (reply as unknown[])[place] : reply;
  });
  await Promise.all(pipelines);
  throwIfAllFailed(replies);
  return replies;
}
