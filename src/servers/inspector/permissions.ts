import { type AccessDetail, type Allow, isAllowed } from "../../tools/inspection/access.js";

/** What the caller of one request may do. Each question is asked once. Never rejects. */
export class Permissions {
  readonly #rules: Rules;
  readonly #request: unknown;
  readonly #answers = new Map<string, Promise<boolean>>();

  constructor(rules: Rules, request: unknown) {
    this.#rules = rules;
    this.#request = request;
  }

  /** Whether the caller may look at the cache, and with `detail` whether it may also see that. */
  mayLook(detail?: AccessDetail): Promise<boolean> {
    const name = detail === undefined ? "" : `arguments ${detail.coordinate}`;
    return this.#once(`look ${name}`, () => isAllowed(this.#rules.allow, this.#request, detail));
  }

  /** Whether the caller may look and invalidate. */
  mayInvalidate(): Promise<boolean> {
    return this.#once(
      "invalidate",
      async () => (await this.mayLook()) && isAllowed(this.#rules.allowInvalidation, this.#request),
    );
  }

  #once(question: string, ask: () => Promise<boolean>): Promise<boolean> {
    const known = this.#answers.get(question);
    if (known !== undefined) return known;
    const answer = ask();
    this.#answers.set(question, answer);
    return answer;
  }
}

/** The functions that decide, as the options of `inspectorHandler` have them. */
export interface Rules {
  readonly allow: Allow;
  readonly allowInvalidation: Allow;
}
