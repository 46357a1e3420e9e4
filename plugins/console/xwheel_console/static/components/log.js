// The log of a run: some sixty rows of it in the page, whatever its length, followed while it is written.
import {html, useEffect, useRef, useSignal} from "../vendor/core.js";
import {get} from "../api.js";
import {duration, number, t} from "../i18n.js";
import {useKeys} from "../keys.js";
import {link, place, setQuery} from "../router.js";
import {now, prefer, preferences} from "../store.js";
import {act, openDialog} from "./dialog.js";
import {useLogSearch} from "./logsearch.js";
import {useLog} from "./logsource.js";
import {drawn, levelOf} from "./logtext.js";
import {useLogView} from "./logview.js";
import {Copy, saveAs} from "./ui.js";

const SILENT_MS = 5000;
const MOST_SAVED = 256;

const showWhole = (text) => openDialog((close) => html`<div><pre class="whole-line" tabindex="0">${text.slice(0, 200_000)}</pre><footer><${Copy} text=${text} /><button autofocus onClick=${() => close()}>${t("action.close")}</button></footer></div>`, {label: t("log.whole"), wide: true});

/** The whole log as a file, read piece by piece. */
async function save(run) {
  const parts = [];
  let from = 1;
  await act(async () => {
    for (let turn = 0; turn < MOST_SAVED; turn += 1) {
      const piece = await get(`runs/${run.id}/log`, {from_line: from});
      parts.push(piece.content);
      if (piece.is_end || piece.next_line <= from) break;
      from = piece.next_line;
    }
    saveAs(`run-${run.id}.log`, parts.join(""));
  });
}

function Row({runId, at, text, wanted, isChosen, isMatch}) {
  const level = text === undefined ? null : levelOf(text);
  return html`<div class="row ${level ?? ""} ${isChosen ? "chosen" : ""} ${isMatch ? "match" : ""}" data-line=${at} aria-current=${isChosen ? "true" : null}>
    <a class="at" href=${link(`/runs/${runId}`, {...place.value.query, line: at})} tabindex="-1" aria-label=${t("log.line", {line: String(at)})}>${at}</a><span class="text">${text === undefined ? html`<span class="faint">…</span>` : drawn(text, wanted, showWhole)}</span></div>`;
}

/** What the log waits for, said once a second at most. */
function Waiting({log, isAlive}) {
  const {state, buffer} = log;
  if (state.error) return html`<span class="bad">⚡ ${state.error.isNetwork ? t("error.network") : state.error.message} ${t("log.again")}</span>`;
  if (!isAlive || state.isEnd) return state.isRead ? html`<span>${buffer.total ? t("log.lines", {count: buffer.total}) : t("log.none")}</span>` : null;
  if (!state.isRead) return null;
  const age = state.cameMs === null ? null : Date.now() - state.cameMs;
  now.value;
  if (!buffer.total) return html`<span>${t("log.waiting")}</span>`;
  if (age === null) return html`<span>${t("log.waitingSinceHere", {count: buffer.total})}</span>`;
  return html`<span>${age < SILENT_MS ? t("log.lines", {count: buffer.total}) : t("log.waitingSince", {age: duration(1000 * Math.floor(age / 1000))})}</span>`;
}

/** Finding, going to a line, wrapping, following, saving. */
function Bar({finder, typed, onFind, hits, hit, move, goes, onGo, total, wraps, wrap, follows, setFollow, run}) {
  const found = hits.isBusy ? t("state.loading") : hits.error ? hits.error.message : t(hits.isMore ? "log.hitsMore" : "log.hits", {at: hit.value < 0 ? "–" : number(hit.value + 1), count: hits.lines.length});
  return html`<div class="log-bar">
    <label class="filter"><span class="only-read">${t("log.find")}</span><input type="search" ref=${finder} name="find" placeholder=${t("log.find")} value=${typed.value} onInput=${(event) => { typed.value = event.target.value; }} onKeyDown=${onFind} /></label>
    <span class="hits number" role="status" data-hits=${hits.lines.length}>${typed.value && found}</span>
    <button type="button" class="small secondary" disabled=${!hits.lines.length} aria-label=${t("keys.previousMatch")} onClick=${() => move(-1)}>↑</button>
    <button type="button" class="small secondary" disabled=${!hits.lines.length} aria-label=${t("keys.nextMatch")} onClick=${() => move(1)}>↓</button>
    <form class="go" onSubmit=${onGo}><label><span class="only-read">${t("log.goto")}</span><input type="number" name="goto" min="1" max=${total || 1} placeholder=${t("log.gotoShort")} value=${goes.value} onInput=${(event) => { goes.value = event.target.value; }} /></label></form>
    <span class="filter-end">
      <button type="button" class="small secondary" aria-pressed=${wraps} onClick=${wrap}>${t("log.wrap")}</button>
      <button type="button" class="small secondary" aria-pressed=${follows.value} onClick=${() => setFollow(!follows.value)}>${t("log.follow")}</button>
      <button type="button" class="small secondary" disabled=${!total} onClick=${() => save(run)}>${t("log.save")}</button>
    </span>
  </div>`;
}

