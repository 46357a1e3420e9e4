// Uploads: one after another, with progress and hash; they go on while other pages are looked at.
import {html, signal, useSignal} from "../../vendor/core.js";
import {ApiError, session, signedOut, url} from "../../api.js";
import {percent, t} from "../../i18n.js";
import {note} from "../../components/dialog.js";
import {Badge} from "../../components/ui.js";
import {Choice} from "./groups.js";
import {Problems, Report, showReport} from "./report.js";
import {reasonWords, size} from "./words.js";

/** A browser hashes a text at once, in memory; of larger files the store says the hash. */
const MOST_HASHED = 64 * 1024 * 1024;
const WAITS = new Set(["queued", "sending", "checking"]);

/** {id, file, options, state, sent, sha256, answer, error, stop}, the newest last. */
export const uploads = signal([]);
/** Rises when a package was stored. */
export const stored = signal(0);
let last = 0, isBusy = false;

const find = (id) => uploads.peek().find((item) => item.id === id);
const change = (id, values) => { uploads.value = uploads.value.map((item) => (item.id === id ? {...item, ...values} : item)); };
const forget = (id) => { uploads.value = uploads.value.filter((item) => item.id !== id); };
addEventListener("beforeunload", (event) => { if (uploads.peek().some((item) => WAITS.has(item.state))) event.preventDefault(); });

const tooLarge = (file, limits) => new ApiError({reason: "too_large", detail: t("packages.tooLarge", {size: size(file.size), most: size(limits.max_upload_bytes)})}, 413);

/** Take files in: they are sent in their order, with the same options. */
export function add(files, options, limits) {
  for (const file of files) {
    const item = {id: ++last, file, options, state: "queued", sent: 0, sha256: null, answer: null, error: null, stop: null};
    const isRefused = limits && file.size > limits.max_upload_bytes;
    uploads.value = [...uploads.value, isRefused ? {...item, state: "refused", error: tooLarge(file, limits)} : item];
  }
  work();
}

async function work() {
  if (isBusy) return;
  isBusy = true;
  try {
    for (let item; (item = uploads.peek().find(({state}) => state === "queued"));) await one(item);
  } finally { isBusy = false; }
}

async function one({id, file, options}) {
  change(id, {state: "sending"});
  const hashing = hash(file).then((sha256) => sha256 && find(id) && change(id, {sha256}));
  try {
    const answer = await send(id, file, options);
    await hashing;
    change(id, {state: "done", answer});
    stored.value += 1;
    note(t("packages.stored", {name: `${answer.project} ${answer.version}`}));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code === "cancelled") change(id, {state: "cancelled"});
    else change(id, {state: "refused", error});
  }
}

async function hash(file) {
  if (!globalThis.crypto?.subtle || file.size > MOST_HASHED) return null;
  try {
    const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
    return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  } catch { return null; /* a file that went away meanwhile: sending it says so */ }
}

/** Send a file; what says how far it is, and what ends it, are known of nothing but this kind of request. */
function send(id, file, options) {
  return new Promise((done, fail) => {
    const call = new XMLHttpRequest();
    const problem = (values, status = 0) => fail(new ApiError(values, status));
    call.open("POST", url("packages", {file: file.name, ...options}));
    call.setRequestHeader("Accept", "application/json");
    call.setRequestHeader("Content-Type", "application/octet-stream");
    call.setRequestHeader("X-Xwheel-CSRF", session.peek()?.csrf ?? "");
    call.upload.onprogress = (event) => change(id, {sent: event.loaded});
    // from here on the store decides: to end the call would not take back what it does
    call.upload.onload = () => change(id, {state: "checking", sent: file.size});
    call.onabort = () => problem({type: "cancelled"});
    call.onerror = () => problem({type: "network", detail: ""});
    call.onload = () => {
      let found = {};
      try { found = JSON.parse(call.responseText); } catch { found = {detail: call.responseText.slice(0, 500)}; }
      if (call.status === 201) { done(found); return; }
      if (call.status === 401) signedOut.value = true;
      problem({...found, request_id: found.request_id ?? call.getResponseHeader("X-Request-Id")}, call.status);
    };
    change(id, {stop: () => call.abort()});
    call.send(file);
  });
}

function cancel(item) {
  if (item.state === "queued") change(item.id, {state: "cancelled"});
  else item.stop?.();
}

/** Why a file was not taken, with each place in it. */
function Refused({of, again}) {
  const {problem, isNetwork, message, status, requestId} = of.error;
  const {reason, facts = {}} = problem;
  const mayTry = isNetwork || status === 503 || status === 401;
  const known = facts.problems ?? (facts.file ? [{reason, file: facts.file, line: facts.line, text: ""}] : []);
  return html`<div class="failure" role="alert" data-refused=${reason ?? status}>
    <p><strong>${isNetwork ? t("packages.unsent") : reason ? reasonWords(reason) : t("packages.refused")}</strong></p>
    ${!isNetwork && !facts.problems && html`<p>${message}</p>`}
    ${known.length > 0 && html`<${Problems} items=${known} />`}
    <p class="faint">${t(isNetwork ? "packages.unknown" : "packages.nothingKept")}</p>
    ${requestId && html`<p class="faint">${t("error.request", {id: requestId})}</p>`}
    <p>${facts.package_id && html`<button type="button" class="small secondary" onClick=${() => showReport(facts.package_id, of.file.name)}>${t("packages.showThere")}</button> `}
      ${mayTry && html`<button type="button" class="small secondary" onClick=${again}>${t("action.retry")}</button>`}</p></div>`;
}

