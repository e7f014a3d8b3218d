/**
 * The empty list that hits copy with `NOTHING.slice()`. A literal is a risk there (see `EntryReading`), and `Array.of()` takes
 * five times as long.
 */
export const NOTHING: readonly never[] = [];
