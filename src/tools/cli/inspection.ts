import { CliError } from "./cli-error.js";
import type { AnswerError, Source } from "./source.js";

/** A part of the inspection query. */
export interface Section {
  /** The field of `CacheInspection`, or its alias. */
  readonly name: string;
  /** What is asked, with its selection. */
  readonly text: string;
  /** What is asked of servers that do not know all of it. */
  readonly older?: string;
  /** Whether a command has nothing to show without it. */
  readonly isRequired: boolean;
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

/**
 * Asks for parts of the inspection. Servers of an older release, which do not know all of them, are asked for the rest.
 * Throws `CliError` if the server has no inspection, denies it, or lacks a required part.
 */
export async function inspect(
  source: Source,
  sections: readonly Section[],
  variables: { readonly types: string; readonly values: Readonly<Record<string, unknown>> },
): Promise<Inspected> {
  const lacking = new Set<string>();
  const notesOf = (reasons: readonly string[]): string[] => [
    ...(lacking.size === 0 ? [] : [lackingText([...lacking])]),
    ...reasons,
  ];
  let asked = sections;
  // Each round leaves out at least one part or asks an older form of it.
  for (let round = 0; round <= 2 * sections.length; round++) {
    const texts = asked.map(({ text }) => text).join(" ");
    // Servers refuse variables that no part uses.
    const types = variables.types
      .split(", ")
      .filter((one) => one !== "" && texts.includes(one.slice(0, one.indexOf(":"))));
    const header = types.length === 0 ? "" : `(${types.join(", ")})`;
    const used = Object.entries(variables.values).filter(([name]) => types.some((one) => one.startsWith(`$${name}:`)));
    const { data, errors } = await source.ask(
      `query GraphqlCached${header} { cacheInspection { ${texts} } }`,
      Object.fromEntries(used),
    );
    const answer = data?.cacheInspection as Readonly<Record<string, unknown>> | null | undefined;
    if (errors.length === 0 && typeof answer === "object" && answer !== null) {
      const absent = asked.filter(({ name }) => answer[name] === undefined);
      if (absent.length === asked.length || absent.some(({ isRequired }) => isRequired))
        throw notInAnswer(source, absent);
      return { sections: answer, notes: notesOf([]) };
    }
    checkAccess(source, errors);
    const failures = errors.map(({ message, path: [, name] }) => ({ message, name }));
    const isOptional = (name: unknown): boolean =>
      asked.some((section) => section.name === name && !section.isRequired);
    if (typeof answer === "object" && answer !== null && failures.every(({ name }) => isOptional(name))) {
      const found = Object.entries(answer).filter(([name]) => failures.every((failure) => failure.name !== name));
      const reasons = failures.map(({ message, name }) => `\`${String(name)}\` is missing: ${message}`);
      return { sections: Object.fromEntries(found), notes: notesOf(reasons) };
    }
    const unknown = asked.filter((section) => errors.some((error) => concerns(error, section)));
    if (unknown.length === 0) throw failed(source, errors);
    asked = asked.flatMap((section) => {
      if (!unknown.includes(section)) return [section];
      if (section.isNew !== true) lacking.add(section.name);
      if (section.older !== undefined)
        return [{ name: section.name, text: section.older, isRequired: section.isRequired }];
      if (section.isRequired) throw new CliError(`${source.name}: ${lackingText([section.name])}`);
      return [];
    });
    if (asked.length === 0) throw new CliError(`${source.name}: ${lackingText([...lacking])}`);
  }
  throw new CliError(`${source.name}: expected an answer to the inspection query, got contradictory errors`);
}

function lackingText(names: readonly string[]): string {
  const quoted = names.map((name) => `\`${name}\``).join(", ");
  return `this server's inspection has no ${quoted}, or an older form of ${names.length === 1 ? "it" : "them"}; update graphql-cached there`;
}

/** Runs a mutation of the cache. Throws `CliError` if the server does not have it, denies it, or fails. */
export async function mutate(
  source: Source,
  mutation: { readonly name: string; readonly typeDefs: string; readonly text: string },
  values: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const { data, errors } = await source.ask(mutation.text, values);
  if (errors.length === 0 && data !== undefined) {
    if (data[mutation.name] === undefined) throw notInAnswer(source, [mutation]);
    return data[mutation.name];
  }
  checkAccess(source, errors);
  if (errors.some(isValidation))
    throw new CliError(
      `${source.name}: this server has no mutation \`${mutation.name}\`, or an older form of it; add ${mutation.typeDefs} to its schema, or update graphql-cached there`,
    );
  throw failed(source, errors);
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
