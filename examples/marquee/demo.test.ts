import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ROOT } from "../../test/project/source.js";
import { Chromium, findChromium, type Page } from "../../test/support/chromium.js";
import { sharedServer } from "../../test/support/shared-servers.js";

const chromium = findChromium();
if (chromium === undefined)
  console.warn("no Chromium: set CHROMIUM or run apt-get install chromium to test the page of the demo");
const inBrowser = describe.skipIf(chromium === undefined); // needs Chromium: see the warning
/** A program that is no Redis server, so that the demo finds none. */
const NO_REDIS = { REDIS_SERVER: process.execPath };

/** Starts the demo as `npm start` does, and returns its address and what it has printed. */
async function startDemo(env: Record<string, string> = {}): Promise<{ url: string; printed: string }> {
  const { REDIS_URL: _, ...inherited } = process.env;
  const child: ChildProcess = spawn(process.execPath, ["--import", "tsx", join(ROOT, "examples/marquee/demo.ts")], {
    cwd: ROOT,
    env: { ...inherited, PORT: "0", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(async () => {
    const exited = once(child, "exit");
    child.kill();
    await exited;
  });
  let printed = "";
  for await (const chunk of child.stdout ?? []) {
    printed += chunk;
    if (printed.endsWith("\n")) break;
  }
  const [url = "no address"] = /http:\S+\//.exec(printed) ?? [];
  return { url, printed };
}

it("prints one address, where it serves a page that loads nothing from elsewhere, and GraphQL", async () => {
  const { url, printed } = await startDemo();
  expect(printed).toMatch(/^The demo is at http:\/\/127\.0\.0\.1:\d+\/\. [^.]+\.\n$/);
  for (const file of ["", "page.css", "page.js"]) {
    const response = await fetch(url + file);
    expect(response.headers.get("content-security-policy")).toMatch(/^default-src 'none'; script-src 'self';/);
    expect(await response.text()).not.toMatch(/https?:|\/\/\w+\./);
  }
  const headers = { "content-type": "application/json", "x-user": "bob" };
  const body = JSON.stringify({ query: "{ me { watched { title } } }", extensions: { cached: true } });
  const answer = await fetch(`${url}graphql`, { method: "POST", headers, body });
  expect(await answer.json()).toEqual({
    data: { me: { watched: [{ title: "Playtime" }, { title: "Psycho" }] } },
    extensions: { cached: { "Visitor.watched": { loaded: 1 }, Film: { loaded: 2 } } },
  });
  const act = async (path: string): Promise<object> => {
    const asked = JSON.stringify({ query: "{ top { title } }" });
    return (await fetch(url + path, { method: "POST", headers, body: asked })).json() as Promise<object>;
  };
  await act("ask");
  expect(await act("ask")).toMatchObject({ statements: [] });
  expect(await act("clear")).toEqual({});
  expect(await act("ask")).not.toMatchObject({ statements: [] });
  const foreign = await fetch(`${url}stop-store`, { method: "POST", headers: { "content-type": "text/plain" }, body });
  expect(foreign.status).toBe(404);
});

it("says which port is in use", async () => {
  const { url } = await startDemo(NO_REDIS);
  const env = { ...process.env, ...NO_REDIS, PORT: new URL(url).port };
  const second = spawn(process.execPath, ["--import", "tsx", "examples/marquee/demo.ts"], { cwd: ROOT, env });
  let output = "";
  second.stderr.on("data", (text) => {
    output += text;
  });
  expect(await once(second, "exit")).toEqual([1, null]);
  expect(output).toContain(`port ${env.PORT} is in use`);
});

inBrowser("the page of the demo in Chromium", () => {
  let browser: Chromium;
  beforeAll(() => {
    browser = Chromium.launch(chromium ?? "");
  });
  afterAll(() => browser.close());

  /** The visible text of a card, once its work is done. */
  async function card(page: Page, id: string): Promise<string> {
    const text = `document.querySelector('[aria-busy]') === null ? document.getElementById('${id}-result').innerText : ''`;
    await expect.poll(() => page.evaluate<string>(text)).not.toBe("");
    return page.evaluate<string>(text);
  }

  /** Waits until the page has asked for its first miss and hit. */
  const ready = (page: Page): Promise<void> =>
    expect
      .poll(() => page.evaluate("document.querySelectorAll('button[aria-disabled=false]').length"), { timeout: 20_000 })
      .toBeGreaterThan(0);

  async function open(env?: Record<string, string>): Promise<Page> {
    const { url } = await startDemo(env);
    const page = await browser.open(url);
    await ready(page);
    return page;
  }

  it("answers every button with what the cache did", async () => {
    const page = await open();
    await expect.poll(() => page.text()).toMatch(/Store: Redis [\d.]+, started by this demo/);
    await expect.poll(() => page.text()).toMatch(/Server processes: 2\n/);
    const schema = await page.evaluate<string>("document.getElementById('schema').innerText");
    expect(schema).toMatch(/^type Query \{\n {2}top.*\n {4}@cached\(.*\n.*\n\}\ntype Mutation \{\n.*@invalidates\(/);
    expect(schema).toMatch(/\ntype Visitor \{\n.*@cached\(.*\n\}\s*$/);

    expect(await card(page, "cold")).toMatch(
      /a miss, then a hit\.\s+Cold[\s\S]*4 SQL statements[\s\S]*Warm[\s\S]*no SQL/,
    );

    await page.click("Ask as guest");
    const guest = await card(page, "ask");
    expect(guest).toMatch(/Answered a guest in [\d.]+ ms with 4 SQL statements\./);
    expect(guest).toMatch(/Seven Samurai 1954, Akira Kurosawa\s+★ 9\.15/);
    expect(guest).toContain("Guests have no list of their own.");
    await page.click("Ask as Alice");
    await expect.poll(() => card(page, "ask")).toMatch(/Alice has watched: Blade Runner, Spirited Away, Vertigo/);
    expect(await card(page, "ask")).toMatch(/Query\.top\s+1 hit[\s\S]*Visitor\.watched\s+1 loaded/);
    expect(await card(page, "ask")).toContain("16 entries: 15 shared by all visitors, and 1 of Alice alone.");
    await page.click("Ask as Bob");
    await expect.poll(() => card(page, "ask")).toMatch(/Bob has watched: Playtime, Psycho/);
    await page.click("Ask as Bob");
    await expect.poll(() => card(page, "ask")).toMatch(/Answered Bob in [\d.]+ ms with no SQL/);
    await page.click("Clear the cache");
    await expect.poll(() => card(page, "ask")).toContain("The cache is empty");

    await page.click("Compare cold and warm");
    expect(await card(page, "cold")).toMatch(
      /Cold\s+[\d.]+ ms\s+4 SQL statements[\s\S]*Warm\s+[\d.]+ ms\s+no SQL\s+12 entries/,
    );

    await page.click("Send 200 requests, twice");
    expect(await card(page, "burst")).toMatch(
      /Without the cache\s+[\d.,]+ ms\s+800 SQL statements[\s\S]*With the cache\s+[\d.,]+ ms\s+4 SQL statements/,
    );

    await page.click("Ask process 1, then process 2");
    const two = await card(page, "two");
    const [, one, other] =
      /Process 1[\s\S]*4 SQL[\s\S]*process id (\d+)\s+Process 2[\s\S]*no SQL[\s\S]*process id (\d+)/.exec(two) ?? [];
    expect(Number(one)).toBeGreaterThan(0);
    expect(other).not.toBe(one);

    await page.click("Compare the two");
    expect(await card(page, "whole")).toMatch(/Fields[\s\S]*12 entries read\s+Whole response[\s\S]*1 entry read/);

    await page.fill("Film", "8");
    await page.fill("Stars", "10");
    await page.click("Rate as Alice");
    const rated = await card(page, "rate");
    expect(rated).toContain("Rated Ran. Invalidated the tags Film:8 and Ratings.");
    expect(rated).toMatch(/ran 2 SQL statements/);
    expect(rated).toMatch(/Query\.top\s+1 loaded/);

    // As another tab does, which this one does not know of.
    await page.evaluate(
      "fetch('stop-store', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })",
    );
    await page.click("Stop Redis");
    expect(await card(page, "store")).toMatch(
      /(running\s+\S+ ms\s+12 entries\s+no SQL\s+){2}(stopped\s+\S+ ms\s+no entries\s+4 SQL statements\s+){2}/,
    );
    await expect.poll(() => page.text()).toContain("Store: Redis is stopped");
    await page.click("Start Redis");
    await expect.poll(() => card(page, "store")).toMatch(/running again\s+\S+ ms\s+12 entries\s+no SQL/);
    expect(await page.text()).not.toMatch(/\[object|undefined|NaN/);
    const inspector = await fetch(new URL("/inspector", await page.evaluate<string>("location.href")));
    expect((await page.text()).includes("Open the inspector")).toBe(inspector.ok);
    expect(page.complaints).toEqual([]);
  });

  it("has buttons that the keyboard reaches and presses", async () => {
    const page = await open();
    await page.press("Tab");
    expect(await page.evaluate("document.activeElement.innerText")).toBe("Ask as guest");
    await page.press("Enter");
    expect(await card(page, "ask")).toContain("Answered a guest");
    expect(await page.evaluate("document.activeElement.innerText")).toBe("Ask as guest");
    await page.evaluate("document.getElementById('stop').focus()");
    await page.press("Enter");
    await expect.poll(() => page.evaluate("document.activeElement.innerText")).toBe("Start Redis");
    expect(page.complaints).toEqual([]);
  });

  it("fits a phone, without scrolling sideways", async () => {
    const { url } = await startDemo(NO_REDIS);
    const page = await browser.open(url, { width: 390, height: 800 });
    await ready(page);
    await page.click("Ask as Alice");
    await card(page, "ask");
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
  });

  it("says what one process cannot show, where there is no Redis server", async () => {
    const page = await open(NO_REDIS);
    const text = await page.text();
    expect(text).toContain("Store: memory of the process");
    expect(await card(page, "two")).toMatch(/^There is one process: the demo has found no redis-server/);
    expect(await card(page, "store")).toMatch(/^There is no store to stop/);
    expect(text).not.toMatch(/Stop Redis|Start Redis|Ask process 1/);
    await page.click("Compare cold and warm");
    expect(await card(page, "cold")).toMatch(/4 SQL statements[\s\S]*no SQL/);
    expect(page.complaints).toEqual([]);
  });

  it("shares a Redis that it was given, and does not stop it", async () => {
    const { host, port } = await sharedServer("redisStandalone");
    const page = await open({ REDIS_URL: `redis://${host}:${port}` });
    expect(await page.text()).toContain("Store: Redis, from REDIS_URL");
    expect(await card(page, "store")).toBe("The demo stops only a Redis that it has started itself.");
    await page.click("Ask process 1, then process 2");
    expect(await card(page, "two")).toMatch(/4 SQL statements[\s\S]*no SQL/);
    expect(page.complaints).toEqual([]);
  });
});
