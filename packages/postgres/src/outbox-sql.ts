import { checkOptionRules } from "graphql-cached/store";

/**
 * Returns the SQL of a migration that creates the outbox: two tables, and the functions
 * `watch_table`, `unwatch_table` and `invalidate_tags`. Running it again changes nothing. Needs
 * PostgreSQL 13 or newer.
 *
 * Throws `CACHED_OPTION_INVALID` if `schema` is not a plain name or `notify` is not a boolean.
 */
export function outboxSql(options: OutboxSqlOptions = {}): string {
  checkOptionRules(options, "outboxSql", {
    schema: [isSchema, EXPECTED_SCHEMA],
    notify: [(value) => typeof value === "boolean", "true or false"],
  });
  const { schema = DEFAULT_SCHEMA, notify = true } = options;
  return `${tables(schema)}\n${notification(schema, notify)}\n${functions(schema)}`;
}

/** The schema that the tables and functions are in, and the name of the notification channel. */
export const DEFAULT_SCHEMA = "graphql_cached";

/** Trigger names are made from it, and PostgreSQL cuts names at 63 bytes. */
const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,47}$/;

export const isSchema = (schema: unknown): boolean => typeof schema === "string" && SCHEMA_NAME.test(schema);
export const EXPECTED_SCHEMA = "a name of at most 48 lower-case letters, digits and _ that does not begin with a digit";

/** Options of `outboxSql`. */
export interface OutboxSqlOptions {
  /** The schema that the tables and functions are created in. Default: `graphql_cached`. */
  readonly schema?: string | undefined;
  /**
   * Whether a commit that has changed tags sends a notification. Without it, consumers poll only,
   * and commits do not queue for the lock of PostgreSQL's notification queue. Default: true.
   */
  readonly notify?: boolean | undefined;
}

const tables = (schema: string): string => `\
CREATE SCHEMA IF NOT EXISTS "${schema}";

-- One row for each tag that a transaction has changed. Both tables stay small: vacuum them early.
CREATE TABLE IF NOT EXISTS "${schema}".outbox (
  transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
  digest bytea NOT NULL, -- of the tag, which may be too long for an index
  tag text NOT NULL CHECK (tag <> ''),
  written_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (transaction_id, digest)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE IF NOT EXISTS "${schema}".consumers (
  name text PRIMARY KEY,
  -- The position: what the transactions visible in this snapshot have written has been invalidated.
  seen pg_snapshot NOT NULL DEFAULT '1:1:',
  -- The next position while its rows are invalidated page by page, and the last row of the last page.
  reading pg_snapshot,
  after_transaction_id xid8,
  after_digest bytea,
  revision bigint NOT NULL DEFAULT 0,
  leader text NOT NULL,
  leads_until timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
`;

const notification = (schema: string, notify: boolean): string => `\
CREATE OR REPLACE FUNCTION "${schema}".notify_consumers() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  IF EXISTS (SELECT FROM written) THEN
    PERFORM pg_notify('${schema}', ''); -- equal notifications of a transaction are sent once
  END IF;
  RETURN NULL;
END
$function$;

DROP TRIGGER IF EXISTS notify_consumers ON "${schema}".outbox;
${notify ? `CREATE TRIGGER notify_consumers AFTER INSERT ON "${schema}".outbox\n  REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION "${schema}".notify_consumers();\n` : ""}`;

