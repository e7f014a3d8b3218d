import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { openSubtrees } from "./site.js";

const SUBTREE = "@cached(maxAge: 60, subtree: true)";
const typeDefs = (page = SUBTREE, price = "@cached(maxAge: 60)"): string => /* GraphQL */ `
  type Query { page(id: ID = 1): Page ${page} list(n: Int): [Page!] ${page} price(id: ID!): Int ${price} }
  type Page { id: ID! title: String price: Int ${price} kids(n: Int): [Page!] }
`;

interface Site {
  readonly page?: string;
  readonly price?: string;
  readonly clock?: FakeClock;
}

function open({ page, price, clock = new FakeClock() }: Site = {}) {
  const counts = { page: 0, title: 0, price: 0 };
  const source: { page: unknown; fails: boolean; held: Promise<unknown> | undefined } = {
    ...{ page: { id: 1 }, fails: false, held: undefined },
  };
  const list = (_: unknown, { n }: { n: number }) => Array.from({ length: n }, (_item, nth) => ({ id: nth + 100 }));
  const resolvers = {
    Query: {
      page: () => {
        counts.page++;
        return source.page;
      },
      list,
      price: () => ++counts.price,
    },
    Page: {
      title: async () => {
        counts.title++;
        await source.held;
        return `title ${counts.title}`;
      },
      price: () => {
        if (source.fails) throw new Error("away");
        return ++counts.price;
      },
      kids: list,
    },
  };
  const site = openSubtrees({ typeDefs: typeDefs(page, price), resolvers, clock, store: memoryStore({ clock }) });
  return { ...site, counts, source };
}

describe("the age of a subtree", () => {
  it("ends with the first of its parts", async () => {
    const { ask, counts, clock } = open({ price: "@cached(maxAge: 10)" });
    await ask("{ page { title price } }");
    await clock.advance(9_900);
    await ask("{ page { title price } }");
    expect(counts.title).toBe(1);
    await clock.advance(200);
    await ask("{ page { title price } }");
    expect([counts.title, counts.price]).toEqual([2, 2]);
  });

  it("does not add up to those of its parts: no value of two levels below is served beyond its own maxAge", async () => {
    const clock = new FakeClock();
    let now = 0;
    const { ask, cache } = openSubtrees({
      clock,
      store: memoryStore({ clock }),
      typeDefs: /* GraphQL */ `
        type Query { page: Page @cached(maxAge: 2, subtree: true) }
        type Page { id: ID! inner: Inner @cached(maxAge: 2, key: ["$source.id"]) }
        type Inner { id: ID! loadedAt: Float }
      `,
      resolvers: {
        Query: { page: () => ({ id: 1 }) },
        Page: { inner: (_: unknown, __: unknown, context: object) => instants(context).load(1) },
      },
    });
    const instants = cache.loader<number, { id: number; loadedAt: number }>({
      name: "Instant",
      maxAge: 2,
      batch: async (ids) => ids.map((id) => ({ id, loadedAt: now })),
    });
    let oldest = 0;
    for (let step = 0; step < 100; step++) {
      // Parts are also read in other ways, so that each level has an age of its own.
      if (step % 7 === 0) await instants({}).load(1);
      if (step % 5 === 0) await ask("{ page { inner { id } } }");
      const { data } = await ask("{ page { inner { loadedAt } } }");
      const { loadedAt } = (data as { page: { inner: { loadedAt: number } } }).page.inner;
      oldest = Math.max(oldest, now - loadedAt);
      now += 130;
      await clock.advance(130);
    }
    expect(oldest).toBeLessThanOrEqual(2_000);
    expect(oldest).toBeGreaterThan(500);
  });

  it("is long enough over a hundred parts of all ages: parts in the second half of their life are loaded again", async () => {
    const { ask, clock, counts } = open();
    const query = "{ list(n: 100) { id price } }";
    // Each part is stored at another time of a minute.
    for (let nth = 0; nth < 100; nth++) {
      await ask(`{ page(id: ${nth}) { id } list(n: ${nth + 1}) { price } }`);
      await clock.advance(600);
    }
    const before = counts.price;
    let builds = 0;
    const seen = new Set<string>();
    for (let second = 0; second < 240; second++) {
      const text = JSON.stringify((await ask(query)).data);
      if (!seen.has(text)) builds++;
      seen.add(text);
      await clock.advance(1_000);
    }
    // Four times a maxAge have passed.
    expect(builds).toBeLessThanOrEqual(2 * 4);
    expect(counts.price - before).toBeLessThanOrEqual(100 * 2 * 4);
  });
});

