import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { hiddenField } from "../../../src/loader/hidden-field.js";

/** An object that nothing can be defined on in the usual way. */
const guarded = (): object =>
  new Proxy(
    {},
    {
      defineProperty: () => false,
      set: () => false,
      has: () => {
        throw new Error("not to be looked at");
      },
    },
  );

describe("hiddenField", () => {
  it.each([
    ["an object", () => ({})],
    ["a function", () => () => undefined],
    ["an object without a prototype", () => Object.create(null) as object],
    ["an object that cannot be extended", () => Object.preventExtensions({})],
    ["a frozen object", () => Object.freeze({})],
    ["an AbortSignal", () => new AbortController().signal],
    ["a proxy that refuses changes", guarded],
  ])("gives %s a value, and another one in its place", (_, make) => {
    const field = hiddenField<number>();
    const object = make();
    expect(field.get(object)).toBeUndefined();
    field.set(object, 1);
    expect([field.get(object), field.get(make())]).toEqual([1, undefined]);
    field.set(object, 2);
    expect(field.get(object)).toBe(2);
  });

  it("keeps the value of an object that is frozen afterwards, which can get another one", () => {
    const field = hiddenField<number>();
    const object = {};
    field.set(object, 1);
    Object.freeze(object);
    expect(field.get(object)).toBe(1);
    field.set(object, 2);
    expect(field.get(object)).toBe(2);
  });

  it("gives nothing to copies of an object, to what inherits from it, and to proxies of it", () => {
    const field = hiddenField<number>();
    const object = { userId: 7 };
    field.set(object, 1);
    const others = [
      { ...object },
      structuredClone(object),
      Object.defineProperties({}, Object.getOwnPropertyDescriptors(object)),
      Object.create(object) as object,
      new Proxy(object, {}),
    ];
    expect(others.map((other) => field.get(other))).toEqual(others.map(() => undefined));
  });

  it("is not printed, and not listed among the properties", () => {
    const object = { userId: 7 };
    hiddenField<string>().set(object, "secret");
    expect(inspect(object, { showHidden: true })).toBe("{ userId: 7 }");
    expect(Reflect.ownKeys(object)).toEqual(["userId"]);
  });

  it("has values of its own: two fields of one object do not meet", () => {
    const [one, other] = [hiddenField<number>(), hiddenField<number>()];
    for (const object of [{}, Object.freeze({})]) {
      one.set(object, 1);
      expect(other.get(object)).toBeUndefined();
      other.set(object, 2);
      expect([one.get(object), other.get(object)]).toEqual([1, 2]);
    }
  });
});
