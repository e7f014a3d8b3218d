import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./edge-site.js";

const HINTED = "type Query { movie: String @cached(maxAge: 60) @cacheControl(maxAge: 60) }";
const UNHINTED = "type Query { movie: String @cached(maxAge: 60) }";
const resolvers = { Query: { movie: () => "Metropolis" } };

async function linesOf(server: (typeof SERVERS)[number], typeDefs: string, options: SiteOptions): Promise<string[]> {
  const lines: string[] = [];
  const log = (line: string): void => void (line.includes("`edge`") && lines.push(line));
  const cache = { logger: { info: log, warn: log }, ...options.cache };
  const { ask } = await openSite(server, typeDefs, resolvers, { ...options, cache });
  for (const _ of [1, 2]) await ask("{ movie }");
  return lines;
}

describe.each(SERVERS)("at the edge, %s says once at its start", (server) => {
  it("that nothing purges what is invalidated", async () => {
    const lines = await linesOf(server, HINTED, { cache: { onEvent: undefined } });
    expect(lines).toEqual([expect.stringMatching(/^graphql-cached: \w+: `edge`: .*invalidation\.finished.*`onEvent`/)]);
  });

  it("nothing where a listener may purge, and without the option", async () => {
    expect(await linesOf(server, HINTED, {})).toEqual([]);
    expect(await linesOf(server, UNHINTED, { edge: false, cache: { onEvent: undefined } })).toEqual([]);
  });

  it("that nothing has a lifetime, if it has no @cacheControl that its server wants", async () => {
    expect(await linesOf(server, UNHINTED, {})).toEqual(
      server.startsWith("Apollo") ? [expect.stringMatching(/`edge`: expected @cacheControl\(maxAge:\)/)] : [],
    );
  });
});
