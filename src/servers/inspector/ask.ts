import {
  ACCESS_CODES,
  type AnswerError,
  type Ask,
  askSections,
  DENIED_BY,
  type Variables,
} from "../../tools/inspection/asking.js";
import type { Operation } from "./operations.js";

/** Why a request gets no data: a code for programs and a sentence for the page. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Returns what answers the queries of a request: the cache of this process, or a GraphQL endpoint. It rejects with a `Refusal` if there
 * is no answer.
 */
export type Source = (request: unknown) => Ask;

/**
 * Asks for all sections, and for older forms of them if the server does not know these. Rejects with a `Refusal` if there is
 * nothing to show.
 */
export async function askFor(ask: Ask, { sections, variables: types }: Operation, given: Given): Promise<Found> {
  const { parts } = await askSections(ask, sections, typed(types, given), checkAccess);
  // What other software denies of one section only is missing.
  checkAccess(parts.flatMap(({ error }) => (error === undefined || (error.path?.length ?? 0) > 1 ? [] : [error])));
  if (parts.every(({ known }) => known === "none")) await checkInspection(ask);
  return {
    sections: Object.fromEntries(parts.map(({ section: { name }, value }) => [name, value])),
    missing: parts.flatMap(({ section, value, error, known }): Missing[] => {
      if (known === "none") return [{ section: section.name, code: UNKNOWN_PART, message: olderText(section.name) }];
      if (error === undefined && value !== undefined) return [];
      return [{ section: section.name, code: error?.code, message: error?.message ?? NOTHING }];
    }),
  };
}

/** The variables that the page has sent. */
type Given = Readonly<Record<string, unknown>>;

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
const NOTHING = "The server has sent neither an answer nor an error.";

const typed = (types: Readonly<Record<string, string>>, given: Given): Variables =>
  Object.fromEntries(Object.entries(types).map(([name, type]) => [name, [type, given[name]]]));

async function checkInspection(ask: Ask): Promise<void> {
  const { data, errors } = await ask("query GraphqlCached { cacheInspection { __typename } }", {});
  checkAccess(errors);
  if (typeof data?.cacheInspection === "object" && data.cacheInspection !== null) return;
  throw new Refusal(
    "INSPECTION_MISSING",
    `The GraphQL endpoint has no inspection of graphql-cached: add inspectionTypeDefs and inspectionResolvers to its schema.${errors[0] === undefined ? "" : ` It says: ${errors[0].message}`}`,
  );
}

const olderText = (name: string): string =>
  `The inspection of this server has no \`${name}\`, or an older form of it; update graphql-cached there.`;

/** Throws if the server denies the query. The caller of the page was admitted before, so what is denied is this process. */
function checkAccess(errors: readonly AnswerError[]): void {
  for (const { code = "" } of errors) {
    if (Object.hasOwn(DENIED_BY, code))
      throw new Refusal(
        code,
        `The GraphQL endpoint denies this: \`allow\` of ${DENIED_BY[code]} there does not admit the headers that the option \`headers\` of inspectorHandler returns.`,
      );
    if (ACCESS_CODES.includes(code))
      throw new Refusal(
        code,
        `The GraphQL endpoint denies access (${code}): pass its credentials with the option \`headers\` of inspectorHandler.`,
      );
  }
}
