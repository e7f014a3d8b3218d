/**
 * Holds a load until the test lets it continue: the load awaits `passed`, and the test calls
 * `open`.
 */
export interface Gate {
  /** Resolves when the gate is opened. */
  readonly passed: Promise<void>;
  open(): void;
}

/** Creates a closed gate. */
export function gate(): Gate {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}
