import { setupMemcached } from "../../scripts/setup-memcached.mjs";
import { freePorts, HOST, type LabNode, ServerLab } from "./server-lab.js";

/** memcached refuses to run as root unless told to. */
const AS_ROOT = process.getuid?.() === 0 ? ["-u", "root"] : [];

/** Starts memcached servers on free loopback ports. */
export class MemcachedLab extends ServerLab {
  constructor() {
    super(setupMemcached().server);
  }

  /** Starts an empty server. `extra` are further command-line options. */
  async standalone(...extra: string[]): Promise<LabNode> {
    const [port] = await freePorts(1);
    const options = ["-l", HOST, "-p", String(port), "-U", "0", "-t", "1", "-m", "64"];
    return this.start(port as number, [...AS_ROOT, ...options, ...extra]);
  }
}
