import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type MarkdownRenderer } from "vitepress";
import { slugify } from "./anchors.js";
import { PAGES } from "./pages.js";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const REPOSITORY = "https://github.com/graphql-cached/graphql-cached";
const SITE = process.env.DOCS_URL ?? "https://graphql-cached.dev";
const SUMMARY =
  "A cache for GraphQL servers: each value of your schema is loaded once, however many requests and servers ask for it, and never served after you have changed it.";

const source = (page: string): string => readFileSync(join(FOLDER, `${page}.md`), "utf8");
const title = (page: string): string => /^# (.+)$/m.exec(source(page))?.[1] ?? page;
/** The sentences that every page opens with. */
const opening = (page: string): string => (source(page).split(/\n{2,}/)[1] ?? "").replaceAll("\n", " ");
const all = Object.values(PAGES).flat();

/** The address of what a page links to and is none: on the site for SDL, otherwise on the repository's host. */
const hosted = (href: string): string => {
  if (/^\.\.\/schema\/\w+\.graphql$/.test(href)) return href.slice(2);
  const [path = "", hash] = href.split("#");
  const file = normalize(join("docs", path));
  return `${REPOSITORY}/blob/main/${file}${hash === undefined ? "" : `#${hash}`}`;
};

/** Pages link to files of the repository by relative paths, which work on the repository's host only. */
const linkToRepository = (markdown: MarkdownRenderer): void => {
  markdown.core.ruler.push("link-to-repository", ({ tokens }) => {
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.type === "link_open" ? (token.attrGet("href") ?? "") : "";
      const isPage = /^[\w-]+\.md(#|$)/.test(href);
      if (href !== "" && !isPage && !/^([a-z]+:|#)/.test(href)) token.attrSet("href", hosted(href));
    }
  });
};

/** A page as it is written, with links that work from anywhere. */
const asMarkdown = (page: string): string =>
  source(page).replaceAll(/\]\((?![a-z]+:|#)([^)\s]+)\)/g, (_match, href: string) => {
    if (/^[\w-]+\.md(#|$)/.test(href)) return `](${SITE}/${href})`;
    if (href.startsWith("../schema/")) return `](${SITE}${hosted(href)})`;
    return `](${href.startsWith("images/") ? `${REPOSITORY}/raw/main/docs/${href}` : hosted(href)})`;
  });

/** What language models read: https://llmstxt.org. */
const llms = (): string =>
  [
    "# graphql-cached",
    `> ${SUMMARY}`,
    ...Object.entries(PAGES).map(([group, pages]) =>
      [`## ${group}`, ...pages.map((page) => `- [${title(page)}](${SITE}/${page}.md): ${opening(page)}`)].join("\n"),
    ),
  ].join("\n\n");

export default defineConfig({
  title: "graphql-cached",
  description: SUMMARY,
  lang: "en",
  cleanUrls: true,
  // The SDL is copied beside the pages when they are built.
  ignoreDeadLinks: [/^\/schema\//],
  lastUpdated: false,
  // Images are files, so that style.css can tell charts by their names.
  vite: { build: { assetsInlineLimit: 0 } },
  markdown: { anchor: { slugify }, config: linkToRepository },
  head: [["link", { rel: "icon", href: "/favicon.svg", type: "image/svg+xml" }]],
  transformHead: ({ page }) => [["link", { rel: "alternate", type: "text/markdown", href: `/${page}` }]],
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Reference", link: "/reference" },
      { text: "Changes", link: `${REPOSITORY}/blob/main/CHANGELOG.md` },
    ],
    sidebar: Object.entries(PAGES).map(([text, pages]) => ({
      text,
      items: pages.map((page) =>
        page === "index" ? { text: "Should I use this?", link: "/" } : { text: title(page), link: `/${page}` },
      ),
    })),
    socialLinks: [{ icon: "github", link: REPOSITORY }],
    footer: { message: "MIT licensed" },
  },
  buildEnd({ outDir }) {
    for (const page of all) writeFileSync(join(outDir, `${page}.md`), asMarkdown(page));
    cpSync(join(FOLDER, "../schema"), join(outDir, "schema"), { recursive: true });
    writeFileSync(join(outDir, "llms.txt"), `${llms()}\n`);
    writeFileSync(join(outDir, "llms-full.txt"), all.map(asMarkdown).join("\n\n"));
  },
});
