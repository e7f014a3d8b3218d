import { gate, settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import { type ResultControl, resultControl } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { memoryWorld, type Process, timedWorld } from "../../support/world.js";

/*
 * What cannot be stored is known as such when its first load has ended, whatever the reason and whoever loads: those who wait for it in other
 * processes load at once and together, rather than one after the other.
 */

const PROCESSES = 6;
const MAX_VALUE_BYTES = 1_000;

class Unknown {
  readonly id = 1;
}
class Graph {
  readonly next: readonly Graph[];

  constructor(depth: number, counts: { encoded: number }) {
    this.next = depth === 0 ? [] : Array(2).fill(new Graph(depth - 1, counts));
    Object.defineProperty(this, "counts", { value: counts });
  }
}

/** A rejection that is handled, as that of a field which is selected. */
function rejected(): Promise<never> {
  const promise = settle().then(() => Promise.reject(new Error("no")));
  promise.catch(() => undefined);
  return promise;
}

type Kind = readonly [name: string, load: (control: ResultControl) => unknown];
const counts = { encoded: 0 };
const KINDS: readonly Kind[] = [
  ["too large", () => ({ id: "x".repeat(2 * MAX_VALUE_BYTES) })],
  ["too large in its encoded form", () => new Graph(20, counts)],
  ["not serializable", () => ({ id: 1, of: new Unknown() })],
  ["a part of it is a promise that rejects", () => ({ id: 1, of: rejected() })],
  ["skipped", (control) => (control.skip(), { id: 1 })],
];
const OF_FIELDS: readonly Kind[] = [
  ["with tags that cannot be", () => ({ id: 2 ** 53 })],
  ["refused by GraphQL", () => ({ id: 1, must: null })],
  ["a list with a promise that rejects", () => ({ id: 1, list: [1, rejected()] })],
];

/** What leaves a stored value as it is. */
const KEPT: readonly string[] = ["skipped", "refused by GraphQL"];

const typeDefs = `
  type Query { field: Item @cached(maxAge: 60, staleIfError: 600, tags: ["Item:{$result.id}"]) loaded: Item }
  scalar Any
  type Item { id: Any must: Int! list: [Int] }
`;

function start(how: string, load: (control: ResultControl) => unknown) {
  const world = timedWorld();
  const { clock } = world;
  const gates: ReturnType<typeof gate>[] = [];
  let isStorable = false;
  const resolve = async (control: ResultControl): Promise<unknown> => {
    if (isStorable) return { id: 1 };
    const own = gate();
    gates.push(own);
    await own.passed;
    return load(control);
  };
  const Graphs = {
    is: (value: unknown) => value instanceof Graph,
    encode: ({ next }: Graph) => (counts.encoded++, [...next]),
    decode: () => new Graph(0, counts),
  };
  const limits = { storage: { maxValueBytes: MAX_VALUE_BYTES }, loads: { errorBackoffMs: 30_000 } };
  const options = { ...limits, types: { Graph: Graphs } } as never;
  const processes = Array.from({ length: PROCESSES }, () => {
    const Query = {
      field: (...[, , , info]: [unknown, unknown, unknown, GraphQLResolveInfo]) => resolve(resultControl(info)),
      loaded: (_: unknown, __: unknown, context: object) => items(context).load(1),
    };
    const made: Process = world.process(typeDefs, { Query }, options, { entityTags: true });
    const items = made.cache.loader<number, unknown>({
      name: "Item",
      maxAge: 60,
      staleIfError: 600,
      type: "Item",
      batch: async (ids, _context, { results }) =>
        Promise.all(ids.map((_, nth) => resolve(results[nth] as ResultControl))),
    });
    return made;
  });
  const ask = ({ ask: asked }: Process) => asked(`{ ${how} { id${how === "field" ? " must list" : ""} } }`, {});
  const untilLoads = async (count: number): Promise<void> => {
    for (let turn = 0; turn < 20 && gates.length < count; turn++) {
      for (let more = 0; more < 20; more++) await settle();
      if (gates.length < count) await clock.advance(1);
    }
  };
  const setStorable = (to: boolean): void => {
    isStorable = to;
  };
  return { clock, gates, processes, ask, untilLoads, setStorable };
}

for (const how of ["field", "loaded"])
  describe(`what cannot be stored of a ${how === "field" ? "field" : "loader"}`, () => {
    // A result that is skipped or refused leaves a stored value as it is, so that this one says nothing.
    for (const [name, load] of how === "field" ? [...KINDS, ...OF_FIELDS] : KINDS)
      for (const before of KEPT.includes(name)
        ? ["nothing", "a value that was invalidated"]
        : ["nothing", "a value that was invalidated", "a value that may be served if the source fails"])
        it(`is loaded by all who wait, at once, if it is ${name}; stored was ${before}`, async () => {
          const { clock, gates, processes, ask, untilLoads, setStorable } = start(how, load);
          const [first, ...others] = processes as [Process, ...Process[]];
          if (before !== "nothing") {
            setStorable(true);
            await ask(first);
            await settle();
            if (before === "a value that was invalidated") await first.cache.invalidateTags(["Item:1"]);
            else await clock.advance(61_000);
            setStorable(false);
          }
          counts.encoded = 0;
          const asked = [ask(first)];
          await untilLoads(1);
          asked.push(...others.map(ask));
          for (let turn = 0; turn < 20; turn++) await settle();
          expect(gates).toHaveLength(1);
          gates[0]?.open();
          await untilLoads(PROCESSES);
          const atOnce = gates.length;
          while (gates.length < PROCESSES) {
            for (const each of gates) each.open();
            await untilLoads(gates.length + 1);
          }
          for (const each of gates) each.open();
          await Promise.all(asked);
          expect(atOnce).toBe(PROCESSES);
          expect(counts.encoded).toBeLessThanOrEqual(PROCESSES * MAX_VALUE_BYTES);
        });
  });

class Post {
  readonly title = "a post";
  get id(): never {
    throw new Error("it has none");
  }
}
class Id {}

it.each<[what: string, code: string, posts: () => readonly object[]]>([
  [
    "are made of a number that may be rounded, in a value that is too large as well",
    "CACHED_VALUE_TOO_LARGE",
    () => Array.from({ length: 200 }, (_, nth) => ({ id: 2 ** 53 + 2 * nth, title: "a post" })),
  ],
  ["are made of a property whose getter throws", "CACHED_KEY_UNUSABLE", () => [new Post()]],
  ["are made of an instance whose `keyOf` throws", "CACHED_KEY_UNUSABLE", () => [{ id: new Id(), title: "a post" }]],
])(
  "gives a request that has joined the load of a value a value of its own if the tags %s, and says why it is not stored",
  async (_, code, posts) => {
    const { passed, open } = gate();
    const { ask, events } = memoryWorld().process(
      `
        scalar Any
        type Query { feed: [Post!] @cached(maxAge: 60, tags: ["Post:{$result[].id}"]) }
        type Post { id: Any title: String }
      `,
      { Query: { feed: async () => (await passed, posts()) } },
      {
        storage: { maxValueBytes: MAX_VALUE_BYTES },
        types: {
          Post: { is: (value: unknown) => value instanceof Post, encode: () => 1, decode: () => new Post() },
          Id: {
            is: (value: unknown) => value instanceof Id,
            encode: () => 1,
            decode: () => new Id(),
            keyOf(): never {
              throw new Error("it has none");
            },
          },
        },
      } as never,
    );
    const asked = [ask("{ feed { title } }")];
    for (let nth = 0; nth < 2; nth++) {
      await settle();
      asked.push(ask("{ feed { title } }"));
    }
    await settle();
    open();
    for (const { data, errors } of await Promise.all(asked)) {
      expect(errors).toBeUndefined();
      expect(data).toMatchObject({ feed: posts().map(() => ({ title: "a post" })) });
    }
    await settle();
    const refused = events.flatMap((event) => (event.name === "value.refused" ? [event.error.code] : []));
    expect(new Set(refused)).toEqual(new Set([code]));
  },
);
