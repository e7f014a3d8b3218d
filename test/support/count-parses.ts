import { vi } from "vitest";

/** Counts how often the JSON text that is parsed most is parsed while `action` runs: what earlier tests have left running parses others. */
export async function countParses<Result>(
  action: () => Promise<Result>,
): Promise<{ readonly result: Result; readonly parses: number }> {
  const parse = vi.spyOn(JSON, "parse");
  try {
    const result = await action();
    const counts = new Map<string, number>();
    for (const [text] of parse.mock.calls) counts.set(text, (counts.get(text) ?? 0) + 1);
    return { result, parses: Math.max(0, ...counts.values()) };
  } finally {
    parse.mockRestore();
  }
}
