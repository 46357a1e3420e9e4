// P19: how this node fares, its plugins, its version, what it is made of; and the pause of all schedules.
import {html} from "../vendor/core.js";
import {get} from "../api.js";
import {byName, dateTime, has, number, t} from "../i18n.js";
import {link} from "../router.js";
import {counts, may, useLoad} from "../store.js";
import {Health} from "../components/health.js";
import {pauseAll, resumeAll} from "../components/shell.js";
import {Badge, Facts, Panel, Tabs, Time} from "../components/ui.js";
import {Act} from "../components/dialog.js";

const kindOf = (kind) => { const key = `plugin.kind.${kind.replaceAll(" ", "_")}`; return has(key) ? t(key) : kind; };

function Registered({of}) {
  const bad = of.health && !of.health.ok;
  return html`<li data-registers=${of.name}>${kindOf(of.kind)} <strong>${of.name}</strong> ${of.health && html`<${Badge} state=${bad ? "error" : "ok"} /> <span class="faint">${of.health.queued > 0 ? `${t("plugin.queued", {count: of.health.queued})} ` : ""}${of.health.failures > 0 ? `${t("plugin.failures", {count: of.health.failures})} ` : ""}${of.health.last_answer}</span>`}</li>`;
}

function Plugins() {
  const load = useLoad((abort) => get("plugins", {}, {abort}), []);
  const list = [...(load.data?.items ?? [])].sort((one, other) => byName(one.name, other.name));
  return html`<${Panel} of=${load} isEmpty=${!list.length} empty=${t("plugin.none")}><p class="faint">${t("plugin.help")}</p>${list.map((plugin) => html`<article class="card" key=${plugin.name} data-plugin=${plugin.name}>
    <h2>${plugin.name} <span class="faint">${plugin.version}</span> <${Badge} state=${plugin.error ? "error" : plugin.enabled ? "started" : "stopped"} words=${t(plugin.error ? "plugin.broken" : plugin.enabled ? "plugin.on" : "plugin.off")} /></h2>
    ${plugin.error && html`<p class="failure">${plugin.error}</p>`}
    <${Facts} items=${[[t("plugin.distribution"), plugin.distribution], [t("plugin.module"), html`<code>${plugin.module}</code>`]]} />
    ${plugin.registers.length > 0 && html`<ul class="plain">${plugin.registers.map((one) => html`<${Registered} key=${`${one.kind} ${one.name}`} of=${one} />`)}</ul>`}
    ${Object.keys(plugin.options).length > 0 && html`<details><summary>${t("alarm.options")}</summary><pre class="diff">${JSON.stringify(plugin.options, null, 2)}</pre></details>`}</article>`)}<//>`;
}

async function licences(abort) {
  const answer = await fetch(new URL("vendor/LICENSES.txt", document.baseURI), {signal: abort});
  if (!answer.ok) throw new Error(`vendor/LICENSES.txt: ${answer.status}`);
  return answer.text();
}

function Schedules() {
  const load = useLoad((abort) => get("schedule/pause", {}, {abort}), [], {when: (event) => event.kind === "pause"});
  const since = load.data?.paused_since_ms ?? null;
  const done = (work) => async () => { await work(); load.reload(); };
  return html`<section class="card" data-paused=${since !== null}><h2>${t("system.schedules")}</h2><${Panel} of=${load}>
    <p>${since === null ? html`<${Badge} state="started" words=${t("system.firing")} />` : html`<${Badge} state="stopped" words=${t("system.paused")} /> <${Time} ms=${since} />`}</p>
    ${may("run", null) && (since === null ? html`<${Act} class="danger" run=${done(pauseAll)}>${t("pause.action")}<//>` : html`<${Act} run=${done(resumeAll)}>${t("resume.action")}<//>`)}<//></section>`;
}

function About() {
  const manifest = useLoad((abort) => get("console/manifest", {}, {abort}), []);
  const overview = useLoad((abort) => get("overview", {}, {abort}), []);
  const texts = useLoad(licences, []);
  const of = overview.data;
  return html`<${Panel} of=${manifest}><${Facts} items=${[[t("system.version"), manifest.data?.version], [t("system.clock"), counts.value ? dateTime(Date.now()) : null]]} /><//>
    <${Panel} of=${overview}>${of && html`<${Facts} items=${["groups", "executors", "jobs", "scheduled_jobs", "planned_runs", "open_runs"].map((name) => [t(`system.${name}`), number(of[name])])} />`}<//>
    <p><a href="docs">${t("system.docs")}</a> · <a href="api/v1/openapi.json">${t("system.openapi")}</a></p>
    <h2>${t("system.notices")}</h2><p class="faint">${t("system.noticesHelp")}</p>
    <${Panel} of=${texts}><pre class="diff" tabindex="0" role="region" aria-label=${t("system.notices")} data-licences>${texts.data}</pre><//>`;
}

const VIEWS = {health: () => html`<${Schedules} /><h2>${t("health.title")}</h2><${Health} isOpen />`, plugins: Plugins, about: About};

export default function System({tab = "health"}) {
  const current = tab in VIEWS ? tab : "health";
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.system")}</h1></div>
    <${Tabs} label=${t("nav.system")} current=${current} items=${Object.keys(VIEWS).map((name) => [name, t(`system.tab.${name}`), link(name === "health" ? "/system" : `/system/${name}`)])} />
    <${VIEWS[current]} key=${current} />`;
}
