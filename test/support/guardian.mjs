/**
 * Runs a server for as long as whoever started this lives: when its standard input ends, which it does when the parent dies however it
 * dies, the server is killed. The first line it prints is the server's pid.
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
