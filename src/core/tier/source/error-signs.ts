import { LRUCache } from "lru-cache";
import { isObject } from "../../base/built-in.js";
import type { Clock } from "../../base/clock.js";
import type { Key } from "../../keys/key.js";

/*
 * What an error says about its reason, in the words of HTTP, gRPC, GraphQL and the libraries that
 * users have. Both functions may throw: errors can have getters.
 */

/** Whether an error says that the caller may not have the value, by default. */
export const saysNotAllowed = (thrown: unknown): boolean =>
  [thrown, ...partsOfError(thrown)].some((one) => signsOf(one).some(isRefusalOfCaller));

interface ErrorSigns {
  /** In upper case, words separated by `_`: `permission-denied` is `PERMISSION_DENIED`. */
  readonly codes: readonly string[];
  /** HTTP. */
  readonly statuses: readonly number[];
  readonly grpcCode: number | undefined;
  readonly names: readonly string[];
  readonly message: string;
}

/** How many causes of an error, and how many parts of an error, are looked at. */
const MAX_RELATED = 10;

type Properties = Readonly<Record<string, unknown>>;

function signsOf(thrown: unknown): ErrorSigns[] {
  const signs: ErrorSigns[] = [];
  let error = propertiesOf(thrown);
  while (error !== undefined && signs.length < MAX_RELATED) {
    signs.push(ownSignsOf(error));
    error = propertiesOf(error.originalError) ?? propertiesOf(error.cause);
  }
  return signs;
}

/** Returns the parts of an AggregateError, or of what a GraphQL client throws. */
function partsOfError(thrown: unknown): readonly unknown[] {
  const error = propertiesOf(thrown);
  const parts = error?.errors ?? error?.graphQLErrors ?? propertiesOf(error?.response)?.errors;
  return Array.isArray(parts) ? parts.slice(0, MAX_RELATED) : [];
}

const propertiesOf = (value: unknown): Properties | undefined => (isObject(value) ? value : undefined);

function ownSignsOf(error: Properties): ErrorSigns {
  const extensions = propertiesOf(error.extensions);
  const responses = [error.response, extensions?.response, extensions?.http, error.output].map(propertiesOf);
  const codes = [error.code, extensions?.code];
  const statuses = [
    ...[error, extensions, ...responses].flatMap((holder) => [holder?.status, holder?.statusCode]),
    propertiesOf(error.$metadata)?.httpStatusCode,
    typeof error.getStatus === "function" ? (error as { getStatus(): unknown }).getStatus() : undefined,
    ...codes,
  ].map(Number);
  const isOfGrpc = typeof error.code === "number" && ("details" in error || "metadata" in error);
  return {
    codes: codes
      .filter((code) => typeof code === "string")
      .map((code) =>
        code
          .slice(0, 100)
          .toUpperCase()
          .replaceAll(/[^A-Z0-9]+/g, "_"),
      ),
    statuses: statuses.filter((status) => status >= 100 && status < 600),
    grpcCode: isOfGrpc ? (error.code as number) : undefined,
    names: [error.name, error.constructor?.name].filter((name) => typeof name === "string"),
    message: typeof error.message === "string" ? error.message : "",
  };
}

/** Unauthorized, Forbidden, Proxy Authentication Required. */
const REFUSING_STATUSES: readonly number[] = [401, 403, 407];
/** PERMISSION_DENIED and UNAUTHENTICATED. */
const REFUSING_GRPC_CODES: readonly unknown[] = [7, 16];
/** MySQL's `ER_ACCESS_DENIED_ERROR` is about the database's own user. */
const REFUSING_CODE =
  /^(?!ER_)(?:.*_)?(?:FORBIDDEN|(?:UN|NOT_?)(?:AUTHENTICATED|AUTHORI[SZ]ED)|(?:PERMISSION|ACCESS|AUTHORI[SZ]ATION)S?_?DENIED|(?:INSUFFICIENT|MISSING)_?(?:PERMISSION|PRIVILEGE|ROLE|SCOPE)S?|(?:AUTHENTICATION|LOGIN)_?REQUIRED)(?:_|$)/;
const REFUSING_NAME =
  /^(?:Http)?(?:Forbidden|(?:Un|Not)(?:Authenticated|Authori[sz]ed)|Authentication|Authori[sz]ation|(?:Access|Permission)s?Denied)(?:Http)?(?:Error|Exception)$/i;
