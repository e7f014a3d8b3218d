import type { ApolloServerPlugin } from "@apollo/server";

/**
 * A plugin for Apollo Server that listens to what a cache has to know of a request, its execution and its response, and does nothing.
 * Apollo awaits what each of these listeners returns.
 */
export const idlePlugin: ApolloServerPlugin = {
  async requestDidStart() {
    return {
      executionDidStart: async () => ({ executionDidEnd: async () => undefined }),
      willSendResponse: async () => undefined,
    };
  },
};
