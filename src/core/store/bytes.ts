/** Returns whether both are the same bytes, or both are undefined. */
export const areSameBytes = (one: Uint8Array | undefined, other: Uint8Array | undefined): boolean =>
  one === undefined || other === undefined ? one === other : Buffer.compare(one, other) === 0;
