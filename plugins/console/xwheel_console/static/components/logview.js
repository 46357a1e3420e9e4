// What part of a log is in its window: rows of one height, or wrapped ones, whatever its length.
import {useLayoutEffect, useRef, useSignal} from "../vendor/core.js";

const ROW = 20;
/** Pixels that a page can scroll; a longer log moves by more than a row with each. */
const MOST_PX = 8_000_000;

/** Which rows are drawn at a place of the scroll bar, and where: the row at that part of the log stands at that part of the window. */
function rowsAt(ratio, total, height) {
  const at = ratio * total, index = Math.min(Math.max(0, total - 1), Math.floor(at));
  const above = Math.ceil(ratio * height / ROW) + 6, below = Math.ceil((1 - ratio) * height / ROW) + 6;
  return {index, part: at - index, first: Math.max(0, index - above), last: Math.min(total, index + below + 1)};
}

/**
 * The window of a log: {scroller, rowsOf, of, height, space, top, follows, onScroll, show, toEnd, isInSight}.
 *
 * `scroller` and `rowsOf` are for its elements; `of.first` to `of.last` are the rows to draw. `follows` says whether it
 * stays at the end while lines come: a person who scrolls up pauses that, and who scrolls to the end goes on with it.
 */
export function useLogView({total, wraps, runId, startsAtEnd}) {
  const scroller = useRef(null), rowsOf = useRef(null);
  const ratio = useSignal(1), height = useSignal(480), follows = useSignal(startsAtEnd), rowPx = useSignal(ROW);
  const space = Math.max(height.value, Math.min(MOST_PX, Math.ceil(total * rowPx.value)));
  const of = rowsAt(ratio.value, total, height.value);
  useLayoutEffect(() => {
    const measure = new ResizeObserver(() => { height.value = scroller.current?.clientHeight || 480; });
    measure.observe(scroller.current);
    return () => measure.disconnect();
  }, []);
  // where the scroll bar stands by us, so that we know what a person did
  const ours = useRef(0);
  const scrollTo = (part) => {
    const box = scroller.current;
    const most = box.scrollHeight - box.clientHeight;
    ratio.value = Math.min(1, Math.max(0, part));
    box.scrollTop = Math.round(ratio.value * most);
    ours.current = box.scrollTop;
  };
  const onScroll = () => {
    const box = scroller.current, most = box.scrollHeight - box.clientHeight;
    if (Math.abs(box.scrollTop - ours.current) < 1) return;
    const isUp = box.scrollTop < ours.current;
    ours.current = box.scrollTop;
    ratio.value = most <= 0 ? 1 : Math.min(1, box.scrollTop / most);
    const isEnd = most - box.scrollTop < 2;
    if (isUp && !isEnd) follows.value = false;
    else if (isEnd) follows.value = true;
  };
  /** Bring a line where it is seen: into the middle; wrapped lines differ in height, and there it stands as far down as in the log. */
  const show = (line) => {
    follows.value = false;
    const wanted = Math.min(Math.max(1, line), Math.max(1, total)), rows = height.value / ROW;
    scrollTo(wraps ? (wanted - 0.5) / total : total <= rows ? 0 : (wanted - 0.5 - rows / 2) / (total - rows));
  };
  const before = useRef(0);
  useLayoutEffect(() => {
    const grew = before.current && before.current !== total;
    // what is read stays where it is while lines come below it
    const part = grew ? ratio.value * Math.max(1, before.current * ROW - height.value) / Math.max(1, total * ROW - height.value) : ratio.value;
    before.current = total;
    scrollTo(follows.value ? 1 : part);
  }, [total, space, height.value, follows.value]);
  useLayoutEffect(() => { rowPx.value = ROW; }, [wraps, runId]);
  const isInSight = (line) => {
    const row = rowsOf.current?.querySelector(`[data-line="${line}"]`)?.getBoundingClientRect(), box = scroller.current.getBoundingClientRect();
    return Boolean(row) && row.top >= box.top && row.bottom <= box.bottom;
  };
  useLayoutEffect(() => {
    const rows = rowsOf.current, anchor = rows?.querySelector(`[data-line="${of.index + 1}"]`);
    if (!anchor) return;
    // where lines do not wrap, all heights are known: to measure them would cost a layout with each frame
    const whole = wraps ? rows.offsetHeight : ROW * (of.last - of.first);
    const [above, own] = wraps ? [anchor.offsetTop, anchor.offsetHeight] : [ROW * (of.index - of.first), ROW];
    const inner = whole <= height.value && total === of.last && of.first === 0;
    // wrapped lines take more room: without it a turn of the wheel would leap over many
    const mean = wraps ? whole / (of.last - of.first) : ROW;
    if (mean > 1.2 * rowPx.value) rowPx.value = mean;
    rows.style.transform = inner ? "none" : `translateY(${Math.round(ratio.value * height.value - above - of.part * own)}px)`;
  });
  const top = Math.floor(ratio.value * Math.max(0, total - height.value / ROW)) + 1;
  // rows that leave are those that come: to fill them again takes less than to make and remove sixty in each frame
  const pool = Math.ceil(height.value / ROW) + 16;
  return {scroller, rowsOf, of, pool, height: height.value, space, top, follows, onScroll, show, toEnd: () => { follows.value = true; scrollTo(1); }, isInSight};
}
