export const SCRIPT_MUTANTS: readonly (readonly [script: string, from: string, to: string, tests?: string])[];
