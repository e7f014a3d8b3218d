/** The entry point `@graphql-cached/inspector`. */
export {
  type EndpointHeaders,
  type InspectorHandler,
  type InspectorOptions,
  type InspectorRequest,
  inspectorHandler,
} from "./handler.js";
