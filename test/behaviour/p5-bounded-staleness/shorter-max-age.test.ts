import { FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

it("a release with a shorter maxAge reloads a value that is too old for it, although it is fresh for the other release", async () => {
  const clock = new FakeClock(1_000_000);
  const world = memoryWorld(() => memoryStore({ clock }));
  let loads = 0;
  const processOf = (maxAge: number) =>
    world.process(
      `type Query { value: Int @cached(maxAge: ${maxAge}, jitter: 0, earlyRefresh: 0) }`,
      { Query: { value: () => ++loads } },
      { memory: false, testing: { clock } },
    );
  const [longer, shorter] = [processOf(60), processOf(10)];
  expect(await dataOf(longer.ask("{ value }"))).toEqual({ value: 1 });
  await clock.advance(9_999);
  expect(await dataOf(shorter.ask("{ value }"))).toEqual({ value: 1 });
  await clock.advance(1);
  expect(await dataOf(shorter.ask("{ value }"))).toEqual({ value: 2 });
  expect(await dataOf(longer.ask("{ value }"))).toEqual({ value: 2 });
});

it("a release with a shorter maxAge waits for the refresh of a value that is too old for it with refresh: FOREGROUND, although it is fresh for the other release", async () => {
  const clock = new FakeClock(1_000_000);
  const world = memoryWorld(() => memoryStore({ clock }));
  let loads = 0;
  const processOf = (maxAge: number) =>
    world.process(
      `type Query { value: Int @cached(maxAge: ${maxAge}, staleWhileRevalidate: 600, refresh: FOREGROUND) }`,
      { Query: { value: () => ++loads } },
      { memory: false, testing: { clock } },
    );
  const [longer, shorter] = [processOf(60), processOf(10)];
  expect(await dataOf(longer.ask("{ value }"))).toEqual({ value: 1 });
  await clock.advance(10_000);
  expect(await dataOf(shorter.ask("{ value }"))).toEqual({ value: 2 });
  expect(await dataOf(longer.ask("{ value }"))).toEqual({ value: 2 });
});
