import { hash } from "node:crypto";

/** Returns a key that any shared cache of arbitrary arguments needs: a readable prefix and the SHA-256 digest of the inputs. */
export const digestKey = (prefix: string, id: string): string =>
  `${prefix}:1:Film:${hash("sha256", JSON.stringify(["Film", id]), "base64url")}`;
