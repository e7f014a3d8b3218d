import { randomUUID } from "node:crypto";
import { inspectorHandler } from "@graphql-cached/inspector";
import { createCache } from "graphql-cached";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Chromium, findChromium, type Page, type PageSettings } from "../../../test/support/chromium.js";
import { inspectedServer, serve } from "../../../test/support/inspector-site.js";
import { startProgram } from "../../../test/support/programs.js";
import { waitForMessage } from "../../../test/support/real-processes.js";
import { RedisLab } from "../../../test/support/redis-lab.js";
import { sharedServer } from "../../../test/support/shared-servers.js";
import { afterCaches } from "../../../test/support/world.js";

const path = findChromium();
if (path === undefined)
  console.warn("no Chromium: set CHROMIUM or run apt-get install chromium to test the inspector page");

let browser: Chromium | undefined;
beforeAll(() => {
  if (path !== undefined) browser = Chromium.launch(path);
});
afterAll(() => browser?.close());

const open = (url: string, settings?: PageSettings): Promise<Page> => (browser as Chromium).open(url, settings);

/** Resolves once a person can read this, with what else can be read. */
async function see(page: Page, text: string | RegExp): Promise<string> {
  await expect.poll(() => page.text()).toMatch(text);
  return page.text();
}

const describeIfChromium = describe.skipIf(path === undefined); // see the warning

