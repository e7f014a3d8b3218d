/** The entry point `graphql-cached/eslint`: a plugin of ESLint with the rules of `graphql-cached check`. */
export {
  type EslintConfig,
  type EslintPlugin,
  type EslintReport,
  type EslintRule,
  type EslintRuleContext,
  type EslintSettings,
  eslintPlugin,
} from "./plugin.js";
