import { makeExecutableSchema } from "@graphql-tools/schema";
import { buildSchema, Kind, parse, validate } from "graphql";
import { applyCached, cachedTypeDefs, createCache, inspectionTypeDefs } from "graphql-cached";
import { afterAll, describe, expect, it } from "vitest";
import { packageNames } from "../../scripts/build.mjs";
import { filesIn, read } from "../project/source.js";
import { acceptsThisGraphql } from "../support/graphql-17.js";
import { type CodeBlock, codeBlocks } from "../support/markdown.js";
import { packedPackage } from "../support/packed-package.js";
import { sharedServer } from "../support/shared-servers.js";

const pages = [
  "README.md",
  "CONTRIBUTING.md",
  "ROADMAP.md",
  "SECURITY.md",
  "PROTOCOL.md",
  "ARCHITECTURE.md",
  ...filesIn("docs", ".md"),
  ...packageNames().map((name) => `packages/${name}/README.md`),
];
const blocks = pages.flatMap((page) => codeBlocks(read(page)).map((block, index) => ({ page, index, block })));
/** A block without imports or exports is a module, too: its names are its own. */
const asModule = (text: string): string => (/^(import|export) /m.test(text) ? text : `${text}\nexport {};\n`);
/** The program that a block is an excerpt of, as in `ts from examples/nestjs/server.ts`; tests of the examples run it. */
const programOf = ({ flags: [flag, path] }: CodeBlock): string | undefined => (flag === "from" ? path : undefined);

const project = packedPackage("docs");
project.installPackages();
afterAll(() => project.remove());
project.write("ambient.d.ts", read("test/docs/ambient.d.ts"));
project.write("public-types.ts", read("test/types/public-types.ts"));
/** The path of the program of each block. */
const programs = new Map(
  blocks
    .filter(({ block }) => block.language === "ts" && programOf(block) === undefined)
    .map(({ page, block }) => [
      block,
      project.write(`${page.replaceAll(/[/.]/g, "-")}-line-${block.line}.ts`, asModule(block.text)),
    ]),
);

/** The servers that a program asks for by an environment variable. */
async function serversOf(text: string): Promise<Record<string, string>> {
  const env: Record<string, string> = {};
  if (text.includes("env.REDIS_URL")) {
    const { host, port } = await sharedServer("redisStandalone");
    env.REDIS_URL = `redis://${host}:${port}`;
  }
  if (text.includes("env.MEMCACHED")) {
    const [{ host, port }] = await sharedServer("memcached");
    env.MEMCACHED = `${host}:${port}`;
  }
  return env;
}

describe("code blocks of README and docs", () => {
  it("compile in strict TypeScript against the packed types, as do the type tests", () => {
    expect(programs.size).toBeGreaterThan(0);
    expect(project.compile()).toBe("");
  }, 120_000);

  /** @apollo/subgraph loads graphql 17 a second time, as CommonJS: its peer range has graphql 16 only. */
  const canRun = ({ text }: CodeBlock): boolean =>
    !text.includes('from "@apollo/subgraph"') || acceptsThisGraphql("@apollo/subgraph");
  for (const { page, index, block } of blocks.filter(({ block }) => block.flags.includes("run") && canRun(block)))
    it(`prints what ${page} shows, for the program at line ${block.line}`, async () => {
      const [, output] = codeBlocks(read(page)).slice(index);
      expect(output?.language, "a `text` block with the output follows").toBe("text");
      expect(project.run(programs.get(block) as string, await serversOf(block.text))).toBe(output?.text);
    }, 60_000);

  const excerpts = blocks.filter(({ block }) => programOf(block) !== undefined);
  it.each(excerpts.map(({ page, block }) => [programOf(block) as string, page, block.line, block] as const))(
    "that are excerpts of %s have its lines in its order: %s, line %i",
    (path, _page, _line, block) => {
      const program = read(path);
      let at = 0;
      for (const part of block.text.split(/^ *\/\/ …\n/m)) {
        const found = program.indexOf(part, at);
        expect(found, part).toBeGreaterThanOrEqual(at);
        at = found + part.length;
      }
    },
  );

  it.each(
    blocks
      .filter(({ block }) => block.language === "graphql")
      .map(({ page, block }) => [page, block.line, block] as const),
  )("parse, and apply or are valid, as GraphQL: %s, line %i", (_page, _line, block) => {
    const document = parse(block.text);
    const isOperation = document.definitions.some(({ kind }) => kind === Kind.OPERATION_DEFINITION);
    if (isOperation && block.text.includes("cacheInspection"))
      expect(validate(buildSchema(`type Query ${cachedTypeDefs} ${inspectionTypeDefs}`), document)).toEqual([]);
    if (isOperation) return;
    const cache = createCache({
      defaultScope: "PUBLIC",
      identify: () => undefined,
      logger: { info: () => undefined, warn: () => undefined },
    });
    const definesQuery = document.definitions.some((one) => "name" in one && one.name?.value === "Query");
    const typeDefs = [cachedTypeDefs, block.text, ...(definesQuery ? [] : ["type Query { ok: Boolean }"])];
    const schema = applyCached(makeExecutableSchema({ typeDefs: [...typeDefs, inspectionTypeDefs] }), cache);
    expect(schema.getQueryType()?.name).toBe("Query");
  });

  it("parse as JSON where they are JSON", () => {
    for (const { page, block } of blocks)
      if (block.language === "json") expect(() => JSON.parse(block.text), `${page}:${block.line}`).not.toThrow();
  });

  it("name only npm scripts that exist", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    for (const { page, block } of blocks)
      if (block.language === "sh")
        for (const [, name = ""] of block.text.matchAll(/npm run ([\w:]+)/g))
          expect(Object.keys(scripts), `${page}:${block.line}`).toContain(name);
  });

  it("have a language that is checked here", () => {
    for (const { page, block } of blocks)
      expect(["ts", "graphql", "json", "sh", "text"], `${page}:${block.line}`).toContain(block.language);
  });
});
