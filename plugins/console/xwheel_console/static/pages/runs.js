// Runs: find those that failed, see why, run them again, end them, and see what ran at the same time.
import {html, useEffect, useSignal} from "../vendor/core.js";
import {get, url} from "../api.js";
import {batchRuns, rerun} from "../actions.js";
import {duration, t} from "../i18n.js";
import {go, place, setQuery} from "../router.js";
import {may, now, useLoad} from "../store.js";
import {note} from "../components/dialog.js";
import {Choice, Filters, Search, Table, usePages} from "../components/list.js";
import {RangeChoice, rangeOf} from "../components/range.js";
import {DurationBar, JobLink, ORIGINS, Outcome, RunMenu, STATES, FAILED, mayKill, mayRerun, partOf, whyOf} from "../components/runs.js";
import {Timeline} from "../components/timeline.js";
import {Time, runMs} from "../components/ui.js";

const NAMES = ["job", "group", "state", "range", "from", "to", "origin", "address", "message", "longer", "chain", "fire"];
const SLOW_MS = [1000, 10_000, 60_000, 600_000, 3_600_000];
const whole = (value) => (/^\d{1,15}$/.test(value ?? "") ? Number(value) : undefined);

/** The filters of the API that an address names; what is no number or no state is left out. */
export function filtersOf(query, nowMs, range) {
  return {
    job_id: whole(query.job), group_id: whole(query.group), chain_id: whole(query.chain), root_id: whole(query.fire),
    state: (query.state ?? "").split(",").filter((one) => STATES.includes(one)),
    origin: ORIGINS.includes(query.origin) ? query.origin : undefined,
    address: query.address && !/\s/.test(query.address) ? query.address.slice(0, 255) : undefined,
    message: query.message ? query.message.slice(0, 500) : undefined, min_duration_ms: SLOW_MS.includes(whole(query.longer)) ? whole(query.longer) : undefined,
    ...rangeOf(query, nowMs, range),
  };
}

/** A job found by a part of its name: the address keeps its id. */
function JobChoice() {
  const {query} = place.value;
  const typed = useSignal("");
  const chosen = useLoad((abort) => (whole(query.job) ? get(`jobs/${query.job}`, {}, {abort}).catch(() => null) : Promise.resolve(null)), [query.job]);
  const found = useLoad((abort) => (typed.value.trim() ? get("jobs", {name_contains: typed.value.trim().slice(0, 128), limit: 20}, {abort}) : Promise.resolve({items: []})), [typed.value]);
  const shown = query.job ? (chosen.data?.id === whole(query.job) ? chosen.data.name : `#${query.job}`) : "";
  useEffect(() => { typed.value = ""; }, [query.job]);
  const pick = (event) => {
    const text = event.target.value;
    const job = found.data?.items.find((one) => one.name === text);
    if (job) setQuery({job: job.id});
    else if (!text) setQuery({job: undefined});
    else typed.value = text;
  };
  const take = async (event) => {
    const text = typed.value.trim();
    if (event.key !== "Enter" || !text) return;
    event.preventDefault();
    const {items} = await get("jobs", {name_contains: text.slice(0, 128), limit: 1});
    if (items.length) setQuery({job: items[0].id});
    else note(t("runs.noJob", {name: text}), {tone: "bad"});
  };
  return html`<label class="filter">${t("runs.job")}<input type="search" name="job" list="jobs-found" autocomplete="off" value=${typed.value || shown} onInput=${pick} onKeyDown=${take} /></label>
    <datalist id="jobs-found">${found.data?.items.map((job) => html`<option value=${job.name}>${job.app_name ?? ""}</option>`)}</datalist>`;
}

function StateChoice() {
  const {query} = place.value;
  const options = [[FAILED, t("runs.allFailed")], ["planned,dispatching,running", t("runs.allOpen")], ...STATES.map((one) => [one, t(`state.${one}`)])];
  const isKnown = !query.state || options.some(([value]) => value === query.state);
  return html`<${Choice} name="state" label=${t("filter.state")} options=${isKnown ? options : [...options, [query.state, query.state.split(",").map((one) => (STATES.includes(one) ? t(`state.${one}`) : one)).join(", ")]]} />`;
}

