import { attempt } from "../base/built-in.js";
import { getOrMake } from "../base/multimap.js";
import { copyPlain } from "../codec/json-codec.js";
import { StoredText } from "../codec/packing.js";

/** A response that was stored. Its data is parsed only for those who ask for it. */
export class StoredResponse {
  #data: Data | undefined;

  /** `parsed`: undefined for texts that are not in memory. */
  constructor(
    private readonly stored: StoredText,
    private readonly parsed: ParsedTexts | undefined,
  ) {}

  /** Returns what is stored of a response. Undefined: it is not JSON. */
  static write(data: unknown, extensions: Readonly<Record<string, unknown>> | undefined): StoredText | undefined {
    return attempt(() => {
      const before = extensions === undefined ? "" : JSON.stringify(extensions);
      return new StoredText(before + SEPARATOR + JSON.stringify(data));
    });
  }

  /** The entity tag of what is sent. Weak: servers may add to it, and send it in several forms. */
  get etag(): string {
    return `W/"${this.stored.digest}"`;
  }

  get dataText(): string {
    const { text } = this.stored;
    return text.slice(text.indexOf(SEPARATOR) + SEPARATOR.length);
  }

  /** The extensions as JSON. Empty: there are none. */
  get extensionsText(): string {
    const { text } = this.stored;
    return text.slice(0, text.indexOf(SEPARATOR));
  }

  /** The same object each time. */
  get data(): Data {
    const parse = (): Data => JSON.parse(this.dataText);
    const parsed = this.parsed;
    this.#data ??= parsed === undefined ? parse() : (copyPlain(getOrMake(parsed, this.stored, parse)) as Data);
    return this.#data;
  }

  /** A new object each time. */
  get extensions(): Record<string, unknown> | undefined {
    const text = this.extensionsText;
    return text === "" ? undefined : JSON.parse(text);
  }
}

/** A response as JSON. */
export type ResponseText = Pick<StoredResponse, "dataText" | "extensionsText">;

type Data = Record<string, unknown>;

/** Readers of texts in memory get copies of their data, which cost less than parsing. */
export type ParsedTexts = WeakMap<StoredText, Data>;

/** Between the JSON of the extensions, if there are any, and that of the data. JSON has none. */
const SEPARATOR = "\n";

export interface StoredResult {
  data: Data;
  extensions?: Record<string, unknown>;
}

export function resultOf({ extensions }: StoredResponse, data: Data): StoredResult {
  return extensions === undefined ? { data } : { data, extensions };
}

/**
 * The same, with data that is parsed when it is read, unless there is something `instead`. Servers
 * that call the method `stringify` of a result send the stored text in its place, unless it has
 * been read: it could have been changed then.
 */
export function unreadResultOf(response: StoredResponse, instead: () => unknown = () => undefined): StoredResult {
  const result = resultOf(response, {});
  const become = (value: unknown): unknown => {
    UNREAD.delete(get);
    // Not of a frozen result.
    Reflect.defineProperty(result, "data", { value, writable: true, enumerable: true, configurable: true });
    return value;
  };
  const get = (): unknown => {
    const other = instead();
    return other === undefined ? become(response.data) : other;
  };
  UNREAD.add(get);
  Object.defineProperty(result, "data", { get, set: become, enumerable: true, configurable: true });
  const stringify = (sent: object): string =>
    isUnread(sent) ? stringifyWith(response.dataText, sent) : JSON.stringify(sent);
  Object.defineProperty(result, "stringify", { value: stringify });
  return result;
}

/** The getters of data that was not read yet. */
const UNREAD = new WeakSet<() => unknown>();

/** False: the data was read, and could have been changed. */
function isUnread(result: object): boolean {
  const { get } = Object.getOwnPropertyDescriptor(result, "data") ?? {};
  return get !== undefined && UNREAD.has(get);
}

/** A result as it is once stored. What JSON cannot write never is, and stays as it is. */
export const asStored = <Result extends { readonly data?: unknown }>(result: Result): Result =>
  attempt(() => ({ ...result, data: JSON.parse(JSON.stringify(result.data)) })) ?? result;

export const dataTextOf = (data: unknown): string | undefined => attempt(() => JSON.stringify(data ?? null));

/**
 * Whether a result is, as JSON, what was executed or stored: others can have replaced, changed or
 * added to it, maybe for one caller.
 */
export function isUnchanged(result: { readonly data?: unknown }, { dataText, extensionsText }: ResponseText): boolean {
  const others = extensionsText === "" ? "" : `,"extensions":${extensionsText}`;
  try {
    if (stringifyWith("", result) !== `{"data":${others}}`) return false;
  } catch {
    return false;
  }
  return isUnread(result) || dataTextOf(result.data) === dataText;
}

/** Returns `JSON.stringify(result)` for data that is `dataText`, without reading the data. */
export function stringifyWith(dataText: string, result: object): string {
  const members = Object.keys(result).map((name) =>
    name === "data"
      ? `"data":${dataText}`
      : JSON.stringify({ [name]: (result as Readonly<Record<string, unknown>>)[name] }).slice(1, -1),
  );
  return `{${members.filter((member) => member !== "").join(",")}}`;
}
