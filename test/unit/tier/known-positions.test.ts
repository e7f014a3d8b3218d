import { FakeClock } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { createKeySpace, type Subject } from "../../../src/core/keys/key.js";
import type { ReadRecord } from "../../../src/core/store/clock-log.js";
import { type EntryKey, KnownPositions } from "../../../src/core/tier/shared/known-positions.js";
import { type Draw, drawOfSeed } from "../../property/draw.js";

const { subjects } = createKeySpace("p");
const EPOCH = "epoch...";

class Positions extends KnownPositions {
  constructor() {
    super(subjects, new FakeClock());
    this.epoch = EPOCH;
  }

  add(...records: readonly ReadRecord[]): void {
    this.note(records);
  }

  cut(floor: number): void {
    this.raiseFloor(floor);
  }
}

const record = (position: number, given: Partial<ReadRecord>): ReadRecord => ({
  position,
  nonce: "nonce...",
  kind: "hard",
  subjects: [],
  forms: [],
  writer: "writer..",
  guardMs: 0,
  bytes: 0,
  ...given,
});

const COORDINATES = ["Query.a", "Query.b"];
const DIGESTS = ["AAAAAAAAAAAAAAAA", "BAAAAAAAAAAAAAAA", "AAAAAAABAAAAAAAA"];
const FORMS = [11, 12];
const TAGS = [1, 2, 3];
const LAST = 12;

const keys: readonly EntryKey[] = COORDINATES.flatMap((coordinate) =>
  DIGESTS.flatMap((digest) => FORMS.map((form) => ({ coordinate, digest, form }))),
);

/** A value that contains entries of other coordinates. */
const RESPONSE: EntryKey = { coordinate: "responses", digest: "CAAAAAAAAAAAAAAA", form: 11 };

/** Whether a record names an entry itself. */
const namesKey = ({ subjects: named, forms }: ReadRecord, key: EntryKey): boolean => {
  const coordinate = subjects.coordinate(key.coordinate);
  return (
    [subjects.everything, coordinate, subjects.entry(key)].some((subject) => named.includes(subject)) ||
    forms.some((one) => one.coordinate === coordinate && one.form !== key.form)
  );
};

/** Whether a record names a tag of a value, or the entries of a coordinate that it contains in another form. */
const namesTags = ({ subjects: named, forms }: ReadRecord, tags: readonly Subject[]): boolean =>
  tags.some((tag) => named.includes(tag)) ||
  forms.some(({ coordinate, form }) => tags.includes(coordinate) && !tags.includes(subjects.formOf(coordinate, form)));

function randomRecords(draw: Draw): ReadRecord[] {
  return Array.from({ length: draw.int(LAST) }, (_, nth) => {
    const coordinate = draw.pick(COORDINATES);
    const key = draw.pick(keys);
    const given = draw.pick<Partial<ReadRecord>>([
      { subjects: [draw.pick(TAGS)] },
      { subjects: [draw.pick(TAGS), draw.pick(TAGS)] },
      {
        subjects: [subjects.entry(key)],
        forms: [{ coordinate: subjects.coordinate(coordinate), form: draw.pick(FORMS) }],
      },
      { subjects: [subjects.entry(key)] },
      { subjects: [subjects.coordinate(coordinate)] },
      { subjects: draw.chance(20) ? [subjects.everything] : [] },
    ]);
    return record(nth + 1, { kind: draw.chance(30) ? "soft" : "hard", ...given });
  });
}

