#!/usr/bin/env node
/** The program `graphql-cached`. */
import { check } from "./check.js";

// A reader that has seen enough, such as head, ends the program without an error.
process.stdout.on("error", () => process.exit(0));

void check(process.argv.slice(2), {
  print: (line) => process.stdout.write(`${line}\n`),
  complain: (line) => process.stderr.write(`${line}\n`),
}).then((code) => {
  // A module that exports a schema can keep the process alive.
  process.exitCode = code;
  process.stdout.write("", () => process.stderr.write("", () => process.exit(code)));
});
