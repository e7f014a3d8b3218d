import { isError } from "../../core/base/built-in.js";

/** What Redis 6.2 to 8 reply to a user that may not do something: run a command, use a key or channel, do so in a script. */
const MISSING_RIGHT = /^NOPERM\b|ACL failure in script|The user executing the script can't/;
/** What they reply to credentials that are wrong or missing. */
const WRONG_CREDENTIALS = /^(NOAUTH|WRONGPASS)\b/;

/** Returns whether a server has refused an operation for lack of a right, so that it will do so again. */
export const isMissingRight = (error: unknown): error is Error => isError(error) && MISSING_RIGHT.test(error.message);

/** Returns whether a server has refused a connection, or what it was asked on it: another attempt may be refused as well. */
export const isRefusal = (error: unknown): error is Error =>
  isMissingRight(error) || (isError(error) && WRONG_CREDENTIALS.test(error.message));
