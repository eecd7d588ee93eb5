#!/usr/bin/python3
"""Looks at the page of `cairn serve` in a headless browser while the runs grow.

usage: serve_page_test.py CAIRN [unittest's arguments]

Exits with 77 (ctest: skipped) where there is no browser (page_browser.py), or CAIRN was built
without its server.
"""
import json
import os
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from page_browser import EVIL, PageTest, ROOT

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

RUNS = 10
SECONDS = 60  # that something may take which the page does by itself
LOSS = "loss/train/total"
EVIL_NAME = EVIL.replace("/", "|")[:100]
STATE = """
const all = (selector, what) => [...document.querySelectorAll(selector)].map(what);
const at = document.activeElement;
return {charts: all('#charts h3', (head) => head.textContent),
        sorts: all('#overview th[scope=col]', (head) => head.getAttribute('aria-sort')),
        rows: all('#overview tbody .name', (name) => name.textContent),
        chosen: all('#overview input:checked', (box) => box.closest('tr').querySelector('.name')
                                                            .textContent),
        colors: Object.fromEntries(all('#overview tbody tr', (row) => [
            row.querySelector('.name').textContent,
            row.querySelector('.swatch')?.style.borderTopColor ?? null])),
        isOpen: [choose.open, document.querySelector('#hyperparameters details').open],
        smoothing: smoothing.value,
        filter: filter.value,
        scrolled: document.querySelector('#messages .scroll').scrollTop,
        page: scrollY,
        focus: at.getAttribute('aria-label') ?? at.dataset.key ?? at.id};
"""


def line(**values):
    return json.dumps(values) + "\n"


