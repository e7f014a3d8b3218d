import { describeSetting, inOneLine, messageOf, optionInvalid } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import type { Logger } from "../../core/telemetry/log-listener.js";

/** Returns what asks the option `allow`, and logs its first exception. There is no default. */
export function checkedAllow(options: unknown, caller: string, logger: Logger): (context: unknown) => Promise<boolean> {
  if (typeof options === "object" && options !== null) checkOptionNames(options, caller, ["allow"]);
  const { allow } = (options ?? {}) as { readonly allow?: Allow };
  if (typeof allow !== "function")
    throw optionInvalid(
      `${caller}: \`allow\`: expected a function that returns true or false for a context, got ${describeSetting(allow)}`,
    );
  let isReported = false;
  const report = (error: unknown): void => {
    if (!isReported)
      logger.warn(`graphql-cached: ${caller}: \`allow\` threw, which denies access: ${inOneLine(messageOf(error))}`);
    isReported = true;
  };
  return (context) => isAllowed(allow, context, report);
}

type Allow = (context: never) => unknown;

/** Whether `allow` returns exactly true. Never rejects: an exception denies access. */
export async function isAllowed(allow: Allow, context: unknown, report?: (error: unknown) => void): Promise<boolean> {
  try {
    return (await allow(context as never)) === true;
  } catch (error) {
    report?.(error);
    return false;
  }
}
