import { setTimeout as pause } from "node:timers/promises";
import { sqliteStore } from "@graphql-cached/sqlite";
import { FakeClock } from "@graphql-cached/testing";
import { closing, itKeepsTheRules, once, subjectOf } from "../../../test/support/conformance.js";
import { shared } from "../../../test/support/shared-servers.js";
import { opensWith, sqliteFolder } from "../../../test/support/sqlite-files.js";

const lacks = { heads: "SQLite has no messages; the memory asks" };

itKeepsTheRules("The SQLite store", {
  lacks,
  make: once(async () => {
    const { path, remove } = sqliteFolder();
    const sqlite = subjectOf(sqliteStore({ path, database: opensWith(await shared("sqlite")) }), pause);
    closing.push(async () => remove());
    return sqlite;
  }),
});

itKeepsTheRules("The SQLite store on the time of a fake clock", {
  lacks,
  make: async () => {
    const clock = new FakeClock();
    const { path, remove } = sqliteFolder();
    closing.push(async () => remove());
    const store = sqliteStore({ path, clock, database: opensWith(await shared("sqlite")) });
    return subjectOf(store, (ms) => clock.advance(ms));
  },
});
