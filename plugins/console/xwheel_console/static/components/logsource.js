// Where a log comes from: its end at first, then what is written, asked for each second while the run is alive.
import {useEffect, useRef, useSignal} from "../vendor/core.js";
import {ApiError, get} from "../api.js";
import {LogBuffer, linesOf} from "./logbuffer.js";

const FIRST_LINES = 1000;
const EACH_MS = 1000;
const HIDDEN_MS = 5000;
const LONGEST_MS = 10_000;
/** Characters of a piece after which there is surely more: the next is asked for at once. */
const LARGE = 500_000;

/**
 * A log that is read: {buffer, version, state, need(from, to)}.
 *
 * `version` rises with each line that came. `state`: {error, note, isEnd, cameMs, isFirst}; `cameMs` is when something came
 * while we looked, null before. It stops for nothing but the end of the log: answers that fail are asked for again from
 * the same line, so that no line is lost and none is there twice.
 */
export function useLog(runId, {onEnd} = {}) {
  const buffer = useRef(null), version = useSignal(0), wake = useRef(() => {});
  const state = useSignal({error: null, note: "", isEnd: false, cameMs: null, isRead: false});
  const told = useRef(onEnd);
  told.current = onEnd;
  const holes = useRef({busy: false, wanted: null});
  buffer.current ??= new LogBuffer();

  useEffect(() => {
    const abort = new AbortController();
    buffer.current = new LogBuffer();
    holes.current = {busy: false, wanted: null};
    state.value = {error: null, note: "", isEnd: false, cameMs: null, isRead: false};
    version.value += 1;
    let next = null, timer = null, wait = EACH_MS;
    const take = (piece) => {
      const lines = linesOf(piece);
      const isFirst = next === null;
      if (lines.length) { buffer.current.add(piece.from_line, lines); version.value += 1; }
      next = Math.max(next ?? 1, piece.next_line);
      state.value = {error: null, note: piece.note, isEnd: piece.is_end, isRead: true, cameMs: lines.length && !isFirst ? Date.now() : state.value.cameMs};
    };
    const ask = async () => {
      timer = null;
      try {
        const piece = await get(`runs/${runId}/log`, next === null ? {tail: FIRST_LINES} : {from_line: next}, {abort: abort.signal, tries: []});
        take(piece);
        if (piece.is_end) { told.current?.(); return; }
        wait = piece.content.length > LARGE ? 0 : EACH_MS;
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        state.value = {...state.value, error};
        // it is not there, or not for us: asking again is of no use until the session changes
        wait = Math.min(LONGEST_MS, error.status === 404 || error.status === 403 || error.status === 401 ? LONGEST_MS : Math.max(EACH_MS, error.retryAfterMs ?? 2 * wait));
      }
      timer = setTimeout(ask, document.hidden ? Math.max(wait, HIDDEN_MS) : wait);
    };
    wake.current = () => { if (timer !== null && !document.hidden) { clearTimeout(timer); ask(); } };
    const seen = () => wake.current();
    document.addEventListener("visibilitychange", seen);
    ask();
    return () => { abort.abort(); clearTimeout(timer); document.removeEventListener("visibilitychange", seen); };
  }, [runId]);

  /** Load what is missing among lines that are looked at; what is asked for meanwhile follows. */
  const need = async (from, to) => {
    const here = buffer.current, of = holes.current;
    const missing = here.want(Math.max(1, from), Math.min(to, here.total));
    if (missing === null) return;
    if (of.busy) { of.wanted = [from, to]; return; }
    of.busy = true;
    try {
      const piece = await get(`runs/${runId}/log`, {from_line: Math.max(1, missing - 100)});
      if (here !== buffer.current) return;
      if (piece.next_line > piece.from_line) { here.add(piece.from_line, linesOf(piece)); version.value += 1; }
      if (state.value.error) state.value = {...state.value, error: null};
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (here === buffer.current) state.value = {...state.value, error};
      // a node that is busy or away has them later
      if (error.isNetwork || error.status >= 502) of.wanted ??= [from, to];
      await new Promise((done) => setTimeout(done, EACH_MS));
    } finally {
      of.busy = false;
      const again = of.wanted;
      of.wanted = null;
      if (again && here === buffer.current) need(...again);
    }
  };
  return {buffer: buffer.current, version: version.value, state: state.value, need};
}
