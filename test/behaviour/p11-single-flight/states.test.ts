import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { read, tableUnder } from "../../project/source.js";
import { pair, timedWorld } from "../../support/world.js";

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
  const world = timedWorld();
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
    return world.process(typeDefs, resolvers, { storage: { maxValueBytes: 1_000 }, ...options });
  };
  const [one, other] = pair(createProcess);
  return { clock: world.clock, chaos: world.chaos, source, one, other };
}

type Fleet = ReturnType<typeof createFleet>;

/** Begins a write in the first process that lasts for the rest of the test. */
async function beginWrite({ one }: Fleet, target: object): Promise<void> {
  const [begun, written] = pair(gate);
  void one.cache.mutate(target, () => (begun.open(), written.passed));
  await begun.passed;
}

interface State {
  readonly name: string;
  readonly field?: "background" | "foreground" | "ifError";
  readonly options?: object;
  /** What the source makes. The first process loads it before. Undefined: 1, which nobody has loaded. */
  readonly made?: () => unknown;
  /** What happens after that. */
  after?(fleet: Fleet): unknown;
}

const made = (): unknown => 1;
const expire = ({ clock }: Fleet) => clock.advance(61_000);
const PLAIN_ENTRY = { coordinate: "Query.plain" };
const BACKGROUND_ENTRY = { coordinate: "Query.background" };

const STATES: readonly State[] = [
  { name: "fresh", made },
  { name: "absent" },
  { name: "expired", made, after: expire },
  { name: "expired, within `staleWhileRevalidate`", field: "background", made, after: expire },
  { name: "the same with `refresh: FOREGROUND`", field: "foreground", made, after: expire },
  { name: "expired, within `staleIfError`", field: "ifError", made, after: expire },
  { name: "invalidated by key", made, after: ({ other }) => other.cache.invalidate(PLAIN_ENTRY) },
  { name: "invalidated by tag", made, after: ({ other }) => other.cache.invalidateTags(["T"]) },
  {
    name: "softly invalidated",
    field: "background",
    made,
    after: ({ other }) => other.cache.invalidate(BACKGROUND_ENTRY, { soft: true }),
  },
  { name: "failed, within `errorBackoffMs`", made: () => Promise.reject(new Error("the database is away")) },
  { name: "write in progress, by key", after: (fleet) => beginWrite(fleet, { entries: [PLAIN_ENTRY] }) },
  { name: "write in progress, by tag", after: (fleet) => beginWrite(fleet, { tags: ["T"] }) },
  {
    name: "hold-off after an invalidation (`replicaLagMs`)",
    options: { invalidation: { replicaLagMs: 5_000 } },
    after: ({ other }) => other.cache.invalidate(PLAIN_ENTRY),
  },
  { name: "value too large to be stored", made: () => "x".repeat(2_000) },
  { name: "value that cannot be encoded", made: () => ({ size: () => 7 }) },
  { name: "store unavailable", after: ({ chaos }) => Object.assign(chaos, { mode: "throws" }) },
  {
    name: "store slow: no reply within `storeTimeoutMs`",
    after: ({ chaos }) => Object.assign(chaos, { mode: "hangs" }),
  },
];

/** Lets the readers ask, and returns the number of loads and how many of them ran at once in one process. */
async function measure({ name, field, options, made: make, after }: State): Promise<readonly string[]> {
  const fleet = createFleet(options);
  const { clock, source, one, other } = fleet;
  const query = `{ ${field ?? "plain"} }`;
  if (make !== undefined) {
    source.make = make;
    source.loadGate.open();
    await one.ask(query);
    await settle();
    // The loads that are counted wait for another gate.
    Object.assign(source, { loads: 0, maxRunning: 0, loadGate: gate() });
  }
  await after?.(fleet);
  const ask = (): Promise<unknown>[] =>
    [one, other].flatMap((process) => Array.from({ length: READERS }, () => process.ask(query)));
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
