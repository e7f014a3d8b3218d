/** The pages by task, in the order in which a reader needs them. A test compares the list with the files. */
export const PAGES: Readonly<Record<string, readonly string[]>> = {
  Start: ["index", "getting-started", "servers"],
  Cache: ["functions-and-loaders", "fields", "invalidation", "private-data"],
  "Cache more at once": ["responses", "edge"],
  "In production": ["stores", "operating"],
  "Look up": ["recipes", "comparison", "guarantees", "reference"],
};
