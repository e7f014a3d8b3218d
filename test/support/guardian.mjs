/**
 * Runs a server for as long as the parent process lives. When the parent ends, for whatever reason,
 * the standard input of this process ends, and the server is killed. The first line of output is
 * the server's pid.
 *
 *   node guardian.mjs PROGRAM ARGUMENTS…
 */
import { spawn } from "node:child_process";

const [program, ...args] = process.argv.slice(2);
const server = spawn(program, args, { stdio: ["ignore", "inherit", "inherit"] });
process.stdout.write(`pid ${server.pid}\n`);
server.once("exit", (code) => process.exit(code ?? 1));
server.once("error", (error) => {
  console.error(error.message);
  process.exit(1);
});
const end = () => server.kill("SIGKILL");
process.stdin.once("end", end).once("error", end).resume();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, end);
