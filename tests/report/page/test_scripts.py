import base64
import hashlib
import json

import pytest

from glnn.report.page.scripts import (
    PARTS,
    inline_json,
    inline_script,
    own_script,
    own_style,
    policy,
)


def test_the_policy_names_the_digest_of_each_script():
    digest = base64.b64encode(hashlib.sha256(b"a = 1").digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy(["a = 1"])
    assert "unsafe-eval" not in policy(["a = 1"])


@pytest.mark.parametrize("text", ["x = '</SCRIPT>'", "x = '<!--'"])
def test_a_script_that_would_end_its_element_is_refused(text):
    with pytest.raises(ValueError, match="must not contain"):
        inline_script(text)


def test_json_on_the_page_has_no_sign_of_html_and_reads_back():
    value = {"name": "</script><!-- & 'quoted'"}
    text = inline_json(value)
    assert not set(text) & set("<>&")
    assert json.loads(text) == value


def test_all_parts_are_in_the_script_and_ask_for_nothing():
    script = own_script()
    assert script.count("\n// ") >= len(PARTS)
    for word in ("eval(", "innerHTML", "fetch(", "XMLHttpRequest", "import("):
        assert word not in script
    for word in ("url(", "@import"):
        assert word not in own_style()
