import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startProgram } from "../support/programs.js";
import { waitForMessage } from "../support/real-processes.js";
import { type LabNode, RedisLab } from "../support/redis-lab.js";
import type { ReleaseCommand, ReleaseReport } from "../support/release-process.js";
import { CHANGES, coordinateOf, type Release } from "../support/releases.js";

const IDS = 4;
const ROUNDS = 20;
const names = Object.keys(CHANGES);
const changed = names.filter((name) => CHANGES[name]?.isCompatible !== true);
const unchanged = names.filter((name) => CHANGES[name]?.isCompatible === true);

const lab = new RedisLab();
let server: LabNode;
beforeAll(async () => {
  server = await lab.standalone();
});
afterAll(() => lab.stop());

const children = new Set<ChildProcess>();
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  children.clear();
});

/** A process of one release. */
interface ReleaseProcess {
  readonly release: Release;
  readonly child: ChildProcess;
}

async function start(release: Release, prefix: string): Promise<ReleaseProcess> {
  const child = await startProgram("release-process", { PORT: String(server.port), PREFIX: prefix, RELEASE: release });
  children.add(child);
  await waitForMessage(child, "ready");
  return { release, child };
}

async function stop({ child }: ReleaseProcess): Promise<void> {
  const exited = once(child, "exit");
  child.disconnect();
  await exited;
  children.delete(child);
}

async function command({ child }: ReleaseProcess, what: ReleaseCommand): Promise<ReleaseReport> {
  const reported = once(child, "message");
  child.send(what);
  const [report] = (await reported) as [ReleaseReport];
  return report;
}

/** Returns `count` for each name. */
const eachOf = (among: readonly string[], count: number): Record<string, number> =>
  Object.fromEntries(among.map((name) => [name, count]));

/** The reports of one phase. */
class Phase {
  readonly #reports: readonly (ReleaseReport & { readonly release: Release })[];

  constructor(reports: readonly (ReleaseReport & { readonly release: Release })[]) {
    this.#reports = reports;
  }

  get wrong(): readonly string[] {
    return this.#reports.flatMap(({ release, wrong }) => wrong.map((text) => `${release}: ${text}`));
  }

  /** Returns the loads of each field, by all processes of a release, or of both. */
  loads(among: readonly string[], release?: Release): Record<string, number> {
    const reports = this.#reports.filter((report) => release === undefined || report.release === release);
    const sum = (name: string): number => reports.reduce((total, { loads }) => total + (loads[name] ?? 0), 0);
    return Object.fromEntries(among.map((name) => [name, sum(name)]));
  }

  /** Returns the smallest share of hits among fields, in the processes of a release. */
  lowestHitRatio(among: readonly string[], release: Release): number {
    const reports = this.#reports.filter((report) => report.release === release);
    const ratios = among.map((name) => {
      const counts = reports.map(({ outcomes }) => outcomes[coordinateOf(name)] ?? {});
      const total = (of: (outcome: string) => boolean): number =>
        counts.flatMap(Object.entries<number>).reduce((sum, [outcome, count]) => sum + (of(outcome) ? count : 0), 0);
      return total((outcome) => outcome === "hit") / total(() => true);
    });
    return Math.min(...ratios);
  }
}

/** Reads every field in all processes at the same time. */
async function readInAll(processes: readonly ReleaseProcess[], epoch = 1): Promise<Phase> {
  const what = { do: "read", ids: IDS, rounds: ROUNDS, epoch } as const;
  return new Phase(
    await Promise.all(processes.map(async (one) => ({ ...(await command(one, what)), release: one.release }))),
  );
}

describe("a rolling deploy and its rollback", () => {
  it("gives every response as without a cache, loads a changed field once per key and release and an unchanged one once, and lets an invalidation by tag or by key from either release reach both", async () => {
    const prefix = `deploy-${randomUUID()}`;
    const old = await Promise.all([start("old", prefix), start("old", prefix)]);

    const before = await readInAll(old);
    expect(before.wrong).toEqual([]);
    expect(before.loads(names)).toEqual(eachOf(names, IDS));

    const next = await Promise.all([start("next", prefix), start("next", prefix)]);
    const mixed = await readInAll([...old, ...next]);
    expect(mixed.wrong).toEqual([]);
    expect(mixed.loads(unchanged)).toEqual(eachOf(unchanged, 0));
    expect(mixed.loads(changed, "old")).toEqual(eachOf(changed, 0));
    expect(mixed.loads(changed, "next")).toEqual(eachOf(changed, IDS));
    expect(mixed.lowestHitRatio(changed, "old")).toBe(1);
    expect(mixed.lowestHitRatio(changed, "next")).toBeGreaterThanOrEqual(0.9);

    await Promise.all(old.map(stop));
    const after = await readInAll(next);
    expect(after.wrong).toEqual([]);
    expect(after.loads(names)).toEqual(eachOf(names, 0));

    // The old release finds the entries that it left.
    const rolledBack = await start("old", prefix);
    const mixedAgain = await readInAll([...next, rolledBack]);
    expect(mixedAgain.wrong).toEqual([]);
    expect(mixedAgain.loads(names)).toEqual(eachOf(names, 0));

    const tags = Array.from({ length: IDS }, (_, id) => `Movie:${id}`);
    for (const [nth, by] of [rolledBack, next[0]].entries()) {
      await command(by, { do: "invalidateTags", tags });
      const invalidated = await readInAll([...next, rolledBack], nth + 2);
      // The fields without the tags go on answering from entries of an earlier epoch.
      expect(invalidated.wrong.filter((text) => text.includes("fieldAdded"))).toEqual([]);
      for (const release of ["old", "next"] as const)
        expect(invalidated.loads(["fieldAdded", "unchanged"], release)).toEqual({ fieldAdded: IDS, unchanged: 0 });
    }

    const keyed = ["unchanged", "fieldRenamed", "keyChanged"];
    for (const [nth, by] of [rolledBack, next[0]].entries()) {
      for (const name of keyed)
        for (let id = 0; id < IDS; id++)
          await command(by, { do: "invalidate", coordinate: coordinateOf(name), args: { id } });
      const invalidated = await readInAll([...next, rolledBack], nth + 4);
      expect(invalidated.wrong.filter((text) => keyed.some((name) => text.includes(`${name}:`)))).toEqual([]);
      expect(invalidated.loads(keyed)).toEqual({ unchanged: IDS, fieldRenamed: 2 * IDS, keyChanged: 2 * IDS });
    }
  }, 180_000);
});
