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

const SERVED = new WeakMap<object, ServedData>();

interface ServedData {
  /** Returns a result with it as JSON, if nobody has read it. Called by `stringifyResult`. */
  textFor(result: object): string | undefined;
  readonly isUnread: boolean;
  /** Whether it is sent as null, since the client has it. */
  isNull: boolean;
}

/** Makes `stringifyResult` write null for data of a stored response that the client has. */
export function setNull(data: unknown, isNull: boolean): void {
  const served = SERVED.get(data as object);
  if (served !== undefined) served.isNull = isNull;
}

/** Whether data is that of a stored response, and untouched. */
export const isUnreadData = (data: unknown): boolean => SERVED.get(data as object)?.isUnread === true;

export type ServedResults = (response: StoredResponse, isSent: boolean, mayBeNull: boolean) => StoredResult;

/** `isSent`: it is stringified. Otherwise the data is a plain object, unless it `mayBeNull`. */
export function servedResults(): ServedResults {
  let isStringifierInUse = false;
  const use = (): undefined => {
    isStringifierInUse = true;
  };
  return (response, isSent, mayBeNull) => {
    if (mayBeNull || (isSent && isStringifierInUse)) return resultOf(response, unreadData(response, use));
    const { data } = response;
    if (isSent) SERVED.set(data, { textFor: use, isUnread: false, isNull: false });
    return resultOf(response, data);
  };
}

/** Returns an object that becomes the data of a response when it is touched. */
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
