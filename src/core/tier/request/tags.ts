import type { KeySpace, Subject } from "../../keys/key.js";

/**
 * The tags of one value that are known before its load, by their texts. Their digests are computed
 * when they are needed.
 */
export class TagsBeforeLoad implements RequestTags {
  readonly texts: readonly string[];
  readonly isOwn: boolean;
  readonly known: RequestTags = this;
  readonly subjectsOf = undefined;
  readonly #keys: Pick<KeySpace, "tags">;
  readonly #others: readonly Subject[];
  #subjects: readonly Subject[] | undefined;

  /** `others`: tags that have no text. */
  constructor(
    texts: readonly string[],
    keys: Pick<KeySpace, "tags">,
    isOwn = false,
    others: readonly Subject[] = NO_SUBJECTS,
  ) {
    this.texts = texts;
    this.isOwn = isOwn;
    this.#keys = keys;
    this.#others = others;
  }

  get subjects(): readonly Subject[] {
    this.#subjects ??=
      this.#others.length === 0 ? this.#keys.tags(this.texts) : [...this.#keys.tags(this.texts), ...this.#others];
    return this.#subjects;
  }
}

/** The tags of one value. */
export interface RequestTags {
  /** The tags known before the load. Hits do not need them: the entry has its own. */
  readonly subjects: readonly Subject[];
  /**
   * Whether the key does not decide about these tags, so that an entry of the key may have others.
   */
  readonly isOwn: boolean;
  /** Those known before the load alone, which refer to no request. */
  readonly known: RequestTags;
  /** Returns the tags derived from the loaded value. Undefined if there are none of this kind. */
  readonly subjectsOf: ((value: unknown) => readonly Subject[]) | undefined;
}

/** The tags of one value, some of which are derived from it. */
export class ResultTags implements RequestTags {
  readonly subjectsOf: (value: unknown) => readonly Subject[];
  readonly known: RequestTags;

  /**
   * Tags are derived once of a value, when it has been loaded: its source may go on to change it.
   */
  constructor({ known }: RequestTags, subjectsOf: (value: unknown) => readonly Subject[]) {
    let last: { readonly value: unknown; readonly subjects: readonly Subject[] } | undefined;
    this.known = known;
    this.subjectsOf = (value) => {
      if (last === undefined || !Object.is(last.value, value)) last = { value, subjects: subjectsOf(value) };
      return last.subjects;
    };
  }

  get subjects(): readonly Subject[] {
    return this.known.subjects;
  }

  get isOwn(): boolean {
    return this.known.isOwn;
  }
}

const NO_SUBJECTS: readonly Subject[] = [];

/** The tags of a value that has none. */
export const NO_TAGS: RequestTags & { readonly texts: readonly string[] } = {
  subjects: NO_SUBJECTS,
  texts: [],
  isOwn: false,
  get known() {
    return NO_TAGS;
  },
  subjectsOf: undefined,
};
