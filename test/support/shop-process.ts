import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** What a request to a shop may say, besides its query. */
export interface Asked {
  readonly query?: string;
  readonly variables?: Record<string, unknown>;
  readonly operationName?: string;
  readonly extensions?: Record<string, unknown>;
}

export interface Answer {
  readonly data?: Record<string, unknown> | null;
  readonly errors?: readonly { readonly message: string }[];
  readonly extensions?: { readonly cached?: Record<string, unknown> };
}

/** One example of `examples/servers` as a process of the operating system. */
export interface ShopProcess {
  /** Sends one operation over HTTP, as that user if there is one. */
  ask(asked: Asked, user?: string): Promise<Answer>;
  /** Sends several operations as one HTTP request. */
  askAll(batch: readonly Asked[], user?: string): Promise<readonly Answer[]>;
  /** How often this process has asked its source. */
  loads(): Promise<number>;
  /** Asks it to end, as a deployment does; answers its exit code. */
  stop(): Promise<number | null>;
}

/** Starts an example and resolves once it says where it is. */
export async function startShop(name: string, env: Readonly<Record<string, string>>): Promise<ShopProcess> {
  const program = fileURLToPath(new URL(`../../examples/servers/${name}.ts`, import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", program], {
    env: { ...process.env, ...env, PORT: "0" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const url = await addressOf(child, name);
  const send = async (body: unknown, user?: string): Promise<unknown> => {
    const headers = { "content-type": "application/json", ...(user === undefined ? {} : { "x-user": user }) };
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
    return response.json();
  };
  const ask = async (asked: Asked, user?: string): Promise<Answer> => (await send(asked, user)) as Answer;
  return {
    ask,
    askAll: async (batch, user) => (await send(batch, user)) as Answer[],
    loads: async () => (await ask({ query: "{ loads }" })).data?.loads as number,
    stop: () => ended(child),
  };
}

async function addressOf(child: ChildProcess, name: string): Promise<string> {
  let said = "";
  return new Promise((resolve, reject) => {
    const take = (chunk: Buffer): void => {
      said += chunk;
      const url = /at (http:\S+\/graphql)\./.exec(said)?.[1];
      if (url !== undefined) resolve(url);
    };
    child.stdout?.on("data", take);
    child.stderr?.on("data", take);
    child.once("exit", (code) => reject(new Error(`${name} ended with ${code}:\n${said}`)));
  });
}

async function ended(child: ChildProcess): Promise<number | null> {
  const gone = once(child, "exit");
  child.kill("SIGTERM");
  const [code] = await gone;
  return code as number | null;
}
