// Charts: drawn as SVG by a library that is loaded when one is first shown, each with the same figures as a table.
import {html, useEffect, useRef, useSignal} from "../vendor/core.js";
import {language, t} from "../i18n.js";
import {preferences} from "../store.js";
import {saveAs, toCsv} from "./ui.js";

let library = null;
const load = () => (library ??= import("../vendor/charts.js"));
const observed = new Map();
const observer = new ResizeObserver((entries) => { for (const entry of entries) observed.get(entry.target)?.resize(); });
const dark = matchMedia("(prefers-color-scheme: dark)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** Colours of the palette as they are now. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--x-${name}`).trim();

/**
 * A chart.
 *
 * `label`: what it shows, in words, with its figures. `option()`: ECharts' option, made again when `deps` change.
 * `table`: {heads, rows}, the same as a table and as CSV. `onPick(params)`: a point was clicked.
 */
export function Chart({label, option, deps, table, height = 260, onPick, name = "chart"}) {
  const ref = useRef(null), chart = useRef(null), asTable = useSignal(false), pick = useRef(onPick);
  pick.current = onPick;
  useEffect(() => {
    if (asTable.value) return undefined;
    // by then the reference may be of the next picture
    const place = ref.current;
    let isGone = false;
    load().then(({init}) => {
      if (isGone || !ref.current) return;
      chart.current = init(ref.current, null, {renderer: "svg"});
      // a click of the library needs what is drawn to stay between press and release, and a chart may be drawn again then
      let pressed = null;
      chart.current.on("mousedown", (params) => { pressed = params; });
      chart.current.getZr().on("mouseup", ({offsetX, offsetY, event}) => {
        const at = pressed?.event;
        if (at && !event.button && Math.hypot(offsetX - at.offsetX, offsetY - at.offsetY) <= 4) pick.current?.(pressed);
        pressed = null;
      });
      observed.set(ref.current, chart.current);
      observer.observe(ref.current);
      draw();
      ref.current.dataset.drawn = "yes";
    });
    const again = () => draw();
    dark.addEventListener("change", again);
    return () => {
      isGone = true;
      dark.removeEventListener("change", again);
      observer.unobserve(place);
      observed.delete(place);
      chart.current?.dispose();
      chart.current = null;
    };
  }, [asTable.value]);
  const draw = () => chart.current?.setOption({
    animation: !calm.matches, textStyle: {fontFamily: getComputedStyle(document.body).fontFamily, color: colour("text")}, color: ["good", "bad", "busy", "lost", "calm"].map(colour), ...option(),
  }, {notMerge: true});
  useEffect(draw, [...deps, language.value, preferences.value.theme]);
  const csv = () => saveAs(`${name}.csv`, toCsv(table.heads, table.rows), "text/csv;charset=utf-8");
  const picture = () => {
    const svg = ref.current.querySelector("svg");
    const made = new XMLSerializer().serializeToString(svg);
    const image = new Image();
    image.onload = () => {
      const canvas = Object.assign(document.createElement("canvas"), {width: 2 * svg.clientWidth, height: 2 * svg.clientHeight});
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      const anchor = Object.assign(document.createElement("a"), {href: canvas.toDataURL("image/png"), download: `${name}.png`});
      anchor.click();
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(made)}`;
  };
  return html`<figure class="chart" data-chart=${name}>
    ${asTable.value
    ? html`<div class="table-frame" key="table"><table aria-label=${label}><thead><tr>${table.heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead><tbody>${table.rows.map((row) => html`<tr>${row.map((value) => html`<td>${value}</td>`)}</tr>`)}</tbody></table></div>`
    : html`<div class="drawing" key="drawing" ref=${ref} role="img" aria-label=${label} style=${{height: `${height}px`}}></div>`}
    <figcaption><button class="link small" onClick=${() => { asTable.value = !asTable.value; }}>${asTable.value ? t("chart.picture") : t("chart.table")}</button>
      <button class="link small" onClick=${csv}>CSV</button>${!asTable.value && html`<button class="link small" onClick=${picture}>PNG</button>`}</figcaption>
  </figure>`;
}
