import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { Readable, Writable } from "node:stream";

/** Returns the path of a Chromium: CHROMIUM, or one on PATH. Undefined if there is none. */
export function findChromium(): string | undefined {
  const { CHROMIUM, PATH = "" } = process.env;
  if (CHROMIUM !== undefined) return CHROMIUM;
  const folders = [...PATH.split(delimiter), "/usr/bin"];
  return orMissed(
    "Chromium",
    ["chromium", "chromium-browser", "google-chrome"]
      .flatMap((name) => folders.map((folder) => join(folder, name)))
      .find((path) => existsSync(path)),
  );
}

/** Where EVERY_TEST is set, a program that a test needs may not be missing. */
export function orMissed(program: string, path: string | undefined): string | undefined {
  if (path === undefined && process.env.EVERY_TEST === "1")
    throw new Error(`EVERY_TEST: expected a ${program}, found none`);
  return path;
}

/** Without these, it asks hosts of the network when it starts. */
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--remote-debugging-pipe",
];

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly sessionId?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string };
}

/** A headless Chromium, driven over pipes by its DevTools protocol. */
export class Chromium {
  readonly #process: ChildProcess;
  readonly #input: Writable;
  readonly #folder: string;
  readonly #waiting = new Map<number, { resolve(result: object): void; reject(error: Error): void }>();
  readonly #listeners = new Set<(message: Message) => void>();
  #lastId = 0;

  private constructor(path: string) {
    this.#folder = mkdtempSync(join(tmpdir(), "graphql-cached-chromium-"));
    this.#process = spawn(path, [...FLAGS, `--user-data-dir=${this.#folder}`, "about:blank"], {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    });
    this.#input = this.#process.stdio[3] as Writable;
    let rest = "";
    (this.#process.stdio[4] as Readable).setEncoding("utf8").on("data", (text: string) => {
      const messages = (rest + text).split("\0");
      rest = messages.pop() ?? "";
      for (const one of messages) this.#take(JSON.parse(one) as Message);
    });
    this.#process.on("exit", () => {
      for (const { reject } of this.#waiting.values()) reject(new Error("Chromium has ended"));
    });
  }

  static launch(path: string): Chromium {
    return new Chromium(path);
  }

  send(method: string, params: object = {}, sessionId?: string): Promise<Readonly<Record<string, unknown>>> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (result: object) => void, reject });
      this.#input.write(`${JSON.stringify({ id, method, params, ...(sessionId ? { sessionId } : {}) })}\0`);
    });
  }

  /** Opens a page of its own, without cookies. */
  async open(url: string, settings: PageSettings = {}): Promise<Page> {
    const { browserContextId } = await this.send("Target.createBrowserContext");
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank", browserContextId });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId as string);
    await page.load(url, settings);
    return page;
  }

  listen(listener: (message: Message) => void): void {
    this.#listeners.add(listener);
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    await this.send("Browser.close").catch(() => undefined);
    await ended;
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #take(message: Message): void {
    const { id, result, error } = message;
    if (id === undefined) {
      for (const listener of this.#listeners) listener(message);
      return;
    }
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(result ?? {});
    else waiting?.reject(new Error(error.message));
  }
}

export interface PageSettings {
  readonly width?: number;
  readonly height?: number;
  readonly isDark?: boolean;
}

/** A page in it, and what its console has reported as wrong. */
export class Page {
  /** Errors and warnings of scripts, of the network and of the content security policy. */
  readonly complaints: string[] = [];
  readonly #browser: Chromium;
  readonly #session: string;

  constructor(browser: Chromium, session: string) {
    this.#browser = browser;
    this.#session = session;
    browser.listen(({ method, params = {}, sessionId }) => {
      if (sessionId !== session) return;
      if (method === "Runtime.exceptionThrown") this.complaints.push(JSON.stringify(params.exceptionDetails));
      if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(String(params.type)))
        this.complaints.push(JSON.stringify(params.args));
      if (method === "Log.entryAdded") this.complaints.push(JSON.stringify(params.entry));
    });
  }

  async load(url: string, { width = 1280, height = 900, isDark = false }: PageSettings): Promise<void> {
    for (const domain of ["Page", "Runtime", "Log"]) await this.#send(`${domain}.enable`);
    const metrics = { width, height, deviceScaleFactor: 1, mobile: width < 600 };
    await this.#send("Emulation.setDeviceMetricsOverride", metrics);
    const features = [{ name: "prefers-color-scheme", value: isDark ? "dark" : "light" }];
    await this.#send("Emulation.setEmulatedMedia", { features });
    await this.#send("Page.navigate", { url });
  }

  /** Runs an expression in the page, and returns its value. */
  async evaluate<Value>(expression: string): Promise<Value> {
    const { result, exceptionDetails } = (await this.#send("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    })) as { result: { value: Value }; exceptionDetails?: unknown };
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return result.value;
  }

  /** What a person can read. */
  text(): Promise<string> {
    return this.evaluate("document.body?.innerText ?? ''");
  }

  /** Goes to a part of the page, as a link to it would. */
  goTo(hash: string): Promise<unknown> {
    return this.evaluate(`void (location.hash = ${JSON.stringify(hash)})`);
  }

  /** Clicks the first button or link with this text. */
  click(text: string): Promise<unknown> {
    return this.evaluate(`(() => {
      const wanted = ${JSON.stringify(text)};
      const scope = document.querySelector("dialog[open]") ?? document;
      const all = [...scope.querySelectorAll("button, a")];
      const found = all.find((one) => one.innerText.trim() === wanted || one.ariaLabel === wanted);
      if (found === undefined) throw new Error("no button or link " + wanted + " among " + all.map((one) => one.innerText));
      found.click();
    })()`);
  }

  /** Puts text into the input with this label, as typing would. */
  fill(label: string, text: string): Promise<unknown> {
    return this.evaluate(`(() => {
      const found = [...document.querySelectorAll("label")].find((one) => one.innerText.trim().startsWith(${JSON.stringify(label)}));
      const input = found.querySelector("input, textarea, select");
      input.value = ${JSON.stringify(text)};
      input.dispatchEvent(new Event("input", { bubbles: true }));
    })()`);
  }

  async press(key: string): Promise<void> {
    for (const type of ["keyDown", "keyUp"]) {
      const code = { Tab: 9, Enter: 13, Escape: 27 }[key];
      await this.#send("Input.dispatchKeyEvent", {
        type,
        key,
        code: key,
        windowsVirtualKeyCode: code,
        ...(key === "Enter" && type === "keyDown" ? { text: "\r" } : {}),
      });
    }
  }

  async screenshot(): Promise<Buffer> {
    const { data } = await this.#send("Page.captureScreenshot", { format: "png" });
    return Buffer.from(data as string, "base64");
  }

  #send(method: string, params: object = {}): Promise<Readonly<Record<string, unknown>>> {
    return this.#browser.send(method, params, this.#session);
  }
}
