import { attempt } from "../base/built-in.js";
import type { Logger } from "../telemetry/log-listener.js";
import { type Identity, identityOf } from "./identity.js";

type Identify = (context: never) => unknown;

/**
 * Finds an `identify` that returns what several callers have in common: a role, a group or an IP
 * address. What a PRIVATE load reads of its context, and names a person, has to be the same in all
 * contexts of one identity. Reports the first that is not, by name. Not in production.
 */
export class IdentityCheck {
  readonly #known = new Map<Identity, Person>();
  #isReported = false;

  /** `peek`: reads a context unseen. */
  constructor(
    private readonly identifyCaller: Identify,
    private readonly logger: Logger,
    private readonly peek: <T>(read: () => T) => T,
  ) {}

  /** `identify`, comparing each context with the last one of its identity. */
  readonly identify: Identify = (context) => {
    const identity = this.identifyCaller(context);
    const isText = typeof identity === "string" || typeof identity === "number" || typeof identity === "bigint";
    if (isText && this.#known.size > 0 && !this.#isReported) this.#compare(String(identity), context);
    return identity;
  };

  noteRead(context: object, property: string, coordinate: string): void {
    if (this.#isReported || !(PERSON.test(property) || HOLDER.test(property)) || NO_PERSON.test(property)) return;
    const identity = this.peek(() => identityOf(this.identifyCaller, context));
    if (identity === undefined) return;
    const person = this.#known.get(identity) ?? { names: new Map(), last: new WeakRef(context) };
    if (this.#known.size >= MAX_IDENTITIES || person.names.has(property)) return;
    const name = this.#nameIn(context, property);
    if (name === undefined) return;
    person.names.set(property, { name, coordinate });
    this.#known.set(identity, person);
  }

  #compare(identity: Identity, context: object | null): void {
    const person = this.#known.get(identity);
    if (person === undefined || typeof context !== "object" || context === null || person.last.deref() === context)
      return;
    person.last = new WeakRef(context);
    for (const [property, { name, coordinate }] of person.names) {
      const other = this.#nameIn(context, property);
      if (other === undefined || other === name) continue;
      this.#isReported = true;
      this.#known.clear();
      this.logger.warn(
        `graphql-cached: createCache: \`identify\`: expected an identity that one caller has, got the same one for two contexts with another \`context.${property}\`, which the load of \`${coordinate}\` reads; ` +
          "they share PRIVATE values; return the id of the user, not a role, a group or an IP address",
      );
      return;
    }
  }

  #nameIn(context: object, property: string): string | undefined {
    const name = () => nameOf(property, (context as Readonly<Record<string, unknown>>)[property]);
    // A getter of the context may throw.
    return attempt(() => this.peek(name));
  }
}

/** By property, what it said of a person, and whose load has read it. */
interface Person {
  readonly names: Map<string, { readonly name: string; readonly coordinate: string }>;
  last: WeakRef<object>;
}

const MAX_IDENTITIES = 1_000;

/** A user has several sessions and tokens, so holders say nothing by themselves. */
const PERSON = /user|viewer|account|customer|member|owner|person|principal|^(?:me|uid|sub|subject|email)$/i;
const HOLDER = /session|auth|claims|token|jwt|^req(?:uest)?$/i;
const NO_PERSON = /agent|loader|service|repo|role|type/i;
const IDS = ["id", "_id", "userId", "uid", "sub", "email"] as const;
const IDS_IN_HOLDERS = ["userId", "uid", "sub"] as const;

function nameOf(property: string, value: unknown): string | undefined {
  const isPerson = PERSON.test(property);
  if (typeof value !== "object" || value === null) return isPerson ? textOf(value) : undefined;
  const members = value as Readonly<Record<string, unknown>>;
  const ids = isPerson ? IDS : IDS_IN_HOLDERS;
  for (const id of ids) {
    const text = textOf(members[id]);
    if (text !== undefined) return `${id} ${text}`;
  }
  return isPerson || typeof members.user !== "object" ? undefined : nameOf("user", members.user);
}

const textOf = (value: unknown): string | undefined =>
  (typeof value === "string" && value !== "") || typeof value === "number" || typeof value === "bigint"
    ? String(value)
    : undefined;
