// Jobs by their ids, for lists that only have ids: their names, and whose they are.
import {html, signal, useEffect} from "../vendor/core.js";
import {get} from "../api.js";

const known = signal(new Map());
const asked = new Set();
const AT_ONCE = 6;

/** Jobs by id; those that are not known yet are asked for, a few at a time and each once. */
export function useJobs(ids) {
  const wanted = [...new Set(ids)].filter((id) => id !== null && id !== undefined && !asked.has(id));
  const key = wanted.join(",");
  useEffect(() => {
    const left = wanted.filter((id) => !asked.has(id));
    for (const id of left) asked.add(id);
    const one = async () => {
      for (let id = left.shift(); id !== undefined; id = left.shift()) {
        // one that is deleted, or that the caller may not read, stays a number
        const job = await get(`jobs/${id}`, {}, {tries: []}).catch(() => null);
        if (job) known.value = new Map(known.value).set(id, job);
      }
    };
    for (let worker = 0; worker < AT_ONCE; worker += 1) one();
  }, [key]);
  return known.value;
}

export const JobLink = ({id, jobs}) => (id === null || id === undefined ? html`<span class="faint">–</span>` : html`<a href=${`#/jobs/${id}`}><bdi>${jobs.get(id)?.name ?? `#${id}`}</bdi></a>`);
