import { settle } from "@graphql-cached/testing";
import { describe, expect, it, vi } from "vitest";
import type { Execution } from "../../../src/core/base/graphql-version.js";
import type { FieldRequest } from "../../../src/core/loader/field-loader.js";
import { RequestStates } from "../../../src/core/loader/request-states.js";
import type { Reads } from "../../../src/core/tier/read/hit.js";
import { NO_TAGS } from "../../../src/core/tier/request/tags.js";
import { collectGarbage } from "../../support/collect-garbage.js";

const LIMITS = { maxKeyBytes: 1_000_000, maxTagCombinations: 1_000 };
const NO_INVALIDATIONS = { count: 0, hasChangedSince: () => false };
const newRequestStates = (): RequestStates =>
  new RequestStates({ invalidations: {} } as Reads, NO_INVALIDATIONS, LIMITS);
const executionOf = (owner: object, signal?: object): Execution => ({ owner, signal });

describe("the field loader of an execution", () => {
  it("is the same for all its fields, and another one for each other execution", () => {
    const requestStates = newRequestStates();
    const [owner, other] = [{ id: 1 }, { id: 1 }];
    expect(requestStates.loader(executionOf(owner))).toBe(requestStates.loader(executionOf(owner)));
    expect(requestStates.loader(executionOf(other))).not.toBe(requestStates.loader(executionOf(owner)));
  });

  it("is another one for each signal of executions that share their variables", () => {
    const requestStates = newRequestStates();
    const owner = {};
    const executions = [{}, {}, undefined].map((signal) => executionOf(owner, signal));
    const loaders = executions.map((execution) => requestStates.loader(execution));
    expect(new Set(loaders).size).toBe(3);
    expect(executions.map((execution) => requestStates.loader({ ...execution }))).toEqual(loaders);
    expect(executions.every((execution, nth) => requestStates.loader({ ...execution }) === loaders[nth])).toBe(true);
  });

  it("is another one for each execution that shares its signal", () => {
    const requestStates = newRequestStates();
    const signal = {};
    const [some, others] = [executionOf({}, signal), executionOf({}, signal)];
    const loader = requestStates.loader(some);
    expect(requestStates.loader(others)).not.toBe(loader);
    expect([requestStates.loader({ ...some }), requestStates.loader(others)]).toEqual([
      loader,
      requestStates.loader({ ...others }),
    ]);
    expect(requestStates.loader({ ...some })).toBe(loader);
    expect(requestStates.loader({ ...others })).toBe(requestStates.loader(others));
  });

  it("is kept by its signal, and not by variables that executions with signals of their own share, and that outlive them", async () => {
    const requestStates = newRequestStates();
    const owner = {};
    const signal = {};
    const loaderFor = (of: object): WeakRef<object> => new WeakRef(requestStates.loader(executionOf(owner, of)));
    const [ended, running] = [loaderFor({}), loaderFor(signal)];
    // What a WeakRef refers to is not collected in the turn of the event loop in which it was made.
    await settle();
    collectGarbage();
    expect(ended.deref()).toBeUndefined();
    expect(running.deref()).toBe(requestStates.loader(executionOf(owner, signal)));
  });

  it("forgets what it has read when the signal of the execution aborts, as graphql 17 does at the end", () => {
    const read = vi.fn(() => Promise.resolve());
    const respondAgain = vi.fn(() => Promise.resolve());
    const requestStates = new RequestStates(
      {
        loads: { running: 0 },
        invalidations: {},
        responder: { respondAgain },
        nestingOf: () => "none",
        read,
      } as unknown as Reads,
      NO_INVALIDATIONS,
      LIMITS,
    );
    const controller = new AbortController();
    const execution = executionOf({}, controller.signal);
    const request = { key: { name: "key" }, tags: NO_TAGS, policy: {} } as unknown as FieldRequest;
    for (let nth = 0; nth < 2; nth++) void requestStates.loader(execution).read(request);
    expect([read.mock.calls.length, respondAgain.mock.calls.length]).toEqual([1, 1]);
    controller.abort();
    void requestStates.loader(execution).read(request);
    expect([read.mock.calls.length, respondAgain.mock.calls.length]).toEqual([2, 1]);
  });

  it("is given to the observer of its request once, to forget what it has read", () => {
    const requestStates = newRequestStates();
    const begun: unknown[] = [];
    const observer = { onRead: () => undefined, onExecution: (execution: unknown) => begun.push(execution) };
    // The second cannot be extended.
    const loaders = [{}, Object.freeze({})].map((owner) =>
      [1, 2].map(() => requestStates.loader(executionOf(owner), observer)),
    );
    expect(begun).toHaveLength(2);
    for (const [nth, ofOwner] of loaders.entries()) for (const loader of ofOwner) expect(loader).toBe(begun[nth]);
  });

  it("is the same for all fields if the variables cannot be extended", () => {
    const requestStates = newRequestStates();
    const [owner, signal] = [Object.freeze({}), {}];
    expect(requestStates.loader(executionOf(owner))).toBe(requestStates.loader(executionOf(owner)));
    expect(requestStates.loader(executionOf(owner, signal))).toBe(requestStates.loader(executionOf(owner, signal)));
    expect(requestStates.loader(executionOf(owner, signal))).not.toBe(requestStates.loader(executionOf(owner)));
  });

  it("is not that of the object from which the variables inherit, or of which they are a copy", () => {
    const requestStates = newRequestStates();
    const owner = { id: 1 };
    const loader = requestStates.loader(executionOf(owner));
    for (const other of [Object.create(owner) as object, { ...owner }])
      expect(requestStates.loader(executionOf(other))).not.toBe(loader);
    expect(requestStates.loader(executionOf(owner))).toBe(loader);
  });

  it("is another one for each cache", () => {
    const owner = {};
    const [some, others] = [newRequestStates(), newRequestStates()];
    const loader = some.loader(executionOf(owner));
    expect(others.loader(executionOf(owner))).not.toBe(loader);
    expect(some.loader(executionOf(owner))).toBe(loader);
  });

  it("adds nothing to the variables that is enumerated, printed or serialized", () => {
    const owner = { id: 1 };
    newRequestStates().loader(executionOf(owner));
    expect([Object.keys(owner), JSON.stringify(owner), { ...owner }]).toEqual([["id"], '{"id":1}', { id: 1 }]);
  });
});

describe("the observer of a request", () => {
  const contexts = (): object[] => [{ userId: 7 }, Object.freeze({ userId: 7 })];

  it("is another one for each cache that shares a context, whether that can be extended or not", () => {
    for (const context of contexts()) {
      const [some, others] = [newRequestStates(), newRequestStates()];
      const [first, second] = [{ onRead: () => undefined }, { onRead: () => undefined }];
      some.observe(context, first);
      expect(others.observer(context)).toBeUndefined();
      others.observe(context, second);
      expect([some.observer(context), others.observer(context)]).toEqual([first, second]);
      expect(some.observer(context)).toBe(first);
    }
  });

  it("is not that of a context from which its own inherits, or of which it is a copy", () => {
    for (const context of contexts()) {
      const requestStates = newRequestStates();
      requestStates.observe(context, { onRead: () => undefined });
      for (const other of [Object.create(context) as object, { ...context }, structuredClone(context)])
        expect(requestStates.observer(other)).toBeUndefined();
    }
  });
});
