import { usePolled } from "./api.js";
import { count, duration, percent, seconds, visible } from "./format.js";
import { Column, Empty, ExportButton, MissingNote, Name, Panel, TableBox, Waiting } from "./parts.js";
import type { Advice, AdviceAnswer, AdvisedLifetimes, Sampling } from "./types.js";

const KINDS: Readonly<Record<string, string>> = {
  LONGER: "longer",
  SHORTER: "shorter",
  ADD_STALE: "serve stale",
  TURN_ON: "turn on",
};

/** What maxAge would suit each field and loader, and what its sampled hits have shown. */
export function AdviceView({
  window,
  windowText,
  isOn,
}: {
  readonly window: string;
  readonly windowText: string;
  readonly isOn: boolean;
}) {
  const answer = usePolled<AdviceAnswer>("advice", { window }, { everyMs: 10_000, isOn });
  const { advice, fields } = answer.data ?? {};
  const proposals = (advice ?? []).filter(({ kind }) => kind !== "NONE");
  const others = (advice ?? []).filter(({ kind }) => kind === "NONE");
  const sampledOf = new Map((fields ?? []).map(({ coordinate, sampled }) => [coordinate, sampled]));
  return (
    <div class="grid">
      <Panel
        title="Proposals"
        id="proposals"
        wide
        note={`How long values could be served so that at most 5 % of the reads are outdated, by what was measured ${windowText}.`}
        actions={<ExportButton name="advice" value={advice} />}
      >
        <MissingNote missing={answer.missing} of="advice" />
        {advice === undefined ? (
          <Waiting polled={answer} />
        ) : proposals.length === 0 ? (
          <Empty>None. What follows says why.</Empty>
        ) : (
          proposals.map((one) => <Proposal key={one.coordinate} advice={one} sampled={sampledOf.get(one.coordinate)} />)
        )}
      </Panel>
      {others.length === 0 ? null : (
        <Panel title="No change" id="no-advice" wide>
          <TableBox label="Fields and loaders without a proposal">
            <table class="data">
              <caption class="sr-only">Fields and loaders without a proposal</caption>
              <thead>
                <tr>
                  <Column>Field or loader</Column>
                  <Column numeric>maxAge</Column>
                  <Column numeric>Sampled</Column>
                  <Column numeric>Outdated</Column>
                  <Column>Why</Column>
                </tr>
              </thead>
              <tbody>
                {others.map(({ coordinate, current, reason }) => {
                  const sampled = sampledOf.get(coordinate);
                  return (
                    <tr key={coordinate}>
                      <th scope="row">
                        <Name max={120}>{coordinate}</Name>
                      </th>
                      <td class="num">{seconds(current.maxAge)}</td>
                      <td class="num">{count(sampled?.samples ?? 0)}</td>
                      <td class="num">{percent(sampled?.staleRatio)}</td>
                      <td>
                        <Name>{reason}</Name>
                      </td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </TableBox>
        </Panel>
      )}
    </div>
  );
}

function Proposal({ advice, sampled }: { readonly advice: Advice; readonly sampled: Sampling | null | undefined }) {
  const { coordinate, kind, reason, diff, current, proposed, saving } = advice;
  const savedMs = saving?.loadMsPerSecond ?? 0;
  return (
    <article class="proposal">
      <h3>
        <Name max={120}>{coordinate}</Name> <span class="badge">{KINDS[kind] ?? visible(kind)}</span>
      </h3>
      <p>
        <Name>{reason}</Name>
      </p>
      {diff === null ? null : (
        <pre class="diff">
          {diff.split("\n").map((line, nth) => (
            <span key={nth} class={line.startsWith("-") ? "removed" : line.startsWith("+") ? "added" : undefined}>
              {`${visible(line)}\n`}
            </span>
          ))}
        </pre>
      )}
      {proposed === null ? null : (
        <p class="muted">
          {`Loads: ${rate(current.loadsPerSecond)}, then ${rate(proposed.loadsPerSecond)}, which ${savedMs < 0 ? "costs" : "saves"} ${duration(3_600_000 * Math.abs(savedMs / 1_000))} of load time an hour. `}
          {`Outdated: ${share(current)} of the reads, then ${share(proposed)}, at most ${percent(proposed.maxStaleRatio)}. `}
          {sampled === null || sampled === undefined
            ? ""
            : `Sampled: ${count(sampled.stale)} of ${count(sampled.samples)} hits were outdated${sampled.staleAgeMs.p50Ms === null ? "" : `, half of them older than ${duration(sampled.staleAgeMs.p50Ms)}`}.`}
        </p>
      )}
    </article>
  );
}

const share = ({ staleRatio }: AdvisedLifetimes): string => percent(staleRatio);
const rate = (perSecond: number): string =>
  perSecond >= 1 ? `${count(perSecond)} a second` : `${count(3_600 * perSecond)} an hour`;
