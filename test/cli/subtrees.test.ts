import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { graphql } from "graphql";
import { describe, expect, it, onTestFinished } from "vitest";
import { watchedSite } from "../subtrees/watched-site.js";
import { runCli } from "../support/cli-terminal.js";

/** A site whose inspection the command line can ask. */
async function servedSite() {
  const site = watchedSite();
  const server = createServer(async (request, response) => {
    const { query, variables } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as {
      query: string;
      variables: Record<string, unknown>;
    };
    const answer = await graphql({ schema: site.schema, source: query, variableValues: variables, contextValue: {} });
    response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const run = (...argv: readonly string[]) => runCli([...argv, "--endpoint", `http://127.0.0.1:${port}/graphql`]);
  return { ...site, run };
}

describe("graphql-cached fields", () => {
  it("shows what the subtrees of a field did, and nothing of those without any", async () => {
    const { ask, run } = await servedSite();
    for (let nth = 0; nth < 4; nth++) await ask("{ posts { id liked } top }");
    await ask("{ posts @live { id } }");
    const { out, code } = await run("fields");
    expect(code).toBe(0);
    expect(out.replaceAll(/\n {3,}/g, " ")).toContain(
      "\n  subtrees  4 reads, 75% of them hits; 1 selection; holes: Post.liked; skipped: DIRECTIVE @live 1",
    );
    expect(out.match(/subtrees {2}/g)).toHaveLength(1);
    const policies = [...out.replaceAll(/\n {3,}/g, " ").matchAll(/^(\S+)\n {2}policy +(.*)$/gm)];
    expect(
      policies.filter(([, , policy]) => policy?.endsWith("scope: PUBLIC, subtree: true")).map(([, name]) => name),
    ).toEqual(["Query.posts", "Query.notes"]);
    const { fields } = JSON.parse((await run("fields", "Query.posts", "--json")).out) as { fields: object[] };
    expect(fields).toMatchObject([{ coordinate: "Query.posts", subtrees: { stats: { reads: 4 }, selections: 1 } }]);
  });
});

describe("graphql-cached top", () => {
  it("shows subtrees in a line of their own", async () => {
    const { ask, run } = await servedSite();
    for (let nth = 0; nth < 4; nth++) await ask("{ posts { id } }");
    const { out } = await run("top", "--once", "--window", "start");
    expect(out).toMatch(/^Query\.posts \(subtree\) +4 +75% +1 +0/m);
    expect(out).toMatch(/^Query\.posts +1 +0% +1 +0/m);
    expect(out).not.toContain("Query.notes (subtree)");
  });
});
