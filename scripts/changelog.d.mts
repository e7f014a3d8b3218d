export interface Note {
  readonly kind: string;
  readonly item: string;
}
export function noteOf(changeset: string): Note;
export function versionsIn(changelog: string): string[];
export function unreleasedIn(changelog: string): string;
export function withRelease(
  changelog: string,
  release: { readonly version: string; readonly date: string; readonly notes: readonly Note[] },
): string;
