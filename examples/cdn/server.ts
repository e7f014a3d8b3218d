/** A film site behind a small CDN: node scripts/run-example.mjs cdn/server.ts */
import { startSite } from "./site.js";

const { cdn, origin } = await startSite((what) => console.log(what), undefined, Number(process.env.PORT ?? 4001));
console.log(`ready: the CDN at ${cdn.url}, the server at ${origin}`);
