import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import type { GraphQLSchema } from "graphql";
import { type Cache, cachedTypeDefs } from "graphql-cached";

/** One release's version of a cached field and of the type `T` that it returns. */
interface FieldVersion {
  /** The body of `T`, or a whole definition of it. */
  readonly type: string;
  readonly selection: string;
  /** What the source returns. Changes with `epoch`, the number of writes so far. */
  readonly value: (id: number, epoch: number) => unknown;
  /** Further settings of `@cached`. */
  readonly settings?: string;
  /** Arguments besides `id`. */
  readonly args?: string;
  /** Further types. */
  readonly types?: string;
  /** The resolvers of `T`. */
  readonly resolvers?: Readonly<Record<string, (source: never, args: never) => unknown>>;
  /** Settings of the loader behind the field, which is then cached instead of the field. */
  readonly loader?: Readonly<Record<string, unknown>>;
}

/** A field that differs between two releases. */
export interface Change {
  /** Whether the releases can read each other's entries all the same. */
  readonly isCompatible?: true;
  readonly old: FieldVersion;
  readonly next: FieldVersion;
}

export type Release = "old" | "next";

const MOVIE: FieldVersion = {
  type: "{ id: Int! title: String! year: Int edition: Int! }",
  selection: "id title year edition",
  value: (id, edition) => ({ id, title: `Film ${id}`, year: 1979, edition }),
};

/** Returns `MOVIE` with changes. */
const movie = (changes: Partial<FieldVersion>): FieldVersion => ({ ...MOVIE, ...changes });

const MEDIA = "{ edition: Int! title: String }";
const SERIES = "type TSeries { edition: Int! seasons: Int! }";
const TAGGED = ', tags: ["Movie:{$args.id}"]';

/** The fields of the schema, by name. Each is one kind of change that a release can bring. */
export const CHANGES: Readonly<Record<string, Change>> = {
  unchanged: { isCompatible: true, old: MOVIE, next: MOVIE },
  unrelatedTypeChanged: {
    isCompatible: true,
    old: movie({ types: "type TOther { a: Int }" }),
    next: movie({ types: "type TOther { b: Int }" }),
  },
  descriptionAdded: {
    isCompatible: true,
    old: MOVIE,
    next: movie({ type: '{ edition: Int! year: Int @deprecated title: String! "The id." id: Int! }' }),
  },
  innerArgumentDefaultChanged: {
    isCompatible: true,
    old: movie({ type: MOVIE.type.replace("year:", "year(n: Int = 1):") }),
    next: movie({ type: MOVIE.type.replace("year:", "year(n: Int = 2):") }),
  },
  optionalArgumentAdded: { isCompatible: true, old: MOVIE, next: movie({ args: ", note: String" }) },
  fieldAdded: {
    old: movie({ settings: TAGGED }),
    next: {
      type: MOVIE.type.replace("}", "stars: Float! }"),
      selection: `${MOVIE.selection} stars`,
      value: (id, edition) => ({ id, title: `Film ${id}`, year: 1979, edition, stars: 4.5 }),
      settings: TAGGED,
    },
  },
  fieldRenamed: {
    old: MOVIE,
    next: {
      type: "{ id: Int! name: String! edition: Int! }",
      selection: "id name edition",
      value: (id, edition) => ({ id, name: `Film ${id}`, edition }),
    },
  },
  fieldMadeNonNull: {
    old: movie({ value: (id, edition) => ({ id, title: `Film ${id}`, year: null, edition }) }),
    next: movie({ type: MOVIE.type.replace("year: Int", "year: Int!") }),
  },
  fieldRetyped: {
    old: MOVIE,
    next: movie({
      type: MOVIE.type.replace("year: Int", "year: String"),
      value: (id, edition) => ({ id, title: `Film ${id}`, year: "MCMLXXIX", edition }),
    }),
  },
  fieldMadeList: {
    old: MOVIE,
    next: movie({
      type: MOVIE.type.replace("year: Int", "year: [Int!]"),
      value: (id, edition) => ({ id, title: `Film ${id}`, year: [1979], edition }),
    }),
  },
  enumValueRemoved: {
    old: {
      type: "{ edition: Int! color: TColor! }",
      types: "enum TColor { RED GREEN }",
      selection: "edition color",
      value: (_id, edition) => ({ edition, color: "GREEN" }),
    },
    next: {
      type: "{ edition: Int! color: TColor! }",
      types: "enum TColor { RED }",
      selection: "edition color",
      value: (_id, edition) => ({ edition, color: "RED" }),
    },
  },
  unionMemberRemoved: {
    old: {
      type: "union T = TFilm | TSeries",
      types: `type TFilm ${MEDIA} ${SERIES}`,
      selection: "__typename ... on TFilm { edition } ... on TSeries { edition seasons }",
      value: (_id, edition) => ({ __typename: "UnionMemberRemovedSeries", edition, seasons: 3 }),
    },
    next: {
      type: "union T = TFilm",
      types: `type TFilm ${MEDIA} ${SERIES}`,
      selection: "__typename ... on TFilm { edition title }",
      value: (id, edition) => ({ __typename: "UnionMemberRemovedFilm", edition, title: `Film ${id}` }),
    },
  },
  nestedTypeChanged: {
    old: {
      type: "{ edition: Int! studio: TStudio }",
      types: "type TStudio { owner: TOwner } type TOwner { name: String }",
      selection: "edition studio { owner { name } }",
      value: (_id, edition) => ({ edition, studio: { owner: { name: "A" } } }),
    },
    next: {
      type: "{ edition: Int! studio: TStudio }",
      types: "type TStudio { owner: TOwner } type TOwner { first: String }",
      selection: "edition studio { owner { first } }",
      value: (_id, edition) => ({ edition, studio: { owner: { first: "A" } } }),
    },
  },
  parentReaderGotResolver: {
    old: {
      type: "{ edition: Int! label: String }",
      selection: "edition label",
      value: (_id, edition) => ({ edition, label: "SF" }),
    },
    next: {
      type: "{ edition: Int! label: String }",
      selection: "edition label",
      value: (_id, edition) => ({ edition, labels: ["SF", "Horror"] }),
      resolvers: { label: ({ labels }: { labels: string[] }) => labels[1] },
    },
  },
  resolverAdded: {
    old: MOVIE,
    next: {
      type: MOVIE.type.replace("}", "studio: String! }"),
      selection: `${MOVIE.selection} studio`,
      value: (id, edition) => ({ id, title: `Film ${id}`, year: 1979, edition, studioId: id * 10 }),
      resolvers: { studio: ({ studioId }: { studioId: number }) => `Studio ${studioId.toFixed(0)}` },
    },
  },
  resolverRemoved: {
    old: movie({
      resolvers: { title: ({ id }: { id: number }) => `Film ${id}` },
      value: (id, edition) => ({ id, year: 1979, edition }),
    }),
    next: MOVIE,
  },
  tagsChanged: { old: MOVIE, next: movie({ settings: TAGGED }) },
  keyChanged: { old: MOVIE, next: movie({ settings: ', key: ["$args.id"]' }) },
  argumentDefaultChanged: {
    old: movie({ args: ", year: Int = 1979" }),
    next: movie({
      args: ", year: Int = 1986",
      value: (id, edition) => ({ id, title: `Film ${id}`, year: 1986, edition }),
    }),
  },
  scalarChanged: {
    old: {
      type: "scalar T",
      selection: "",
      value: (id, edition) => ({ id, edition, a: 1 }),
      settings: ', version: "1"',
    },
    next: {
      type: "scalar T",
      selection: "",
      value: (id, edition) => ({ id, edition, b: 1 }),
      settings: ', version: "2"',
    },
  },
  loadedScalarChanged: {
    old: { type: "scalar T", selection: "", value: (id, edition) => ({ id, edition, a: 1 }), loader: { version: "1" } },
    next: {
      type: "scalar T",
      selection: "",
      value: (id, edition) => ({ id, edition, b: 1 }),
      loader: { version: "2" },
    },
  },
  loadedUnchanged: {
    isCompatible: true,
    old: movie({ loader: { type: "T", version: "1" } }),
    next: movie({ loader: { type: "T", version: "1" } }),
  },
  loadedTypeChanged: {
    old: movie({ loader: { type: "T" } }),
    next: {
      type: "{ id: Int! name: String! edition: Int! }",
      selection: "id name edition",
      value: (id, edition) => ({ id, name: `Film ${id}`, edition }),
      loader: { type: "T" },
    },
  },
};

