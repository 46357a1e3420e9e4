// Dialogs and short notes, and the one way in which anything is changed.
import {html, signal, useEffect, useLayoutEffect, useRef, useSignal} from "../vendor/core.js";
import {ApiError} from "../api.js";
import {has, t} from "../i18n.js";
import {over} from "../router.js";
import {now, preferences} from "../store.js";

/** Dialogs that are open, the topmost last: {id, render}. */
const open = signal([]);
let last = 0;

/**
 * Open a dialog; resolves with what it is closed with, undefined if it is dismissed. `render(close)` gives what is in it.
 *
 * What is in it may set `close.ask`, which returns a question for `confirmed` if something would be lost: Escape and ✕ ask
 * it first then.
 */
export function openDialog(render, {label, wide = false, isHigh = false} = {}) {
  return new Promise((done) => {
    const id = ++last;
    const opener = document.activeElement;
    const close = (value) => {
      open.value = open.value.filter((one) => one.id !== id);
      queueMicrotask(() => opener?.isConnected && opener.focus());
      done(value);
    };
    close.ask = null;
    open.value = [...open.value, {id, render, close, label, wide, isHigh}];
  });
}

/** Keep a form from being dismissed unasked while `isChanged()`. */
export function useAsked(close, isChanged) {
  close.ask = () => (isChanged() ? {title: t("dialog.leave"), action: t("dialog.discard"), keep: t("dialog.keep"), isDangerous: true} : null);
}

// they belong to the page below: when another one comes, they go
over.ask = () => open.peek().map(({close}) => close.ask?.()).find(Boolean)?.title ?? null;
over.end = () => { for (const {close} of open.peek()) close(undefined); };

async function dismiss({close}) {
  const question = close.ask?.();
  if (question && !(await confirmed(question))) return;
  close(undefined);
}
addEventListener("beforeunload", (event) => { if (open.peek().some(({close}) => close.ask?.())) event.preventDefault(); });

function Layer({item}) {
  const ref = useRef(null);
  // before the next key: it is the dialog's, and no key of the page below
  useLayoutEffect(() => {
    const dialog = ref.current;
    dialog.showModal();
    (dialog.querySelector("[autofocus]") ?? dialog.querySelector("input, textarea, select, button"))?.focus();
    return () => dialog.open && dialog.close();
  }, []);
  // a browser lets a page refuse the second Escape in a row only here
  const onKey = (event) => {
    if (event.key !== "Escape" || event.isComposing || event.defaultPrevented) return;
    event.preventDefault();
    event.stopPropagation();
    dismiss(item);
  };
  return html`<dialog ref=${ref} class="${item.wide ? "wide" : ""} ${item.isHigh ? "high" : ""}" aria-labelledby="dialog-${item.id}" onKeyDown=${onKey} onCancel=${(event) => { event.preventDefault(); dismiss(item); }}>
    <article>
      <header><h2 id="dialog-${item.id}">${item.label}</h2><button class="close" aria-label=${t("action.close")} onClick=${() => dismiss(item)}>✕</button></header>
      ${item.render(item.close)}
    </article>
  </dialog>`;
}
export const Dialogs = () => html`${open.value.map((item) => html`<${Layer} key=${item.id} item=${item} />`)}`;

/**
 * Ask before something is done; resolves with {reason} or undefined.
 *
 * `asksReason` shows a field for why; `typed` is a name that must be typed; `body` is shown above. `keep` are the words of
 * what Enter does where that is to leave all as it is. `offers` are the words of a box that can be checked: {isChecked}.
 */
export function confirmed({title, body, action, keep = null, isDangerous = false, asksReason = false, typed = null, offers = null}) {
  return openDialog((close) => html`<${Question} ...${{body, action, keep, isDangerous, asksReason, typed, offers, close}} />`, {label: title});
}

function Question({body, action, keep, isDangerous, asksReason, typed, offers, close}) {
  const reason = useSignal(""), name = useSignal(""), isChecked = useSignal(false);
  const isReady = typed === null || name.value === typed;
  const submit = (event) => { event.preventDefault(); if (isReady) close({reason: reason.value.trim(), isChecked: isChecked.value}); };
  return html`<form onSubmit=${submit}>
    ${body && html`<div>${body}</div>`}
    ${asksReason && html`<label>${t("dialog.reason")}<input name="reason" maxlength="500" autocomplete="off" value=${reason.value} onInput=${(event) => { reason.value = event.target.value; }} /></label>`}
    ${offers !== null && html`<label class="inline"><input type="checkbox" name="offered" checked=${isChecked.value} onChange=${(event) => { isChecked.value = event.target.checked; }} /> ${offers}</label>`}
    ${typed !== null && html`<label>${t("dialog.type", {name: typed})}<input name="typed" autocomplete="off" spellcheck="false" value=${name.value} onInput=${(event) => { name.value = event.target.value; }} /></label>`}
    <footer><button type="button" class="secondary" autofocus=${keep !== null} onClick=${() => close(undefined)}>${keep ?? t("action.cancel")}</button><button type="submit" class=${isDangerous ? "danger" : ""} disabled=${!isReady} autofocus=${keep === null && typed === null && !asksReason}>${action}</button></footer>
  </form>`;
}

