// Figures of the hourly report: what became of runs, added up as pages and charts show it.
export const RESULTS = ["succeeded", "failed", "timed_out", "lost", "refused", "killed", "cancelled", "skipped", "open_runs"];

/** Runs that did not do what they should, as the shell counts them too. */
export const failedOf = (counts) => counts.failed + counts.timed_out + counts.lost + counts.refused;
/** Runs that were to run: what was cancelled or skipped never was one. */
export const runsOf = (counts) => counts.succeeded + failedOf(counts) + counts.killed + counts.open_runs;
/** How much of what ended by itself ended well, or null before anything did. */
export const rateOf = (counts) => (counts.succeeded + failedOf(counts) ? counts.succeeded / (counts.succeeded + failedOf(counts)) : null);

const NONE = Object.fromEntries([...RESULTS, "duration_sum_ms", "duration_max_ms", "lateness_max_ms"].map((name) => [name, 0]));

/** A count for each hour or day from one instant to another, with zeros where nothing ran. */
export function buckets(items, fromMs, toMs, sizeMs) {
  const known = new Map(items.map((item) => [item.from_ms, item.counts]));
  const found = [];
  for (let at = Math.floor(fromMs / sizeMs) * sizeMs; at < toMs; at += sizeMs) found.push({from_ms: at, counts: known.get(at) ?? NONE});
  return found;
}
