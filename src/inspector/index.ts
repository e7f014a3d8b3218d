/** The entry point `graphql-cached/inspector`. */
export {
  type EndpointHeaders,
  type InspectorAccess,
  type InspectorHandler,
  type InspectorOptions,
  inspectorHandler,
} from "./handler.js";
export type { InspectorRequest } from "./servers.js";