/** What a field stores its entries under: its coordinate, or the name of its loader. */
export const coordinateOf = (name: string): string =>
  CHANGES[name]?.old.loader === undefined ? `Query.${name}` : `${name}Loader`;

const typeNameOf = (name: string): string => `${name[0]?.toUpperCase()}${name.slice(1)}`;

/** Replaces the placeholder `T` by the name of the field's type. */
const named = (sdl: string, name: string): string => sdl.replaceAll(/\bT(?=\b|[A-Z])/g, typeNameOf(name));

/** Returns the query for one id that shows everything a release has. */
export function queryOf(release: Release, id: number): string {
  const fields = Object.entries(CHANGES).map(([name, change]) => {
    const selection = named(change[release].selection, name);
    return `${name}(id: ${id}) ${selection === "" ? "" : `{ ${selection} }`}`;
  });
  return `{ ${fields.join(" ")} }`;
}

/**
 * Returns the schema of a release, before the cache is applied. Without `cache`, its fields load
 * every value. `load` is called for each load.
 */
export function schemaOf(
  release: Release,
  load: (name: string, value: (epoch: number) => unknown) => unknown,
  cache: Cache | undefined,
): GraphQLSchema {
  const fields: string[] = [];
  const types: string[] = [];
  const resolvers: Record<string, Record<string, unknown>> = { Query: {} };
  for (const [name, change] of Object.entries(CHANGES)) {
    const { type, args = "", settings = "", types: more = "", resolvers: own, value, loader } = change[release];
    const policy = loader === undefined ? ` @cached(maxAge: 600${settings})` : "";
    fields.push(`${name}(id: Int!${args}): ${typeNameOf(name)}${policy}`);
    types.push(named(type.startsWith("{") ? `type T ${type} ${more}` : `${type} ${more}`, name));
    if (own !== undefined) resolvers[typeNameOf(name)] = own;
    const loadOne = (id: number): unknown => load(name, (epoch) => value(id, epoch));
    const loaded =
      loader === undefined || cache === undefined
        ? undefined
        : cache.loader<number, unknown>({
            name: coordinateOf(name),
            maxAge: 600,
            batch: async (ids) => ids.map(loadOne),
            ...loader,
            ...(loader.type === undefined ? {} : { type: typeNameOf(name) }),
          });
    (resolvers.Query as Record<string, unknown>)[name] = (_: unknown, { id }: { id: number }, context: object) =>
      loaded === undefined ? loadOne(id) : loaded(context).load(id);
  }
  return makeExecutableSchema({
    typeDefs: [cachedTypeDefs, `type Query { ${fields.join("\n")} }`, ...types],
    resolvers: resolvers as IResolvers,
  });
}
