/** How often one key was read: at least `reads - maxError` times, and at most `reads` times. */
export interface HotKey {
  readonly coordinate: string;
  readonly digest: string;
  readonly reads: number;
  readonly maxError: number;
  /** The canonical input of the key, if this process has read it. Never leaves the process. */
  readonly input?: string | undefined;
}

/** What a summary consists of that is sent to other processes: digests, no inputs. */
export interface HotKeysSummary {
  /** The number of all reads that were counted. */
  readonly reads: number;
  /** A key that is not listed was read at most this many times. */
  readonly floor: number;
  readonly keys: readonly HotKey[];
}

/** Both counts are relative to the floor, so that it can rise for all keys at once. */
interface Counted {
  readonly coordinate: string;
  readonly digest: string;
  input: string | undefined;
  readsAbove: number;
  errorAbove: number;
}

/**
 * The keys that are read most, in bounded memory: Space-Saving, which drops the rarest keys in one pass when
 * there are twice as many as it keeps. A key that comes, or comes back, later may have been dropped before,
 * so it begins with what the dropped ones had at most, its error. With k keys kept, no error is larger
 * than reads / (k + 1): each time the floor rises by one, k + 1 keys had one read more than it. The same holds for the
 * sum of several summaries.
 *
 * Source: Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
 * Streams", ICDT 2005; Agarwal et al., "Mergeable Summaries", PODS 2012.
 */
export class HotKeys implements HotKeysSummary {
  readonly #size: number;
  readonly #byKey = new Map<string, Counted>();
  reads = 0;
  floor = 0;

  /** `size`: how many keys are kept. Up to twice as many are counted. */
  constructor(size: number) {
    this.#size = size;
  }

  get keys(): readonly HotKey[] {
    return this.#sorted().map(({ coordinate, digest, input, readsAbove, errorAbove }) => ({
      coordinate,
      digest,
      input,
      reads: this.floor + readsAbove,
      maxError: this.floor + errorAbove,
    }));
  }

  /** Counts one read of a key. */
  add(coordinate: string, digest: string, input?: string): void {
    this.reads++;
    this.#counted(coordinate, digest, input).readsAbove++;
    this.#dropRare();
  }

  /** Adds what another summary has counted. A key that it does not list has its floor. */
  merge(other: HotKeysSummary): void {
    for (const { coordinate, digest, input, reads, maxError } of other.keys) {
      const counted = this.#counted(coordinate, digest, input);
      counted.readsAbove += reads - other.floor;
      counted.errorAbove += maxError - other.floor;
    }
    this.floor += other.floor;
    this.reads += other.reads;
    this.#dropRare();
  }

  /** Returns the `size` most read keys as a summary of their own. */
  top(size: number): HotKeysSummary {
    const keys = this.keys;
    return { reads: this.reads, floor: keys[size]?.reads ?? this.floor, keys: keys.slice(0, size) };
  }

  #sorted(): Counted[] {
    return [...this.#byKey.values()].sort((a, b) => b.readsAbove - a.readsAbove);
  }

  #counted(coordinate: string, digest: string, input: string | undefined): Counted {
    const name = nameOf(coordinate, digest);
    let counted = this.#byKey.get(name);
    if (counted === undefined) {
      counted = { coordinate, digest, input, readsAbove: 0, errorAbove: 0 };
      this.#byKey.set(name, counted);
    }
    counted.input ??= input;
    return counted;
  }

  /** Keeps the most read keys, once there are twice as many as wanted. */
  #dropRare(): void {
    if (this.#byKey.size <= 2 * this.#size) return;
    const sorted = this.#sorted();
    const rise = sorted[this.#size]?.readsAbove ?? 0;
    this.floor += rise;
    for (const [nth, counted] of sorted.entries()) {
      if (nth >= this.#size) this.#byKey.delete(nameOf(counted.coordinate, counted.digest));
      counted.readsAbove -= rise;
      counted.errorAbove -= rise;
    }
  }
}

const nameOf = (coordinate: string, digest: string): string => `${coordinate}\n${digest}`;
