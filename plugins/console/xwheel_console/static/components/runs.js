// What several pages show of runs: why they ended so, how long they took, what belongs together.
import {html} from "../vendor/core.js";
import {duration, has, t} from "../i18n.js";
import {killRun, rerun} from "../actions.js";
import {may} from "../store.js";
import {Menu} from "./dialog.js";
import {RunBadge, isOpen, runMs, toneOf, waitsThere} from "./ui.js";

export const STATES = ["planned", "dispatching", "running", "succeeded", "failed", "timed_out", "lost", "refused", "killed", "skipped", "cancelled"];
export const FAILED = "failed,timed_out,lost,refused";
export const ORIGINS = ["schedule", "api", "retry", "child", "recovery"];
/** What is later than this is said to be late. */
export const LATE_MS = 30_000;

const waitsToBegin = (run) => run.state === "planned" || waitsThere(run);

/** How much later than due a run began, or waits by now; null if it is in time or never began. */
export function lateMs(run, nowMs) {
  const began = run.began_ms ?? (waitsToBegin(run) ? nowMs : run.dispatched_ms);
  return began !== null && began - run.due_ms > LATE_MS ? began - run.due_ms : null;
}

/** Why a run is as it is, in words; marks such as idle:170 lose their time. Null for what went as it should. */
export function whyOf(run) {
  const code = run.reason.replace(/:\d+$/, "");
  if (!code) return null;
  for (const key of [`reason.${code}.${run.state}`, `reason.${code}`]) if (has(key)) return t(key);
  return run.reason;
}

/** State and reason of a run; how late it began, too. */
export const Outcome = ({run, nowMs}) => {
  const why = whyOf(run), late = lateMs(run, nowMs);
  return html`<${RunBadge} run=${run} />${run.kill_requested && isOpen(run) && html` <span class="faint">${t("runs.killing")}</span>`}
    ${why && html`<span class="why" data-reason=${run.reason}>${why}</span>`}
    ${run.state === "skipped" && run.skip_count > 1 && html`<span class="why">${t("runs.skips", {count: run.skip_count})}</span>`}
    ${late !== null && html`<span class="why" data-late>◷ ${t(waitsToBegin(run) ? "runs.isLate" : "runs.wasLate", {time: duration(late)})}</span>`}`;
};

/** How long a run took, as a bar next to the longest one shown. */
export function DurationBar({run, most}) {
  const ms = runMs(run);
  if (ms === null) return html`<span class="faint">–</span>`;
  return html`<span class="bar" aria-hidden="true"><i class=${toneOf(run.state)} style=${{width: `${Math.max(3, 100 * ms / Math.max(1, most))}%`}}></i></span><span class="number">${duration(ms)}</span>`;
}

/** What a run is of its fire: shard 2/8, attempt 3. */
export const partOf = (run) => [
  run.shard_total > 1 ? t("runs.shard", {at: String(run.shard_index + 1), all: String(run.shard_total)}) : null,
  run.attempt > 1 ? t("runs.attempt", {at: String(run.attempt)}) : null,
].filter(Boolean).join(", ");

/** Kill and Run again of a run, where the caller may. */
export const mayKill = (run) => isOpen(run) && may("run", run.group_id);
export const mayRerun = (run) => may("run", run.group_id);
export const RunMenu = ({run, more = []}) => html`<${Menu} label=${t("runs.menu", {id: String(run.id)})} items=${[
  {label: t("action.log"), href: `#/runs/${run.id}`},
  mayRerun(run) ? {label: t("action.rerun"), run: () => rerun(run)} : null,
  mayKill(run) ? {label: t("action.kill"), isDangerous: true, run: () => killRun(run)} : null,
  ...more,
]} />`;
export const JobLink = ({run}) => html`<a href="#/jobs/${run.job_id}"><bdi>${run.job_name}</bdi></a>`;
