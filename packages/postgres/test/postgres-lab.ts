import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { type Listen, listenWith } from "@graphql-cached/postgres";
import pg from "pg";
import { orMissed } from "../../../test/support/chromium.js";
import { freePorts, HOST, type LabNode, ServerLab } from "../../../test/support/server-lab.js";

/** A PostgreSQL for tests: PGlite, or a server. */
export interface TestDatabase {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
  /** Runs statements one after the other. */
  exec(sql: string): Promise<unknown>;
  readonly listen: Listen;
  /** The port of a server, which other processes can use, too. */
  readonly port?: number;
  /** Number of connections that listen. */
  listeners(): Promise<number>;
  /** Breaks the connections that listen. */
  dropListeners(): Promise<unknown>;
  /** Ends the database: a server at once, as a power cut would. `start` starts it again with its data. */
  kill(): Promise<unknown>;
  start(): Promise<unknown>;
  close(): Promise<unknown>;
}

/** PREPARE TRANSACTION lets one session leave a transaction open and commit another. */
const MAX_PREPARED = 5;

/** PGlite with its data in a temporary folder. */
export async function pglite(): Promise<TestDatabase> {
  const folder = await mkdtemp(join(tmpdir(), "pglite-"));
  const data = join(folder, "data");
  const lost = new Set<(error: Error) => void>();
  let isRunning = true;
  let db = await PGlite.create(data);
  await db.exec(`ALTER SYSTEM SET max_prepared_transactions = ${MAX_PREPARED}`);
  const running = (): PGlite => {
    if (!isRunning) throw new Error("the database is down");
    return db;
  };
  const database: TestDatabase = {
    query: async (text, values) => running().query(text, values),
    exec: async (sql) => running().exec(sql),
    listen: async (channel, wake, onLost) => {
      const end = await running().listen(channel, wake);
      const drop = (error: Error): void => {
        lost.delete(drop);
        void end();
        onLost(error);
      };
      lost.add(drop);
      return () => lost.delete(drop) && end();
    },
    listeners: async () => lost.size,
    dropListeners: async () => {
      for (const drop of lost) drop(new Error("dropped"));
    },
    kill: async () => {
      isRunning = false;
      for (const drop of lost) drop(new Error("dropped"));
      await db.close();
    },
    start: async () => {
      db = await PGlite.create(data);
      isRunning = true;
    },
    close: async () => {
      await db.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
  // The setting takes effect with a restart.
  await database.kill();
  await database.start();
  return database;
}

/**
 * The program of a PostgreSQL server of version 13 or newer with `initdb` beside it: from
 * POSTGRES_SERVER, PATH, or the folder of the Debian packages. Undefined if there is none.
 */
export function findPostgres(): string | undefined {
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const candidates = [
    process.env.POSTGRES_SERVER,
    ...(process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, "postgres")),
    ...versions.map((version) => join(debian, version, "bin/postgres")),
  ];
  return orMissed(
    "PostgreSQL server",
    candidates.find((path) => path !== undefined && isUsable(path)),
  );
}

function isUsable(path: string): boolean {
  if (!existsSync(path) || !existsSync(join(dirname(path), "initdb"))) return false;
  const { stdout } = spawnSync(path, ["--version"], { encoding: "utf8" });
  return Number(/ (\d+)/.exec(stdout ?? "")?.[1]) >= 13;
}

/** PostgreSQL refuses to run as root, so it runs as `nobody` then. */
const NOBODY = 65_534;
const AS_NOBODY =
  process.getuid?.() === 0 ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] : [];

/** Starts PostgreSQL servers on free loopback ports. */
class PostgresLab extends ServerLab {
  readonly #program: string;

  constructor(program: string) {
    super(AS_NOBODY[0] ?? program);
    this.#program = program;
  }

  async standalone(): Promise<LabNode> {
    const folder = await this.folder();
    if (AS_NOBODY.length > 0) await chown(folder, NOBODY, NOBODY);
    const data = join(folder, "data");
    const [command = "", ...args] = [...AS_NOBODY, join(dirname(this.#program), "initdb")];
    const options = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
    const { status, stderr } = spawnSync(command, [...args, ...options], { encoding: "utf8" });
    if (status !== 0) throw new Error(`initdb exited with ${status}: ${stderr}`);
    const [port] = await freePorts(1);
    const settings = [
      `listen_addresses=${HOST}`,
      "unix_socket_directories=",
      "fsync=off",
      `max_prepared_transactions=${MAX_PREPARED}`,
    ].flatMap((setting) => ["-c", setting]);
    const [, ...prefix] = [...AS_NOBODY, this.#program];
    return this.start(
      port as number,
      [...prefix, "-D", data, "-p", String(port), ...settings],
      "database system is ready to accept connections",
    );
  }
}

const LISTENER = "outbox listener";

/** A PostgreSQL server that is started for the test. */
export async function postgres(program: string): Promise<TestDatabase> {
  const lab = new PostgresLab(program);
  const node = await lab.standalone();
  const address = { host: node.host, port: node.port, user: "postgres", database: "postgres" };
  const pool = new pg.Pool(address);
  pool.on("error", () => undefined);
  const ofListeners = `FROM pg_stat_activity WHERE application_name = '${LISTENER}'`;
  return {
    query: (text, values) => pool.query(text, values),
    exec: (sql) => pool.query(sql),
    port: node.port,
    listen: listenWith(() => new pg.Client({ ...address, application_name: LISTENER })),
    listeners: async () => (await pool.query(`SELECT 1 ${ofListeners} AND query LIKE 'LISTEN%'`)).rows.length,
    dropListeners: () => pool.query(`SELECT pg_terminate_backend(pid) ${ofListeners}`),
    kill: () => node.kill(),
    start: () => node.restart(),
    close: async () => {
      await pool.end();
      await lab.stop();
    },
  };
}
