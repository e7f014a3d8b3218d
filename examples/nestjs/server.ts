/**
 * A schema-first NestJS application: npx tsx examples/nestjs/server.ts
 *
 * See `transformSchema` in module.ts. The second `{ movie(id: 1) { title stars } }` prints no load, even if
 * another process serves it (set REDIS_URL and start a second one with PORT=4002).
 */
import { NestFactory } from "@nestjs/core";
import { createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { appModule } from "./module.js";

const { PORT = "4001", PREFIX = "nestjs", REDIS_URL } = process.env;
const client = REDIS_URL === undefined ? undefined : new Redis(REDIS_URL);
const cache = createCache<object>({
  defaultScope: "PUBLIC",
  store: client === undefined ? memoryStore() : redisStore({ client }),
  prefix: PREFIX,
});
const application = await NestFactory.create(
  appModule(cache, (what) => console.log(`loads ${what}`)),
  { logger: ["error", "warn"] },
);
await application.listen(Number(PORT), "127.0.0.1");
console.log(`ready ${await application.getUrl()}/graphql`);
