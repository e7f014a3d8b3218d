import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { AgentCommand, AgentReport, AgentSetup } from "./agent-protocol.js";
import { placeAlone } from "./placement.js";
import type { Load } from "./source.js";

/** The program of measured processes: loaders in `agent`, GraphQL servers in `server-agent`. */
export type Program = "agent" | "server-agent";
/**
 * - To save memory, V8 discards the compiled code of a process that is idle for some seconds, as each is here while the others
 *   are measured. A server with requests is never idle for so long.
 * - Eight callers that continue together allocate as much as a young generation of the default size holds. A few KB per request
 *   then decide at what moment of their requests each collection falls, and so whether it finds next to nothing or all of them:
 *   the same program took twice the time in one process as in the next.
 */
const V8_OPTIONS = ["--no-memory-reducer", "--min-semi-space-size=64", "--max-semi-space-size=64"];
/** The time limit of a command. A scenario whose command takes longer is aborted. */
const COMMAND_TIMEOUT_MS = 180_000;

type Reply = { readonly id: number; readonly report?: AgentReport; readonly failure?: string };

/** Processes of one contender that use the same keys on the same Redis. */
export class Fleet {
  readonly #children: readonly ChildProcess[];
  readonly #pending = new Map<number, { readonly receive: (reply: Reply) => void; readonly timer: NodeJS.Timeout }>();
  #commands = 0;

  private constructor(children: readonly ChildProcess[]) {
    this.#children = children;
    for (const child of children) child.on("message", (reply: Reply) => this.#pending.get(reply.id)?.receive(reply));
  }

  /** Starts the processes and resolves when all of them are connected. Rejects, and ends them, if one is not. */
  static async start(
    count: number,
    setup: AgentSetup,
    execArgv: readonly string[] = [],
    program: Program = "agent",
  ): Promise<Fleet> {
    const file = fileURLToPath(new URL(`./dist/bench/${program}.js`, import.meta.url));
    const env = { ...process.env, NODE_ENV: "production", SETUP: JSON.stringify(setup) };
    const children = Array.from({ length: count }, () => fork(file, { env, execArgv: [...V8_OPTIONS, ...execArgv] }));
    const fleet = new Fleet(children);
    const signal = AbortSignal.timeout(COMMAND_TIMEOUT_MS);
    const ready = (child: ChildProcess): Promise<unknown> =>
      Promise.race([
        once(child, "message", { signal }),
        once(child, "exit").then(([code]) => Promise.reject(new Error(`${setup.contender} exited with code ${code}`))),
      ]);
    try {
      await Promise.all(children.map(ready));
    } catch (error) {
      await fleet.stop();
      throw error;
    }
    const [only] = children;
    if (count === 1 && only?.pid !== undefined) placeAlone(only.pid);
    return fleet;
  }

  /** Sends a command to one process. Rejects if the command fails or takes longer than COMMAND_TIMEOUT_MS. */
  send(index: number, command: AgentCommand): Promise<AgentReport> {
    const id = this.#commands++;
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#pending.delete(id);
      };
      const timer = setTimeout(() => {
        end();
        reject(new Error(`the command ${command.do} did not complete within ${COMMAND_TIMEOUT_MS} ms`));
      }, COMMAND_TIMEOUT_MS);
      const receive = ({ report, failure }: Reply): void => {
        end();
        if (report === undefined) reject(new Error(failure));
        else resolve(report);
      };
      this.#pending.set(id, { receive, timer });
      this.#children[index]?.send({ id, command });
    });
  }

  /** Sends a command to all processes. */
  sendAll(command: AgentCommand): Promise<AgentReport[]> {
    return Promise.all(this.#children.map((_, index) => this.send(index, command)));
  }

  /** Returns the loads of all processes since the previous call, in chronological order. */
  async takeLoads(): Promise<Load[]> {
    const reports = await this.sendAll({ do: "loads" });
    return reports.flatMap(({ loads }) => loads).sort((a, b) => a.at - b.at);
  }

  get size(): number {
    return this.#children.length;
  }

  /** Ends the processes. Commands under way never settle: nobody waits for those of a scenario that has failed. */
  async stop(): Promise<void> {
    for (const { timer } of this.#pending.values()) clearTimeout(timer);
    await Promise.all(
      this.#children.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exited = once(child, "exit");
        child.kill("SIGKILL");
        await exited;
      }),
    );
  }
}
