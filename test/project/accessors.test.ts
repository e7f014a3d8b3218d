import { expect, it } from "vitest";
import { filesIn, read } from "./source.js";

/** An accessor in an object literal, or one that is defined on an object. */
const ACCESSOR = /^\s{4,}[gs]et \w+\(|\bdefinePropert(?:y|ies)\((?!.*\bvalue\b)/m;

/**
 * V8 makes a hidden class for each object with an accessor of its own, which keeps what the accessor refers to until the next full garbage
 * collection: a request, in the worst case. In classes, and with the same functions for all objects, it does not.
 */
const ALLOWED: Readonly<Record<string, string>> = {
  "src/core/directive/entities/entity-walk.ts": "once for each type",
  "src/core/directive/look-ahead/look-ahead.ts": "the same functions for all loads; others when a load reads its query",
  "src/core/loader/batch-call.ts": "the same functions for all calls",
  "src/core/loader/context-watch.ts": "only where contexts are watched, which is not in production",
  "src/core/responses/stored-response.ts": "once for each response",
  "src/servers/apollo/apollo-request.ts": "once for each response",
  "src/servers/apollo/stringify-result.ts": "once for each response",
};

it("the core and the servers make no accessors for each call, since V8 keeps what they refer to", () => {
  const found = ["src/core", "src/servers"]
    .flatMap((folder) => filesIn(folder))
    .filter((file) => ACCESSOR.test(read(file)));
  expect(found).toEqual(Object.keys(ALLOWED));
});
