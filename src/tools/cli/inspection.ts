import {
  ACCESS_CODES,
  type AnswerError,
  type Ask,
  askSections,
  DENIED_BY,
  operationParts,
  type Part,
  type Section,
  type Variables,
} from "../inspection/asking.js";
import { CliError, printable } from "./terminal.js";

/** Answers the queries of a command: a GraphQL endpoint, or a cache of this process on the store of others. */
export interface Source {
  readonly name: string;
  /** Whether it knows the schema, so that the key of one entry can be made. */
  readonly hasSchema: boolean;
  readonly ask: Ask;
  /** Invalidates all entries of a field or loader, if that needs another way than a mutation. */
  readonly invalidateCoordinate?: (coordinate: string, isSoft: boolean) => Promise<void>;
  close(): Promise<void>;
}

/**
 * Asks for parts of the inspection. Throws `CliError` if the server has no inspection, denies it, or lacks a required
 * part.
 */
export async function inspect(
  source: Source,
  sections: readonly InspectedSection[],
  variables: Variables = {},
): Promise<Inspected> {
  const { parts, others } = await askSections(source.ask, sections, variables, (errors) => {
    checkAccess(source, errors);
    if (!errors.some(isValidation)) throw failed(source, errors);
  });
  const isUnknown = ({ known, error }: Part<Section>): boolean => known === "none" && (!error || isValidation(error));
  const failures = parts.filter((part) => part.error !== undefined && !isUnknown(part));
  const errors = [...others, ...failures.flatMap(({ error }) => error ?? [])];
  checkAccess(source, errors);
  const missing = parts.find((part) => isUnknown(part) && part.section.isOptional !== true);
  if (missing !== undefined) throw new CliError(`${source.name}: ${lackingText([missing.section.name])}`);
  if (others.length > 0 || failures.some(({ section, known }) => known === "none" || section.isOptional !== true))
    throw failed(source, errors);
  const lacking = parts.filter(({ section, known }) => known !== "all" && section.isNew !== true);
  const lackingNames = lacking.map(({ section }) => section.name);
  if (parts.every(({ known }) => known === "none")) throw new CliError(`${source.name}: ${lackingText(lackingNames)}`);
  const present = parts.filter(({ error }) => error === undefined);
  const absent = present.filter(({ value }) => value === undefined);
  if (absent.length === parts.length || absent.some(({ section }) => section.isOptional !== true))
    throw notInAnswer(
      source,
      absent.map(({ section }) => section),
    );
  return {
    sections: Object.fromEntries(present.map(({ section, value }) => [section.name, value])),
    notes: [
      ...(lacking.length === 0 ? [] : [lackingText(lackingNames)]),
      ...failures.map(({ section, error }) => `\`${section.name}\` is missing: ${error?.message}`),
    ],
  };
}

export interface InspectedSection extends Section {
  /** Whether a command has something to show without it. */
  readonly isOptional?: boolean;
  /** Whether servers that do not know it have nothing to show there, so that nothing is said of it. */
  readonly isNew?: boolean;
}

/** What a server has answered to the sections that it knows. */
export interface Inspected {
  /** By the name of the section. Optional ones that failed are missing. */
  readonly sections: Readonly<Record<string, unknown>>;
  /** What the server does not know, or could not find out, in words. */
  readonly notes: readonly string[];
}

function lackingText(names: readonly string[]): string {
  const quoted = names.map((name) => `\`${name}\``).join(", ");
  return `this server's inspection has no ${quoted}, or an older form of ${names.length === 1 ? "it" : "them"}; update graphql-cached there`;
}

/**
 * Runs a mutation of the cache. `typeDefs`: what a server without it lacks. Throws `CliError` if the server does not have
 * it, denies it, or fails.
 */
export async function mutate(
  source: Source,
  name: string,
  variables: Variables,
  typeDefs: string,
  selection = "",
): Promise<unknown> {
  const { header, passed, values } = operationParts("mutation", variables);
  const { data, errors } = await source.ask(`${header} { ${name}(${passed})${selection} }`, values);
  if (errors.length === 0 && data !== undefined) {
    if (data[name] === undefined) throw notInAnswer(source, [{ name }]);
    return data[name];
  }
  checkAccess(source, errors);
  if (errors.some(isValidation))
    throw new CliError(
      `${source.name}: this server has no mutation \`${name}\`, or an older form of it; add ${typeDefs} to its schema, or update graphql-cached there`,
    );
  throw failed(source, errors);
}

/** Returns those of the given coordinates, or all if none is given. Throws `CliError` for one that is not known. */
export function chosen<One extends { readonly coordinate: string }>(
  command: string,
  known: readonly One[],
  coordinates: readonly string[],
): readonly One[] {
  const names = known.map(({ coordinate }) => coordinate);
  const unknown = coordinates.find((coordinate) => !names.includes(coordinate));
  if (unknown !== undefined)
    throw new CliError(
      `${command}: expected a cached field or a loader, got ${printable(unknown)}; known are ${printable(names.join(", ")) || "none"}`,
    );
  return coordinates.length === 0 ? known : known.filter(({ coordinate }) => coordinates.includes(coordinate));
}

/** Whether an error says that the schema of the server lacks something. Errors of the cache itself have a code. */
const isValidation = ({ message, code = "" }: AnswerError): boolean =>
  !code.startsWith("CACHED_") &&
  /\bon (type|field)\b|[Uu]nknown (type|argument|field)|not configured (for|to execute) mutation|mutation operation is not supported/.test(
    message,
  );

function checkAccess(source: Source, errors: readonly AnswerError[]): void {
  for (const error of errors) {
    const { message, code = "" } = error;
    if (Object.hasOwn(DENIED_BY, code))
      throw new CliError(
        `${source.name}: denied: \`allow\` of ${DENIED_BY[code]} does not admit this caller; pass credentials with --header or GRAPHQL_CACHED_HEADERS`,
      );
    if (ACCESS_CODES.includes(code))
      throw new CliError(
        `${source.name}: the server denies access (${code}); pass credentials with --header or GRAPHQL_CACHED_HEADERS`,
      );
    if (message.includes("cacheInspection") && isValidation(error))
      throw new CliError(
        `${source.name}: this server has no inspection of graphql-cached; add inspectionTypeDefs and inspectionResolvers to its schema`,
      );
  }
}

const notInAnswer = (source: Source, absent: readonly { readonly name: string }[]): CliError =>
  new CliError(
    `${source.name}: expected ${absent.map(({ name }) => `\`${name}\``).join(", ")} in the answer, got none; is this the URL of a GraphQL server?`,
  );

const failed = (source: Source, errors: readonly AnswerError[]): CliError =>
  new CliError(`${source.name}: ${errors.map(({ message }) => message).join("; ") || "expected data, got none"}`);
