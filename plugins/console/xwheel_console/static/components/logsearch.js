// Searching in a log: the node finds the lines, also those that are not in memory here; new ones are looked through as they come.
import {useEffect, useRef, useSignal} from "../vendor/core.js";
import {ApiError, get} from "../api.js";
import {useRested} from "../store.js";

const MOST = 5000;
const PAGE = 1000;

/** {lines, isMore, isBusy, error} for a text: numbers of the lines that hold it. */
export function useLogSearch(runId, typed, buffer, version) {
  const text = useRested(typed, 200);
  const found = useSignal({lines: [], isMore: false, isBusy: false, error: null, until: 0});
  const reached = useRef(0);
  useEffect(() => {
    reached.current = 0;
    if (!text) { found.value = {lines: [], isMore: false, isBusy: false, error: null}; return undefined; }
    const abort = new AbortController();
    found.value = {...found.value, isBusy: true, error: null};
    (async () => {
      const lines = [];
      let from = 1;
      try {
        for (;;) {
          const page = await get(`runs/${runId}/log/search`, {text, from_line: from, limit: PAGE}, {abort: abort.signal});
          for (const item of page.items) lines.push(item.line);
          const isOver = page.is_end || page.next_line <= from;
          const isMore = !isOver && lines.length >= MOST;
          found.value = {lines: [...lines], isMore, isBusy: !isOver && !isMore, error: null};
          from = page.next_line;
          if (isOver || isMore) { reached.current = isMore ? 0 : from; return; }
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        found.value = {...found.value, isBusy: false, error};
      }
    })();
    return () => abort.abort();
  }, [runId, text]);
  useEffect(() => {
    if (!text || !reached.current || buffer.total < reached.current) return;
    const wanted = text.toLowerCase(), more = [];
    let number = reached.current;
    for (; number <= buffer.total; number += 1) {
      const line = buffer.get(number);
      if (line === undefined) break;
      if (line.toLowerCase().includes(wanted)) more.push(number);
    }
    reached.current = number;
    if (more.length) found.value = {...found.value, lines: [...found.value.lines, ...more.filter((one) => one > (found.value.lines.at(-1) ?? 0))]};
  }, [version, text, found.value.isBusy]);
  return {...found.value, text};
}