/** A log. `run` is the run; `isAlive` whether more may come; `onEnd` is called when all was read. */
export function Log({run, isAlive, onEnd}) {
  const log = useLog(run.id, {onEnd});
  const {buffer, version, need} = log;
  const finder = useRef(null), seen = useSignal(0), typed = useSignal(place.value.query.find ?? ""), goes = useSignal("");
  const wraps = Boolean(preferences.value.wrap);
  const hits = useLogSearch(run.id, typed.value, buffer, version);
  const hit = useSignal(-1);
  const total = buffer.total;
  const {scroller, rowsOf, of, pool, height, space, top, follows, onScroll, show, toEnd, isInSight} = useLogView({total, wraps, runId: run.id, startsAtEnd: !place.value.query.line});
  const chosen = Number(place.value.query.line) || null;
  useEffect(() => { if (follows.value) seen.value = total; }, [follows.value, total]);
  const shownLine = useRef(null);
  useEffect(() => { if (chosen && total && shownLine.current !== chosen) { shownLine.current = chosen; if (!isInSight(chosen)) show(chosen); follows.value = false; } if (!chosen) shownLine.current = null; }, [chosen, total > 0]);
  useEffect(() => { if (total) need(of.first + 1, of.last); }, [of.first, of.last, version]);
  useEffect(() => { hit.value = -1; }, [hits.text]);
  useEffect(() => { setQuery({find: hits.text || undefined}); }, [hits.text]);
  const move = (step) => {
    const {lines} = hits;
    if (!lines.length) return;
    let to;
    if (hit.value >= 0) to = (hit.value + step + lines.length) % lines.length;
    else { to = follows.value || step < 0 ? lines.length - 1 : lines.findIndex((line) => line >= top); if (to < 0) to = 0; }
    hit.value = to;
    show(lines[to]);
  };
  const setFollow = (on) => { if (on) { setQuery({line: undefined}); toEnd(); } else follows.value = false; };
  const wrap = () => prefer({wrap: !wraps});
  useKeys({
    f: () => setFollow(!follows.value), w: wrap, "/": () => { finder.current.focus(); finder.current.select(); }, n: () => move(1), N: () => move(-1),
    G: () => setFollow(true), "g g": () => show(1),
    Escape: () => (typed.value ? (typed.value = "", true) : false),
  });
  const onFind = (event) => {
    if (event.key === "Enter") { event.preventDefault(); move(event.shiftKey ? -1 : 1); }
    else if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); typed.value = ""; scroller.current.focus(); }
  };
  const onGo = (event) => { event.preventDefault(); const line = Number(goes.value); if (line >= 1) { setQuery({line: Math.min(line, total)}); show(line); scroller.current.focus(); } };
  const isNew = !follows.value && total > seen.value;
  const current = hits.lines[hit.value];
  const shown = [];
  for (let line = of.first + 1; line <= of.last; line += 1) shown.push(line);
  return html`<section class="log" aria-label=${t("log.label")} data-lines=${total} data-kept=${buffer.lines} data-follows=${follows.value ? "yes" : "no"}>
    <${Bar} ...${{finder, typed, onFind, hits, hit, move, goes, onGo, total, wraps, wrap, follows, setFollow, run}} />
    <div class="log-frame">
      <div class="lines ${wraps ? "wraps" : ""}" ref=${scroller} onScroll=${onScroll} tabindex="0" role="log" aria-live="off" aria-label=${t("log.label")}>
        <div class="space" style=${{height: `${space}px`}}><div class="window" style=${{height: `${height}px`}}><div class="rows" ref=${rowsOf} style=${{"--digits": String(total).length}}>
          ${shown.map((line) => html`<${Row} key=${line % pool} runId=${run.id} at=${line} text=${buffer.get(line)} wanted=${hits.text} isChosen=${line === chosen} isMatch=${line === current} />`)}</div></div></div>
      </div>
      ${isNew && html`<button type="button" class="small pill" onClick=${() => setFollow(true)}>↓ ${t("log.new", {count: total - seen.value})}</button>`}
    </div>
    <p class="log-end faint"><${Waiting} log=${log} isAlive=${isAlive} />${log.state.note && html` <span>${log.state.note}</span>`}</p>
  </section>`;
}
