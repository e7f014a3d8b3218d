// Made by `npm run codegen` from schema/*.graphql. Edit those files, not this one.
import type { GraphQLResolveInfo, GraphQLScalarType, GraphQLScalarTypeConfig } from 'graphql';
export type Maybe<T> = T | null;
export type InputMaybe<T> = Maybe<T>;
export type RequireFields<T, K extends keyof T> = Omit<T, K> & { [P in K]-?: NonNullable<T[P]> };
/** All built-in and custom scalars, mapped to their actual values */
export type Scalars = {
  ID: { input: string; output: string; }
  String: { input: string; output: string; }
  Boolean: { input: boolean; output: boolean; }
  Int: { input: number; output: number; }
  Float: { input: number; output: number; }
  /** An object of argument values, written as GraphQL or JSON. */
  CacheArguments: { input: Readonly<Record<string, unknown>>; output: Readonly<Record<string, unknown>>; }
};

export type Query = {
  readonly __typename?: 'Query';
  /** What the cache holds and does. Refused unless the server's `allow` says yes. */
  readonly cacheInspection: CacheInspection;
};

/** Who waits for a refresh of a stale value. */
export type CachedRefresh =
  /** Nobody: every reader gets the old value while one refresh runs. */
  | 'BACKGROUND'
  /** The reader who won the lease waits for the new value; all others get the old one. */
  | 'FOREGROUND';

/** Who shares a cached value. */
export type CachedScope =
  /** Everybody who asks with the same key. */
  | 'PUBLIC'
  /** Nobody: each identity has values of its own, and an unknown identity is not cached. */
  | 'PRIVATE';

/** A look into the cache. It shows states, times and counts; never values, arguments or whole keys. */
export type CacheInspection = {
  readonly __typename?: 'CacheInspection';
  /** What readers met, over all fields, counted by the process that answers since it started. */
  readonly stats: CacheStats;
  /** What readers met, field by field, and the policy each field has. */
  readonly fields: ReadonlyArray<CacheFieldStats>;
  /**
   * The entry of one key, as the store has it; null if the store has none.
   * Asking for it counts as no read and starts no load.
   */
  readonly entry?: Maybe<CacheEntry>;
};


/** A look into the cache. It shows states, times and counts; never values, arguments or whole keys. */
export type CacheInspectionEntryArgs = {
  coordinate: Scalars['String']['input'];
  args?: InputMaybe<Scalars['CacheArguments']['input']>;
  source?: InputMaybe<Scalars['CacheArguments']['input']>;
  context?: InputMaybe<Scalars['CacheArguments']['input']>;
  private?: InputMaybe<Scalars['String']['input']>;
};

/** Counts of what readers met. Every read ends in exactly one of them. */
export type CacheStats = {
  readonly __typename?: 'CacheStats';
  /** All reads. */
  readonly reads: Scalars['Int']['output'];
  /** Answered from a fresh entry. */
  readonly hit: Scalars['Int']['output'];
  /** Answered from a stale entry while a refresh ran. */
  readonly stale: Scalars['Int']['output'];
  /** Answered from a stale entry because the load failed. */
  readonly staleIfError: Scalars['Int']['output'];
  /** Loaded by this reader. */
  readonly loaded: Scalars['Int']['output'];
  /** Answered by a load that another reader had started, in this process or another. */
  readonly coalesced: Scalars['Int']['output'];
  /** The cache stepped aside on purpose. */
  readonly bypassed: Scalars['Int']['output'];
  /** Loads started, refreshes among them. */
  readonly loads: Scalars['Int']['output'];
  /** Loads that ended in an error. */
  readonly failedLoads: Scalars['Int']['output'];
  /** Stores of a loaded value that were refused, because it was invalidated while it was loaded. */
  readonly refusedStores: Scalars['Int']['output'];
  /** Operations that the store failed or did not answer in time. */
  readonly storeFailures: Scalars['Int']['output'];
};

/** One field's policy and counts. */
export type CacheFieldStats = {
  readonly __typename?: 'CacheFieldStats';
  /** The field, such as Query.movie, or the name of a loader. */
  readonly coordinate: Scalars['String']['output'];
  /** How long a value is fresh, in seconds. */
  readonly maxAge: Scalars['Float']['output'];
  /** Who shares a value. */
  readonly scope: CachedScope;
  /** What readers of this field met. */
  readonly stats: CacheStats;
  /** Why reads of this field were bypassed, most frequent first. */
  readonly bypasses: ReadonlyArray<CacheBypass>;
};

