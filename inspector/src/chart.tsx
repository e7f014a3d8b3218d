import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { percent, rate } from "./format.js";
import { type Counts, OUTCOMES, type Outcome } from "./types.js";

/** Counts at a time, in milliseconds. */
export interface Sample {
  readonly at: number;
  /** Samples of different runs cannot be compared: a process was forgotten in between, with its counts. */
  readonly run: number;
  readonly counts: Counts;
}

/** Reads a second by outcome, at a time. */
export interface Rates extends Readonly<Record<Outcome, number>> {
  readonly at: number;
  readonly reads: number;
  readonly loads: number;
}

/**
 * Other processes report every five seconds. A span of ten has two reports of each, and a shorter one now one and now two,
 * which looks like waves. A little less than ten, for answers that come early.
 */
const SPAN_MS = 9_500;
/** The chart shows at least this. */
const MIN_SHOWN_S = 120;
/** Half an hour of samples. */
const MAX_SAMPLES = 900;

/** Adds a sample. Counts that have become smaller begin a run. */
export function withSample(samples: readonly Sample[], next: Omit<Sample, "run">): readonly Sample[] {
  const last = samples.at(-1);
  const isSmaller = last !== undefined && next.counts.reads < last.counts.reads;
  return [...samples, { ...next, run: (last?.run ?? 0) + (isSmaller ? 1 : 0) }].slice(-MAX_SAMPLES);
}

/** Returns the rates at each sample but the first of a run. */
export function ratesOf(samples: readonly Sample[]): readonly Rates[] {
  let from = 0;
  return samples.flatMap((sample, nth) => {
    while (samples[from]?.run !== sample.run) from++;
    while (from < nth - 1 && (samples[from + 1] as Sample).at <= sample.at - SPAN_MS) from++;
    if (from === nth) return [];
    const base = samples[from] as Sample;
    const spanS = Math.max(0.001, (sample.at - base.at) / 1_000);
    const of = (name: Outcome | "reads" | "loads"): number =>
      Math.max(0, sample.counts[name] - base.counts[name]) / spanS;
    const outcomes = Object.fromEntries(OUTCOMES.map((name) => [name, of(name)])) as Record<Outcome, number>;
    return [{ ...outcomes, at: sample.at, reads: of("reads"), loads: of("loads") }];
  });
}

export const OUTCOME_WORDS: Readonly<Record<Outcome, readonly [name: string, meaning: string]>> = {
  hit: ["Hit", "served from a fresh entry"],
  coalesced: ["Coalesced", "shared the load of another read"],
  stale: ["Stale", "served from a stale entry while it was refreshed"],
  staleIfError: ["Stale, load failed", "served from a stale entry because the load failed"],
  loaded: ["Loaded", "loaded the value"],
  bypassed: ["Bypassed", "did not use the cache"],
};

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The rates of the last minutes, stacked by outcome, with the present ones as a table. */
export function RateChart({ rates }: { readonly rates: readonly Rates[] }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const [scheme, setScheme] = useState(0);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const change = (): void => setScheme((one) => one + 1);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    const { current } = box;
    if (current === null) return undefined;
    const axis = {
      stroke: colour("--muted"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
      font: "12px system-ui, sans-serif",
    };
    const made = new uPlot(
      {
        width: current.clientWidth,
        height: 190,
        cursor: { show: false },
        legend: { show: false },
        padding: [8, 24, 0, 0],
        scales: {
          // New rates come in at the right.
          x: {
            range: (_plot, min: number | null, max: number | null) => {
              const end = max ?? Date.now() / 1_000;
              return [Math.min(min ?? end, end - MIN_SHOWN_S), end];
            },
          },
          y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] },
        },
        axes: [
          { ...axis, space: 110, values: (plot, values) => (plot.data[0].length === 0 ? [] : values.map(timeOfDay)) },
          { ...axis, size: 48, values: (_plot, values) => values.map((value) => rate(value)) },
        ],
        // The whole stack is drawn first, and the lower layers over it.
        series: [
          {},
          ...OUTCOMES.toReversed().map((name) => ({
            label: name,
            fill: colour(`--${name}`),
            stroke: colour(`--${name}`),
            width: 1,
            points: { show: false },
          })),
        ],
      },
      stacked([]),
      current,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: current.clientWidth, height: 190 }));
    observer.observe(current);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [scheme]);
  useEffect(() => plot.current?.setData(stacked(rates)), [rates, scheme]);
  const now = rates.at(-1);
  return (
    <div class="chart">
      <div class="chart-plot" ref={box} aria-hidden="true" />
      {rates.length < 2 ? (
        <p class="chart-wait">The first rates appear in a few seconds: they are the difference of two answers.</p>
      ) : null}
      <table class="legend">
        <caption class="sr-only">Reads a second by outcome, now</caption>
        <thead class="sr-only">
          <tr>
            <th scope="col">Outcome</th>
            <th scope="col">Reads a second</th>
            <th scope="col">Share</th>
          </tr>
        </thead>
        <tbody>
          {OUTCOMES.map((name) => (
            <tr key={name} title={OUTCOME_WORDS[name][1]}>
              <th scope="row">
                <span class={`swatch ${name}`} aria-hidden="true" />
                {OUTCOME_WORDS[name][0]}
              </th>
              <td class="num">{now === undefined ? "–" : rate(now[name])}/s</td>
              <td class="num muted">{now === undefined || now.reads === 0 ? "" : percent(now[name] / now.reads)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function stacked(rates: readonly Rates[]): uPlot.AlignedData {
  const sums = rates.map(() => 0);
  const layers = OUTCOMES.map((name) =>
    rates.map((one, nth) => {
      sums[nth] = (sums[nth] ?? 0) + one[name];
      return sums[nth] as number;
    }),
  );
  return [rates.map(({ at }) => at / 1_000), ...layers.toReversed()];
}

function timeOfDay(atS: number): string {
  const date = new Date(atS * 1_000);
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
