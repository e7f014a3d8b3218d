import type { Operation, Section } from "./operations.js";
import type { Permissions } from "./permissions.js";
import { type Answer, type AnswerError, Refusal, type Source } from "./source.js";

/**
 * Asks for all sections at once, and if the server refuses that, for each on its own, so that a server of an older release
 * answers what it knows. Rejects with a `Refusal` if there is nothing to show.
 */
export async function askSections(
  source: Source,
  operation: Extract<Operation, { kind: "query" }>,
  variables: Variables,
  caller: PageCaller,
): Promise<Found> {
  const { sections } = operation;
  const ask = (asked: readonly Section[]): Promise<Answer> =>
    source.ask(queryOf(operation, asked), usedBy(operation, asked, variables), caller);
  const together = await ask(sections);
  const found = foundIn(together, sections);
  if (found !== undefined) return found;
  checkAccess(together.errors);
  const alone = await Promise.all(
    sections.map(async (section) => {
      const answer = await ask([section]);
      const isUnknown = answer.data === undefined && answer.errors.some(({ path }) => path === undefined);
      if (!isUnknown) return { section, answer, isUnknown };
      if (section.older === undefined) return { section, answer, isUnknown };
      const older = await ask([{ name: section.name, text: section.older }]);
      return { section, answer: older, isUnknown: foundIn(older, [section]) === undefined };
    }),
  );
  for (const { answer } of alone) checkAccess(answer.errors);
  if (alone.every(({ isUnknown }) => isUnknown)) await checkInspection(source, caller);
  const answers = alone.map(({ section, answer, isUnknown }): Found => {
    const part = foundIn(answer, [section]);
    if (part !== undefined) return part;
    const [error] = answer.errors;
    const missing = isUnknown
      ? { section: section.name, code: UNKNOWN_PART, message: olderText(section.name) }
      : {
          section: section.name,
          code: error?.code,
          message: error?.message ?? "The server has sent neither an answer nor an error.",
        };
    return { sections: {}, missing: [missing] };
  });
  return {
    sections: Object.assign({}, ...answers.map((one) => one.sections)),
    missing: answers.flatMap(({ missing }) => missing),
  };
}

/** The caller of the page, and what it has sent. */
export interface PageCaller {
  readonly permissions: Permissions;
  readonly request: unknown;
}

type Variables = Readonly<Record<string, unknown>>;

/** A part of the answer that is missing, and why. */
export interface Missing {
  readonly section: string;
  readonly code: string | undefined;
  readonly message: string;
}

/** What a query of the page is answered with. */
export interface Found {
  readonly sections: Readonly<Record<string, unknown>>;
  readonly missing: readonly Missing[];
}

const UNKNOWN_PART = "INSPECTION_OLDER";

/** Runs a mutation. Returns what its field has returned. Rejects with a `Refusal`. */
export async function runMutation(
  source: Source,
  operation: Extract<Operation, { kind: "mutation" }>,
  variables: Variables,
  caller: PageCaller,
): Promise<unknown> {
  const given = Object.keys(variables);
  const definitions = given.map((name) => `$${name}: ${operation.variables[name]}`).join(", ");
  const args = given.map((name) => `${name}: $${name}`).join(", ");
  const text = `mutation CacheInspector(${definitions}) { ${operation.field}(${args}) ${operation.selection} }`;
  const { data, errors } = await source.ask(text, variables, caller);
  const result = data?.[operation.field];
  if (errors.length === 0 && result !== undefined) return result;
  checkAccess(errors);
  const [error] = errors;
  const isLacking = error !== undefined && error.path === undefined && !error.code?.startsWith("CACHED_");
  throw isLacking
    ? new Refusal(
        "MUTATION_MISSING",
        `The GraphQL endpoint refuses the mutation \`${operation.field}\`: its schema lacks ${operation.typeDefs}, or the variables have other types.`,
      )
    : new Refusal(error?.code ?? "FAILED", error?.message ?? "The server has sent neither an answer nor an error.");
}

function queryOf(operation: Operation, sections: readonly Section[]): string {
  const texts = sections.map(({ text }) => text).join("\n");
  const definitions = Object.entries(operation.variables)
    .filter(([name]) => isUsed(name, sections))
    .map(([name, type]) => `$${name}: ${type}`)
    .join(", ");
  return `query CacheInspector${definitions === "" ? "" : `(${definitions})`} { cacheInspection { ${texts} } }`;
}

/** Servers refuse variables that no part uses. */
const isUsed = (name: string, sections: readonly Section[]): boolean =>
  sections.some(({ text }) => new RegExp(`\\$${name}\\b`).test(text));

const usedBy = (operation: Operation, sections: readonly Section[], variables: Variables): Variables =>
  Object.fromEntries(
    Object.keys(operation.variables)
      .filter((name) => isUsed(name, sections) && variables[name] !== undefined)
      .map((name) => [name, variables[name]]),
  );

/** Returns what an answer has, and which of the sections failed. Undefined if it has nothing of the inspection. */
function foundIn({ data, errors }: Answer, asked: readonly Section[]): Found | undefined {
  const inspection = data?.cacheInspection;
  if (typeof inspection !== "object" || inspection === null) return undefined;
  const failed = new Map(errors.map((error): [unknown, AnswerError] => [error.path?.[1], error]));
  return {
    sections: inspection as Found["sections"],
    missing: asked.flatMap(({ name }) => {
      const error = failed.get(name);
      return error === undefined ? [] : [{ section: name, code: error.code, message: error.message }];
    }),
  };
}

async function checkInspection(source: Source, caller: PageCaller): Promise<void> {
  const { data, errors } = await source.ask("query CacheInspector { cacheInspection { __typename } }", {}, caller);
  checkAccess(errors);
  if (typeof data?.cacheInspection === "object" && data.cacheInspection !== null) return;
  throw new Refusal(
    "INSPECTION_MISSING",
    `The GraphQL endpoint has no inspection of graphql-cached: add inspectionTypeDefs and inspectionResolvers to its schema.${errors[0] === undefined ? "" : ` It says: ${errors[0].message}`}`,
  );
}

const olderText = (name: string): string =>
  `The inspection of this server has no \`${name}\`, or an older form of it; update graphql-cached there.`;

const DENIED: Readonly<Record<string, string>> = {
  CACHED_INSPECTION_DENIED: "inspectionResolvers",
  CACHED_INVALIDATION_DENIED: "invalidationResolvers",
  CACHED_CONTROL_DENIED: "controlResolvers",
};

/** Throws if the server denies the query. The caller of the page was admitted before, so what is denied is this process. */
function checkAccess(errors: readonly AnswerError[]): void {
  for (const { code = "" } of errors) {
    if (Object.hasOwn(DENIED, code))
      throw new Refusal(
        code,
        `The GraphQL endpoint denies this: \`allow\` of ${DENIED[code]} there does not admit the headers that the option \`headers\` of inspectorHandler returns.`,
      );
    if (code === "UNAUTHENTICATED" || code === "FORBIDDEN")
      throw new Refusal(
        code,
        `The GraphQL endpoint denies access (${code}): pass its credentials with the option \`headers\` of inspectorHandler.`,
      );
  }
}
