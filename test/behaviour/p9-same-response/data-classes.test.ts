import { FakeClock, settle } from "@graphql-cached/testing";
import { ObjectId } from "bson";
import { Decimal } from "decimal.js";
import { GraphQLError, GraphQLScalarType, type ValueNode, valueFromASTUntyped } from "graphql";
import { type CacheOptions, memoryStore, type RefreshJob } from "graphql-cached";
import { DateTime } from "luxon";
import { describe, expect, it } from "vitest";
import { inspect } from "../../support/inspection.js";
import { until } from "../../support/redis-lab.js";
import { dataOf, memoryWorld, type World, waitForStores } from "../../support/world.js";

const types = {
  Decimal: {
    is: (value: object) => value instanceof Decimal,
    encode: (decimal: Decimal) => decimal.valueOf(),
    decode: (text: string) => new Decimal(text),
    keyOf: (decimal: Decimal) => decimal.valueOf(),
  },
  ObjectId: {
    is: (value: object) => value instanceof ObjectId,
    encode: (id: ObjectId) => id.toHexString(),
    decode: (hex: string) => new ObjectId(hex),
    keyOf: (id: ObjectId) => id.toHexString(),
  },
  DateTime: {
    is: (value: object) => DateTime.isDateTime(value),
    encode: (time: DateTime) => [valid(time).toMillis(), time.zoneName],
    decode: ([millis, zone]: [number, string]) => DateTime.fromMillis(millis, { zone }),
    keyOf: (time: DateTime) => `${valid(time).toUTC().toISO()}[${time.zoneName}]`,
  },
};
function valid(time: DateTime): DateTime {
  if (time.isValid) return time;
  throw new TypeError("expected a valid DateTime");
}
const HEX = "507f1f77bcf86cd799439011";
const OTHER_HEX = "507f1f77bcf86cd799439012";

/** A scalar that parses to instances of a class, in variables and in literals. */
function classScalar(name: string, parse: (input: unknown) => unknown): GraphQLScalarType {
  return new GraphQLScalarType({
    name,
    parseValue: parse,
    parseLiteral: (node: ValueNode, variables) => parse(valueFromASTUntyped(node, variables)),
    serialize: (value) => String(value),
  });
}

const siteTypes = /* GraphQL */ `
  scalar Decimal
  scalar ObjectID
  scalar DateTime
  scalar Reference
  input Range { from: DateTime! to: DateTime! }
  type Query {
    above(price: Decimal!): String @cached(maxAge: 60, tags: ["Above:{$args.price}"])
    byId(id: ObjectID!): String @cached(maxAge: 60)
    within(range: Range!): String @cached(maxAge: 60)
    follow(to: Reference!): String @cached(maxAge: 60)
    ahead(price: Decimal!): Film @cached(maxAge: 60, key: ["$args", "$selection"])
    film: Film
    named: Film @cached(maxAge: 60, tags: ["Film:{$result.id}"])
    old(price: Decimal!): String @cached(maxAge: 1, staleWhileRevalidate: 600)
  }
  type Film {
    id: ObjectID!
    rank(min: Decimal): String
    stars: String @cached(maxAge: 60, tags: ["Stars:{$source.id}"])
    tenant: String @cached(maxAge: 60, key: ["$source.id", "$context.tenant"])
  }
`;

function filmSite(world: World = memoryWorld(), options: CacheOptions<never> = { types }) {
  const loads: unknown[][] = [];
  const state: { id: unknown } = { id: new ObjectId(HEX) };
  const load = (name: string) => (_source: unknown, args: Record<string, unknown>) => {
    loads.push([name, ...Object.values(args)]);
    return `${name} ${loads.length}`;
  };
  const decimal = (input: unknown): Decimal => new Decimal(input as string);
  const site = world.process(
    siteTypes,
    {
      Decimal: classScalar("Decimal", decimal),
      ObjectID: classScalar("ObjectID", (input) => new ObjectId(input as string)),
      DateTime: classScalar("DateTime", (input) => DateTime.fromISO(input as string, { setZone: true })),
      Reference: classScalar("Reference", (input) =>
        typeof input === "string" ? input : new ObjectId((input as { oid: string }).oid),
      ),
      Query: {
        above: load("above"),
        byId: load("byId"),
        within: load("within"),
        follow: load("follow"),
        ahead: (...[, , , info]: [unknown, unknown, unknown, { fieldNodes: { selectionSet: unknown }[] }]) => {
          loads.push(["ahead", info.fieldNodes[0]?.selectionSet === undefined]);
          return { id: state.id };
        },
        film: () => ({ id: state.id }),
        named: () => (loads.push(["named"]), { id: state.id }),
        old: load("old"),
      },
      Film: { stars: load("stars"), tenant: load("tenant") },
    },
    options,
  );
  return { ...site, loads, state, names: () => loads.map(([name]) => name) };
}

