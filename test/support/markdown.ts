/** A code block of a Markdown page. */
export interface CodeBlock {
  /** The first word after the backquotes, such as `ts`. */
  readonly language: string;
  /** The words after it, such as `run`. */
  readonly flags: readonly string[];
  readonly text: string;
  /** Where it starts, counted from 1. */
  readonly line: number;
}

/** Returns the code blocks of a page, in order. */
export function codeBlocks(markdown: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  const found = markdown.matchAll(/^```([^\n]*)\n([\s\S]*?)^```$/gm);
  for (const { 1: info = "", 2: text = "", index } of found) {
    const [language = "", ...flags] = info.trim().split(/\s+/);
    blocks.push({ language, flags, text, line: markdown.slice(0, index).split("\n").length });
  }
  return blocks;
}
