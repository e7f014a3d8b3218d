/** Runs the mutants from number `first` on. Throws if one survives without an explanation, or if too many survive. */
export function runMutants(report: (line: string) => void, first?: number): Promise<void>;
/** Returns why mutants cannot be made, a line for each of them. */
export function mistakesInList(): readonly string[];