describeIfChromium("the inspector page in Chromium", () => {
  it("shows the share that was served without a load and the minutes at the first look, what loads most, and why an entry is not served", async () => {
    const { ask, url } = await inspectedServer(await sharedServer("redisStandalone"), `page-${randomUUID()}`);
    for (let id = 1; id <= 5; id++) await ask(`{ movie(id: ${id}) }`);
    for (let nth = 0; nth < 9; nth++) await ask('{ top(genre: "noir") rare }');
    await ask("mutation { rename(id: 4) }");
    const page = await open(url);
    const overview = await see(page, /Loads most[\s\S]*?Query\.movie\s+5 loads[\s\S]*?1 load\b/);
    expect(overview).toMatch(/Served without a load\s+69 %\s+16 hit, 0 stale, 0 coalesced of 23 reads/);
    expect(overview).toMatch(/Invalidated tags by @invalidates of Mutation\.rename/);
    const drawn = await page.evaluate<number>("document.querySelectorAll('.chart-bar span').length");
    expect(drawn).toBeGreaterThan(0);

    await page.goTo("#fields");
    expect(await see(page, /Query\.movie[\s\S]*Query\.top/)).toMatch(/Loads ↓/);
    expect(await see(page, /What mutations invalidate/)).toMatch(/Mutation\.rename\s+Query\.movie\b/);

    await page.goTo("#entry");
    await page.fill("Field or loader", "Query.movie");
    await page.fill("Arguments", '{"id": 4}');
    await page.click("Look up");
    const text = await see(page, /Stored, but not served|Not in the store/);
    expect(text).toMatch(/Why\s+Tag invalidated: Movie:4, (?:just now|.+ ago) \(/);
    expect(text).toMatch(/By @invalidates of Mutation\.rename in .+:\d+ at \d\d:\d\d:\d\d\./);
    expect(text).toMatch(/Movie:4\s+invalidated (?:just now|.+ ago)/);
    await page.evaluate(`document.querySelector("a[href^='#activity?']").click()`);
    expect(await see(page, /Invalidations and trouble/)).toMatch(
      /Invalidated tags by @invalidates of Mutation\.rename/,
    );
    await page.goTo("#entry?coordinate=Query.movie&args=%7B%22id%22%3A5%7D");
    expect(await see(page, /Fresh\. Requests get the stored value\./)).toMatch(
      /Age\s+.+ old, fresh for .+ more, served for .+ more/,
    );
    expect(page.complaints).toEqual([]);
  });

  it("says why reads bypass the cache, and what has gone wrong", async () => {
    const { ask, cache, url } = await inspectedServer(await sharedServer("redisStandalone"), `page-${randomUUID()}`);
    await cache.setMode("off", "Query.prices");
    await ask("{ basket large prices movie(id: 7) }");
    await ask("{ basket large prices movie(id: 7) }");
    const page = await open(url);
    const overview = await see(page, /Query\.large uncacheable/);
    expect(overview).toMatch(/Query\.basket no identity\s+2 reads/);
    expect(overview).toMatch(/Query\.prices mode off\s+2 reads/);
    expect(overview).toMatch(/2 bypassed on purpose/);
    await page.goTo("#activity");
    await see(page, /value\.refused\s+Query\.large · #\w+ · CACHED_VALUE_TOO_LARGE/);
    await page.fill("Filter", "no such event");
    await see(page, /Nothing in the reports matches\./);
    expect(page.complaints).toEqual([]);
  });

  it("begins all bars of a list at one x", async () => {
    const { ask, url } = await inspectedServer(await sharedServer("redisStandalone"), `page-${randomUUID()}`);
    for (let id = 1; id <= 12; id++) await ask(`{ movie(id: ${id}) rare }`);
    for (const width of [1_280, 390]) {
      const page = await open(url, { width, height: 800 });
      await see(page, /Query\.movie\s+12 loads/);
      const places = await page.evaluate<number[]>(
        "[...document.querySelectorAll('.ranking .meter')].map((one) => one.getBoundingClientRect().x)",
      );
      expect(places.length).toBeGreaterThan(1);
      expect(new Set(places).size).toBe(1);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
    }
  });

  it("says that a caller is denied, and shows nothing else", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    afterCaches(() => cache.close());
    const page = await open(await serve(inspectorHandler({ cache, allow: () => false })));
    const text = await see(page, /You may not look at this cache/);
    expect(text).toContain("`allow` of inspectorHandler does not admit this request");
    expect(text).not.toMatch(/Fields|Processes/);
    expect(page.complaints).toEqual([]);
  });

  it("says that Redis has stopped, and shows what this process knows", async () => {
    const lab = new RedisLab();
    afterCaches(() => lab.stop());
    const redis = await lab.standalone();
    const { ask, url } = await inspectedServer(redis, "page");
    await ask("{ movie(id: 7) }");
    const page = await open(url);
    await see(page, /Query\.movie\s+1 load/);
    await redis.kill();
    await see(page, /The reports of the other processes could not be read/);
    await page.goTo("#fields");
    await see(page, /Query\.movie/);
    await page.goTo("#entry?coordinate=Query.movie&args=%7B%22id%22%3A7%7D");
    await see(page, /the store did not reply/);
    await page.goTo("#activity");
    await see(page, /store\.failed/);
    expect(page.complaints).toEqual([]);
  });

  it("shows a fleet of four processes", async () => {
    const redis = await sharedServer("redisStandalone");
    const prefix = `page-${randomUUID()}`;
    const { ask, url } = await inspectedServer(redis, prefix);
    const env = { PORTS: String(redis.port), PREFIX: prefix };
    const others = await Promise.all([1, 2, 3].map(() => startProgram("counting-process", env)));
    afterCaches(async () => {
      for (const child of others) child.kill("SIGKILL");
    });
    await Promise.all(others.map((child) => waitForMessage(child, "ready")));
    await ask("{ movie(id: 7) }");
    const page = await open(`${url}#processes`);
    for (const { pid } of others) await see(page, new RegExp(`\\s${pid}\\s`));
    await see(page, /4 processes/);
    expect(page.complaints).toEqual([]);
  });

  it("says that the endpoint has the inspection of another release", async () => {
    const errors = [{ message: 'Cannot query field "counts" on type "CacheInspection".' }];
    const page = await open(await serve(inspectorHandler({ endpoint: await endpoint({ errors }), allow: () => true })));
    await see(page, /no inspection of this release[\s\S]*update graphql-cached there/);
    expect(page.complaints).toEqual([]);
  });

  it("shows names, keys, tags and errors of elsewhere as text, whatever is in them", async () => {
    const data = { cacheInspection: hostileInspection() };
    const page = await open(await serve(inspectorHandler({ endpoint: await endpoint({ data }), allow: () => true })));
    for (const hash of ["#overview", "#activity", "#processes", "#fields", "#entry?coordinate=x&id=7"]) {
      await page.goTo(hash);
      await see(page, /<img src=x onerror=window\.hacked=1>/);
    }
    await page.goTo("#fields");
    await expect.poll(() => page.evaluate("document.querySelector('th button[aria-expanded]')?.click() ?? 1")).toBe(1);
    await see(page, /Variant/);
    const found = await page.evaluate<{ hacked: unknown; elements: number; links: string[] }>(`({
      hacked: window.hacked ?? null,
      elements: document.querySelectorAll("img, script:not(body > script), iframe, svg").length,
      links: [...document.querySelectorAll("a[href]")].map((one) => one.getAttribute("href")).filter((href) => !href.startsWith("#")),
    })`);
    expect(found).toEqual({ hacked: null, elements: 0, links: [] });
    // What reverses the direction of text is spelled out.
    expect(await page.text()).not.toContain("\u202e");
    expect(await page.text()).toContain("\\u202e");
    expect(page.complaints).toEqual([]);
  });

  it("shows a thousand fields, on a phone as well", async () => {
    const fields = Array.from({ length: 1_000 }, (_, nth) => seriesOf(`Query.field${nth}`, nth));
    const data = { cacheInspection: { ...inspection(), counts: { processes: 1, total: seriesOf(null, 7), fields } } };
    const url = await serve(inspectorHandler({ endpoint: await endpoint({ data }), allow: () => true }));
    const page = await open(`${url}#fields`, { width: 390, height: 844 });
    expect(await see(page, /1,000 rows/)).toContain("Query.field999");
    await page.click("Show 100 more of 900");
    await see(page, /Show 100 more of 800/);
    await page.fill("Filter", "field123");
    await see(page, /1 row of 1,000/);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
    expect(page.complaints).toEqual([]);
  });

  it("can be used without a mouse and with a screen reader: landmarks, headings, labels and table headers", async () => {
    const { ask, url } = await inspectedServer(await sharedServer("redisStandalone"), `page-${randomUUID()}`);
    await ask("{ movie(id: 7) }");
    const page = await open(url, { isDark: true });
    for (const hash of ["#overview", "#fields", "#entry", "#activity", "#processes"]) {
      await page.goTo(hash);
      await expect
        .poll(() => page.evaluate(`document.querySelector("nav a[aria-current]")?.getAttribute("href")`))
        .toBe(hash);
      const mistakes = await page.evaluate<string[]>(`(() => {
        const mistakes = [];
        for (const name of ["header", "nav", "main", "h1"])
          if (document.querySelectorAll("body " + name + (name === "header" ? ".top" : "")).length !== 1) mistakes.push(name);
        for (const one of document.querySelectorAll("section"))
          if (!one.getAttribute("aria-label") && !document.getElementById(one.getAttribute("aria-labelledby"))) mistakes.push("section without a name");
        for (const one of document.querySelectorAll("input, select, textarea"))
          if (!one.labels?.length && !one.ariaLabel) mistakes.push("no label: " + one.outerHTML);
        for (const one of document.querySelectorAll("button, a[href]"))
          if (!one.textContent.trim() && !one.ariaLabel) mistakes.push("no name: " + one.outerHTML);
        for (const one of document.querySelectorAll("table"))
          if (one.caption === null || one.querySelector("thead th:not([scope=col])")) mistakes.push("table without a caption or headers");
        const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
        if (new Set(ids).size !== ids.length) mistakes.push("an id twice: " + ids);
        return mistakes;
      })()`);
      expect(mistakes, hash).toEqual([]);
    }
    await page.press("Tab");
    expect(await page.evaluate("document.activeElement.innerText")).toBe("Skip to the content");
    expect(page.complaints).toEqual([]);
  });
});

const AT = "2026-11-26T00:00:00.000Z";

const countOf = (reads: number) => ({
  ...{ reads, hit: reads, stale: 0, staleIfError: 0, loaded: 0, coalesced: 0, bypassed: 0, bypassedOnPurpose: 0 },
  ...{ loads: reads, failedLoads: 0, refreshes: 0, refusedStores: 0, bypasses: [] as object[] },
  loadMs: { count: 1, p50Ms: 1, p90Ms: 1, p99Ms: 1 },
});

const seriesOf = (coordinate: string | null, reads: number) => ({
  coordinate,
  sinceStart: countOf(reads),
  minutes: [{ at: new Date().toISOString(), count: countOf(reads) }],
});

const inspection = () => ({
  counts: { processes: 1, total: seriesOf(null, 1), fields: [seriesOf("Query.movie", 1)] },
  processes: [] as object[],
  missing: null as string | null,
  events: [] as object[],
  policies: [] as object[],
});

/** Answers every question with the same, whatever it asks for. */
const endpoint = (answer: object): Promise<string> =>
  serve((request, response) => {
    request.resume();
    request.once("end", () => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(answer));
    });
  });

