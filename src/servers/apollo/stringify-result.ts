import { inspect } from "node:util";
import {
  resultOf,
  type StoredResponse,
  type StoredResult,
  stringifyWith,
} from "../../core/responses/stored-response.js";

/**
 * The option `stringifyResult` of `new ApolloServer`. Sends the stored text of a response that
 * `cachedPlugin` has served and that no plugin has read, without parsing it, and stringifies all
 * other results as Apollo Server does by default.
 */
export function stringifyResult(result: { readonly data?: unknown }): string {
  const text = SERVED.get(result.data as object)?.textFor(result);
  return `${text ?? JSON.stringify(result)}\n`;
}

/** The data of stored responses. */
const SERVED = new WeakMap<object, ServedData>();

interface ServedData {
  /**
   * Returns a result with it as JSON, if nobody has read it. Called when a result is stringified
   * here.
   */
  textFor(result: object): string | undefined;
  readonly isUnread: boolean;
  /** Whether it is sent as null, since the client has it. */
  isNull: boolean;
}

/**
 * Notes whether the client has the data of a stored response, so that null can be stringified in
 * its place.
 */
export function setNull(data: unknown, isNull: boolean): void {
  const served = SERVED.get(data as object);
  if (served !== undefined) served.isNull = isNull;
}

/** Whether data is that of a stored response, and nobody has done anything with it. */
export const isUnreadData = (data: unknown): boolean => SERVED.get(data as object)?.isUnread === true;

export class ServedResults {
  #isStringifierInUse = false;

  /**
   * `isSent`: whether the result is going to be stringified. Otherwise, and with another
   * stringifier, its data is a plain object, unless it `mayBeNull`.
   */
  resultOf(response: StoredResponse, isSent: boolean, mayBeNull: boolean): StoredResult {
    const use = (): void => {
      this.#isStringifierInUse = true;
    };
    if (mayBeNull || (isSent && this.#isStringifierInUse)) return resultOf(response, unreadData(response, use));
    const { data } = response;
    if (isSent) SERVED.set(data, { textFor: () => void use() as undefined, isUnread: false, isNull: false });
    return resultOf(response, data);
  }
}

/** Returns an object that becomes the data of a response when anything is done with it. */
function unreadData(response: StoredResponse, onStringify: () => void): Record<string, unknown> {
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
      if (served.isNull && name === "get" && args[1] === "toJSON") return () => null;
      read();
      return (Reflect[name] as (...args: readonly unknown[]) => unknown)(...args);
    };
  };
  const data = new Proxy<Record<string, unknown>>(target, new Proxy({}, { get: trapOf as never }));
  const served: ServedData = {
    textFor(result) {
      onStringify();
      return isRead || served.isNull ? undefined : stringifyWith(response.dataText, result);
    },
    get isUnread() {
      return !isRead;
    },
    isNull: false,
  };
  SERVED.set(data, served);
  return data;
}
