/**
 * A value that is a text, and is stored as it is: no codec encodes it, so that it is neither escaped nor parsed. It
 * cannot be changed, so all readers share it.
 */
export class StoredText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** As that of other content. */
  get length(): number {
    return this.text.length;
  }
}
