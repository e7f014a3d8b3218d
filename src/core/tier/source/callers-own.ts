import { type ErrorSigns, partsOfError, signsOf } from "./error-signs.js";

/** Unauthorized, Forbidden, Proxy Authentication Required. */
const STATUSES: readonly number[] = [401, 403, 407];
/** PERMISSION_DENIED and UNAUTHENTICATED. */
const GRPC_CODES: readonly unknown[] = [7, 16];
/** MySQL's `ER_ACCESS_DENIED_ERROR` is about the database's own user. */
const CODE =
  /^(?!ER_)(?:.*_)?(?:FORBIDDEN|(?:UN|NOT_?)(?:AUTHENTICATED|AUTHORI[SZ]ED)|(?:PERMISSION|ACCESS|AUTHORI[SZ]ATION)S?_?DENIED|(?:INSUFFICIENT|MISSING)_?(?:PERMISSION|PRIVILEGE|ROLE|SCOPE)S?|(?:AUTHENTICATION|LOGIN)_?REQUIRED)(?:_|$)/;
const NAME =
  /^(?:Http)?(?:Forbidden|(?:Un|Not)(?:Authenticated|Authori[sz]ed)|Authentication|Authori[sz]ation|(?:Access|Permission)s?Denied)(?:Http)?(?:Error|Exception)$/i;
/** The whole message of graphql-shield, Nexus, Nest, Pothos and TypeGraphQL by default. */
const MESSAGE =
  /^(?:(?:not |un)(?:authenticated|authori[sz]ed)|not authori[sz]ed to (?:resolve|read fields) .*|forbidden(?: resource)?|(?:access|permission) denied|access denied! you (?:don't have permission|need to be authenticated).*)[.!]?$/i;

/** Returns whether an error says that the caller may not have the value, by default. May throw: errors can have getters. */
export const saysNotAllowed = (thrown: unknown): boolean =>
  [thrown, ...partsOfError(thrown)].some((one) => signsOf(one).some(isRefusalOfCaller));

const isRefusalOfCaller = ({ codes, statuses, grpcCode, names, message }: ErrorSigns): boolean =>
  statuses.some((status) => STATUSES.includes(status)) ||
  GRPC_CODES.includes(grpcCode) ||
  codes.some((code) => CODE.test(code)) ||
  names.some((name) => NAME.test(name)) ||
  MESSAGE.test(message);
