import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createCache } from "graphql-cached";
import { inspectorHandler } from "graphql-cached/inspector";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Chromium, findChromium, type Page, type PageSettings } from "../support/chromium.js";
import { inspectedServer, serve } from "../support/inspector-site.js";
import { startProgram } from "../support/programs.js";
import { waitForMessage } from "../support/real-processes.js";
import { RedisLab } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { afterCaches } from "../support/world.js";

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
  it("shows what loads most, the hottest key, why an entry is not served, and who has invalidated it", async () => {
    const { ask, url } = await inspectedServer(await sharedServer("redisStandalone"), `page-${randomUUID()}`);
    const page = await open(url);
    // Keys are counted from when the page asks.
    await see(page, /Reads are counted by key from now on/);
    for (let id = 1; id <= 5; id++) await ask(`{ movie(id: ${id}) }`);
    for (let nth = 0; nth < 9; nth++) await ask('{ top(genre: "noir") rare }');
    for (let nth = 0; nth < 3; nth++) await ask('{ top(genre: "noir") }');
    await ask("mutation { rename(id: 4) }");

    await see(page, /Hottest keys[\s\S]*Query\.top \{"genre":"noir"\}\s+12 reads/);
    await see(page, /Loads most[\s\S]*?Query\.movie\s+5 loads[\s\S]*?1 load\b/);
    await page.goTo("#fields");
    expect(await see(page, /Query\.movie[\s\S]*Query\.top/)).toMatch(/Loads ↓/);

    await page.goTo("#entry");
    await page.fill("Field or loader", "Query.movie");
    await page.fill("Arguments", '{"id": 4}');
    await page.click("Look up");
    const text = await see(page, /Stored, but not served|Not in the store/);
    expect(text).toMatch(/Why\s+One of its tags was invalidated after its load began\./);
    expect(text).toMatch(/Who invalidated it\s+@invalidates of Mutation\.rename in process \d+ on .+ ago/);
    expect(text).toContain("Movie:4");
    await page.fill("Arguments", '{"id": 5}');
    await page.click("Look up");
    expect(await see(page, /Fresh\. Requests get the stored value\./)).toMatch(
      /Age .+ · fresh for .+ more · then stale for up to/,
    );
    expect(page.complaints).toEqual([]);
  });

  it("says at each field why it is not cached: its mode, no identity, a refused value, keys that are not read twice", async () => {
    const { ask, cache, url } = await inspectedServer(await sharedServer("redisStandalone"), `page-${randomUUID()}`);
    cache.setMode("off", "Query.prices");
    await ask("{ basket large prices movie(id: 7) }");
    await ask("{ basket large prices movie(id: 7) }");
    for (let nth = 0; nth < 20; nth++) await ask(`{ top(genre: "${nth}") }`);
    const page = await open(url);
    const overview = await see(page, /Query\.large uncacheable/);
    expect(overview).toMatch(/Query\.basket no identity: it is PRIVATE, and the request has no identity/);
    expect(overview).toMatch(/Query\.prices mode off: every read calls the source/);
    expect(overview).toMatch(/Query\.prices\s+2 reads past the cache/);
    expect(overview).toMatch(/Loads saved\s+1\s/);
    await page.goTo("#fields");
    const fields = await see(page, /Query\.large\s+CACHED_VALUE_TOO_LARGE/);
    expect(fields).toMatch(/Query\.basket\s+no identity/);
    expect(fields).toMatch(/Query\.top\s+rarely hit/);
    expect(fields).not.toMatch(/Query\.movie\s+rarely hit/);
    expect(fields).toMatch(/Query\.prices\s+mode off/);
    await page.goTo("#entry?coordinate=Query.large&args=%7B%7D");
    await see(page, /is refused with CACHED_VALUE_TOO_LARGE, since it is larger than `storage\.maxValueBytes`/);
    await page.goTo("#entry?coordinate=Query.prices&args=%7B%7D");
    await see(
      page,
      /Query\.prices: 2 of 2 reads bypassed the cache: every read calls the source\.[\s\S]*Not in the store/,
    );
    expect(page.complaints).toEqual([]);
  });

  it("invalidates an entry after a confirmation, with the keyboard", async () => {
    const { ask, url } = await inspectedServer(await sharedServer("redisStandalone"), `page-${randomUUID()}`);
    await ask("{ movie(id: 7) }");
    const page = await open(`${url}#entry?coordinate=Query.movie&args=%7B%22id%22%3A7%7D`);
    await see(page, /Invalidate …/);
    const openDialog = (): Promise<unknown> =>
      page.evaluate("[...document.querySelectorAll('button')].find((one) => one.innerText === 'Invalidate …').focus()");
    await openDialog();
    await page.press("Enter");
    await see(page, /Invalidate the entry Query\.movie \{"id":7\}\?/);
    await page.press("Escape");
    await expect.poll(() => page.evaluate("document.querySelector('dialog') === null")).toBe(true);
    await expect.poll(() => page.evaluate("document.activeElement.innerText")).toBe("Invalidate …");
    await page.press("Enter");
    await see(page, /Softly: serve the old value/);
    await page.click("Invalidate");
    await see(page, /Invalidated the entry Query\.movie \{"id":7\}\./);
    expect(await see(page, /Not in the store/)).toMatch(/Who invalidated it\s+cacheInvalidate in process/);
    expect(page.complaints).toEqual([]);
  });

  it("says that a caller is denied, and shows nothing else", async () => {
    const cache = createCache();
    afterCaches(() => cache.close());
    const page = await open(await serve(inspectorHandler({ cache, allow: () => false })));
    const text = await see(page, /You may not look at this cache/);
    expect(text).toContain("`allow` of inspectorHandler does not admit this request");
    expect(text).not.toMatch(/Fields|Hot keys/);
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
    await see(page, /The store does not reply\.[\s\S]*Requests load from their sources meanwhile/);
    await page.goTo("#fleet");
    await see(page, /The server does not reply: /);
    await page.goTo("#fields");
    await see(page, /Query\.movie/);
    await page.goTo("#entry?coordinate=Query.movie&args=%7B%22id%22%3A7%7D");
    await see(page, /[Tt]he store did not reply|no reply/);
    await page.goTo("#activity");
    await see(page, /Events and invalidations/);
    expect(page.complaints).toEqual([]);
  });

  it("shows a fleet of four processes, and which of them was killed", async () => {
    const redis = await sharedServer("redisStandalone");
    const prefix = `page-${randomUUID()}`;
    const { ask, url } = await inspectedServer(redis, prefix);
    const env = { PORTS: String(redis.port), PREFIX: prefix, REPORT_EVERY_MS: "300" };
    const others = await Promise.all([1, 2, 3].map(() => startProgram("counting-process", env)));
    afterCaches(async () => {
      for (const child of others) child.kill("SIGKILL");
    });
    await Promise.all(others.map((child) => waitForMessage(child, "ready")));
    await ask("{ movie(id: 7) }");
    const page = await open(`${url}#fleet`);
    const [killed, ...alive] = others as [ChildProcess, ...ChildProcess[]];
    await see(page, new RegExp(`\\s${killed.pid}\\s+reports`));
    await see(page, /4 processes/);
    killed.kill("SIGKILL");
    const text = await see(page, new RegExp(`\\s${killed.pid}\\s+ended`));
    for (const { pid } of alive) expect(text).toMatch(new RegExp(`\\s${pid}\\s+reports`));
    await page.goTo("#overview");
    await see(page, /Processes\s+3\s+that report/);
    expect(page.complaints).toEqual([]);
  });

  it("says what a server of an older release lacks, and shows the rest", async () => {
    const url = await serve(inspectorHandler({ endpoint: await olderEndpoint(), allow: () => true }));
    const page = await open(url);
    await see(page, /Query\.older\s+1 load/);
    await see(page, /The inspection of this server has no `hotKeys`/);
    for (const [hash, part] of [
      ["#keys", "hotKeys"],
      ["#advice", "advice"],
      ["#activity", "leases"],
      ["#fleet", "store"],
    ] as const) {
      await page.goTo(hash);
      await see(page, new RegExp(`has no \`${part}\`, or an older form of it; update graphql-cached there`));
    }
    await page.goTo("#fields");
    await see(page, /Query\.older/);
    expect(page.complaints).toEqual([]);
  });

  it("shows names, keys, tags and errors of elsewhere as text, whatever is in them", async () => {
    const page = await open(
      await serve(
        inspectorHandler({
          endpoint: await hostileEndpoint(),
          allow: () => true,
          allowInvalidation: () => true,
        }),
      ),
    );
    for (const hash of [
      "#overview",
      "#keys",
      "#advice",
      "#activity",
      "#fleet",
      "#fields",
      "#entry?coordinate=x&id=7",
    ]) {
      await page.goTo(hash);
      await see(page, /<img src=x onerror=window\.hacked=1>/);
    }
    await page.click("Look again");
    await page.goTo("#fields");
    await page.evaluate("void document.querySelector('.row-toggle')?.click()");
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

  it("shows what to change as a diff, with what it saves, and why there is no advice for the others", async () => {
    const lifetimes = (maxAge: number, loadsPerSecond: number, maxStaleRatio: number) => ({
      ...{ maxAge, staleWhileRevalidate: 0, loadsPerSecond, staleRatio: 0, maxStaleRatio },
    });
    const advice = [
      {
        coordinate: "Query.price",
        kind: "LONGER",
        reason: "No change was seen in 46 h of watching its values.",
        diff: "  type Query {\n-   price @cached(maxAge: 300)\n+   price @cached(maxAge: 3600)",
        current: lifetimes(300, 0.03, 0.003),
        proposed: lifetimes(3_600, 0.0028, 0.032),
        saving: { loadsPerSecond: 0.0272, loadMsPerSecond: 10 },
      },
      {
        ...{ coordinate: "Query.rare", kind: "NONE", reason: "Too few reads.", diff: null },
        ...{ current: lifetimes(60, 0.001, 0), proposed: null, saving: null },
      },
    ];
    const sampled = { samples: 4_232, stale: 1, staleRatio: 1 / 4_232, staleAgeMs: { p50Ms: 12_000 } };
    const fields = [
      { coordinate: "Query.price", sampled },
      { coordinate: "Query.rare", sampled: null },
    ];
    const url = await serve(
      inspectorHandler({
        endpoint: await endpoint({ advice, fields, total: stats(7), stats: stats(7) }),
        allow: () => true,
      }),
    );
    const page = await open(`${url}#advice`);
    const text = await see(page, /Query\.price\s+longer[\s\S]*Query\.rare[\s\S]*Too few reads\./);
    expect(text).toMatch(/- {3}price @cached\(maxAge: 300\)\s*\n\+ {3}price @cached\(maxAge: 3600\)/);
    expect(text).toContain("Loads: 108 an hour, then 10 an hour, which saves 36 s of load time an hour.");
    expect(text).toContain("Sampled: 1 of 4,232 hits were outdated, half of them older than 12 s.");
    expect(page.complaints).toEqual([]);
  });

  it("shows a thousand fields, on a phone as well", async () => {
    const fields = Array.from({ length: 1_000 }, (_, nth) => fieldNamed(`Query.field${nth}`, nth));
    const url = await serve(
      inspectorHandler({ endpoint: await endpoint({ fields, total: stats(7), stats: stats(7) }), allow: () => true }),
    );
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
    for (const hash of ["#overview", "#fields", "#entry", "#keys", "#advice", "#activity", "#fleet"]) {
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

const stats = (reads: number) => ({
  ...{
    reads,
    hit: reads,
    stale: 0,
    staleIfError: 0,
    loaded: 0,
    coalesced: 0,
    bypassed: 0,
    loads: reads,
    failedLoads: 0,
  },
  ...{ hitRatio: 1, loadsSaved: 0, refusedStores: 0, storeFailures: 0, storedBytes: 1, readBytes: 1, missing: [] },
  ...{ since: AT, until: AT, processes: 1, bypasses: [], loadMs: DURATIONS, waitMs: DURATIONS },
});
const AT = "2026-11-26T00:00:00.000Z";
const DURATIONS = { count: 1, meanMs: 1, p50Ms: 1, p90Ms: 1, p99Ms: 1 };

const fieldNamed = (coordinate: string, reads: number) => ({
  ...{ coordinate, maxAge: 60, scope: "PUBLIC", stats: stats(reads), bypasses: [] },
  ...{ variant: "v", breaker: [], policy: null },
});

/** Answers every question with the same parts, whatever it asks for. */
const endpoint = (inspection: object): Promise<string> =>
  serve((request, response) => {
    request.resume();
    request.once("end", () => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ data: { cacheInspection: inspection } }));
    });
  });

/** Knows the fields and their counts only. */
const olderEndpoint = (): Promise<string> =>
  serve(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const isKnown =
      /cacheInspection \{ (fields \{ coordinate \}|fields \{ coordinate maxAge stats|stats \{|__typename)/.test(text);
    const unknown = { errors: [{ message: 'Cannot query field "x" on type "CacheInspection".' }] };
    const known = { fields: [fieldNamed("Query.older", 1)], stats: stats(1) };
    response.writeHead(isKnown ? 200 : 400, { "content-type": "application/json" });
    response.end(JSON.stringify(isKnown ? { data: { cacheInspection: known } } : unknown));
  });

const HOSTILE = `</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\u202Ejavascript:alert(1)"'`;

/** Has markup, scripts and characters that reverse text in every place where a server can send text. */
function hostileEndpoint(): Promise<string> {
  const t = HOSTILE;
  const process = {
    id: t,
    isThis: true,
    host: t,
    pid: 1,
    version: t,
    nodeVersion: t,
    startedAt: AT,
    reportedAt: AT,
    isAlive: true,
    missing: t,
  };
  const invalidation = {
    id: t,
    at: AT,
    tookMs: 1,
    kind: t,
    via: t,
    mutation: t,
    process,
    isConfirmed: false,
    isClear: false,
    coordinates: [t],
    keys: [t],
    tags: [t],
    nameCount: 1,
  };
  const policy = {
    maxAge: 1,
    maxAgeLimit: 1,
    staleWhileRevalidate: 1,
    refresh: t,
    neverExpires: false,
    staleIfError: 1,
    negativeMaxAge: 1,
    jitter: 0.5,
    earlyRefresh: 1,
    scope: t,
    readOnly: false,
    key: [t],
    tags: [t],
    profile: t,
    version: t,
    followsHints: false,
  };
  const breaker = { process: t, state: t, since: AT };
  const failure = { at: AT, message: t };
  const bypasses = [{ reason: t, reads: 1 }];
  return endpoint({
    total: stats(1),
    stats: { ...stats(1), bypasses, missing: [t] },
    fields: [{ ...fieldNamed(t, 1), scope: t, variant: t, policy, breaker: [breaker], bypasses }],
    hotKeys: {
      keys: [{ coordinate: t, digest: t, reads: 1, maxError: 0, args: { [t]: t }, source: { [t]: t }, id: t }],
      reads: 1,
      maxError: 1,
      since: AT,
    },
    leases: [{ process: t, coordinate: t, digest: t, state: t, since: AT, forMs: 1, isRefresh: true, waiters: 1 }],
    states: [
      {
        process: t,
        at: AT,
        leases: 1,
        queues: { waitingReaders: 1, waitingKeys: 1, unleasedRunning: 1, unleasedQueued: 1, enqueuing: 1 },
        nearCache: { entries: 1, maxEntries: 1, bytes: 1, maxBytes: 1, hits: 1, isLive: false, confirmedAt: t },
        unconfirmedInvalidations: { keys: 1, tags: 1, coordinates: 1, everything: false, since: t },
      },
    ],
    processes: [process],
    events: [
      { process: t, name: t, at: AT, firstAt: t, count: 2, coordinate: t, digest: t, node: t, detail: t, error: t },
    ],
    invalidations: { since: AT, isThisProcessOnly: true, count: 1, items: [invalidation] },
    store: {
      name: t,
      nodes: [
        {
          node: t,
          serverMissing: t,
          server: null,
          connections: [
            {
              process: t,
              breaker,
              latency: null,
              operations: 1,
              failures: 1,
              lastFailure: failure,
              lastConnectionError: failure,
            },
          ],
        },
      ],
    },
    entry: {
      ...{
        state: "VALUE",
        negative: true,
        ageMs: 1,
        freshForMs: -1,
        loadMs: 1,
        valueBytes: 1,
        leaseForMs: 1,
        outdated: true,
        stale: true,
      },
      ...{ use: t, reason: t, explanation: t, servableForMs: null, variant: t, digest: t, invalidation },
      lease: { since: t, endsInMs: 1, hasWaiters: true, waiters: null, process },
      tags: { static: [t], resultCount: 1 },
    },
  });
}
