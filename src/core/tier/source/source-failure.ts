import { type ErrorSigns, signsOf } from "./error-signs.js";

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

/**
 * Returns whether an error says that the source is in trouble, by default. False: the source has answered that it has
 * no value for this key. What does not say what happened counts as trouble. May throw: errors can have getters.
 */
export function saysSourceFailed(thrown: unknown): boolean {
  for (const signs of signsOf(thrown)) {
    const isTrouble = verdictOf(signs);
    if (isTrouble !== undefined) return isTrouble;
  }
  return true;
}

/** Undefined if the error does not say. */
function verdictOf({ codes, statuses, grpcCode, names }: ErrorSigns): boolean | undefined {
  if ([...codes, ...names].some((word) => TROUBLE.test(word))) return true;
  if (statuses.some((status) => status >= 500 || STATUSES_OF_TROUBLE.includes(status))) return true;
  if (statuses.some((status) => status >= 400)) return false;
  if (grpcCode !== undefined) return !GRPC_ANSWERS.includes(grpcCode);
  if (codes.some((code) => ANSWER_CODE.test(code)) || names.some((name) => ANSWER_NAME.test(name))) return false;
  return undefined;
}