describe("what a process knows of the invalidation clock", () => {
  it("says of every entry what the records say, for random records", () => {
    for (let seed = 0; seed < 150; seed++) {
      const draw = drawOfSeed(String(seed));
      const records = randomRecords(draw);
      const floor = draw.chance(30) ? draw.int(4) : 0;
      const known = new Positions();
      known.add(...records);
      known.cut(floor);
      const later = records.filter(({ position }) => position > floor);
      for (let nth = 0; nth < 40; nth++) {
        const position = draw.int(LAST + 1);
        const key = draw.pick(keys);
        const coordinate = subjects.coordinate(key.coordinate);
        const tags = draw.pick<readonly Subject[]>([
          [],
          [draw.pick(TAGS)],
          TAGS,
          [draw.pick(TAGS), coordinate, subjects.formOf(coordinate, draw.pick(FORMS))],
        ]);
        const isNamedLater = (kind: string, names: (one: ReadRecord) => boolean): boolean =>
          later.some((one) => one.kind === kind && one.position > position && names(one));
        const ofKey = (one: ReadRecord): boolean => namesKey(one, key);
        const ofTags = (one: ReadRecord): boolean => namesTags(one, tags);
        const isKnown = position >= floor;
        const what = JSON.stringify({ seed, position, floor, key, tags, records });
        const isUntouched =
          isKnown && !["hard", "soft"].some((kind) => isNamedLater(kind, ofKey) || isNamedLater(kind, ofTags));
        expect(known.isUntouched(position, key, tags), what).toBe(isUntouched);
        expect(known.counts({ epoch: EPOCH, position }, key), what).toBe(isKnown && !isNamedLater("hard", ofKey));
        expect(known.counts({ epoch: "another.", position }, key), what).toBe(false);
        expect(known.isSoftlyInvalidated(position, key), what).toBe(isNamedLater("soft", ofKey));
        expect(known.stateOf(tags, position), what).toBe(
          (tags.length > 0 && !isKnown) || isNamedLater("hard", ofTags)
            ? "changed"
            : isNamedLater("soft", ofTags)
              ? "stale"
              : "current",
        );
        const moment = { position, restarts: 0 };
        if (position > 0) expect(known.isOlderThanKnown(moment, key, tags), what).toBe(!isUntouched);
        expect(known.isOlderThanKnown({ ...moment, restarts: 1 }, key, tags), what).toBe(true);
        const ofPlainTags = later.filter(
          (one) => one.kind === "hard" && tags.some((tag) => one.subjects.includes(tag)),
        );
        const latestOf = Math.max(floor, ...ofPlainTags.map((one) => one.position));
        expect(known.latestOf(tags), what).toBe(latestOf);
        const ofHardKey = later.filter((one) => one.kind === "hard" && ofKey(one));
        expect(known.oldestOf({ key, tags: { subjects: tags } }), what).toBe(
          Math.max(latestOf, ...ofHardKey.map((one) => one.position)),
        );
      }
    }
  });

  it("takes a process that knows nothing yet to be younger than the log, and what the log says for news", () => {
    const [key] = keys as [EntryKey];
    const known = new Positions();
    known.add(record(5, { subjects: [1] }), record(9, { subjects: [2] }));
    known.cut(7);
    expect([1, 2].map((tag) => known.isOlderThanKnown({ position: 0, restarts: 0 }, key, [tag]))).toEqual([
      false,
      true,
    ]);
  });

  it("knows a write from its beginning until its end, or until its mark is over", () => {
    const [key] = keys as [EntryKey];
    const known = new Positions();
    const write = (ms: number, kind: "begin" | "end", writer: string, given: Partial<ReadRecord> = {}) =>
      known.add(record(ms * 1_000, { kind, writer, guardMs: 100, subjects: [1], ...given }));
    const isWritten = (now: number, tags: readonly Subject[] = [1]) =>
      known.isWritten({ key, tags: { subjects: tags } }, now);
    expect(isWritten(0)).toBe(false);
    write(10, "begin", "one.....");
    expect([isWritten(10), isWritten(109), isWritten(110), isWritten(10, [2])]).toEqual([true, true, false, false]);
    write(20, "begin", "two.....");
    write(25, "begin", "three...");
    write(30, "end", "one.....");
    expect([isWritten(30), isWritten(119), isWritten(124), isWritten(125)]).toEqual([true, true, true, false]);
    // The one that began last ends before the other one.
    write(35, "end", "three...");
    expect([isWritten(119), isWritten(120)]).toEqual([true, false]);
    write(36, "end", "two.....");
    expect(isWritten(36)).toBe(false);
    // It arrives after its end.
    write(40, "begin", "one.....");
    expect(isWritten(40)).toBe(false);
    write(60_031, "begin", "one.....");
    expect(isWritten(60_031)).toBe(false);
    write(60_037, "end", "six.....");
    write(60_038, "begin", "one.....");
    expect(isWritten(60_038)).toBe(true);
  });

  const [KEY, , OTHER] = keys as [EntryKey, EntryKey, EntryKey];
  const A = subjects.coordinate("Query.a");
  const inForm = (form: number) => ({ forms: [{ coordinate: A, form }] });
  it.each<[what: string, named: Partial<ReadRecord>, key: EntryKey, tags: readonly Subject[], isWritten: boolean]>([
    ["its tag", { subjects: [1] }, KEY, [2, 1], true],
    ["the entry itself", { subjects: [subjects.entry(KEY)] }, KEY, [], true],
    ["its coordinate", { subjects: [A] }, KEY, [], true],
    ["everything", { subjects: [subjects.everything] }, KEY, [], true],
    ["keys of its coordinate in another form", inForm(12), KEY, [], true],
    ["keys in another form than those that it contains", inForm(12), RESPONSE, [A, subjects.formOf(A, 11)], true],
    ["another tag", { subjects: [1] }, KEY, [2], false],
    ["another entry", { subjects: [subjects.entry(KEY)] }, OTHER, [], false],
    ["keys in its own form", inForm(11), KEY, [], false],
    ["keys in the form of those that it contains", inForm(12), RESPONSE, [A, subjects.formOf(A, 12)], false],
    ["keys of another coordinate", inForm(12), RESPONSE, [1], false],
  ])("takes an entry for written during a write of %s, or not", (_, named, key, tags, isWritten) => {
    const known = new Positions();
    const isWrittenNow = () => known.isWritten({ key, tags: { subjects: tags } }, 10);
    known.add(record(10_000, { kind: "begin", guardMs: 100, ...named }));
    expect(isWrittenNow()).toBe(isWritten);
    known.add(record(11_000, { kind: "end", ...named }));
    expect(isWrittenNow()).toBe(false);
  });
});
