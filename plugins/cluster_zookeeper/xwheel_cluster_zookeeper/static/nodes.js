// The nodes of the package cluster: who is master, who is lost, and how old all of that is.
import {html} from "../../vendor/core.js";
import {get, post} from "../../api.js";
import {ago, number, t} from "../../i18n.js";
import {may, useLoad} from "../../store.js";
import {Act, act, confirmed} from "../../components/dialog.js";
import {useEvery} from "../../components/every.js";
import {Badge, Facts, Panel, Time} from "../../components/ui.js";

const EVERY_MS = 1000;
const w = (key, slots) => t(`package-cluster.${key}`, slots);

async function rebalance() {
  const said = await confirmed({title: w("askTitle"), body: html`<p>${w("askBody")}</p>`, action: w("rebalance")});
  if (said) await act(() => post("package-cluster/rebalance", {}), {done: ({jobs}) => w("rebalanced", {count: jobs})});
}

async function drain(node) {
  const said = await confirmed({title: w("drainTitle", {name: node.node_id}), body: html`<p>${w("drainBody")}</p>`, action: w("drain")});
  if (said) await act(() => post("package-cluster/drain", {node_id: node.node_id}), {done: () => w("drains", {name: node.node_id})});
}
const resume = (node) => act(() => post("package-cluster/resume", {node_id: node.node_id}), {done: () => w("resumes", {name: node.node_id})});

/** That what is shown is old, if it is. */
function Age({of}) {
  if (of.is_reachable) return null;
  return html`<div class="banner bad" role="status" data-banner="store">⚡ ${of.age_ms === null ? w("never") : w("away", {age: ago(Date.now() - of.age_ms, Date.now())})}</div>`;
}

function Node({node, isMaster, isReachable}) {
  const state = node.is_lost ? "lost" : "up";
  return html`<article class="card node" data-node=${node.node_id} data-state=${state} data-role=${node.is_lost ? null : node.role}>
    <header><h2><bdi>${node.node_id}</bdi></h2> <${Badge} state=${node.is_lost ? "lost" : "up"} words=${w(`state.${state}`)} />
      ${isMaster && html`<span class="badge good">${w("role.Master")}</span>`}
      ${node.drained_ms !== null && html`<span class="badge" data-drained title=${w("drainedBy", {name: node.drained_by ?? ""})}>${w("drained")}</span>`}
      ${node.is_lost && html`<span class="faint">${w("seen")} <${Time} ms=${node.last_seen_ms} relative /></span>`}
      ${may("admin", null) && html`<span class="actions"><${Act} class="small secondary" disabled=${!isReachable} run=${() => (node.drained_ms === null ? drain(node) : resume(node))}>${w(node.drained_ms === null ? "drain" : "resume")}<//></span>`}</header>
    <${Facts} items=${[
    [w("role"), node.is_lost ? null : w(`role.${node.role}`)], [w("address"), html`<bdi>${node.address}</bdi>`],
    [w("pid"), html`<bdi>${node.host}</bdi> ${node.pid}`], [w("jobs"), number(node.jobs)],
    [w("slots"), node.slots ? number(node.slots) : w("anyNumber")], [w("tags"), node.tags.length ? html`<bdi>${node.tags.join(", ")}</bdi>` : null],
    [w("version"), html`<bdi>${node.xwheel_version}, ${node.python_version}</bdi>`], [w("up"), html`<${Time} ms=${node.started_ms} />`],
  ]} /></article>`;
}

export default function PackageCluster() {
  const load = useLoad((abort) => get("package-cluster", {}, {abort}), []);
  useEvery(load.reload, EVERY_MS);
  const of = load.data;
  const lost = of?.nodes.filter((node) => node.is_lost).length ?? 0;
  const isMaster = (node) => !node.is_lost && node.role === "Master";
  return html`<div class="page-head"><h1 tabindex="-1">${w("title")}</h1>${may("admin", null) && html`<span class="actions"><${Act} class="secondary" disabled=${!of?.is_reachable} run=${rebalance}>${w("rebalance")}<//></span>`}</div>
    <${Panel} of=${load} label=${w("title")}>${of && html`<${Age} of=${of} />
      <div class="tiles">
        <div class="tile ${lost ? "bad" : ""}" data-tile="nodes"><strong>${number(of.nodes.length - lost)}</strong> ${w("alive", {count: of.nodes.length - lost})}${lost > 0 && html`<span class="under">${w("lost", {count: lost})}</span>`}</div>
        <div class="tile" data-tile="jobs"><strong>${number(of.jobs.assigned)}</strong> ${w("started", {count: of.jobs.started})}<span class="under">${["waiting", "retrying", "failed"].filter((name) => of.jobs[name]).map((name) => w(name, {count: of.jobs[name]})).join(", ")}</span></div>
      </div>
      <${Facts} items=${[
    [w("mode"), w(`mode.${of.mode}`)], [w("master"), of.master ? html`<bdi>${of.master}</bdi>` : null], [w("since"), of.master_since_ms ? html`<${Time} ms=${of.master_since_ms} />` : null],
    [w("epoch"), number(of.epoch)], [w("connection"), w(`link.${of.connection}`)], [w("age"), of.age_ms === null ? null : ago(Date.now() - of.age_ms, Date.now())],
  ]} />
      ${of.nodes.length === 0 && html`<p class="empty">${w("none")}</p>`}
      <div class="nodes">${of.nodes.map((node) => html`<${Node} key=${node.path} node=${node} isMaster=${isMaster(node)} isReachable=${of.is_reachable} />`)}</div>`}<//>`;
}
