/**
 * The hash tags in the names of copies of the clock, of which 16 are in use. Each of these 64 lies
 * in another sixty-fourth of the slots of a Redis Cluster, so that every master has its share. They
 * must be the same in all processes and releases.
 */
export const HASH_TAGS: readonly string[] =
  "10 18 113 342 29 21 3 122 69 61 72 162 50 58 153 43 11 19 112 343 28 20 2 123 68 60 73 163 51 59 152 42 12 102 111 119 133 23 1 9 173 63 70 78 52 142 49 41 13 103 110 118 132 22 0 8 172 62 71 79 53 143 48 40".split(
    " ",
  );
