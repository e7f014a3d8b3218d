import { matchesTag, namesTypeOf, type TagNormalizer, type TagTemplate } from "./tag-template.js";

/**
 * The tags that the values of a cache can have: the templates of its schemas, the tags of entities,
 * and what the functions of loaders and results were seen to return. Where functions return tags, a
 * tag counts as a mistake only if it differs in its form from one that is known, as `Movie7` and
 * `movie:7` do from `Movie:7`.
 */
export class KnownTags {
  readonly #templates = new Map<string, TagTemplate>();
  /** The beginnings of tags that functions have returned, in the form of `formOf`. */
  readonly #learned = new Set<string>();
  readonly #normalize: TagNormalizer;
  #hasSchema = false;
  #hasFunctions = false;

  /** `normalize`: makes spellings of a tag one. */
  constructor(normalize: TagNormalizer = (tag) => tag) {
    this.#normalize = normalize;
  }

  addSchema(templates: Iterable<TagTemplate>): void {
    this.#hasSchema = true;
    for (const template of templates) this.#templates.set(template.text, template);
  }

  addFunction(): void {
    this.#hasFunctions = true;
  }

  learn(tag: string): void {
    this.#hasFunctions = true;
    if (this.#learned.size <= MAX_LEARNED) this.#learned.add(formOf(tag));
  }

  get texts(): readonly string[] {
    return [...this.#templates.keys()];
  }

  /**
   * Returns what is known of a tag that no value can have: the name that it begins with, if that
   * can be shown (what follows can be user data), the known tag that differs in its form, and
   * whether functions return tags as well, which can be any. Undefined if a value may have it.
   */
  unknown(tag: string) {
    if (this.#learned.size > MAX_LEARNED || this.#learned.has(formOf(tag)) || this.#learned.has(`${tag}:`))
      return undefined;
    const templates = [...this.#templates.values()];
    if (templates.some((template) => matchesTag(template, tag) || namesTypeOf(template, tag))) return undefined;
    const known: Known[] = [
      ...templates.map(({ text, pieces: [start] }) => ({ text, start: typeof start === "string" ? start : "" })),
      ...[...this.#learned].filter(isShownName).map((form) => ({ text: `${form}…`, start: form })),
    ];
    if (known.some(({ start }) => this.#isSpelling(tag, start))) return undefined;
    const mayBeOfFunction = this.#hasFunctions || !this.#hasSchema;
    const meant = known.find(({ start }) => differsInForm(tag, start));
    if (meant === undefined && mayBeOfFunction) return undefined;
    // A word, and the separator after it.
    const [name = ""] = /^[A-Za-z_]{1,40}(?![A-Za-z_])[:/.-]?/.exec(tag) ?? [];
    const isShown = meant !== undefined || name.endsWith(":");
    return { name: isShown ? name : undefined, meant: meant?.text, mayBeOfFunction };
  }

  /** Whether a tag is another spelling of one that begins with `start`. */
  #isSpelling(tag: string, start: string): boolean {
    const rest = tag.slice(nameIn(start).length).replace(/^\W/, "");
    return differsInForm(tag, start) && this.#normalize(start + rest) === this.#normalize(tag);
  }
}

/** With more beginnings of tags that functions have returned, any tag can be right. */
const MAX_LEARNED = 1_000;

interface Known {
  readonly text: string;
  readonly start: string;
}

/** What a function puts in front of an id, and is no id itself. */
const isShownName = (form: string): boolean => /^[A-Za-z_]{1,40}:$/.test(form);

/** What all tags of a function have in common: up to the first colon, or without numbers. */
const formOf = (tag: string): string => /^[^:]*:/.exec(tag)?.[0] ?? tag.replaceAll(/\d+/g, "0");

/** Whether a tag has that name in another case, or another separator before a number. */
function differsInForm(tag: string, start: string): boolean {
  const name = nameIn(start);
  if (name === start || tag.startsWith(start)) return false;
  const [text, prefix] = [tag.toLowerCase(), start.toLowerCase()];
  return text.startsWith(prefix) || (text.startsWith(name.toLowerCase()) && /^\W?\d/.test(tag.slice(name.length)));
}

const nameIn = (text: string): string => /^\w*/.exec(text)?.[0] ?? "";
