import { pathToFileURL } from "node:url";

/** The entry points of a build of graphql-cached. */
export type Library = typeof import("../src/index.js") &
  typeof import("../src/stores/redis/index.js") &
  typeof import("../src/servers/apollo/index.js");

/** Imports a build. `folder` contains its `index.js`. Default: that of this checkout. */
export async function loadLibrary(folder?: string): Promise<Library> {
  const base = folder === undefined ? new URL("../src/", import.meta.url) : pathToFileURL(`${folder}/`);
  const parts = ["index.js", "stores/redis/index.js", "servers/apollo/index.js"].map(
    (part) => import(new URL(part, base).href),
  );
  return Object.assign({}, ...(await Promise.all(parts))) as Library;
}
