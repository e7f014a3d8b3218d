import type { FakeClock } from "@graphql-cached/testing";

type Outcome = "executed" | "served";

/** Seconds that pass, or a question and what has become of it. */
export type Step<Context> = number | readonly [query: string, outcome: Outcome, context?: Context, variables?: object];

export interface Peer<Context> {
  readonly clock: FakeClock;
  ask(query: string, context?: Context, variables?: Readonly<Record<string, unknown>>): Promise<unknown>;
  /** How often a root field was resolved. */
  executions(): number;
}

/** Steps one after the other. */
export const steps = <Context>(...given: readonly Step<Context>[]): readonly Step<Context>[] => given;

/** Steps with one query: `outcomes` are words and seconds, as in "executed 5 served". */
export const again = <Context>(query: string, outcomes: string): readonly Step<Context>[] =>
  outcomes.split(" ").map((word) => (Number(word) > 0 ? Number(word) : [query, word as Outcome]));

/** Takes the steps one after the other. Returns them with what has become of each question. */
export async function takeSteps<Context>(
  peer: Peer<Context>,
  steps: readonly Step<Context>[],
): Promise<readonly Step<Context>[]> {
  const taken: Step<Context>[] = [];
  for (const step of steps) {
    if (typeof step === "number") {
      await peer.clock.advance(step * 1_000);
      taken.push(step);
      continue;
    }
    const [query, , ...rest] = step;
    const before = peer.executions();
    await peer.ask(query, ...(rest as [Context?, Record<string, unknown>?]));
    taken.push([query, peer.executions() === before ? "served" : "executed", ...rest]);
  }
  return taken;
}

/** Returns the steps with other outcomes. */
export const withOutcomes = <Context>(
  steps: readonly Step<Context>[],
  outcomes: readonly Outcome[],
): readonly Step<Context>[] => {
  const left = [...outcomes];
  return steps.map((step) => {
    if (typeof step === "number") return step;
    const [query, outcome, ...rest] = step;
    return [query, left.shift() ?? outcome, ...rest];
  });
};