// short notes

/** {id, text, tone, href, atMs}: what was done or failed lately, the newest last; the operation log. */
export const notes = signal([]);
const shown = signal([]);
/** Say something for a few seconds, and keep it in the operation log. */
export function note(text, {tone = "good", href = null, ms = 6000} = {}) {
  const item = {id: ++last, text, tone, href, atMs: now.peek()};
  notes.value = [...notes.value.slice(-199), item];
  shown.value = [...shown.value.slice(-3), item];
  setTimeout(() => { shown.value = shown.value.filter((one) => one !== item); }, tone === "bad" ? 2 * ms : ms);
}
export const Notes = () => html`<div class="notes" role="status" aria-live="polite">${shown.value.map((item) => html`<div class="note ${item.tone}" key=${item.id}>
  ${item.href ? html`<a href=${item.href}>${item.text}</a>` : item.text}
  <button class="close" aria-label=${t("action.close")} onClick=${() => { shown.value = shown.value.filter((one) => one !== item); }}>✕</button></div>`)}</div>`;

/** Words for a failure; the node's own where we have none for its kind. */
export function wordsOf(error) {
  if (!(error instanceof ApiError)) return String(error.message || error);
  if (error.isNetwork) return t("error.unsent");
  const known = `problem.${error.code}`;
  return has(known) ? `${t(known)} ${error.message}` : error.message;
}

/**
 * Change something: `work()` calls the API; what came of it is told. Resolves with {value} or {error}.
 *
 * Nothing is tried again by itself, and nothing that was typed is lost: the one who calls keeps it until {value} is there.
 */
export async function act(work, {done, href, quiet = false} = {}) {
  try {
    const value = await work();
    if (done) note(typeof done === "function" ? done(value) : done, {href: typeof href === "function" ? href(value) : href});
    return {value};
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (!quiet) note(wordsOf(error), {tone: "bad"});
    return {error};
  }
}

/** A button that cannot be pressed twice while it works. */
export function Act({run, children, disabled, ...rest}) {
  const busy = useSignal(false);
  const press = async (event) => {
    if (busy.value) return;
    busy.value = true;
    try { await run(event); } finally { busy.value = false; }
  };
  return html`<button type="button" ...${rest} disabled=${disabled || busy.value} aria-busy=${busy.value || null} onClick=${press}>${children}</button>`;
}

/** A menu behind a button: items are {label, run, href, isDangerous} or null. */
export function Menu({label, items, children = "⋯", small = true}) {
  const isOpen = useSignal(false), ref = useRef(null);
  const found = items.filter(Boolean);
  useEffect(() => {
    if (!isOpen.value) return undefined;
    ref.current.querySelector("[role=menuitem]")?.focus();
    const away = (event) => { if (!ref.current?.contains(event.target)) isOpen.value = false; };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [isOpen.value]);
  if (!found.length) return null;
  const shut = () => { isOpen.value = false; ref.current.querySelector("button")?.focus(); };
  const onKey = (event) => {
    const all = [...ref.current.querySelectorAll("[role=menuitem]")], at = all.indexOf(document.activeElement);
    if (event.key === "Escape") { event.stopPropagation(); shut(); }
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); all[(at + (event.key === "ArrowDown" ? 1 : all.length - 1)) % all.length]?.focus(); }
    else if (event.key === "Tab") isOpen.value = false;
  };
  return html`<span class="menu" ref=${ref} onKeyDown=${isOpen.value ? onKey : null}>
    <button type="button" class="${small ? "small" : ""} secondary menu-button" aria-haspopup="menu" aria-expanded=${isOpen.value} aria-label=${label} onClick=${() => { isOpen.value = !isOpen.value; }}>${children}</button>
    ${isOpen.value && html`<span role="menu" aria-label=${label}>${found.map((item) => (item.href
    ? html`<a role="menuitem" tabindex="-1" href=${item.href} onClick=${() => { isOpen.value = false; }}>${item.label}</a>`
    : html`<button type="button" role="menuitem" tabindex="-1" class=${item.isDangerous ? "danger" : ""} onClick=${() => { shut(); item.run(); }}>${item.label}</button>`))}</span>`}
  </span>`;
}
