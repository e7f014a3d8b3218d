import { readArguments } from "./arguments.js";
import { CliError } from "./cli-error.js";
import { connect, SOURCE_HELP, SOURCE_OPTIONS } from "./connect.js";
import { mutate } from "./inspection.js";
import { asArguments, KEY_HELP, KEY_OPTIONS, keyVariables } from "./key-options.js";
import { jsonText, printable, type Terminal, wrap } from "./terminal.js";

export const INVALIDATE_HELP = `Usage: graphql-cached invalidate <coordinate> [options]
       graphql-cached invalidate <coordinate> --all
       graphql-cached invalidate --tag <tag>...
       graphql-cached invalidate --all

Invalidates one entry, all entries of a field or loader, all entries with a
tag, or everything under the prefix. When it has ended, no request gets an old
value any more. One entry needs --endpoint: keys are made with the schema.

Options:
${KEY_HELP}
  --tag <tag>                a tag, such as Movie:7; can be repeated
  --all                      all entries of the coordinate, or everything
  --soft                     serve the old values until they are loaded again
  --json                     print JSON

${SOURCE_HELP}`;

const TYPES = {
  coordinate: "String!",
  args: "CacheKeyPart",
  source: "CacheKeyPart",
  context: "CacheKeyPart",
  id: "CacheKeyPart",
  private: "ID",
  soft: "Boolean!",
  tags: "[String!]!",
};

/** Runs `graphql-cached invalidate`. */
export async function invalidate(argv: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = readArguments("invalidate", argv, {
    ...SOURCE_OPTIONS,
    ...KEY_OPTIONS,
    tag: { type: "string", multiple: true },
    all: { type: "boolean" },
    soft: { type: "boolean" },
  });
  if (values.help === true) {
    terminal.print(INVALIDATE_HELP);
    return 0;
  }
  const [coordinate, ...others] = positionals;
  const { tag: tags = [], all: isAll = false, soft = false } = values;
  const key = keyVariables("invalidate", values);
  const isOneEntry = Object.keys(key).length > 0;
  if (others.length > 0) throw new CliError(`invalidate: expected one coordinate at most, got ${positionals.length}`);
  if (coordinate?.includes(":"))
    throw new CliError(
      `invalidate: expected a coordinate such as Query.movie, got ${printable(coordinate)}; for a tag, pass --tag ${printable(coordinate)}`,
    );
  if (tags.length > 0 && (coordinate !== undefined || isAll))
    throw new CliError("invalidate: expected either a coordinate, --tag or --all, got several of them");
  if (coordinate === undefined && tags.length === 0 && !isAll)
    throw new CliError(
      "invalidate: expected what to invalidate, got nothing; pass a coordinate such as Query.movie, --tag Movie:7, or --all for everything",
    );
  if (isOneEntry && (coordinate === undefined || isAll))
    throw new CliError(
      "invalidate: expected a coordinate without --all besides the parts of a key; they name one entry of it",
    );
  const call =
    tags.length > 0
      ? {
          name: "cacheInvalidateTags",
          given: { tags, soft },
          what: `entries with the ${tags.length === 1 ? "tag" : "tags"} ${tags.join(", ")}`,
        }
      : coordinate === undefined
        ? { name: "cacheClear", given: { soft }, what: "everything" }
        : isAll
          ? { name: "cacheInvalidateAll", given: { coordinate, soft }, what: `all entries of ${coordinate}` }
          : { name: "cacheInvalidate", given: { coordinate, ...key, soft }, what: `one entry of ${coordinate}` };
  const source = await connect("invalidate", values, terminal);
  try {
    if (call.name === "cacheInvalidate" && !source.hasSchema)
      throw new CliError(
        "invalidate: a Redis server alone does not know the schema, with which keys are made; pass --endpoint, or --all for all entries of the coordinate",
      );
    if (call.name === "cacheInvalidateAll" && source.invalidateCoordinate !== undefined)
      await source.invalidateCoordinate(coordinate as string, soft);
    else {
      const { definitions, text } = asArguments(call.given, TYPES);
      const mutation = `mutation GraphqlCached(${definitions}) { ${call.name}(${text}) }`;
      await mutate(source, { name: call.name, typeDefs: "invalidationTypeDefs", text: mutation }, call.given);
    }
    const what = printable(`${soft ? "Softly invalidated" : "Invalidated"} ${call.what}.`);
    if (values.json === true) terminal.print(jsonText({ invalidated: call.given }));
    else for (const line of wrap(what, "", "  ")) terminal.print(line);
    return 0;
  } finally {
    await source.close();
  }
}
