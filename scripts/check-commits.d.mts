export function mistakesIn(subject: string): string[];
