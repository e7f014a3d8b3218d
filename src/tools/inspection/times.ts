/** Returns milliseconds since 1970 as an ISO 8601 string in UTC. */
export const isoTimeOf = (ms: number): string => new Date(ms).toISOString();
