"""T13 and T14: nothing turns data into code, nothing runs a shell, and secrets are compared in constant time."""

from __future__ import annotations

import ast

import pytest

from tests.security.static import findings
from tests.support.paths import ROOT

CODE = sorted([*(ROOT / "xwheel").rglob("*.py"), *ROOT.glob("plugins/*/xwheel_*/**/*.py")])

# what is right although the rule names it; each with its reason
ALLOWED = {
    # limits of our own schema, into words of our own
    ("plugins/openapi/xwheel_openapi/pages.py", "foreign template: words.format"),
    # an index finds the digest, which tells nothing of a secret of 256 random bits
    ("plugins/accounts/xwheel_accounts/storage/links.py", "secret compared: sign_in_link.c.digest == digest"),
    (
        "plugins/accounts/xwheel_accounts/storage/links.py",
        "secret compared: sign_in_link.c.digest == digest_token(secret)",
    ),
    # a table of our own sentences
    ("xwheel/storage/database/errors.py", "foreign template: kind.value.format"),
    # the words of `plugins new`, which get a name that was checked
    ("plugins/devtools/xwheel_devtools/scaffold/project.py", "foreign template: words.usage.format"),
}


def test_nothing_forbidden_stands_in_the_code() -> None:
    assert [
        (where, item)
        for path in CODE
        for where in [str(path.relative_to(ROOT))]
        for item in findings(path.read_text())
        if (where, item.partition(": ")[2]) not in ALLOWED
    ] == []


def test_what_is_allowed_is_still_there() -> None:
    for where, what in ALLOWED:
        assert any(item.endswith(what) for item in findings((ROOT / where).read_text())), where


def test_the_whole_code_is_looked_at() -> None:
    names = {str(path.relative_to(ROOT)) for path in CODE}
    assert {"xwheel/node/node.py", "xwheel/api/http/auth.py", "xwheel/executor/running/child.py"} <= names
    assert "plugins/glue_script/xwheel_glue_script/script.py" in names


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "import jinja2.sandbox",
        "eval(text)",
        "exec(text, {})",
        "builtins.eval(text)",
        "compile(text, '', 'exec')",
        "__import__(name)",
        "os.system(text)",
        "from os import system",
        "subprocess.run(text, shell=True)",
        "subprocess.run(text, shell=flag)",
        "asyncio.create_subprocess_shell(text)",
        "os.spawnlp(0, 'sh', 'sh')",
        "yaml.load(text)",
        "yaml.load(text, Loader=yaml.Loader)",
        "from yaml import unsafe_load",
        "yaml.full_load(text)",
        "template.format(run=run)",
        "rule.text.format_map(facts)",
        "f'{rule}' % run",
        "ssl._create_unverified_context()",
        "context.verify_mode = ssl.CERT_NONE",
        "requests.get(url, verify=False)",
        "token == wanted",
        "if self._token != given.token: pass",
        "given in tokens_of(group) or token in tokens",
        "known.digest == digest",
    ],
)
def test_what_is_forbidden_is_found(source: str) -> None:
    assert list(findings(source)) != []


@pytest.mark.parametrize(
    "source",
    [
        "import json, string",
        "subprocess.run(['ls'], shell=False)",
        "'{} of {}'.format(1, 2)",
        "contract.TEXT.format(path)",
        "yaml.safe_load(text)",
        "5 % 3",
        "'%s' % text",
        "hmac.compare_digest(token, wanted)",
        "token == ''",
        "token is None",
        "name == 'secret'",
        "re.compile('x')",
    ],
)
def test_what_is_right_is_not_found(source: str) -> None:
    assert list(findings(source)) == []


def test_every_token_is_compared_by_the_function_that_takes_the_same_time() -> None:
    """The doors of both HTTP sides call it, and nothing else decides there."""
    for where, function in (("xwheel/wire/contract.py", "check_token"), ("xwheel/access/tokens.py", "_matches")):
        tree = ast.parse((ROOT / where).read_text())
        (body,) = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function]
        calls = {ast.unparse(n.func) for n in ast.walk(body) if isinstance(n, ast.Call)}
        assert "hmac.compare_digest" in calls, where
    tree = ast.parse((ROOT / "xwheel/executor/intake/endpoints.py").read_text())
    assert any(isinstance(n, ast.Name) and n.id == "check_token" for n in ast.walk(tree))
