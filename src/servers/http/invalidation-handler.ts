import { hash, timingSafeEqual } from "node:crypto";
import { CachedError, describeSetting, inOneLine, messageOf } from "../../core/base/errors.js";
import { checkOptionNames, unknownName } from "../../core/base/option-names.js";
import { invalidatedSubjects } from "../../core/directive/invalidation/invalidated-tags.js";
import {
  checkInvalidationTarget,
  namesOfInvalidation,
  namesOfOneEntry,
} from "../../core/directive/invalidation/invalidation-target.js";
import { type CacheHandle, type CacheParts, partsOf } from "../../core/parts.js";
import type { InvalidationNames } from "../../core/tier/shared/unconfirmed-invalidations.js";
import { BadRequest, checkJsonType, type Incoming, JSON_HEADERS, type Outgoing, readObject } from "./exchange.js";
import { type HttpHandler, handlerOf } from "./servers.js";

/**
 * Returns a handler that invalidates what a POST with JSON names, for jobs and webhooks that are no part of the process. It never
 * rejects, and answers 200 when the store has confirmed.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache, or there is no secret that is long enough.
 */
export function invalidationHandler(options: InvalidationHandlerOptions): HttpHandler {
  checkOptionNames(options, CALLER, ["cache", "secret"]);
  const parts = partsOf(options.cache, CALLER);
  const isSecret = secretCheck(options.secret);
  return handlerOf(async (incoming) => {
    try {
      return await answer(incoming, parts, isSecret);
    } catch (error) {
      if (error instanceof BadRequest) return failure(error.status, "BAD_REQUEST", error.message);
      if (error instanceof CachedError)
        return failure(error.code === "CACHED_STORE_UNAVAILABLE" ? 503 : 400, error.code, error.message);
      parts.logger.warn(`graphql-cached: ${CALLER}: a request failed: ${inOneLine(messageOf(error))}`);
      return failure(500, "FAILED", "the request failed; the log of the server says why");
    }
  });
}

/** Options of `invalidationHandler`. */
export interface InvalidationHandlerOptions {
  readonly cache: CacheHandle<never>;
  /**
   * What callers have to send as `authorization: Bearer <secret>`: at least 32 visible ASCII characters. Several, so that it can
   * be rotated; those that are undefined count as absent, but one is required.
   */
  readonly secret: string | undefined | readonly (string | undefined)[];
}

const CALLER = "invalidationHandler";
/** 128 bits in hexadecimal. */
const MIN_SECRET_LENGTH = 32;
const MAX_BODY_BYTES = 256 * 1_024;
/** Of one request, of all kinds together. */
const MAX_TARGETS = 1_000;
/** What a request can name. */
const LISTS = ["tags", "types", "entries", "coordinates"] as const;
const PROPERTIES: readonly string[] = [...LISTS, "everything", "soft"];

async function answer(incoming: Incoming, parts: CacheParts, isSecret: (given: string) => boolean): Promise<Outgoing> {
  if (incoming.method !== "POST")
    return failure(405, "METHOD_NOT_ALLOWED", `expected POST, got ${inOneLine(incoming.method, 20)}`, {
      allow: "POST",
    });
  // Before anything is read: others cannot make this process keep a body.
  const [, token] = /^bearer +(\S+) *$/i.exec(incoming.header("authorization") ?? "") ?? [];
  if (token === undefined || !isSecret(token))
    return failure(
      401,
      "UNAUTHORIZED",
      `expected the header \`authorization: Bearer <secret>\` with a secret of ${CALLER}, got ${token === undefined ? "none" : "another one"}`,
      { "www-authenticate": "Bearer" },
    );
  checkJsonType(incoming);
  const given = await readObject(incoming, MAX_BODY_BYTES);
  const names = namesOf(given, parts);
  const { soft = false, ...invalidated } = given;
  await parts.invalidation.run(names, soft === true ? "soft" : "hard", { via: CALLER });
  return { status: 200, headers: JSON_HEADERS, body: JSON.stringify({ invalidated, soft }) };
}

