import { vi } from "vitest";

/** Counts how often JSON is parsed while `action` runs. */
export async function countParses<Result>(
  action: () => Promise<Result>,
): Promise<{ readonly result: Result; readonly parses: number }> {
  const parse = vi.spyOn(JSON, "parse");
  try {
    const result = await action();
    return { result, parses: parse.mock.calls.length };
  } finally {
    parse.mockRestore();
  }
}
