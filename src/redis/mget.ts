import { sendAlone } from "./pipeline.js";
import { isAutoPipelined, type RedisClient } from "./redis-client.js";

/** Reads the values of keys. Resolves to their bytes, `null` for each key that does not exist. */
export type Mget = (keys: readonly string[]) => Promise<unknown>;

/**
 * Returns the cheapest way to send MGET with `client`. For each call, ioredis makes a flat list of the arguments, which takes it as
 * long as writing the command. A command object that the client is asked to send is written as it is.
 */
export function mgetOf(client: RedisClient): Mget {
  if (isAutoPipelined(client)) return (keys) => sendAlone(client, { name: MGET, args: keys });
  const Command = sendsCommands(client) ? commandClassOf(client) : undefined;
  if (Command === undefined) return (keys) => client.callBuffer(MGET, ...keys);
  return (keys) => {
    const command = new Command(MGET, NO_ARGUMENTS, BYTES);
    command.args = keys;
    return (client as CommandSender).sendCommand(command);
  };
}

/** In lower case, in which ioredis looks up the names of commands: it converts all others, several times for each command. */
const MGET = "mget";
const NO_ARGUMENTS: readonly string[] = [];
const BYTES = { replyEncoding: null } as const;

/** A command of ioredis. */
interface ClientCommand {
  args: readonly string[];
}

type CommandClass = new (
  name: string,
  args: readonly string[],
  options: { readonly replyEncoding: null },
) => ClientCommand;

/** A client that sends the commands that its calls make by a method of its own. */
interface CommandSender extends RedisClient {
  sendCommand(command: ClientCommand): Promise<unknown>;
}

/** Not with `showFriendlyErrorStack`, for which a call notes where it was made. */
const sendsCommands = (client: RedisClient): client is CommandSender =>
  typeof (client as Partial<CommandSender>).sendCommand === "function" &&
  (client.options as { readonly showFriendlyErrorStack?: boolean }).showFriendlyErrorStack !== true;

/**
 * Returns the class of the commands that the client's calls make. It has to come from the client, since another copy of ioredis may
 * be installed next to the one that the client is made with. The call that tells it is not sent. Returns undefined for a client
 * that does not make its calls that way.
 */
function commandClassOf(client: CommandSender): CommandClass | undefined {
  let commandClass: CommandClass | undefined;
  const sendCommand = async (command: ClientCommand): Promise<void> => {
    commandClass = command.constructor as CommandClass;
  };
  try {
    const listening: RedisClient = Object.create(client, { sendCommand: { value: sendCommand } });
    listening.callBuffer(MGET, "").catch(() => undefined);
  } catch {
    // The client works on itself only.
  }
  return commandClass;
}