/** Returns what a request names. Throws a `BadRequest`, or what the API throws for a target that names no entry. */
function namesOf(given: Readonly<Record<string, unknown>>, parts: CacheParts): InvalidationNames {
  const unknown = Object.keys(given).find((name) => !PROPERTIES.includes(name));
  if (unknown !== undefined)
    throw new BadRequest(400, unknownName(inOneLine(unknown, 40), { kind: "property", known: PROPERTIES }));
  const { everything, soft } = given;
  for (const [name, value] of Object.entries({ everything, soft }))
    if (value !== undefined && value !== true && !(name === "soft" && value === false))
      throw new BadRequest(400, `\`${name}\`: expected true, or nothing, got ${describeSetting(value)}`);
  const named = LISTS.filter((name) => given[name] !== undefined);
  const lists = named.map((name) => {
    const list = given[name];
    if (!Array.isArray(list)) throw new BadRequest(400, `\`${name}\`: expected an array, got ${describeSetting(list)}`);
    return list as unknown[];
  });
  if (everything === true && named.length > 0)
    throw new BadRequest(400, `expected either \`everything\` or \`${named[0]}\`, got both; leave one out`);
  if (everything === true) return { keys: [], tags: [], isClear: true };
  if (named.length === 0)
    throw new BadRequest(
      400,
      `expected one of ${LISTS.map((name) => `\`${name}\``).join(", ")} or \`everything\`, got none`,
    );
  if (lists.reduce((sum, { length }) => sum + length, 0) > MAX_TARGETS)
    throw new BadRequest(400, `expected at most ${MAX_TARGETS} targets, got more; send several requests`);
  const listOf = (name: (typeof LISTS)[number]): readonly unknown[] => lists[named.indexOf(name)] ?? [];
  const types = namesIn(listOf("types"), "types", /^[_A-Za-z]\w*$/, "names of types such as Movie");
  const coordinates = namesIn(listOf("coordinates"), "coordinates", /./, "coordinates such as Query.movie");
  const all = [
    ...listOf("entries").map((entry, nth) => {
      checkInvalidationTarget(entry, CALLER, `entries[${nth}].`);
      const place = { caller: `${CALLER}: \`entries[${nth}]\``, otherwise: "name it in `coordinates`" };
      return namesOfOneEntry(parts, entry, place);
    }),
    ...coordinates.map((name) =>
      namesOfInvalidation(parts, parts.loaders.has(name) ? { loader: name } : { coordinate: name }),
    ),
  ];
  return {
    keys: all.flatMap(({ keys }) => keys),
    tags: [...invalidatedSubjects(parts, [...listOf("tags"), ...types], CALLER), ...all.flatMap(({ tags }) => tags)],
    coordinates: all.flatMap((one) => one.coordinates ?? []),
  };
}

function namesIn(list: readonly unknown[], place: string, form: RegExp, expected: string): readonly string[] {
  const other = list.find((one) => typeof one !== "string" || !form.test(one));
  if (other !== undefined)
    throw new BadRequest(400, `\`${place}\`: expected ${expected}, got ${inOneLine(describeSetting(other), 60)}`);
  return list as readonly string[];
}

/**
 * Returns what compares with the secrets, in a time that depends on neither of them: digests have one length, and all are compared.
 * Messages do not contain a secret. Throws `CACHED_OPTION_INVALID`.
 */
function secretCheck(given: unknown): (token: string) => boolean {
  const reject = (got: string): never => {
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `${CALLER}: \`secret\`: expected a string of at least ${MIN_SECRET_LENGTH} visible ASCII characters, or several, got ${got}; make one with \`openssl rand -hex 32\``,
    );
  };
  const secrets: unknown[] = (Array.isArray(given) ? given : [given]).filter((one: unknown) => one !== undefined);
  if (secrets.length === 0) reject("none");
  const digests = secrets.map((secret) => {
    if (typeof secret !== "string") return reject(`a value of type ${secret === null ? "null" : typeof secret}`);
    if (secret.length < MIN_SECRET_LENGTH) reject(`one of ${secret.length} characters`);
    if (!/^[\x21-\x7e]*$/.test(secret)) reject("one with other characters");
    return digestOf(secret);
  });
  return (token) => {
    const digest = digestOf(token);
    return digests.map((one) => timingSafeEqual(one, digest)).includes(true);
  };
}

const digestOf = (text: string): Buffer => hash("sha256", text, "buffer");

const failure = (
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Outgoing => ({
  status,
  headers: { ...JSON_HEADERS, ...headers },
  body: JSON.stringify({ error: { code, message } }),
});