/** How often the cache stepped aside for one reason. */
export type CacheBypass = {
  readonly __typename?: 'CacheBypass';
  /** The reason. */
  readonly reason: CacheBypassReason;
  /** How many reads. */
  readonly reads: Scalars['Int']['output'];
};

/** Why the cache stepped aside. */
export type CacheBypassReason =
  /** A part of the key is missing in the parent object or the context, or cannot be written into a key. */
  | 'KEY_UNUSABLE'
  /** The field is PRIVATE and nobody is known to be asking. */
  | 'NO_IDENTITY'
  /** The load's value cannot be stored, so everybody loads for himself for a short while. */
  | 'UNCACHEABLE'
  /** A write bracket is open for the key. */
  | 'WRITE_IN_PROGRESS'
  /** The store did not answer, or failed. */
  | 'STORE_UNAVAILABLE'
  /** Another's load did not end within the time a reader may wait. */
  | 'WAIT_TIMEOUT'
  /** The load asked for its own key, or for one whose load waits for it. */
  | 'NESTED'
  /** The loader's guard said that there is no such thing, so it is null and nothing was asked. */
  | 'DOES_NOT_EXIST'
  /** The request asked for values from their sources. */
  | 'REQUESTED'
  /** The entry under this key was made from another input. */
  | 'KEY_COLLISION'
  /** The cache is closed. */
  | 'CLOSED';

/** One entry, as the store has it. */
export type CacheEntry = {
  readonly __typename?: 'CacheEntry';
  /** What the entry is. */
  readonly state: CacheEntryState;
  /** Whether its value is null or an empty list. */
  readonly negative: Scalars['Boolean']['output'];
  /** Milliseconds since the load that made it began. */
  readonly ageMs: Scalars['Float']['output'];
  /** Milliseconds until it is stale; negative once it is. */
  readonly freshForMs: Scalars['Float']['output'];
  /** Milliseconds the load took. */
  readonly loadMs: Scalars['Float']['output'];
  /** Bytes of the stored value. */
  readonly valueBytes: Scalars['Int']['output'];
  /** Milliseconds until the lease on it ends; null if nobody holds one. */
  readonly leaseForMs?: Maybe<Scalars['Float']['output']>;
  /** Whether its tags have been invalidated since, so that it will not be served. */
  readonly outdated: Scalars['Boolean']['output'];
};

/** What an entry is. */
export type CacheEntryState =
  /** Being loaded for the first time. */
  | 'PENDING'
  /** A value. */
  | 'VALUE'
  /** The last load failed, and the next waits a short while. */
  | 'FAILED'
  /** The last value could not be stored; loads pass through for a short while. */
  | 'UNCACHEABLE'
  /** A write bracket is open; loads pass through and are not stored. */
  | 'WRITE_IN_PROGRESS';



export type ResolverTypeWrapper<T> = Promise<T> | T;


export type ResolverWithResolve<TResult, TParent, TContext, TArgs> = {
  resolve: ResolverFn<TResult, TParent, TContext, TArgs>;
};
export type Resolver<TResult, TParent = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>, TArgs = Record<PropertyKey, never>> = ResolverFn<TResult, TParent, TContext, TArgs> | ResolverWithResolve<TResult, TParent, TContext, TArgs>;

export type ResolverFn<TResult, TParent, TContext, TArgs> = (
  parent: TParent,
  args: TArgs,
  context: TContext,
  info: GraphQLResolveInfo
) => Promise<TResult> | TResult;

export type SubscriptionSubscribeFn<TResult, TParent, TContext, TArgs> = (
  parent: TParent,
  args: TArgs,
  context: TContext,
  info: GraphQLResolveInfo
) => AsyncIterable<TResult> | Promise<AsyncIterable<TResult>>;

export type SubscriptionResolveFn<TResult, TParent, TContext, TArgs> = (
  parent: TParent,
  args: TArgs,
  context: TContext,
  info: GraphQLResolveInfo
) => TResult | Promise<TResult>;

