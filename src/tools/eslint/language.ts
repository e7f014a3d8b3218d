import { type DocumentNode, type GraphQLError, parse, type Token, TokenKind } from "graphql";

/** The language of GraphQL files. Its interface is that of ESLint's languages. */
export const graphqlLanguage = {
  fileType: "text" as const,
  lineStart: 1 as const,
  columnStart: 0 as const,
  nodeTypeKey: "kind",
  visitorKeys: { Document: [] as string[] },
  validateLanguageOptions(): void {},
  parse({ body }: { readonly body: unknown }): Parsed {
    try {
      return { ok: true, ast: parse(String(body)) };
    } catch (error) {
      const { message, locations } = error as GraphQLError;
      const { line = 1, column = 1 } = locations?.[0] ?? {};
      return { ok: false, errors: [{ message, line, column }] };
    }
  },
  createSourceCode({ body }: { readonly body: unknown }, { ast }: { readonly ast: unknown }): GraphqlSourceCode {
    return new GraphqlSourceCode(String(body), ast as DocumentNode);
  },
};

/** A place in a text as ESLint counts: lines from 1, columns from 0. */
export interface EslintPosition {
  readonly line: number;
  readonly column: number;
}

export interface EslintRange {
  readonly start: EslintPosition;
  readonly end: EslintPosition;
}

/** The whole text, or a comment. */
interface SourceNode {
  readonly kind: "Document" | "Comment";
  readonly loc: EslintRange;
  readonly range: [number, number];
}

/** A comment that turns rules off or on. */
interface DisableDirective {
  type: DirectiveType;
  node: SourceNode;
  value: string;
  justification: string;
}

type DirectiveType = "disable" | "enable" | "disable-line" | "disable-next-line";

/** A step of a walk: the begin or the end of a visit. */
interface VisitStep {
  kind: 1;
  target: unknown;
  phase: 1 | 2;
  args: unknown[];
}

/** Returns where the text from one token to another is. */
export function rangeOf(first: Token, last: Token): EslintRange {
  const column = last.column - 1 + last.end - last.start;
  return {
    start: { line: first.line, column: first.column - 1 },
    end: { line: last.line, column },
  };
}

/** What ESLint asks of a text. Rules see one node, the document. */
export class GraphqlSourceCode {
  readonly text: string;
  readonly ast: SourceNode;
  readonly lines: string[];
  readonly #comments: readonly Token[];

  constructor(text: string, document: DocumentNode) {
    this.text = text;
    this.lines = text.split(/\r\n|\n|\r/);
    const end = { line: this.lines.length, column: this.lines.at(-1)?.length ?? 0 };
    this.ast = { kind: "Document", loc: { start: { line: 1, column: 0 }, end }, range: [0, text.length] };
    const comments: Token[] = [];
    for (let token = document.loc?.startToken; token; token = token.next ?? undefined)
      if (token.kind === TokenKind.COMMENT) comments.push(token);
    this.#comments = comments;
  }

  getLoc({ loc }: SourceNode): EslintRange {
    return loc;
  }

  getRange({ range }: SourceNode): [number, number] {
    return range;
  }

  traverse(): VisitStep[] {
    return ([1, 2] as const).map((phase) => ({ kind: 1, target: this.ast, phase, args: [this.ast] }));
  }

  /** Returns comments such as `# eslint-disable-next-line graphql-cached/key -- intended`. */
  getDisableDirectives(): { problems: never[]; directives: DisableDirective[] } {
    const directives = this.#comments.flatMap((token) => {
      const [, type, value = "", justification = ""] =
        /^\s*eslint-(disable-next-line|disable-line|disable|enable)\b(?:\s+(.*?))??(?:\s-{2,}\s(.*))?$/.exec(
          token.value,
        ) ?? [];
      const node: SourceNode = { kind: "Comment", loc: rangeOf(token, token), range: [token.start, token.end] };
      return type === undefined ? [] : [{ type: type as DirectiveType, node, value: value.trim(), justification }];
    });
    return { problems: [], directives };
  }
}

/** What ESLint expects of a parser: here, columns are counted from 1. */
type Parsed = { ok: true; ast: object } | { ok: false; errors: { message: string; line: number; column: number }[] };
