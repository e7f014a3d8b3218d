#!/usr/bin/env node
/** The program `graphql-cached`. */
import { text } from "node:stream/consumers";
import { scheduler } from "node:timers/promises";
import { main } from "./main.js";

const ending = new AbortController();
process.once("SIGINT", () => ending.abort());
process.once("SIGTERM", () => ending.abort());
// A reader that has seen enough, such as head, ends the program without an error.
process.stdout.on("error", () => process.exit(0));

const code = await main(process.argv.slice(2), {
  print: (line) => process.stdout.write(`${line}\n`),
  complain: (line) => process.stderr.write(`${line}\n`),
  clear: () => process.stdout.write("\u001b[H\u001b[2J"),
  readInput: () => text(process.stdin),
  env: process.env,
  isTty: process.stdout.isTTY === true,
  // It changes with the window.
  get columns() {
    return process.stdout.columns;
  },
  // Unlike a timer of the clock, this one keeps the process alive.
  sleep: (ms) =>
    scheduler.wait(ms, { signal: ending.signal }).then(
      () => true,
      () => false,
    ),
});

// A module that a command has run can keep the process alive.
process.exitCode = code;
process.stdout.write("", () => process.stderr.write("", () => process.exit(code)));
