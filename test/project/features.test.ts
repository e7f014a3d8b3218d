import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { filesIn, ROOT, read } from "./source.js";

/**
 * What each optional feature costs the rest of the library: the files outside of its rooms in which its name stands. A flag of a feature
 * in the core has its name there. A number may fall; before it rises, find the one hook that the feature needs (CONTRIBUTING.md).
 */
const FEATURES: readonly Feature[] = [
  {
    feature: "Whole responses",
    name: /\b(?:PartCollector|collector|ResponseCache|ResponsesOptions|isCollecting|StoredText)\b/,
    rooms: ["src/core/responses/"],
    filesOutside: 13,
  },
  {
    feature: "Memory",
    name: /\b(?:Memory(?:Options)?|maxStalenessMs|KnownKey|isKeptPlausible|acceptsKept|takeKept|usesMemory|isInMemory)\b/,
    rooms: ["src/core/tier/memory/"],
    filesOutside: 27,
  },
  {
    feature: "The check of existence",
    name: /\b(?:mayExist|[eE]xistence\w*|DOES_NOT_EXIST)\b/,
    rooms: ["src/core/directive/existence/", "src/core/loader/existence.ts"],
    filesOutside: 12,
  },
  {
    feature: "Entity tags",
    name: /\b(?:[eE]ntityTags\w*|[eE]ntityTypes|idFields)\b/,
    rooms: ["src/core/directive/entities/"],
    filesOutside: 12,
  },
  {
    feature: "The refresh queue",
    name: /\b(?:refreshQueue|RefreshQueue|RefreshJob|requestFactories|RequestFactory)\b/,
    rooms: ["src/core/tier/lease/refresh-job.ts"],
    filesOutside: 12,
  },
  { feature: "The circuit breaker", name: /\b[bB]reaker\b/, rooms: ["src/core/store/breaker.ts"], filesOutside: 6 },
  { feature: "Encryption", name: /[eE]ncrypt/, rooms: ["src/core/codec/encryption.ts"], filesOutside: 7 },
  { feature: "Compression", name: /compress/, rooms: ["src/core/codec/packing.ts"], filesOutside: 3 },
  {
    feature: "The protection of writes",
    name: /\b(?:mutate|writeGuardMs|isWritten|WriteMark)\b/,
    rooms: ["src/core/tier/invalidation/"],
    filesOutside: 12,
  },
  {
    feature: "The override of a request",
    name: /\b(?:overrideOf|hasOverrides)\b/,
    rooms: ["src/core/loader/request-states.ts"],
    filesOutside: 3,
  },
  {
    feature: "A mode",
    name: /\b(?:isOff|isUnrestricted|setMode|MODE_OFF)\b/,
    rooms: ["src/core/tier/shared/modes.ts"],
    filesOutside: 13,
  },
  {
    feature: "Tracing",
    name: /\b(?:tracing|Tracing|ReadTrace|Traced)\b/,
    rooms: ["src/core/telemetry/tracing.ts"],
    filesOutside: 8,
  },
  {
    feature: "The report of a process",
    name: /\b(?:writeReport|readReports)\b/,
    rooms: ["src/tools/inspection/"],
    filesOutside: 4,
  },
  {
    feature: "A cache hint",
    name: /\b(?:ResponseHint|cacheControl|CollectedHints|onHint|hintOf)\b/,
    rooms: ["src/core/directive/hints/"],
    filesOutside: 23,
  },
  {
    feature: "The edge",
    name: /\b(?:[eE]dge(?:Options|Tags)?|surrogate)\b/,
    rooms: ["src/servers/edge/", "src/servers/apollo/final-response.ts"],
    filesOutside: 7,
  },
  {
    feature: "The selection in a key",
    name: /\b(?:queryUse|QueryUse)\b/,
    rooms: ["src/core/directive/look-ahead/"],
    filesOutside: 5,
  },
  {
    feature: "A value type",
    name: /\b(?:ValueTypes?|keyForms?Of|hasValueTypes)\b/,
    rooms: ["src/core/codec/"],
    filesOutside: 12,
  },
  {
    feature: "A mark of permission",
    name: /\b(?:auth-marks|authMark\w*|AUTH_MARK)\b/,
    rooms: ["src/core/directive/permissions/"],
    filesOutside: 2,
  },
];

interface Feature {
  readonly feature: string;
  readonly name: RegExp;
  /** Files, and folders with a slash at the end, in which the feature lives. */
  readonly rooms: readonly string[];
  readonly filesOutside: number;
}

/** The table of all options names every feature, in messages only. */
const OWNERS = "src/core/base/option-owners.ts";
const sources = filesIn("src").filter((path) => !path.startsWith("src/generated/") && path !== OWNERS);
const isInRooms = (path: string, rooms: readonly string[]): boolean =>
  rooms.some((room) => (room.endsWith("/") ? path.startsWith(room) : path === room));

it.each(FEATURES)("$feature is named in no more than $filesOutside files outside of its rooms", (feature) => {
  const { name, rooms, filesOutside } = feature;
  const naming = sources.filter((path) => name.test(read(path)));
  const outside = naming.filter((path) => !isInRooms(path, rooms));
  expect(rooms.filter((room) => !existsSync(join(ROOT, room)))).toEqual([]);
  expect(naming.length).toBeGreaterThan(outside.length);
  expect(outside.length, outside.join("\n")).toBeLessThanOrEqual(filesOutside);
});
