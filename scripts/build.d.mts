export function packageNames(): string[];
export function entryPointsOf(manifest: { readonly exports: object; readonly bin?: object }): string[];
