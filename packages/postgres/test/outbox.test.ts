import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { invalidateFromOutbox, type OutboxOptions, outboxSql } from "@graphql-cached/postgres";
import { chaosStore, FakeClock, gate } from "@graphql-cached/testing";
import { type Cache, createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { startProgram } from "../../../test/support/programs.js";
import { waitForMessage } from "../../../test/support/real-processes.js";
import { until } from "../../../test/support/server-lab.js";
import { sharedServer } from "../../../test/support/shared-servers.js";
import { findPostgres, pglite, postgres, type TestDatabase } from "./postgres-lab.js";

const program = findPostgres();
const DATABASES: readonly (readonly [string, (() => Promise<TestDatabase>) | undefined])[] = [
  ["PGlite", pglite],
  ["PostgreSQL", program === undefined ? undefined : () => postgres(program)],
];
const byText = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

/** Returns pseudo-random numbers from 0 to 1, the same ones for a seed. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

/** So long that only a notification can have made the consumer read. */
const NEVER_MS = 3_600_000;

for (const [name, open] of DATABASES) {
  const isMissing = open === undefined;
  const tests = (): void => testsOn(open as () => Promise<TestDatabase>, name === "PostgreSQL");
  describe.skipIf(isMissing)(`the outbox on ${name}`, tests); // no server was found
}

function testsOn(open: () => Promise<TestDatabase>, isServer: boolean): void {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await open();
  }, 60_000);
  afterAll(() => db.close());

  const stops: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
  });

  /** Creates an outbox of its own for a test, and a table `product` in a schema of the same name. */
  async function outbox({ notify = true } = {}): Promise<string> {
    const schema = `test_${randomUUID().slice(0, 8)}`;
    await db.exec(outboxSql({ schema, notify }));
    await db.exec(
      `CREATE TABLE ${schema}.product (id int PRIMARY KEY, category_id int, name text);
         SELECT ${schema}.watch_table('${schema}.product', 'Product:{id}', 'Category:{category_id}')`,
    );
    return schema;
  }

  const tagsIn = async (schema: string): Promise<string[]> =>
    (await db.query(`SELECT tag FROM ${schema}.outbox ORDER BY tag COLLATE "C"`)).rows.map(
      (row) => (row as { tag: string }).tag,
    );

  const handlersIn = async (schema: string): Promise<string[]> =>
    (
      await db.query(
        "SELECT proname FROM pg_proc WHERE pronamespace = $1::regnamespace AND proname LIKE 'on_change%'",
        [schema],
      )
    ).rows.map((row) => (row as { proname: string }).proname);

  interface Consuming {
    readonly cache: Cache;
    /** The tags of each call of `invalidateTags`. */
    readonly calls: string[][];
    readonly errors: unknown[];
    readonly log: string[];
    stop(): Promise<void>;
  }

  function consume(schema: string, options: Partial<OutboxOptions> = {}): Consuming {
    const log: string[] = [];
    const logger = { info: (line: string) => log.push(line), warn: (line: string) => log.push(line) };
    const cache = options.cache ?? createCache({ defaultScope: "PUBLIC", logger });
    const calls: string[][] = [];
    const original = cache.invalidateTags.bind(cache);
    vi.spyOn(cache, "invalidateTags").mockImplementation(async (tags, ...others) => {
      await original(tags, ...others);
      calls.push([...tags].sort(byText));
    });
    const errors: unknown[] = [];
    const consumer = invalidateFromOutbox({
      database: db,
      schema,
      pollMs: 20,
      onError: (error) => errors.push(error),
      ...options,
      cache,
    });
    const stop = async (): Promise<void> => {
      await consumer.stop();
      await cache.close();
    };
    stops.push(stop);
    return { cache, calls, errors, log, stop: () => consumer.stop() };
  }

  it("reports tags that cannot be meant once, and is not stopped by them", async () => {
    const schema = await outbox();
    const consuming = consume(schema);
    for (let nth = 0; nth < 2; nth++) {
      await db.exec(`SELECT ${schema}.invalidate_tags('User:null', 'Product:*', 'Product:7')`);
      await until("the tags are invalidated", () => consuming.calls.length > nth);
    }
    expect(consuming.calls).toEqual(Array.from({ length: 2 }, () => ["Product:*", "Product:7", "User:null"]));
    expect(consuming.errors).toEqual([]);
    expect(consuming.log).toEqual([
      expect.stringContaining('outbox: `tags`: expected tags such as "Movie:7", got one with'),
      expect.stringContaining('outbox: `tags`: expected tags such as "Movie:7", got one with'),
    ]);
  });

  describe("the triggers", () => {
    it("write the tags of the old and of the new row, each once per transaction", async () => {
      const schema = await outbox();
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, 10, 'one'), (2, 10, 'two'), (3, NULL, 'three')`);
      expect(await tagsIn(schema)).toEqual(["Category:10", "Product:1", "Product:2", "Product:3"]);
      await db.exec(`TRUNCATE ${schema}.outbox; UPDATE ${schema}.product SET category_id = 11 WHERE id = 1`);
      expect(await tagsIn(schema)).toEqual(["Category:10", "Category:11", "Product:1"]);
      await db.exec(
        `TRUNCATE ${schema}.outbox; BEGIN; UPDATE ${schema}.product SET name = 'a' WHERE id = 3; UPDATE ${schema}.product SET name = 'b' WHERE id = 3; COMMIT`,
      );
      expect(await tagsIn(schema)).toEqual(["Product:3"]);
      await db.exec(`TRUNCATE ${schema}.outbox; DELETE FROM ${schema}.product WHERE id = 2`);
      expect(await tagsIn(schema)).toEqual(["Category:10", "Product:2"]);
    });

    it("write nothing for a statement that changes no row, and nothing for what is rolled back", async () => {
      const schema = await outbox();
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, 10, 'one'); TRUNCATE ${schema}.outbox`);
      await db.exec(`UPDATE ${schema}.product SET name = 'two' WHERE false`);
      await db.exec(`BEGIN; UPDATE ${schema}.product SET name = 'two'; ROLLBACK`);
      expect(await tagsIn(schema)).toEqual([]);
      await db.exec(
        `BEGIN; SAVEPOINT before; INSERT INTO ${schema}.product VALUES (2, 20, 'two'); ROLLBACK TO before;
           INSERT INTO ${schema}.product VALUES (3, 20, 'three'); COMMIT`,
      );
      expect(await tagsIn(schema)).toEqual(["Category:20", "Product:3"]);
    });

    it("write every tag of a table that is truncated, also after it was renamed", async () => {
      const schema = await outbox();
      await db.exec(
        `INSERT INTO ${schema}.product VALUES (1, 10, 'one'), (2, NULL, 'two'); TRUNCATE ${schema}.outbox;
           ALTER TABLE ${schema}.product RENAME TO old; CREATE TABLE ${schema}.product (id int);
           SELECT ${schema}.watch_table('${schema}.product', 'New:{id}'); TRUNCATE ${schema}.old`,
      );
      expect(await tagsIn(schema)).toEqual(["Category:10", "Product:1", "Product:2"]);
    });

    it("write the rows that a cascade changes, and those of a partition that is changed by its own name", async () => {
      const schema = await outbox();
      await db.exec(
        `CREATE TABLE ${schema}.review (id int, product_id int REFERENCES ${schema}.product ON DELETE CASCADE);
           CREATE TABLE ${schema}.sale (id int, year int) PARTITION BY LIST (year);
           CREATE TABLE ${schema}.sale_2026 PARTITION OF ${schema}.sale FOR VALUES IN (2026);
           SELECT ${schema}.watch_table('${schema}.review', 'Review:{id}');
           SELECT ${schema}.watch_table('${schema}.sale', 'Sale:{id}');
           INSERT INTO ${schema}.product VALUES (1, 10, 'one'); INSERT INTO ${schema}.review VALUES (7, 1);
           INSERT INTO ${schema}.sale VALUES (1, 2026), (2, 2026);
           TRUNCATE ${schema}.outbox;
           DELETE FROM ${schema}.product; INSERT INTO ${schema}.sale_2026 VALUES (5, 2026);
           UPDATE ${schema}.sale SET id = 3 WHERE id = 1; DELETE FROM ${schema}.sale_2026 WHERE id = 2`,
      );
      expect(await tagsIn(schema)).toEqual([
        "Category:10",
        "Product:1",
        "Review:7",
        "Sale:1",
        "Sale:2",
        "Sale:3",
        "Sale:5",
      ]);
      await db.exec(`TRUNCATE ${schema}.outbox; TRUNCATE ${schema}.sale`);
      expect(await tagsIn(schema)).toEqual(["Sale:3", "Sale:5"]);
    });

    it("write the text that clients get, whatever names, templates and values contain", async () => {
      const schema = await outbox();
      await db.exec(
        `CREATE DOMAIN ${schema}.code AS varchar(9); CREATE TYPE ${schema}.size AS ENUM ('S', 'it''s');
           CREATE TABLE ${schema}."o'dd ""t%s" (flag bool, "a ""b%I" text, pad char(4), code ${schema}.code,
             size ${schema}.size, big bigint, price numeric(9, 2), id uuid, tag json, tags int, written int, changed int);
           SELECT ${schema}.watch_table('${schema}."o''dd ""t%s"', 'f:{flag}', 'q''%s\\:{a "b%I}', 'p:{pad}', '{code}-{size}', '{big}', '{price}', '{id}', '{code}');
           INSERT INTO ${schema}."o'dd ""t%s" VALUES
             (true, '''); DROP TABLE x; --', 'ab', '', 'it''s', 9007199254740993, 1.50, '0190C3F2-0000-7000-8000-000000000000')`,
      );
      expect(await tagsIn(schema)).toEqual(
        [
          "f:true",
          "q'%s\\:'); DROP TABLE x; --",
          "p:ab  ",
          "-it's",
          "9007199254740993",
          "1.50",
          "0190c3f2-0000-7000-8000-000000000000",
        ].sort(byText),
      );
    });

    it("write a tag that is too long for an index", async () => {
      const schema = await outbox();
      const tags = ["x".repeat(100_000), `${"x".repeat(99_999)}y`];
      await db.query(`SELECT ${schema}.invalidate_tags($1, $2, $1, NULL, '')`, tags);
      expect(await tagsIn(schema)).toEqual(tags);
    });

    it("let a role without rights on the outbox change a watched table", async () => {
      const schema = await outbox();
      const role = `${schema}_writer`;
      await db.exec(
        `CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${schema} TO ${role}; GRANT INSERT ON ${schema}.product TO ${role}`,
      );
      await db.exec(`BEGIN; SET LOCAL ROLE ${role}; INSERT INTO ${schema}.product VALUES (1, 10, 'one'); COMMIT`);
      expect(await tagsIn(schema)).toEqual(["Category:10", "Product:1"]);
      await expect(db.exec(`BEGIN; SET LOCAL ROLE ${role}; SELECT FROM ${schema}.outbox; COMMIT`)).rejects.toThrow(
        "permission denied",
      );
      await db.exec("ROLLBACK");
    });

    it("are replaced by another watch_table, and removed by unwatch_table with their function", async () => {
      const schema = await outbox();
      await db.exec(outboxSql({ schema }));
      await db.exec(
        `SELECT ${schema}.watch_table('${schema}.product', 'P:{id}'); INSERT INTO ${schema}.product VALUES (1, 10, 'one')`,
      );
      expect(await tagsIn(schema)).toEqual(["P:1"]);
      await db.exec(
        `TRUNCATE ${schema}.outbox; SELECT ${schema}.unwatch_table('${schema}.product');
           SELECT ${schema}.unwatch_table('${schema}.product'); UPDATE ${schema}.product SET name = 'two'`,
      );
      expect(await tagsIn(schema)).toEqual([]);
      expect(await handlersIn(schema)).toEqual([]);
    });

    it("have functions whose names depend on the name of the table only", async () => {
      const schema = await outbox();
      const names = await handlersIn(schema);
      expect(names).toHaveLength(1);
      await db.exec(`SELECT ${schema}.watch_table('${schema}.product', 'Product:{id}', 'Products')`);
      expect(await handlersIn(schema)).toEqual(names);
      await db.exec(`DROP TABLE ${schema}.product; CREATE TABLE ${schema}.product (id int PRIMARY KEY);
        SELECT ${schema}.watch_table('${schema}.product', 'Product:{id}')`);
      expect(await handlersIn(schema)).toEqual(names);
    });

    it("are replaced although one of them was dropped", async () => {
      const schema = await outbox();
      for (const operation of ["insert", "truncate"])
        await db.exec(`DROP TRIGGER ${schema}_${operation} ON ${schema}.product;
          SELECT ${schema}.watch_table('${schema}.product', 'P:{id}')`);
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, 10, 'one')`);
      expect(await tagsIn(schema)).toEqual(["P:1"]);
      expect(await handlersIn(schema)).toHaveLength(1);
    });

    it.each([
      [
        "Product:{ID}",
        "Product:{ID}: expected the name of a column in braces, got {ID}; columns are id, category_id, name",
      ],
      ["Product:{$args.id}", "expected the name of a column in braces, got {$args.id}"],
      ["Product:{}", "expected the name of a column in braces, got {}"],
      ["Product:{id", "expected a tag template such as Product:{id}, got 'Product:{id'"],
      ["Product:$id", "expected a tag template such as Product:{id}, got 'Product:$id'"],
      ["Product:*", "expected a tag template such as Product:{id}, got 'Product:*'"],
      ["", "expected a tag template such as Product:{id}, got ''"],
      [null, "expected a tag template such as Product:{id}, got NULL"],
      [
        "At:{at}",
        "expected a column of an integer, numeric, text, uuid, boolean or enum type, got {at} of type timestamptz",
      ],
    ])("are refused with the template %j", async (template, message) => {
      const schema = await outbox();
      if (template === "At:{at}") await db.exec(`ALTER TABLE ${schema}.product ADD at timestamptz`);
      const watch = db.query(`SELECT ${schema}.watch_table('${schema}.product', $1)`, [template]);
      await expect(watch).rejects.toThrow(`watch_table(${schema}.product): `);
      await expect(watch).rejects.toThrow(message);
    });
  });

  describe("the consumer", () => {
    it("names the outbox as the cause of its invalidations", async () => {
      const schema = await outbox();
      const causes: object[] = [];
      const cache = createCache({
        defaultScope: "PUBLIC",
        onEvent: (event) => {
          if (event.name !== "invalidation.finished") return;
          const { via, kind, isConfirmed } = event;
          causes.push({ via, kind, isConfirmed });
        },
      });
      const consumer = invalidateFromOutbox({ cache, database: db, schema, pollMs: 20 });
      stops.push(async () => {
        await consumer.stop();
        await cache.close();
      });
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, 10, 'one')`);
      await vi.waitFor(() => expect(causes).toEqual([{ via: "outbox", kind: "hard", isConfirmed: true }]));
    });

    it("invalidates exactly the tags of a committed transaction, at its notification", async () => {
      const schema = await outbox();
      const { cache, calls } = consume(schema, { listen: db.listen, pollMs: NEVER_MS, leaseMs: 3 * NEVER_MS });
      await until("the consumer listens", async () => (await db.listeners()) === 1);
      let loads = 0;
      const products = cache.loader<number, number>({
        name: "Product",
        maxAge: 60,
        tags: (id) => [`Product:${id}`],
        batch: async (ids) => ids.map(() => ++loads),
      });
      const read = async (): Promise<number[]> => [await products({}).load(1), await products({}).load(2)];
      expect(await read()).toEqual([1, 2]);
      await vi.waitFor(async () => expect([await read(), loads]).toEqual([[1, 2], 2]));
      await db.exec(`INSERT INTO ${schema}.product VALUES (2, 10, 'two')`);
      await until("the tags are invalidated", () => calls.length > 0);
      expect(calls).toEqual([["Category:10", "Product:2"]]);
      expect(await read()).toEqual([1, 3]);
    });

    it("loses nothing of transactions that commit in another order than they began, and waits for none of them", async () => {
      const schema = await outbox({ notify: false });
      const { calls } = consume(schema);
      const begin = (id: number): Promise<unknown> =>
        db.exec(`BEGIN; INSERT INTO ${schema}.product VALUES (${id}, NULL, ''); PREPARE TRANSACTION '${schema}_${id}'`);
      await begin(1);
      await begin(2);
      await db.exec(`INSERT INTO ${schema}.product VALUES (3, NULL, '')`);
      await until("the third is invalidated", () => calls.length === 1);
      await db.exec(`COMMIT PREPARED '${schema}_2'`);
      await until("the second is invalidated", () => calls.length === 2);
      await db.exec(`COMMIT PREPARED '${schema}_1'`);
      await until("the first is invalidated", () => calls.length === 3);
      expect(calls).toEqual([["Product:3"], ["Product:2"], ["Product:1"]]);
    });

    it.each([
      ["loses and repeats nothing while transactions begin, commit and roll back in random orders", 0],
      ["loses nothing if it also starts again and again meanwhile", 0.2],
    ])("%s", async (_, restarts) => {
      const schema = await outbox({ notify: false });
      const draw = seeded(7);
      const open: number[] = [];
      const committed: number[] = [];
      const invalidated: string[] = [];
      let consumer = consume(schema, { batchSize: 3, pollMs: 1 });
      for (let id = 1; id <= 40; id++) {
        await db.exec(
          `BEGIN; INSERT INTO ${schema}.product SELECT ${id} * 10 + n, ${id} % 3, '' FROM generate_series(1, 4) AS n; PREPARE TRANSACTION '${schema}_${id}'`,
        );
        open.push(id);
        while (open.length > 0 && (open.length === 4 || id === 40 || draw() < 0.4)) {
          const [ended = 0] = open.splice(Math.floor(draw() * open.length), 1);
          const isCommitted = draw() < 0.8;
          await db.exec(`${isCommitted ? "COMMIT" : "ROLLBACK"} PREPARED '${schema}_${ended}'`);
          if (isCommitted) committed.push(ended);
        }
        if (draw() < restarts) {
          await consumer.stop();
          invalidated.push(...consumer.calls.flat());
          consumer = consume(schema, { batchSize: 1 + Math.floor(draw() * 9), pollMs: 1 });
        }
      }
      const expected = committed.flatMap((id) => [1, 2, 3, 4].map((n) => `Product:${id * 10 + n}`)).sort(byText);
      const products = (): string[] => {
        const all = [...invalidated, ...consumer.calls.flat()].filter((tag) => tag.startsWith("Product"));
        // What was read ahead of a large transaction is repeated after a restart.
        return (restarts === 0 ? all : [...new Set(all)]).sort(byText);
      };
      await until("as many tags are invalidated as were committed", () => products().length >= expected.length);
      await consumer.stop();
      expect(products()).toEqual(expected);
    });

    it("repeats a batch after it has crashed between invalidating and advancing, and nothing after that", async () => {
      const schema = await outbox();
      let isCrashed = false;
      const end = gate();
      // After a crash, nothing that the process would send arrives.
      const crashing: OutboxOptions["database"] = {
        query: (text, values) => {
          isCrashed ||= text.includes("SET seen");
          return isCrashed ? end.passed.then(() => Promise.reject(new Error("crashed"))) : db.query(text, values);
        },
      };
      const first = consume(schema, { database: crashing, leaseMs: 50 });
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, '')`);
      await until("the process has crashed", () => isCrashed);
      const second = consume(schema);
      await until("the other has invalidated", () => second.calls.length === 1);
      await second.stop();
      const third = consume(schema);
      await db.exec(`INSERT INTO ${schema}.product VALUES (2, NULL, '')`);
      await until("the third has invalidated", () => third.calls.length === 1);
      end.open();
      expect([first.calls, second.calls, third.calls]).toEqual([[["Product:1"]], [["Product:1"]], [["Product:2"]]]);
    });

    if (isServer)
      it("is continued by another process after its own was killed between invalidating and advancing", async () => {
        const schema = await outbox();
        const client = new Redis(await sharedServer("redisStandalone"));
        const prefix = `outbox-${schema}`;
        const cache = createCache({
          defaultScope: "PUBLIC",
          store: redisStore({ client }),
          prefix,
          storage: { storeTimeoutMs: 1_000 },
        });
        stops.push(async () => {
          await cache.close();
          client.disconnect();
        });
        const products = cache.loader<number, string>({
          name: "Product",
          maxAge: 3_600,
          tags: (id) => [`Product:${id}`],
          batch: async ([id]) => {
            const { rows } = await db.query(`SELECT name FROM ${schema}.product WHERE id = $1`, [id]);
            return rows.map((row) => (row as { name: string }).name);
          },
        });
        const readsAs = (name: string): Promise<void> =>
          until(`the product is read as ${name}`, async () => (await products({}).load(1)) === name);
        const { port } = await sharedServer("redisStandalone");
        const start = async (settings: Readonly<Record<string, string>>): Promise<ChildProcess> => {
          const env = {
            REDIS_PORT: String(port),
            POSTGRES_PORT: String(db.port),
            PREFIX: prefix,
            SCHEMA: schema,
          };
          const child = await startProgram("packages/postgres/test/outbox-process", { ...env, ...settings });
          stops.push(async () => void child.kill("SIGKILL"));
          return child;
        };
        await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, 'one')`);
        await readsAs("one");
        await db.exec(`UPDATE ${schema}.product SET name = 'two'`);
        const first = await start({ STOPS_AT: "SET seen" });
        await waitForMessage(first, "stopped");
        await readsAs("two");
        first.kill("SIGKILL");
        await db.exec(`UPDATE ${schema}.product SET name = 'three'`);
        await start({});
        await readsAs("three");
        const behind = `SELECT 1 FROM ${schema}.outbox, ${schema}.consumers WHERE NOT pg_visible_in_snapshot(transaction_id, seen)`;
        await until("the position has advanced", async () => (await db.query(behind)).rows.length === 0);
        expect(await products({}).load(1)).toBe("three");
      }, 60_000);

    it("does not advance before the store has confirmed, and reports the outage", async () => {
      const schema = await outbox();
      const store = chaosStore(memoryStore());
      const log: string[] = [];
      const logger = { info: (line: string) => log.push(line), warn: (line: string) => log.push(line) };
      const cache = createCache({ defaultScope: "PUBLIC", store, logger, storage: { storeTimeoutMs: 5 } });
      store.chaos.mode = "throws";
      const { calls, errors } = consume(schema, { cache });
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, '')`);
      await until("two attempts have failed", () => errors.length >= 2);
      expect(errors[0]).toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
      expect(calls).toEqual([]);
      store.chaos.mode = undefined;
      await until("the tag is invalidated", () => calls.length > 0);
      await until("the end of the outage is logged", () => log.some((line) => line.endsWith('"default" works again')));
      expect(calls).toEqual([["Product:1"]]);
      expect(log.filter((line) => line.includes('the outbox consumer "default" failed'))).toHaveLength(1);
    });

    it("continues a large transaction at the page where another process has crashed", async () => {
      const schema = await outbox();
      // Another consumer keeps the rows from being removed.
      await consume(schema, { consumer: "other" }).stop();
      await db.exec(`INSERT INTO ${schema}.product SELECT id, NULL, '' FROM generate_series(1, 10) AS id`);
      const cache = createCache({ defaultScope: "PUBLIC" });
      const second = gate();
      const invalidate = vi.spyOn(cache, "invalidateTags");
      invalidate.mockImplementationOnce(async () => undefined).mockImplementation(() => second.passed);
      const crashed = invalidateFromOutbox({ cache, database: db, schema, batchSize: 4, leaseMs: 50 });
      await until("the second page has begun", () => invalidate.mock.calls.length === 2);
      await db.exec(`INSERT INTO ${schema}.product VALUES (11, NULL, '')`);
      const { calls } = consume(schema, { batchSize: 4 });
      await until("all tags are invalidated", () => calls.flat().length === 7);
      const firstPage = invalidate.mock.calls[0]?.[0] ?? [];
      expect(calls.map(({ length }) => length)).toEqual([4, 1, 2]);
      expect([...firstPage, ...calls.flat()].sort(byText)).toEqual(
        Array.from({ length: 11 }, (_, nth) => `Product:${nth + 1}`).sort(byText),
      );
      // The crashed one was only frozen: it goes on, and cannot move the position back.
      second.open();
      await crashed.stop();
      await db.exec(`INSERT INTO ${schema}.product VALUES (12, NULL, '')`);
      await until("the last tag is invalidated", () => calls.length === 4);
      expect(calls[3]).toEqual(["Product:12"]);
      await cache.close();
    });

    it("invalidates what is committed after large transactions between their pages", async () => {
      const schema = await outbox({ notify: false });
      const cache = createCache({ defaultScope: "PUBLIC" });
      const invalidate = vi.spyOn(cache, "invalidateTags");
      const pages: string[][] = [];
      const change = (first: number, last: number): Promise<unknown> =>
        db.exec(`INSERT INTO ${schema}.product SELECT id, NULL, '' FROM generate_series(${first}, ${last}) AS id`);
      invalidate.mockImplementation(async (tags) => {
        pages.push([...tags]);
        if (pages.length === 1) {
          await change(11, 20);
          await change(21, 21);
        }
        if (pages.length === 2) await change(22, 22);
        if (pages.length === 3) await change(23, 23);
      });
      await change(1, 10);
      const consumer = invalidateFromOutbox({ cache, database: db, schema, batchSize: 4, pollMs: 20 });
      stops.push(async () => {
        await consumer.stop();
        await cache.close();
      });
      await until("all tags are invalidated", () => pages.flat().length >= 23);
      await until("the rows are removed", async () => (await behind(schema)) === 0);
      // 1 to 10, a first page of 11 to 21, 1 to 10, the small ones, and the rest of both.
      expect(pages.map(({ length }) => length)).toEqual([4, 4, 4, 2, 2, 4, 3]);
      expect(pages[3]?.sort(byText)).toEqual(["Product:22", "Product:23"]);
      expect(pages.flat().sort(byText)).toEqual(
        Array.from({ length: 23 }, (__, nth) => `Product:${nth + 1}`).sort(byText),
      );
    });

    it("reports a watched table that has lost its triggers, and says how to go on", async () => {
      const schema = await outbox();
      await db.exec(`CREATE TABLE ${schema}.sale (id int, year int) PARTITION BY LIST (year);
        CREATE TABLE ${schema}.sale_2026 PARTITION OF ${schema}.sale FOR VALUES IN (2026);
        SELECT ${schema}.watch_table('${schema}.sale', 'Sale:{id}');
        CREATE TABLE ${schema}."Odd name" (id int); SELECT ${schema}.watch_table('${schema}."Odd name"', 'Odd:{id}');
        CREATE TABLE ${schema}.next (id int); ALTER TABLE ${schema}.product RENAME TO old;
        ALTER TABLE ${schema}.next RENAME TO product; ALTER TABLE ${schema}.old DISABLE TRIGGER ALL`);
      const first = consume(schema);
      await until("both are reported", () => first.log.length >= 2);
      expect(first.log.sort(byText)).toEqual([
        `graphql-cached: the outbox consumer "default": changes of the table ${schema}.old are not all invalidated: triggers of the outbox are disabled; enable them, and invalidate what was changed meanwhile`,
        `graphql-cached: the outbox consumer "default": changes of the table ${schema}.product are not all invalidated: it lacks triggers of the outbox, as a table does that has taken the name of another; call watch_table for it, or unwatch_table for it and for the table that had its name`,
      ]);
      expect(first.errors).toHaveLength(2);
      await first.stop();
      await db.exec(`ALTER TABLE ${schema}.old ENABLE TRIGGER ALL;
        SELECT ${schema}.watch_table('${schema}.product', 'Product:{id}'); INSERT INTO ${schema}.product VALUES (7)`);
      const second = consume(schema);
      await until("the new table is watched", () => second.calls.length === 1);
      await second.stop();
      expect(second.log).toEqual([]);
    });

    it("reconnects after its connection for notifications was dropped, and finds what was written meanwhile", async () => {
      const schema = await outbox();
      let mayListen = true;
      const listen: OutboxOptions["listen"] = async (...args) => {
        if (!mayListen) throw new Error("still down");
        return db.listen(...args);
      };
      const { calls, errors, log } = consume(schema, { listen, pollMs: NEVER_MS, leaseMs: 3 * NEVER_MS });
      await until("the consumer listens", async () => (await db.listeners()) === 1);
      mayListen = false;
      await db.dropListeners();
      await until("the loss and a failed attempt are reported", () => errors.length >= 2);
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, '')`);
      mayListen = true;
      await until("the tag written meanwhile is invalidated", () => calls.length === 1);
      await db.exec(`INSERT INTO ${schema}.product VALUES (2, NULL, '')`);
      await until("the next one is, too", () => calls.length === 2);
      expect(calls).toEqual([["Product:1"], ["Product:2"]]);
      expect(log.map((line) => line.replace(/:? (still down|dropped|terminating.*)$/, ""))).toEqual([
        'graphql-cached: listening of the outbox consumer "default" failed and is tried again',
        'graphql-cached: listening of the outbox consumer "default" works again',
      ]);
    });

    it("polls while it has no connection for notifications", async () => {
      const schema = await outbox();
      const listen = (): Promise<never> => Promise.reject(new Error("no"));
      const { calls } = consume(schema, { listen });
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, '')`);
      await until("the tag is invalidated", () => calls.length === 1);
      expect(calls).toEqual([["Product:1"]]);
    });

    it("continues after the database was restarted, without losing or repeating", async () => {
      const schema = await outbox();
      const held = gate();
      const { cache, calls, errors, log } = consume(schema, { listen: db.listen });
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, '')`);
      await until(
        "the first is invalidated and the position stored",
        async () => calls.length === 1 && (await positionOf(schema)) !== "1:1:",
      );
      // The second one is written, and not invalidated before the database is gone.
      vi.mocked(cache.invalidateTags).mockImplementationOnce(() =>
        held.passed.then(() => Promise.reject(new Error("gone"))),
      );
      await db.exec(`INSERT INTO ${schema}.product VALUES (2, NULL, '')`);
      await until("the second is being invalidated", () => vi.mocked(cache.invalidateTags).mock.calls.length === 2);
      await db.kill();
      held.open();
      await until("the restart is noticed", () => errors.some((error) => (error as Error).message !== "gone"));
      await db.start();
      await db.exec(`INSERT INTO ${schema}.product VALUES (3, NULL, '')`);
      await until("everything is invalidated", () => calls.flat().includes("Product:3"));
      expect(calls.flat()).toEqual(["Product:1", "Product:2", "Product:3"]);
      await until("it listens again", () =>
        log.some((line) => line.includes("listening") && line.endsWith("works again")),
      );
    });

    it("runs in one of several processes, and in another as soon as that one stops", async () => {
      const schema = await outbox();
      const all = [consume(schema, { leaseMs: NEVER_MS }), consume(schema, { leaseMs: NEVER_MS })] as const;
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, '')`);
      await until("one has invalidated", () => all.some(({ calls }) => calls.length > 0));
      const [one, other] = all[0].calls.length > 0 ? all : ([all[1], all[0]] as const);
      await one.stop();
      await db.exec(`INSERT INTO ${schema}.product VALUES (2, NULL, '')`);
      await until("the other has invalidated", () => other.calls.length > 0);
      expect([one.calls, other.calls]).toEqual([[["Product:1"]], [["Product:2"]]]);
    });

    it("keeps rows until every consumer has seen them, and removes them then", async () => {
      const schema = await outbox();
      // Two consumers have a position.
      await consume(schema, { consumer: "eu" }).stop();
      await consume(schema, { consumer: "us" }).stop();
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, '')`);
      const eu = consume(schema, { consumer: "eu" });
      await until("one has invalidated", () => eu.calls.length === 1);
      await eu.stop();
      expect(await tagsIn(schema)).toEqual(["Product:1"]);
      const us = consume(schema, { consumer: "us" });
      await until("the row is removed", async () => (await tagsIn(schema)).length === 0);
      expect([eu.calls, us.calls]).toEqual([[["Product:1"]], [["Product:1"]]]);
    });

    it("ends with the batch that is being invalidated, and leaves the rest to the next start", async () => {
      const schema = await outbox();
      const cache = createCache({ defaultScope: "PUBLIC" });
      const held = gate();
      const invalidate = vi.spyOn(cache, "invalidateTags").mockImplementation(() => held.passed);
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, ''), (2, NULL, '')`);
      const consumer = invalidateFromOutbox({ cache, database: db, schema, batchSize: 1 });
      await until("the first batch is being invalidated", () => invalidate.mock.calls.length === 1);
      let isStopped = false;
      const stopping = consumer[Symbol.asyncDispose]().then(() => {
        isStopped = true;
      });
      await db.query("SELECT 1");
      expect(isStopped).toBe(false);
      held.open();
      await stopping;
      expect(invalidate).toHaveBeenCalledTimes(1);
      const { calls } = consume(schema);
      await until("the rest is invalidated", () => calls.length === 1);
      expect([...(invalidate.mock.calls[0]?.[0] ?? []), ...calls.flat()].sort(byText)).toEqual([
        "Product:1",
        "Product:2",
      ]);
      await cache.close();
    });

    it("starts over, and reports it, if the database was restored from a dump of another one", async () => {
      const schema = await outbox();
      const before = consume(schema);
      await db.exec(`INSERT INTO ${schema}.product VALUES (1, NULL, '')`);
      await until("the first is invalidated", () => before.calls.length === 1);
      await before.stop();
      await db.exec(`UPDATE ${schema}.consumers SET seen = '9000000000:9000000000:'`);
      const { calls, errors } = consume(schema);
      await db.exec(`INSERT INTO ${schema}.product VALUES (2, NULL, '')`);
      await until("the new tag is invalidated", () => calls.flat().includes("Product:2"));
      expect(errors.map((error) => (error as Error).message)).toEqual([
        expect.stringContaining('the position of the outbox consumer "default" is ahead of the database'),
      ]);
    });

    it("says which SQL to run if there is no outbox, and begins when there is one", async () => {
      const schema = `test_${randomUUID().slice(0, 8)}`;
      const { calls, log } = consume(schema);
      await until("the failure is logged", () => log.length === 1);
      expect(log[0]).toMatch(/does not exist; run the SQL of outboxSql\(\) in a migration$/);
      await db.exec(outboxSql({ schema }));
      await db.exec(`SELECT ${schema}.invalidate_tags('Product:1', 'Products')`);
      await until("the tags are invalidated", () => calls.length === 1);
      expect(calls).toEqual([["Product:1", "Products"]]);
    });
  });

  /** How many rows were not seen. */
  const behind = async (schema: string): Promise<number> =>
    (
      await db.query(
        `SELECT 1 FROM ${schema}.outbox, ${schema}.consumers WHERE NOT pg_visible_in_snapshot(transaction_id, seen)`,
      )
    ).rows.length;
  const positionOf = async (schema: string): Promise<string | undefined> =>
    ((await db.query(`SELECT seen::text FROM ${schema}.consumers`)).rows[0] as { seen: string } | undefined)?.seen;
}

describe("a database that does not reply", () => {
  it("is reported after ten seconds, and read again when it replies", async () => {
    const clock = new FakeClock();
    const cache = createCache({
      defaultScope: "PUBLIC",
      testing: { clock },
      logger: { info: () => undefined, warn: () => undefined },
    });
    onTestFinished(() => cache.close());
    const errors: unknown[] = [];
    let isFrozen = true;
    let statements = 0;
    const query = (): Promise<{ rows: [] }> => {
      statements++;
      return isFrozen ? new Promise(() => undefined) : Promise.resolve({ rows: [] });
    };
    const consumer = invalidateFromOutbox({ cache, database: { query }, onError: (error) => errors.push(error) });
    await clock.advance(9_999);
    expect([statements, errors]).toEqual([1, []]);
    await clock.advance(1);
    expect(errors).toEqual([new Error("the database did not reply within 10000 ms")]);
    isFrozen = false;
    await clock.advance(100);
    expect([statements, errors.length]).toEqual([2, 1]);
    await consumer.stop();
  });
});

describe("an idle consumer", () => {
  const STATEMENTS = [
    ["lead", "WITH created"],
    ["read", "page.tag"],
    ["clean", "WITH removed"],
    ["check", "WITH handlers"],
  ] as const;

  /** A database with an empty outbox, whose lease another process has for `othersMs`. */
  function consumeNothing(options: {
    readonly pollMs: number;
    readonly othersMs?: () => number;
    readonly cleaned?: () => Promise<{ rows: [] }>;
  }) {
    const clock = new FakeClock();
    const log: string[] = [];
    const cache = createCache({
      defaultScope: "PUBLIC",
      testing: { clock },
      logger: { info: (line) => log.push(line), warn: (line) => log.push(line) },
    });
    onTestFinished(() => cache.close());
    const sent: string[] = [];
    let wake = (): void => undefined;
    const query: OutboxOptions["database"]["query"] = async (text) => {
      const [name = "other"] = STATEMENTS.find(([, part]) => text.includes(part)) ?? [];
      sent.push(name);
      if (name === "clean" && options.cleaned !== undefined) return options.cleaned();
      if (sent.at(-1) === "lead") return { rows: [{ ms: options.othersMs?.() ?? 0 }] };
      return { rows: sent.at(-1) === "read" ? [{ revision: "0", snapshot: "1:1:", continues: false, tag: null }] : [] };
    };
    const consumer = invalidateFromOutbox({
      cache,
      database: { query },
      pollMs: options.pollMs,
      listen: async (_, onNotification) => {
        wake = onNotification;
        return () => undefined;
      },
    });
    onTestFinished(() => consumer.stop());
    return { clock, log, sent, wake: () => wake() };
  }

  it("sends nothing between two polls, although its lease ends, and reads at a notification", async () => {
    const { clock, sent, wake } = consumeNothing({ pollMs: 60_000 });
    await clock.advance(0);
    sent.length = 0;
    await clock.advance(59_999);
    expect(sent).toEqual([]);
    await clock.advance(1);
    expect(sent.slice(0, 2)).toEqual(["lead", "read"]);
    await clock.advance(30_000);
    sent.length = 0;
    wake();
    await clock.advance(0);
    expect(sent.slice(0, 2)).toEqual(["lead", "read"]);
  });

  it("reads at a notification although it cannot remove rows, which it tries again after ten seconds", async () => {
    let isRefused = true;
    let checks = 0;
    const cleaned = async (): Promise<{ rows: [] }> => {
      if (isRefused) throw new Error("permission denied");
      return { rows: [] };
    };
    const { clock, log, sent, wake } = consumeNothing({ pollMs: 60_000, cleaned });
    await clock.advance(0);
    expect(sent).toContain("clean");
    // Whether watched tables are looked at does not depend on it.
    checks += sent.filter((name) => name === "check").length;
    for (const waitedMs of [0, 9_999]) {
      await clock.advance(waitedMs);
      sent.length = 0;
      wake();
      await clock.advance(0);
      expect(sent.filter((name) => name !== "lead")).toEqual(["read"]);
    }
    await clock.advance(1);
    isRefused = false;
    wake();
    await clock.advance(0);
    expect(sent).toContain("clean");
    expect(checks).toBe(1);
    expect(log).toEqual([
      'graphql-cached: maintenance by the outbox consumer "default" failed and is tried again: permission denied',
      'graphql-cached: maintenance by the outbox consumer "default" works again',
    ]);
  });

  it("reads at a notification while the removal of rows waits for a lock, and sends no second one meanwhile", async () => {
    const lock = gate();
    const cleaned = () => lock.passed.then(() => ({ rows: [] as [] }));
    const { clock, sent, wake } = consumeNothing({ pollMs: 60_000, cleaned });
    // Before the consumer is stopped, which waits for it.
    onTestFinished(() => lock.open());
    await clock.advance(0);
    expect(sent).toContain("clean");
    for (let seconds = 0; seconds < 60; seconds++) {
      await clock.advance(1_000);
      sent.length = 0;
      wake();
      await clock.advance(0);
      expect(sent).toContain("read");
      if (seconds < 15) expect(sent).not.toContain("clean");
    }
  });

  it("takes over when the lease of another one ends, however rarely it polls", async () => {
    let othersMs = 4_000;
    const { clock, sent } = consumeNothing({ pollMs: 60_000, othersMs: () => othersMs });
    await clock.advance(0);
    expect(sent).toEqual(["lead"]);
    othersMs = 0;
    await clock.advance(3_999);
    expect(sent).toEqual(["lead"]);
    await clock.advance(1);
    expect(sent.slice(0, 3)).toEqual(["lead", "lead", "read"]);
  });

  it("says once that another process leads, which cannot invalidate in a store of this process alone", async () => {
    // As long as that of a process that has just crashed.
    const { clock, log } = consumeNothing({ pollMs: 1_000, othersMs: () => 5_000 });
    await clock.advance(5_000);
    expect(log).toEqual([]);
    await clock.advance(60_000);
    expect(log).toEqual([
      'graphql-cached: the outbox consumer "default": expected a store that is shared with the process that consumes, got one of this process alone, whose values stay old until maxAge; pass another `consumer` in each process, or share a store',
    ]);
  });
});

describe("the options of the outbox", () => {
  it("are refused with every mistake by outboxSql", () => {
    expect(() => outboxSql({ schema: 'x"; DROP', notify: 1, tables: [] } as never)).toThrow(
      'outboxSql: `schema`: expected a name of at most 48 lower-case letters, digits and _ that does not begin with a digit, got "x\\"; DROP"; ' +
        "`notify`: expected true or false, got 1; `tables`: unknown option; known are schema, notify",
    );
  });

  it("are refused with every mistake by invalidateFromOutbox", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    onTestFinished(() => cache.close());
    const wrong = {
      cache,
      database: {},
      schema: "Public",
      pollMs: 2 ** 31,
      leaseMs: 0,
      batchSize: 1.5,
      listen: {},
      consumer: "",
      table: "x",
    };
    expect(() => invalidateFromOutbox(wrong as never)).toThrow(
      "invalidateFromOutbox: `database`: expected an object with a method query(text, values), such as a Pool of pg, got an object; " +
        '`schema`: expected a name of at most 48 lower-case letters, digits and _ that does not begin with a digit, got "Public"; ' +
        "`pollMs`: expected an integer from 1 to 2147483647 (milliseconds), got 2147483648; " +
        "`leaseMs`: expected an integer from 1 to 2147483647 (milliseconds), got 0; `batchSize`: expected an integer from 1 to 10000, got 1.5; " +
        "`listen`: expected a function, such as listenWith(() => new Client(config)), got an object; " +
        '`consumer`: expected a string of 1 to 200 characters, got ""; ' +
        "`table`: unknown option; known are cache, database, listen, consumer, schema, pollMs, leaseMs, batchSize, onError",
    );
    expect(() => invalidateFromOutbox({ database: { query: () => undefined } } as never)).toThrow(
      "expected a cache made by createCache(), got undefined",
    );
  });
});
