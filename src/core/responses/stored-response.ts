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

  /** The same object each time. */
  get data(): Data {
    const parse = (): Data => JSON.parse(this.dataText);
    const parsed = this.parsed;
    this.#data ??= parsed === undefined ? parse() : (copyPlain(getOrMake(parsed, this.stored, parse)) as Data);
    return this.#data;
  }

  /** A new object each time. */
  get extensions(): Record<string, unknown> | undefined {
    const { text } = this.stored;
    const end = text.indexOf(SEPARATOR);
    return end === 0 ? undefined : JSON.parse(text.slice(0, end));
  }
}

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
 * The same, with data that is parsed when it is read. Servers that call the method `stringify` of a
 * result send the stored text in its place, unless it was read, and maybe changed.
 */
export function unreadResultOf(response: StoredResponse): StoredResult {
  const result = resultOf(response, {});
  const become = (value: unknown): unknown => {
    Object.defineProperty(result, "data", { value, writable: true, enumerable: true, configurable: true });
    return value;
  };
  const get = (): unknown => become(response.data);
  Object.defineProperty(result, "data", { get, set: become, enumerable: true, configurable: true });
  const stringify = (sent: object): string =>
    dataGetterOf(sent) === get ? stringifyWith(response.dataText, sent) : JSON.stringify(sent);
  Object.defineProperty(result, "stringify", { value: stringify });
  return result;
}

/** Undefined: the data was read, and could have been changed. */
const dataGetterOf = (result: object): unknown => Object.getOwnPropertyDescriptor(result, "data")?.get;

export const dataTextOf = (data: unknown): string | undefined => attempt(() => JSON.stringify(data ?? null));

/** Whether a result's data is `text` as JSON: a plugin may have changed it for one caller. */
export const hasData = (result: { readonly data?: unknown }, text: string | undefined): boolean =>
  dataGetterOf(result) !== undefined || (text !== undefined && dataTextOf(result.data) === text);

/** Returns `JSON.stringify(result)` for data that is `dataText`, without reading the data. */
export function stringifyWith(dataText: string, result: object): string {
  const members = Object.keys(result).map((name) =>
    name === "data"
      ? `"data":${dataText}`
      : JSON.stringify({ [name]: (result as Readonly<Record<string, unknown>>)[name] }).slice(1, -1),
  );
  return `{${members.filter((member) => member !== "").join(",")}}`;
}