export interface SubscriptionSubscriberObject<TResult, TKey extends string, TParent, TContext, TArgs> {
  subscribe: SubscriptionSubscribeFn<{ [key in TKey]: TResult }, TParent, TContext, TArgs>;
  resolve?: SubscriptionResolveFn<TResult, { [key in TKey]: TResult }, TContext, TArgs>;
}

export interface SubscriptionResolverObject<TResult, TParent, TContext, TArgs> {
  subscribe: SubscriptionSubscribeFn<any, TParent, TContext, TArgs>;
  resolve: SubscriptionResolveFn<TResult, any, TContext, TArgs>;
}

export type SubscriptionObject<TResult, TKey extends string, TParent, TContext, TArgs> =
  | SubscriptionSubscriberObject<TResult, TKey, TParent, TContext, TArgs>
  | SubscriptionResolverObject<TResult, TParent, TContext, TArgs>;

export type SubscriptionResolver<TResult, TKey extends string, TParent = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>, TArgs = Record<PropertyKey, never>> =
  | ((...args: any[]) => SubscriptionObject<TResult, TKey, TParent, TContext, TArgs>)
  | SubscriptionObject<TResult, TKey, TParent, TContext, TArgs>;

export type TypeResolveFn<TTypes, TParent = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>> = (
  parent: TParent,
  context: TContext,
  info: GraphQLResolveInfo
) => Maybe<TTypes> | Promise<Maybe<TTypes>>;

export type IsTypeOfResolverFn<T = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>> = (obj: T, context: TContext, info: GraphQLResolveInfo) => boolean | Promise<boolean>;

export type NextResolverFn<T> = () => Promise<T>;

export type DirectiveResolverFn<TResult = Record<PropertyKey, never>, TParent = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>, TArgs = Record<PropertyKey, never>> = (
  next: NextResolverFn<TResult>,
  parent: TParent,
  args: TArgs,
  context: TContext,
  info: GraphQLResolveInfo
) => TResult | Promise<TResult>;





/** Mapping between all available schema types and the resolvers types */
export type ResolversTypes = {
  Query: ResolverTypeWrapper<Record<PropertyKey, never>>;
  CachedRefresh: CachedRefresh;
  CachedScope: CachedScope;
  CacheInspection: ResolverTypeWrapper<CacheInspection>;
  String: ResolverTypeWrapper<Scalars['String']['output']>;
  CacheArguments: ResolverTypeWrapper<Scalars['CacheArguments']['output']>;
  CacheStats: ResolverTypeWrapper<CacheStats>;
  Int: ResolverTypeWrapper<Scalars['Int']['output']>;
  CacheFieldStats: ResolverTypeWrapper<CacheFieldStats>;
  Float: ResolverTypeWrapper<Scalars['Float']['output']>;
  CacheBypass: ResolverTypeWrapper<CacheBypass>;
  CacheBypassReason: CacheBypassReason;
  CacheEntry: ResolverTypeWrapper<CacheEntry>;
  Boolean: ResolverTypeWrapper<Scalars['Boolean']['output']>;
  CacheEntryState: CacheEntryState;
};

/** Mapping between all available schema types and the resolvers parents */
export type ResolversParentTypes = {
  Query: Record<PropertyKey, never>;
  CacheInspection: CacheInspection;
  String: Scalars['String']['output'];
  CacheArguments: Scalars['CacheArguments']['output'];
  CacheStats: CacheStats;
  Int: Scalars['Int']['output'];
  CacheFieldStats: CacheFieldStats;
  Float: Scalars['Float']['output'];
  CacheBypass: CacheBypass;
  CacheEntry: CacheEntry;
  Boolean: Scalars['Boolean']['output'];
};

export type CachedDirectiveArgs = {
  maxAge?: Maybe<Scalars['Int']['input']>;
  staleWhileRevalidate?: Maybe<Scalars['Int']['input']>;
  refresh?: Maybe<CachedRefresh>;
  neverExpires?: Maybe<Scalars['Boolean']['input']>;
  staleIfError?: Maybe<Scalars['Int']['input']>;
  negativeMaxAge?: Maybe<Scalars['Int']['input']>;
  jitter?: Maybe<Scalars['Float']['input']>;
  earlyRefresh?: Maybe<Scalars['Float']['input']>;
  scope?: Maybe<CachedScope>;
  key?: Maybe<ReadonlyArray<Scalars['String']['input']>>;
  tags?: Maybe<ReadonlyArray<Scalars['String']['input']>>;
  profile?: Maybe<Scalars['String']['input']>;
};

