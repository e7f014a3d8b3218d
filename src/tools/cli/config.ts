import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { describeSetting, messageOf } from "../../core/base/errors.js";
import type { ApplyCachedOptions } from "../../core/directive/compile/wrap-fields.js";
import type { CacheOptions } from "../../options.js";
import { CliError } from "./cli-error.js";
import { printable } from "./terminal.js";

/** What a module says that is given with --config. */
export interface Config {
  readonly cache: CacheOptions;
  readonly apply: ApplyCachedOptions;
}

/** Loads the options of a cache from a module. Throws `CliError` if there are none. */
export async function readConfig(command: string, path: string): Promise<Config> {
  let loaded: { readonly default?: unknown };
  try {
    loaded = (await import(pathToFileURL(resolve(path)).href)) as { default?: unknown };
  } catch (error) {
    throw new CliError(`${command}: --config: ${printable(path)} cannot be loaded: ${printable(messageOf(error))}`);
  }
  const options = loaded.default;
  if (typeof options !== "object" || options === null)
    throw new CliError(
      `${command}: --config: expected a module with the options of createCache as its default export, got ${describeSetting(options)}`,
    );
  const { applyCached = {}, ...cache } = options as CacheOptions & { readonly applyCached?: ApplyCachedOptions };
  return { cache, apply: applyCached };
}
