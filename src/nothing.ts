/**
 * What lists are copies of that every hit makes, with `NOTHING.slice()`. Literals are a risk there (see `EntryReading`), and
 * `Array.of()` takes five times as long.
 */
export const NOTHING: readonly never[] = [];
