"""Take the pictures of the studio for ``docs``: its page in Chromium, with labels given by keys.

python scripts/draw_studio.py          # into docs/results/studio; needs scripts/get_browser.sh

Each label waits for the fits before it. Still, the rows that come up and the seconds shown differ
from run to run, so no test compares these pictures.
"""

import argparse
import csv
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright
from sklearn.datasets import load_digits

from glnn.studio import LabelSession
from glnn.studio.server import StudioServer

ROOT = Path(__file__).resolve().parents[1]
N_LABELS = 40


@contextmanager
def open_page(browser: Browser, session: LabelSession) -> Iterator[Page]:
    """Serve a session and open its page."""
    server = StudioServer(session)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        tab = browser.new_page(viewport={"width": 1400, "height": 940})
        tab.goto(server.url)
        expect(tab.locator("#row-title")).not_to_have_text("No row yet")
        yield tab
        tab.close()
    finally:
        server.stop()
        thread.join()


def save_picture(tab: Page, path: Path) -> None:
    """Save what the page shows when its last fit and its map are there."""
    expect(tab.locator("#fit")).to_contain_text("learned from")
    expect(tab.locator("#map-learned")).to_have_attribute("data-drawn", "sharp")
    tab.wait_for_timeout(1500)
    tab.screenshot(path=path)
    print(path)


def draw_customers(browser: Browser, out: Path, folder: Path) -> None:
    """Show the table of the tutorial as it opens, with the estimate of the full model."""
    table = ROOT / "examples" / "customers.csv"
    with LabelSession(table, folder / "customers", label="plan") as session:
        session.fit("full")
        with open_page(browser, session) as tab:
            save_picture(tab, out / "customers.png")


def draw_digits(browser: Browser, out: Path, folder: Path) -> None:
    """Show the digits of scikit-learn after some labels, with the learning curve."""
    digits = load_digits()
    table = folder / "digits.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"pixel {k}" for k in range(64))])
        writer.writerows([f"digit {k}", *map(int, row)] for k, row in enumerate(digits.data))
    with LabelSession(table, folder / "digits") as session, open_page(browser, session) as tab:
        while len(session.labels) < N_LABELS:
            give_label(tab, session, digits.target)
            session.wait()
        session.fit("full")
        save_picture(tab, out / "digits.png")


def give_label(tab: Page, session: LabelSession, truth: Any) -> None:
    """Label the row that is shown, by keys as a person would."""
    row = tab.locator("#row-title").inner_text()
    value = str(truth[int(row.split()[-1])])
    if value in session.labels.values():
        tab.keyboard.press(value)
    else:
        tab.keyboard.press("n")
        tab.keyboard.type(value)
        tab.keyboard.press("Enter")
    expect(tab.locator("#row-title")).not_to_have_text(row)
    tab.wait_for_timeout(50)


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "studio")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        draw_customers(browser, out, Path(folder))
        draw_digits(browser, out, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
