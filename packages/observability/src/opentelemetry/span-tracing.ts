import {
  type Context,
  context,
  type Link,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { Tracing } from "graphql-cached";
import { type Clock, errorTypeOf } from "graphql-cached/store";

type LoadTrace = ReturnType<Tracing["startLoad"]>;
type StoreTrace = ReturnType<Tracing["startStore"]>;
type TracedWait = Parameters<Tracing["waited"]>[0];

/**
 * Makes spans of the loads, waits and store operations of one cache. Their names and attributes
 * contain coordinates and the names of operations, never keys, arguments or error messages.
 */
export class SpanTracing implements Tracing {
  readonly #tracer: Tracer;
  readonly #clock: Clock;
  readonly #subject: Subject;

  constructor(tracer: Tracer, clock: Clock, subject: Subject) {
    this.#tracer = tracer;
    this.#clock = clock;
    this.#subject = subject;
  }

  active(): Context {
    return context.active();
  }

  /**
   * The span of a load is a child of what the caller does, except a refresh, which outlives its
   * request: it has a link.
   */
  startLoad(load: Parameters<Tracing["startLoad"]>[0]): LoadTrace {
    return quietly(() => this.#startLoad(load)) ?? UNTRACED;
  }

  waited(wait: TracedWait): void {
    quietly(() => this.#waited(wait));
  }

  /**
   * Only for operations in the context of a span: the others, such as renewals of leases, would
   * each be a trace.
   */
  startStore(call: Parameters<Tracing["startStore"]>[0]): StoreTrace {
    return quietly(() => this.#startStore(call)) ?? UNTRACED;
  }

  #startLoad({ coordinate, isRefresh, parent, gen }: Parameters<Tracing["startLoad"]>[0]): LoadTrace {
    const caller = parent as Context | undefined;
    const own = isRefresh ? ROOT_CONTEXT : (caller ?? context.active());
    const span = this.#tracer.startSpan(
      `graphql_cached.load ${coordinate}`,
      {
        kind: SpanKind.INTERNAL,
        attributes: { ...this.#attributesOf(coordinate, gen), "graphql_cached.refresh": isRefresh },
        links: isRefresh && caller !== undefined ? linksTo(trace.getSpan(caller)) : [],
      },
      own,
    );
    return new ActiveSpan(span, own);
  }

  #waited({ coordinate, waitMs, parent, load, gen }: TracedWait): void {
    const now = this.#clock.now();
    const isLocal = load instanceof ActiveSpan;
    this.#tracer
      .startSpan(
        `graphql_cached.wait ${coordinate}`,
        {
          kind: SpanKind.INTERNAL,
          startTime: now - waitMs,
          attributes: this.#attributesOf(coordinate, gen),
          links: isLocal ? linksTo(load.span) : [],
        },
        parent as Context,
      )
      .end(now);
  }

  #startStore({ operation, node, nameCount }: Parameters<Tracing["startStore"]>[0]): StoreTrace {
    const parent = context.active();
    if (trace.getSpan(parent) === undefined) return UNTRACED;
    const { name, system } = this.#subject;
    const span = this.#tracer.startSpan(
      `graphql_cached.store ${operation}`,
      {
        kind: SpanKind.CLIENT,
        attributes: {
          "graphql_cached.cache": name,
          "db.system.name": system,
          "db.operation.name": operation,
          ...(nameCount > 1 ? { "db.operation.batch.size": nameCount } : {}),
          ...this.#serverOf(node),
        },
      },
      parent,
    );
    return new ActiveSpan(span, parent);
  }

  /**
   * `graphql_cached.lease` is what the spans of a load and of its waiters in other processes have
   * in common.
   */
  #attributesOf(coordinate: string, gen: string | undefined): Record<string, string> {
    return {
      "graphql_cached.cache": this.#subject.name,
      "graphql_cached.coordinate": coordinate,
      ...(gen === undefined ? {} : { "graphql_cached.lease": Buffer.from(gen, "latin1").toString("hex") }),
    };
  }

  #serverOf(node: string): Record<string, string | number> {
    const [, host, port] = /^(.+):(\d+)$/.exec(node) ?? [];
    if (host !== undefined) return { "server.address": host, "server.port": Number(port) };
    const { serverAddress, serverPort } = this.#subject;
    return {
      ...(serverAddress === undefined ? {} : { "server.address": serverAddress }),
      ...(serverPort === undefined ? {} : { "server.port": serverPort }),
    };
  }
}

interface Subject {
  readonly name: string;
  /** The name of the store, such as `redis`. */
  readonly system: string;
  readonly serverAddress: string | undefined;
  readonly serverPort: number | undefined;
}

/**
 * A span of a load or store operation, which is active while the operation runs. Has the type of
 * its error only.
 */
class ActiveSpan implements LoadTrace, StoreTrace {
  readonly span: Span;
  readonly #context: Context;

  constructor(span: Span, parent: Context) {
    this.span = span;
    this.#context = trace.setSpan(parent, span);
  }

  run<T>(operation: () => T): T {
    return context.with(this.#context, operation);
  }

  end(error?: unknown): void {
    quietly(() => {
      if (error !== undefined) {
        this.span.setAttribute("error.type", errorTypeOf(error));
        this.span.setStatus({ code: SpanStatusCode.ERROR });
      }
      this.span.end();
    });
  }
}

const UNTRACED: LoadTrace & StoreTrace = { run: (operation) => operation(), end: () => undefined };

/**
 * Returns what `make` returns; undefined if it throws, since a tracer that fails must not fail a
 * request.
 */
function quietly<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

const linksTo = (span: Span | undefined): Link[] => (span === undefined ? [] : [{ context: span.spanContext() }]);
