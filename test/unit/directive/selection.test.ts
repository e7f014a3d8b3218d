import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  getOperationAST,
  type OperationDefinitionNode,
  parse,
  type SelectionSetNode,
  visit,
} from "graphql";
import { describe, expect, it, vi } from "vitest";
import { Outlines, type QueryInfo, SelectedNames } from "../../../src/core/directive/look-ahead/selection.js";
import { canonicalize } from "../../../src/core/keys/canonical.js";
import { type Draw, drawOfSeed } from "../../property/draw.js";
import { collectGarbage } from "../../support/collect-garbage.js";

const outlines = (): Outlines => new Outlines((value) => canonicalize(value));

const fragmentsOf = ({ definitions }: DocumentNode): Record<string, FragmentDefinitionNode> =>
  Object.fromEntries(
    definitions.flatMap((node) => (node.kind === "FragmentDefinition" ? [[node.name.value, node]] : [])),
  );

/** Returns the part of `info` that a resolver of the first field of an operation gets. */
function infoOf(document: DocumentNode, operationName?: string): QueryInfo {
  const operation = getOperationAST(document, operationName) as OperationDefinitionNode;
  const fieldNodes = [operation.selectionSet.selections[0] as never];
  return { fieldNodes, fragments: fragmentsOf(document), operation, variableValues: {} } as never;
}

const textOf = (source: string): string => outlines().textOf(infoOf(parse(source)));

/** Returns a chain of fragments of which each contains the next one twice, in the selection that `body` writes. */
const doubling = (length: number, body: (spread: string) => string): string => {
  const chain = Array.from({ length }, (_, at) => `fragment F${at} on M ${body(`...F${at + 1}`)}`);
  return `{ m { ...F0 } } ${chain.join(" ")} fragment F${length} on M { id }`;
};

const many = (count: number, one: (nth: number) => string): string =>
  Array.from({ length: count }, (_, nth) => one(nth)).join(" ");

