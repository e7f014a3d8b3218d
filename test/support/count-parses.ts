import { vi } from "vitest";
import { JsonParser } from "../../src/codec/json-parser.js";

/** Counts how often JSON is parsed while `action` runs. */
export async function countParses<Result>(
  action: () => Promise<Result>,
): Promise<{ readonly result: Result; readonly parses: number }> {
  const byPlatform = vi.spyOn(JSON, "parse");
  const byParser = vi.spyOn(JsonParser.prototype, "parse");
  try {
    const result = await action();
    return { result, parses: byPlatform.mock.calls.length + byParser.mock.calls.length };
  } finally {
    byPlatform.mockRestore();
    byParser.mockRestore();
  }
}
