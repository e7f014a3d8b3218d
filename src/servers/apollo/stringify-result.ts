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
  const { data } = result;
  const text = typeof data === "object" && data !== null ? textOf(data) : undefined;
  return `${text === undefined ? JSON.stringify(result) : stringifyWith(text, result)}\n`;
}

/** Returns the stored text of data that nobody has read. */
function textOf(data: object): string | undefined {
  NOTICES.get(data)?.();
  const unread = UNREAD.get(data);
  return unread?.isRead === false ? unread.response.dataText : undefined;
}

/** Data that is parsed when it is read. */
const UNREAD = new WeakMap<object, UnreadData>();
/** What to call when data is stringified here. */
const NOTICES = new WeakMap<object, () => void>();

/** The results of one plugin that are stored responses. */
export class ServedResults {
  #isStringifierInUse = false;
  readonly #notice = (): void => {
    this.#isStringifierInUse = true;
  };

  /** `isSent`: whether the result is going to be stringified. Otherwise, and with another stringifier, its data is a plain object. */
  resultOf(response: StoredResponse, isSent: boolean): StoredResult {
    if (isSent && this.#isStringifierInUse) {
      const { extensions } = response;
      return { data: unreadData(response), ...(extensions === undefined ? {} : { extensions }) };
    }
    const result = resultOf(response);
    if (isSent) NOTICES.set(result.data, this.#notice);
    return result;
  }
}

/** Returns an object that becomes the data of a response when anything is done with it. */
function unreadData(response: StoredResponse): Record<string, unknown> {
  const unread = new UnreadData(response);
  // Logs show what is behind a proxy, without asking the proxy.
  const target = Object.defineProperty({}, inspect.custom, { value: () => response.data, configurable: true });
  const data = new Proxy<Record<string, unknown>>(target, unread as ProxyHandler<object>);
  UNREAD.set(data, unread);
  return data;
}

const TRAPS = [
  "get",
  "set",
  "has",
  "ownKeys",
  "getOwnPropertyDescriptor",
  "defineProperty",
  "deleteProperty",
  "isExtensible",
  "preventExtensions",
  "setPrototypeOf",
] as const;

/** The handler of a proxy whose target gets the data when the first of the traps is called. */
class UnreadData {
  readonly response: StoredResponse;
  isRead = false;

  constructor(response: StoredResponse) {
    this.response = response;
  }

  static {
    for (const trap of TRAPS) {
      const forward = Reflect[trap] as (target: object, ...args: unknown[]) => unknown;
      Object.defineProperty(UnreadData.prototype, trap, {
        value(this: UnreadData, target: object, ...args: unknown[]): unknown {
          if (!this.isRead) this.#read(target);
          return forward(target, ...args);
        },
      });
    }
  }

  #read(target: object): void {
    this.isRead = true;
    const { data } = this.response;
    Reflect.deleteProperty(target, inspect.custom);
    Object.defineProperties(target, Object.getOwnPropertyDescriptors(data));
    if (Object.isFrozen(data)) Object.freeze(target);
  }
}
