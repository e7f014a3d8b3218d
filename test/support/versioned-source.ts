/** A source whose value is a version number. It counts its loads; a load returns the version of its beginning. */
export class VersionedSource {
  version = 1;
  loads = 0;
  /** What loads wait for. */
  hold: Promise<void> | undefined;

  readonly load = async (): Promise<number> => {
    this.loads++;
    const { version } = this;
    await this.hold;
    return version;
  };
}
