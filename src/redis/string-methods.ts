/** How many times a property is read: V8 remembers the first reads only once a function has run a few times. */
const READS = 100;

/**
 * Makes V8 compile calls of the methods of strings as direct calls again. It looks each of them up when it is called, in
 * all code of the process, as soon as a class extends String, as one of ioredis does: a loop with `charCodeAt` then takes
 * five times as long, on Node.js 20 to 26. Reading properties of objects with the prototype of strings ends that.
 */
export function restoreStringMethods(): void {
  for (let nth = 0; nth < READS; nth++) readProperty(Object("") as string);
}

const readProperty = (text: string): unknown => text.valueOf;
