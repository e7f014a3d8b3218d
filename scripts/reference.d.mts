export declare const BLOCK_NAMES: readonly string[];
export declare const withTables: (page: string) => string;
