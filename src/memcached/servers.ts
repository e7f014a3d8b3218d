import { hash } from "node:crypto";
import { asError } from "../store/answers.js";
import type { Decide, Server } from "./server.js";

/** Several servers as one: each name rests on one of them. */
export class Servers {
  readonly #servers: ReadonlyMap<string, Server>;

  constructor(servers: ReadonlyMap<string, Server>) {
    this.#servers = servers;
  }

  get isOne(): boolean {
    return this.#servers.size === 1;
  }

  /** Like `Server.change`, wherever the names rest. */
  change<Answer>(names: readonly string[], decide: Decide<Answer>): Promise<readonly (Answer | Error)[]> {
    return this.ask(names, (server, own, indexes) =>
      server.change(own, (nth, content, time) => decide(indexes[nth] as number, content, time)),
    );
  }

  /** Asks each server for its names, all at the same time. The answers are in the order of `names`; a server that fails has its Error in all its places. */
  async ask<Answer>(
    names: readonly string[],
    ask: (server: Server, names: readonly string[], indexes: readonly number[]) => Promise<readonly (Answer | Error)[]>,
  ): Promise<readonly (Answer | Error)[]> {
    const byServer = new Map<Server, number[]>();
    for (const [index, name] of names.entries()) {
      const server = this.#serverOf(name);
      const indexes = byServer.get(server) ?? [];
      byServer.set(server, indexes);
      indexes.push(index);
    }
    const answers = new Array<Answer | Error>(names.length);
    await Promise.all(
      [...byServer].map(async ([server, indexes]) => {
        const own = indexes.map((index) => names[index] as string);
        const found = await ask(server, own, indexes).catch((error: unknown) => own.map(() => asError(error)));
        for (const [nth, index] of indexes.entries()) answers[index] = found[nth] as Answer | Error;
      }),
    );
    return answers;
  }

  /** The server with the highest draw for this name: when a server is added or taken away, only its own names move. */
  idOf(name: string): string {
    let best: { readonly draw: string; readonly id: string } | undefined;
    for (const id of this.#servers.keys()) {
      const draw = this.isOne ? id : hash("sha1", `${id}\n${name}`, "hex");
      if (best === undefined || draw > best.draw) best = { draw, id };
    }
    return (best as { readonly id: string }).id;
  }

  #serverOf(name: string): Server {
    return this.#servers.get(this.idOf(name)) as Server;
  }
}
