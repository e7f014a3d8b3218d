import { afterEach, describe, expect, it, vi } from "vitest";

/** Imports an entry point with a graphql of another version, which lacks functions of later ones. */
function importWith(entryPoint: string, version: string): Promise<object> {
  const [major, minor, patch] = version.split(".").map(Number);
  vi.resetModules();
  vi.doMock("graphql", async (original) => {
    const { getArgumentValues: _, getVariableValues: __, ...others } = await original<typeof import("graphql")>();
    return { ...others, versionInfo: { major, minor, patch } };
  });
  return import(entryPoint);
}
afterEach(() => {
  vi.doUnmock("graphql");
  vi.resetModules();
});

/** Those that need graphql. `npm run check:package -- --complete` imports the package with graphql 15 itself. */
const ENTRY_POINTS = ["graphql-cached", "graphql-cached/apollo", "graphql-cached/yoga", "graphql-cached/mercurius"];

describe("an older graphql than is supported", () => {
  it.each(ENTRY_POINTS)("is refused when %s is imported, with the version to install", async (entryPoint) => {
    for (const version of ["14.7.0", "15.8.0", "16.5.0"])
      await expect(importWith(entryPoint, version)).rejects.toMatchObject({
        name: "CachedError",
        message: `graphql-cached: expected graphql 16.6 or later, got ${version}; run \`npm install graphql@16\``,
      });
  });
});
