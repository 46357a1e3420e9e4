// How the node that answers fares: what fails, its loops, what it has counted.
import {html} from "../vendor/core.js";
import {get} from "../api.js";
import {duration, has, number, t} from "../i18n.js";
import {useLoad} from "../store.js";
import {useEvery} from "./every.js";
import {Badge, Facts, Panel} from "./ui.js";

const EVERY_MS = 5000;
const worded = (key, name) => (has(key) ? t(key) : name);

export function useHealth() {
  const load = useLoad((abort) => get("health", {}, {abort}), []);
  useEvery(load.reload, EVERY_MS);
  return load;
}

/** `isOpen`: whether the loops are listed while all of them work. */
export function Health({isOpen = false}) {
  const load = useHealth();
  const of = load.data;
  return html`<${Panel} of=${load} label=${t("health.title")}>${of && html`<div data-health=${of.status}>
    <p><${Badge} state=${of.status === "ok" ? "ok" : "error"} words=${t(of.status === "ok" ? "health.ok" : "health.failing")} /> ${of.failing.map((name) => html`<code>${name}</code> `)}</p>
    ${of.missing_plugins.length > 0 && html`<p class="failure">${t("health.missing")} ${of.missing_plugins.join(", ")}</p>`}
    <${Facts} items=${[[t("health.role"), worded(`health.role.${of.role}`, of.role)], [t("health.partitions"), number(of.partitions)], ...Object.entries(of.counts).map(([name, count]) => [worded(`health.${name}`, name), number(count)])]} />
    ${of.loops.length > 0 && html`<details open=${isOpen || of.loops.some((loop) => !loop.ok)}><summary>${t("health.loopsOk", {good: number(of.loops.filter((loop) => loop.ok).length), all: number(of.loops.length)})}</summary><div class="table-frame"><table class="list" data-list="loops" aria-label=${t("health.loops")}><thead><tr><th scope="col">${t("health.loop")}</th><th scope="col">${t("filter.state")}</th><th scope="col" class="right">${t("health.age")}</th><th scope="col" class="right">${t("health.failures")}</th></tr></thead>
      <tbody>${of.loops.map((loop) => html`<tr key=${loop.name}><td data-label=${t("health.loop")}><code>${loop.name}</code></td><td data-label=${t("filter.state")}><${Badge} state=${loop.ok ? "ok" : "error"} /></td><td class="right number" data-label=${t("health.age")}>${duration(loop.age_ms)}</td><td class="right number" data-label=${t("health.failures")}>${number(loop.failures)}</td></tr>`)}</tbody></table></div></details>`}
  </div>`}<//>`;
}
