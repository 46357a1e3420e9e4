// Words of these pages, in both languages, so that switching needs nothing more; and small parts that several of them show.
import {html} from "../../vendor/core.js";
import {addWords, has, loadWords, number, t} from "../../i18n.js";
import {may} from "../../store.js";
import {Badge} from "../../components/ui.js";

const LANGUAGES = ["en", "zh-CN"];
let loading = null;

/** Load the words; asked for once, and again only where that failed. */
export function loadOwnWords() {
  loading ??= Promise.all([loadWords("jobs"), ...LANGUAGES.map(async (language) => {
    const answer = await fetch(new URL(`i18n/${language}.json`, import.meta.url));
    if (!answer.ok) throw new Error(`${answer.url}: ${answer.status}`);
    addWords(language, await answer.json());
  })]).catch((error) => { loading = null; throw error; });
  return loading;
}

/** Words for a reason that the store gives; the reason itself where there are none. */
export const reasonWords = (reason) => (has(`packages.reason.${reason}`) ? t(`packages.reason.${reason}`) : reason);

const UNITS = [["gigabyte", 1024 ** 3], ["megabyte", 1024 ** 2], ["kilobyte", 1024]];
/** A size as people say it: 1.5 MB. */
export function size(bytes) {
  const [unit, of] = UNITS.find(([, least]) => bytes >= least) ?? ["byte", 1];
  return number(bytes / of, {style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 1});
}

/** May the caller change which code a job of a group runs: it is what scripts take. */
export const mayChange = (groupId) => may("edit", groupId) && may("script", groupId);

const STATES = {Startup: "started", Pause: "stopped", Shutdown: "stopped", stored: "ok", missing: "error", incoming: "planned", deleting: "planned"};
/** The state of a job of a package, or of a package. */
export const State = ({of}) => html`<${Badge} state=${STATES[of] ?? "planned"} words=${t(`packages.state.${of}`)} />`;

const RESULTS = {Waiting: "planned", Retrying: "running", Success: "ok", Failed: "error"};
/** What an operation has come to: Waiting, Retrying(2), Success or Failed, with its reason and text. */
export function Result({of}) {
  const [, result, turn] = /^(\w+)(?:\((\d+)\))?/.exec(of.result) ?? [null, of.result, undefined];
  const known = result in RESULTS;
  const words = !known ? of.result : turn ? t("packages.result.RetryingTurn", {turn: Number(turn)}) : t(`packages.result.${result}`);
  return html`<span data-result=${of.result}><${Badge} state=${RESULTS[result] ?? "planned"} words=${words} />${of.reason && html` <span>${reasonWords(of.reason)}</span>`}${of.error && html`<span class="under">${of.error}</span>`}</span>`;
}

/** Where something stands in a package: a link to that line for those who may read files. */
export function Place({of, packageId}) {
  if (!of.file) return null;
  const words = html`<code>${of.file}${of.line ? `:${of.line}` : ""}</code>`;
  return packageId ? html`<a href=${`#/packages/${packageId}/files?path=${encodeURIComponent(of.file)}&line=${of.line || 1}`}>${words}</a>` : words;
}
