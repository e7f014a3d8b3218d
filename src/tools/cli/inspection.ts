import type { AnswerError, Source } from "./source.js";
import { CliError, printable } from "./terminal.js";

/**
 * Asks for parts of the inspection. Servers of an older release, which do not know all of them, are asked for the rest.
 * Throws `CliError` if the server has no inspection, denies it, or lacks a required part.
 */
export async function inspect(
  source: Source,
  sections: readonly Section[],
  variables: Variables = {},
): Promise<Inspected> {
  const lacking = new Set<string>();
  const result = (found: Readonly<Record<string, unknown>>, reasons: readonly string[] = []): Inspected => ({
    sections: found,
    notes: [...(lacking.size === 0 ? [] : [lackingText([...lacking])]), ...reasons],
  });
  let asked = sections;
  // Each round leaves out at least one part or asks an older form of it.
  for (let round = 0; round <= 2 * sections.length; round++) {
    const texts = asked.map(({ text }) => text).join(" ");
    // Servers refuse variables that no part uses.
    const used = Object.fromEntries(Object.entries(variables).filter(([name]) => texts.includes(`$${name}`)));
    const { header, values } = operationParts("query", used);
    const { data, errors } = await source.ask(`${header} { cacheInspection { ${texts} } }`, values);
    const answer = data?.cacheInspection;
    const found = typeof answer === "object" && answer !== null ? (answer as Inspected["sections"]) : undefined;
    if (errors.length === 0 && found !== undefined) {
      const absent = asked.filter(({ name }) => found[name] === undefined);
      if (absent.length === asked.length || absent.some(({ isOptional }) => isOptional !== true))
        throw notInAnswer(source, absent);
      return result(found);
    }
    checkAccess(source, errors);
    const failures = errors.map(({ message, path: [, name] }) => ({ message, name }));
    const hasFailed = (given: unknown): boolean => failures.some(({ name }) => name === given);
    const optional: unknown[] = asked.filter(({ isOptional }) => isOptional).map(({ name }) => name);
    if (found !== undefined && failures.every(({ name }) => optional.includes(name)))
      return result(
        Object.fromEntries(Object.entries(found).filter(([name]) => !hasFailed(name))),
        failures.map(({ message, name }) => `\`${String(name)}\` is missing: ${message}`),
      );
    const unknown = asked.filter((section) => errors.some((error) => concerns(error, section)));
    if (unknown.length === 0) throw failed(source, errors);
    asked = asked.flatMap((section) => {
      if (!unknown.includes(section)) return [section];
      const { name, older, isOptional = false, isNew } = section;
      if (isNew !== true) lacking.add(name);
      if (older !== undefined) return [{ name, text: older, isOptional }];
      if (!isOptional) throw new CliError(`${source.name}: ${lackingText([name])}`);
      return [];
    });
    if (asked.length === 0) throw new CliError(`${source.name}: ${lackingText([...lacking])}`);
  }
  throw new CliError(`${source.name}: expected an answer to the inspection query, got contradictory errors`);
}

/** A part of the inspection query. */
export interface Section {
  /** The field of `CacheInspection`, or its alias. */
  readonly name: string;
  /** What is asked, with its selection. */
  readonly text: string;
  /** What is asked of servers that do not know all of it. */
  readonly older?: string;
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

/** The type and the value of each variable. */
export type Variables = Readonly<Record<string, readonly [type: string, value: unknown]>>;

/** Returns the header of an operation with variables, the arguments that pass them to a field, and their values. */
export function operationParts(kind: "query" | "mutation", variables: Variables) {
  const entries = Object.entries(variables);
  const types = entries.map(([name, [type]]) => `$${name}: ${type}`).join(", ");
  return {
    header: `${kind} GraphqlCached${types === "" ? "" : `(${types})`}`,
    passed: entries.map(([name]) => `${name}: $${name}`).join(", "),
    values: Object.fromEntries(entries.map(([name, [, value]]) => [name, value])),
  };
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

/** Whether an error says that the server does not know a part of the query. */
function concerns(error: AnswerError, { name, text }: Section): boolean {
  if (!isValidation(error)) return false;
  // What follows are names that the server has.
  const [asked = ""] = error.message.split(" Did you mean");
  const quoted = [...asked.matchAll(/["'`]([\w.]+)(?:\(\w+:\))?["'`]/g)].flatMap(([, one = ""]) => one.split("."));
  const [subject = "", owner = ""] = quoted;
  if (owner === "CacheInspection" || subject === "CacheInspection") return quoted.includes(name);
  if (subject === "CacheWindow") return text.includes("$window");
  return new RegExp(`\\b${subject}\\b`).test(text) && subject !== "";
}

const DENIED: Readonly<Record<string, string>> = {
  CACHED_INSPECTION_DENIED: "inspectionResolvers",
  CACHED_INVALIDATION_DENIED: "invalidationResolvers",
  CACHED_CONTROL_DENIED: "controlResolvers",
};

function checkAccess(source: Source, errors: readonly AnswerError[]): void {
  for (const error of errors) {
    const { message, code = "" } = error;
    if (Object.hasOwn(DENIED, code))
      throw new CliError(
        `${source.name}: denied: \`allow\` of ${DENIED[code]} does not admit this caller; pass credentials with --header or GRAPHQL_CACHED_HEADERS`,
      );
    if (["UNAUTHENTICATED", "FORBIDDEN"].includes(code))
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