const HOSTILE = `</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\u202Ejavascript:alert(1)"'`;

/** Has markup, scripts and characters that reverse text in every place where a server can send text. */
function hostileInspection(): object {
  const t = HOSTILE;
  const invalidation = {
    ...{ kind: t, via: t, mutation: t, tookMs: 1, isConfirmed: false, isClear: false },
    ...{ tags: [t], tagCount: 1, entryCount: 1 },
  };
  const event = {
    ...{ process: t, name: t, at: AT, count: 2, coordinates: [t], digest: t, node: t, detail: t, error: t },
    invalidation: null,
  };
  const policy = {
    ...{ maxAge: 1, staleWhileRevalidate: 1, refresh: t, neverExpires: false, staleIfError: 1, jitter: 0.5 },
    ...{ scope: t, readOnly: false, key: [t], tags: [t], version: t },
  };
  const series = seriesOf(t, 1);
  return {
    ...inspection(),
    counts: {
      processes: 1,
      total: series,
      fields: [{ ...series, sinceStart: { ...series.sinceStart, bypasses: [{ reason: t, reads: 1 }] } }],
    },
    processes: [
      {
        ...{ id: t, isThis: true, host: t, pid: 1, version: t, nodeVersion: t },
        ...{ startedAt: AT, reportedAt: AT, isComplete: true },
      },
    ],
    missing: t,
    events: [event, { ...event, invalidation }],
    policies: [{ coordinate: t, kind: t, variant: t, invalidatedBy: [t], policy }],
    entry: {
      ...{ state: t, use: t, negative: true, ageMs: 1, freshForMs: -1, servableForMs: null, loadMs: 1 },
      ...{ storedBytes: 1, variant: t, digest: t },
      reasons: [{ reason: t, since: AT, tag: t, invalidation: { ...event, invalidation } }],
      tags: [{ text: t, digest: t, invalidatedAt: AT, isSoft: true }],
      lease: { process: t, since: AT, endsInMs: 1, hasWaiters: true },
    },
  };
}
