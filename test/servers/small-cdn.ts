/** A CDN as careless as real ones are: it keeps whatever has no `Cache-Control`, errors and cookies too. */
export interface SmallCdnOptions {
  /** Otherwise requests with the header Authorization bypass it, as docs/edge.md wants it. */
  readonly honoursVary: boolean;
}

export interface CdnAnswer {
  readonly status: number;
  readonly type: string | null;
  readonly body: string;
  readonly cookies: readonly string[];
  readonly isHit: boolean;
}

interface Kept {
  readonly url: string;
  /** The request headers that decide, and what they were. */
  readonly varying: readonly (readonly [name: string, value: string | null])[];
  readonly answer: CdnAnswer;
}

export type Send = (url: string, headers?: Readonly<Record<string, string>>) => Promise<CdnAnswer>;

/** Fetches what a server answers. */
export async function fetched(url: string, headers: Readonly<Record<string, string>>, method = "GET") {
  const body = method === "POST" ? { body: JSON.stringify({ query: "{ movie }" }) } : {};
  const response = await fetch(url, { method, headers, redirect: "manual", ...body });
  const answer: CdnAnswer = {
    status: response.status,
    type: response.headers.get("content-type"),
    body: await response.text(),
    cookies: response.headers.getSetCookie(),
    isHit: false,
  };
  return { answer, headers: response.headers };
}

export function smallCdn({ honoursVary }: SmallCdnOptions): Send {
  const kept: Kept[] = [];
  return async (url, given = {}) => {
    const asked = new Headers(given);
    const isBypassed = !honoursVary && asked.has("authorization");
    const isSame = ([name, value]: Kept["varying"][number]): boolean => asked.get(name) === value;
    const hit = kept.find((one) => one.url === url && (!honoursVary || one.varying.every(isSame)));
    if (hit !== undefined && !isBypassed) return { ...hit.answer, isHit: true };
    const { answer, headers } = await fetched(url, given);
    if (isBypassed || /private|no-store|no-cache/.test(headers.get("cache-control") ?? "")) return answer;
    const names = headers.get("vary")?.split(/\s*,\s*/) ?? [];
    kept.push({ url, varying: names.map((name) => [name, asked.get(name)]), answer });
    return answer;
  };
}
