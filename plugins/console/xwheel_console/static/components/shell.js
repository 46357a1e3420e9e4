// What stands around every page: the menu with live counts, search, zone, language, theme, and banners.
import {html, useEffect, useSignal} from "../vendor/core.js";
import {away, del, put, session} from "../api.js";
import {LANGUAGES, ago, language, number, t, zoneShown} from "../i18n.js";
import {useKeys} from "../keys.js";
import {later, loadRest, openPalette} from "../later.js";
import {go, place} from "../router.js";
import {counts, heardMs, may, now, otherWho, prefer, preferences} from "../store.js";
import {Menu, act, confirmed, notes, openDialog} from "./dialog.js";
import {PauseMark, Time} from "./ui.js";

const MENU = [
  ["dashboard", "/", "◫"], ["jobs", "/jobs", "☰"], ["runs", "/runs", "▤"], ["nodes", "/nodes", "⬡"], ["executors", "/executors", "⚙"],
  ["alarms", "/alarms", "♪", "read"], ["calendars", "/calendars", "▦"], ["audit", "/audit", "✎", "admin"], ["accounts", "/accounts", "☺", "admin"], ["system", "/system", "ⓘ"],
];

function count(name) {
  const of = counts.value;
  if (!of) return null;
  if (name === "runs") return html`${of.failed_24h > 0 && html`<span class="count bad" title=${t("count.failed", {count: of.failed_24h})}>${number(of.failed_24h)}<span class="only-read"> ${t("count.failedShort")}</span></span>`}${of.running > 0 && html`<span class="count busy" title=${t("count.running", {count: of.running})}>${number(of.running)}<span class="only-read"> ${t("count.runningShort")}</span></span>`}`;
  if (name === "nodes" && of.nodes_away > 0) return html`<span class="count bad" title=${t("count.away", {count: of.nodes_away})}>${number(of.nodes_away)}<span class="only-read"> ${t("count.awayShort")}</span></span>`;
  return null;
}

const showKeys = async () => (await later.keyHelp())?.();
const showLog = () => openDialog(() => html`<ol class="log-of-notes">${[...notes.value].reverse().map((item) => html`<li class=${item.tone}><${Time} ms=${item.atMs} /> ${item.href ? html`<a href=${item.href}>${item.text}</a>` : item.text}</li>`)}${!notes.value.length && html`<li class="faint">${t("notes.none")}</li>`}</ol>`, {label: t("notes.title")});

export async function signOut() {
  await act(() => del("session"));
  try { localStorage.removeItem("xwheel.known"); } catch { /* nothing is kept */ }
  session.value = null;
  location.assign(new URL("#/login", document.baseURI));
  location.reload();
}

const nextTheme = () => prefer({theme: {auto: "light", light: "dark", dark: "auto"}[preferences.value.theme]});

export async function pauseAll() {
  const said = await confirmed({title: t("pause.title"), body: html`<p>${t("pause.body")}</p>`, action: t("pause.action"), isDangerous: true, asksReason: true});
  if (said) await act(() => put("schedule/pause", undefined, said), {done: t("pause.done")});
}
export const resumeAll = () => act(() => del("schedule/pause"), {done: t("resume.done")});

function Banners() {
  const of = counts.value;
  const age = away.value === null ? null : (now.value, Date.now() - away.value);
  return html`<div class="banners">
    ${otherWho.value && html`<div class="banner bad" role="alert" data-banner="who">${t("banner.who", {name: otherWho.value})} <button class="small" onClick=${() => location.reload()}>${t("banner.reload")}</button></div>`}
    ${age !== null && html`<div class="banner bad" role="status" data-banner="away">⚡ ${t("banner.away", {age: ago(heardMs.value ?? away.value, Date.now())})}</div>`}
    ${of?.paused_since_ms && html`<div class="banner" role="status" data-banner="paused"><${PauseMark} /> ${t("banner.paused")} <${Time} ms=${of.paused_since_ms} />${may("run", null) && html` <button class="small" onClick=${resumeAll}>${t("resume.action")}</button>`}</div>`}
    ${of?.nodes_away > 0 && html`<div class="banner bad" role="status" data-banner="nodes">⚡ <a href="#/nodes">${t("count.away", {count: of.nodes_away})}</a></div>`}
    ${of?.late > 0 && html`<div class="banner" role="status" data-banner="late">◷ <a href="#/runs?state=planned">${t("count.late", {count: of.late})}</a></div>`}
    ${session.value?.must_change && html`<div class="banner" role="status" data-banner="password"><a href="#/me">${t("banner.password")}</a></div>`}
  </div>`;
}

