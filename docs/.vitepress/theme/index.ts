import { useData } from "vitepress";
import DefaultTheme from "vitepress/theme";
import { defineComponent, h } from "vue";
import "./style.css";

/** The link under each page to the page as it is written. */
const MarkdownLink = defineComponent({
  setup() {
    const { page } = useData();
    return () =>
      h("p", [
        h("a", { href: `/${page.value.filePath}`, target: "_self" }, "This page as Markdown"),
        " · ",
        h("a", { href: "/llms.txt", target: "_self" }, "llms.txt"),
      ]);
  },
});

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { "doc-footer-before": () => h(MarkdownLink) }),
};
