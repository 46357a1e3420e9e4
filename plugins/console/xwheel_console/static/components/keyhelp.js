// Which keys there are: one table, shown by "?".
import {html} from "../vendor/core.js";
import {t} from "../i18n.js";
import {active} from "../keys.js";
import {prefer, preferences} from "../store.js";
import {openDialog} from "./dialog.js";

/** What each key does: [section, keys, key of the words]. */
export const KEYS = [
  ["global", "Mod+k", "keys.palette"], ["global", "/", "keys.search"], ["global", "?", "keys.help"],
  ["global", "g d", "keys.dashboard"], ["global", "g j", "keys.jobs"], ["global", "g r", "keys.runs"],
  ["global", "g n", "keys.nodes"], ["global", "g e", "keys.executors"], ["global", "g a", "keys.alarms"], ["global", "Escape", "keys.close"],
  ["list", "j", "keys.next"], ["list", "ArrowDown", "keys.next"], ["list", "k", "keys.previous"], ["list", "ArrowUp", "keys.previous"],
  ["list", "Enter", "keys.open"], ["list", "x", "keys.select"],
  ["list", ".", "keys.menu"], ["list", "e", "keys.edit"], ["list", "r", "keys.run"], ["list", "s", "keys.startStop"], ["list", "l", "keys.log"],
  ["run", "[", "keys.previousRun"], ["run", "]", "keys.nextRun"],
  ["log", "f", "keys.follow"], ["log", "w", "keys.wrap"], ["log", "/", "keys.find"], ["log", "n", "keys.nextMatch"],
  ["log", "N", "keys.previousMatch"], ["log", "G", "keys.logEnd"], ["log", "g g", "keys.logStart"],
];

const ARROWS = {ArrowDown: "↓", ArrowUp: "↑"};

export function showKeys() {
  const sections = [...new Set(KEYS.map(([section]) => section))];
  openDialog(() => html`<div class="keys">${sections.map((section) => html`<section><h3>${t(`keys.in.${section}`)}</h3><dl>${KEYS.filter(([one]) => one === section).map(([, keys, words]) => html`<div data-key=${keys} class=${active.value.has(keys) || keys === "Escape" ? "" : "faint"}><dt>${keys.split(" ").map((key) => html`<kbd>${ARROWS[key] ?? key.replace("Mod+", t("keys.mod"))}</kbd> `)}</dt><dd>${t(words)}</dd></div>`)}</dl></section>`)}
    <label class="inline"><input type="checkbox" checked=${preferences.value.keys} onChange=${(event) => prefer({keys: event.target.checked})} /> ${t("keys.on")}</label></div>`, {label: t("keys.title"), wide: true});
}