export type CachedDirectiveResolver<Result, Parent, ContextType = any, Args = CachedDirectiveArgs> = DirectiveResolverFn<Result, Parent, ContextType, Args>;

export type InvalidatesDirectiveArgs = {
  tags: ReadonlyArray<Scalars['String']['input']>;
};

export type InvalidatesDirectiveResolver<Result, Parent, ContextType = any, Args = InvalidatesDirectiveArgs> = DirectiveResolverFn<Result, Parent, ContextType, Args>;

export type QueryResolvers<ContextType = any, ParentType extends ResolversParentTypes['Query'] = ResolversParentTypes['Query']> = {
  cacheInspection?: Resolver<ResolversTypes['CacheInspection'], ParentType, ContextType>;
};

export type CacheInspectionResolvers<ContextType = any, ParentType extends ResolversParentTypes['CacheInspection'] = ResolversParentTypes['CacheInspection']> = {
  stats?: Resolver<ResolversTypes['CacheStats'], ParentType, ContextType>;
  fields?: Resolver<ReadonlyArray<ResolversTypes['CacheFieldStats']>, ParentType, ContextType>;
  entry?: Resolver<Maybe<ResolversTypes['CacheEntry']>, ParentType, ContextType, RequireFields<CacheInspectionEntryArgs, 'coordinate'>>;
};

export interface CacheArgumentsScalarConfig extends GraphQLScalarTypeConfig<ResolversTypes['CacheArguments'], any> {
  name: 'CacheArguments';
}

export type CacheStatsResolvers<ContextType = any, ParentType extends ResolversParentTypes['CacheStats'] = ResolversParentTypes['CacheStats']> = {
  reads?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  hit?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  stale?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  staleIfError?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  loaded?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  coalesced?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  bypassed?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  loads?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  failedLoads?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  refusedStores?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  storeFailures?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
};

export type CacheFieldStatsResolvers<ContextType = any, ParentType extends ResolversParentTypes['CacheFieldStats'] = ResolversParentTypes['CacheFieldStats']> = {
  coordinate?: Resolver<ResolversTypes['String'], ParentType, ContextType>;
  maxAge?: Resolver<ResolversTypes['Float'], ParentType, ContextType>;
  scope?: Resolver<ResolversTypes['CachedScope'], ParentType, ContextType>;
  stats?: Resolver<ResolversTypes['CacheStats'], ParentType, ContextType>;
  bypasses?: Resolver<ReadonlyArray<ResolversTypes['CacheBypass']>, ParentType, ContextType>;
};

export type CacheBypassResolvers<ContextType = any, ParentType extends ResolversParentTypes['CacheBypass'] = ResolversParentTypes['CacheBypass']> = {
  reason?: Resolver<ResolversTypes['CacheBypassReason'], ParentType, ContextType>;
  reads?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
};

export type CacheEntryResolvers<ContextType = any, ParentType extends ResolversParentTypes['CacheEntry'] = ResolversParentTypes['CacheEntry']> = {
  state?: Resolver<ResolversTypes['CacheEntryState'], ParentType, ContextType>;
  negative?: Resolver<ResolversTypes['Boolean'], ParentType, ContextType>;
  ageMs?: Resolver<ResolversTypes['Float'], ParentType, ContextType>;
  freshForMs?: Resolver<ResolversTypes['Float'], ParentType, ContextType>;
  loadMs?: Resolver<ResolversTypes['Float'], ParentType, ContextType>;
  valueBytes?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  leaseForMs?: Resolver<Maybe<ResolversTypes['Float']>, ParentType, ContextType>;
  outdated?: Resolver<ResolversTypes['Boolean'], ParentType, ContextType>;
};

export type Resolvers<ContextType = any> = {
  Query?: QueryResolvers<ContextType>;
  CacheInspection?: CacheInspectionResolvers<ContextType>;
  CacheArguments?: GraphQLScalarType;
  CacheStats?: CacheStatsResolvers<ContextType>;
  CacheFieldStats?: CacheFieldStatsResolvers<ContextType>;
  CacheBypass?: CacheBypassResolvers<ContextType>;
  CacheEntry?: CacheEntryResolvers<ContextType>;
};