describe("arguments that are instances of classes", () => {
  it("are keyed by their value, in literals, variables and invalidations alike", async () => {
    const site = filmSite();
    expect(await dataOf(site.ask('{ above(price: "1.50") }'))).toEqual({ above: "above 1" });
    await waitForStores(site);
    const variable = "query ($price: Decimal!) { above(price: $price) }";
    expect(await dataOf(site.ask(variable, {}, { price: "1.5" }))).toEqual({ above: "above 1" });
    expect(await dataOf(site.ask('{ above(price: "-1.5") }'))).toEqual({ above: "above 2" });
    expect(await dataOf(site.ask('{ above(price: "0") }'))).toEqual({ above: "above 3" });
    expect(await dataOf(site.ask('{ above(price: "-0") }'))).toEqual({ above: "above 4" });
    expect(site.loads[0]?.[1]).toBeInstanceOf(Decimal);
    await site.cache.invalidate({ coordinate: "Query.above", args: { price: "1.500" } });
    expect(await dataOf(site.ask('{ above(price: "1.5") }'))).toEqual({ above: "above 5" });
    await waitForStores(site, 5);
    await site.cache.invalidateTags(["Above:1.5"]);
    expect(await dataOf(site.ask('{ above(price: "1.5") }'))).toEqual({ above: "above 6" });
  });

  it("are keyed by instant and zone inside input objects", async () => {
    const site = filmSite();
    const ask = (from: string) =>
      dataOf(site.ask(`{ within(range: { from: "${from}", to: "2026-02-01T00:00:00Z" }) }`));
    const first = await ask("2026-01-01T00:00:00+01:00");
    await waitForStores(site);
    expect(await ask("2026-01-01T00:00:00.000+01:00")).toEqual(first);
    // The same instant, but a resolver could read another hour.
    expect(await ask("2025-12-31T23:00:00Z")).not.toEqual(first);
    expect(site.names()).toEqual(["within", "within"]);
  });

  it("differ from the text that the class is made from", async () => {
    const site = filmSite();
    await dataOf(site.ask(`{ follow(to: "${HEX}") }`));
    await waitForStores(site);
    await dataOf(site.ask(`{ follow(to: { oid: "${HEX}" }) }`));
    await waitForStores(site, 2);
    await dataOf(site.ask(`{ follow(to: { oid: "${HEX}" }) }`));
    expect(site.loads).toEqual([
      ["follow", HEX],
      ["follow", new ObjectId(HEX)],
    ]);
  });

  it("are keyed as variables of a resolver that looks ahead", async () => {
    const site = filmSite();
    const ask = (price: string) =>
      dataOf(site.ask("query ($p: Decimal!) { ahead(price: 1) { id rank(min: $p) } }", {}, { p: price }));
    await ask("2.0");
    await waitForStores(site);
    await ask("2.00");
    expect(site.names()).toEqual(["ahead"]);
    await ask("3");
    expect(site.names()).toEqual(["ahead", "ahead"]);
  });

  it("travel in refresh jobs", async () => {
    const jobs: RefreshJob[] = [];
    const clock = new FakeClock();
    const world = memoryWorld(() => memoryStore({ clock }));
    const refreshQueue = (job: RefreshJob) => void jobs.push(JSON.parse(JSON.stringify(job)) as RefreshJob);
    const web = filmSite(world, { types, testing: { clock }, loads: { refreshQueue } });
    const worker = filmSite(world, { types, testing: { clock } });
    const ask = () => dataOf(web.ask('{ old(price: "1.50") }'));
    await ask();
    await waitForStores(web);
    await clock.advance(2_000);
    expect(await ask()).toEqual({ old: "old 1" });
    await until("the refresh is queued", () => jobs.length === 1);
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    expect(worker.loads).toEqual([["old", new Decimal("1.5")]]);
  });
});