const TONES = {queued: "planned", sending: "running", checking: "running", done: "ok", refused: "error", cancelled: "cancelled"};

function Item({item}) {
  const {file, state, sent, answer} = item;
  const part = file.size ? Math.min(1, sent / file.size) : 1;
  const again = () => { forget(item.id); add([file], item.options, null); };
  const differs = answer && item.sha256 && answer.sha256 !== item.sha256;
  return html`<li class="card" data-upload=${state} aria-label=${file.name}>
    <div class="page-head"><strong><bdi>${file.name}</bdi></strong> <span class="number">${size(file.size)}</span> <${Badge} state=${TONES[state]} words=${t(`packages.upload.${state}`)} />
      <span class="actions">
        ${(state === "queued" || state === "sending") && html`<button type="button" class="small secondary" aria-label=${t("packages.cancelOne", {name: file.name})} onClick=${() => cancel(item)}>${t("action.cancel")}</button>`}
        ${!WAITS.has(state) && html`<button type="button" class="close" aria-label=${t("packages.forget", {name: file.name})} onClick=${() => forget(item.id)}>✕</button>`}</span></div>
    ${state === "sending" && html`<progress max="1" value=${part} aria-label=${t("packages.progress", {name: file.name})}></progress><p class="number" data-sent=${sent}>${percent(part, 0)} · ${t("packages.sent", {sent: size(sent), size: size(file.size)})}</p>`}
    ${state === "checking" && html`<progress aria-label=${t("packages.upload.checking")}></progress>`}
    ${item.sha256 && !answer && html`<p>SHA-256 <code data-own-sha256>${item.sha256}</code></p>`}
    ${state === "refused" && html`<${Refused} of=${item} again=${again} />`}
    ${state === "cancelled" && html`<p>${t("packages.nothingKept")}</p>`}
    ${differs && html`<p class="failure" role="alert">${t("packages.differs")}</p>`}
    ${answer && html`<${Report} of=${answer} jobs=${answer.jobs} />`}</li>`;
}

const OPTIONS = {name: "", version: "", packages_to_scan: "", groups: [], allow_empty: false};

/** Where files are dropped or chosen, and what became of those that were. */
export function Uploads({limits}) {
  const isOver = useSignal(false), options = useSignal(OPTIONS);
  const take = (files) => add([...files], Object.fromEntries(Object.entries({...options.value, groups: options.value.groups.join(",")}).filter(([, value]) => value)), limits);
  const text = (name) => html`<label>${t(`packages.option.${name}`)}<input name=${name} maxlength="200" autocomplete="off" spellcheck="false" value=${options.value[name]} onInput=${(event) => { options.value = {...options.value, [name]: event.target.value.trim()}; }} /></label>`;
  const over = (event) => { event.preventDefault(); isOver.value = true; };
  const drop = (event) => { event.preventDefault(); isOver.value = false; take(event.dataTransfer.files); };
  return html`<section class="card" data-drop=${isOver.value ? "over" : "ready"} aria-labelledby="packages-upload" style=${`border: 2px dashed var(${isOver.value ? "--x-link" : "--x-line"})`} onDragOver=${over} onDragLeave=${() => { isOver.value = false; }} onDrop=${drop}>
    <h2 id="packages-upload">${t("packages.upload")}</h2>
    <label>${t("packages.choose")}<input type="file" name="packages" multiple accept=".whl,.zip,.gz" onChange=${(event) => { take(event.target.files); event.target.value = ""; }} /></label>
    ${limits && html`<p class="faint">${t("packages.limit", {size: size(limits.max_upload_bytes)})}</p>`}
    ${limits && limits.may_all_groups && limits.group_id === null && html`<p class="failure">${t("packages.noGroup", {name: limits.group})}</p>`}
    <details><summary>${t("packages.options")}</summary><div class="columns">${text("name")}${text("version")}${text("packages_to_scan")}</div>
      ${limits && html`<${Choice} limits=${limits} value=${options.value.groups} onChange=${(groups) => { options.value = {...options.value, groups}; }} /><p class="faint">${t("packages.groupsUsual")}</p>`}
      <label class="inline"><input type="checkbox" name="allow_empty" checked=${options.value.allow_empty} onChange=${(event) => { options.value = {...options.value, allow_empty: event.target.checked}; }} /> ${t("packages.option.allow_empty")}</label></details>
    ${uploads.value.length > 0 && html`<ul class="plain" role="status" aria-live="polite" aria-label=${t("packages.uploads")}>${[...uploads.value].reverse().map((item) => html`<${Item} key=${item.id} item=${item} />`)}</ul>`}
  </section>`;
}
