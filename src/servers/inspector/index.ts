/** The entry point `graphql-cached/inspector`. */
export {
  type EndpointHeaders,
  type InspectorAccess,
  type InspectorHandler,
  type InspectorOptions,
  type InspectorRequest,
  inspectorHandler,
} from "./handler.js";
