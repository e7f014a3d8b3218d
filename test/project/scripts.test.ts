import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { SCRIPT_MUTANTS } from "../../scripts/mutants.mjs";
import type { Script } from "../../src/stores/redis/define-script.js";
import { sharedServer } from "../support/shared-servers.js";
import { filesIn, read } from "./source.js";

const files = filesIn("src/stores/redis/scripts");
const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

describe("Redis scripts", () => {
  it.each(files)("%s exports one script, named like its file, that compiles on a real server", async (file) => {
    const scripts = Object.values((await import(/* @vite-ignore */ `../../${file}`)) as Record<string, unknown>);
    expect(scripts).toHaveLength(1);
    const [script] = scripts as [Script<readonly string[]>];
    expect(script.name).toBe(file.split("/").at(-1)?.replace(".ts", ""));
    expect(script.lua.startsWith(`-- graphql-cached ${script.name}\n`)).toBe(true);
    expect(await client.script("LOAD", script.lua)).toBe(script.sha);
  });
});

it.each(SCRIPT_MUTANTS.map(([script, from]) => [script, from] as const))(
  "the mutant of %s finds its text in the script: %s",
  (script, from) => {
    const words = (text: string): string => text.split(/\s+/).join(" ");
    const source = read(`src/stores/redis/scripts/${script}.ts`);
    expect(words(source)).toContain(words(from));
  },
);
