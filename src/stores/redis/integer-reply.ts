/**
 * Returns the reply of a command that replies with an integer, as a number: with the client option `stringNumbers` it is a
 * string. All other strings are buffers. Returns anything else, such as an error or null, unchanged.
 */
export const integerOf = (reply: unknown): unknown => (typeof reply === "string" ? Number(reply) : reply);
