import type { KeySpace, Subject } from "../../keys/key.js";

/** The tags of one value. */
export interface RequestTags {
  /** The tags known before the load. Hits do not need them: the entry has its own. */
  readonly subjects: readonly Subject[];
  /** Whether the key does not decide about these, so that an entry of it may have others. */
  readonly isOwn: boolean;
  /** Those known before the load alone, which refer to no request. */
  readonly known: RequestTags;
  /** Returns the tags derived from the loaded value. Undefined if there are none of this kind. */
  readonly subjectsOf: ((value: unknown) => readonly Subject[]) | undefined;
}

/** Tags that are known before the load, by their texts: a digest is made when it is needed. */
export class TagsBeforeLoad implements RequestTags {
  readonly known: RequestTags = this;
  readonly subjectsOf = undefined;
  #subjects: readonly Subject[] | undefined;

  /** `others`: tags that have no text. */
  constructor(
    readonly texts: readonly string[],
    readonly keys: Pick<KeySpace, "tags">,
    readonly isOwn = false,
    readonly others: readonly Subject[] = NO_SUBJECTS,
  ) {}

  get subjects(): readonly Subject[] {
    this.#subjects ??=
      this.others.length === 0 ? this.keys.tags(this.texts) : [...this.keys.tags(this.texts), ...this.others];
    return this.#subjects;
  }
}

/** The tags of one value, some of which are derived from it. */
export class ResultTags implements RequestTags {
  readonly known: RequestTags;
  readonly subjectsOf: (value: unknown) => readonly Subject[];

  constructor({ known }: RequestTags, subjectsOf: (value: unknown) => readonly Subject[]) {
    let last: { readonly value: unknown; readonly subjects: readonly Subject[] } | undefined;
    this.known = known;
    // Once, when the value has been loaded: its source may go on to change it.
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

export const NO_TAGS: RequestTags & { readonly texts: readonly string[] } = {
  subjects: NO_SUBJECTS,
  texts: [],
  isOwn: false,
  get known() {
    return NO_TAGS;
  },
  subjectsOf: undefined,
};
