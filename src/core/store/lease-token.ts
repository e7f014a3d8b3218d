import { randomBytes } from "node:crypto";

export const TOKEN_BYTES = 16;
/** The part of a token that is random, and the part of a `gen` that is not. */
const HALF_BYTES = 8;

/**
 * Returns `count` tokens, one after the other: 8 random bytes, and then `holder`, which identifies the process that
 * requests the leases. Without it, 16 random bytes.
 */
export function newTokens(count: number, holder: string | undefined): Buffer {
  const tokens = randomBytes(TOKEN_BYTES * count);
  if (holder?.length === HALF_BYTES)
    for (let at = HALF_BYTES; at < tokens.length; at += TOKEN_BYTES) tokens.write(holder, at, "latin1");
  return tokens;
}

/** Returns which process holds a lease, as far as its token says so. */
export const holderOf = (token: string): string => token.slice(HALF_BYTES);

/** Returns a lease chain that begins at `now` with the lease of `token`. A chain that has ended never returns. */
export function newGen(token: string, now: number): string {
  const micros = Buffer.alloc(HALF_BYTES);
  micros.writeBigUInt64BE(BigInt(Math.floor(Math.max(0, now) * 1000)));
  return micros.toString("latin1") + token.slice(0, HALF_BYTES);
}

/** Returns when a lease chain has begun, on the store's clock. */
export const begunAt = (gen: string): number =>
  Number(Buffer.from(gen.slice(0, HALF_BYTES), "latin1").readBigUInt64BE()) / 1000;
