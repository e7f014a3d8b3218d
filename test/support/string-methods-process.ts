/**
 * Prints whether V8 keeps the methods of strings in its fast form, as a JSON array: after ioredis was loaded, and after a
 * store was made. To be run with `--allow-natives-syntax`.
 */
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";

const areFast = new Function("return %HasFastProperties(String.prototype)") as () => boolean;

const client = new Redis({ lazyConnect: true });
const withIoredis = areFast();
redisStore({ client });
process.stdout.write(JSON.stringify([withIoredis, areFast()]));
client.disconnect();