const functions = (schema: string): string => `\
-- Has the tags invalidated when the transaction is committed. NULL and '' are no tags.
CREATE OR REPLACE FUNCTION "${schema}".invalidate_tags(VARIADIC tags text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  INSERT INTO "${schema}".outbox (digest, tag)
    SELECT sha256(convert_to(written.tag, 'UTF8')), written.tag
    FROM unnest(tags) AS written (tag) WHERE written.tag <> ''
    ON CONFLICT DO NOTHING;
END
$function$;

-- Removes what watch_table has added to a table, if anything.
CREATE OR REPLACE FUNCTION "${schema}".unwatch_table(watched regclass) RETURNS void
LANGUAGE plpgsql AS $function$
DECLARE
  table_name text := (SELECT format('%I.%I', nspname, relname) FROM pg_catalog.pg_class AS tables
    JOIN pg_catalog.pg_namespace AS schemas ON schemas.oid = relnamespace WHERE tables.oid = watched);
  handlers oid[] := '{}';
  found record;
BEGIN
  FOR found IN SELECT tgname, tgfoid FROM pg_catalog.pg_trigger WHERE tgrelid = watched AND tgname IN
    ('${schema}_insert', '${schema}_update', '${schema}_delete', '${schema}_truncate') LOOP
    handlers := handlers || found.tgfoid;
    EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, watched);
  END LOOP;
  -- Also those that a dropped table of this name has left.
  FOR found IN SELECT oid::regprocedure AS handler FROM pg_catalog.pg_proc
    WHERE pronamespace = '"${schema}"'::regnamespace AND starts_with(proname, 'on_change_')
      AND (oid = ANY (handlers) OR obj_description(oid, 'pg_proc') = table_name)
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgfoid = pg_proc.oid) LOOP
    EXECUTE 'DROP FUNCTION ' || found.handler;
  END LOOP;
END
$function$;

-- Has tags invalidated whenever rows of a table change: with the values of the old row, of the new
-- row, or of both. Replaces the templates of an earlier call. The triggers run once for a statement,
-- on the rows that it has changed. Those of partitions run for each row, since a statement that
-- names another level of the partitioned table would not fire them.
--   SELECT "${schema}".watch_table('products', 'Product:{id}', 'Category:{category_id}', 'Products');
CREATE OR REPLACE FUNCTION "${schema}".watch_table(watched regclass, VARIADIC templates text[]) RETURNS void
LANGUAGE plpgsql AS $function$
DECLARE
  table_name text := (SELECT format('%I.%I', nspname, relname) FROM pg_catalog.pg_class AS tables
    JOIN pg_catalog.pg_namespace AS schemas ON schemas.oid = relnamespace WHERE tables.oid = watched);
  handler_base text := 'on_change_' || left(encode(sha256(convert_to(table_name, 'UTF8')), 'hex'), 32);
  handler text := handler_base;
  others int := 0;
  is_by_row boolean := (SELECT relkind = 'p' OR relispartition FROM pg_catalog.pg_class WHERE oid = watched);
  place text := 'watch_table(' || coalesce(watched::text, 'NULL') || ')';
  template text;
  part text[];
  type_id oid;
  type_name text;
  type_kind "char";
  tag text;
  tags text[] := '{}';
  body text;
  change record;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = watched AND relkind IN ('r', 'p')) THEN
    RAISE EXCEPTION '%: expected a table', place;
  END IF;
  IF coalesce(cardinality(templates), 0) = 0 THEN
    RAISE EXCEPTION '%: expected at least one tag template, such as Product:{id}', place;
  END IF;
  FOREACH template IN ARRAY templates LOOP
    IF coalesce(template, '') = '' OR regexp_replace(template, '\\{[^{}]*\\}', '', 'g') ~ '[{}*]|\\$[A-Za-z_]' THEN
      RAISE EXCEPTION '%: expected a tag template such as Product:{id}, got %', place, quote_nullable(template);
    END IF;
    tag := '';
    FOR part IN SELECT regexp_matches(template, '\\{([^{}]*)\\}|([^{}]+)', 'g') LOOP
      IF part[2] IS NOT NULL THEN
        tag := tag || ' || ' || quote_literal(part[2]);
        CONTINUE;
      END IF;
      SELECT atttypid INTO type_id FROM pg_catalog.pg_attribute
        WHERE attrelid = watched AND attname = part[1] AND attnum > 0 AND NOT attisdropped;
      IF NOT FOUND THEN
        RAISE EXCEPTION '%: %: expected the name of a column in braces, got {%}; columns are %', place, template, part[1],
          (SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_catalog.pg_attribute
            WHERE attrelid = watched AND attnum > 0 AND NOT attisdropped);
      END IF;
      LOOP
        SELECT typname, typtype INTO type_name, type_kind FROM pg_catalog.pg_type WHERE oid = type_id;
        EXIT WHEN type_kind <> 'd';
        SELECT typbasetype INTO type_id FROM pg_catalog.pg_type WHERE oid = type_id;
      END LOOP;
      IF type_kind <> 'e' AND type_name NOT IN
        ('int2', 'int4', 'int8', 'numeric', 'text', 'varchar', 'bpchar', 'citext', 'uuid', 'bool') THEN
        RAISE EXCEPTION '%: %: expected a column of an integer, numeric, text, uuid, boolean or enum type, got {%} of type %; values of other types have more than one text',
          place, template, part[1], type_name;
      END IF;
      tag := tag || ' || ' || CASE type_name
        -- A cast to text would remove the padding that clients get.
        WHEN 'bpchar' THEN format('textin(bpcharout(changed.%I))', part[1])
        ELSE format('changed.%I::text', part[1])
      END;
    END LOOP;
    tags := tags || substr(tag, 5);
  END LOOP;
  body := 'INSERT INTO "${schema}".outbox (digest, tag)'
    ' SELECT sha256(convert_to(tags.tag, ''UTF8'')), tags.tag FROM (SELECT DISTINCT written.tag FROM %s AS changed,'
    || replace(format(' unnest(ARRAY[%s]) AS written (tag)', array_to_string(tags, ', ')), '%', '%%')
    || ' WHERE written.tag <> '''') AS tags ON CONFLICT DO NOTHING';

  PERFORM "${schema}".unwatch_table(watched);
  -- A table that was renamed has the function that was made for the name.
  WHILE EXISTS (SELECT FROM pg_catalog.pg_proc WHERE pronamespace = '"${schema}"'::regnamespace AND proname = handler) LOOP
    others := others + 1;
    handler := handler_base || '_' || others;
  END LOOP;
  EXECUTE format('CREATE FUNCTION "${schema}".%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER'
    ' SET search_path = pg_catalog, pg_temp AS %L', handler, format($body$
BEGIN
  CASE TG_OP
    WHEN 'INSERT' THEN %s;
    WHEN 'UPDATE' THEN %s;
    WHEN 'DELETE' THEN %s;
    WHEN 'TRUNCATE' THEN EXECUTE format(%L, TG_RELID::regclass);
  END CASE;
  RETURN NULL;
END
$body$,
    format(body, CASE WHEN is_by_row THEN '(SELECT NEW.*)' ELSE 'new_rows' END),
    format(body, CASE WHEN is_by_row THEN '(SELECT OLD.* UNION ALL SELECT NEW.*)'
      ELSE '(SELECT * FROM old_rows UNION ALL SELECT * FROM new_rows)' END),
    format(body, CASE WHEN is_by_row THEN '(SELECT OLD.*)' ELSE 'old_rows' END),
    body));
  EXECUTE format('COMMENT ON FUNCTION "${schema}".%I() IS %L', handler, table_name);
  FOR change IN SELECT * FROM (VALUES
    ('insert', 'AFTER', 'REFERENCING NEW TABLE AS new_rows'),
    ('update', 'AFTER', 'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows'),
    ('delete', 'AFTER', 'REFERENCING OLD TABLE AS old_rows'),
    ('truncate', 'BEFORE', '')
  ) AS change (operation, moment, transition) LOOP
    EXECUTE format('CREATE TRIGGER "${schema}_%1$s" %2$s %1$s ON %3$s %4$s EXECUTE FUNCTION "${schema}".%5$I()',
      change.operation, change.moment, watched,
      CASE WHEN is_by_row AND change.operation <> 'truncate' THEN 'FOR EACH ROW'
        ELSE change.transition || ' FOR EACH STATEMENT' END,
      handler);
  END LOOP;
END
$function$;
`;
