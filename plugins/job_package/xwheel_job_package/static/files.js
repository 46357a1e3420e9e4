// The files in a package, to read; the address says which one, and at which line.
import {html, useEffect, useRef} from "../../vendor/core.js";
import {get} from "../../api.js";
import {number, t} from "../../i18n.js";
import {link} from "../../router.js";
import {useLoad} from "../../store.js";
import {Search} from "../../components/list.js";
import {Panel} from "../../components/ui.js";
import {size} from "./words.js";

const MOST_SHOWN = 500;

function Text({id, path, line}) {
  const ref = useRef(null);
  const load = useLoad((abort) => get(`packages/${id}/sources/text`, {path}, {abort}), [id, path]);
  const {data} = load;
  useEffect(() => { ref.current?.querySelector(".chosen")?.scrollIntoView({block: "center"}); }, [data, line]);
  const lines = data?.text?.replace(/\n$/, "").split(/\r?\n/) ?? [];
  return html`<${Panel} of=${load}>${data && html`<h2><code>${data.path}</code> <span class="number faint">${size(data.size)}</span></h2>
    ${data.is_cut && html`<p class="faint">${t("packages.isCut")}</p>`}
    ${data.text === null ? html`<p class="empty">${t("packages.noText")}</p>` : html`<div class="lines" tabindex="0" role="region" aria-label=${data.path} style=${`--digits: ${String(lines.length).length}`} ref=${ref} data-source=${data.path}><div class="rows">
      ${lines.map((text, index) => html`<div class="row ${index + 1 === line ? "chosen" : ""}" key=${index} data-line=${index + 1}><a class="at" href=${link(`/packages/${id}/files`, {path, line: index + 1})} aria-label=${t("packages.line", {line: index + 1})}>${index + 1}</a><span class="text">${text || " "}</span></div>`)}</div></div>`}`}<//>`;
}

/** The module with the jobs is what one looks for: the first of Python that has any content. */
const firstOf = (items) => items.find((item) => item.path.endsWith(".py") && item.size > 0) ?? items[0];

export default function Files({id, query}) {
  const about = useLoad((abort) => get(`packages/${id}`, {}, {abort}), [id]);
  const load = useLoad((abort) => get(`packages/${id}/sources`, {}, {abort}), [id]);
  const all = load.data?.items ?? [];
  const found = query.q ? all.filter((item) => item.path.toLowerCase().includes(query.q.toLowerCase())) : all;
  const path = query.path ?? firstOf(all)?.path;
  const name = about.data ? `${about.data.project} ${about.data.version}` : `#${id}`;
  return html`<div class="page-head"><h1 tabindex="-1"><bdi>${name}</bdi></h1><span class="actions"><a href=${link("/packages", {q: about.data?.project})}>${t("packages.title")}</a></span></div>
    <${Panel} of=${load}><div class="columns narrow-left">
      <section aria-label=${t("packages.files")}><${Search} label=${t("packages.path")} />
        <ul class="choices" data-list="files">${found.slice(0, MOST_SHOWN).map((item) => html`<li><a href=${link(`/packages/${id}/files`, {q: query.q, path: item.path})} aria-current=${item.path === path ? "page" : null}><bdi>${item.path}</bdi></a> <span class="number faint">${size(item.size)}</span></li>`)}</ul>
        ${found.length > MOST_SHOWN && html`<p class="faint">${t("packages.filesShown", {shown: number(MOST_SHOWN), all: number(found.length)})}</p>`}
        ${load.data?.is_cut && html`<p class="faint">${t("packages.filesCut")}</p>`}</section>
      <section>${path && html`<${Text} key=${path} id=${id} path=${path} line=${Number(query.line) || 0} />`}</section></div><//>`;
}
