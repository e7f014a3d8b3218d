/**
 * Changes of the database reach the cache, no matter which program makes them: node scripts/run-example.mjs outbox/server.ts
 *
 * Every line that you type is run as SQL, past the server, as an administrator would.
 */
import { createInterface } from "node:readline";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { cachedPlugin } from "graphql-cached/apollo";
import { openFilms } from "./films.js";

const { schema, cache, db } = await openFilms((what) => console.log(`loads ${what}`));
const server = new ApolloServer({ schema, plugins: [cachedPlugin(cache)] });
const { url } = await startStandaloneServer(server, {
  listen: { port: Number(process.env.PORT ?? 4001), host: "127.0.0.1" },
});
console.log(`ready ${url}`);
for await (const line of createInterface({ input: process.stdin }))
  await db.exec(line).catch((error: Error) => console.log(error.message));
