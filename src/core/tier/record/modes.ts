import type { Mode } from "../../telemetry/events.js";

/** All modes, from the least to the most use of the cache. */
export const MODES: readonly Mode[] = ["off", "observe", "on"];

/** Why a read bypasses the cache because of a mode. */
export type ModeReason = "MODE_OFF" | "MODE_OBSERVE";

/** A mode that was set, as the shared settings have it. */
export interface ModeSetting {
  /** The field or loader. Undefined: everything. */
  readonly coordinate: string | undefined;
  readonly mode: Mode;
  /** Of two settings for one coordinate, that with the larger sequence is the later one. */
  readonly sequence: number;
  /** In milliseconds on the store's clock. */
  readonly setAt: number;
  /** Which function of which process has set it. */
  readonly by: string | undefined;
}

/** A mode that has changed in this process. */
export interface ModeChange {
  readonly coordinate: string | undefined;
  readonly mode: Mode;
  readonly previous: Mode;
}

/**
 * The modes in this process: the latest settings that it has seen, which it keeps when the store loses them. If
 * both everything and a field or loader have a mode, the one with less use of the cache counts.
 */
export class Modes {
  /**
   * Whether every read may use the cache: all modes are on, and the cache is open. A property that is not computed,
   * since every hit reads it.
   */
  isUnrestricted: boolean;
  /** How often the modes have changed. */
  changeCount = 0;
  readonly #initial: Mode;
  readonly #onChange: (change: ModeChange) => void;
  readonly #settings = new Map<string | undefined, ModeSetting>();
  /** Whether the shared settings have been read. */
  #isKnown = false;
  #isClosed = false;

  /** `initial`: the mode of everything until the shared settings have been read. */
  constructor(initial: Mode = "on", onChange: (change: ModeChange) => void = () => undefined) {
    this.#initial = initial;
    this.#onChange = onChange;
    this.isUnrestricted = initial === "on";
  }

  /** The settings of everything, then of fields and loaders by name. */
  get settings(): readonly ModeSetting[] {
    const nameOf = ({ coordinate = "" }: ModeSetting): string => coordinate;
    return [...this.#settings.values()].sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  }

  /** Whether all modes are on. */
  get areAllOn(): boolean {
    return this.#ofEverything === "on" && [...this.#settings.values()].every(({ mode }) => mode === "on");
  }

  /** Returns the mode of a field or loader. */
  of(coordinate: string): Mode {
    const all = this.#ofEverything;
    const own = this.#settings.get(coordinate)?.mode ?? "on";
    return MODES.indexOf(own) < MODES.indexOf(all) ? own : all;
  }

  /** Returns why reads of a field or loader bypass the cache. Undefined: it is on. */
  reasonOf(coordinate: string): ModeReason | undefined {
    if (this.isUnrestricted) return undefined;
    const mode = this.of(coordinate);
    return mode === "on" ? undefined : REASONS[mode];
  }

  /** Takes over the modes of the shared settings, except those that are older than the known ones. */
  adopt(settings: readonly ModeSetting[]): void {
    const changes: ModeChange[] = [];
    const change = (coordinate: string | undefined, previous: Mode, mode: Mode): void => {
      if (previous !== mode) changes.push({ coordinate, mode, previous });
    };
    const previousOfEverything = this.#ofEverything;
    this.#isKnown = true;
    for (const setting of settings) {
      const { coordinate, mode, sequence } = setting;
      const known = this.#settings.get(coordinate);
      if (known !== undefined && known.sequence >= sequence) continue;
      this.#settings.set(coordinate, setting);
      if (coordinate !== undefined) change(coordinate, known?.mode ?? "on", mode);
    }
    change(undefined, previousOfEverything, this.#ofEverything);
    if (changes.length === 0) return;
    this.changeCount++;
    this.isUnrestricted = this.areAllOn && !this.#isClosed;
    for (const each of changes) this.#onChange(each);
  }

  /** Called when the cache is closed: from then on, every read looks up whether it may use the cache. */
  close(): void {
    this.#isClosed = true;
    this.isUnrestricted = false;
  }

  get #ofEverything(): Mode {
    return this.#isKnown ? (this.#settings.get(undefined)?.mode ?? "on") : this.#initial;
  }
}

const REASONS = { off: "MODE_OFF", observe: "MODE_OBSERVE" } as const satisfies Record<string, ModeReason>;