describe("parents whose id is an instance of a class", () => {
  it("are keyed by their value, which invalidation and inspection can spell as text", async () => {
    const site = filmSite();
    const ask = () => dataOf(site.ask("{ film { stars tenant } }", { tenant: new ObjectId(OTHER_HEX) }));
    await ask();
    await waitForStores(site, 2);
    site.state.id = new ObjectId(HEX);
    await ask();
    expect(site.names()).toEqual(["stars", "tenant"]);
    for (const id of [HEX, new ObjectId(HEX)]) {
      site.loads.length = 0;
      await site.cache.invalidate({ coordinate: "Film.stars", source: { id } });
      await site.cache.invalidate({ coordinate: "Film.tenant", source: { id }, context: { tenant: OTHER_HEX } });
      await ask();
      expect(site.names()).toEqual(["stars", "tenant"]);
    }
  });

  it("are in the tags of their fields and of results", async () => {
    const site = filmSite();
    const ask = () => dataOf(site.ask("{ film { stars } named { id } }", {}));
    await ask();
    await waitForStores(site, 2);
    await ask();
    expect(new Set(site.names())).toEqual(new Set(["named", "stars"]));
    expect(site.loads).toHaveLength(2);
    await site.cache.invalidateTags([`Film:${HEX}`, `Stars:${HEX}`]);
    await ask();
    expect(new Set(site.names().slice(2))).toEqual(new Set(["named", "stars"]));
  });

  it("have entries that the inspection finds by the text of the id", async () => {
    const site = filmSite();
    await site.ask("{ film { stars } }", {});
    await waitForStores(site);
    const entryOf = async (id: string) =>
      (await inspect(site.cache, `entry(coordinate: "Film.stars", source: { id: "${id}" }) { state }`)).entry;
    expect(await entryOf(HEX)).toMatchObject({ state: "VALUE" });
    expect(await entryOf(OTHER_HEX)).toMatchObject({ state: "ABSENT" });
  });
});

describe("ids of loaders that are instances of classes", () => {
  it("are keyed by their value, and reach the batch function as they are", async () => {
    const { cache } = filmSite();
    const batches: (readonly ObjectId[])[] = [];
    const films = cache.loader<ObjectId, string, object>({
      name: "Film",
      maxAge: 60,
      batch: async (ids) => (batches.push(ids), ids.map((id) => id.toHexString())),
    });
    expect(await films({}).loadMany([new ObjectId(HEX), new ObjectId(HEX), new ObjectId(OTHER_HEX)])).toEqual([
      HEX,
      HEX,
      OTHER_HEX,
    ]);
    expect(batches).toEqual([[new ObjectId(HEX), new ObjectId(OTHER_HEX)]]);
  });
});

describe("classes without a key form", () => {
  it("are reported once, with the entry to add", async () => {
    const { keyOf: _keyOf, ...withoutKey } = types.Decimal;
    const site = filmSite(memoryWorld(), { types: { Decimal: withoutKey } } as never);
    for (let request = 0; request < 2; request++) {
      await dataOf(site.ask('{ above(price: "1") }'));
      await dataOf(site.ask(`{ byId(id: "${HEX}") }`));
    }
    expect(site.outcomes()).toEqual({ "bypassed(KEY_UNUSABLE)": 4 });
    const needed = (name: string): string =>
      `got an instance of ${name}, which needs an entry with \`keyOf\` in createCache({ types }) to be part of a key; list the inputs that matter in \`key\``;
    expect(site.warnings).toEqual([
      `\`Query.above\` is not cached: key input: expected plain data, ${needed("Decimal")}`,
      `\`Query.byId\` is not cached: key input: expected plain data, ${needed("ObjectId")}`,
    ]);
  });

  it("make a value with one of their instances as a key part uncacheable if keyOf fails", async () => {
    const ObjectIdType = { ...types.ObjectId, keyOf: (() => 7) as never };
    const site = filmSite(memoryWorld(), { types: { ...types, ObjectId: ObjectIdType } } as never);
    await dataOf(site.ask(`{ byId(id: "${HEX}") }`));
    await dataOf(site.ask('{ within(range: { from: "no time", to: "2026-02-01T00:00:00Z" }) }'));
    expect(site.outcomes()).toEqual({ "bypassed(KEY_UNUSABLE)": 2 });
    expect(site.warnings[0]).toContain("expected `types.ObjectId.keyOf` to return a string, got number");
    expect(site.warnings[1]).toContain("`types.DateTime.keyOf` threw an exception");
  });

  it("is refused by createCache if keyOf is not a function", () => {
    const type = { ...types.Decimal, keyOf: "toString" };
    expect(() => filmSite(memoryWorld(), { types: { Decimal: type } } as never)).toThrow(
      "the `keyOf` of `Decimal` is not a function",
    );
  });

  it("keep the entries of a release apart from those of a release in which they have one", async () => {
    const world = memoryWorld();
    const { keyOf: _keyOf, ...withoutKey } = types.ObjectId;
    const before = filmSite(world, { types: { ObjectId: withoutKey } } as never);
    const after = filmSite(world, { types: { ObjectId: types.ObjectId } });
    await dataOf(before.ask("{ named { id } }"));
    await waitForStores(before);
    // The older release has stored no tag, so the entry could not be invalidated by it.
    await dataOf(after.ask("{ named { id } }"));
    expect(after.names()).toEqual(["named"]);
  });
});

