/**
 * An application of NestJS, schema first: npx tsx examples/nestjs/server.ts
 *
 * Look for: `transformSchema` in module.ts. The second `{ movie(id: 1) { title stars } }` prints no load, also if another process answers it
 * (start a second one with PORT=4002; both need REDIS_URL).
 */
import { NestFactory } from "@nestjs/core";
import { createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { appModule } from "./module.js";

const { PORT = "4001", PREFIX = "nestjs", REDIS_URL } = process.env;
const client = REDIS_URL === undefined ? undefined : new Redis(REDIS_URL);
const cache = createCache<object>({
  store: client === undefined ? memoryStore() : redisStore({ client }),
  prefix: PREFIX,
});
const application = await NestFactory.create(
  appModule(cache, (what) => console.log(`loads ${what}`)),
  { logger: ["error", "warn"] },
);
await application.listen(Number(PORT), "127.0.0.1");
console.log(`ready ${await application.getUrl()}/graphql`);
