import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** The commands of a measured process, by name. */
export type Commands = Readonly<Record<string, (argument: never) => Promise<unknown>>>;

/** What a program that measures contenders is started with. */
export interface Setup {
  readonly contender: string;
  readonly prefix: string;
}

/** A program of measured processes, which exports `open(setup, client)`: a promise of its commands. */
export interface Program<ProgramSetup extends Setup, ProgramCommands extends Commands> {
  /** Its path in this folder, without extension. */
  readonly module: string;
  /** Never set: the types of the program. */
  readonly types?: readonly [ProgramSetup, ProgramCommands];
}

/** The configuration of a process, passed through its environment. */
export interface ProcessSetup {
  readonly module: string;
  /** Of Redis. */
  readonly port: number;
  readonly commandTimeoutMs?: number;
  readonly setup: Setup;
}

/** The time limit of a command. A scenario whose command takes longer is aborted. */
const COMMAND_TIMEOUT_MS = 180_000;
const FILE = fileURLToPath(new URL("./dist/bench/measured-process.js", import.meta.url));

type Reply = { readonly id: number; readonly report?: unknown; readonly failure?: string };

/** Processes of one contender that use the same keys on the same Redis. */
export class Fleet<Known extends Commands> {
  readonly #children: readonly ChildProcess[];
  readonly #pending = new Map<number, { readonly receive: (reply: Reply) => void; readonly timer: NodeJS.Timeout }>();
  #commands = 0;

  private constructor(children: readonly ChildProcess[]) {
    this.#children = children;
    for (const child of children) child.on("message", (reply: Reply) => this.#pending.get(reply.id)?.receive(reply));
  }

  /** Starts the processes and resolves when all of them are connected. Rejects, and ends them, if one is not. */
  static async start<Known extends Commands>(
    count: number,
    setup: ProcessSetup,
    execArgv: readonly string[] = [],
  ): Promise<Fleet<Known>> {
    const env = { ...process.env, NODE_ENV: "production", SETUP: JSON.stringify(setup) };
    const children = Array.from({ length: count }, () => fork(FILE, { env, execArgv: [...execArgv] }));
    const fleet = new Fleet<Known>(children);
    const signal = AbortSignal.timeout(COMMAND_TIMEOUT_MS);
    const ready = (child: ChildProcess): Promise<unknown> =>
      Promise.race([
        once(child, "message", { signal }),
        once(child, "exit").then(([code]) =>
          Promise.reject(new Error(`${setup.setup.contender} exited with code ${code}`)),
        ),
      ]);
    try {
      await Promise.all(children.map(ready));
    } catch (error) {
      await fleet.stop();
      throw error;
    }
    return fleet;
  }

  /** Sends a command to one process. Rejects if it fails or takes longer than COMMAND_TIMEOUT_MS. */
  send<Name extends keyof Known & string>(
    index: number,
    name: Name,
    argument: Parameters<Known[Name]>[0],
  ): Promise<Awaited<ReturnType<Known[Name]>>> {
    const id = this.#commands++;
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#pending.delete(id);
      };
      const timer = setTimeout(() => {
        end();
        reject(new Error(`the command ${name} did not complete within ${COMMAND_TIMEOUT_MS} ms`));
      }, COMMAND_TIMEOUT_MS);
      const receive = ({ report, failure }: Reply): void => {
        end();
        if (failure !== undefined) reject(new Error(failure));
        else resolve(report as Awaited<ReturnType<Known[Name]>>);
      };
      this.#pending.set(id, { receive, timer });
      this.#children[index]?.send({ id, name, argument });
    });
  }

  /** Sends a command to all processes. */
  sendAll<Name extends keyof Known & string>(
    name: Name,
    argument: Parameters<Known[Name]>[0],
  ): Promise<Awaited<ReturnType<Known[Name]>>[]> {
    return Promise.all(this.#children.map((_, index) => this.send(index, name, argument)));
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
