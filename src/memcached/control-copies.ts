import { randomBytes } from "node:crypto";
import { throwIfAnyFailed } from "../store/answers.js";
import { isControlVersion, nextControlVersion } from "../store/control-version.js";
import type { ControlReading, VersionedControl } from "../store/store.js";
import { type Content, NEVER, versionOf } from "./content.js";
import type { Change, Decide, Server } from "./server.js";
import type { Servers } from "./servers.js";

/**
 * The copies of the control record, one on each server. Each has two items: `<copy>` holds the
 * version, which every read includes, and `<copy>:record` the version followed by the content. The
 * record is written first; a change is complete when both are written.
 */
export class ControlCopies {
  readonly #servers: Servers;
  #copies: readonly string[] = [];
  #copyOn: ReadonlyMap<Server, string> = new Map();

  constructor(servers: Servers) {
    this.#servers = servers;
  }

  get names(): readonly string[] {
    return this.#copies;
  }

  /** Sets the name with which all copies begin. */
  open(name: string): void {
    this.#copyOn = this.#servers.pinToEach(name, [RECORD]);
    this.#copies = [...this.#copyOn.values()];
  }

  /** Returns the copy on a server. Undefined if the store has not been opened for a cache. */
  on(server: Server): string | undefined {
    return this.#copyOn.get(server);
  }

  async read(copies: readonly string[]): Promise<ControlReading[]> {
    const items = await this.#servers.forEachServer(copies.flatMap(itemsOf), async (server, names) => {
      const { contents, now } = await server.read(names);
      return contents.map((content) => ({ content, now }));
    });
    return Promise.all(
      copies.map(async (copy, index): Promise<ControlReading> => {
        const [shown, held] = [items[2 * index] as Item, items[2 * index + 1] as Item];
        for (const item of [shown, held]) if (item instanceof Error) return { kind: "failed", error: item };
        const record = recordOf(held as Read);
        const shownVersion = controlVersionOf(shown as Read);
        if (record === undefined || shownVersion === record.version) return { kind: "read", record };
        // The writer of the record has not written its version yet, or the version was lost alone.
        // Another process may write it meanwhile, and a later one must stay.
        const repair: Decide<undefined> = (_, content, { now }) =>
          controlVersionOf({ content, now }) === shownVersion
            ? putVersion(record.version)
            : { kind: "keep", result: undefined };
        const [repaired] = await this.#servers.change([copy], repair, true);
        return repaired instanceof Error ? { kind: "failed", error: repaired } : { kind: "read", record };
      }),
    );
  }

  async replace(expected: string | undefined, content: Uint8Array): Promise<string | undefined> {
    const [copy] = this.#copies as readonly [string];
    const unique = randomBytes(8);
    const swap: Decide<string | undefined> = (_, held, { now }) => {
      const version = recordOf({ content: held, now })?.version;
      // The reply to an earlier attempt of this call was lost.
      if (version?.slice(8) === unique.toString("latin1")) return { kind: "keep", result: version };
      if (version !== expected) return { kind: "keep", result: undefined };
      const next = nextControlVersion(now, unique, version);
      return putRecord({ version: next, content }, next);
    };
    if (expected === undefined) {
      const reserved = await this.#servers.forEachServer(itemsOf(copy), async (server, names) => {
        await server.reserve(names);
        return names;
      });
      throwIfAnyFailed(reserved);
    }
    const [version] = await this.#servers.change([recordName(copy)], swap, true);
    throwIfAnyFailed([version]);
    if (typeof version !== "string") return undefined;
    throwIfAnyFailed(await this.#servers.change([copy], raiseVersion(version), true));
    return version;
  }

  async raise(copies: readonly string[], record: VersionedControl): Promise<void> {
    const raise: Decide<string> = (_, content, { now }) => {
      const current = recordOf({ content, now });
      return current !== undefined && current.version >= record.version
        ? { kind: "keep", result: current.version }
        : putRecord(record, record.version);
    };
    throwIfAnyFailed(await this.#servers.change(copies.map(recordName), raise, true));
    throwIfAnyFailed(await this.#servers.change(copies, raiseVersion(record.version), true));
  }
}

/** What was read under a name, and the time on its server. */
interface Read {
  readonly content: Content | undefined;
  readonly now: number;
}
type Item = Read | Error;

export function controlVersionOf({ content, now }: Read): string | undefined {
  const version = versionOf(content);
  return version !== undefined && isControlVersion(version, now) ? version : undefined;
}

const recordOf = ({ content, now }: Read): VersionedControl | undefined =>
  content?.kind === "control" && isControlVersion(content.record.version, now) ? content.record : undefined;

/** Writes a version unless the item shows a larger one. */
const raiseVersion =
  (version: string): Decide<undefined> =>
  (_, content, { now }) => {
    const shown = controlVersionOf({ content, now });
    return shown !== undefined && shown >= version ? { kind: "keep", result: undefined } : putVersion(version);
  };

const putVersion = (version: string): Change<undefined> => ({
  kind: "put",
  to: { kind: "version", version, dropAt: NEVER },
  result: undefined,
});

const putRecord = (record: VersionedControl, result: string): Change<string> => ({
  kind: "put",
  to: { kind: "control", record, dropAt: NEVER },
  result,
});

/** The end of the name of the item that holds the record. */
const RECORD = ":record";
const recordName = (copy: string): string => copy + RECORD;
const itemsOf = (copy: string): readonly [string, string] => [copy, recordName(copy)];
