// Signing in: by name and password, by a link that works once, and again where a session ended under a page.
import {html, useEffect, useRef, useSignal} from "../vendor/core.js";
import {ApiError, post, session} from "../api.js";
import {LANGUAGES, language, t} from "../i18n.js";
import {go, place} from "../router.js";
import {prefer, preferences} from "../store.js";

function words(error) {
  if (error.isNetwork) return t("error.network");
  if (error.status === 429) return t("login.wait", {seconds: Math.ceil((error.retryAfterMs ?? 1000) / 1000)});
  if (error.status === 401) return t("login.wrong");
  return error.message;
}

function Form({enter, name = "", done}) {
  const fields = useSignal({name, password: ""}), isShown = useSignal(false), problem = useSignal(null), isBusy = useSignal(false), ref = useRef(null);
  const change = (field) => (event) => { fields.value = {...fields.value, [field]: event.target.value}; };
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    problem.value = null;
    try {
      await post("session", fields.value);
      await enter();
      done();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problem.value = words(error);
      ref.current?.focus();
    } finally { isBusy.value = false; }
  };
  return html`<form onSubmit=${submit} class="sign-in">
    <label>${t("login.name")}<input name="name" autocomplete="username" required autofocus=${!name} value=${fields.value.name} onInput=${change("name")} readonly=${Boolean(name)} /></label>
    <label>${t("login.password")}<input name="password" type=${isShown.value ? "text" : "password"} autocomplete="current-password" required autofocus=${Boolean(name)} ref=${ref} value=${fields.value.password} onInput=${change("password")} /></label>
    <label class="inline"><input type="checkbox" checked=${isShown.value} onChange=${(event) => { isShown.value = event.target.checked; }} /> ${t("login.show")}</label>
    ${problem.value && html`<p class="field-error" role="alert">${problem.value}</p>`}
    <button type="submit" aria-busy=${isBusy.value || null} disabled=${isBusy.value}>${t("login.enter")}</button>
  </form>`;
}

const asked = () => {
  const wanted = place.value.query.to;
  return wanted && wanted.startsWith("/") && !wanted.startsWith("//") ? wanted : null;
};

/** The page of somebody who is not signed in; afterwards the page that was asked for. */
export function Login({enter}) {
  const problem = useSignal(null), isBusy = useSignal(false);
  const done = () => {
    const to = asked() ?? (place.value.path === "/login" ? preferences.value.landing : null);
    if (to) { const [path, query = ""] = to.split("?"); go(path, Object.fromEntries(new URLSearchParams(query)), {replace: true}); }
  };
  useEffect(() => {
    document.title = `${t("login.title")} · xwheel`;
    const secret = place.value.path === "/login" ? place.value.query.link : null;
    if (!secret) return;
    history.replaceState(null, "", "#/login");
    isBusy.value = true;
    post("session", {link: secret}).then(enter).then(() => go(preferences.value.landing, {}, {replace: true})).catch((error) => {
      problem.value = error.status === 401 ? t("login.linkEnded") : words(error);
    }).finally(() => { isBusy.value = false; });
  }, []);
  return html`<main class="login" data-page="login"><article>
    <h1 tabindex="-1"><img src="icon.svg" alt="" width="28" height="28" /> xwheel</h1>
    ${problem.value && html`<p class="field-error" role="alert">${problem.value}</p>`}
    ${isBusy.value ? html`<p role="status" aria-busy="true">${t("login.entering")}</p>` : html`<${Form} enter=${enter} done=${done} />`}
    <label class="language">${t("login.language")}<select onChange=${(event) => prefer({language: event.target.value})}>${Object.entries(LANGUAGES).map(([key, name]) => html`<option value=${key} selected=${key === language.value}>${name}</option>`)}</select></label>
  </article></main>`;
}

/** Asks for the password over a page whose session ended; what was typed there stays. */
export function SignInAgain({enter}) {
  const ref = useRef(null), who = useRef(session.value?.account_id ? session.value.name : "");
  useEffect(() => { ref.current.showModal(); }, []);
  return html`<dialog ref=${ref} aria-labelledby="again" onCancel=${(event) => event.preventDefault()}><article><header><h2 id="again">${t("login.again")}</h2></header><p>${t("login.kept")}</p><${Form} enter=${enter} name=${who.current} done=${() => {}} /></article></dialog>`;
}
