/** What an error says about its reason, in the words of HTTP, gRPC, GraphQL and the libraries that users have. */
export interface ErrorSigns {
  /** In upper case, words separated by `_`: `permission-denied` is `PERMISSION_DENIED`. */
  readonly codes: readonly string[];
  /** HTTP. */
  readonly statuses: readonly number[];
  readonly grpcCode: number | undefined;
  /** Its name and its class. */
  readonly names: readonly string[];
  readonly message: string;
}

/** How many causes of an error, and how many parts of an error, are looked at. */
const MAX_RELATED = 10;

type Properties = Readonly<Record<string, unknown>>;

/** Returns the signs of an error, of its cause, and so on. */
export function signsOf(thrown: unknown): ErrorSigns[] {
  const signs: ErrorSigns[] = [];
  let error = propertiesOf(thrown);
  while (error !== undefined && signs.length < MAX_RELATED) {
    signs.push(ownSignsOf(error));
    error = propertiesOf(error.originalError) ?? propertiesOf(error.cause);
  }
  return signs;
}

/** Returns the errors that an error consists of: an AggregateError, or what a GraphQL client throws. */
export function partsOfError(thrown: unknown): readonly unknown[] {
  const error = propertiesOf(thrown);
  const parts = error?.errors ?? error?.graphQLErrors ?? propertiesOf(error?.response)?.errors;
  return Array.isArray(parts) ? parts.slice(0, MAX_RELATED) : [];
}

const propertiesOf = (value: unknown): Properties | undefined =>
  typeof value === "object" && value !== null ? (value as Properties) : undefined;

function ownSignsOf(error: Properties): ErrorSigns {
  const extensions = propertiesOf(error.extensions);
  const responses = [error.response, extensions?.response, extensions?.http, error.output].map(propertiesOf);
  const codes = [error.code, extensions?.code];
  const statuses = [
    ...[error, extensions, ...responses].flatMap((holder) => [holder?.status, holder?.statusCode]),
    propertiesOf(error.$metadata)?.httpStatusCode,
    typeof error.getStatus === "function" ? (error as { getStatus(): unknown }).getStatus() : undefined,
    ...codes,
  ].map(Number);
  const isOfGrpc = typeof error.code === "number" && ("details" in error || "metadata" in error);
  return {
    codes: codes
      .filter((code) => typeof code === "string")
      .map((code) =>
        code
          .slice(0, 100)
          .toUpperCase()
          .replaceAll(/[^A-Z0-9]+/g, "_"),
      ),
    statuses: statuses.filter((status) => status >= 100 && status < 600),
    grpcCode: isOfGrpc ? (error.code as number) : undefined,
    names: [error.name, error.constructor?.name].filter((name) => typeof name === "string"),
    message: typeof error.message === "string" ? error.message : "",
  };
}
