import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { compiledPath } from "./programs.js";

/** The body of a GraphQL request to a shop. */
export interface ShopRequest {
  readonly query?: string;
  readonly variables?: Record<string, unknown>;
  readonly operationName?: string;
  readonly extensions?: Record<string, unknown>;
}

export interface ShopResponse {
  readonly data?: Record<string, unknown> | null;
  readonly errors?: readonly { readonly message: string }[];
  readonly extensions?: { readonly cached?: Record<string, unknown> };
}

/** One example of `examples/servers`, running as a separate operating system process. */
export interface ShopProcess {
  /** Where it answers GraphQL. */
  readonly url: string;
  /** Sends one operation over HTTP, as `user` if given. */
  ask(request: ShopRequest, user?: string): Promise<ShopResponse>;
  /** Sends several operations as one HTTP request. */
  askAll(batch: readonly ShopRequest[], user?: string): Promise<readonly ShopResponse[]>;
  /** How often this process has loaded from its source. */
  loads(): Promise<number>;
  /** Sends SIGTERM, as a deployment does, and returns the exit code. */
  stop(): Promise<number | null>;
}

/** Starts an example and resolves once it has printed its address. */
export async function startShop(name: string, env: Readonly<Record<string, string>>): Promise<ShopProcess> {
  const child = spawn(process.execPath, [await compiledPath(`examples/servers/${name}.ts`)], {
    env: { ...process.env, ...env, PORT: "0" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const url = await urlOf(child, name);
  const send = async (body: unknown, user?: string): Promise<unknown> => {
    const headers = { "content-type": "application/json", ...(user === undefined ? {} : { "x-user": user }) };
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
    return response.json();
  };
  const ask = async (request: ShopRequest, user?: string): Promise<ShopResponse> =>
    (await send(request, user)) as ShopResponse;
  return {
    url,
    ask,
    askAll: async (batch, user) => (await send(batch, user)) as ShopResponse[],
    loads: async () => (await ask({ query: "{ loads }" })).data?.loads as number,
    stop: () => terminate(child),
  };
}

async function urlOf(child: ChildProcess, name: string): Promise<string> {
  let output = "";
  return new Promise((resolve, reject) => {
    const onOutput = (chunk: Buffer): void => {
      output += chunk;
      const url = /at (http:\S+\/graphql)\./.exec(output)?.[1];
      if (url !== undefined) resolve(url);
    };
    child.stdout?.on("data", onOutput);
    child.stderr?.on("data", onOutput);
    child.once("exit", (code) => reject(new Error(`${name} exited with code ${code}:\n${output}`)));
  });
}

async function terminate(child: ChildProcess): Promise<number | null> {
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  const [code] = await exited;
  return code as number | null;
}
