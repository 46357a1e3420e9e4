// The editor of scripts; its library is loaded when one is first shown.
import {html, useEffect, useRef} from "../../vendor/core.js";

let library = null;
const load = () => (library ??= import("../../vendor/editor.js"));

/** What colours a glue type's language, or nothing. */
function languageOf(cm, type) {
  const stream = {GLUE_SHELL: cm.shell, GLUE_POWERSHELL: cm.powerShell, GLUE_NODEJS: cm.javascript, GLUE_GROOVY: cm.groovy ?? cm.java}[type];
  if (type === "GLUE_PYTHON") return cm.python();
  return stream ? cm.StreamLanguage.define(stream) : [];
}

/**
 * An editor of a script; `change(text)` is told what is typed. Escape and then Tab leaves it.
 *
 * What is typed is the editor's own: it takes `value` again only when `stamp` changes, or a slow page would undo letters.
 */
export function Editor({value, stamp, change, type, label, readOnly = false}) {
  const ref = useRef(null), view = useRef(null), tell = useRef(change), wanted = useRef(value);
  tell.current = change;
  wanted.current = value;
  useEffect(() => {
    let isGone = false;
    load().then((cm) => {
      if (isGone || !ref.current) return;
      const {EditorView, EditorState} = cm;
      view.current = new EditorView({parent: ref.current, state: EditorState.create({doc: wanted.current, extensions: [
        cm.lineNumbers(), cm.highlightSpecialChars(), cm.history(), cm.drawSelection(), cm.indentOnInput(), cm.bracketMatching(), cm.highlightSelectionMatches(), cm.search({top: true}),
        cm.syntaxHighlighting(cm.defaultHighlightStyle, {fallback: true}), languageOf(cm, type), EditorView.lineWrapping,
        cm.keymap.of([...cm.defaultKeymap, ...cm.searchKeymap, ...cm.historyKeymap, cm.indentWithTab]),
        EditorView.contentAttributes.of({"aria-label": label, ...(readOnly ? {tabindex: "0"} : {})}), EditorState.readOnly.of(readOnly), EditorView.editable.of(!readOnly),
        EditorView.updateListener.of((update) => { if (update.docChanged) tell.current?.(update.state.doc.toString()); }),
      ]})});
      ref.current.dataset.drawn = "yes";
    });
    return () => { isGone = true; view.current?.destroy(); view.current = null; if (ref.current) delete ref.current.dataset.drawn; };
  }, [type, label, readOnly]);
  useEffect(() => {
    const {current} = view;
    if (current && current.state.doc.toString() !== wanted.current) current.dispatch({changes: {from: 0, to: current.state.doc.length, insert: wanted.current}});
  }, [stamp]);
  return html`<div class="code-editor" ref=${ref} data-editor></div>`;
}
