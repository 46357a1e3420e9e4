// Alarms in words: what happened, what became of it, and through what.
import {html} from "../../vendor/core.js";
import {duration, has, t} from "../../i18n.js";
import {PauseMark} from "../../components/ui.js";

export const KINDS = ["failed", "lost", "refused", "skipped", "not_run", "still_running", "schedule_error"];
const TONES = {recovered: "good", test: "calm", skipped: "calm", lost: "lost", not_run: "busy", still_running: "busy"};
const ICONS = {recovered: "✓", test: "·", skipped: "⤼", lost: "⚡", not_run: "◷", still_running: "◐", refused: "⊘"};
export const Kind = ({of}) => html`<span class="badge ${TONES[of] ?? "bad"}" data-kind=${of}><span aria-hidden="true">${ICONS[of] ?? "✕"}</span> ${t(`alarm.kind.${of}`)}</span>`;

const STATES = {new: ["…", "calm"], held: [html`<${PauseMark} />`, "calm"], merged: ["∑", "calm"], told: ["✓", "good"], dropped: ["⊗", "calm"], waiting: ["◷", "calm"], sent: ["✓", "good"], failed: ["✕", "bad"]};
const Mark = ({of, words}) => html`<span class="badge ${STATES[of]?.[1] ?? "calm"}" data-state=${of}><span aria-hidden="true">${STATES[of]?.[0] ?? "·"}</span> ${words}</span>`;
/** What became of an alarm. */
export const State = ({of}) => html`<${Mark} of=${of} words=${t(`alarm.state.${of}`)} />`;
/** What became of an attempt to tell one. */
export const Attempt = ({of}) => html`<${Mark} of=${of} words=${t(`alarm.attempt.${of}`)} />`;

/** A reason of a run or of an alarm in words, and as it is where there are none. */
export function reasonWords(code) {
  if (!code) return "";
  const long = /^for (\d+) s(, waiting on its executor)?$/.exec(code);
  if (long) return t(long[2] ? "alarm.waitsFor" : "alarm.longFor", {time: duration(Number(long[1]) * 1000)});
  if (has(`alarm.kind.${code}`)) return t(`alarm.kind.${code}`);
  return has(`alarm.reason.${code}`) ? t(`alarm.reason.${code}`) : code;
}
export const noteWords = (note) => (has(`alarm.note.${note}`) ? t(`alarm.note.${note}`) : note);