describe("The text of a selection", () => {
  it("takes little memory beside a document that is kept", () => {
    const [documents, sets] = [1_000, 10];
    const source = `{ m ${"{ id one ".repeat(sets)}{ id }${"}".repeat(sets)} }`;
    const infos = Array.from({ length: documents }, () => infoOf(parse(source, { noLocation: true })));
    const selections = outlines();
    const bytesAfter = (first: number, end: number): number => {
      for (const info of infos.slice(first, end)) selections.textOf(info);
      collectGarbage();
      return process.memoryUsage().heapUsed;
    };
    const before = bytesAfter(0, 100);
    expect((bytesAfter(100, documents) - before) / (documents - 100) / sets).toBeLessThan(300);
    expect(infos).toHaveLength(documents);
  });

  const BODIES: Readonly<Record<string, (spread: string) => string>> = {
    "side by side": (spread) => `{ ${spread} ${spread} }`,
    "under two conditions": (spread) => `{ ${spread} @include(if: $a) ${spread} @skip(if: $a) }`,
    "below two fields": (spread) => `{ one { ${spread} } other { ${spread} } }`,
    "in two inline fragments": (spread) => `{ ... on M { ${spread} } ... on N { ${spread} } }`,
  };
  for (const [where, body] of Object.entries(BODIES))
    it(`is written with one look at each fragment if each spreads the next one twice, ${where}`, () => {
      const { fragments, ...info } = infoOf(parse(doubling(12, body)));
      let looks = 0;
      for (const fragment of Object.values(fragments)) {
        const { selectionSet } = fragment;
        Object.defineProperty(fragment, "selectionSet", { get: () => (looks++, selectionSet) });
      }
      const names = new SelectedNames(outlines().of({ fragments, ...info }));
      expect(looks).toBe(13);
      for (let at = 0; at < 14; at++) expect(names.has("fragments", `F${at}`)).toBe(at < 13);
    });

  it("is written with one look at each selection set, however many fields of an execution ask for it", () => {
    const chain = (depth: number): string => (depth === 0 ? "id ...F" : `m { ${chain(depth - 1)} }`);
    const aliases = Array.from({ length: 100 }, (_, nth) => `a${nth}: m { ...F }`).join(" ");
    const document = parse(`{ ${aliases} ${chain(50)} } fragment F on M { id m { id } }`);
    let looks = 0;
    let sets = 0;
    const owners: FieldNode[] = [];
    visit(document, {
      Field: (node) => void owners.push(node),
      SelectionSet: (set) => {
        const { selections } = set;
        sets++;
        Object.defineProperty(set, "selections", { get: () => (looks++, selections) });
      },
    });
    const selections = outlines();
    const info = infoOf(document);
    looks = 0;
    for (const node of owners) selections.textOf({ ...info, fieldNodes: [node] });
    // All but that of the operation.
    expect(looks).toBe(sets - 1);
  });

  it("is the same for a fragment under another name", () => {
    const text = textOf("{ m { id ...A @include(if: $a) } } fragment A on M { title(size: $n) }");
    expect(textOf("{ m { id ...B @include(if: $a) } } fragment B on M { title(size: $n) }")).toBe(text);
    expect(textOf("{ m { ...A a { ...A } } } fragment A on M { id }")).toBe(
      textOf("{ m { ...Z a { ...Z } } } fragment Z on M { id }"),
    );
  });

  it("distinguishes fragments that are spread again", () => {
    const groups = [
      ["{ m { ...A ...B ...A } } fragment A on M { id } fragment B on M { title }"],
      ["{ m { ...A ...B ...B } } fragment A on M { id } fragment B on M { title }"],
      ["{ m { ...A ...A ...B } } fragment A on M { id } fragment B on M { title }"],
      ["{ m { ...A @a ...A } } fragment A on M @b { id }"],
      ["{ m { ...A ...A } } fragment A on M @a @b { id }"],
      ["{ m { ...A ...A @a } } fragment A on M { id }"],
      ["{ m { ...A ...A @a(n: $n) } } fragment A on M { id }"],
    ];
    const texts = groups.map((group) => new Set(group.map(textOf)));
    for (const ofGroup of texts) expect(ofGroup.size).toBe(1);
    expect(new Set(texts.flatMap((ofGroup) => [...ofGroup])).size).toBe(groups.length);
  });

  it("is refused for fragments that contain themselves, of a document that was not validated, and tried once for each", () => {
    const sources = [
      "{ m { ...A } } fragment A on M { id a { ...A } b { ...B } } fragment B on M { id }",
      "{ m { ...A } } fragment A on M { id a { ...B } } fragment B on M { id b { ...A } }",
      "{ m { ...A } } fragment A on M { id a { ...B } } fragment B on M { id b { ...B } }",
    ];
    for (const source of sources) expect(() => textOf(source)).toThrow("a fragment that contains itself");
    expect(textOf("{ m { ...A } } fragment A on M { id a { ...B } }")).toMatch(/^[\w-]{43}$/);
  });

  /** Requests with `size` fields that ask, and a fragment in which they all ask for `size` of something. */
  const SHARED: Readonly<Record<string, (size: number) => string>> = {
    fields: (size) => `fragment F on M { ${many(size, (nth) => `f${nth}: id`)} }`,
    variables: (size) => `fragment F on M { ${many(size, (nth) => `f${nth}: title(size: $v${nth})`)} }`,
    "variables in directives": (size) => `fragment F on M { ${many(size, (nth) => `id @include(if: $v${nth})`)} }`,
    fragments: (size) =>
      `fragment F on M { ${many(size, (nth) => `...F${nth}`)} } ${many(size, (nth) => `fragment F${nth} on M { id }`)}`,
    "fragments in a chain": (size) =>
      `fragment F on M { ...F0 } ${many(size, (nth) => `fragment F${nth} on M { title(size: $v${nth}) ${nth + 1 === size ? "" : `...F${nth + 1}`} }`)}`,
    "variables that are long": (size) => `fragment F on M { ${many(size, () => "title(size: $long)")} }`,
  };
  for (const [what, fragment] of Object.entries(SHARED))
    it(`costs a sum for many fields that spread a fragment of many ${what}`, () => {
      const workOf = (size: number): number => {
        const document = parse(`{ ${many(size, (nth) => `a${nth}: m(size: $v${nth}) { ...F }`)} } ${fragment(size)}`);
        let visits = 0;
        const counted = <T extends object>(object: T, ...names: readonly string[]): T => {
          for (const name of names) {
            const value: unknown = object[name as keyof T];
            // Older versions of graphql assign to the copies of nodes that they print, which have these properties.
            const set = function (this: object, own: unknown): void {
              Object.defineProperty(this, name, { value: own, enumerable: true });
            };
            const get = (): unknown => (visits++, value);
            Object.defineProperty(object, name, { get, set, enumerable: true, configurable: true });
          }
          return object;
        };
        visit(document, {
          Field: (node) => void counted(node, "alias", "name"),
          FragmentSpread: (node) => void counted(node, "name"),
          Variable: (node) => void counted(node, "name"),
          SelectionSet: (node) => void counted(node, "selections"),
        });
        const values = Object.fromEntries(Array.from({ length: size }, (_, nth) => [`v${nth}`, nth]));
        counted(values, ...Object.keys(values));
        const variableValues = { ...counted({ long: "x".repeat(10_000) }, "long") };
        Object.defineProperties(variableValues, Object.getOwnPropertyDescriptors(values));
        const info = { ...infoOf(document), variableValues };
        const nodes = (info.operation.selectionSet as SelectionSetNode).selections as FieldNode[];
        const selections = outlines();
        const adding = vi.spyOn(Set.prototype, "add");
        const setting = vi.spyOn(Map.prototype, "set");
        visits = 0;
        const texts = nodes.map((node) => selections.textOf({ ...info, fieldNodes: [node] } as never));
        const work = visits + adding.mock.calls.length + setting.mock.calls.length;
        vi.restoreAllMocks();
        expect(Math.max(...texts.map(({ length }) => length))).toBeLessThan(150);
        return work;
      };
      const [half, whole] = [workOf(100), workOf(200)];
      expect(whole).toBeLessThan(2.2 * half);
      // The product would be 200 x 200. Printing a node takes 43 in graphql 16.11.
      expect(whole).toBeLessThan(60 * (200 + 200));
    });

  it("stands for one selection, whichever of its fragments have a name and are spread again", () => {
    const selectionByText = new Map<string, string>();
    let repeats = 0;
    for (let seed = 0; seed < 5_000; seed++) {
      const source = randomQuery(drawOfSeed(String(seed)));
      const document = parse(source);
      const text = outlines().textOf(infoOf(document));
      const selection = inlined(document);
      const known = selectionByText.get(text);
      if (known === undefined) selectionByText.set(text, selection);
      else repeats++;
      expect(known ?? selection, source).toBe(selection);
      expect(textOf(source.replaceAll(/\b[ABC]\b/g, "Other$&")), source).toBe(text);
    }
    expect(selectionByText.size).toBeGreaterThan(500);
    expect(repeats).toBeGreaterThan(500);
  });
});

