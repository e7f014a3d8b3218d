import { randomBytes } from "node:crypto";
import type { Clock } from "../clock.js";
import { HASH_TAGS } from "../keys/hash-tags.js";
import type { LossCheck } from "../store/store.js";
import { integerOf } from "./integer-reply.js";
import { slotOfKey } from "./key-slot.js";
import { groupByNode, nodeOf, nodeOfSlot, type ScriptCall, send } from "./pipeline.js";
import { isCluster, type RedisClient } from "./redis-client.js";
import { advanceMarker } from "./scripts/advance-marker.js";

/** How long invalidations are covered. Longer than the time for which the cache can repeat them. */
const COVERED_MS = 90_000;
/** How long a marker lasts after its last invalidation. */
const MARKER_MS = 2 * COVERED_MS;

/** Invalidations that this process has sent to one node, in order. */
interface Chain {
  readonly node: string;
  /** The name of the marker. */
  readonly marker: string;
  /** The hash slots of the names. */
  readonly slots: Set<number>;
  sentAt: number;
  sent: number;
  /** The node has carried out everything up to this one. */
  confirmed: number;
  /** Whether one was not confirmed: the marker may stay where it is, and proves nothing about later ones. */
  isBroken: boolean;
}

/** A pipeline of invalidations that has been counted. */
export interface Counted {
  /** Advances the marker, to be sent behind the invalidations. None if the node has no place for it. */
  readonly calls: readonly ScriptCall[];
  /**
   * Takes the reply to `calls`, or undefined if it proves nothing. `isAnyConfirmed`: whether the
   * node has confirmed any of the invalidations; if not, there is nothing to prove.
   */
  settle(reply: unknown, isAnyConfirmed: boolean): void;
}

/**
 * Finds out whether Redis has lost invalidations that it had confirmed. Each pipeline of invalidations
 * ends with a call that advances a marker: a marker that is where it was when the node last confirmed
 * it proves that the node, or the replica that took over, has everything up to there. A name whose
 * hash slot is no longer on the node of the marker has another history. Whatever cannot be proved
 * counts as lost.
 */
export class InvalidationMarkers {
  /** The beginning of the names of all markers. */
  name = "";
  readonly #client: RedisClient;
  readonly #clock: Clock;
  /** The newest chain of a node is the last one. */
  #chains: readonly Chain[] = [];
  /** Until when a hash slot has invalidations that no marker covers. */
  readonly #uncoveredUntil = new Map<number, number>();
  readonly #onLoss: () => void;

  /** `onLoss` is called when a reply shows a loss. */
  constructor(client: RedisClient, clock: Clock, onLoss: () => void) {
    this.#client = client;
    this.#clock = clock;
    this.#onLoss = onLoss;
  }

  /** Counts a pipeline of invalidations for `node`, to be sent in the same turn. `names` has one of each hash slot. */
  next(node: string, names: readonly string[]): Counted {
    const now = this.#clock.now();
    this.#dropOld(now);
    const slots = names.map((name) => this.#slotOf(name));
    const uncover = (): void => {
      for (const slot of slots) this.#uncoveredUntil.set(slot, this.#clock.now() + COVERED_MS);
    };
    const chain = this.#chainOf(node);
    if (chain === undefined) return { calls: [], settle: uncover };
    for (const slot of slots) chain.slots.add(slot);
    chain.sentAt = now;
    const nth = ++chain.sent;
    const call = {
      script: advanceMarker,
      args: advanceMarker.argumentsFor([chain.marker], { nth, markerMs: MARKER_MS }),
    };
    return {
      calls: [call],
      settle: (markerReply, isAnyConfirmed) => {
        const reply = integerOf(markerReply);
        if (typeof reply === "number" && reply >= nth) {
          chain.confirmed = Math.max(chain.confirmed, nth);
          return;
        }
        const isLoss = typeof reply === "number" && reply < chain.confirmed && !chain.isBroken;
        chain.isBroken = true;
        if (isAnyConfirmed) uncover();
        if (isLoss) this.#onLoss();
      },
    };
  }

  /** Reads the markers back. What cannot be read counts as lost. */
  check(): LossCheck {
    this.#dropOld(this.#clock.now());
    const chains = this.#chains;
    const confirmed = chains.map((chain) => chain.confirmed);
    const markers = chains.map(({ marker }) => marker);
    const proved = new Set<Chain>();
    const ended = Promise.all(
      groupByNode(this.#client, markers).map(async ({ calls }) => {
        const indexes = calls.flat();
        const gets = indexes.map((index) => ({ name: "GET", args: [markers[index] as string] }));
        for (const [at, reply] of (await send(this.#client, gets)).entries()) {
          const index = indexes[at] as number;
          const nth = confirmed[index] as number;
          if (nth === 0 || (Buffer.isBuffer(reply) && Number(reply.toString()) >= nth))
            proved.add(chains[index] as Chain);
        }
      }),
    ).then(() => undefined);
    const mayBeLost = (name: string): boolean => {
      const slot = this.#slotOf(name);
      const covering = chains.filter(({ slots }) => slots.has(slot));
      const isProved = (chain: Chain): boolean => proved.has(chain) && this.#isOnNodeOf(chain.marker, slot);
      return this.#uncoveredUntil.has(slot) || covering.length === 0 || !covering.every(isProved);
    };
    return { ended, mayBeLost };
  }

  /** Returns the chain that the next invalidation on `node` continues. Undefined if no marker can be placed there. */
  #chainOf(node: string): Chain | undefined {
    const last = this.#chains.findLast((chain) => chain.node === node);
    if (last !== undefined && !last.isBroken && this.#nodeOf(last.marker) === node) return last;
    const marker = this.#markerOn(node);
    if (marker === undefined) return undefined;
    const chain = { node, marker, slots: new Set<number>(), sentAt: 0, sent: 0, confirmed: 0, isBroken: false };
    this.#chains = [...this.#chains, chain];
    return chain;
  }

  #dropOld(now: number): void {
    this.#chains = this.#chains.filter(({ sentAt }) => now - sentAt < COVERED_MS);
    for (const [slot, until] of this.#uncoveredUntil) if (until <= now) this.#uncoveredUntil.delete(slot);
  }

  /** Returns a name that no other chain has, in a hash slot of `node`. Undefined if none of `HASH_TAGS` is there. */
  #markerOn(node: string): string | undefined {
    const id = randomBytes(9).toString("base64url");
    if (!isCluster(this.#client)) return `${this.name}:${id}`;
    const hashTag = HASH_TAGS.find((tag) => this.#nodeOf(`{${tag}}`) === node);
    return hashTag === undefined ? undefined : `${this.name}:{${hashTag}}:${id}`;
  }

  /** A server that is no Cluster is one slot. */
  #slotOf(name: string): number {
    return isCluster(this.#client) ? slotOfKey(name) : 0;
  }

  #nodeOf(name: string): string {
    return isCluster(this.#client) ? nodeOf(this.#client, name) : "";
  }

  #isOnNodeOf(marker: string, slot: number): boolean {
    return !isCluster(this.#client) || nodeOf(this.#client, marker) === nodeOfSlot(this.#client, slot);
  }
}
