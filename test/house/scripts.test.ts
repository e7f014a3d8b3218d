import { Redis } from "ioredis";
import { afterAll, describe, expect, inject, it } from "vitest";
import type { Script } from "../../src/redis/define-script.js";
import { filesIn, read } from "./source.js";

const files = filesIn("src/redis/scripts");
const client = new Redis({ ...inject("redisStandalone"), lazyConnect: true });
afterAll(() => client.quit());

describe("a Redis script", () => {
  for (const file of files)
    it(`of ${file} is one, has its file's name, is short, touches only its keys, and loads on a server`, async () => {
      const scripts = Object.values((await import(`../../${file}`)) as Record<string, Script<readonly string[]>>);
      expect(scripts).toHaveLength(1);
      const [script] = scripts as [Script<readonly string[]>];
      expect(script.name).toBe(file.split("/").at(-1)?.replace(".ts", ""));
      expect(script.lua.startsWith(`-- graphql-cached ${script.name}\n`)).toBe(true);
      expect(await client.script("LOAD", script.lua)).toBe(script.sha);
      const [, body = ""] = /lua: `([^`]*)`/.exec(read(file)) ?? [];
      expect(body.trim().split("\n").length).toBeLessThanOrEqual(40);
      expect(body).not.toMatch(/'(KEYS|SCAN|FLUSHALL|EVAL)'/);
      for (const [, key] of script.lua.matchAll(/redis\.p?call\('[A-Z]+', ([^,)]+)/g))
        expect(["key", "tag", "lane", "KEYS[1]"]).toContain(key);
      expect(read(file)).toMatch(/[Ii]dempotent|Changes nothing/);
    });
});
