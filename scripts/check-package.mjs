/**
 * Packs the package, checks the tarball with publint and attw, installs it into an empty project as a user would, and loads every
 * entry point.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PEERS = ["ioredis@6", "iovalkey@0", "redis@6"];
/** What an application may have of its own, such as for sessions: no version of an optional peer blocks the installation. */
const OWN_CLIENTS = ["ioredis@4", "redis@3"];

/**
 * The versions of graphql and Apollo Server that are installed together, and the versions of Node.js that they exclude. Apollo Server accepts
 * graphql 16 only. `isComplete`: whether also what does not depend on them is checked.
 */
const NEWEST = { graphql: "16", apollo: "5", isComplete: true };
export const PEER_VERSIONS = [
  { graphql: "16.6.0", apollo: "4.0.0" },
  { graphql: "16.8.2", apollo: "4.11.3" },
  { graphql: "16.9.0", apollo: "4.12.2" },
  { graphql: "16.10.0", apollo: "4.13.0" },
  { graphql: "16.11.0", apollo: "5.0.0" },
  NEWEST,
  { graphql: "17", excludes: ["20."] },
];

export const namesOf = ({ graphql, apollo }) =>
  [`graphql ${graphql}`, ...(apollo === undefined ? [] : [`Apollo Server ${apollo}`])].join(" and ");

