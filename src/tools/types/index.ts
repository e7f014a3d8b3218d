/** The entry point `graphql-cached/types`: ready-made entries of the option `types` for classes of other packages. */
export {
  type DateTimeClass,
  type DecimalClass,
  dateTimeType,
  decimalType,
  entityType,
  jsonType,
  type ObjectIdClass,
  objectIdType,
  prismaResultType,
} from "./value-types.js";
