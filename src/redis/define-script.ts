import { createHash } from "node:crypto";
import { MAX_TIMER_MS } from "../clock.js";
import { MAX_AHEAD_MS } from "../store/control-version.js";

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
  /** Returns the arguments that follow the script or its hash in EVAL and EVALSHA. */
  argumentsFor(
    keys: readonly string[],
    args: ScriptArguments<Args>,
    values?: readonly ScriptArgument[],
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
 * Lua functions for entries, shared by several scripts. The layout is in store/entry-layout.ts.
 *
 * - `readEntry(key)` returns the state and, as far as it has them, flags, signature, gen, token,
 *   untilAt, freshUntilAt and grantedAt of an entry; nil if there is none. The state is 'unknown' if
 *   the key holds anything else: another type, another format version, garbage. Several results cost
 *   less than a table.
 * - `headOf(state, flags, signature)` returns the first bytes of an entry.
 * - `entryUntil(state, untilAt, signature, body)` returns an entry that is neither pending nor a value.
 * - `rewriteValue(key, flags, freshUntilAt, signature, isLeased)` gives a value new flags and another
 *   freshUntilAt, and ends its lease if it is leased. Its ttl stays, and is written first, because a
 *   full server allows a script to use memory only after a command that needs none.
 * - `wakeWaiters(wakeChannel, key, flags, gen, result)` publishes the change of `key` if `flags`, its
 *   previous ones, say that processes wait for it. The message names `gen`, the lease chain that has
 *   ended. `result` is the new entry if the load of that chain has produced it (rows 11 and 14), and
 *   is sent along unless its body exceeds 4 KiB; any other change must be read from the store.
 *
 * Numbers are passed to commands as strings where they are known: converting one costs as much as
 * reading a key.
 */
export const ENTRY = `
local LEASED = 2
local function readEntry(key)
  local head = redis.pcall('GETRANGE', key, '0', '71')
  if head == '' then return nil end
  if type(head) == 'table' or string.sub(head, 1, 2) ~= 'g\\2' then return 'unknown' end
  local state, flags, signature = string.sub(head, 3, 3), string.byte(head, 4), string.sub(head, 5, 12)
  if state == 'P' and #head == 52 then
    return state, flags, signature, string.sub(head, 13, 28), string.sub(head, 29, 44), (struct.unpack('<d', head, 45))
  elseif state == 'V' and #head >= 32 then
    local freshUntilAt, grantedAt = struct.unpack('<d', head, 13), struct.unpack('<d', head, 25)
    if flags % 4 < LEASED then return state, flags, signature, nil, nil, 0, freshUntilAt, grantedAt end
    if #head < 72 then return 'unknown' end
    local lease = redis.call('GETRANGE', key, '-40', '-1')
    return state, flags, signature, string.sub(lease, 1, 16), string.sub(lease, 17, 32), struct.unpack('<d', lease, 33), freshUntilAt, grantedAt
  elseif (state == 'F' or state == 'X' or state == 'T') and #head >= 20 then
    return state, flags, signature, nil, nil, (struct.unpack('<d', head, 13))
  end
  return 'unknown'
end
local function headOf(state, flags, signature) return 'g\\2' .. state .. string.char(flags) .. signature end
local function entryUntil(state, untilAt, signature, body) return headOf(state, 0, signature) .. struct.pack('<d', untilAt) .. body end
local function rewriteValue(key, flags, freshUntilAt, signature, isLeased)
  local remainingMs = redis.call('PTTL', key)
  if remainingMs < 0 then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, math.max(remainingMs, 1)) end
  local head = headOf('V', flags, signature) .. struct.pack('<d', freshUntilAt)
  if isLeased then redis.call('SET', key, head .. redis.call('GETRANGE', key, '20', '-41'), 'KEEPTTL')
  else redis.call('SETRANGE', key, '0', head) end
end
local function wakeWaiters(wakeChannel, key, flags, gen, result)
  if gen and flags % 2 == 1 then
    if not result or #result > 4128 then result = '' end
    redis.call('PUBLISH', wakeChannel, struct.pack('<I2', #key) .. gen .. key .. result)
  end
end
`;

/**
 * Lua functions for tags.
 *
 * - `readTag(tag)` returns what is at the tag's key: 'absent', 'version' and the version, which has a
 *   second part of 16 bytes after a soft invalidation, 'mark' for
 *   a write in progress, or 'unknown' for anything else, such as another type or a mark whose time
 *   is over.
 * - `newVersion(callerId, replaced)` returns a version: the time in microseconds (u64, big endian),
 *   later than that of the version `replaced`, and 8 random bytes of the caller. A command that a
 *   client sends again thus never brings a version back. Lua counts exactly up to 2^53 only.
 */
export const TAG_VERSION = `
local function readTag(tag)
  local bytes = redis.pcall('GETRANGE', tag, '0', '71')
  if type(bytes) == 'table' then return 'unknown' end
  if #bytes == 0 then return 'absent' end
  if (#bytes == 16 or #bytes == 32) and struct.unpack('>I8', bytes) < 2 ^ 53 - 1 then return 'version', bytes end
  if #bytes > 32 and string.sub(bytes, 1, 3) == 'g\\2T' and struct.unpack('<d', bytes, 13) > now then return 'mark' end
  return 'unknown'
end
local function newVersion(callerId, replaced)
  local at = micros
  if replaced then at = math.max(at, struct.unpack('>I8', replaced) + 1) end
  return struct.pack('>I8', at) .. callerId
end
`;

/**
 * Lua functions for copies of the control record. A copy has two keys: one holds its version, which
 * every read includes, the other the version followed by the content. On a Cluster they are the same
 * key, which then holds the version and the content.
 *
 * - `readCopy(i)` returns the version of the copy whose keys begin at `KEYS[i]`, or nil if there is
 *   none, and what the key of its version shows. Anything that is not a version counts as nothing, also
 *   one that is more than a day ahead of the server's clock: nothing could replace it.
 * - `writeCopy(i, version, content)` replaces the copy.
 */
export const CONTROL_RECORD = `
local function versionAt(key)
  local bytes = redis.pcall('GETRANGE', key, 0, 15)
  if type(bytes) ~= 'string' or #bytes ~= 16 or struct.unpack('>I8', bytes) > micros + ${1_000 * MAX_AHEAD_MS} then return nil end
  return bytes
end
local function readCopy(i) return versionAt(KEYS[i + 1]), versionAt(KEYS[i]) end
local function writeCopy(i, version, content)
  redis.call('DEL', KEYS[i])
  redis.call('SET', KEYS[i + 1], version .. content)
  if KEYS[i] ~= KEYS[i + 1] then redis.call('SET', KEYS[i], version) end
end
`;

/**
 * Lua functions for an invalidation log: a sorted set of tags, scored by the time of their last
 * invalidation. Each invalidation also adds a record, a member that no other invalidation has, at the
 * same time; records sort after tags. A position is the record and the time of the last invalidation:
 * a log that has this record at this time contains everything up to it, whichever server holds the
 * log now. Two members are neither tags nor records; visible names never equal any of them:
 *
 * - `FORGOTTEN`, scored by the latest time up to which invalidations may have been dropped; the
 *   record of that time is kept;
 * - `RETENTION`, scored by the longest retention that any process has requested, negated.
 *
 * `readLog(key)` returns the last record, its time and the retention; nil, 0 and 0 if there is no
 * log. It deletes a log with times that no script has written, in which nothing could be later. `newRecord(callerId)` returns a record that never comes back, also if the client sends its
 * command again. Times only grow, even if the server's clock goes back.
 */
export const INVALIDATION_LOG = `
local FORGOTTEN, RETENTION = '\\0forgotten', '\\0retention'
local function readLog(key)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  if not last[1] or string.byte(last[1]) ~= 255 then return nil, 0, 0 end
  local at, retentionMs = tonumber(last[2]), -(tonumber(redis.call('ZSCORE', key, RETENTION)) or 0)
  local forgottenAt = tonumber(redis.call('ZSCORE', key, FORGOTTEN) or 0)
  if at <= now + ${MAX_AHEAD_MS} and forgottenAt <= at and retentionMs <= ${MAX_TIMER_MS} then return last[1], at, retentionMs end
  redis.call('DEL', key)
  return nil, 0, 0
end
local function newRecord(callerId) return '\\255' .. struct.pack('>I8', micros) .. callerId end
local function keepLog(key, retentionMs, knownMs)
  if retentionMs > knownMs then redis.call('ZADD', key, -retentionMs, RETENTION) end
  if redis.call('PTTL', key) < 5 * retentionMs then redis.call('PEXPIRE', key, 10 * retentionMs) end
end
`;
