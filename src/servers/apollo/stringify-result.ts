import { inspect } from "node:util";
import {
  resultOf,
  type StoredResponse,
  type StoredResult,
  stringifyWith,
} from "../../core/responses/stored-response.js";

/**
 * The option `stringifyResult` of `new ApolloServer`. Sends the stored text of a response that `cachedPlugin` has served and
 * that no plugin has read, without parsing it, and stringifies all other results as Apollo Server does by default.
 */
export function stringifyResult(result: { readonly data?: unknown }): string {
  const text = TEXTS.get(result.data as object)?.();
  return `${text === undefined ? JSON.stringify(result) : stringifyWith(text, result)}\n`;
}

/** What to call when data is stringified here. Returns its stored text if nobody has read the data. */
const TEXTS = new WeakMap<object, () => string | undefined>();

export class ServedResults {
  #isStringifierInUse = false;

  /**
   * `isSent`: whether the result is going to be stringified. Otherwise, and with another stringifier, its data is a plain object. `isKnown`: whether
   * the client has it, so that nobody is likely to read the data.
   */
  resultOf(response: StoredResponse, isSent: boolean, isKnown: boolean): StoredResult {
    if (isKnown || (isSent && this.#isStringifierInUse)) return resultOf(response, unreadData(response));
    const { data } = response;
    if (isSent)
      TEXTS.set(data, () => {
        this.#isStringifierInUse = true;
        return undefined;
      });
    return resultOf(response, data);
  }
}

/** Returns an object that becomes the data of a response when anything is done with it. */
function unreadData(response: StoredResponse): Record<string, unknown> {
  let isRead = false;
  // Logs show what is behind a proxy, without asking the proxy.
  const target = Object.defineProperty({}, inspect.custom, { value: () => response.data, configurable: true });
  const read = (): void => {
    if (isRead) return;
    isRead = true;
    const { data } = response;
    Reflect.deleteProperty(target, inspect.custom);
    Object.defineProperties(target, Object.getOwnPropertyDescriptors(data));
  };
  const trapOf = (_: object, name: Exclude<keyof typeof Reflect, typeof Symbol.toStringTag>) => {
    // It has the prototype of the data before it has that.
    if (name === "getPrototypeOf") return undefined;
    return (...args: readonly unknown[]): unknown => {
      read();
      return (Reflect[name] as (...args: readonly unknown[]) => unknown)(...args);
    };
  };
  const data = new Proxy<Record<string, unknown>>(target, new Proxy({}, { get: trapOf as never }));
  TEXTS.set(data, () => (isRead ? undefined : response.dataText));
  return data;
}
