/** One measured process with GraphQL servers. Like agent.ts, with a variant of servers/variants.ts in place of a contender. */
import { Redis } from "ioredis";
import { type AgentCommand, type AgentReport, type AgentSetup, EMPTY_REPORT, type Serving } from "./agent-protocol.js";
import { FilmSource } from "./servers/film-schema.js";
import { type Run, type Runtime, startRuntime } from "./servers/runtimes.js";
import { VARIANTS } from "./servers/variants.js";

const setup = JSON.parse(process.env.SETUP ?? "{}") as AgentSetup;
const variant = VARIANTS.find(({ name }) => name === setup.contender);
if (variant === undefined) throw new Error(`server-agent: unknown variant ${setup.contender}`);
const client = new Redis(setup.port, "127.0.0.1", { maxRetriesPerRequest: 1, enableOfflineQueue: false });
client.on("error", () => undefined);
await new Promise((resolve) => client.once("ready", resolve));
const films = new FilmSource();
const runs = new Map<string, Promise<Run>>();
const cursors = new Map<string, number>();

/** All servers of the process share the schema and its cache. */
const served = variant.open({ client, prefix: setup.prefix, films });

/** Starts each server when it is used first. */
function runOf(runtime: string): Promise<Run> {
  const run = runs.get(runtime) ?? startRuntime[runtime as Runtime](served);
  runs.set(runtime, run);
  return run;
}

async function serve({ runtime, callers, times, ids, step, before = 0 }: Serving): Promise<Partial<AgentReport>> {
  const run = await runOf(runtime);
  const cursor = `${runtime} ${step}`;
  const call = async (requests: number): Promise<void> => {
    for (let nth = 0; nth < requests; nth++) {
      const from = cursors.get(cursor) ?? 0;
      cursors.set(cursor, (from + step) % ids);
      await run({ from, ids });
    }
  };
  const callAll = async (requests: number): Promise<void> => {
    await Promise.all(Array.from({ length: callers }, () => call(requests)));
  };
  // This process was idle while others were measured.
  if (before > 0) await callAll(before);
  const loads = films.loads;
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  await callAll(times);
  const { user, system } = process.cpuUsage(cpu);
  return {
    elapsedMs: performance.now() - startedAt,
    cpuMs: (user + system) / 1e3,
    loads: [{ at: 0, keys: films.loads - loads }],
  };
}

process.on("message", ({ id, command }: { id: number; command: AgentCommand }) => {
  const done = command.do === "serve" ? serve(command) : Promise.reject(new Error(`server-agent: got ${command.do}`));
  done.then(
    (report) => process.send?.({ id, report: { ...EMPTY_REPORT, ...report } }),
    (error: unknown) => process.send?.({ id, failure: error instanceof Error ? error.stack : String(error) }),
  );
});
process.once("disconnect", () => process.exit(0));
process.send?.("ready");