function run(command, args, cwd, env = process.env) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} exited with ${status}:\n${stdout}\n${stderr}`);
  return stdout.trim();
}

/** Builds and packs the package, and returns the path of the tarball. */
export function pack(root, ...options) {
  const folder = mkdtempSync(join(tmpdir(), "graphql-cached-pack-"));
  const output = run("npm", ["pack", "--json", "--silent", "--pack-destination", folder, ...options], root);
  const [{ filename }] = JSON.parse(output.slice(output.indexOf("[")));
  return join(folder, filename);
}

/** Throws if the tarball is larger than what an installation may cost. */
function checkSize(tarball) {
  const [files, kB] = [run("tar", ["-tzf", tarball]).split("\n").length, Math.ceil(statSync(tarball).size / 1000)];
  if (files > 400 || kB > 400)
    throw new Error(`the tarball: expected at most 400 files and 400 kB, got ${files} files and ${kB} kB`);
  console.log(`the tarball: ${files} files, ${kB} kB`);
}

/** Runs the linters of packages on a tarball. `withoutTypes`: what it exports that is no code. */
export function lintPackage(tarball, withoutTypes) {
  const bin = join(ROOT, "node_modules/.bin");
  console.log(run(join(bin, "publint"), ["run", tarball, "--strict"], ROOT));
  console.log(run(join(bin, "attw"), [tarball, "--exclude-entrypoints", ...withoutTypes], ROOT));
}

/** A user's first program: the second of two requests is a hit. Prints the version of graphql and the outcomes. */
const PROGRAM = `
const schema = buildSchema(cachedTypeDefs + " type Query { top(n: Int = 3): Int @cached(maxAge: 60) }");
let loads = 0;
schema.getQueryType().getFields().top.resolve = (_source, { n }) => n + ++loads;
const outcomes = [];
const onEvent = (event) => event.name === "entry.served" && outcomes.push(event.outcome);
const cache = createCache({ defaultScope: "PUBLIC", store: memoryStore(), onEvent });
const cached = applyCached(schema, cache);
const run = async () => {
  const source = "query ($n: Int = 3) { top(n: $n) }";
  for (let nth = 0; nth < 2; nth++) {
    const { data } = await graphql({ schema: cached, source });
    outcomes.push(data?.top);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await cache.invalidate({ coordinate: "Query.top", args: {} });
  outcomes.push((await graphql({ schema: cached, source })).data?.top);
  console.log(versionInfo.major, outcomes.join(" "));
  await cache.close();
};
run();
`;
const NAMES = [
  ["graphql", "{ buildSchema, graphql, versionInfo }"],
  ["graphql-cached", "{ applyCached, cachedTypeDefs, createCache, memoryStore }"],
];
const PROGRAMS = {
  "program.mjs": NAMES.map(([from, names]) => `import ${names} from "${from}";`).join("\n") + PROGRAM,
  "program.cjs": NAMES.map(([from, names]) => `const ${names} = require("${from}");`).join("\n") + PROGRAM,
};

/** A Jest test, without the lines that import what it uses. What `fetch` returns belongs to another realm than the test. */
const JEST_TEST = `
const typeDefs = cachedTypeDefs + " type Query { film: Film @cached(maxAge: 60) } type Film { id: Int, loads: Int }";
const load = async () => {
  const server = createServer((request, response) => response.end('{ "id": 7, "cast": [{ "name": "Ann" }] }')).listen(0);
  const warnings = [];
  const cache = createCache({ defaultScope: "PUBLIC", logger: { info() {}, warn: (line) => warnings.push(line) } });
  let loads = 0;
  const fetched = async () => {
    const film = await (await fetch("http://127.0.0.1:" + server.address().port)).json();
    return Object.assign(film, { loads: ++loads });
  };
  const films = cache.loader({ name: "Film", maxAge: 60, batch: (ids) => Promise.all(ids.map(fetched)) });
  const dates = cache.loader({ name: "Date", maxAge: 60, batch: async (ids) => ids.map(() => structuredClone({ at: new Date() })) });
  expect(await films({}).load(7)).toEqual({ id: 7, cast: [{ name: "Ann" }], loads: 1 });
  expect(await films({}).load(7)).toEqual({ id: 7, cast: [{ name: "Ann" }], loads: 1 });
  expect((await dates({}).load(7)).at).toEqual((await dates({}).load(7)).at);
  const schema = buildSchema(typeDefs);
  schema.getQueryType().getFields().film.resolve = fetched;
  const applied = applyCached(schema, cache);
  for (let nth = 0; nth < 2; nth++)
    expect((await graphql({ schema: applied, source: "{ film { id loads } }" })).data).toEqual({ film: { id: 7, loads: 2 } });
  await cache.close();
  server.closeAllConnections();
  server.close();
  expect(warnings).toEqual([]);
};
test("caches", load);
test("caches under fake timers", () => {
  jest.useFakeTimers();
  return load();
});`;
const JEST_NAMES = [
  ...NAMES.map(([from, names]) => [from, names.replace(", memoryStore", "").replace(", versionInfo", "")]),
  ["node:http", "{ createServer }"],
];

/** Tests of Jest in both of its modes, and a TypeScript file for a compiler that does not know `exports`. */
const OLDER = {
  "jest.config.js": `
const modules = process.env.NODE_OPTIONS === undefined ? "cjs" : "mjs";
module.exports = { projects: [{}, { fakeTimers: { enableGlobally: true } }].map((one) => ({ ...one, testMatch: ["<rootDir>/*.test." + modules] })) };`,
  "cache.test.cjs": JEST_NAMES.map(([from, names]) => `const ${names} = require("${from}");`).join("\n") + JEST_TEST,
  "cache.test.mjs":
    [...JEST_NAMES, ["@jest/globals", "{ jest }"]]
      .map(([from, names]) => `import ${names} from "${from}";`)
      .join("\n") + JEST_TEST,
  "older.ts": `
import { createCache, type Cache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { Redis as Valkey } from "iovalkey";
export const cache: Cache = createCache({ defaultScope: "PUBLIC" });
// Not node-redis, whose own types need \`esModuleInterop\`.
export const stores = [new Redis(1), new Cluster([]), new Valkey(1)].map((client) => redisStore({ client }));`,
  "tsconfig.json": JSON.stringify({
    compilerOptions: {
      module: "commonjs",
      moduleResolution: "node",
      target: "ES2022",
      strict: true,
      noEmit: true,
      types: ["node"],
    },
    files: ["older.ts"],
  }),
};

/** The plugin in a server, whose types differ by whether they are imported or required. */
const APOLLO_TYPES = `
import { ApolloServer } from "@apollo/server";
import { createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
const cache = createCache<{ readonly userId: string }>({ identify: ({ userId }) => userId });
const typeDefs = "type Query { top: Int }";
export const server = new ApolloServer<{ readonly userId: string }>({ typeDefs, plugins: [cachedPlugin(cache)] });
// @ts-expect-error: the context of the cache has a user
export const other = new ApolloServer<{ readonly tenant: string }>({ typeDefs, plugins: [cachedPlugin(cache)] });
`;
const FORMATS = ["mts", "cts"];

/** Compiles an import of every entry point, together with all types that they need, in a module of each format. */
function checkTypes(entryPoints, hasApollo, project, env) {
  run("npm", ["install", "--silent", "typescript@5", "@types/node@20"], project, env);
  const types = entryPoints.map((name, nth) => `export * as types${nth} from "${name}";`).join("\n");
  const programs = { types, ...(hasApollo ? { apollo: APOLLO_TYPES } : {}) };
  const files = Object.entries(programs).flatMap(([name, text]) =>
    FORMATS.map((format) => {
      writeFileSync(join(project, `${name}.${format}`), text);
      return `${name}.${format}`;
    }),
  );
  const options = ["--module", "nodenext", "--target", "es2022", "--strict", "--skipLibCheck", "false", "--noEmit"];
  run("node_modules/.bin/tsc", [...options, "--types", "node", ...files], project, env);
}

/** A program with each client that the store takes. There is no server, so that its requests get their values from the source. */
const CLIENTS = `
import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { Redis as Valkey } from "iovalkey";
import { createClient } from "redis";

const options = { port: 1, enableOfflineQueue: false, retryStrategy: () => null };
const nodeRedis = createClient({ url: "redis://127.0.0.1:1", disableOfflineQueue: true, socket: { reconnectStrategy: false } });
for (const client of [new Redis(options), new Valkey(options), nodeRedis]) {
  client.on("error", () => undefined);
  if (client === nodeRedis) client.connect().catch(() => undefined);
  const cache = createCache({ defaultScope: "PUBLIC", store: redisStore({ client }), prefix: "shop", logger: { info() {}, warn() {} } });
  const films = cache.loader({ name: "Film", maxAge: 60, batch: async (ids) => ids.map((id) => "film " + id) });
  console.log(await films({}).load(7));
  await cache.close();
}
`;

function checkClients(project, env) {
  writeFileSync(join(project, "clients.mjs"), CLIENTS);
  const printed = run("node", ["clients.mjs"], project, env);
  const expected = Array(3).fill("film 7").join("\n");
  if (printed !== expected) throw new Error(`clients.mjs: expected "${expected}", got "${printed}"`);
}

/** Compiles the same with the oldest compiler that knows `exports`. Last: it may take the place of the other as `npx tsc`. */
function checkOldTypeScript(project, env) {
  run("npm", ["install", "--silent", "typescript-4@npm:typescript@4.7"], project, env);
  const options = ["--module", "nodenext", "--target", "es2022", "--strict", "--skipLibCheck", "--noEmit"];
  const files = FORMATS.map((format) => `types.${format}`);
  run("node", ["node_modules/typescript-4/lib/tsc.js", ...options, "--types", "node", ...files], project, env);
}

function checkOlder(project, env) {
  run("npm", ["install", "--silent", "jest@30"], project, env);
  for (const [name, text] of Object.entries(OLDER)) writeFileSync(join(project, name), text);
  const { NODE_OPTIONS, ...withoutOptions } = env;
  for (const given of [withoutOptions, { ...env, NODE_OPTIONS: `${NODE_OPTIONS ?? ""} --experimental-vm-modules` }])
    run("npx", ["--no-install", "jest"], project, given);
  run("npx", ["--no-install", "tsc", "-p", "."], project, env);
}

/** Imports the package as the bundlers of edge runtimes do. */
function checkEdge(project, env) {
  const program = 'import("graphql-cached").catch(({ message }) => console.log(message))';
  const printed = run("node", ["--conditions=edge-light", "--input-type=module", "-e", program], project, env);
  if (!/^graphql-cached: .* got an edge runtime/.test(printed))
    throw new Error(`in an edge runtime: expected to be refused, got "${printed}"`);
}

/** Installs the tarball with an older graphql than it accepts, which package managers other than npm only warn about. */
function checkOldGraphql(tarball, env) {
  const project = mkdtempSync(join(tmpdir(), "graphql-cached-old-graphql-"));
  try {
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true }));
    run("npm", ["install", "--silent", "--legacy-peer-deps", tarball, "graphql@15"], project, env);
    for (const load of ["import", "require"]) {
      const program = `(async () => ${load}("graphql-cached"))().catch(({ message }) => console.log(message))`;
      const printed = run("node", ["-e", program], project, env);
      if (!printed.startsWith("graphql-cached: expected graphql 16.6 or later, got 15."))
        throw new Error(`${load} with graphql 15: expected to be refused, got "${printed}"`);
    }
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

/** Runs `npx graphql-cached check` on a schema without mistakes, and on one with a mistake. */
function checkProgram(project, env) {
  const check = (field) => {
    writeFileSync(join(project, "schema.graphql"), `type Query { ${field} }`);
    const args = ["--no-install", "graphql-cached", "check", "schema.graphql"];
    const { status, stdout, stderr } = spawnSync("npx", args, { cwd: project, env, encoding: "utf8" });
    return `${status} ${stdout.split("\n")[0]}${status === 2 ? stderr : ""}`;
  };
  const [sound, mistaken] = [check("top: Int @cached(maxAge: 60, scope: PUBLIC)"), check("top: Int @cached")];
  const expected = "0 0 errors, 0 warnings.; 1 error: schema.graphql:1:23  @cached on `Query.top`: ";
  if (!`${sound}; ${mistaken}`.startsWith(expected))
    throw new Error(`npx graphql-cached check: expected "${expected}", got "${sound}; ${mistaken}"`);
}

/** Prints what `import` finds in a module, and what is not the same by `require`. */
const BOTH = `
const [name] = process.argv.slice(1);
import(name).then(({ default: whole, "module.exports": again, ...imported }) => {
  const required = require(name);
  const names = Object.keys({ ...imported, ...required });
  console.log(names.length, names.filter((one) => imported[one] !== required[one]).join(" "));
});
`;

/** Loads entry points in a project by `import` and by `require`, which must be one copy. */
export function loadEntryPoints(names, project, env) {
  for (const name of names) {
    const [, count, different] = /^(\d+) ?(.*)$/.exec(run("node", ["-e", BOTH, name], project, env)) ?? [];
    if (!(count > 0) || different !== "")
      throw new Error(
        `${name}: expected the same exports by import and by require, got ${count}, others: ${different}`,
      );
  }
}

/**
 * Installs the tarball into an empty project as a user would: with `engine-strict`, a version of graphql and old clients, then with every peer. Loads
 * each entry point by `import` and by `require`, which must be one copy, runs a program of each kind and the command line, and compiles
 * the types without `skipLibCheck`. If `isComplete`, as by `npm run verify`, also runs Jest, also in its mode of ES modules, and a compiler
 * that does not know `exports`; an old compiler; and an old graphql, which is refused.
 */
export function checkPackage(tarball, env = process.env, { graphql, apollo, isComplete } = NEWEST) {
  const project = mkdtempSync(join(tmpdir(), "graphql-cached-package-"));
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const entryPoints = Object.keys(exports)
    .filter((path) => !path.endsWith(".json") && !path.endsWith(".graphql"))
    .map((path) => path.replace(".", "graphql-cached"));
  try {
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true }));
    run("npm", ["install", "--silent", "--engine-strict", tarball, `graphql@${graphql}`, ...OWN_CLIENTS], project, env);
    loadEntryPoints(entryPoints, project, env);
    for (const [name, text] of Object.entries(PROGRAMS)) {
      writeFileSync(join(project, name), text);
      const [printed, expected] = [
        run("node", [name], project, env),
        `${graphql.split(".")[0]} loaded 4 hit 4 loaded 5`,
      ];
      if (printed !== expected) throw new Error(`${name}: expected "${expected}", got "${printed}"`);
    }
    checkEdge(project, env);
    checkProgram(project, env);
    if (isComplete) checkOldGraphql(tarball, env);
    // Not engine-strict: on Node 20, dependencies of @apollo/server itself ask for a later version.
    const server = apollo === undefined ? [] : [`@apollo/server@${apollo}`];
    run("npm", ["install", "--silent", ...PEERS, ...server], project, env);
    checkTypes(entryPoints, apollo !== undefined, project, env);
    checkClients(project, env);
    if (!isComplete) return entryPoints;
    checkOlder(project, env);
    checkOldTypeScript(project, env);
    return entryPoints;
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const tarball = pack(ROOT);
  checkSize(tarball);
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  lintPackage(
    tarball,
    Object.keys(exports).filter((path) => /\.(json|graphql)$/.test(path)),
  );
  const entryPoints = checkPackage(tarball, process.env, {
    ...NEWEST,
    isComplete: process.argv.includes("--complete"),
  });
  console.log(`installs engine-strict, caches and loads: ${entryPoints.join(", ")}`);
}