const REST_MS = 1000;

export function Shell({children, added}) {
  const isWide = useSignal(false);
  const {path} = place.value;
  useEffect(() => { isWide.value = false; }, [path]);
  useEffect(() => { const wait = setTimeout(loadRest, REST_MS); return () => clearTimeout(wait); }, []);
  useKeys({
    "Mod+k": () => openPalette(), "/": () => openPalette(), "?": showKeys,
    "g d": () => go("/"), "g j": () => go("/jobs"), "g r": () => go("/runs"), "g n": () => go("/nodes"), "g e": () => go("/executors"), "g a": () => go("/alarms"),
  });
  const isAt = (to) => (to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`));
  const entries = [...MENU.map(([name, to, icon, needs]) => ({name, to, icon, needs, label: t(`nav.${name}`)})),
    ...(added?.menu ?? []).map((item) => ({name: `${item.plugin}.${item.label}`, to: item.to, icon: item.icon ?? "◇", needs: item.permission, label: t(`${item.plugin}.${item.label}`)}))];
  const who = session.value;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("#main h1")?.focus(); }}>${t("nav.skip")}</a>
  <div class="shell ${isWide.value ? "open" : ""}">
    <nav class="side" aria-label=${t("nav.label")}>
      <a class="brand" href="#/"><img src="icon.svg" alt="" width="24" height="24" /> <span>xwheel</span></a>
      <ul>${entries.filter((item) => !item.needs || may(item.needs)).map((item) => html`<li><a href="#${item.to}" aria-current=${isAt(item.to) ? "page" : null} data-nav=${item.name}><span class="icon" aria-hidden="true">${item.icon}</span> <span class="nav-words">${item.label}</span> ${count(item.name)}</a></li>`)}</ul>
    </nav>
    <div class="main">
      <header class="top">
        <button class="small secondary burger" aria-expanded=${isWide.value} aria-label=${t("nav.label")} onClick=${() => { isWide.value = !isWide.value; }}>☰</button>
        <button class="small secondary search" onClick=${() => openPalette()}><span>${t("palette.open")}</span> <kbd>${t("keys.mod")}K</kbd></button>
        <span class="top-end">
          <a class="zone faint" href="#/me" title=${t("zone.title")}>${zoneShown()}</a>
          <label class="only-read" for="language">${t("login.language")}</label>
          <select id="language" class="small" onChange=${(event) => prefer({language: event.target.value})}>${Object.entries(LANGUAGES).map(([key, name]) => html`<option value=${key} selected=${key === language.value}>${name}</option>`)}</select>
          <button class="small secondary" aria-label=${t("theme.label", {theme: t(`theme.${preferences.value.theme}`)})} title=${t(`theme.${preferences.value.theme}`)} data-action="theme" onClick=${nextTheme}>${{auto: "◐", light: "☀", dark: "☾"}[preferences.value.theme]}</button>
          <${Menu} label=${t("menu.user", {name: who?.display_name || who?.name || ""})} items=${[
    {label: t("nav.me"), href: "#/me"}, {label: t("notes.title"), run: showLog}, {label: t("keys.title"), run: showKeys},
    {label: t("nav.wall"), href: "#/wall"}, {label: t("nav.welcome"), href: "#/welcome"},
    who?.account_id ? {label: t("menu.out"), run: signOut} : null,
  ]}>${who?.display_name || who?.name}<//>
        </span>
      </header>
      <${Banners} />
      <main id="main">${children}</main>
    </div>
  </div>`;
}