describe("a stale subtree", () => {
  const swr = "@cached(maxAge: 60, staleWhileRevalidate: 600, subtree: true)";
  const priceSwr = "@cached(maxAge: 60, staleWhileRevalidate: 600)";

  it("is served while it is built again in the background", async () => {
    const { ask, clock, counts, source } = open({ page: swr });
    const first = await ask("{ page { title } }");
    await clock.advance(61_000);
    const held = gate();
    source.held = held.passed;
    for (let time = 0; time < 3; time++) expect(await ask("{ page { title } }")).toEqual(first);
    held.open();
    await settle();
    expect((await ask("{ page { title } }")).data).toEqual({ page: { title: "title 2" } });
    expect(counts.title).toBe(2);
  });

  it("is not served longer than its parts may be", async () => {
    const { ask, clock } = open({ page: swr });
    const first = await ask("{ page { title price } }");
    await clock.advance(61_000);
    expect((await ask("{ page { title price } }")).data).not.toEqual(first.data);
  });

  it("is served while it is built again if its parts may be as well, which are loaded again with it", async () => {
    const { ask, clock } = open({ page: swr, price: priceSwr });
    const first = await ask("{ page { title price } }");
    await clock.advance(61_000);
    expect(await ask("{ page { title price } }")).toEqual(first);
    await settle();
    expect((await ask("{ page { title price } }")).data).toEqual({ page: { title: "title 2", price: 2 } });
  });

  it("stays if the build in the background fails in a child", async () => {
    const { ask, clock, source } = open({ page: swr, price: priceSwr });
    const first = await ask("{ page { title price } }");
    await clock.advance(61_000);
    source.fails = true;
    for (let time = 0; time < 3; time++) {
      expect(await ask("{ page { title price } }")).toEqual(first);
      await clock.advance(2_000);
    }
    source.fails = false;
    for (let time = 0; time < 6; time++) {
      await ask("{ page { title price } }");
      await clock.advance(2_000);
    }
    expect((await ask("{ page { title price } }")).data).toEqual({ page: { title: expect.any(String), price: 2 } });
  });
});

it("staleIfError of a field ends with that of its parts", async () => {
  const page = "@cached(maxAge: 60, staleIfError: 600, subtree: true)";
  const query = "{ page { title price } }";
  for (const [price, expected] of [
    // The part is served by itself, and the rest is new.
    ["@cached(maxAge: 60, staleIfError: 100)", 1],
    ["@cached(maxAge: 60, staleIfError: 10)", null],
    ["@cached(maxAge: 60)", null],
  ] as const) {
    const { ask, clock, source } = open({ page, price });
    await ask(query);
    await clock.advance(90_000);
    source.fails = true;
    const { data, errors } = await ask(query);
    expect([data, errors?.length]).toEqual([
      { page: { title: "title 2", price: expected } },
      expected === null ? 1 : undefined,
    ]);
  }
});

describe("negativeMaxAge", () => {
  it.each([
    ["null", null, "{ page { title } }", { page: null }],
    ["an empty list", { id: 1 }, "{ list(n: 0) { title } }", { list: [] }],
  ])("is the age of a subtree that is %s", async (_, value, query, empty) => {
    const { ask, clock, source, counts } = open({
      page: "@cached(maxAge: 60, negativeMaxAge: 5, subtree: true)",
    });
    source.page = value;
    expect((await ask(query)).data).toEqual(empty);
    await ask(query);
    const before = counts.page;
    source.page = { id: 1 };
    await clock.advance(5_100);
    const { data } = await ask(query);
    if (value === null) expect([data, before]).toEqual([{ page: { title: "title 1" } }, 1]);
    else expect(data).toEqual(empty);
  });

  it("is not the age of a list below that is empty", async () => {
    const { ask, clock, counts } = open({ page: "@cached(maxAge: 60, negativeMaxAge: 5, subtree: true)" });
    await ask("{ page { title kids(n: 0) { id } } }");
    await clock.advance(50_000);
    await ask("{ page { title kids(n: 0) { id } } }");
    expect(counts.title).toBe(1);
  });
});
