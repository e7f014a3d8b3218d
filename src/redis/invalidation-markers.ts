import { randomBytes } from "node:crypto";
import type { Clock } from "../clock.js";
import type { LossCheck } from "../store/store.js";
import { hashTagIn, slotOfKey } from "./key-slot.js";
import { groupByNode, send } from "./pipeline.js";
import { isCluster, type RedisClient } from "./redis-client.js";

/** How long invalidations are covered. Longer than the time for which the cache can repeat them. */
const COVERED_MS = 90_000;
/** How long a marker lasts after its last invalidation. */
const MARKER_MS = 2 * COVERED_MS;

/** The invalidations that this process has sent to one hash slot with one script. */
interface Chain {
  /** The name of the marker. */
  readonly marker: string;
  sentAt: number;
  sent: number;
  /** The server has confirmed everything up to this one, in order. */
  confirmed: number;
  /** Whether one was not confirmed or not in order: the marker proves nothing about later ones. */
  isBroken: boolean;
}

/** One invalidation: its marker, its number, and what to do with the reply of its script. */
export interface Marked {
  readonly marker: string;
  readonly nth: number;
  readonly markerMs: number;
  settle(reply: unknown): void;
}

/**
 * Finds out whether Redis has lost invalidations that it had confirmed. Each script that invalidates
 * also advances a marker, see `MARKER` in define-script.ts: a marker that is where it was when the
 * server last confirmed it proves that the server, or the replica that took over, has everything up to
 * there. On a Cluster each hash slot has a marker of its own: the keys of a slot are moved and lost
 * together, and any other unit may be torn apart. Whatever cannot be proved counts as lost.
 */
export class InvalidationMarkers {
  /** The beginning of the names of all markers. */
  name = "";
  readonly #client: RedisClient;
  readonly #clock: Clock;
  /** The current chain of each hash slot and script, the least recently used first. */
  readonly #chains = new Map<string, Chain>();
  /** Until when a hash slot and script has invalidations that no marker covers. */
  readonly #uncoveredUntil = new Map<string, number>();
  readonly #onLoss: () => void;

  /** `onLoss` is called when a reply shows a loss. */
  constructor(client: RedisClient, clock: Clock, onLoss: () => void) {
    this.#client = client;
    this.#clock = clock;
    this.#onLoss = onLoss;
  }

  /** Counts an invalidation of names in the hash slot of `name`, to be sent in the same turn. */
  next(script: string, name: string): Marked {
    const now = this.#clock.now();
    this.#dropOld(now);
    const group = `${script} ${this.#slotOf(name)}`;
    let chain = this.#chains.get(group);
    this.#chains.delete(group);
    if (chain === undefined || chain.isBroken)
      chain = { marker: this.#markerNear(name), sentAt: now, sent: 0, confirmed: 0, isBroken: false };
    this.#chains.set(group, chain);
    chain.sentAt = now;
    const nth = ++chain.sent;
    const counted = chain;
    return {
      marker: chain.marker,
      nth,
      markerMs: MARKER_MS,
      settle: (reply) => {
        if (typeof reply === "number" && reply >= nth) {
          counted.confirmed = Math.max(counted.confirmed, nth);
          return;
        }
        const isLoss = typeof reply === "number" && reply < counted.confirmed && !counted.isBroken;
        counted.isBroken = true;
        this.#uncoveredUntil.set(group, this.#clock.now() + COVERED_MS);
        if (isLoss) this.#onLoss();
      },
    };
  }

  /** Records that an invalidation in the hash slot of `name` has no marker, and stands in for one. */
  none(script: string, name: string): Marked {
    this.#uncoveredUntil.set(`${script} ${this.#slotOf(name)}`, this.#clock.now() + COVERED_MS);
    return { marker: name, nth: 0, markerMs: 0, settle: () => undefined };
  }

  /** Reads the markers back. What cannot be read counts as lost. */
  check(): LossCheck {
    this.#dropOld(this.#clock.now());
    const chains = [...this.#chains];
    /**
     * The number of chains of each hash slot that are not proved, and of groups with invalidations
     * that no marker covers; a slot without either is missing.
     */
    const unproved = new Map<string, number>();
    for (const [group] of [...this.#chains, ...this.#uncoveredUntil])
      unproved.set(slotOf(group), (unproved.get(slotOf(group)) ?? 0) + 1);
    const markers = chains.map(([, { marker }]) => marker);
    const confirmed = chains.map(([, chain]) => chain.confirmed);
    const ended = Promise.all(
      groupByNode(this.#client, markers).map(async ({ calls }) => {
        const indexes = calls.flat();
        const gets = indexes.map((index) => ({ name: "GET", args: [markers[index] as string] }));
        for (const [at, reply] of (await send(this.#client, gets)).entries()) {
          const index = indexes[at] as number;
          const nth = confirmed[index] as number;
          if (nth > 0 && !(Buffer.isBuffer(reply) && Number(reply.toString()) >= nth)) continue;
          const slot = slotOf((chains[index] as (typeof chains)[number])[0]);
          unproved.set(slot, (unproved.get(slot) as number) - 1);
        }
      }),
    ).then(() => undefined);
    return { ended, mayBeLost: (name) => unproved.get(this.#slotOf(name)) !== 0 };
  }

  #dropOld(now: number): void {
    for (const [group, { sentAt }] of this.#chains) {
      if (now - sentAt < COVERED_MS) break;
      this.#chains.delete(group);
    }
    for (const [group, until] of this.#uncoveredUntil) if (until <= now) this.#uncoveredUntil.delete(group);
  }

  /** A server that is no Cluster is one slot. */
  #slotOf(name: string): string {
    return isCluster(this.#client) ? String(slotOfKey(name)) : "";
  }

  /** Returns a name that no other chain has, in the hash slot of `name`. */
  #markerNear(name: string): string {
    const id = randomBytes(9).toString("base64url");
    if (!isCluster(this.#client)) return `${this.name}:${id}`;
    return `${this.name}:{${hashTagIn(name)}}:${id}`;
  }
}

/** Returns the hash slot of a chain. */
const slotOf = (group: string): string => group.slice(group.indexOf(" ") + 1);
