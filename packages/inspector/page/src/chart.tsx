import { axisLabel, axisSteps, lastMinutes } from "./counts.js";
import { count, percent, timeOfDay } from "./format.js";
import { Dot } from "./parts.js";
import { type Counts, type Minute, OUTCOMES, type Outcome } from "./types.js";

export const OUTCOME_WORDS: Readonly<Record<Outcome, readonly [name: string, meaning: string]>> = {
  hit: ["Hit", "served from a fresh entry"],
  coalesced: ["Coalesced", "shared the load of another read"],
  stale: ["Stale", "served from a stale entry while it was refreshed"],
  staleIfError: ["Stale, load failed", "served from a stale entry because the load failed"],
  loaded: ["Loaded", "loaded the value"],
  bypassed: ["Bypassed", "did not use the cache"],
};

/** The reads of the last ten minutes by outcome: a bar for each minute. */
export function MinuteChart({ minutes, label }: { readonly minutes: readonly Minute[]; readonly label: string }) {
  const bars = lastMinutes(minutes, Date.now());
  const steps = axisSteps(Math.max(...bars.map(({ count: { reads } }) => reads)));
  const top = steps.at(-1) as number;
  return (
    <div class="chart">
      <div
        class="chart-plot"
        role="img"
        aria-label={`${label}. ${bars.map(({ at, count: one }) => barText(at, one)).join("; ")}`}
      >
        {steps.map((step) => (
          <span key={step} class="chart-line" style={{ bottom: `${(step / top) * 100}%` }}>
            <span>{axisLabel(step, top)}</span>
          </span>
        ))}
        {bars.map(({ at, count: one }) => (
          <div key={at} class="chart-bar" title={barText(at, one)}>
            {OUTCOMES.map((name) =>
              one[name] === 0 ? null : (
                <span key={name} style={{ height: `${(one[name] / top) * 100}%`, background: `var(--${name})` }} />
              ),
            )}
          </div>
        ))}
      </div>
      <div class="chart-times" aria-hidden="true">
        {bars.map(({ at }, nth) => (
          <span key={at}>{nth === bars.length - 1 ? "now" : timeOfDay(at)}</span>
        ))}
      </div>
    </div>
  );
}

const barText = (at: number, one: Counts): string =>
  [
    `${timeOfDay(at)}: ${count(one.reads)} reads`,
    ...OUTCOMES.flatMap((name) => (one[name] === 0 ? [] : [`${OUTCOME_WORDS[name][0]} ${count(one[name])}`])),
  ].join(", ");

/** The outcomes with their colours, counts and shares. */
export const Legend = ({ counts }: { readonly counts: Counts }) => (
  <ul class="legend" aria-label="Reads by outcome">
    {OUTCOMES.map((name) => (
      <li key={name} title={OUTCOME_WORDS[name][1]}>
        <Dot tone={name} />
        <span>{OUTCOME_WORDS[name][0]}</span>
        <span class="num">{count(counts[name])}</span>
        <span class="num muted">{counts.reads === 0 ? "" : percent(counts[name] / counts.reads)}</span>
      </li>
    ))}
  </ul>
);
