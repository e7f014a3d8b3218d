/** The entry point `graphql-cached/types`: ready-made entries of the option `types` for classes of other packages. */
export { type DateTimeClass, dateTimeType } from "./date-time.js";
export { type DecimalClass, decimalType } from "./decimal.js";
export { entityType } from "./entity.js";
export { jsonType } from "./json.js";
export { type ObjectIdClass, objectIdType } from "./object-id.js";
export { prismaResultType } from "./prisma-result.js";
