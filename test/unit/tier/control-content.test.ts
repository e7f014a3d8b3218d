import { describe, expect, it } from "vitest";
import { nextControlVersion } from "../../../src/store/control-version.js";
import {
  type ControlContent,
  type DeclaredVariant,
  modesOf,
  newContent,
  parseContent,
  renewalAt,
  scopeOf,
  variantsOf,
  wasMadeFrom,
  withMode,
  withVariants,
  writeContent,
} from "../../../src/tier/control-content.js";

const DAY_MS = 24 * 3_600_000;
const NOW = 1_000 * DAY_MS;
let made = 0;

/** Writes content as the store does at `now`, and reads it back. */
function write(content: ControlContent | undefined, now = NOW) {
  if (content === undefined) throw new Error("expected content to write, got no change");
  const version = nextControlVersion(now, Buffer.alloc(8, ++made), undefined);
  const read = parseContent({ version, content: writeContent(content) });
  if (read === undefined) throw new Error("expected content that can be read back");
  return { version, content: read };
}

const variant = (id: string, more: Partial<DeclaredVariant> = {}): DeclaredVariant => ({
  coordinate: "Query.a",
  id,
  keyForm: "form",
  lifeMs: 60_000,
  ...more,
});
const idsIn = (content: ControlContent): string[] => Object.keys(variantsOf(content, "Query.a"));
const list = (content: ControlContent, variants: readonly DeclaredVariant[], now = NOW): ControlContent =>
  write(withVariants(content, variants, now), now).content;
const listed = (...ids: string[]): ControlContent =>
  list(
    newContent(),
    ids.map((id) => variant(id)),
  );

describe("the content of the control record", () => {
  it("gives a variant that was dropped and is listed again another scope", () => {
    const before = listed("v");
    const dropped = list(before, [variant("other")], NOW + DAY_MS);
    expect(idsIn(dropped)).toEqual(["other"]);
    const again = list(dropped, [variant("v")], NOW + DAY_MS);
    expect(scopeOf(again, "Query.a", "v")).not.toBe(scopeOf(before, "Query.a", "v"));
  });

  it("keeps a variant for a day, or for the life of its entries if that is longer", () => {
    const content = list(newContent(), [
      variant("short"),
      variant("long", { lifeMs: 3 * DAY_MS }),
      variant("endless", { lifeMs: undefined }),
    ]);
    const idsAt = (days: number): string[] => idsIn(list(content, [variant("new")], NOW + days * DAY_MS));
    expect(idsAt(0.99)).toEqual(["short", "long", "endless", "new"]);
    expect(idsAt(1)).toEqual(["long", "endless", "new"]);
    expect(idsAt(3)).toEqual(["endless", "new"]);
    expect(idsAt(1_000)).toEqual(["endless", "new"]);
  });

  it("changes nothing until a variant is new, half of its life is over, or its entries live longer", () => {
    const content = listed("v");
    const change = (declared: DeclaredVariant, days: number) => withVariants(content, [declared], NOW + days * DAY_MS);
    expect(change(variant("v"), 0.49)).toBeUndefined();
    expect(change(variant("v"), 0.5)).toBeDefined();
    expect(change(variant("v", { lifeMs: 60_001 }), 0)).toBeDefined();
    expect(change(variant("v", { lifeMs: 59_999 }), 0)).toBeUndefined();
    expect(change(variant("w"), 0)).toBeDefined();
    const [one] = Object.values(variantsOf(list(newContent(), [variant("v", { lifeMs: undefined })]), "Query.a"));
    expect(one === undefined ? 0 : renewalAt(one)).toBe(NOW + 3 * DAY_MS);
  });

  it("keeps the scope of a variant, and the longest life that was declared, when it is renewed", () => {
    const before = list(newContent(), [variant("v", { lifeMs: 2 * DAY_MS })]);
    const renewed = list(before, [variant("v")], NOW + DAY_MS);
    expect(scopeOf(renewed, "Query.a", "v")).toBe(scopeOf(before, "Query.a", "v"));
    expect(variantsOf(renewed, "Query.a").v).toMatchObject({ lifeMs: 2 * DAY_MS });
    expect(idsIn(list(renewed, [variant("new")], NOW + 2.9 * DAY_MS))).toEqual(["v", "new"]);
  });

  it("drops the variants that were not used for longest beyond 100", () => {
    let content = listed("first");
    for (let nth = 1; nth <= 100; nth++) content = list(content, [variant(`v${nth}`)], NOW + nth);
    expect(idsIn(content)).toHaveLength(100);
    expect(idsIn(content)).not.toContain("first");
    expect(idsIn(content)).toContain("v1");
  });

  it("says whether it still has what a version has changed", () => {
    const turnOff = (before: ControlContent, coordinate: string, sequence: number) =>
      write(withMode(before, { mode: "off", coordinate, sequence, by: undefined }));
    const { version, content } = turnOff(listed("v"), "Query.a", 1);
    expect(wasMadeFrom(content, version)).toBe(true);
    expect(wasMadeFrom(turnOff(content, "Query.b", 2).content, version)).toBe(true);
    expect(wasMadeFrom(turnOff(content, "Query.a", 2).content, version)).toBe(false);
  });

  it("takes anything else for no content", () => {
    const version = nextControlVersion(NOW, Buffer.alloc(8), undefined);
    for (const text of ["", "null", "[]", "{}", '{"coordinates":[]}', '{"coordinates":1}'])
      expect(parseContent({ version, content: Buffer.from(text) }), text).toBeUndefined();
  });

  it("takes a mode of a later release for off, and skips what has another shape", () => {
    const { version } = write(newContent());
    const own = Buffer.from(version, "latin1").toString("base64url");
    const later = Buffer.alloc(16, 0xff).toString("base64url");
    const setting = { mode: "off", sequence: 1, version: own };
    const content = {
      ...newContent(),
      coordinates: { "Query.a": { variants: { v: { listing: { of: own } } } } },
      modes: {
        "*": { ...setting, mode: "shadow", since: 7 },
        "Query.a": { ...setting, mode: ["off"] },
        "Query.b": { ...setting, sequence: "last" },
        "Query.c": { ...setting, version: later },
        "Query.d": null,
      },
    } as unknown as ControlContent;
    expect(modesOf(content)).toEqual([{ ...setting, coordinate: undefined, by: undefined }]);
    expect(variantsOf(content, "Query.a")).toEqual({});
  });
});
