import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { read, tableUnder } from "../../project/source.js";
import { memoryWorld } from "../../support/world.js";

/**
 * Measures the loads of one key in every state that an entry can be in. Two processes have 25 readers each in one
 * tick, and another 25 each while the loads of the first are running. The results are the table "Loads by state" of
 * docs/guarantees.md.
 */

const READERS = 25;

const typeDefs = `
  scalar Any
  type Query {
    plain: Any @cached(maxAge: 60, tags: ["T"])
    background: Any @cached(maxAge: 60, staleWhileRevalidate: 600)
    foreground: Any @cached(maxAge: 60, staleWhileRevalidate: 600, refresh: FOREGROUND)
    ifError: Any @cached(maxAge: 60, staleIfError: 600)
  }
`;

/** Two processes on one store that can fail. Their loads are counted together and wait for one gate. */
function createFleet(options: object = {}) {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const world = memoryWorld(() => store);
  const source = { loads: 0, maxRunning: 0, loadGate: gate(), make: (): unknown => 1 };
  const createProcess = () => {
    let running = 0;
    const load = async (): Promise<unknown> => {
      source.loads++;
      running++;
      source.maxRunning = Math.max(source.maxRunning, running);
      await source.loadGate.passed;
      running--;
      return source.make();
    };
    const resolvers = { Query: { plain: load, background: load, foreground: load, ifError: load } };
    return world.process(typeDefs, resolvers, {
      testing: { clock },
      storage: { maxValueBytes: 1_000 },
      ...options,
    } as never);
  };
  const processes = [createProcess(), createProcess()] as const;
  return { clock, chaos: store.chaos, source, processes };
}

type Fleet = ReturnType<typeof createFleet>;

/** Loads the field in the first process, and then closes the gate for the loads that are counted. */
async function load({ processes: [first], source }: Fleet, field: string): Promise<void> {
  source.loadGate.open();
  await first.ask(`{ ${field} }`);
  await settle();
  Object.assign(source, { loads: 0, maxRunning: 0, loadGate: gate() });
}

/** Begins a write in the first process that lasts for the rest of the test. */
async function beginWrite({ processes: [first] }: Fleet, target: object): Promise<void> {
  const begun = gate();
  const written = gate();
  void first.cache.mutate(target, () => {
    begun.open();
    return written.passed;
  });
  await begun.passed;
}

interface State {
  readonly name: string;
  readonly field?: "plain" | "background" | "foreground" | "ifError";
  readonly options?: object;
  arrange?(fleet: Fleet): Promise<unknown>;
}

const PLAIN_ENTRY = { coordinate: "Query.plain" };

const STATES: readonly State[] = [
  { name: "fresh", arrange: (fleet) => load(fleet, "plain") },
  { name: "absent" },
  {
    name: "expired",
    arrange: async (fleet) => {
      await load(fleet, "plain");
      await fleet.clock.advance(61_000);
    },
  },
  {
    name: "expired, within `staleWhileRevalidate`",
    field: "background",
    arrange: async (fleet) => {
      await load(fleet, "background");
      await fleet.clock.advance(61_000);
    },
  },
  {
    name: "the same with `refresh: FOREGROUND`",
    field: "foreground",
    arrange: async (fleet) => {
      await load(fleet, "foreground");
      await fleet.clock.advance(61_000);
    },
  },
  {
    name: "expired, within `staleIfError`",
    field: "ifError",
    arrange: async (fleet) => {
      await load(fleet, "ifError");
      await fleet.clock.advance(61_000);
    },
  },
  {
    name: "invalidated by key",
    arrange: async (fleet) => {
      await load(fleet, "plain");
      await fleet.processes[1].cache.invalidate(PLAIN_ENTRY);
    },
  },
  {
    name: "invalidated by tag",
    arrange: async (fleet) => {
      await load(fleet, "plain");
      await fleet.processes[1].cache.invalidateTags(["T"]);
    },
  },
  {
    name: "softly invalidated",
    field: "background",
    arrange: async (fleet) => {
      await load(fleet, "background");
      await fleet.processes[1].cache.invalidate({ coordinate: "Query.background" }, { soft: true });
    },
  },
  {
    name: "failed, within `errorBackoffMs`",
    arrange: async (fleet) => {
      const { make } = fleet.source;
      fleet.source.make = () => {
        throw new Error("the database is away");
      };
      await load(fleet, "plain");
      fleet.source.make = make;
    },
  },
  {
    name: "write in progress, by key",
    arrange: (fleet) => beginWrite(fleet, { entries: [PLAIN_ENTRY] }),
  },
  { name: "write in progress, by tag", arrange: (fleet) => beginWrite(fleet, { tags: ["T"] }) },
  {
    name: "hold-off after an invalidation (`replicaLagMs`)",
    options: { invalidation: { replicaLagMs: 5_000 } },
    arrange: (fleet) => fleet.processes[1].cache.invalidate(PLAIN_ENTRY),
  },
  {
    name: "value too large to be stored",
    arrange: async (fleet) => {
      fleet.source.make = () => "x".repeat(2_000);
      await load(fleet, "plain");
    },
  },
  {
    name: "value that cannot be encoded",
    arrange: async (fleet) => {
      fleet.source.make = () => ({ size: () => 7 });
      await load(fleet, "plain");
    },
  },
  {
    name: "store unavailable",
    arrange: async ({ chaos }) => {
      chaos.mode = "throws";
    },
  },
  {
    name: "store slow: no reply within `storeTimeoutMs`",
    arrange: async ({ chaos }) => {
      chaos.mode = "hangs";
    },
  },
];

/** Lets the readers ask, and returns the number of loads and how many of them ran at once in one process. */
async function measure({ name, field = "plain", options, arrange }: State): Promise<readonly string[]> {
  const fleet = createFleet(options);
  const { clock, processes, source } = fleet;
  await arrange?.(fleet);
  const ask = (): Promise<unknown>[] =>
    processes.flatMap((process) => Array.from({ length: READERS }, () => process.ask(`{ ${field} }`)));
  const answers = ask();
  // Enough for the store's time budgets, and less than the lease.
  await clock.advance(400);
  answers.push(...ask());
  await clock.advance(400);
  source.loadGate.open();
  await clock.advance(400);
  await Promise.all(answers);
  return [name, String(source.loads), String(source.maxRunning)];
}

describe("loads by state", () => {
  const documented = tableUnder("Loads by state", read("docs/guarantees.md"));

  it.each(STATES)("are as documented: $name", async (state) => {
    expect(documented).toContainEqual(await measure(state));
  });

  it("are documented for every state that is measured, and for no other", () => {
    expect(documented.map(([name]) => name)).toEqual(STATES.map(({ name }) => name));
  });
});
