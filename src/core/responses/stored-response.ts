import { copyPlain } from "../codec/copy-plain.js";
import { StoredText } from "../codec/stored-text.js";
import { freezePlain } from "../tier/entry/freeze-plain.js";

type Data = Record<string, unknown>;
type Extensions = Readonly<Record<string, unknown>>;

/** The JSON of the extensions, if there are any, and that of the data, which follows this. JSON contains none. */
const SEPARATOR = "\n";

/** A response that was stored. Its data is parsed only for those who ask for it. */
export class StoredResponse {
  readonly #text: string;
  readonly #dataAt: number;
  readonly #parse: (dataText: string) => Data;
  #data: Data | undefined;

  /** `parse`: returns the data that this reader gets. */
  constructor({ text }: StoredText, parse: (dataText: string) => Data) {
    this.#text = text;
    this.#dataAt = text.indexOf(SEPARATOR) + SEPARATOR.length;
    this.#parse = parse;
  }

  /** Returns what is stored of a response. Throws if the data is not JSON. */
  static write(data: unknown, extensions: Extensions | undefined): StoredText {
    const before = extensions === undefined ? "" : JSON.stringify(extensions);
    return new StoredText(before + SEPARATOR + JSON.stringify(data));
  }

  /** The data as JSON. */
  get dataText(): string {
    return this.#text.slice(this.#dataAt);
  }

  /** The same object each time. Frozen if other readers share it. */
  get data(): Data {
    this.#data ??= this.#parse(this.dataText);
    return this.#data;
  }

  /** A new object each time. */
  get extensions(): Record<string, unknown> | undefined {
    const end = this.#dataAt - SEPARATOR.length;
    return end === 0 ? undefined : JSON.parse(this.#text.slice(0, end));
  }
}

/** The result of an operation that is answered with a stored response. */
export interface StoredResult {
  data: Data;
  extensions?: Record<string, unknown>;
}

/** Returns the result of an operation that is answered with a stored response. */
export function resultOf({ data, extensions }: StoredResponse): StoredResult {
  return extensions === undefined ? { data } : { data, extensions };
}

/**
 * The same, with data that is parsed when it is read. Servers that call the method `stringify` of a result send the stored text
 * in its place, unless it has been read: it could have been changed then.
 */
export function unreadResultOf(response: StoredResponse): StoredResult {
  const { dataText, extensions } = response;
  const result = { data: undefined, ...(extensions === undefined ? {} : { extensions }) };
  const become = (data: unknown): unknown => {
    Object.defineProperty(result, "data", { value: data, writable: true, enumerable: true, configurable: true });
    return data;
  };
  const get = (): unknown => become(response.data);
  Object.defineProperty(result, "data", { get, set: become, enumerable: true, configurable: true });
  const stringify = (sent: object): string =>
    Object.getOwnPropertyDescriptor(sent, "data")?.get === get ? stringifyWith(dataText, sent) : JSON.stringify(sent);
  Object.defineProperty(result, "stringify", { value: stringify });
  return result as unknown as StoredResult;
}

/**
 * Returns what `JSON.stringify` returns for a result whose data, once stringified, is `dataText`. Does not read the data.
 */
export function stringifyWith(dataText: string, result: object): string {
  const members = Object.keys(result).map((name) =>
    name === "data"
      ? `"data":${dataText}`
      : JSON.stringify({ [name]: (result as Readonly<Record<string, unknown>>)[name] }).slice(1, -1),
  );
  return `{${members.filter((member) => member !== "").join(",")}}`;
}

/** Opens stored responses. Parses what several readers get once. */
export class StoredResponses {
  readonly #isFrozen: boolean;
  /** The data of texts that had a second reader, or that are frozen. Null: there was one reader, who has what was parsed. */
  readonly #parsed = new WeakMap<StoredText, Data | null>();

  /** `isFrozen`: whether all readers of a text share its data, frozen. Otherwise each has an object of its own. */
  constructor(isFrozen: boolean) {
    this.#isFrozen = isFrozen;
  }

  open(text: StoredText): StoredResponse {
    return new StoredResponse(text, (dataText) => this.#parse(text, dataText));
  }

  #parse(text: StoredText, dataText: string): Data {
    const known = this.#parsed.get(text);
    if (known != null) return this.#isFrozen ? known : (copyPlain(known) as Data);
    const data = JSON.parse(dataText) as Data;
    if (this.#isFrozen) freezePlain(data);
    // Readers of one tick share a text. Copying costs an eighth of parsing, but the first reader is often the only one.
    const isKept = this.#isFrozen || known === null;
    this.#parsed.set(text, isKept ? data : null);
    return isKept && !this.#isFrozen ? (copyPlain(data) as Data) : data;
  }
}
