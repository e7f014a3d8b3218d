import { createHash } from "node:crypto";

/** The size of the log of the invalidation clock beyond which it loses its older half: some 100,000 invalidations of one tag each. */
export const MAX_LOG_BYTES = 4 * 1024 * 1024;

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

/** The named arguments of a script. */
export type ScriptArguments<Args extends readonly string[]> = { readonly [Name in Args[number]]: ScriptArgument };

export interface Script<Args extends readonly string[]> {
  readonly name: string;
  readonly sha: string;
  readonly lua: string;
  /** Returns the arguments that follow the script or its hash in EVAL and EVALSHA. `moreKeys`: keys at the end that have no values. */
  argumentsFor(
    keys: readonly string[],
    args: ScriptArguments<Args>,
    values?: readonly ScriptArgument[],
    moreKeys?: readonly string[],
  ): ScriptArgument[];
}

/**
 * Lua at the start of every script: `now` is the server's time in milliseconds, `micros` in
 * microseconds, `first` the index in ARGV of the first value of the first key.
 */
const prelude = (name: string, args: readonly string[]): string =>
  [
    `-- graphql-cached ${name}`,
    "local time = redis.call('TIME') local micros = time[1] * 1000000 + time[2] local now = math.floor(micros / 1000)",
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
    argumentsFor(keys, args, values = [], moreKeys = []) {
      if (perKey !== undefined && values.length !== perKey * keys.length)
        throw new TypeError(
          `script ${name}: expected ${perKey} value(s) per key, got ${values.length} for ${keys.length} key(s)`,
        );
      const all = moreKeys.length === 0 ? keys : [...keys, ...moreKeys];
      return [all.length, ...all, ...source.args.map((arg) => args[arg as Args[number]]), ...values];
    },
  };
}

/**
 * Lua functions for entries, shared by several scripts. The layout is in store/entry-layout.ts.
 *
 * - `readEntry(key)` returns the state and, as far as it has them, flags, origin, gen, token,
 *   untilAt, freshUntilAt, grantedAt and the position of the lease of an entry; nil if there is none. The origin is its epoch
 *   and position, 16 bytes. The state is 'unknown' if the key holds anything else: another type, another format version, garbage. Several
 *   results cost less than a table.
 * - `headOf(state, flags, origin)` returns the first bytes of an entry.
 * - `originOfLease(origin, leasePosition)` returns the origin of what a lease results in.
 * - `entryUntil(state, untilAt, origin, body)` returns an entry that is neither pending nor a value.
 * - `rewriteValue(key, flags, freshUntilAt, origin, isLeased)` gives a value new flags and another
 *   freshUntilAt, and ends its lease if it is leased. Its ttl stays, and is written first, because a
 *   full server allows a script to use memory only after a command that needs none.
 * - `wakeWaiters(wakeChannel, key, flags, gen, result)` publishes the change of `key` if `flags`, its
 *   previous ones, say that processes wait for it. The message names `gen`, the lease chain that has
 *   ended. `result` is the new entry if the load of that chain has produced it (rows 10 and 13), and
 *   is sent along unless its body exceeds 4 KiB; any other change must be read from the store.
 *
 * Numbers are passed to commands as strings where they are known: converting one costs as much as
 * reading a key.
 */
export const ENTRY = `
local LEASED = 2
local function readEntry(key)
  local head = redis.pcall('GETRANGE', key, '0', '87')
  if head == '' then return nil end
  if type(head) == 'table' or string.sub(head, 1, 2) ~= 'g\\3' then return 'unknown' end
  local state, flags, origin = string.sub(head, 3, 3), string.byte(head, 4), string.sub(head, 5, 20)
  if state == 'P' and #head == 68 then
    return state, flags, origin, string.sub(head, 21, 36), string.sub(head, 37, 52), (struct.unpack('<d', head, 53)), 0, 0, string.sub(head, 61, 68)
  elseif state == 'V' and #head >= 40 then
    local freshUntilAt, grantedAt = struct.unpack('<d', head, 21), struct.unpack('<d', head, 33)
    if flags % 4 < LEASED then return state, flags, origin, nil, nil, 0, freshUntilAt, grantedAt end
    if #head < 88 then return 'unknown' end
    local lease = redis.call('GETRANGE', key, '-48', '-1')
    return state, flags, origin, string.sub(lease, 1, 16), string.sub(lease, 17, 32), (struct.unpack('<d', lease, 33)), freshUntilAt, grantedAt, string.sub(lease, 41, 48)
  elseif (state == 'F' or state == 'X') and #head >= 28 then
    return state, flags, origin, nil, nil, (struct.unpack('<d', head, 21))
  end
  return 'unknown'
end
local function headOf(state, flags, origin) return 'g\\3' .. state .. string.char(flags) .. origin end
local function originOfLease(origin, leasePosition) return string.sub(origin, 1, 8) .. leasePosition end
local function entryUntil(state, untilAt, origin, body) return headOf(state, 0, origin) .. struct.pack('<d', untilAt) .. body end
local function rewriteValue(key, flags, freshUntilAt, origin, isLeased)
  local remainingMs = redis.call('PTTL', key)
  if remainingMs < 0 then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, math.max(remainingMs, 1)) end
  local head = headOf('V', flags, origin) .. struct.pack('<d', freshUntilAt)
  if isLeased then redis.call('SET', key, head .. redis.call('GETRANGE', key, '28', '-49'), 'KEEPTTL')
  else redis.call('SETRANGE', key, '0', head) end
end
local function wakeWaiters(wakeChannel, key, flags, gen, result)
  if gen and flags % 2 == 1 then
    if not result or #result > 4136 then result = '' end
    redis.call('PUBLISH', wakeChannel, struct.pack('<I2', #key) .. gen .. key .. result)
  end
end
`;
