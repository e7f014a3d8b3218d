import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageNames } from "../../scripts/build.mjs";
import { filesIn, importsOf, ROOT, read } from "./source.js";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly engines: object;
  readonly files: readonly string[];
  readonly exports: Readonly<Record<string, string | { readonly require: object; readonly default: string }>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional: boolean }>>;
}

const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8")) as Manifest;
const root = manifestOf(".");
const names = packageNames();
/** What a package may import of the root. */
const PUBLIC = ["graphql-cached", "graphql-cached/store", "graphql-cached/redis", "graphql-cached/codec"];

/** The packages that `@graphql-cached/NAME` imports, apart from modules of Node.js and the root. */
const importedBy = (name: string): ReturnType<typeof importsOf> =>
  filesIn(`packages/${name}/src`).flatMap((file) => importsOf(file));

describe("the packages beside the root", () => {
  it.each(names)("%s imports public entry points of the root and its own files only", (name) => {
    for (const { from, isOwn } of importedBy(name))
      if (isOwn) expect(from).toMatch(new RegExp(`^packages/${name}/src/`));
      else if (from.startsWith("graphql-cached")) expect(PUBLIC).toContain(from);
      else if (!from.startsWith("node:")) {
        const { dependencies, peerDependencies } = manifestOf(`packages/${name}`);
        expect(Object.keys({ ...dependencies, ...peerDependencies })).toContain(from);
      }
  });

  it("are imported by nothing in the source of the root", () => {
    for (const file of filesIn("src"))
      for (const { from } of importsOf(file)) expect(from, file).not.toMatch(/^@graphql-cached\/|^packages\//);
    expect(root.peerDependencies).not.toHaveProperty(
      Object.keys(root.peerDependencies).find((one) => one.startsWith("@graphql-cached/")) ?? "none",
    );
  });

  it.each(names)(
    "%s has the version, the license and the engines of the root, and needs the root of its version",
    (name) => {
      const { name: own, version, license, engines, files, peerDependencies } = manifestOf(`packages/${name}`);
      expect({ own, version, license, engines, files }).toEqual({
        own: `@graphql-cached/${name}`,
        version: root.version,
        license: root.license,
        engines: root.engines,
        files: name === "observability" ? ["dist", "grafana-dashboard.json"] : ["dist"],
      });
      expect(peerDependencies["graphql-cached"]).toBe(root.version);
    },
  );

  it.each([".", ...names.map((name) => `packages/${name}`)])(
    "%s accepts every version of an optional peer, which an application may have for another purpose",
    (folder) => {
      const { peerDependencies, peerDependenciesMeta = {} } = manifestOf(folder);
      const optional = Object.keys(peerDependenciesMeta);
      expect(optional.map((name) => [name, peerDependencies[name]])).toEqual(optional.map((name) => [name, "*"]));
    },
  );

  it("accept no graphql and no Apollo Server that is older than what `npm run verify` runs and installs", () => {
    const oldest = /^\^(\d+\.\d+\.\d+)/.exec(root.peerDependencies.graphql ?? "")?.[1];
    const [, apollo] = /\| `@apollo\/server` \| (\d+) or/.exec(read("docs/getting-started.md")) ?? [];
    expect(read("scripts/verify.mjs")).toContain(`packages: ["graphql@${oldest}", "@apollo/server@${apollo}.`);
    expect(read("scripts/check-package.mjs")).toContain(`{ graphql: "${oldest}", apollo: "${apollo}.0.0" }`);
    for (const { peerDependencies } of names.map((name) => manifestOf(`packages/${name}`)))
      expect([undefined, root.peerDependencies.graphql]).toContain(peerDependencies.graphql);
  });

  it("have no constant type parameters, which end the compilation with TypeScript 4.6, also with `skipLibCheck`", () => {
    for (const report of filesIn("api", ".md"))
      expect(read(report), report).not.toMatch(/[<,] ?const [A-Z]\w* extends/);
  });

  // It is the only page of the package: the site links to it.
  it.each(names)("%s has a README of at most 100 lines with a program that docs.test.ts runs", (name) => {
    const readme = read(`packages/${name}/README.md`);
    expect(readme.split("\n").length).toBeLessThanOrEqual(101);
    expect(readme).toContain("```ts run\n");
  });
});