class ServedPage(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = cls.folder / "runs"
        for number in range(RUNS):
            cls.grow(f"run{number}", 0, 100)
            os.utime(cls.runs / f"run{number}/logs-rank0.jsonl", (1769850000 + number,) * 2)
        cls.start()
        cls.addClassCleanup(cls.stop)

    @classmethod
    def start(cls, port=0):
        cls.server = subprocess.Popen([CAIRN, "serve", cls.runs, "--port", str(port), "--interval",
                                       "1"], stdout=subprocess.PIPE, text=True)
        cls.address = cls.server.stdout.readline().strip()

    @classmethod
    def stop(cls):
        cls.server.send_signal(signal.SIGTERM)
        cls.server.stdout.close()
        return cls.server.wait()

    @classmethod
    def grow(cls, run, begin, end):
        folder = cls.runs / run
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "logs-rank0.jsonl", "a") as log:
            if begin == 0:
                log.write(line(hyperparameter="lr", value=0.1) +
                          line(hyperparameter="run", value=run) +
                          line(time="2026-01-31T09:00:00.000Z", batch=0, event="fit_start"))
            for batch in range(begin, end):
                log.write(line(batch=batch, metric=LOSS, value=1 / (1 + batch)) +
                          line(batch=batch, metric="lr", value=0.1) +
                          line(batch=batch, message=f"saved {batch}"))

    def setUp(self):
        self.resize(1300, 1000)
        self.open(self.address)
        self.until(lambda: self.id("charts").text)

    def until(self, condition):
        return WebDriverWait(self.browser, SECONDS).until(lambda _: condition())

    def in_row(self, run, text):
        """What a script gives with `row`, the run's row. The table is made anew at any time, so
        that an element of it may be gone before the browser is asked for the next."""
        return self.script("""
            const row = [...document.querySelectorAll('#overview tbody tr')].find(
                (row) => row.querySelector('.name').textContent === arguments[0]);
            """ + text, run)

    def batch_of(self, run):
        text = self.in_row(run, "return row.querySelectorAll('td')[1].textContent")
        return int(text.split()[0].replace(",", ""))

    def state(self):
        return self.script(STATE)

    def set(self, name, value, kind):
        self.script("const at = document.getElementById(arguments[0]); at.value = arguments[1];"
                    "at.dispatchEvent(new Event(arguments[2]));", name, value, kind)

    def test_shows_all_runs_and_the_curves_of_the_newest(self):
        state = self.state()
        self.assertEqual([name for name in state["rows"] if name.startswith("run")],
                         [f"run{number}" for number in range(RUNS)])
        self.assertEqual(len(state["chosen"]), 8)
        self.assertNotIn("run0", state["chosen"])
        self.assertEqual(state["charts"], [LOSS])
        self.assertTrue(all(url.startswith(self.address) for url in self.requests()))
        self.assert_no_errors()

    def test_new_data_leaves_what_the_user_did(self):
        self.id("choose").find_element(By.TAG_NAME, "summary").click()
        self.script("document.querySelector('#hyperparameters details').open = true")
        self.id("filter").send_keys("lr")
        self.id("all").click()
        self.set("from", 20, "change")
        self.set("smoothing", 0.5, "input")
        self.in_row("run9", "row.querySelector('input').click()")
        self.script("document.querySelectorAll('#overview th button')[2].click()")
        self.until(lambda: "run9" not in self.browser.find_element(By.ID, "charts").text)
        self.script("document.querySelector('#messages .scroll').scrollTop = 100")
        chart = self.browser.find_element(By.CSS_SELECTOR, f"[aria-label='{LOSS}, by batch']")
        self.script("arguments[0].focus()", chart)
        self.press(Keys.PAGE_UP, Keys.PAGE_UP)
        read = chart.get_attribute("aria-valuenow")
        before = self.state()
        self.assertEqual(before["charts"], [LOSS, "lr"])
        self.assertGreater(before["scrolled"], 0)
        zoomed = self.range()
        self.grow("run8", 100, 150)
        self.until(lambda: self.batch_of("run8") == 149)
        after = self.state()
        # The table is sorted by a number that has grown.
        self.assertEqual(after["rows"][-1], "run8")
        for state in (before, after):
            state["rows"].sort()
            state["chosen"].sort()
        self.assertEqual(after, before)
        self.assertEqual(self.range(), zoomed)
        self.assertEqual(chart.get_attribute("aria-valuenow"), read)
        self.press("+")
        self.assertLess(self.range()[1] - self.range()[0], zoomed[1] - zoomed[0])
        self.press(Keys.ESCAPE)
        self.assertEqual(self.range(), (0, 149))
        self.assert_no_errors()

    def test_a_text_that_is_being_typed_stays(self):
        to = self.id("to")
        to.send_keys(Keys.HOME + Keys.SHIFT + Keys.END)
        to.send_keys("4")
        self.grow("run7", 100, 101)
        self.until(lambda: self.batch_of("run7") == 100)
        to.send_keys("2" + Keys.ENTER)
        self.assertEqual(self.range(), (0, 42))

    def test_runs_are_chosen_by_keyboard_and_keep_their_colors(self):
        colors = self.state()["colors"]
        self.in_row("run3", "row.querySelector('input').focus()")
        self.press(Keys.SPACE)
        self.until(lambda: self.state()["colors"]["run3"] is None)
        state = self.state()
        self.assertEqual(state["focus"], "show run3")
        self.assertNotIn("run3", state["chosen"])
        kept = {name: color for name, color in colors.items() if name != "run3"}
        self.assertEqual({**state["colors"], "run3": None}, {**kept, "run3": None})
        self.press(Keys.SPACE)
        self.until(lambda: self.state()["colors"]["run3"])
        self.assertEqual(self.state()["colors"], colors)

    def test_a_new_run_appears(self):
        self.addCleanup(subprocess.run, ["rm", "-r", self.runs / EVIL_NAME])
        self.grow(EVIL_NAME, 0, 5)
        self.until(lambda: EVIL_NAME in self.state()["rows"])
        self.until(lambda: EVIL_NAME in self.state()["chosen"])
        self.assertTrue(self.browser.title.startswith("cairn serve: "), self.browser.title)
        self.assertEqual(self.browser.find_elements(By.TAG_NAME, "img"), [])
        self.assertEqual(len(self.browser.find_elements(By.TAG_NAME, "script")), 2)
        self.assert_no_errors()

    def test_a_server_that_is_gone_is_told_and_found_again(self):
        problem = self.id("problem")
        self.assertFalse(problem.is_displayed())
        port = int(self.address.rsplit(":", 1)[1].strip("/"))
        self.assertEqual(type(self).stop(), 0)
        self.until(problem.is_displayed)
        self.assertIn("The server has not answered since", problem.text)
        self.assertEqual(self.state()["charts"], [LOSS])
        type(self).start(port)
        self.until(lambda: not problem.is_displayed())

    def test_fits_a_narrow_screen(self):
        self.resize(360, 740)
        self.open(self.address)
        self.until(lambda: self.id("charts").text)
        wide = self.script("""
            return [...document.querySelectorAll('*')]
                .filter((at) => at.getBoundingClientRect().right > 360 && !at.closest('.scroll'))
                .map((at) => at.outerHTML.slice(0, 200))""")
        self.assertEqual(wide, [])


if __name__ == "__main__":
    CAIRN = sys.argv[1]
    help_text = subprocess.run([CAIRN, "serve", str(ROOT / "none")], capture_output=True, text=True)
    if "was built without" in help_text.stderr:
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
