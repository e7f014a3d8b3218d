import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import {
  type DocumentNode,
  type ExecutionResult,
  execute,
  GraphQLError,
  GraphQLScalarType,
  type GraphQLSchema,
  Kind,
  parse,
  validate,
} from "graphql";
import { applyCached, type Cache, type CacheEvent, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { expect } from "vitest";
import { seededRandom } from "../../bench/seeded-random.js";
import { partsOf } from "../../src/core/parts.js";
import { type Draw, drawOfRandom } from "./draw.js";

const QUERIES_OF_A_SCHEMA = 50;
const ITEMS = 4;
const USERS = [undefined, "ann", "bob", "ann", "bob"];
const LOCALES = ["en", "de"];
const quiet = { info: () => undefined, warn: () => undefined };

interface Context {
  readonly user: string | undefined;
  readonly locale: string;
}

/** What the resolvers read. An item, and the box and the memo of it, change together. */
class Database {
  readonly versions = Array.from({ length: ITEMS }, () => 0);
  readonly gone = new Set<number>();
  /** Changes without any invalidation: only what is never cached depends on it. */
  stock = 0;

  item(n: number): object | null {
    if (this.gone.has(n)) return null;
    return { __typename: "Item", id: String(n), n, version: this.versions[n], friendId: after(n, 1) };
  }
}

const after = (n: number, count: number): number => (n + count) % ITEMS;

/** An item, or the box or the memo of one. */
interface Source {
  readonly n: number;
  readonly version: number;
  readonly friendId: number;
}

/** How the resolvers get an item: from the database, or through a cached loader. */
type Load = (n: number, context: Context) => Promise<Source | null> | Source | null;

/** A field as queries select it: the type of what is below, if anything is, and its arguments. */
interface Selectable {
  readonly type?: string;
  readonly args?: readonly string[];
}

const LEAF: Selectable = {};
const NODE: Readonly<Record<string, Selectable>> = { id: LEAF, version: LEAF, stock: LEAF };
const TITLED: Readonly<Record<string, Selectable>> = { title: { args: ["filter"] }, stock: LEAF };

const FIELDS: Readonly<Record<string, Readonly<Record<string, Selectable>>>> = {
  Query: {
    item: { type: "Item", args: ["id", "at"] },
    strict: { type: "Item", args: ["id"] },
    failing: { type: "Item", args: ["id"] },
    failingStrict: { type: "Item", args: ["id"] },
    localized: { type: "Item", args: ["id"] },
    items: { type: "Item", args: ["from", "count", "filter"] },
    node: { type: "Node", args: ["id"] },
    nodes: { type: "Node", args: ["filter"] },
    all: { type: "Any", args: ["count"] },
    titled: { type: "Titled", args: ["id"] },
    memo: { type: "Memo", args: ["id"] },
    memos: { type: "Memo", args: ["count"] },
    viewer: { type: "Item" },
    none: { type: "Item" },
    nothing: { type: "Item" },
    plain: { type: "Item", args: ["id"] },
    query: { type: "Query" },
    stock: LEAF,
  },
  Node: NODE,
  Titled: TITLED,
  Any: {},
  Item: {
    ...NODE,
    ...TITLED,
    color: LEAF,
    meta: LEAF,
    at: LEAF,
    own: LEAF,
    local: LEAF,
    tagged: LEAF,
    fails: LEAF,
    hard: LEAF,
    liked: LEAF,
    rights: LEAF,
    guarded: LEAF,
    shared: LEAF,
    friend: { type: "Item" },
    friends: { type: "Item", args: ["count", "filter"] },
    box: { type: "Box" },
    memo: { type: "Memo" },
    memos: { type: "Memo" },
    node: { type: "Node" },
    any: { type: "Any" },
    gone: { type: "Item" },
    empty: { type: "Item" },
    mine: { type: "Memo" },
    seen: { type: "Item" },
    query: { type: "Query" },
  },
  Box: { ...NODE, ...TITLED, item: { type: "Item" }, rights: LEAF },
  Memo: { ...TITLED, text: LEAF, item: { type: "Item" } },
};

/** The members of the abstract types. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  Node: ["Item", "Box"],
  Titled: ["Item", "Box", "Memo"],
  Any: ["Item", "Box", "Memo"],
};

/** The arguments by name, with type and default. */
const ARGS: Readonly<Record<string, string>> = {
  id: "ID!",
  at: "Stamp",
  from: "Int = 1",
  count: "Int = 2",
  filter: "Filter",
};

/** The fields of the input type `Filter`. */
const FILTER: Readonly<Record<string, string>> = {
  from: "Int = 1",
  color: "Color = BLUE",
  at: "Stamp",
  ids: "[ID!]",
  inner: "Filter",
};

/** What of a random schema is not in its SDL. */
interface SchemaChoices {
  readonly entityTags: boolean;
  /** Whether resolvers read items through a cached loader. Without entity tags, they have to. */
  readonly usesLoader: boolean;
  /** The form of the values of the scalar `Json`. */
  readonly json: "plain" | "bare" | "date" | "instance";
  /** Whether resolvers return promises. */
  readonly isAsync: boolean;
  /** Whether `Box.stock` is a hole, as it is in other types. */
  readonly boxHasHole: boolean;
  /** Whether the objects in lists of items are entries, and root fields have no subtrees more often. */
  readonly listsAreEntries: boolean;
}

/**
 * Returns a random choice of what is cached, PRIVATE or a hole. Whatever depends on an item is invalidated by its tag, as docs/invalidation.md
 * says. `isStrict`: whether fields are non-null.
 */
function typeDefsOf(draw: Draw, { boxHasHole, listsAreEntries }: SchemaChoices): (isStrict: boolean) => string {
  const timings = (scope = "PUBLIC"): string =>
    [
      `maxAge: ${5 + draw.int(55)}`,
      // What an auth mark covers must say itself that it is shared.
      `scope: ${scope}`,
      ...(draw.chance(30) ? [`staleWhileRevalidate: ${draw.int(60)}`] : []),
      ...(draw.chance(20) ? [`staleIfError: ${draw.int(60)}`] : []),
      ...(draw.chance(30) ? [`jitter: ${draw.int(10) / 10}`] : []),
      ...(draw.chance(20) ? ["negativeMaxAge: 3"] : []),
      ...(draw.chance(10) ? ["neverExpires: true"] : []),
      ...(draw.chance(20) ? ["readOnly: true"] : []),
    ].join(", ");
  const texts = (name: string, all: readonly string[]): string => `, ${name}: [${all.map((one) => `"${one}"`).join()}]`;
  const root = (tags: readonly string[], more = "", scope?: string): string =>
    ` @cached(${timings(scope)}${texts("tags", ["Roots", ...tags])}${draw.chance(listsAreEntries ? 30 : 92) ? ", subtree: true" : ""}${more})`;
  /** A nested field of an item that is cached or not. */
  const nested = (key: readonly string[], tags: readonly string[], percent = 50, scope?: string): string =>
    draw.chance(percent) ? ` @cached(${timings(scope)}${texts("key", key)}${texts("tags", tags)})` : "";
  const own = (...args: string[]): string =>
    nested(["$source.n", ...args.map((arg) => `$args.${arg}`)], ["Item:{$source.n}"]);
  const percentOfItems = listsAreEntries ? 100 : 50;
  const list = (): string =>
    nested(["$source.n", "$args"], ["Item:{$source.n}", "Roots", "Memos", "Item:{$source.friendId}"], percentOfItems);
  const hole = " @cached(maxAge: 0)";
  const title = `title(filter: Filter): String`;
  const local = nested(["$source.n", "$context.locale"], ["Item:{$source.n}"], 80);
  /** What an auth mark covers must say so on the field, although the policy is that of the type. */
  const ofType = listsAreEntries ? " @cached(scope: PUBLIC)" : "";
  const policies = {
    item: root(["Item:{$args.id}"]),
    strict: root(["Item:{$args.id}"]),
    failing: root(["Item:{$args.id}"]),
    failingStrict: root(["Item:{$args.id}"]),
    localized: root(["Item:{$args.id}", "Item:{$result.id}"], `, key: ["$args.id", "$context.locale"]`),
    items: root(["Item:{$result[].id}"]),
    node: root(["Item:{$args.id}"]),
    nodes: root(["Memos"]),
    all: root(["Memos"]),
    titled: root(["Memos"]),
    memo: root(["Item:{$args.id}"]),
    memos: root(["Memos"]),
    // What plain fields below a PRIVATE one read of the context is not watched: its key has to contain it.
    viewer: root(["Item:{$result.id}"], local === "" ? `, key: ["$context.locale"]` : "", "PRIVATE"),
    none: root([]),
    nothing: root([]),
    plain: draw.chance(50) ? ` @cached(${timings()}${texts("tags", ["Item:{$args.id}", "Roots"])})` : ofType,
    title: own("filter"),
    boxTitle: own("filter"),
    memoTitle: own("filter"),
    own: own(),
    local,
    tagged: nested(["$source.n"], ["Item:{$source.n}", "Locale:{$context.locale}"]),
    fails: own(),
    friend: nested(["$source.friendId"], ["Item:{$source.friendId}", "Roots"], percentOfItems),
    friends: list(),
    box: nested(["$source.friendId"], ["Item:{$source.friendId}", "Box:b{$source.friendId}"]),
    itemMemo: own(),
    itemNode: nested(["$source.friendId"], ["Item:{$source.friendId}", "Box:b{$source.friendId}", "Roots"]),
    mine: nested(["$source.n"], ["Item:{$source.n}"], 100, "PRIVATE"),
    guarded: draw.chance(50) ? " @auth" : hole,
    shared: ` @auth${nested(["$source.n"], ["Item:{$source.n}"], 100)}`,
    memoItem: nested(["$source.n"], ["Item:{$source.n}", "Roots", "Memos"], percentOfItems),
    ofType,
    ofItems: listsAreEntries
      ? ` @cached(${timings()}${texts("tags", ["Item:{$source.n}", "Roots", "Memos"])}, subtree: true)`
      : "",
  };
  return (isStrict) => {
    const strict = isStrict ? "!" : "";
    return /* GraphQL */ `
      directive @auth on FIELD_DEFINITION
      scalar Stamp
      scalar Json
      enum Color { RED GREEN BLUE }
      input Filter { from: Int = 1, color: Color = BLUE, at: Stamp, ids: [ID!], inner: Filter }
      interface Node { id: ID! version: Int stock: Int }
      interface Titled { ${title} stock: Int }
      union Any = Item | Box | Memo
      type Query {
        item(id: ID!, at: Stamp): Item${policies.item}
        strict(id: ID!): Item${strict}${policies.strict}
        failing(id: ID!): Item${policies.failing}
        failingStrict(id: ID!): Item${strict}${policies.failingStrict}
        localized(id: ID!): Item${policies.localized}
        items(from: Int = 1, count: Int = 2, filter: Filter): [Item${strict}]${policies.items}
        node(id: ID!): Node${policies.node}
        nodes(filter: Filter): [Node]${policies.nodes}
        all(count: Int = 2): [Any${strict}]${strict}${policies.all}
        titled(id: ID!): Titled${policies.titled}
        memo(id: ID!): Memo${policies.memo}
        memos(count: Int = 2): [Memo]${strict}${policies.memos}
        viewer: Item${policies.viewer}
        none: [Item${strict}]${policies.none}
        nothing: Item${policies.nothing}
        plain(id: ID!): Item${policies.plain}
        query: Query
        stock: Int${hole}
      }
      type Mutation { change(id: ID!): Item }
      type Item implements Node & Titled${policies.ofItems} {
        id: ID! n: Int friendId: ID version: Int ${title}${policies.title}
        stock: Int${hole}
        color: Color meta: Json at: Stamp
        own: Int${policies.own}
        local: String${policies.local}
        tagged: Int${policies.tagged}
        fails: String${policies.fails}
        hard: String${strict}
        liked: Boolean${hole}
        rights: Int${strict}${hole}
        guarded: String${policies.guarded}
        shared: String${policies.shared}
        friend: Item${policies.friend}
        friends(count: Int = 2, filter: Filter): [Item]${strict}${policies.friends}
        box: Box${policies.box}
        memo: Memo${policies.itemMemo}
        memos: [Memo${strict}]
        node: Node${policies.itemNode}
        any: [Any]
        gone: Item${policies.ofType}
        empty: [Item${strict}]${policies.ofType}
        mine: Memo${policies.mine}
        seen: [Item]${listsAreEntries ? " @cached(maxAge: 0, negativeMaxAge: 0, scope: PUBLIC)" : hole}
        query: Query
      }
      type Box implements Node & Titled {
        id: ID! n: Int version: Int stock: Int${boxHasHole ? hole : ""} ${title}${policies.boxTitle}
        item: Item${policies.ofType}
        rights: Int${strict}${hole}
      }
      type Memo implements Titled {
        n: Int stock: Int${hole} ${title}${policies.memoTitle} text: String
        item: Item${policies.memoItem}
      }
    `;
  };
}

/** A value of the scalar `Json` whose form is its own. */
class Document {
  readonly #version: number;
  constructor(version: number) {
    this.#version = version;
  }
  toJSON(): object {
    return { document: this.#version };
  }
}

const jsonOf = (form: SchemaChoices["json"], version: number): unknown =>
  ({
    plain: () => ({ version, list: [1, null, { deep: "é" }], missing: undefined, "__proto__ ": 1 }),
    bare: () => Object.assign(Object.create(null) as object, { version, nothing: null }),
    date: () => ({ at: new Date(version * 1_000), zero: -0 }),
    instance: () => new Document(version),
  })[form]();

interface FilterValue {
  readonly from?: number | null;
  readonly inner?: FilterValue | null;
  readonly at?: unknown;
}

/** Everything that a filter says, also of what is in it. */
const filterText = (filter: unknown): string =>
  JSON.stringify(filter, (_, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort())
      : value,
  ) ?? "none";

/** A scalar whose `parseValue` refuses what it has returned. */
const stamp = (): GraphQLScalarType => {
  const parseStamp = (value: unknown): object => {
    if (typeof value !== "string" || !value.startsWith("s:")) throw new TypeError("expected a stamp");
    return { stamp: Number(value.slice(2)) };
  };
  return new GraphQLScalarType({
    name: "Stamp",
    serialize: (value) => `s:${(value as { stamp: number }).stamp}`,
    parseValue: parseStamp,
    parseLiteral: (node) => parseStamp(node.kind === Kind.STRING ? node.value : undefined),
  });
};

function resolversOf(database: Database, load: Load, { json, isAsync, boxHasHole }: SchemaChoices): object {
  const later = <T>(value: T): T | Promise<T> =>
    isAsync ? new Promise<void>((resolve) => setImmediate(resolve)).then(() => value) : value;
  const typed = (typename: string) => (source: Source | null) => source && { ...source, __typename: typename };
  const then = <T, U>(value: T | Promise<T>, next: (value: T) => U): U | Promise<U> =>
    value instanceof Promise ? value.then(next) : next(value);
  const item = (n: number, context: Context): unknown => load(n, context);
  const as = (typename: string, n: number, context: Context): unknown => then(load(n, context), typed(typename));
  const itemsFrom = (from: number, count: number, context: Context): unknown[] =>
    Array.from({ length: count }, (_, nth) => item(after(from, nth), context));
  /** The first is the memo of the same item: it has no `id`, so it has no tag of another. */
  const mixed = (from: number, count: number, context: Context): unknown[] =>
    Array.from({ length: count }, (_, nth) =>
      as(["Memo", "Box", "Item"][nth % 3] as string, after(from, nth), context),
    );
  const userOf = ({ user }: Context, what: string): string => {
    if (user === undefined) throw new GraphQLError(`${what} needs a user`, { extensions: { code: "UNAUTHENTICATED" } });
    return user;
  };
  const idOf = ({ id }: { id: string }): number => Number(id) % ITEMS;
  const title = ({ n, version }: Source, { filter }: { filter?: unknown }): unknown =>
    later(`${n}.${version} ${filterText(filter)}`);
  const present = (found: Source | null): Source => {
    if (found === null) throw new Error("no such item");
    return found;
  };
  const stock = ({ n }: Source): number => database.stock + n;
  const rights = ({ n }: Source, _: unknown, context: Context): number => userOf(context, "a right").length * 10 + n;
  const titled = { title, stock };
  return {
    Stamp: stamp(),
    Json: new GraphQLScalarType({ name: "Json", serialize: (value) => jsonOf(json, value as number) }),
    Query: {
      item: (_: unknown, args: { id: string }, context: Context) => item(idOf(args), context),
      strict: (_: unknown, args: { id: string }, context: Context) => then(load(idOf(args), context), present),
      failing: (_: unknown, args: { id: string }, context: Context) =>
        then(load(idOf(args), context), (found) => {
          if (found !== null && found.version % 2 === 1) throw new Error(`odd version of ${found.n}`);
          return found;
        }),
      failingStrict: (_: unknown, args: { id: string }, context: Context) =>
        then(load(idOf(args), context), (found) => {
          if (present(found).version % 3 === 1) throw new GraphQLError("refused", { extensions: { code: "NO" } });
          return found;
        }),
      localized: (_: unknown, args: { id: string }, context: Context) =>
        item(after(idOf(args), context.locale === "de" ? 1 : 0), context),
      items: (_: unknown, args: { from: number; count: number; filter?: FilterValue }, context: Context) =>
        itemsFrom(args.from + (args.filter?.from ?? 0), args.count, context),
      node: (_: unknown, args: { id: string }, context: Context) =>
        as(idOf(args) % 2 === 0 ? "Item" : "Box", idOf(args), context),
      nodes: (_: unknown, { filter }: { filter?: FilterValue }, context: Context) =>
        [0, 1, 2].map((n) => as(n % 2 === 0 ? "Item" : "Box", after(n, filter?.inner?.from ?? 0), context)),
      all: (_: unknown, { count }: { count: number }, context: Context) =>
        mixed(0, count, context).map((one) => {
          const found = then(one as Source | null, present);
          // graphql 17 does not look at a list that comes after another field has failed.
          if (found instanceof Promise) found.catch(() => undefined);
          return found;
        }),
      titled: (_: unknown, args: { id: string }, context: Context) =>
        as(["Item", "Box", "Memo"][idOf(args) % 3] as string, idOf(args), context),
      memo: (_: unknown, args: { id: string }, context: Context) => as("Memo", idOf(args), context),
      memos: (_: unknown, { count }: { count: number }, context: Context) =>
        Array.from({ length: count }, (__, n) => as("Memo", n, context)),
      viewer: (_: unknown, __: unknown, context: Context) =>
        item(userOf(context, "the viewer").length % ITEMS, context),
      none: () => later([]),
      nothing: () => later(null),
      plain: (_: unknown, args: { id: string }, context: Context) => item(idOf(args), context),
      query: () => later({}),
      stock: () => database.stock,
    },
    Mutation: {
      change: (_: unknown, args: { id: string }) => {
        const n = idOf(args);
        database.versions[n] = (database.versions[n] ?? 0) + 1;
        return database.item(n);
      },
    },
    Item: {
      ...titled,
      color: ({ n }: Source) => ["RED", "GREEN", "BLUE"][n % 3],
      meta: ({ version }: Source) => version,
      at: ({ version }: Source) => ({ stamp: version }),
      own: ({ version }: Source) => later(version * 100),
      local: ({ n, version }: Source, _: unknown, { locale }: Context) => later(`${locale} ${n}.${version}`),
      tagged: ({ version }: Source) => later(version),
      fails: ({ n, version }: Source) => {
        if ((n + version) % 8 === 1) throw new Error(`${n} fails`);
        return later("fine");
      },
      hard: ({ n, version }: Source) => {
        if ((n + version) % 11 === 1) throw new Error(`${n} fails hard`);
        return later((n + version) % 11 === 2 ? null : "fine");
      },
      liked: ({ n }: Source, _: unknown, { user }: Context) => later(user === "ann" && n % 2 === 0),
      rights,
      guarded: ({ n, version }: Source, _: unknown, context: Context) =>
        `${n}.${version} for ${userOf(context, "what is guarded")}`,
      shared: ({ n, version }: Source) => later(`${n}.${version} for all`),
      friend: ({ friendId }: Source, _: unknown, context: Context) => item(Number(friendId), context),
      friends: ({ n }: Source, args: { count: number; filter?: FilterValue }, context: Context) =>
        later(itemsFrom(n + (args.filter?.inner?.from ?? 0), args.count % 3, context)),
      box: ({ friendId }: Source, _: unknown, context: Context) => as("Box", Number(friendId), context),
      memo: (source: Source) => later(typed("Memo")(source)),
      memos: (source: Source) => later([source, source].map(typed("Memo"))),
      node: ({ friendId }: Source, _: unknown, context: Context) =>
        as(Number(friendId) % 2 === 0 ? "Item" : "Box", Number(friendId), context),
      any: ({ n }: Source, _: unknown, context: Context) => mixed(n, 3, context),
      gone: () => null,
      empty: () => later([]),
      mine: (source: Source, _: unknown, { user }: Context) => {
        const memo = typed("Memo")(source);
        return memo && { ...memo, text: `of ${user}` };
      },
      seen: ({ n }: Source, _: unknown, context: Context) => itemsFrom(n + (context.user?.length ?? 0), 2, context),
      query: () => ({}),
    },
    Box: {
      title,
      stock: boxHasHole ? stock : ({ n }: Source) => n,
      id: ({ n }: Source) => `b${n}`,
      item: ({ n }: Source, _: unknown, context: Context) => item(after(n, 2), context),
      rights,
    },
    Memo: {
      ...titled,
      text: ({ n, version, text }: Source & { text?: string }) => text ?? `memo of ${n}.${version}`,
      item: ({ n }: Source, _: unknown, context: Context) => item(after(n, 3), context),
    },
  };
}

type Variables = Readonly<Record<string, unknown>>;

interface RandomQuery {
  readonly source: string;
  readonly document: DocumentNode;
  readonly variables: Variables;
  /** The types of the variables. */
  readonly types: Variables;
}

/** Makes one query. */
class QueryBuilder {
  readonly #draw: Draw;
  readonly #variables: Record<string, unknown> = {};
  readonly #types: Record<string, string> = {};
  readonly #declared: string[] = [];
  readonly #fragments: string[] = [];
  /** The finished fragments, by the type that they are about. */
  readonly #finished = new Map<string, { readonly name: string; readonly depth: number }[]>();
  #aliases = 0;
  #fields = 0;

  constructor(draw: Draw) {
    this.#draw = draw;
  }

  build(): RandomQuery {
    const body = this.#roots();
    const name = this.#draw.chance(30) ? " Named" : "";
    const head = this.#declared.length === 0 ? `query${name}` : `query${name} (${this.#declared.join(", ")})`;
    const source = [`${head} ${body}`, ...this.#fragments].join("\n");
    return { source, document: parse(source), variables: this.#variables, types: this.#types };
  }

  #roots(): string {
    const draw = this.#draw;
    const parts: string[] = [];
    for (let count = 1 + Number(draw.chance(25)); count > 0; count--) {
      const name = this.#rootName();
      const head = this.#head("Query", name, 0);
      const root = (): string => this.#completed("Query", name, head, 0);
      parts.push(root());
      // A merged field: another selection under the same response key.
      if (draw.chance(15)) parts.push(root());
      if (draw.chance(10)) parts.push(`...${draw.pick(["", " on Query"])}${this.#condition()} { ${root()} }`);
    }
    if (draw.chance(15)) parts.push("__typename");
    if (!draw.chance(30)) return `{ ${parts.join(" ")} }`;
    const fragment = this.#fragment("Query", `{ ${parts.join(" ")} }`, 0);
    const nested = draw.chance(40)
      ? this.#fragment("Query", `{ ...${fragment} ${this.#field("Query", this.#rootName(), 0)} }`, 0)
      : fragment;
    return `{ ...${fragment} ...${nested}${this.#condition()} ...${fragment} }`;
  }

  #rootName(): string {
    return this.#draw.pick(Object.keys(FIELDS.Query as object).slice(0, this.#draw.chance(90) ? 13 : undefined));
  }

  #selection(type: string, depth: number): string {
    const draw = this.#draw;
    const parts: string[] = draw.chance(25) ? ["__typename"] : [];
    const finished = (this.#finished.get(type) ?? []).filter((one) => one.depth >= depth);
    if (finished.length > 0 && draw.chance(40)) {
      const { name } = draw.pick(finished);
      parts.push(`...${name}${this.#condition()}`, ...(draw.chance(30) ? [`...${name}`] : []));
    }
    const names = Object.keys(FIELDS[type] ?? {});
    const wanted = names.length === 0 ? 0 : 1 + draw.int(this.#fields > 6 ? 0 : 4 - depth);
    for (let count = 0; count < wanted; count++) {
      // What is cached for several selections is read by the build of each.
      const name = type === "Item" && draw.chance(15) ? "friend" : draw.pick(names);
      const field = this.#field(type, name, depth);
      if (field !== "") parts.push(draw.chance(12) ? this.#inline(type, `{ ${field} }`) : field);
    }
    for (const member of MEMBERS[type] ?? [])
      if (draw.chance(45)) parts.push(this.#inline(member, this.#selection(member, depth)));
    if (type === "Item" && draw.chance(8)) parts.push(this.#inline("Node", this.#selection("Node", depth)));
    const selection = `{ ${(parts.length === 0 ? ["__typename"] : parts).join(" ")} }`;
    return draw.chance(15)
      ? `{ ...${this.#fragment(type, selection, depth)}${this.#condition()} __typename }`
      : selection;
  }

  #inline(type: string, selection: string): string {
    return `... on ${type}${this.#condition()} ${selection}`;
  }

  #fragment(type: string, selection: string, depth: number): string {
    const name = `F${this.#fragments.length}`;
    this.#fragments.push(`fragment ${name} on ${type} ${selection}`);
    this.#finished.set(type, [...(this.#finished.get(type) ?? []), { name, depth }]);
    return name;
  }

  #field(parent: string, name: string, depth: number): string {
    if (FIELDS[parent]?.[name]?.type !== undefined && depth >= 3) return "";
    return this.#completed(parent, name, this.#head(parent, name, depth), depth);
  }

  /** Returns a field without its condition and its selection. */
  #head(parent: string, name: string, depth: number): string {
    const draw = this.#draw;
    const { args = [] } = FIELDS[parent]?.[name] ?? {};
    const passed = args
      .filter((arg) => ARGS[arg]?.endsWith("!") || draw.chance(60))
      .map((arg) => `${arg}: ${this.#argument(ARGS[arg] ?? "", 0)}`);
    const text = passed.length === 0 ? name : `${name}(${passed.join(", ")})`;
    // Fields with arguments could differ, so they have response keys of their own.
    return args.length > 0 || depth === 0 || draw.chance(15) ? `a${this.#aliases++}: ${text}` : text;
  }

  #completed(parent: string, name: string, head: string, depth: number): string {
    const { type } = FIELDS[parent]?.[name] ?? {};
    this.#fields++;
    return `${head}${this.#condition()}${type === undefined ? "" : ` ${this.#selection(type, depth + 1)}`}`;
  }

  #condition(): string {
    if (!this.#draw.chance(8)) return "";
    return ` @${this.#draw.pick(["skip", "include"])}(if: ${this.#variable("Boolean!")})`;
  }

  /** Returns a literal with variables in it, or a variable. */
  #argument(declared: string, depth: number): string {
    const draw = this.#draw;
    const [type = ""] = declared.split(" = ");
    if (draw.chance(35)) return this.#variable(type);
    if (!type.endsWith("!") && draw.chance(10)) return type === "Int" ? "1" : "null";
    const [, inner] = /^\[(.*)\]$/.exec(type) ?? [];
    if (inner !== undefined)
      return `[${Array.from({ length: draw.int(2) }, () => this.#argument(inner, depth)).join()}]`;
    if (type === "Filter")
      return `{ ${draw
        .some(Object.entries(FILTER))
        .filter(([name]) => name !== "inner" || depth < 2)
        .map(([name, one]) => `${name}: ${this.#argument(one, depth + 1)}`)
        .join(", ")} }`;
    return literal(inputOf(type, draw));
  }

  #variable(type: string): string {
    const draw = this.#draw;
    const name = `v${this.#declared.length}`;
    const known = Object.keys(this.#types).filter((one) => this.#types[one] === type);
    if (known.length > 0 && draw.chance(30)) return `$${draw.pick(known)}`;
    // A default makes a nullable variable fit a place that has one.
    const hasDefault = type === "Int" || (!type.endsWith("!") && type !== "Filter" && draw.chance(30));
    this.#declared.push(`$${name}: ${type}${hasDefault ? ` = ${literal(inputOf(type, draw))}` : ""}`);
    this.#types[name] = type;
    Object.assign(this.#variables, valuesOf({ [name]: type }, draw));
    return `$${name}`;
  }
}

/** Returns values of variables. Those of variables that can be null are left out now and then. */
const valuesOf = (types: Variables, draw: Draw): Variables =>
  Object.fromEntries(
    Object.entries(types)
      .filter(([, type]) => String(type).endsWith("!") || draw.chance(80))
      .map(([name, type]) => [name, inputOf(String(type), draw)]),
  );

/** Returns a value in its JSON form. */
function inputOf(type: string, draw: Draw, depth = 0): unknown {
  const [, inner] = /^\[(.*)\]$/.exec(type) ?? [];
  if (inner !== undefined) return Array.from({ length: draw.int(2) }, () => inputOf(inner, draw));
  switch (type.replace("!", "")) {
    case "ID":
      return String(draw.int(ITEMS - 1));
    case "Int":
      return draw.int(3);
    case "Boolean":
      return draw.chance(60);
    case "Color":
      return draw.pick(["RED", "GREEN", "BLUE"]);
    case "Stamp":
      return `s:${draw.int(3)}`;
    default:
      return Object.fromEntries(
        draw
          .some(Object.entries(FILTER))
          .filter(([name]) => name !== "inner" || depth < 2)
          .map(([name, one]) => [name, inputOf(one.split(" = ")[0] ?? "", draw, depth + 1)]),
      );
  }
}

const literal = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(literal).join()}]`;
  if (typeof value === "string") return /^[A-Z]+$/.test(value) ? value : JSON.stringify(value);
  return String(value);
};

export interface Process {
  readonly cache: Cache<Context>;
  readonly schema: GraphQLSchema;
}

/** One random schema, with the database that its two processes share. */
class Site {
  readonly draw: Draw;
  readonly database = new Database();
  readonly clock = new FakeClock();
  readonly typeDefs: string;
  readonly choices: SchemaChoices;
  readonly processes: readonly [Process, Process];
  /** Without a cache. */
  readonly plain: GraphQLSchema;
  /** The same, with nullable fields only. */
  readonly nullable: GraphQLSchema;
  /** Grows with each change of the database. */
  revision = 0;
  /** What was done to the database and the caches. */
  readonly history: string[] = [];

  /** The digests of the keys of subtrees. */
  readonly digests = new Set<string>();

  constructor(
    random: () => number,
    prepare: (process: Process) => void,
    onEvent: (event: CacheEvent, isSubtree: boolean) => void,
    listsAreEntries: boolean,
  ) {
    const draw = drawOfRandom(random);
    this.draw = draw;
    const entityTags = draw.chance(60);
    this.choices = {
      entityTags,
      usesLoader: !entityTags || draw.chance(20),
      json: draw.pick(["plain", "plain", "bare", "date", "instance"]),
      isAsync: draw.chance(50),
      boxHasHole: draw.chance(50),
      listsAreEntries,
    };
    const typeDefs = typeDefsOf(draw, this.choices);
    this.typeDefs = typeDefs(true);
    const make = (isStrict: boolean, load: Load): GraphQLSchema => {
      const resolvers = resolversOf(this.database, load, this.choices) as never;
      return makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs(isStrict)], resolvers });
    };
    const find = (n: number): Source | null => this.database.item(n) as Source | null;
    // Where an error in a list belongs depends on whether its items are promises.
    const direct: Load = this.choices.usesLoader ? async (n) => find(n) : find;
    this.plain = make(true, direct);
    this.nullable = make(false, direct);
    const store = memoryStore({ clock: this.clock });
    const start = (): Process => {
      const cache = createCache<Context>({
        store,
        testing: { clock: this.clock, random },
        logger: quiet,
        identify: ({ user }) => user,
        privacy: { requireScope: false },
        subtrees: { maxSelections: 1_000 },
        onEvent: (event) => onEvent(event, "digest" in event && this.digests.has(event.digest)),
      });
      const { keys } = partsOf(cache, "test");
      const { entry } = keys;
      keys.entry = (input, variant) => {
        const key = entry(input, variant);
        if (input.kind === "subtree") this.digests.add(key.digest);
        return key;
      };
      const items = cache.loader<number, Source | null>({
        name: "Item",
        maxAge: 30,
        tags: (n) => [`Item:${n}`],
        batch: async (ns) => ns.map(find),
      });
      const load: Load = this.choices.usesLoader ? (n, context) => items(context).load(n) : direct;
      const process = { cache, schema: applyCached(make(true, load), cache, { entityTags }) };
      prepare(process);
      return process;
    };
    this.processes = [start(), start()];
  }

  /** Changes an item, and invalidates what is made of it in one of all ways. */
  async change({ cache, schema }: Process): Promise<void> {
    const { draw, database, choices } = this;
    const n = draw.int(ITEMS - 1);
    this.revision++;
    const tags = [`Item:${n}`, `Box:b${n}`, "Memos"];
    const bump = (): void => {
      database.versions[n] = (database.versions[n] ?? 0) + 1;
    };
    const coordinates = [...partsOf(cache, "test").rules.fields.keys()];
    const has = (coordinate: string): boolean => coordinates.includes(coordinate);
    const ways: (() => Promise<void>)[] = [
      async () => {
        bump();
        await cache.invalidateTags(tags);
      },
      () => cache.mutate({ tags }, bump),
      async () => {
        bump();
        await cache.clear();
      },
      async () => {
        bump();
        if (choices.usesLoader) await cache.invalidate({ loader: "Item" });
        for (const coordinate of coordinates) await cache.invalidate({ coordinate });
      },
      // What comes and goes is in lists, and in the place of null, which have no tag of it.
      async () => {
        if (!database.gone.delete(n) && database.gone.size < 2) database.gone.add(n);
        await cache.invalidateTags([...tags, "Roots"]);
      },
    ];
    if (choices.entityTags)
      ways.push(async () => {
        const document = parse("mutation ($id: ID!) { change(id: $id) { version } }");
        const contextValue: Context = { user: "ann", locale: "en" };
        const variableValues = { id: String(n) };
        const { errors } = await cache.execute({ schema, document, variableValues, contextValue }, false);
        expect(errors).toBe(undefined);
        if (database.gone.has(n)) await cache.clear();
        else await cache.invalidateTags([`Box:b${n}`, "Memos"]);
      });
    if (choices.usesLoader) {
      const byKeys = async (): Promise<void> => {
        bump();
        await cache.invalidate({ loader: "Item", id: n });
        const targets: { readonly coordinate: string }[] = [
          ...["item", "strict", "failing", "failingStrict", "node", "memo", "plain"].map((name) => ({
            coordinate: `Query.${name}`,
            ...(name === "item" ? {} : { args: { id: String(n) } }),
          })),
          ...["localized", "items", "nodes", "all", "titled", "memos", "viewer"].map((name) => ({
            coordinate: `Query.${name}`,
          })),
          ...["Item.own", "Item.tagged", "Item.fails", "Item.memo", "Item.shared"].map((coordinate) => ({
            coordinate,
            source: { n },
          })),
          ...["Item.title", "Box.title", "Memo.title", "Item.local", "Item.mine", "Item.friends"].map((coordinate) => ({
            coordinate,
          })),
          ...["Item.friend", "Item.box", "Item.node"].map((coordinate) => ({ coordinate, source: { friendId: n } })),
          ...["Memo.item"].map((coordinate) => ({ coordinate, source: { n: after(n, ITEMS - 3) } })),
        ];
        for (const target of targets) if (has(target.coordinate)) await cache.invalidate(target);
      };
      ways.push(byKeys, byKeys);
    }
    const way = draw.int(ways.length - 1);
    this.history.push(`change of ${n} in way ${way}`);
    await ways[way]?.();
  }

  /** Does what changes nothing that is cached: stale values are what they were. */
  async disturb({ cache }: Process): Promise<void> {
    const { draw, database } = this;
    const soft = { soft: true };
    const ways = [
      () => cache.clear(soft),
      () => cache.invalidateTags([`Item:${draw.int(ITEMS - 1)}`], soft),
      () => cache.invalidateTags(["Roots", "Locale:en"], soft),
      () => cache.invalidateTags(["Locale:de"]),
      async () => {
        database.stock += 10;
        this.revision++;
      },
      async () => {
        database.stock += 10;
        this.revision++;
      },
      () => this.clock.advance(draw.int(30_000)),
      () => this.clock.advance(draw.int(5_000)),
    ];
    const way = draw.int(ways.length - 1);
    this.history.push(`disturbance ${way}`);
    await ways[way]?.();
  }
}

/** The answers to one query with one set of variables without a cache, at one time. */
class Expected {
  readonly #site: Site;
  readonly #query: RandomQuery;
  readonly #known = new Map<string, ExecutionResult>();

  constructor(site: Site, query: RandomQuery) {
    this.#site = site;
    this.#query = query;
  }

  async of(context: Context, isStrict = true): Promise<ExecutionResult> {
    const { plain, nullable, revision } = this.#site;
    const id = JSON.stringify([revision, context, isStrict]);
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const { document, variables } = this.#query;
    const args = { schema: isStrict ? plain : nullable, document, variableValues: variables };
    const result = await execute({ ...args, contextValue: { ...context } });
    this.#known.set(id, result);
    return result;
  }
}

const sorted = (texts: Iterable<string>): string[] => [...texts].sort((one, other) => (one < other ? -1 : 1));

const errorText = ({ message, path, locations, extensions }: GraphQLError): string =>
  JSON.stringify([message, path, locations, extensions]);

/** Returns the first null on a path, and how many steps lead to it. */
function valueAt(
  data: unknown,
  path: readonly (string | number)[],
): { readonly value: unknown; readonly depth: number } {
  let value = data;
  let depth = 0;
  while (depth < path.length && value !== null && value !== undefined)
    value = (value as Readonly<Record<string, unknown>>)[path[depth++] as string];
  return { value, depth };
}

/** The errors of a result: the texts of those of what is null itself, and those at or below what a non-null field has made null, by place. */
function errorsOf({ data, errors = [] }: ExecutionResult): { exact: string[]; nulled: Map<string, GraphQLError[]> } {
  const exact: string[] = [];
  const nulled = new Map<string, GraphQLError[]>();
  for (const error of errors) {
    const path = error.path ?? [];
    const { depth } = valueAt(data, path);
    if (depth === path.length && data !== null) exact.push(errorText(error));
    else {
      const place = JSON.stringify(path.slice(0, depth));
      nulled.set(place, [...(nulled.get(place) ?? []), error]);
    }
  }
  return { exact: sorted(exact), nulled };
}

/**
 * Returns whether two results have the same data, as text, and the same errors. Of several non-null fields of an object that fail, graphql-js
 * reports the one that fails first, so any of those that are possible will do.
 */
async function isSame(
  answer: ExecutionResult,
  expected: ExecutionResult,
  possible: () => Promise<ExecutionResult>,
): Promise<boolean> {
  if (JSON.stringify(answer.data) !== JSON.stringify(expected.data)) return false;
  const [one, other] = [errorsOf(answer), errorsOf(expected)];
  if (JSON.stringify(one.exact) !== JSON.stringify(other.exact)) return false;
  if (sorted(one.nulled.keys()).join("\n") !== sorted(other.nulled.keys()).join("\n")) return false;
  const answered = [...one.nulled.values()].flat();
  const texts = sorted(answered.map(errorText));
  if (texts.join("\n") === sorted([...other.nulled.values()].flat().map(errorText)).join("\n")) return true;
  const { data, errors = [] } = await possible();
  const possibleTexts = new Set(errors.map(errorText));
  const isPossible = (error: GraphQLError): boolean =>
    possibleTexts.has(errorText(error)) ||
    (error.message.startsWith("Cannot return null for") && valueAt(data, error.path ?? []).value === null);
  return new Set(texts).size === texts.length && answered.every(isPossible);
}

export interface Differences {
  readonly asked: number;
  readonly differing: number;
  /** Of subtrees, by how they were served. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** Why subtrees were not used or not stored. */
  readonly skipped: ReadonlySet<string>;
  /** The first difference, in words. */
  readonly first: string;
}

/** What `differences` asks. */
export interface Asked {
  /** The schemas have this seed, the next one, and so on. */
  readonly seed: number;
  /** How many different queries, each twice in each of two processes. */
  readonly queries: number;
  /** Whether it ends when an answer differs. */
  readonly endsAtFirst?: boolean;
  /** See `SchemaChoices`. */
  readonly listsAreEntries?: boolean;
  /** Called with each process before it is asked. */
  readonly prepare?: (process: Process) => void;
}

/** Asks random queries of random schemas, and returns how many answers differ from those without a cache. */
export async function differences({
  seed,
  queries,
  endsAtFirst = false,
  listsAreEntries = false,
  prepare = () => undefined,
}: Asked): Promise<Differences> {
  let [asked, differing, first] = [0, 0, ""];
  const outcomes: Record<string, number> = {};
  const skipped = new Set<string>();
  // Most errors are of resolvers, on purpose.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  const onEvent = (event: CacheEvent, isSubtree: boolean): void => {
    if (event.name === "subtree.skipped") skipped.add(event.reason);
    if (event.name !== "entry.served" || !isSubtree) return;
    const outcome = event.coordinate === "Item" ? `object ${event.outcome}` : event.outcome;
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  };
  for (let done = 0; done < queries; done += QUERIES_OF_A_SCHEMA) {
    const schemaSeed = seed + done / QUERIES_OF_A_SCHEMA;
    const site = new Site(seededRandom(schemaSeed), prepare, onEvent, listsAreEntries);
    const { draw, processes, clock } = site;
    const ask = async (query: RandomQuery, process: Process, context: Context, expected: Expected): Promise<void> => {
      const contextValue = { ...context };
      const override = draw.chance(6) ? draw.pick(["REFRESH", "BYPASS"] as const) : undefined;
      if (override !== undefined) process.cache.override(contextValue, override);
      site.history.push(`query ${known.indexOf(query)} in ${processes.indexOf(process)} ${override ?? ""}`);
      const args = { document: query.document, variableValues: query.variables, schema: process.schema };
      const wanted = await expected.of(context);
      const answer = await process.cache.execute({ ...args, contextValue }, false);
      asked++;
      if (await isSame(answer, wanted, () => expected.of(context, false))) return;
      differing++;
      const asText = (result: ExecutionResult): string => JSON.stringify(result);
      first ||= [
        `seed ${schemaSeed}`,
        JSON.stringify(site.choices),
        `history: ${site.history.slice(-20).join("; ")}`,
        site.typeDefs,
        query.source,
        JSON.stringify([query.variables, context]),
        asText(answer),
        `expected ${asText(wanted)}`,
      ].join("\n");
    };
    const contextOf = (): Context => ({ user: draw.pick(USERS), locale: draw.pick(LOCALES) });
    const known: RandomQuery[] = [];
    for (let nth = 0; nth < QUERIES_OF_A_SCHEMA && !(endsAtFirst && differing > 0); nth++) {
      const query = new QueryBuilder(draw).build();
      // An invalid query would say nothing about any of the answers. That none is made is seen in some of them.
      const mistakes = nth % 5 === 0 ? validate(site.plain, query.document) : [];
      expect(mistakes, `seed ${schemaSeed}\n${query.source}`).toEqual([]);
      known.push(query);
      const expected = new Expected(site, query);
      const contexts = [contextOf(), contextOf()] as const;
      for (let time = 0; time < 2; time++) {
        const isChanged = draw.chance(15);
        if (isChanged) {
          // What a refresh has read before a change can reach what it loads after it; see P3 of docs/guarantees.md.
          await Promise.all(processes.map(({ cache }) => cache.settled()));
          await site.change(draw.pick(processes));
        }
        if (draw.chance(30)) await site.disturb(draw.pick(processes));
        const asking = processes.map((process, which) =>
          ask(query, process, contexts[(time + which) % 2] as Context, expected),
        );
        if (draw.chance(10)) {
          const older = draw.pick(known);
          const other = { ...older, variables: valuesOf(older.types, draw) };
          asking.push(ask(other, draw.pick(processes), contextOf(), new Expected(site, other)));
        }
        if (isChanged)
          for (const older of draw.some(known.slice(-4)))
            asking.push(ask(older, draw.pick(processes), contextOf(), new Expected(site, older)));
        await Promise.all(asking);
        await settle();
      }
    }
    const closing = Promise.all(processes.map(({ cache }) => cache.close()));
    await clock.advance(2_000);
    await closing;
    if (endsAtFirst && differing > 0) break;
  }
  Error.stackTraceLimit = stackTraceLimit;
  return { asked, differing, outcomes, skipped, first };
}

/** A list whose order changes without any invalidation, with holes in its items. */
const LISTS = /* GraphQL */ `
  type Query { shop(n: Int): Shop @cached(maxAge: 60, subtree: true) }
  type Shop { id: ID! items: [Item!] best: Item node: Node any: [Any!] }
  interface Node { id: ID! code: String stock: String }
  union Any = Item | Box
  type Item implements Node { id: ID! code: String stock: String @cached(maxAge: 0) friends: [Item!] }
  type Box implements Node { id: ID! code: String stock: String @cached(maxAge: 0) item: Item }
`;

/**
 * Asks for lists that change while they are cached, without any invalidation. Returns how many answers have a hole of another object than
 * that around it.
 */
export async function misplacedHoles(seed: number, rounds: number): Promise<{ misplaced: number; filled: number }> {
  const draw = drawOfRandom(seededRandom(seed));
  let order = ["1", "2", "3", "4"];
  const typed = (id: string): object => ({ __typename: Number(id) % 2 === 0 ? "Item" : "Box", id });
  const node = {
    code: ({ id }: { id: string }) => `of ${id}`,
    stock: ({ id }: { id: string }) => `of ${id}`,
  };
  const resolvers = {
    Query: { shop: () => ({ id: "shop" }) },
    Shop: {
      items: () => order.map((id) => ({ id })),
      best: () => ({ id: order[0] }),
      node: () => typed(order[1] as string),
      any: () => order.map(typed),
    },
    Item: { ...node, friends: () => order.slice(1).map((id) => ({ id })) },
    Box: { ...node, item: () => ({ id: order[0] }) },
  };
  const clock = new FakeClock();
  const cache = createCache({ store: memoryStore({ clock }), testing: { clock }, logger: quiet });
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, LISTS], resolvers }), cache);
  const fields = (): string => draw.pick(["code stock", "stock code", "id code stock", "code a: stock"]);
  const item = (depth: number): string =>
    `{ ${fields()} ${depth > 0 && draw.chance(50) ? `friends ${item(depth - 1)}` : ""} }`;
  const any = (): string =>
    `{ ... on Item ${item(1)} ... on Box { ${fields()} ${draw.chance(50) ? `item ${item(0)}` : ""} } }`;
  const queries = Array.from({ length: 20 }, () =>
    parse(`{ shop { ${draw.pick([`items ${item(1)}`, `best ${item(1)}`, `node ${any()}`, `any ${any()}`])} } }`),
  );
  let [misplaced, filled] = [0, 0];
  const check = (value: unknown): boolean => {
    if (Array.isArray(value)) return value.every(check);
    if (typeof value !== "object" || value === null) return true;
    const { code, stock, a } = value as { code?: string; stock?: string; a?: string };
    if (code !== undefined) filled++;
    return (code ?? "") === (stock ?? a ?? "") && Object.values(value).every(check);
  };
  for (let round = 0; round < rounds; round++) {
    if (draw.chance(50)) order = draw.chance(50) ? order.toReversed() : [...order.slice(1), order[0] as string];
    const { data, errors } = await cache.execute({ schema, document: draw.pick(queries), contextValue: {} }, false);
    expect(errors).toBe(undefined);
    if (!check(data)) misplaced++;
    await settle();
  }
  await cache.close();
  return { misplaced, filled };
}