const columnsOf = (most) => [
  {key: "id", label: t("runs.id"), className: "tight", cell: (run) => html`<a href="#/runs/${run.id}">#${run.id}</a>`, csv: (run) => run.id},
  {key: "job", label: t("runs.job"), className: "clip-name", cell: (run) => html`<${JobLink} run=${run} /><span class="under"><bdi>${run.app_name}</bdi></span>`, csv: (run) => run.job_name},
  {key: "due", label: t("runs.due"), className: "tight", cell: (run) => html`<${Time} ms=${run.due_ms} />`, csv: (run) => new Date(run.due_ms).toISOString()},
  {key: "state", label: t("filter.state"), cell: (run) => html`<${Outcome} run=${run} nowMs=${now.value} />`, csv: (run) => run.state},
  {key: "why", label: t("runs.why"), optional: "off", cell: (run) => whyOf(run) ?? "–", csv: (run) => run.reason},
  {key: "took", label: t("runs.took"), className: "tight", cell: (run) => html`<${DurationBar} run=${run} most=${most} />`, csv: (run) => runMs(run)},
  {key: "address", label: t("runs.address"), className: "wide-only", optional: "on", cell: (run) => run.address ? html`<span class="number" title=${run.address}>${run.address.replace(/^https?:\/\//, "")}</span>` : html`<span class="faint">–</span>`, csv: (run) => run.address},
  {key: "origin", label: t("runs.trigger"), optional: "on", className: "tight wide-only", cell: (run) => html`${t(`origin.${run.origin}`)}<span class="under">${partOf(run)}</span>`, csv: (run) => run.origin},
  {key: "message", label: t("runs.message"), optional: "on", className: "clip", cell: (run) => html`<bdi>${run.message.slice(0, 600)}</bdi>`, csv: (run) => run.message},
  {key: "menu", label: t("action.menu"), className: "tight", cell: (run) => html`<a href="#/runs/${run.id}" class="small">${t("action.log")}</a> <${RunMenu} run=${run} />`},
];

function Batch({runs, clear}) {
  const ending = runs.filter(mayKill), again = runs.filter(mayRerun);
  return html`${again.length === runs.length && html`<button class="small" onClick=${() => batchRuns("rerun", runs, clear)}>${t("action.rerun")}</button>`}
    ${ending.length > 0 && html`<button class="small danger" onClick=${() => batchRuns("kill", ending, clear)}>${t("batch.killRuns", {count: ending.length})}</button>`}
    ${runs.length === 2 && html`<button class="small secondary" onClick=${() => { const [one, other] = [...runs].sort((a, b) => a.id - b.id); go(`/runs/compare/${one.id}/${other.id}`); }}>${t("action.compare")}</button>`}`;
}

function List({filters}) {
  const pages = usePages("runs", filters, {when: (event) => event.kind === "run" && (event.id === null || !filters.job_id || event.job_id === filters.job_id) && (event.id === null || !filters.group_id || event.group_id === filters.group_id)});
  const most = Math.max(1, ...pages.items.map((run) => runMs(run) ?? 0));
  const canRun = may("run");
  return html`<${Table} name="runs" label=${t("nav.runs")} pages=${pages} columns=${columnsOf(most)} rowHref=${(run) => `#/runs/${run.id}`}
    rowKeys=${{l: (run) => { go(`/runs/${run.id}`); }, r: (run) => (mayRerun(run) ? (rerun(run), true) : false)}}
    batch=${(runs, clear) => html`<${Batch} runs=${runs} clear=${clear} canRun=${canRun} />`} empty=${t("runs.none")} />`;
}

export default function Runs({query}) {
  const groups = useLoad((abort) => get("groups", {limit: 1000}, {abort}), [], {when: (event) => event.kind === "group"});
  const minute = Math.floor(now.value / 60_000) * 60_000;
  const isTimeline = query.view === "timeline";
  // bars of weeks are too thin to be told apart; a chain is shown whole
  const range = isTimeline && !query.chain && !query.fire ? "24h" : undefined;
  const filters = filtersOf(query, minute, range);
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.runs")}</h1><span class="actions">
      <button type="button" class="small secondary" aria-pressed=${isTimeline} onClick=${() => setQuery({view: isTimeline ? undefined : "timeline"}, {replace: false})}>${t(isTimeline ? "runs.asList" : "runs.asTimeline")}</button>
      <a class="small" href=${url("runs/csv", filters).href} download="runs.csv">${t("runs.csv")}</a></span></div>
    <${Filters} names=${NAMES}>
      <${JobChoice} /><${StateChoice} /><${RangeChoice} fallback=${range} />
      <${Choice} name="group" label=${t("filter.group")} options=${(groups.data?.items ?? []).map((group) => [group.id, group.title || group.app_name])} />
      <${Choice} name="origin" label=${t("runs.trigger")} options=${ORIGINS.map((one) => [one, t(`origin.${one}`)])} />
      <${Choice} name="longer" label=${t("runs.longer")} options=${SLOW_MS.map((ms) => [ms, duration(ms)])} />
      <${Search} name="message" label=${t("runs.message")} maxlength="500" /><${Search} name="address" label=${t("runs.address")} />
    <//>
    ${isTimeline ? html`<${Timeline} filters=${filters} />` : html`<${List} filters=${filters} />`}`;
}
