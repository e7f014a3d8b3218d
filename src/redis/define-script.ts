import { createHash } from "node:crypto";

/** What a script is, said once: the names become Lua locals, and a missing or misspelt argument does not compile. */
export interface ScriptSource<Args extends readonly string[]> {
  /** `noun.verb`, also the first line of the source, so that a script met in the slow log says whose it is. */
  readonly name: string;
  /** Arguments said once for all keys, in Lua under their names. */
  readonly args: Args;
  /** How many values each key brings along, in Lua from `ARGV[first + (i - 1) * perKey]` on. Not said: any number, for the call as a whole. */
  readonly perKey?: number;
  readonly lua: string;
}

export type ScriptArgument = string | Buffer | number;

export interface Script<Args extends readonly string[]> {
  readonly name: string;
  readonly sha: string;
  readonly lua: string;
  /** The arguments of EVALSHA or EVAL after the script itself. */
  argumentsFor(
    keys: readonly string[],
    args: { readonly [Name in Args[number]]: ScriptArgument },
    values?: readonly ScriptArgument[],
  ): ScriptArgument[];
}

/** Every script gets the server's time, in milliseconds, as `now`, and `first`, where the values of the first key begin. */
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
        throw new TypeError(`${name}: every key brings ${perKey} values`);
      return [keys.length, ...keys, ...source.args.map((arg) => args[arg as Args[number]]), ...values];
    },
  };
}

/**
 * Lua that several scripts share: how an entry's head of 72 bytes is read and written. The layout is in store/README.md.
 * `foreign` is true for whatever is no entry of this format: a wrong type, another version, garbage.
 */
export const ENTRY_HEAD = `
local NONE = string.rep('\\0', 16)
local function head(key)
  local h = redis.pcall('GETRANGE', key, 0, 71)
  if type(h) == 'table' then return nil, true end
  if #h == 0 then return nil, false end
  if #h < 72 or string.sub(h, 1, 2) ~= 'g\\1' then return nil, true end
  local untilAt, freshUntilAt, grantedAt = struct.unpack('<ddd', h, 41)
  return { state = string.sub(h, 3, 3), flags = string.byte(h, 4), gen = string.sub(h, 9, 24), token = string.sub(h, 25, 40),
    untilAt = untilAt, freshUntilAt = freshUntilAt, grantedAt = grantedAt, signature = string.sub(h, 65, 72) }, false
end
local function write(e)
  return 'g\\1' .. e.state .. string.char(e.flags or 0) .. struct.pack('<I4', e.loadMs or 0) .. (e.gen or NONE) .. (e.token or NONE)
    .. struct.pack('<ddd', e.untilAt or 0, e.freshUntilAt or 0, e.grantedAt or 0) .. e.signature .. (e.body or '')
end
local function wake(wakeChannel, key, e)
  if e and e.flags % 2 == 1 then
    local entry = redis.call('GET', key) or ''
    if #entry > 4168 then entry = '' end
    redis.call('PUBLISH', wakeChannel, struct.pack('<I2', #key) .. key .. entry)
  end
end
`;

/** Lua that reads the record of recent tag invalidations: its logId and its latest time, or nothing where there is no record. */
export const LOG = `
local function record(key)
  local logId = redis.call('ZRANGEBYSCORE', key, 0, 0, 'LIMIT', 0, 1)[1]
  if not logId then return nil end
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  return logId, tonumber(last[2])
end
`;
