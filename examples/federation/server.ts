/**
 * A Federation 2 subgraph whose entity look-ups are cached: npx tsx examples/federation/server.ts
 *
 * The SDL that `{ _service { sdl } }` returns contains @cached. The second `_entities` query prints no
 * load, even if another process serves it (set REDIS_URL and start a second one with PORT=4002).
 */
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { subgraphSchema } from "./subgraph.js";

const { PORT = "4001", PREFIX = "federation", REDIS_URL } = process.env;
const client = REDIS_URL === undefined ? undefined : new Redis(REDIS_URL);
const cache = createCache<object>({
  defaultScope: "PUBLIC",
  store: client === undefined ? memoryStore() : redisStore({ client }),
  prefix: PREFIX,
});
const schema = subgraphSchema(cache, (what) => console.log(`loads ${what}`));
const server = new ApolloServer({ schema, plugins: [cachedPlugin(cache)] });
const { url } = await startStandaloneServer(server, { listen: { port: Number(PORT), host: "127.0.0.1" } });
console.log(`ready ${url}`);
