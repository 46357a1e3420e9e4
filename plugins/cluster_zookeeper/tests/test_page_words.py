"""The cluster's page: its files keep the contract, and its words are complete in both languages."""

from __future__ import annotations

import re
from pathlib import Path

from xwheel import Config
from xwheel_devtools.testing import check_pages

import xwheel_cluster_zookeeper
from xwheel_cluster_zookeeper.pages import ClusterPages

STATIC = Path(ClusterPages.folder)
PAIR = re.compile(r'"?([\w.-]+)"?: "([^"]*)"')


def words() -> tuple[dict[str, str], dict[str, str]]:
    text = (STATIC / "cluster.js").read_text("utf-8")
    english, chinese = text[: text.index("menu:")].split('"zh-CN":')
    return dict(PAIR.findall(english)), dict(PAIR.findall(chinese))


def test_the_page_keeps_the_contract() -> None:
    check_pages(ClusterPages())


def test_it_is_there_only_where_a_store_and_a_cluster_are(tmp_path: Path) -> None:
    def pages(**options: object) -> int:
        return len(
            list(xwheel_cluster_zookeeper.xwheel_register_pages(Config(plugins={"options": options})))  # type: ignore[arg-type]
        )

    store = {"store": {"directory": str(tmp_path)}}
    assert pages() == pages(job_package=store) == 0
    assert pages(cluster_zookeeper={"hosts": "127.0.0.1:2181"}) == 0
    assert pages(job_package=store, cluster_zookeeper={"hosts": "127.0.0.1:2181"}) == 1


def test_both_languages_have_the_same_words_with_the_same_slots() -> None:
    english, chinese = words()
    assert len(english) > 40
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", chinese[key])), key


def test_every_word_that_is_used_is_there() -> None:
    english, _ = words()
    used = set(re.findall(r'\bw\("([\w.-]+)"', (STATIC / "nodes.js").read_text("utf-8")))
    assert used <= english.keys()
    assert len(used) > 20
