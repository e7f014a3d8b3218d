// What a runtime gets in the place of this package that lacks the modules of Node.js: see the condition `edge-light` in package.json.
// Not an ES module, since bundlers would report the names that it does not export in the place of this.
throw new Error(
  'graphql-cached: expected Node.js, Bun, Deno or Cloudflare Workers with `nodejs_compat`, got an edge runtime, which lacks node:crypto and node:zlib; run this code on Node.js, in Next.js with `export const runtime = "nodejs"`',
);
