import { operationParts, type Variables } from "../inspection/asking.js";
import { serverCommand } from "./command.js";
import { mutate } from "./inspection.js";
import { KEY_HELP, KEY_OPTIONS, keyVariables } from "./key-options.js";
import { CliError, jsonText, printable, wrap } from "./terminal.js";

const HELP = `Usage: graphql-cached invalidate <coordinate> [options]
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
  --json                     print JSON`;

const OPTIONS = {
  ...KEY_OPTIONS,
  tag: { type: "string", multiple: true },
  all: { type: "boolean" },
  soft: { type: "boolean" },
} as const;

export const invalidate = serverCommand(
  "invalidate",
  HELP,
  OPTIONS,
  async ({ values, positionals, terminal, connect }) => {
    const [coordinate, ...others] = positionals;
    const { tag: tags = [], all: isAll = false, soft = false } = values;
    const key = keyVariables("invalidate", values, { json: "CacheKeyPart", id: "CacheKeyPart" });
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
    if (Object.keys(key).length > 0 && (coordinate === undefined || isAll))
      throw new CliError(
        "invalidate: expected a coordinate without --all besides the parts of a key; they name one entry of it",
      );
    const [name, what, subject]: readonly [string, string, Variables] =
      tags.length > 0
        ? [
            "cacheInvalidateTags",
            `entries with the ${tags.length === 1 ? "tag" : "tags"} ${tags.join(", ")}`,
            { tags: ["[String!]!", tags] },
          ]
        : coordinate === undefined
          ? ["cacheClear", "everything", {}]
          : isAll
            ? ["cacheInvalidateAll", `all entries of ${coordinate}`, { coordinate: ["String!", coordinate] }]
            : ["cacheInvalidate", `one entry of ${coordinate}`, { coordinate: ["String!", coordinate], ...key }];
    const source = await connect();
    if (name === "cacheInvalidate" && !source.hasSchema)
      throw new CliError(
        "invalidate: a Redis server alone does not know the schema, with which keys are made; pass --endpoint, or --all for all entries of the coordinate",
      );
    const variables: Variables = { ...subject, soft: ["Boolean!", soft] };
    if (name === "cacheInvalidateAll" && source.invalidateCoordinate !== undefined)
      await source.invalidateCoordinate(coordinate as string, soft);
    else await mutate(source, name, variables, "invalidationTypeDefs");
    const lines =
      values.json === true
        ? [jsonText({ invalidated: operationParts("mutation", variables).values })]
        : wrap(printable(`${soft ? "Softly invalidated" : "Invalidated"} ${what}.`), "", "  ");
    for (const line of lines) terminal.print(line);
  },
);
