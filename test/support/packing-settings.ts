import type { PackingSettings } from "../../src/core/codec/packing.js";

/** The settings of values that are packed by the default codec, as they are. */
export const PLAIN_PACKING: PackingSettings = {
  codec: undefined,
  types: undefined,
  compressAboveBytes: undefined,
  maxValueBytes: 2 ** 20,
  encryption: undefined,
};
