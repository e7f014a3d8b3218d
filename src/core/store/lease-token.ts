import { randomBytes } from "node:crypto";

/**
 * Returns `count` tokens: 8 random bytes, and then `holder`, which identifies the process that requests the leases. Without
 * it, 16 random bytes.
 */
export function newTokens(count: number, holder: string | undefined): readonly Buffer[] {
  const bytes = randomBytes(TOKEN_BYTES * count);
  return Array.from({ length: count }, (_, nth) => {
    const token = bytes.subarray(TOKEN_BYTES * nth, TOKEN_BYTES * (nth + 1));
    if (holder?.length === HALF_BYTES) token.write(holder, HALF_BYTES, "latin1");
    return token;
  });
}

const TOKEN_BYTES = 16;
/** Of a token, the part that is random; of a `gen`, the part that is not. */
const HALF_BYTES = 8;

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
