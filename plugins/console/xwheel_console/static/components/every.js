// Doing something again and again, as long as somebody can see it.
import {useEffect, useRef} from "../vendor/core.js";

/** Call `run` again every `ms` milliseconds while the component is on the page and the page is in view. */
export function useEvery(run, ms) {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) latest.current(); }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}
