// What plugins add to pages; app.js fills it, and `globalThis.xwheel.added` is the same for their modules.
import {computed} from "../vendor/core.js";

/** {menu, pages, tiles, jobActions, runActions}, each item with `plugin`. */
export const added = computed(() => globalThis.xwheel.added.value);
