import { setupMemcached } from "../../scripts/setup-memcached.mjs";
import { freePorts, HOST, type LabNode, ServerLab } from "./server-lab.js";

/** Root is refused unless it is named. */
const AS_ROOT = process.getuid?.() === 0 ? ["-u", "root"] : [];

/** Starts memcached servers on loopback ports, on demand. */
export class MemcachedLab extends ServerLab {
  constructor() {
    super(setupMemcached().server);
  }

  /** A server of its own, empty. */
  async standalone(...extra: string[]): Promise<LabNode> {
    const [port] = await freePorts(1);
    const own = ["-l", HOST, "-p", String(port), "-U", "0", "-t", "1", "-m", "64"];
    return this.start(port as number, [...AS_ROOT, ...own, ...extra]);
  }
}
