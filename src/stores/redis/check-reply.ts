/**
 * Returns the reply of a script that returns `id`, which was passed to this call only, and an Error in the place of any other
 * reply. A client that mixes up replies must not confirm what was not done: ioredis has been seen to do so on a Cluster
 * whose nodes restart.
 */
export function checkReply(reply: unknown, id: Buffer): unknown {
  if (reply instanceof Error || (Buffer.isBuffer(reply) && reply.equals(id))) return reply;
  return new Error("expected the reply to this call, got another one from the client");
}