class Film {
  id = 0;
  title = "";
  get slug(): string {
    return this.title.toLowerCase();
  }
}

/** A record with a computed field, as a Prisma client with result extensions returns it. */
const computedRecord = (): object => new Proxy({ first: "Ada" }, {});

const filmType = {
  is: (value: object) => Object.getPrototypeOf(value) === Film.prototype,
  // The descriptors, so that a getter is not called but reported.
  encode: (film: Film) => Object.defineProperties({}, Object.getOwnPropertyDescriptors(film)),
  decode: (fields: object) => Object.assign(new Film(), fields),
};

/** What a reader gets on a miss and on a hit, or the log line if the value is not cached. */
async function served(value: () => unknown, valueTypes: object = {}): Promise<{ results: unknown[]; lines: string[] }> {
  const site = memoryWorld().process("type Query { a: Int }", {}, { types: valueTypes } as never);
  let loads = 0;
  const loader = site.cache.loader({ name: "One", maxAge: 60, batch: async () => (loads++, [value()]) });
  const results = [await loader({}).load(1)];
  await settle();
  results.push(await loader({}).load(1));
  return { results: loads === 1 ? results : [], lines: site.warnings };
}

describe("value types", () => {
  const film = () => Object.assign(new Film(), { id: 7, title: "Tenet" });
  const kinds: readonly [string, () => unknown, object][] = [
    ["a Decimal with more digits than its precision", () => new Decimal(`0.${"123456789".repeat(5)}`), types],
    ["a Decimal of negative zero", () => new Decimal("-0"), types],
    ["an ObjectId", () => new ObjectId(HEX), types],
    ["a DateTime in a named zone", () => DateTime.fromISO("2026-07-01T12:00", { zone: "Europe/Paris" }), types],
    ["an entity", film, { Film: filmType }],
    [
      "an entity with a value type inside",
      () => Object.assign(film(), { id: new Decimal(1) }),
      { ...types, Film: filmType },
    ],
  ];
  it.each(kinds)("restore %s on a miss and on a hit", async (_what, value, valueTypes) => {
    const { results, lines } = await served(value, valueTypes);
    expect(lines).toEqual([]);
    for (const result of results) {
      if (DateTime.isDateTime(result)) expect(result.equals(value() as DateTime)).toBe(true);
      else expect(result).toEqual(value());
      expect(Object.getPrototypeOf(result)).toBe(Object.getPrototypeOf(value()));
      if (result instanceof Film) expect(result.slug).toBe("tenet");
    }
    expect(results).toHaveLength(2);
  });

  it.each([
    ["an invalid DateTime", () => DateTime.invalid("test"), types, "a value that the codec could not encode"],
    [
      "an entity with a lazy relation",
      () => Object.defineProperty(film(), "director", { get: () => film(), enumerable: true }),
      { Film: filmType },
      "a getter or setter at `result.encode().director`",
    ],
  ])("do not store %s", async (_what, value, valueTypes, message) => {
    const { results, lines } = await served(value, valueTypes);
    expect(results).toEqual([]);
    expect(lines.join("\n")).toContain(message);
  });
});

describe("a value whose class is not in types", () => {
  const rejected = Promise.reject(new Error("no item"));
  rejected.catch(() => undefined);
  class model {
    readonly $__ = {};
    readonly $isNew = false;
  }
  class Movie {
    readonly dataValues = {};
    readonly sequelize = {};
  }
  it.each([
    ["a class", () => new Film(), "add `Film: { is, encode, decode }` to createCache({ types }), or return plain data"],
    ["a proxy", computedRecord, "return a copy, such as { ...record }"],
    ["a Mongoose document", () => new model(), "add .lean() to the query"],
    ["a Sequelize model", () => new Movie(), "add { raw: true } to the query"],
    ["a promise that rejects", () => [rejected], "await it in the resolver"],
  ])("is reported with what to do: %s", async (_what, value, remedy) => {
    const { lines } = await served(value);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(remedy);
  });
});

it("passes a scalar's own error on, as without the cache", async () => {
  const site = filmSite();
  const { errors } = await site.ask('{ above(price: "cheap") }');
  expect(errors?.[0]).toBeInstanceOf(GraphQLError);
});
