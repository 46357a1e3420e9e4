// The command palette: finds pages, jobs and runs, and does things with them.
import {html, useEffect, useRef, useSignal} from "../vendor/core.js";
import {get, session} from "../api.js";
import {LANGUAGES, language, t} from "../i18n.js";
import {go} from "../router.js";
import {counts, may, prefer, preferences} from "../store.js";
import {openDialog} from "./dialog.js";
import {runJob, startJob, stopJob} from "../actions.js";

const PLACES = [["dashboard", "/"], ["jobs", "/jobs"], ["runs", "/runs"], ["nodes", "/nodes"], ["executors", "/executors"], ["alarms", "/alarms"],
  ["calendars", "/calendars"], ["audit", "/audit", "admin"], ["accounts", "/accounts", "admin"], ["system", "/system"], ["me", "/me"], ["wall", "/wall"], ["welcome", "/welcome"]];

function fixed() {
  const found = PLACES.filter(([, , needs]) => !needs || may(needs)).map(([name, to]) => ({words: t("palette.goto", {page: t(`nav.${name}`)}), run: () => go(to)}));
  if (may("edit")) found.push({words: t("palette.newJob"), run: () => go("/jobs/new")});
  found.push({words: t("palette.failed"), run: () => go("/runs", {state: "failed,lost,timed_out"})});
  found.push({words: t("palette.theme"), run: () => prefer({theme: {auto: "light", light: "dark", dark: "auto"}[preferences.value.theme]})});
  for (const [key, name] of Object.entries(LANGUAGES)) if (key !== language.value) found.push({words: name, run: () => prefer({language: key})});
  if (may("run", null)) {
    found.push(counts.value?.paused_since_ms
      ? {words: t("resume.action"), run: () => import("./shell.js").then((shell) => shell.resumeAll())}
      : {words: t("pause.action"), run: () => import("./shell.js").then((shell) => shell.pauseAll())});
  }
  if (session.value?.account_id) found.push({words: t("menu.out"), run: () => import("./shell.js").then((shell) => shell.signOut())});
  return found;
}

function ofJob(job) {
  const place = `${job.app_name || ""}`;
  const found = [{words: t("palette.job", {name: job.name}), hint: place, run: () => go(`/jobs/${job.id}`), name: job.name}];
  if (may("run", job.group_id)) {
    found.push({words: t("palette.runJob", {name: job.name}), hint: place, run: () => runJob(job)});
    found.push(job.enabled ? {words: t("palette.stopJob", {name: job.name}), hint: place, run: () => stopJob(job)} : {words: t("palette.startJob", {name: job.name}), hint: place, run: () => startJob(job)});
  }
  found.push({words: t("palette.runsOf", {name: job.name}), hint: place, run: () => go("/runs", {job: job.id})});
  if (may("edit", job.group_id)) found.push({words: t("palette.editJob", {name: job.name}), hint: place, run: () => go(`/jobs/${job.id}/edit`)});
  return found.map((item) => ({...item, name: job.name}));
}

/** Whether each letter of what was typed stands in a text, in that order; how well, the smaller the better. */
export function score(text, typed) {
  const whole = text.toLowerCase(), wanted = typed.toLowerCase().trim();
  if (!wanted) return 0;
  const at = whole.indexOf(wanted);
  if (at >= 0) return at;
  let from = -1, gaps = 0;
  for (const letter of wanted.replaceAll(" ", "")) {
    const next = whole.indexOf(letter, from + 1);
    if (next < 0) return null;
    gaps += next - from - 1;
    from = next;
  }
  return 1000 + gaps;
}

/** Jobs whose name holds what was typed; or what is left of it without the words of an action around a name. */
async function findJobs(text, abort) {
  const words = text.split(/\s+/);
  const tries = new Set([text, words.slice(1).join(" "), words.slice(1, -1).join(" ")]);
  for (const wanted of tries) {
    if (!wanted && text) continue;
    const {items} = await get("jobs", {name_contains: wanted, limit: 8}, {abort});
    if (items.length || !text) return items;
  }
  return [];
}

/** By the name of the job first: to open it comes before what else can be done with it, unless the words ask for that. */
function rankOf(item, typed) {
  const byWords = score(`${item.words} ${item.hint ?? ""}`, typed);
  const byName = item.name === undefined ? null : score(item.name, typed);
  return byName === null || byWords === 0 ? byWords : Math.min(byName, byWords);
}

function Palette({close, text}) {
  const typed = useSignal(text), jobs = useSignal([]), at = useSignal(0), list = useRef(null);
  useEffect(() => {
    const text = typed.value.trim();
    const abort = new AbortController();
    const wait = setTimeout(async () => {
      try {
        const isNumber = /^#?\d{1,15}$/.test(text);
        const number = Number(text.replace("#", ""));
        const [named, run] = await Promise.all([
          findJobs(text, abort.signal),
          isNumber ? get(`runs/${number}`, {}, {abort: abort.signal}).catch(() => null) : null,
        ]);
        jobs.value = [...(run ? [{words: t("palette.run", {id: run.id, name: run.job_name}), run: () => go(`/runs/${run.id}`)}] : []), ...named.flatMap(ofJob)];
      } catch { /* what is fixed is there still */ }
    }, text ? 40 : 0);
    return () => { clearTimeout(wait); abort.abort(); };
  }, [typed.value]);
  // "run mail" finds "mail" among jobs only if the words of the action are matched too
  const found = [...jobs.value, ...fixed()].map((item, order) => ({item, order, rank: rankOf(item, typed.value)})).filter(({rank}) => rank !== null)
    .sort((one, other) => one.rank - other.rank || one.order - other.order).slice(0, 40).map(({item}) => item);
  const to = Math.min(at.value, Math.max(0, found.length - 1));
  const choose = (item) => { close(); item?.run(); };
  const onKey = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); at.value = (to + (event.key === "ArrowDown" ? 1 : found.length - 1)) % Math.max(1, found.length); list.current?.children[at.value]?.scrollIntoView({block: "nearest"}); }
    else if (event.key === "Enter") { event.preventDefault(); choose(found[to]); }
  };
  return html`<div class="palette">
    <input type="text" role="combobox" autocomplete="off" spellcheck="false" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${found.length ? `palette-${to}` : null} aria-label=${t("palette.open")} placeholder=${t("palette.hint")} autofocus value=${typed.value}
      onInput=${(event) => { typed.value = event.target.value; at.value = 0; }} onKeyDown=${onKey} />
    <ul id="palette-list" role="listbox" aria-label=${t("palette.found")} ref=${list}>${found.map((item, index) => html`<li id="palette-${index}" role="option" aria-selected=${index === to} onClick=${() => choose(item)} onPointerMove=${() => { at.value = index; }}>${item.words} ${item.hint && html`<span class="faint">${item.hint}</span>`}</li>`)}</ul>
    ${!found.length && html`<p class="faint" role="status">${t("palette.none")}</p>`}
  </div>`;
}

let isOpen = false;
/** Open it, with what was typed already. */
export async function openPalette(text = "") {
  if (isOpen) return;
  isOpen = true;
  await openDialog((close) => html`<${Palette} close=${close} text=${text} />`, {label: t("palette.open"), wide: true, isHigh: true});
  isOpen = false;
}
