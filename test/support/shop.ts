import { chaosStore, FakeClock, type Gate, gate } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import { type Cache, memoryStore, resultControl } from "graphql-cached";
import { partsOf } from "../../src/core/parts.js";
import { dataOf, memoryWorld, type Process, type World } from "./world.js";

const typeDefs = (type: string) => /* GraphQL */ `
  type Query {
    field(id: ID!, lang: String): ${type} @cached(maxAge: 600)
    other(id: ID!): Item @cached(maxAge: 600)
    selected(id: ID!): Item @cached(maxAge: 600, key: ["$args", "$selection"])
    mine(id: ID!): Item @cached(maxAge: 600, scope: PRIVATE)
    tagged(id: ID!): Item @cached(maxAge: 600, tags: ["Item:{$args.id}"])
    found(id: ID!): Item @cached(maxAge: 600, tags: ["Item:{$result.id}"])
    listed(id: ID!): [Item!] @cached(maxAge: 600, tags: ["Item:{$result[].id}"])
    said(id: ID!): Item @cached(maxAge: 600)
    waiting(id: ID!): Item @cached(maxAge: 600, refresh: FOREGROUND, tags: ["Item:{$args.id}", "Found:{$result.id}"])
    number(id: ID!): Int @cached(maxAge: 600, tags: ["Item:{$args.id}"])
    forever(id: ID!): Item @cached(maxAge: 600, neverExpires: true, tags: ["Item:{$args.id}"])
  }
  type Item { id: ID! version: Int }
  type NewItem { id: ID! version: Int isNew: Boolean }
`;

interface Args {
  readonly id: string;
}

/** What is cached: each value is the number of the last write. Counts loads, and holds them one by one. */
export class Source {
  version = 1;
  loads = 0;
  error: Error | undefined;
  readonly #holds: Promise<void>[] = [];

  /** Lets the next load wait for the returned gate. It has read the version by then. */
  hold(): Gate {
    const held = gate();
    this.#holds.push(held.passed);
    return held;
  }

  async load(id: unknown, version = this.version): Promise<{ readonly id: unknown; readonly version: number }> {
    this.loads++;
    await this.#holds.shift();
    if (this.error !== undefined) throw this.error;
    return { id, version };
  }

  /** Starts a process that caches the source in fields, loaders and a function. */
  start(world: World, { type = "Item", ...options }: { type?: string; [option: string]: unknown } = {}): Shop {
    const item = async (_: unknown, { id }: Args) => this.load(id);
    const Query = {
      ...Object.fromEntries(
        ["field", "other", "selected", "mine", "tagged", "found", "waiting", "forever"].map((name) => [name, item]),
      ),
      listed: async (_: unknown, { id }: Args) => [await this.load(id)],
      number: async (_: unknown, { id }: Args) => (await this.load(id)).version,
      said: (_: unknown, { id }: Args, __: unknown, info: GraphQLResolveInfo) => {
        resultControl(info).set({ tags: [`Item:${id}`] });
        return this.load(id);
      },
    };
    const process = world.process(typeDefs(type), { Query }, {
      identify: (context: { user?: string }) => context.user,
      // A busy machine must not look like a store that fails.
      ...("testing" in options ? {} : { storage: { storeTimeoutMs: 5_000 } }),
      ...options,
    } as never);
    const { cache } = process;
    const settings = { maxAge: 600, tags: (id: number) => [`Item:${id}`] };
    const batch = (ids: readonly number[]) => Promise.all(ids.map((id) => this.load(id)));
    const loader = cache.loader({ name: "Loader", ...settings, batch });
    const own = cache.loader({ name: "Own", ...settings, scope: "PRIVATE", batch });
    const call = cache.wrap({ ...settings, name: "Call", load: (id: number) => this.load(id) });
    return {
      ...process,
      read: async (what, id = 7, user = undefined) => {
        const context = user === undefined ? {} : { user };
        if (what === "Loader") return (await loader(context).load(id)).version;
        if (what === "Own") return (await own(context).load(id)).version;
        if (what === "Call") return (await call(id)).version;
        const query = what.includes("(") ? what : `${what}(id: ${id}) ${what === "number" ? "" : "{ version }"}`;
        const [value] = Object.values((await dataOf(process.ask(`{ ${query} }`, context))) as object).flat();
        return typeof value === "number" ? value : (value as { version: number }).version;
      },
      drain: () => partsOf(cache, "test").drain(),
      lastWrite: () => process.events.findLast((event) => event.name === "write.finished"),
    };
  }
}

export interface Shop extends Process {
  /** Reads a field, a loader or the function, in a request of its own. Returns the version. */
  read(what: string, id?: number, user?: string): Promise<number>;
  /** Resolves when what was loaded is stored. */
  drain(): Promise<void>;
  lastWrite(): object | undefined;
}

/** Processes on one memory store with a fake clock, which can fail. */
export function fleet(count: number) {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const world = memoryWorld(() => store);
  const source = new Source();
  const start = (own = clock): Shop => source.start(world, { testing: { clock: own } });
  return { clock, store, world, source, start, shops: Array.from({ length: count }, () => start()) };
}

export interface Kind {
  /** What is read. */
  readonly what: string;
  invalidate(cache: Cache, options?: { readonly soft?: boolean }): Promise<void>;
  /** Whether a reader cannot know before the load has ended that it was invalidated, so that it waits. */
  readonly isLate?: true;
  /** Whether the store refuses what is loaded before the invalidation. It takes it otherwise, and readers refuse it. */
  readonly isRefused?: true;
}

const TAGS = ["Item:7"];
const byTag = (what: string, more: Partial<Kind> = {}): Kind => ({
  what,
  invalidate: (cache, options) => cache.invalidateTags(TAGS, options),
  ...more,
});
const byTarget = (what: string, target: object, more: Partial<Kind> = {}): Kind => ({
  what,
  invalidate: (cache, options) => cache.invalidate(target as never, options),
  ...more,
});

/** Everything that can be invalidated, for fields, loaders and functions. */
export const KINDS: Readonly<Record<string, Kind>> = {
  "an entry of a field": byTarget("field", { coordinate: "Query.field", args: { id: 7 } }, { isRefused: true }),
  "an entry by selection": byTarget("selected", { coordinate: "Query.selected", args: { id: 7 } }),
  "an entry of a loader": byTarget("Loader", { loader: "Loader", id: 7 }, { isRefused: true }),
  "an entry of a function": byTarget("Call", { function: "Call", args: [7] }, { isRefused: true }),
  "a whole field": byTarget("field", { coordinate: "Query.field" }),
  "a whole loader": byTarget("Loader", { loader: "Loader" }),
  "a whole function": byTarget("Call", { function: "Call" }),
  "a tag of the arguments": byTag("tagged"),
  "a tag of a loader": byTag("Loader"),
  "a tag of a function": byTag("Call"),
  "a tag of the result": byTag("found", { isLate: true }),
  "a tag in a list of results": byTag("listed", { isLate: true }),
  "a tag that the load has set": byTag("said", { isLate: true }),
  "the type of a tag": { what: "tagged", invalidate: (cache, options) => cache.invalidateTags(["Item"], options) },
  everything: { what: "field", invalidate: (cache, options) => cache.clear(options) },
};
