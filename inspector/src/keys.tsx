import type { Polled } from "./api.js";
import { clock, count, percent } from "./format.js";
import { isKnown, keyText, linkTo, partsOfHotKey } from "./key.js";
import { Column, Empty, ExportButton, Meter, MissingNote, Name, Panel, TableBox, Waiting } from "./parts.js";
import type { Overview } from "./types.js";

/** The keys that are read most. */
export function KeysView({
  overview,
  windowText,
}: {
  readonly overview: Polled<Overview>;
  readonly windowText: string;
}) {
  const hot = overview.data?.hotKeys;
  const all = hot?.reads ?? hot?.keys.reduce((sum, { reads }) => sum + reads, 0) ?? 0;
  const hidden = hot?.keys.some((key) => !isKnown(key)) === true;
  return (
    <Panel
      title="Hot keys"
      id="keys-title"
      wide
      note={`The keys that were read most, ${windowText}. Reads are counted by key while this page is open, and for ten minutes after.`}
      actions={<ExportButton name="hot-keys" value={hot} />}
    >
      <MissingNote missing={overview.missing} of="hotKeys" />
      {hot === undefined ? (
        <Waiting polled={overview} />
      ) : hot.keys.length === 0 ? (
        <Empty>
          None yet: counting has just begun. Other processes begin with their next report, within five seconds.
        </Empty>
      ) : (
        <TableBox label="Hot keys">
          <table class="data">
            <caption class="sr-only">Hot keys, the most read one first</caption>
            <thead>
              <tr>
                <th scope="col" class="num rank">
                  #
                </th>
                <Column>Field or loader</Column>
                <Column>Key</Column>
                <Column numeric>Reads</Column>
                <Column numeric minor>
                  Share
                </Column>
              </tr>
            </thead>
            <tbody>
              {hot.keys.map((key, nth) => (
                <tr key={`${key.coordinate} ${key.digest}`}>
                  <td class="num muted">{nth + 1}</td>
                  <th scope="row">
                    <Name max={120}>{key.coordinate}</Name>
                  </th>
                  <td class="key">
                    {isKnown(key) ? (
                      <a href={linkTo(partsOfHotKey(key))} title="Look up this entry">
                        {keyText(key)}
                      </a>
                    ) : (
                      <code>{keyText(key)}</code>
                    )}
                  </td>
                  <td class="num">{count(key.reads)}</td>
                  <td class="num minor">
                    <Meter ratio={all === 0 ? 0 : key.reads / all} />
                    <span class="ratio">{percent(all === 0 ? 0 : key.reads / all)}</span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableBox>
      )}
      {hot?.since === undefined ? null : (
        <p class="note">
          {`Counted since ${clock(hot.since)}.`}
          {(hot.maxError ?? 0) > 0 ? ` Each count is too high by at most ${count(hot.maxError)}.` : ""}
        </p>
      )}
      {hidden ? (
        <p class="note">
          A digest (#) stands for a key whose arguments you may not see, that the answering process has not read, or
          that cannot be read back. `allow` grants arguments by field.
        </p>
      ) : null}
    </Panel>
  );
}
