import { spawnSync } from "node:child_process";
import {
  type ASTNode,
  type DirectiveDefinitionNode,
  type FieldDefinitionNode,
  type InputValueDefinitionNode,
  parse,
  visit,
} from "graphql";
import { describe, expect, it } from "vitest";
import { ROOT, read } from "./source.js";

const documents = ["cached", "inspection"].map((name) => parse(read(`schema/${name}.graphql`)));
type Described = ASTNode & {
  readonly name: { readonly value: string };
  readonly description?: { readonly value: string } | undefined;
};

describe("the SDL", () => {
  it("describes every directive, argument, type, field and enum value in sentences", () => {
    const check = (node: Described): void => {
      expect(node.description?.value ?? "", node.name.value).toMatch(/^[A-Z0-9][\s\S]*\.$/);
    };
    for (const document of documents)
      visit(document, {
        DirectiveDefinition: (node: DirectiveDefinitionNode) => check(node),
        InputValueDefinition: (node: InputValueDefinitionNode) => check(node),
        FieldDefinition: (node: FieldDefinitionNode) => check(node),
        ObjectTypeDefinition: check,
        InterfaceTypeDefinition: check,
        UnionTypeDefinition: check,
        InputObjectTypeDefinition: check,
        EnumTypeDefinition: check,
        EnumValueDefinition: check,
        ScalarTypeDefinition: check,
      });
  });

  it("names the unit of every time and size", () => {
    const expectUnit = (units: readonly (readonly [RegExp, RegExp])[]) => (node: Described) => {
      for (const [name, unit] of units)
        if (name.test(node.name.value)) expect(node.description?.value ?? "", node.name.value).toMatch(unit);
    };
    const sizes = [
      [/Ms$/, /[Mm]illiseconds/],
      [/Bytes$/, /[Bb]ytes/],
      [/^maxAge$/, /seconds/],
    ] as const;
    // As a field, `staleIfError` is a count of reads; as an argument, a duration.
    const durations = [/^(maxAgeLimit|staleWhileRevalidate|staleIfError|negativeMaxAge)$/, /seconds/] as const;
    const checkSize = expectUnit(sizes);
    const check = expectUnit([...sizes, durations]);
    for (const document of documents) visit(document, { InputValueDefinition: check, FieldDefinition: checkSize });
  });

  it("says maxAge where it means freshness", () => {
    for (const name of ["cached", "inspection"]) expect(read(`schema/${name}.graphql`)).not.toMatch(/\bttl\w*\s*:/i);
  });

  it("is what the generated file was made of", () => {
    const { status, stderr } = spawnSync(process.execPath, ["--import", "tsx", "codegen.ts", "--check"], {
      cwd: ROOT,
      encoding: "utf8",
    });
    expect(stderr).toBe("");
    expect(status).toBe(0);
  });
});
