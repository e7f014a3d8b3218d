import { GraphQLError } from "graphql";

/** An error with properties, as libraries make them. */
const errorWith = (properties: object, message = "it failed"): Error => Object.assign(new Error(message), properties);

const withCode = (code: unknown): GraphQLError => new GraphQLError("it failed", { extensions: { code } });

class ForbiddenException extends Error {
  getStatus(): number {
    return 403;
  }
}
class NotFoundException extends Error {
  getStatus(): number {
    return 404;
  }
}
class InternalServerErrorException extends Error {
  getStatus(): number {
    return 500;
  }
}
class ForbiddenError extends Error {}
class NotAuthenticatedError extends Error {}
class EntityNotFoundError extends Error {}

type Thrown = readonly [what: string, make: () => unknown];

/** Errors that say that this caller may not have the value. */
export const REFUSALS: readonly Thrown[] = [
  ...["UNAUTHENTICATED", "FORBIDDEN", "UNAUTHORIZED", "PERMISSION_DENIED", "ACCESS_DENIED", "NOT_AUTHORIZED"].map(
    (code): Thrown => [`the code ${code}`, () => withCode(code)],
  ),
  ["the code unauthorised", () => withCode("unauthorised")],
  ["the code UNAUTHORIZED_FIELD_OR_TYPE", () => withCode("UNAUTHORIZED_FIELD_OR_TYPE")],
  ["the code permission-denied, as a property", () => errorWith({ code: "permission-denied" })],
  ["the code FST_ERR_FORBIDDEN", () => errorWith({ code: "FST_ERR_FORBIDDEN" })],
  ["the code 403", () => withCode(403)],
  ["the status 401", () => errorWith({ status: 401 })],
  ["the statusCode 403", () => errorWith({ statusCode: 403 })],
  ["the status 407 as text", () => errorWith({ status: "407" })],
  ["http.status 403 in the extensions", () => new GraphQLError("no", { extensions: { http: { status: 403 } } })],
  ["the status 401 in the extensions", () => new GraphQLError("no", { extensions: { status: 401 } })],
  ["the response of a REST data source", () => new GraphQLError("no", { extensions: { response: { status: 401 } } })],
  ["the response of axios", () => errorWith({ response: { status: 403 } })],
  ["the metadata of the AWS SDK", () => errorWith({ $metadata: { httpStatusCode: 403 } })],
  ["the output of Boom", () => errorWith({ isBoom: true, output: { statusCode: 403 } })],
  ["an exception of Nest", () => new ForbiddenException("no")],
  ["gRPC's PERMISSION_DENIED", () => errorWith({ code: 7, details: "no", metadata: {} })],
  ["gRPC's UNAUTHENTICATED", () => errorWith({ code: 16, details: "no", metadata: {} })],
  ["the default of graphql-shield", () => new Error("Not Authorised!")],
  ["the default of Nexus", () => new Error("Not authorized")],
  ["the default of TypeGraphQL", () => new Error("Access denied! You don't have permission for this action!")],
  ["the class ForbiddenError", () => new ForbiddenError("no")],
  ["the class NotAuthenticatedError", () => new NotAuthenticatedError("no")],
  ["the name AuthenticationError", () => errorWith({ name: "AuthenticationError" })],
  ["the name UnauthorizedError", () => errorWith({ name: "UnauthorizedError" })],
  ["an original error", () => new GraphQLError("no", { originalError: new ForbiddenException("no") })],
  ["a cause", () => new Error("no", { cause: withCode("FORBIDDEN") })],
  ["one of several errors", () => new AggregateError([new Error("other"), withCode("UNAUTHENTICATED")])],
  ["no error at all", () => ({ code: "FORBIDDEN" })],
];

/** Errors by which the source answers that it has no value for this key, whoever asks. */
export const ANSWERS: readonly Thrown[] = [
  ...["NOT_FOUND", "MOVIE_NOT_FOUND", "BAD_USER_INPUT", "BAD_REQUEST", "GRAPHQL_VALIDATION_FAILED", "GONE"].map(
    (code): Thrown => [`the code ${code}`, () => withCode(code)],
  ),
  ["the code VALIDATION_ERROR, as a property", () => errorWith({ code: "VALIDATION_ERROR" })],
  ["Prisma's record not found", () => errorWith({ code: "P2025" })],
  ["the status 404", () => errorWith({ status: 404 })],
  ["the statusCode 410", () => errorWith({ statusCode: 410 })],
  ["http.status 400 in the extensions", () => new GraphQLError("no", { extensions: { http: { status: 400 } } })],
  ["an exception of Nest", () => new NotFoundException("no")],
  ["gRPC's NOT_FOUND", () => errorWith({ code: 5, details: "no", metadata: {} })],
  ["gRPC's INVALID_ARGUMENT", () => errorWith({ code: 3, details: "no", metadata: {} })],
  ["the class EntityNotFoundError", () => new EntityNotFoundError("no")],
  ["the name CastError", () => errorWith({ name: "CastError" })],
  ["an original error", () => new GraphQLError("no", { originalError: new NotFoundException("no") })],
];

/** Errors that say that the source is in trouble, or that do not say what happened. */
export const FAILURES: readonly Thrown[] = [
  ["no sign of what happened", () => new Error("it failed")],
  ["an error of the program", () => new TypeError("x is not a function")],
  ["a refused connection", () => errorWith({ code: "ECONNREFUSED", errno: -111 })],
  ["a name that DNS does not know", () => errorWith({ code: "ENOTFOUND" })],
  ["a failed fetch", () => new TypeError("fetch failed", { cause: errorWith({ code: "ECONNRESET" }) })],
  ["a timeout", () => new DOMException("The operation timed out", "TimeoutError")],
  ["the code INTERNAL_SERVER_ERROR", () => withCode("INTERNAL_SERVER_ERROR")],
  ["the status 503", () => errorWith({ status: 503 })],
  ["the status 429", () => errorWith({ statusCode: 429 })],
  ["a throttled call of AWS", () => errorWith({ name: "ThrottlingException", $metadata: { httpStatusCode: 400 } })],
  ["a missing module", () => errorWith({ code: "ERR_MODULE_NOT_FOUND" })],
  [
    "a wrong password of the program",
    () => errorWith({ code: "ER_ACCESS_DENIED_ERROR", errno: 1045 }, "Access denied for user 'shop'@'db'"),
  ],
  ["the status 408", () => errorWith({ status: 408 })],
  ["http.status 502 in the extensions", () => new GraphQLError("no", { extensions: { http: { status: 502 } } })],
  ["a server error whose text says NOT_FOUND", () => errorWith({ status: 500, code: "NOT_FOUND" })],
  ["an exception of Nest", () => new InternalServerErrorException("no")],
  ["gRPC's UNAVAILABLE", () => errorWith({ code: 14, details: "no", metadata: {} })],
  ["gRPC's DEADLINE_EXCEEDED", () => errorWith({ code: 4, details: "no", metadata: {} })],
  ["a small number as its code", () => errorWith({ code: 5 })],
  ["several refused connections", () => new AggregateError([errorWith({ code: "ECONNREFUSED" })])],
  ["text", () => "down"],
  ["nothing", () => undefined],
  [
    "a getter that throws",
    () =>
      Object.defineProperty(new Error("it failed"), "status", {
        get: () => {
          throw new Error("no status");
        },
      }),
  ],
  [
    "a cause that is itself",
    () => {
      const error = new Error("it failed");
      return Object.assign(error, { cause: error });
    },
  ],
];
