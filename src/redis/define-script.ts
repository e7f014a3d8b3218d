import { createHash } from "node:crypto";

/**
 * The definition of a script. Argument names become Lua locals, so a missing or misspelt argument
 * does not compile in TypeScript.
 */
export interface ScriptSource<Args extends readonly string[]> {
  /** Kebab case, like the file. The first line of the source contains it, to identify EVAL in SLOWLOG. */
  readonly name: string;
  /** Arguments of the whole call, available in Lua under these names. */
  readonly args: Args;
  /**
   * Number of values that follow for each key, in Lua from `ARGV[first + (i - 1) * perKey]`.
   * Default: any number of values, which belong to the call as a whole.
   */
  readonly perKey?: number;
  readonly lua: string;
}

export type ScriptArgument = string | Buffer | number;

export interface Script<Args extends readonly string[]> {
  readonly name: string;
  readonly sha: string;
  readonly lua: string;
  /** Returns the arguments that follow the script or its hash in EVAL and EVALSHA. */
  argumentsFor(
    keys: readonly string[],
    args: { readonly [Name in Args[number]]: ScriptArgument },
    values?: readonly ScriptArgument[],
  ): ScriptArgument[];
}

/**
 * Lua at the start of every script: `now` is the server's time in milliseconds, `first` the index
 * in ARGV of the first value of the first key.
 */
const prelude = (name: string, args: readonly string[]): string =>
  [
    `-- graphql-cached ${name}`,
    "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000)",
    ...args.map((arg, index) => `local ${arg} = ARGV[${index + 1}]`),
    `local first = ${args.length + 1}`,
    "",
  ].join("\n");

export function defineScript<const Args extends readonly string[]>(source: ScriptSource<Args>): Script<Args> {
  const lua = prelude(source.name, source.args) + source.lua.trim();
  const { name, perKey } = source;
  return {
    name,
    lua,
    sha: createHash("sha1").update(lua).digest("hex"),
    argumentsFor(keys, args, values = []) {
      if (perKey !== undefined && values.length !== perKey * keys.length)
        throw new TypeError(
          `script ${name}: expected ${perKey} value(s) per key, got ${values.length} for ${keys.length} key(s)`,
        );
      return [keys.length, ...keys, ...source.args.map((arg) => args[arg as Args[number]]), ...values];
    },
  };
}

/**
 * Lua functions for entries, shared by several scripts. The layout is described in store/README.md.
 *
 * - `readHead(key)` returns the parsed 72-byte head, or nil if there is no entry. Its second result
 *   is true if the key holds anything else: another type, another format version, garbage.
 * - `encodeEntry(entry)` returns the bytes of an entry.
 * - `wakeWaiters(wakeChannel, key, entry)` publishes the change of `key` if `entry`, its previous
 *   head, says that processes wait for it. The message contains the new entry unless its body
 *   exceeds 4 KiB.
 */
export const ENTRY_HEAD = `
local NONE = string.rep('\\0', 16)
local function readHead(key)
  local head = redis.pcall('GETRANGE', key, 0, 71)
  if type(head) == 'table' then return nil, true end
  if #head == 0 then return nil, false end
  if #head < 72 or string.sub(head, 1, 2) ~= 'g\\1' then return nil, true end
  local untilAt, freshUntilAt, grantedAt = struct.unpack('<ddd', head, 41)
  return { state = string.sub(head, 3, 3), flags = string.byte(head, 4), gen = string.sub(head, 9, 24), token = string.sub(head, 25, 40),
    untilAt = untilAt, freshUntilAt = freshUntilAt, grantedAt = grantedAt, signature = string.sub(head, 65, 72) }, false
end
local function encodeEntry(entry)
  return 'g\\1' .. entry.state .. string.char(entry.flags or 0) .. struct.pack('<I4', entry.loadMs or 0) .. (entry.gen or NONE) .. (entry.token or NONE)
    .. struct.pack('<ddd', entry.untilAt or 0, entry.freshUntilAt or 0, entry.grantedAt or 0) .. entry.signature .. (entry.body or '')
end
local function wakeWaiters(wakeChannel, key, entry)
  if entry and entry.flags % 2 == 1 then
    local bytes = redis.call('GET', key) or ''
    if #bytes > 4168 then bytes = '' end
    redis.call('PUBLISH', wakeChannel, struct.pack('<I2', #key) .. key .. bytes)
  end
end
`;

/**
 * Lua function that reads the end of the invalidation log: its log id and latest time, or nil if
 * there is no log.
 */
export const LOG_END = `
local function readLogEnd(key)
  local logId = redis.call('ZRANGEBYSCORE', key, 0, 0, 'LIMIT', 0, 1)[1]
  if not logId then return nil end
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  return logId, tonumber(last[2])
end
`;
