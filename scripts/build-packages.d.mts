export function packageNames(): string[];
export function buildPackage(folder: string): void;
