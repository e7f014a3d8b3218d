import { settle } from "graphql-cached/testing";
import { expect, it } from "vitest";
import { NameBatch } from "../../../src/tier/tick-batch.js";

it("runs names that are added together in one call for each group, and every name once", async () => {
  const calls: unknown[] = [];
  const batch = new NameBatch(async (group: string, names) => {
    calls.push([group, names]);
    return names.map((name) => `${group} ${name}`);
  });
  const results = await Promise.all([
    batch.add("x", ["a", "b"]),
    batch.add("y", ["a"]),
    batch.add("x", ["b", "c", "b"]),
    batch.add("x", []),
  ]);
  expect(results).toEqual([["x a", "x b"], ["y a"], ["x b", "x c", "x b"], []]);
  expect(calls).toEqual([
    ["x", ["a", "b", "c"]],
    ["y", ["a"]],
  ]);
});

it("runs names that are added while a call is running in the next call", async () => {
  const calls: (readonly string[])[] = [];
  const batch = new NameBatch(async (_: undefined, names) => {
    calls.push(names);
    return names;
  });
  void batch.add(undefined, ["a"]);
  await settle();
  await batch.add(undefined, ["a"]);
  expect(calls).toEqual([["a"], ["a"]]);
});

it("fails the callers of the group whose call failed, and no others", async () => {
  const batch = new NameBatch(async (group: string, names) => {
    if (group === "x") throw new Error("no reply");
    return names;
  });
  const [failed, other] = await Promise.allSettled([batch.add("x", ["a"]), batch.add("y", ["a"])]);
  expect([failed.status, other.status]).toEqual(["rejected", "fulfilled"]);
});
