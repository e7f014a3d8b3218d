import { describe, expect, it } from "vitest";
import { type ModeChange, type ModeSetting, Modes } from "../../../src/core/tier/shared/modes.js";

const setting = (
  mode: ModeSetting["mode"],
  coordinate: string | undefined = undefined,
  sequence = 1,
  setAt = 0,
): ModeSetting => ({ coordinate, mode, sequence, setAt, by: undefined });

describe("Modes", () => {
  it("returns the initial mode until settings are known, and then that with less use of the cache", () => {
    const modes = new Modes("off");
    expect([modes.of("a"), modes.isUnrestricted, modes.areAllOn]).toEqual(["off", false, false]);
    modes.adopt([]);
    expect([modes.of("a"), modes.isUnrestricted, modes.areAllOn]).toEqual(["on", true, true]);
    modes.adopt([setting("observe"), setting("off", "a"), setting("on", "b")]);
    expect(["a", "b", "c"].map((name) => modes.of(name))).toEqual(["off", "observe", "observe"]);
    expect(["a", "b"].map((name) => modes.reasonOf(name))).toEqual(["MODE_OFF", "MODE_OBSERVE"]);
    modes.adopt([setting("on", undefined, 2)]);
    expect(["a", "b", "c"].map((name) => modes.of(name))).toEqual(["off", "on", "on"]);
    expect([modes.isUnrestricted, modes.reasonOf("b")]).toEqual([false, undefined]);
  });

  it("keeps a setting until it sees one with a larger sequence", () => {
    const modes = new Modes();
    modes.adopt([setting("off", "a", 5)]);
    modes.adopt([setting("on", "a", 4)]);
    modes.adopt([]);
    expect(modes.of("a")).toBe("off");
    modes.adopt([setting("on", "a", 6)]);
    expect([modes.of("a"), modes.isUnrestricted]).toEqual(["on", true]);
  });

  it("reports each change once, and no setting that changes nothing", () => {
    const changes: ModeChange[] = [];
    const modes = new Modes("observe", (change) => changes.push(change));
    modes.adopt([setting("observe"), setting("on", "a")]);
    expect([changes, modes.changeCount]).toEqual([[], 0]);
    modes.adopt([setting("off", undefined, 2), setting("off", "a", 2)]);
    modes.adopt([setting("off", undefined, 3)]);
    expect(changes).toEqual([
      { coordinate: "a", previous: "on", mode: "off" },
      { coordinate: undefined, previous: "observe", mode: "off" },
    ]);
    expect(modes.changeCount).toBe(1);
  });

  it("lets every read look up its mode once the cache is closed, whatever is set afterwards", () => {
    const modes = new Modes();
    modes.close();
    modes.adopt([setting("off", "a")]);
    modes.adopt([setting("on", "a", 2)]);
    expect([modes.isUnrestricted, modes.areAllOn]).toEqual([false, true]);
  });

  it("lists that of everything first, and says when a mode was set", () => {
    const modes = new Modes();
    modes.adopt([setting("off", "b"), setting("off", "a"), setting("on", undefined, 1, 1_500)]);
    expect(modes.settings.map(({ coordinate }) => coordinate)).toEqual([undefined, "a", "b"]);
    expect(modes.settings[0]?.setAt).toBe(1_500);
  });
});
