import { bufferOf, type Connection } from "./connection.js";

/** Returns the content of a name: the head of a clock, the settings, or an instant. Undefined if there is none. */
export function readContent(db: Connection, name: string): Buffer | undefined {
  const row = db.get<{ readonly content: Uint8Array }>("SELECT content FROM names WHERE name = ?", name);
  return row && bufferOf(row.content);
}

export function writeContent(db: Connection, name: string, content: Uint8Array): void {
  db.run("INSERT OR REPLACE INTO names (name, content) VALUES (?, ?)", name, content);
}

/** Returns the instant of a name. 0 if there is none. */
export function readInstant(db: Connection, name: string): number {
  const content = readContent(db, name);
  return content?.length === 8 ? content.readDoubleLE(0) : 0;
}

export function writeInstant(db: Connection, name: string, at: number): void {
  const content = Buffer.alloc(8);
  content.writeDoubleLE(at);
  writeContent(db, name, content);
}
