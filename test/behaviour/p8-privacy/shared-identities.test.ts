import type { CacheOptions } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { memoryWorld } from "../../support/world.js";

type Context = Readonly<Record<string, unknown>>;
type Find = (context: never) => unknown;

/** Returns what is logged about `identify` after a PRIVATE field and a PRIVATE loader, which call `find`, were read with each context twice. */
async function linesFor(
  identify: (context: never) => string,
  find: Find,
  contexts: readonly Context[],
  options: CacheOptions<never> = {},
): Promise<string[]> {
  const { cache, ask, warnings } = memoryWorld().process(
    "type Query { me: String @cached(maxAge: 60, scope: PRIVATE) mine: String }",
    {
      Query: {
        me: async (_: unknown, __: unknown, context: never) => String(find(context)),
        mine: (_: unknown, __: unknown, context: never) => mine(context).load("a"),
      },
    },
    { identify, ...options } as never,
  );
  const mine = cache.loader<string, string>({
    name: "Mine",
    maxAge: 60,
    scope: "PRIVATE",
    batch: async (ids, context) => ids.map(() => String(find(context as never))),
  });
  for (const context of [...contexts, ...contexts])
    for (const query of ["{ me }", "{ mine }"]) await ask(query, context);
  await cache.close();
  return warnings.filter((line) => line.includes("identify"));
}

class Session {
  readonly role = "member";
  readonly #id: string;
  constructor(id: string) {
    this.#id = id;
  }
  get viewer(): object {
    return { id: this.#id };
  }
}

const SHARED: readonly (readonly [what: string, (context: never) => string, Find, readonly object[], string])[] = [
  [
    "a role",
    ({ role }: { role: string }) => role,
    ({ userId }: { userId: string }) => userId,
    [
      { role: "member", userId: "ann" },
      { role: "member", userId: "bob" },
    ],
    "userId",
  ],
  [
    "a group of the user",
    ({ user }: { user: { group: string } }) => user.group,
    ({ user }: { user: { id: number } }) => user.id,
    [{ user: { id: 1, group: "staff" } }, { user: { id: 2, group: "staff" } }],
    "user",
  ],
  [
    "an IP address",
    ({ ip }: { ip: string }) => ip,
    ({ session }: { session: { userId: string } }) => session.userId,
    [
      { ip: "10.0.0.1", session: { userId: "ann" } },
      { ip: "10.0.0.1", session: { userId: "bob" } },
    ],
    "session",
  ],
  [
    "the role of a context with a class",
    ({ role }: Session) => role,
    ({ viewer }: Session) => (viewer as { id: string }).id,
    [new Session("ann"), new Session("bob")],
    "viewer",
  ],
];

describe("an identity that two callers have", () => {
  it.each(SHARED)("is reported once if it is %s", async (_what, identify, find, contexts, property) => {
    expect(await linesFor(identify, find, contexts as Context[])).toEqual([
      "createCache: `identify`: expected an identity that one caller has, got the same one for two contexts with another " +
        `\`context.${property}\`, which the load of \`Query.me\` reads; they share PRIVATE values; return the id of the user, not a role, a group or an IP address`,
    ]);
  });

  it("is not reported in production", async () => {
    const [, identify, find, contexts] = SHARED[0] as (typeof SHARED)[number];
    expect(await linesFor(identify, find, contexts as Context[], { privacy: { warnOnContextReads: false } })).toEqual(
      [],
    );
  });
});

describe("an identity of one caller is not reported", () => {
  const byId = ({ userId }: { userId: string }): string => userId;
  it.each<[what: string, find: Find, contexts: readonly Context[]]>([
    [
      "with other requests, sessions and devices",
      (context: Context) => [context.requestId, context.sessionId, context.token, context.userAgent, context.session],
      ["1", "2"].map((nth) => {
        const own = { requestId: nth, sessionId: nth, token: nth, userAgent: nth, session: { id: nth } };
        return { userId: "ann", ...own };
      }),
    ],
    [
      "with objects of its own for each request",
      ({ user }: { user: object }) => user,
      [1, 2].map((at) => ({ userId: "ann", user: { id: "ann", at } })),
    ],
    [
      "whose user is not known in one of them",
      ({ user }: { user: unknown }) => user,
      [{ userId: "ann" }, { userId: "ann", user: { id: "ann" } }],
    ],
  ])("%s", async (_what, find, contexts) => {
    expect(await linesFor(byId as never, find, contexts)).toEqual([]);
  });
});
