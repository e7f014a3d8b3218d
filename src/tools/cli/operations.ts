import { access, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import {
  type DocumentNode,
  type FragmentDefinitionNode,
  type GraphQLSchema,
  Kind,
  KnownDirectivesRule,
  type OperationDefinitionNode,
  parse,
  Source,
  specifiedRules,
  validate,
  visit,
} from "graphql";
import { messageOf } from "../../core/base/errors.js";
import type { ExplainedSubtree, OperationRewriter } from "../../core/parts.js";
import type { SkipReason } from "../../core/telemetry/events.js";
import { isGlob, isModule, lacking, readGlob, reading, readTags, withExcluded } from "./document-loaders.js";
import { placeOf, type SchemaFile } from "./schema-document.js";
import { CliError, counted, printable, wrap } from "./terminal.js";

/** Reads files of operations, and modules with operations in them. Of folders, those whose names end with `.graphql` or `.gql`. Throws `CliError`. */
export async function readOperations(given: readonly string[]): Promise<readonly SchemaFile[]> {
  const place = "check: --operations";
  const { paths, excluded } = withExcluded(given);
  const readPath = async (path: string): Promise<readonly SchemaFile[]> => {
    if (isModule(path)) {
      await access(path);
      const found = await readTags(place, path, "operations");
      if (found === undefined) throw lacking(place, path, "CodeFileLoader");
      return found;
    }
    const isFolder = (await stat(path)).isDirectory();
    const found = isFolder ? (await readdir(path, { recursive: true })).filter(isDocument).sort(byText) : [];
    const names = isFolder ? found.map((name) => join(path, name)) : [path];
    return Promise.all(names.map(async (name) => ({ name: printable(name), text: await readFile(name, "utf8") })));
  };
  const files: SchemaFile[] = [];
  for (const path of paths)
    files.push(
      ...(isGlob(path)
        ? await readGlob(place, path, "operations", excluded)
        : await reading(place, path, () => readPath(path))),
    );
  return files;
}

/** What becomes of the fields with `subtree: true` of one operation. */
export interface CheckedOperation {
  readonly file: string;
  readonly line: number;
  /** Null: it has none. */
  readonly name: string | null;
  readonly kind: "query" | "mutation" | "subscription";
  /** Why it cannot be executed. Undefined: it can. */
  readonly mistake: string | undefined;
  readonly fields: readonly ExplainedSubtree[];
}

const isDocument = (name: string): boolean => /\.(graphql|gql)$/.test(name);
const byText = (one: string, other: string): number => (one < other ? -1 : 1);

/**
 * Says of each operation in files which of its fields are answered with subtrees. Fragments can be in other files. `schema`: what
 * `applyCached` has returned. Throws `CliError` for a file that cannot be parsed.
 */
export function explainOperations(
  files: readonly SchemaFile[],
  schema: GraphQLSchema,
  subtrees: OperationRewriter,
): readonly CheckedOperation[] {
  const documents = files.map(parseFile);
  const fragments = new Map<string, FragmentDefinitionNode>();
  for (const { definitions } of documents)
    for (const one of definitions)
      if (one.kind === Kind.FRAGMENT_DEFINITION && !fragments.has(one.name.value)) fragments.set(one.name.value, one);
  // What only clients know, such as @connection, is no mistake here.
  const rules = specifiedRules.filter((rule) => rule !== KnownDirectivesRule);
  return documents.flatMap(({ definitions }, nth): CheckedOperation[] => {
    const own = new Map(fragments);
    for (const one of definitions) if (one.kind === Kind.FRAGMENT_DEFINITION) own.set(one.name.value, one);
    return definitions.flatMap((operation): CheckedOperation[] => {
      if (operation.kind !== Kind.OPERATION_DEFINITION) return [];
      const document: DocumentNode = { kind: Kind.DOCUMENT, definitions: [operation, ...spreadIn(operation, own)] };
      const [mistake] = validate(schema, document, rules);
      const common = {
        file: files[nth]?.name ?? "",
        line: operation.loc?.startToken.line ?? 1,
        name: operation.name?.value ?? null,
        kind: operation.operation,
      };
      const fields = mistake === undefined ? subtrees.explain({ schema, document, operationName: null }) : [];
      return [{ ...common, mistake: mistake?.message, fields }];
    });
  });
}

function parseFile({ name, text }: SchemaFile): DocumentNode {
  let document: DocumentNode;
  try {
    document = parse(new Source(text, name));
  } catch (error) {
    throw new CliError(
      `check: --operations: ${name}: expected operations, got text that cannot be parsed: ${messageOf(error)}`,
    );
  }
  const other = document.definitions.find(
    ({ kind }) => kind !== Kind.OPERATION_DEFINITION && kind !== Kind.FRAGMENT_DEFINITION,
  );
  if (other?.loc !== undefined)
    throw new CliError(`check: --operations: ${placeOf(other.loc)}: expected operations, got a type definition`);
  return document;
}

/** Returns the fragments that an operation spreads, directly or in other fragments. */
function spreadIn(
  operation: OperationDefinitionNode,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
): readonly FragmentDefinitionNode[] {
  const found = new Set<FragmentDefinitionNode>();
  const collect = (node: OperationDefinitionNode | FragmentDefinitionNode): void => {
    visit(node, {
      FragmentSpread: ({ name }) => {
        const fragment = fragments.get(name.value);
        if (fragment === undefined || found.has(fragment)) return;
        found.add(fragment);
        collect(fragment);
      },
    });
  };
  collect(operation);
  return [...found];
}

/** Returns the lines that show operations. Those without fields with `subtree: true` are only counted. */
export function operationLines(operations: readonly CheckedOperation[]): string[] {
  const shown = operations.filter(({ fields, mistake }) => fields.length > 0 || mistake !== undefined);
  const fields = operations.flatMap((one) => one.fields);
  const skipped = fields.filter(({ obstacle }) => obstacle !== undefined);
  const invalid = operations.filter(({ mistake }) => mistake !== undefined);
  const others = operations.length - shown.length;
  const totals = [
    `${counted(operations.length, "operation")}: ${counted(fields.length - skipped.length, "field")} with a subtree, ${skipped.length} without one`,
  ];
  if (others > 0)
    totals.push(`${counted(others, "operation")} ${others === 1 ? "has" : "have"} no field with subtree: true`);
  if (invalid.length > 0) totals.push(`${counted(invalid.length, "operation")} could not be checked`);
  return [
    ...shown.flatMap(({ file, line, kind, name, mistake, fields: found }) => [
      printable(`${file}:${line}  ${kind} ${name ?? "without a name"}`),
      ...(mistake === undefined
        ? found.flatMap(fieldLines)
        : wrap(printable(`is not valid: ${mistake}`), "  ", "    ")),
      "",
    ]),
    ...wrap(`${totals.join("; ")}.`),
    "",
  ];
}

function fieldLines({ coordinate, responseKey, obstacle, holes }: ExplainedSubtree): string[] {
  const isAlias = !coordinate.endsWith(`.${responseKey}`);
  const what = isAlias ? `${coordinate} as ${responseKey}` : coordinate;
  const explained =
    obstacle === undefined
      ? `subtree${holes.length === 0 ? "" : `; each request executes ${holes.join(", ")}`}`
      : `no subtree: ${obstacle.reason}: ${whyOf(obstacle)}`;
  return wrap(printable(`${what}: ${explained}`), "  ", "    ");
}

/** Why a field is none, as far as that is known before the operation is executed. */
const WHY: Readonly<Partial<Record<SkipReason, (subject: string) => string>>> = {
  TOO_MANY_SELECTIONS: () =>
    "the operation has more than 32 fields with subtrees, or selects more than 200 levels below this one",
  DIRECTIVE: (subject) =>
    `${subject} can change what is executed; the field, and what is around it and below it, can only have @include and @skip`,
  HOLE: (subject) =>
    `${subject} belongs to one caller or is not cached, and objects of a list are entries only as a whole`,
  LIST_WITHOUT_ID: (subject) =>
    `${subject} returns a list of objects without an id, and below it are fields that each request executes; give the objects an id, or do not select these fields`,
};

const whyOf = ({ reason, subject }: { reason: SkipReason; subject: string }): string =>
  WHY[reason]?.(`\`${subject}\``) ?? subject;
