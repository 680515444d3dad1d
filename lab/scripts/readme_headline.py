"""Insert the table of docs/results/headline.md into README.md, between its two markers."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"(<!-- headline -->\n).*?(<!-- end of headline -->)", flags=re.DOTALL)


def with_headline(readme: str, headline: str) -> str:
    """Return the README with a new table between the markers."""
    changed, n_places = MARKED.subn(lambda m: m[1] + headline.strip() + "\n" + m[2], readme)
    if n_places != 1:
        raise SystemExit("README.md must have the markers of the headline exactly once.")
    return changed


if __name__ == "__main__":
    page, table = ROOT / "README.md", ROOT / "docs" / "results" / "headline.md"
    text = with_headline(page.read_text(encoding="utf-8"), table.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")
