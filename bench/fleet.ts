import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { AgentSetup, Order, Report } from "./orders.js";
import type { Load } from "./source.js";

const AGENT = fileURLToPath(new URL("./dist/bench/agent.js", import.meta.url));
/** No order takes longer; one that does has gone wrong, and its scenario is given up. */
const ORDER_MS = 90_000;

type Answer = { readonly id: number; readonly report?: Report; readonly failure?: string };

/** Some processes of one contender, which work on the same keys of the same Redis. */
export class Fleet {
  readonly #children: readonly ChildProcess[];
  readonly #asked = new Map<number, (answer: Answer) => void>();
  #orders = 0;

  private constructor(children: readonly ChildProcess[]) {
    this.#children = children;
    for (const child of children) child.on("message", (answer: Answer) => this.#asked.get(answer.id)?.(answer));
  }

  /** Resolves when all processes are connected. */
  static async start(count: number, setup: AgentSetup, execArgv: readonly string[] = []): Promise<Fleet> {
    const env = { ...process.env, SETUP: JSON.stringify(setup) };
    const children = Array.from({ length: count }, () => fork(AGENT, { env, execArgv: [...execArgv] }));
    const ready = (child: ChildProcess): Promise<unknown> =>
      Promise.race([
        once(child, "message"),
        once(child, "exit").then(([code]) => Promise.reject(new Error(`${setup.contender} ended with ${code}`))),
      ]);
    await Promise.all(children.map(ready));
    return new Fleet(children);
  }

  /** Gives one process an order. Rejects if the order fails, or takes too long. */
  ask(index: number, order: Order): Promise<Report> {
    const id = this.#orders++;
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#asked.delete(id);
      };
      const timer = setTimeout(() => {
        end();
        reject(new Error(`the order to ${order.do} was not done within ${ORDER_MS} ms`));
      }, ORDER_MS);
      this.#asked.set(id, ({ report, failure }) => {
        end();
        if (report === undefined) reject(new Error(failure));
        else resolve(report);
      });
      this.#children[index]?.send({ id, order });
    });
  }

  /** Gives all processes the same order. */
  all(order: Order): Promise<Report[]> {
    return Promise.all(this.#children.map((_, index) => this.ask(index, order)));
  }

  /** The loads of all processes since this was last asked, in their order in time. */
  async loads(): Promise<Load[]> {
    const reports = await this.all({ do: "loads" });
    return reports.flatMap(({ loads }) => loads).sort((a, b) => a.at - b.at);
  }

  get size(): number {
    return this.#children.length;
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#children.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const gone = once(child, "exit");
        child.kill("SIGKILL");
        await gone;
      }),
    );
  }
}
