"""Every page: hostile text stays text, it fits every screen, all its words are there, axe finds nothing grave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import WAIT_MS, Gateway, Open, Site, Watch, choose, dialog, faults, go_to, opened, settled, visit
from playwright.sync_api import Browser, Page, Route, expect
from xwheel_devtools.testing import wait_until

MARKUP = "<img src=x onerror=\"globalThis.harmed = 'yes'\">"
HOSTILE = f"{MARKUP}<script>globalThis.harmed = 'yes'</script>\u202etxet\u202c \u200f"
WIDTHS = (1440, 1024, 390)
PLACES: Mapping[str, str] = {
    "/": "[data-chart=results] [data-drawn]",
    "/jobs?q=onerror": "[data-id='{job}'] [data-words]",
    "/jobs/{job}": "[data-part=fires] [data-due]",
    "/jobs/{job}/runs": "[data-list=job-runs] tbody tr",
    "/jobs/{job}/children": "[data-child='{child}']",
    "/jobs/{job}/history?rev={revision}": "[data-diff]",
    "/jobs/{job}/operations": "[data-list=job-audit] tbody tr",
    "/jobs/{job}/edit": "[data-check=done]",
    "/jobs/new": "[data-form=job]",
    "/jobs/{script}/code?version=1": "[data-editor][data-drawn]",
    "/welcome": "[data-steps] [data-code]",
    "/runs?job={job}": "[data-list=runs] tbody tr",
    "/runs?job={job}&view=timeline&by=job": "[data-chart=timeline] [data-drawn]",
    "/runs/{run}": ".lines .row",
    "/runs/compare/{run}/{other}": "[role=figure]",
    "/wall": "[data-list=failures] li",
    "/nodes": "[data-node]",
    "/executors": "[data-list=groups] tbody tr",
    "/calendars?name=freeze": "[data-preview=freeze] li",
    "/audit?kind=job&object={job}": "[data-list=audit] tbody tr",
    "/alarms": "[data-list=alarms] tbody tr",
    "/alarms/rules": "[data-list=rules] tbody tr",
    "/alarms/attempts": "[data-list=attempts] tbody tr",
    "/accounts/users": "[data-list=accounts] tbody tr",
    "/accounts/tokens": "[data-list=tokens] tbody tr",
    "/accounts/secrets": "[data-list=secrets] tbody tr",
    "/accounts/roles": "[data-list=roles] tbody tr",
    "/system": "[data-health]",
    "/system/plugins": "[data-plugin=console]",
    "/system/about": "[data-licences]",
    "/me": "[data-section=sessions]",
}
KEY = re.compile(
    r"\b(?:node|executor|calendar|audit|alarm|account|access|token|secret|role|permission|session|system|plugin|me|health|"
    r"ends|list|filter|state|action|nav|keys|views|theme)\.[a-z][a-zA-Z_.]+"
)
TEXT = (
    "main => { const copy = main.cloneNode(true); copy.querySelectorAll('code, pre, textarea, option, .lines')"
    ".forEach(one => one.remove()); return copy.textContent }"
)


LEFT = """app => {
  const copy = app.cloneNode(true);
  const data = 'bdi, code, pre, textarea, time, .lines, .mono, .number, [data-editor], [data-diff], [role=figure]';
  const names = '[data-registers] strong';
  const zones = ':is(select[name=zone], select[name=timezone], datalist) option';
  copy.querySelectorAll(`${data}, ${names}, ${zones}`).forEach(one => one.remove());
  const found = new Set(), walk = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    let text = walk.currentNode.data, before;
    do { before = text; text = text.replace(/⟦[^⟦⟧]*⟧/g, ' '); } while (text !== before);
    if (/[A-Za-z]{3,}/.test(text)) found.add(text.trim());
  }
  return [...found];
}"""
"""The texts of a page that are no words of a catalogue in which each begins and ends with a bracket."""

NAMES = re.compile(
    r"xwheel|UTC|English|CSV|PNG|Demo( \(demo\))?|first|shown|demo-1|freeze|gateway|captured|given by a test|"
    r"hostile|admin|viewer|operator|editor|chief|local|file|alarm|routers|xwheel-[a-z-]+|[A-Z][A-Z_]+|[a-z]+_[a-z_]+|"
    rf"[0-9a-f]{{16}}|{'|'.join(entry.name for entry in entry_points(group='xwheel'))}|"
    r"⟦[^⟧]*[.]{3}|http://127.*|python-requests.*|RuntimeError: .*|(child |script )?<img .*|"
    r"([0-9]+ )?(Mon|Tue|Wed|Thu|Fri|Sat|Sun)|"
    r"[A-Z][a-z]+day, [A-Z][a-z]+ [0-9]+|(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)( [0-9]+)?",
    re.DOTALL,
)
"""What is no word: names that somebody or something has, and dates, which the browser writes."""

SPEAK = (
    "async language => (await import(new URL('i18n.js', document.baseURI).href)).setLanguage(language)"
    ".then(() => new Promise(done => requestAnimationFrame(() => setTimeout(done))))"
)
"""Changes the language of a page, and waits until it has drawn itself again."""

KEYS = (
    "async () => { const keys = await import(new URL('keys.js', document.baseURI).href);"
    " const help = await import(new URL('components/keyhelp.js', document.baseURI).href);"
    " return [[...keys.active.value], help.KEYS.map(([, key]) => key)] }"
)


class Filled(NamedTuple):
    """What the pages are about: each text that people or handlers choose is hostile."""

    group: int
    job: int
    child: int
    script: int
    revision: int
    run: int
    other: int


@pytest.fixture(scope="module")
def filled(site: Site) -> Filled:
    return fill(site)


def fill(site: Site) -> Filled:
    call, name = site.node.call, HOSTILE[:128]
    long = f"{HOSTILE}{'W' * 4000}"
    group = call("POST", "groups", {"app_name": "hostile", "title": name})["id"]
    call("PATCH", f"groups/{site.group_id}", {"glue_types": ["GLUE_SHELL"]})
    cron = {"schedule_type": "CRON", "schedule_conf": "0 0 2 * * ?", "enabled": True}
    job = site.job(name, description=long[:1024], handler="stumble", **cron)
    child = site.job(f"child {name}"[:128], handler=f'{MARKUP}"')
    text = f"echo '{HOSTILE}'"
    script = site.job(f"script {name}"[:128], glue_type="GLUE_SHELL", glue_source=text, handler="")
    call("PUT", f"jobs/{job}/children", {"children": [{"child_id": child, "param": HOSTILE}]})
    call("PATCH", f"jobs/{job}", {"param": long})
    rule = {"name": name, "kinds": ["failed"], "job_id": job, "window_s": 0}
    call("POST", "alarms/rules", {**rule, "targets": [{"channel": "gateway", "receivers": ["<b>x</b>"]}]})
    call("PUT", "calendars/freeze", {"times": ["2026-11-10T22:00..2026-11-11T06:00"]})
    call("POST", "secrets", {"name": "demo-1", "group_id": site.group_id})
    call("POST", "tokens", {"name": "shown", "role": "operator"})
    site.account("hostile", role="admin", display_name=name.translate({0x202E: "", 0x202C: "", 0x200F: ""}))
    runs = site.run(job, f"{long} \x1b[31mred\x1b[0m\a"), site.run(job, "short")
    site.node.wait_for_attempt("gateway")
    return Filled(group, job, child, script, call("GET", f"jobs/{job}")["revision"], *runs)


def show(page: Page, place: str, filled: Filled) -> None:
    """Go to a place, and wait until what makes it that page is there."""
    fields = filled._asdict()
    go_to(page, place.format(**fields))
    page.locator(PLACES[place].format(**fields)).first.wait_for(timeout=WAIT_MS)
    settled(page)
    expect(page.locator(".drawing:not([data-drawn])")).to_have_count(0)


def fits(page: Page) -> bool:
    """Whether nothing is wider than the window, once charts have taken its size."""

    def is_so() -> bool:
        return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))

    with suppress(AssertionError):
        wait_until(is_so, deadline_s=5)
    return is_so()


# a language changes words only and a theme colours only: one page shows each place in both
def test_every_page_keeps_hostile_text_as_text_speaks_both_languages_and_has_nothing_grave(
    open_page: Open, filled: Filled
) -> None:
    page = open_page("/login", name=None)
    bad = [f"/login {item}" for item in faults_of_both_themes(page)]
    page = open_page("/me", "hostile")
    handled: set[str] = set()
    listed: set[str] = set()
    for place in PLACES:
        show(page, place, filled)
        active, listed = map(set, page.evaluate(KEYS))
        handled |= active
        bad += [f"{place} {item}" for item in faults_of_both_themes(page)]
        if "timeline" in place:
            page.get_by_role("button", name="Show as table").click()
        if place in {"/", "/wall", "/alarms"} or "{" in place:
            expect(page.get_by_text("<img src=x onerror=").first).to_be_attached()
        if place.startswith("/jobs/{script}/code"):
            expect(page.locator("[data-editor]")).to_contain_text(MARKUP)
        bad += [f"{place}: {item}" for item in wrong_words(page)]
        assert page.evaluate("globalThis.harmed") is None, place
        assert page.locator("#app :is(img:not([src='icon.svg'], .cm-widgetBuffer), script)").count() == 0
    assert not bad, "\n".join(bad)
    # "?" lists what the pages handle, and nothing else
    assert handled | {"Escape"} == listed


def faults_of_both_themes(page: Page) -> list[str]:
    """Return what axe calls grave, and colours of the dark theme that are too near to each other."""
    found = faults(page)
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".drawing:not([data-drawn])")).to_have_count(0)
    found += [f"dark {item}" for item in faults(page, rules=["color-contrast"])]
    page.emulate_media(color_scheme="light")
    return found


def wrong_words(page: Page) -> Iterator[str]:
    """Yield what a page has no words for, in English as it is and in Chinese, to which it changes and back."""
    for language in ("en", "zh-CN"):
        page.evaluate(SPEAK, language)
        expect(page.locator("html")).to_have_attribute("lang", language)
        settled(page)
        words = page.locator("main").first.evaluate(TEXT)
        yield from (f"no {language} words for {key}" for key in KEY.findall(words))
        if bool(re.search("[一-鿿]", words)) != (language == "zh-CN"):
            yield f"these words are not {language}: {words}"
    page.evaluate(SPEAK, "en")
    expect(page.locator("html")).to_have_attribute("lang", "en")


def lengthen(route: Route) -> None:
    """Give a catalogue whose words are marked, and a third longer than English, as many languages are."""
    words = route.fetch().json()
    route.fulfill(json={key: f"⟦{text}{' ñ' * (len(text) // 6)}⟧" for key, text in words.items()})


def test_every_word_comes_from_a_catalogue_and_may_be_a_third_longer(
    browser: Browser, watch: Watch, tmp_path: Path
) -> None:
    # names that other tests gave would be taken for words
    own = Site(tmp_path / "node", Gateway())
    with closing(own.node), opened(browser, own, watch) as context:
        filled = fill(own)
        context.add_cookies([own.signed_in("chief")])
        context.route("**/i18n/en/*.json", lengthen)
        page = visit(context.new_page(), own, "/me")
        assert not "\n".join(left_or_too_wide(page, filled))


def left_or_too_wide(page: Page, filled: Filled) -> Iterator[str]:
    """Yield what of each page is in no catalogue, and where a page does not fit its window."""
    for place in PLACES:
        show(page, place, filled)
        expect(page.locator("#app")).to_contain_text("⟦")
        texts = page.locator("#app").evaluate(LEFT)
        yield from (f"{place}: {text[:200]}" for text in texts if not NAMES.fullmatch(text))
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844})
            if not fits(page):
                yield f"{place} is wider than {width}"


def test_hostile_names_can_be_typed_and_deleted(open_page: Open, site: Site, filled: Filled) -> None:
    name = HOSTILE[:128]
    page = open_page(f"/jobs/{filled.job}", "hostile")
    shown = re.sub("[\u202e\u202c\u200f]", "\ufffd", name)
    expect(page.locator("h1")).to_have_text(shown)
    go_to(page, "/executors")
    choose(page, f"More about {shown}", "Delete")
    dialog(page).get_by_label("Type hostile to go on").fill("hostile")
    dialog(page).get_by_role("button", name="Delete").click()
    expect(page.locator(f"[data-id='{filled.group}']")).to_have_count(0)
    assert page.evaluate("globalThis.harmed") is None


ADDERS = re.compile("^Add (a channel|a role in a group|an address)$")
FORMS = {
    "/executors": ["New group"],
    "/alarms/rules": ["New rule", "Send test"],
    "/accounts/users": ["New account"],
    "/accounts/tokens": ["New token"],
    "/accounts/secrets": ["New secret"],
    "/calendars": ["New calendar"],
}


def test_axe_finds_nothing_grave_in_forms(open_page: Open, filled: Filled) -> None:
    page = open_page("/me")
    bad = []
    for place, openers in FORMS.items():
        for opener in openers:
            go_to(page, place)
            page.locator("#main").get_by_role("button", name=opener).first.click()
            form = "#main" if place == "/calendars" else "dialog[open]"
            page.locator(f"{form} form").first.wait_for(timeout=WAIT_MS)
            adders = page.locator(form).get_by_role("button", name=ADDERS)
            is_changed = adders.count() > 0
            if is_changed:
                adders.first.click()
            bad += [f"{place} {opener} {item}" for item in faults(page, form)]
            page.keyboard.press("Escape")
            if is_changed:
                page.get_by_role("button", name="Discard").click()
            expect(page.locator("dialog[open]")).to_have_count(0)
    assert not bad, "\n".join(bad)
