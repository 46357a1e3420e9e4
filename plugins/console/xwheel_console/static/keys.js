// Keys: one works where the component that handles it is on the page. What there are says components/keyhelp.js.
import {signal, useEffect, useRef} from "./vendor/core.js";
import {preferences} from "./store.js";

const layers = [];
/** Handlers of keys that are there now, by the key; the layer that was added last comes first. */
export const active = signal(new Set());
const note = () => { active.value = new Set(layers.flatMap((layer) => Object.keys(layer.current))); };

/** Handle keys while the component is on the page: {"g d": () => …}. Return false to let others have it. */
export function useKeys(handlers) {
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    layers.push(latest);
    note();
    return () => { layers.splice(layers.indexOf(latest), 1); note(); };
  }, []);
}

const isTyping = (target) => target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest?.(".cm-editor");
let first = "", firstMs = 0;

addEventListener("keydown", (event) => {
  const typing = isTyping(event.target);
  const mod = event.ctrlKey || event.metaKey;
  if (event.altKey || event.isComposing) return;
  const key = mod ? `Mod+${event.key.toLowerCase()}` : event.key;
  if (typing && !mod) return;
  if (!mod && !preferences.value.keys && key !== "Escape") return;
  if (document.querySelector("dialog[open]") && key !== "Escape" && !mod) return;
  if (event.target.closest?.("button, a, summary, [role=tab], [role=menuitem]") && (key === "Enter" || key === " ")) return;
  const chord = performance.now() - firstMs < 1200 && first ? `${first} ${key}` : null;
  const wanted = [chord, key].filter(Boolean);
  first = "";
  for (const one of wanted) {
    for (const layer of [...layers].reverse()) {
      if (layer.current[one] && layer.current[one](event) !== false) { event.preventDefault(); return; }
    }
  }
  if (!mod && key.length === 1 && layers.some((layer) => Object.keys(layer.current).some((one) => one.startsWith(`${key} `)))) {
    first = key;
    firstMs = performance.now();
  }
});
