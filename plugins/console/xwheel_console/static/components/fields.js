// Fields of forms: real labels, hints and errors that are bound to them.
import {html, useId, useRef, useSignal} from "../vendor/core.js";
import {t} from "../i18n.js";

/**
 * A labelled field. `of` is a form made by useForm, `name` its field.
 *
 * `kind`: text, number, textarea, select, checkbox, password, datetime-local; `options` of a select: [[value, words]].
 */
export function Field({of, name, label, kind = "text", options, hint, onChange, children, ...rest}) {
  const id = useId();
  const error = of.errors.value[name];
  const value = of.values.value[name];
  const set = (event) => {
    const next = kind === "checkbox" ? event.target.checked : kind === "number" ? (event.target.value === "" ? null : Number(event.target.value)) : event.target.value;
    of.set({[name]: next});
    onChange?.(next);
  };
  const about = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ") || null;
  const common = {id, name, "aria-describedby": about, "aria-invalid": error ? "true" : null, ...rest};
  const input = kind === "select"
    ? html`<select ...${common} value=${value ?? ""} onChange=${set}>${options.map(([key, words]) => html`<option value=${key} selected=${String(value ?? "") === String(key)}>${words}</option>`)}</select>`
    : kind === "textarea"
      ? html`<textarea ...${common} value=${value ?? ""} onInput=${set}></textarea>`
      : kind === "checkbox"
        ? html`<input type="checkbox" ...${common} checked=${Boolean(value)} onChange=${set} />`
        : html`<input type=${kind} ...${common} value=${value ?? ""} onInput=${set} />`;
  return html`<div class="field ${kind}" data-field=${name}>
    <label for=${id}>${kind === "checkbox" ? html`${input} ${label}` : label}</label>
    ${kind !== "checkbox" && input}
    ${children}
    ${hint && html`<small id="${id}-hint">${hint}</small>`}
    ${error && html`<small id="${id}-error" class="field-error">${error}</small>`}
  </div>`;
}

/** A form's values and errors: {values, errors, set, isChanged, take}. `take(error)` puts a refusal at its field. */
export function useForm(initial) {
  const values = useSignal(initial), errors = useSignal({}), first = useRef(JSON.stringify(initial));
  return {
    values, errors,
    set(change) {
      values.value = {...values.value, ...change};
      const left = {...errors.value};
      for (const name of Object.keys(change)) delete left[name];
      errors.value = left;
    },
    /** Begin again with other values. */
    reset(next) { values.value = next; errors.value = {}; first.current = JSON.stringify(next); },
    isChanged: () => JSON.stringify(values.peek()) !== first.current,
    take(error) {
      const name = error.field?.split(/[.[]/)[0];
      if (name) errors.value = {...errors.value, [name]: error.message};
      return Boolean(name);
    },
  };
}

/** The errors of a form in one place, each a link to its field. */
export function Summary({of, labels = {}}) {
  const found = Object.entries(of.errors.value);
  if (!found.length) return null;
  const focus = (name) => (event) => { event.preventDefault(); document.querySelector(`[data-field="${CSS.escape(name)}"] :is(input,select,textarea)`)?.focus(); };
  return html`<div class="failure" role="alert"><p><strong>${t("form.errors", {count: found.length})}</strong></p><ul>${found.map(([name, text]) => html`<li><a href="#" onClick=${focus(name)}>${labels[name] ?? name}</a>: ${text}</li>`)}</ul></div>`;
}
