import { Redis } from "ioredis";
import { afterAll, describe, expect, inject, it } from "vitest";
import type { Script } from "../../src/redis/define-script.js";
import { filesIn, read } from "./source.js";

const files = filesIn("src/redis/scripts");
const client = new Redis({ ...inject("redisStandalone"), lazyConnect: true });
afterAll(() => client.quit());

const KEY = /^(key|tag|KEYS\[\d+\])$/;
const UNWANTED = ["KEYS", "SCAN", "FLUSHALL", "FLUSHDB", "EVAL"];

/** What touches anything but a declared key: a command not in plain sight, a key made in Lua, a key's name bound to something else. */
function strays(lua: string): string[] {
  const calls = [...lua.matchAll(/redis\.p?call(?:\('([A-Z]+)'(?:, ([^,)]+))?)?/g)]
    .filter(([, command = "", key = ""]) => {
      if (UNWANTED.includes(command)) return true;
      return command === "PUBLISH" ? key !== "lane" : command === "TIME" ? key !== "" : !KEY.test(key);
    })
    .map(([call]) => call);
  const shared = [...lua.matchAll(/(?<!function )\b(?:head\(|record\(|wake\(lane, )([^,)]*)/g)]
    .filter(([, key = ""]) => !KEY.test(key))
    .map(([call]) => call);
  const bound = lua
    .replaceAll(/\bfor \w+, (key|tag) in ipairs\(KEYS\) do/g, "")
    .match(/\b(key|tag|KEYS)\b[^\n(]*\bin\b|\b(key|tag|KEYS)\b(\[\w+\])?( *, *\w+)* *=(?!=)/g);
  return [...calls, ...shared, ...(bound ?? [])];
}

describe("a Redis script", () => {
  for (const file of files)
    it(`of ${file} is one, has its file's name, is short, touches only its keys, and loads on a server`, async () => {
      const scripts = Object.values(
        (await import(/* @vite-ignore */ `../../${file}`)) as Record<string, Script<readonly string[]>>,
      );
      expect(scripts).toHaveLength(1);
      const [script] = scripts as [Script<readonly string[]>];
      expect(script.name).toBe(file.split("/").at(-1)?.replace(".ts", ""));
      expect(script.lua.startsWith(`-- graphql-cached ${script.name}\n`)).toBe(true);
      expect(await client.script("LOAD", script.lua)).toBe(script.sha);
      const [, body = ""] = /lua: `([^`]*)`/.exec(read(file)) ?? [];
      expect(body.trim().split("\n").length).toBeLessThanOrEqual(40);
      expect(body.trim(), "the body is found").not.toBe("");
      expect(strays(script.lua)).toEqual([]);
      expect(read(file)).toMatch(
        /\/\*\*(?:(?!\*\/)[\s\S])*([Ii]dempotent|Changes nothing)(?:(?!\*\/)[\s\S])*\*\/\nexport const/,
      );
    });
});