/** The whole message of graphql-shield, Nexus, Nest, Pothos and TypeGraphQL by default. */
const REFUSING_MESSAGE =
  /^(?:(?:not |un)(?:authenticated|authori[sz]ed)|not authori[sz]ed to (?:resolve|read fields) .*|forbidden(?: resource)?|(?:access|permission) denied|access denied! you (?:don't have permission|need to be authenticated).*)[.!]?$/i;

const isRefusalOfCaller = ({ codes, statuses, grpcCode, names, message }: ErrorSigns): boolean =>
  statuses.some((status) => REFUSING_STATUSES.includes(status)) ||
  REFUSING_GRPC_CODES.includes(grpcCode) ||
  codes.some((code) => REFUSING_CODE.test(code)) ||
  names.some((name) => REFUSING_NAME.test(name)) ||
  REFUSING_MESSAGE.test(message);

/** Request Timeout, Too Early, Too Many Requests: the same request can succeed later. */
const STATUSES_OF_TROUBLE: readonly number[] = [408, 425, 429];
/** INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE. */
const GRPC_ANSWERS: readonly number[] = [3, 5, 6, 9, 11];
/** In codes and names. AWS reports some of these with status 400. */
const TROUBLE = /THROTTL|THROUGHPUT|TOO_?MANY|RATE_?LIMIT|SLOW_?DOWN|TIME(?:D_?)?OUT|UNAVAILABLE|EXHAUSTED|OVERLOAD/i;
/** Also Prisma's errors for records that do not exist. */
const ANSWER_CODE =
  /^(?:.*_)?(?:(?<!MODULE_|HOST_)NOT_?FOUND|BAD_?(?:USER_?INPUT|REQUEST)|(?:VALIDATION|PARSE)_?(?:FAILED|ERROR)|INVALID_?(?:ARGUMENT|INPUT)S?|GONE|CONFLICT|ALREADY_?EXISTS|UNPROCESSABLE(?:_?(?:ENTITY|CONTENT))?)$|^P20(?:01|15|18|25)$/;
const ANSWER_NAME =
  /(?<!Module|Host)NotFound(?:Error|Exception)$|^(?:Bad(?:Request|UserInput)|UserInput|Gone|Conflict|UnprocessableEntity|InvalidArgument|Cast)(?:Error|Exception)$/;

/** Whether an error says that the source is in trouble, or nothing; false: it has no value. */
export function saysSourceFailed(thrown: unknown): boolean {
  const said = signsOf(thrown).map(saysTrouble);
  return said.find((isTrouble) => isTrouble !== undefined) ?? true;
}

/** Undefined if the error does not say. */
function saysTrouble({ codes, statuses, grpcCode, names }: ErrorSigns): boolean | undefined {
  if ([...codes, ...names].some((word) => TROUBLE.test(word))) return true;
  if (statuses.some((status) => status >= 500 || STATUSES_OF_TROUBLE.includes(status))) return true;
  if (statuses.some((status) => status >= 400)) return false;
  if (grpcCode !== undefined) return !GRPC_ANSWERS.includes(grpcCode);
  if (codes.some((code) => ANSWER_CODE.test(code)) || names.some((name) => ANSWER_NAME.test(name))) return false;
  return undefined;
}

/**
 * The keys whose loads fail with errors that concern one caller only. Callers that are all refused
 * would load one after the other, so after the second in a row each loads for itself for a while.
 */
export class CallerErrors {
  readonly #seriesOf = new LRUCache<string, { count: number; unsharedUntil: number }>({ max: MAX_KEYS });

  constructor(
    private readonly clock: Clock,
    private readonly unsharedMs: number,
  ) {}

  /** Records such an error. Returns whether the key is not shared from now on. */
  add({ input }: Key): boolean {
    const series = this.#seriesOf.get(input) ?? { count: 0, unsharedUntil: 0 };
    this.#seriesOf.set(input, series);
    series.count++;
    const now = this.clock.now();
    if (series.count < MAX_IN_A_ROW || series.unsharedUntil > now) return false;
    series.unsharedUntil = now + this.unsharedMs;
    return true;
  }

  endSeries({ input }: Key): void {
    const series = this.#seriesOf.get(input);
    if (series !== undefined) series.count = 0;
  }

  isUnshared({ input }: Key): boolean {
    return this.#seriesOf.size > 0 && (this.#seriesOf.get(input)?.unsharedUntil ?? 0) > this.clock.now();
  }
}

const MAX_KEYS = 1_000;
const MAX_IN_A_ROW = 2;