/** Returns a query with few words, so that many of them select the same. Fragments spread those after them. */
function randomQuery(draw: Draw): string {
  const names = ["A", "B", "C"];
  const selectionSet = (spreadable: readonly string[], depth: number): string => {
    const selections = Array.from({ length: 1 + draw.int(2) }, () => {
      const directive = draw.pick(["", "", "", " @a", " @include(if: $a)"]);
      if (spreadable.length > 0 && draw.chance(50)) return `...${draw.pick(spreadable)}${directive}`;
      if (depth === 0 || draw.chance(40)) return `${draw.pick(["id", "x: id"])}${directive}`;
      return `${draw.pick(["... on M", "... on M", "m"])}${directive} ${selectionSet(spreadable, depth - 1)}`;
    });
    return `{ ${selections.join(" ")} }`;
  };
  const definitions = names.map((name, at) => {
    const own = draw.pick(["", "", "", " @a"]);
    return `fragment ${name} on M${own} ${selectionSet(names.slice(at + 1), 1)}`;
  });
  return `{ m ${selectionSet(names, 1)} } ${definitions.join(" ")}`;
}

/** Returns the selection of the first field with every fragment written where it is spread. */
function inlined(document: DocumentNode): string {
  const fragments = fragmentsOf(document);
  const textOfDirectives = ({ directives = [] }: Pick<FragmentDefinitionNode, "directives">): string =>
    directives.map(({ name }) => `@${name.value}`).join("");
  const write = (set: SelectionSetNode | undefined): string =>
    (set?.selections ?? [])
      .map((selection) => {
        const given = textOfDirectives(selection);
        if (selection.kind === "Field")
          return `${selection.alias?.value}:${selection.name.value}${given}{${write(selection.selectionSet)}}`;
        if (selection.kind === "InlineFragment") return `on M${given}/{${write(selection.selectionSet)}}`;
        const fragment = fragments[selection.name.value] as FragmentDefinitionNode;
        return `on M${given}/${textOfDirectives(fragment)}{${write(fragment.selectionSet)}}`;
      })
      .join();
  return write((infoOf(document).fieldNodes[0] as { selectionSet?: SelectionSetNode }).selectionSet);
}