export type DirectiveResolvers<ContextType = any> = {
  cached?: CachedDirectiveResolver<any, any, ContextType>;
  invalidates?: InvalidatesDirectiveResolver<any, any, ContextType>;
};
export const CACHED_SDL: string = "\"\"\"\nCaches what the field's resolver returns, shared by all processes: one key is loaded once, by whoever asks first.\nOn an object type, an interface or a union it holds for every field that returns the type and has a resolver; what the field\nitself says wins. Not for fields of the mutation or subscription type.\n\"\"\"\ndirective @cached(\n  \"How long a value is fresh, in seconds, counted from the start of its load. 0 switches caching off for the field.\"\n  maxAge: Int\n  \"How long after maxAge, in seconds, the old value is still served while one refresh runs.\"\n  staleWhileRevalidate: Int\n  \"Who waits for that refresh. Not said: BACKGROUND.\"\n  refresh: CachedRefresh\n  \"Keeps the old value until it is evicted or invalidated; after maxAge it is rebuilt in the background.\"\n  neverExpires: Boolean\n  \"How long after maxAge, in seconds, the old value is served if the load fails.\"\n  staleIfError: Int\n  \"How long null or an empty list is fresh, in seconds; at most maxAge. Not said: maxAge.\"\n  negativeMaxAge: Int\n  \"Share of maxAge, 0 to 1, by which each entry is randomly shortened so that entries do not expire together. Not said: 0.1.\"\n  jitter: Float\n  \"How eagerly a value is refreshed, by chance, shortly before maxAge (beta of XFetch). 0 switches this off. Not said: 1.\"\n  earlyRefresh: Float\n  \"Whether everybody shares the value, or each identity has its own. Not said: PUBLIC.\"\n  scope: CachedScope\n  \"\"\"\n  What the key is made of: $args, $args.id, $source.authorId, $context.locale, $selection.\n  Not said: all arguments, and $source.id where the field is not on a root type.\n  \"\"\"\n  key: [String!]\n  \"Names by which values are invalidated together, such as Movie:{$args.id}, Movie:{$result.id} or Movie:{$result[].id}.\"\n  tags: [String!]\n  \"The name of a policy from createCache({ profiles }). What is said here wins over it.\"\n  profile: String\n) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION\n\n\"\"\"\nInvalidates tags after the mutation field has succeeded and before its answer is sent.\nA tag may be made of arguments and of the result, such as Movie:{$args.id} or Movie:{$result.id}.\n\"\"\"\ndirective @invalidates(\"The tags to invalidate.\" tags: [String!]!) repeatable on FIELD_DEFINITION\n\n\"Who waits for a refresh of a stale value.\"\nenum CachedRefresh {\n  \"Nobody: every reader gets the old value while one refresh runs.\"\n  BACKGROUND\n  \"The reader who won the lease waits for the new value; all others get the old one.\"\n  FOREGROUND\n}\n\n\"Who shares a cached value.\"\nenum CachedScope {\n  \"Everybody who asks with the same key.\"\n  PUBLIC\n  \"Nobody: each identity has values of its own, and an unknown identity is not cached.\"\n  PRIVATE\n}\n";
export const INSPECTION_SDL: string = "extend type Query {\n  \"What the cache holds and does. Refused unless the server's `allow` says yes.\"\n  cacheInspection: CacheInspection!\n}\n\n\"A look into the cache. It shows states, times and counts; never values, arguments or whole keys.\"\ntype CacheInspection {\n  \"What readers met, over all fields, counted by the process that answers since it started.\"\n  stats: CacheStats!\n  \"What readers met, field by field, and the policy each field has.\"\n  fields: [CacheFieldStats!]!\n  \"\"\"\n  The entry of one key, as the store has it; null if the store has none.\n  Asking for it counts as no read and starts no load.\n  \"\"\"\n  entry(\n    \"The field, such as Query.movie.\"\n    coordinate: String!\n    \"The field's arguments; defaults of the schema are applied.\"\n    args: CacheArguments\n    \"What the key needs of the parent object, such as {id: 7}.\"\n    source: CacheArguments\n    \"What the key needs of the context, such as {locale: \\\"de\\\"}.\"\n    context: CacheArguments\n    \"The identity whose entry is meant, for fields of scope PRIVATE.\"\n    private: String\n  ): CacheEntry\n}\n\n\"An object of argument values, written as GraphQL or JSON.\"\nscalar CacheArguments\n\n\"Counts of what readers met. Every read ends in exactly one of them.\"\ntype CacheStats {\n  \"All reads.\"\n  reads: Int!\n  \"Answered from a fresh entry.\"\n  hit: Int!\n  \"Answered from a stale entry while a refresh ran.\"\n  stale: Int!\n  \"Answered from a stale entry because the load failed.\"\n  staleIfError: Int!\n  \"Loaded by this reader.\"\n  loaded: Int!\n  \"Answered by a load that another reader had started, in this process or another.\"\n  coalesced: Int!\n  \"The cache stepped aside on purpose.\"\n  bypassed: Int!\n  \"Loads started, refreshes among them.\"\n  loads: Int!\n  \"Loads that ended in an error.\"\n  failedLoads: Int!\n  \"Stores of a loaded value that were refused, because it was invalidated while it was loaded.\"\n  refusedStores: Int!\n  \"Operations that the store failed or did not answer in time.\"\n  storeFailures: Int!\n}\n\n\"One field's policy and counts.\"\ntype CacheFieldStats {\n  \"The field, such as Query.movie, or the name of a loader.\"\n  coordinate: String!\n  \"How long a value is fresh, in seconds.\"\n  maxAge: Float!\n  \"Who shares a value.\"\n  scope: CachedScope!\n  \"What readers of this field met.\"\n  stats: CacheStats!\n  \"Why reads of this field were bypassed, most frequent first.\"\n  bypasses: [CacheBypass!]!\n}\n\n\"How often the cache stepped aside for one reason.\"\ntype CacheBypass {\n  \"The reason.\"\n  reason: CacheBypassReason!\n  \"How many reads.\"\n  reads: Int!\n}\n\n\"Why the cache stepped aside.\"\nenum CacheBypassReason {\n  \"A part of the key is missing in the parent object or the context, or cannot be written into a key.\"\n  KEY_UNUSABLE\n  \"The field is PRIVATE and nobody is known to be asking.\"\n  NO_IDENTITY\n  \"The load's value cannot be stored, so everybody loads for himself for a short while.\"\n  UNCACHEABLE\n  \"A write bracket is open for the key.\"\n  WRITE_IN_PROGRESS\n  \"The store did not answer, or failed.\"\n  STORE_UNAVAILABLE\n  \"Another's load did not end within the time a reader may wait.\"\n  WAIT_TIMEOUT\n  \"The load asked for its own key, or for one whose load waits for it.\"\n  NESTED\n  \"The loader's guard said that there is no such thing, so it is null and nothing was asked.\"\n  DOES_NOT_EXIST\n  \"The request asked for values from their sources.\"\n  REQUESTED\n  \"The entry under this key was made from another input.\"\n  KEY_COLLISION\n  \"The cache is closed.\"\n  CLOSED\n}\n\n\"One entry, as the store has it.\"\ntype CacheEntry {\n  \"What the entry is.\"\n  state: CacheEntryState!\n  \"Whether its value is null or an empty list.\"\n  negative: Boolean!\n  \"Milliseconds since the load that made it began.\"\n  ageMs: Float!\n  \"Milliseconds until it is stale; negative once it is.\"\n  freshForMs: Float!\n  \"Milliseconds the load took.\"\n  loadMs: Float!\n  \"Bytes of the stored value.\"\n  valueBytes: Int!\n  \"Milliseconds until the lease on it ends; null if nobody holds one.\"\n  leaseForMs: Float\n  \"Whether its tags have been invalidated since, so that it will not be served.\"\n  outdated: Boolean!\n}\n\n\"What an entry is.\"\nenum CacheEntryState {\n  \"Being loaded for the first time.\"\n  PENDING\n  \"A value.\"\n  VALUE\n  \"The last load failed, and the next waits a short while.\"\n  FAILED\n  \"The last value could not be stored; loads pass through for a short while.\"\n  UNCACHEABLE\n  \"A write bracket is open; loads pass through and are not stored.\"\n  WRITE_IN_PROGRESS\n}\n";
