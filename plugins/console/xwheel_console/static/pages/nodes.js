// P12: who is alive, which partitions each node holds, how this node fares.
import {html, useRef} from "../vendor/core.js";
import {get} from "../api.js";
import {byName, number, t} from "../i18n.js";
import {now, useLoad} from "../store.js";
import {useEvery} from "../components/every.js";
import {Health} from "../components/health.js";
import {Badge, Facts, Panel, Time} from "../components/ui.js";

const PARTITIONS = 64, SHOWN_MS = 10_000, EVERY_MS = 5000;

/** Numbers in short: 0-5, 7, 9-11. */
export function ranges(list) {
  const sorted = [...list].sort((one, other) => one - other), found = [];
  for (const value of sorted) {
    const last = found.at(-1);
    if (last && last[1] === value - 1) last[1] = value;
    else found.push([value, value]);
  }
  return found.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}

/** All partitions as a strip; those of a node are filled. */
function Strip({held, isAlive}) {
  const mine = new Set(held);
  const words = held.length ? t("node.holds", {count: held.length, all: PARTITIONS, ranges: ranges(held)}) : t("node.holdsNone");
  return html`<svg class="strip" role="img" aria-label=${words} viewBox="0 0 ${PARTITIONS * 5} 14" preserveAspectRatio="none"><title>${words}</title>${Array.from({length: PARTITIONS}, (_, index) => html`<rect key=${index} class=${mine.has(index) ? (isAlive ? "good" : "bad") : "none"} x=${index * 5} y="0" width="4" height="14" />`)}</svg>`;
}

/** Nodes with what changed lately: `change` is up, away or left for ten seconds; one that left is shown this long. */
function useTransitions(items, isLoaded) {
  const known = useRef(null), changes = useRef(new Map());
  const at = now.value;
  if (isLoaded && known.current?.items !== items) {
    const before = known.current?.byId, byId = new Map(items.map((item) => [item.id, item]));
    if (before) {
      for (const item of items) if (before.get(item.id)?.alive !== item.alive) changes.current.set(item.id, {change: item.alive ? "up" : "away", atMs: Date.now(), item});
      for (const [id, item] of before) if (!byId.has(id)) changes.current.set(id, {change: "left", atMs: Date.now(), item});
    }
    known.current = {items, byId};
  }
  for (const [id, {atMs}] of changes.current) if (at && Date.now() - atMs > SHOWN_MS) changes.current.delete(id);
  const gone = [...changes.current.values()].filter(({change, item}) => change === "left" && !items.some((one) => one.id === item.id)).map(({item}) => ({...item, alive: false, hasLeft: true, partitions: []}));
  return [...items, ...gone].map((item) => ({...item, change: changes.current.get(item.id)?.change ?? null}));
}

function Card({node}) {
  const state = node.hasLeft ? "left" : node.alive ? "up" : "away";
  return html`<article class="card node ${node.change ? `changed ${node.change}` : ""}" data-node=${node.id} data-state=${state} data-change=${node.change}>
    <header><h2>${node.name}</h2> <${Badge} state=${state === "left" ? "stopped" : state} words=${t(`node.state.${state}`)} />
      ${node.is_me && html`<span class="badge calm">${t("node.me")}</span>`} ${node.draining && html`<span class="badge busy">${t("node.draining")}</span>`}
      ${node.change && html`<span class="faint" role="status">${t(`node.just.${node.change}`)}</span>`}</header>
    <${Strip} held=${node.partitions} isAlive=${node.alive} />
    <${Facts} items=${[
    [t("node.partitions"), node.partitions.length ? `${number(node.partitions.length)} (${ranges(node.partitions)})` : number(0)],
    [t("node.address"), node.address], [t("node.version"), node.version],
    [t("node.seen"), html`<${Time} ms=${node.last_seen_ms} relative />`],
    [t("node.since"), node.since_ms ? html`<${Time} ms=${node.since_ms} />` : null],
  ]} /></article>`;
}

export default function Nodes() {
  const load = useLoad((abort) => get("nodes", {}, {abort}), [], {when: (event) => event.kind === "node", everyMs: 500});
  useEvery(load.reload, EVERY_MS);
  const found = load.data?.items ?? [];
  const nodes = useTransitions(found, load.data !== null).sort((one, other) => byName(one.name, other.name));
  const away = found.filter((node) => !node.alive).length, without = load.data?.partitions_without ?? 0;
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.nodes")}</h1></div>
    <${Panel} of=${load} label=${t("nav.nodes")}>
      <div class="tiles">
        <div class="tile" data-tile="up"><strong>${number(found.length - away)}</strong> ${t("node.state.up")}</div>
        <div class="tile" data-tile="away"><strong>${number(away)}</strong> ${t("node.state.away")}</div>
        <div class="tile" data-tile="without"><strong>${number(without)}</strong> ${t("node.without")}</div>
      </div>
      ${without > 0 && html`<p class="failure" role="alert">${t("node.withoutHelp", {count: without})}</p>`}
      <div class="nodes">${nodes.map((node) => html`<${Card} key=${node.id} node=${node} />`)}</div>
    <//>
    <h2>${t("health.title")}</h2><${Health} />`;
}
