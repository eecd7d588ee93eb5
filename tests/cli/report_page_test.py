#!/usr/bin/python3
"""Looks at the page of `cairn report` in a headless browser: a run of 10^6 rows and 1,000
checkpoints beside a hostile one.

usage: report_page_test.py CAIRN [unittest's arguments]

Exits with 77 (ctest: skipped) where Chromium, its driver or Selenium is missing (Debian: chromium
chromium-driver python3-selenium).
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from page_browser import EVIL, PageTest, ROOT

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROWS = 1_000_000
CHECKPOINTS = 1_000
MOST_BYTES = 5_000_000
# Other tests run on the same processors: the best of three paints, and times of the page's thread.
MOST_MS_TO_PAINT = 2_000
MOST_MS_TO_ZOOM = 100
MOST_MS_TO_SORT = 1_000
CHART = "loss/train/total, by batch"
CONTRAST_OF_TEXT = 4.5
CONTRAST_OF_LINES = 3
# Changes an input, and waits until the browser has drawn what that changed.
CHANGE = """
const [id, value, kind, done] = arguments;
document.getElementById(id).value = value;
document.getElementById(id).dispatchEvent(new Event(kind));
requestAnimationFrame(() => setTimeout(done));
"""
# Scrolls to a chart, and waits until the page has been told so and the browser has drawn it.
SHOW = """
const [chart, done] = arguments;
chart.scrollIntoView();
const seen = new IntersectionObserver(() => {
  seen.disconnect();
  requestAnimationFrame(() => setTimeout(done));
});
seen.observe(chart);
"""
# The contrast of each colour with the colours behind it, as WCAG 2 defines it.
CONTRASTS = """
const paint = document.createElement('canvas').getContext('2d');
const luminance = (name) => {
  paint.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  paint.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].map((part) => part / 255)
      .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};
const least = (names) => Math.min(...names.flatMap(
    (name) => ['--back', '--panel'].map((back) => contrast(name, back))));
return {texts: least(['--text', '--dim', '--bad']),
        lines: least([0, 1, 2, 3, 4, 5, 6, 7].map((run) => `--run-${run}`).concat('--focus')),
        back: luminance('--back')};
"""


def write_long_run(folder):
    """A run of ROWS metrics that was killed once, and CHECKPOINTS files."""
    (folder / "ckpt").mkdir(parents=True)
    checkpoint = (ROOT / "tests/data/cairn/tiny.pt").read_bytes()
    batches = ROWS // 2
    with open(folder / "logs-rank0.jsonl", "w") as log:
        log.write('{"hyperparameter":"lr","value":0.1}\n')
        log.write('{"time":"2026-01-31T09:00:00.000Z","batch":0,"event":"fit_start"}\n')
        for batch in range(batches):
            loss = 2 / (1 + batch / batches) + (batch * 7919 % 1000) / 5000
            log.write(f'{{"batch":{batch},"metric":"loss/train/total","value":{loss}}}\n'
                      f'{{"batch":{batch},"metric":"lr","value":{0.1 - batch / batches / 10}}}\n')
        log.write('{"time":"2026-01-31T10:00:00.000Z","batch":250000,"event":"fit_start"}\n')
        log.write(f'{{"time":"2026-01-31T12:00:00.000Z","batch":{batches},"event":"fit_end"}}\n')
    for number in range(1, CHECKPOINTS + 1):
        path = folder / f"ckpt/ep{number // 10}-ba{number * 500}-rank0.pt"
        path.write_bytes(checkpoint + bytes(number * 7 % 100))
        os.utime(path, (1769850000 + number * 10,) * 2)


def write_hostile_run(folder):
    folder.mkdir()
    lines = [{"hyperparameter": "lr", "value": 0.2}, {"hyperparameter": EVIL, "value": EVIL},
             {"batch": 1, "message": EVIL}]
    for name in ("loss/" + EVIL, "__proto__", "loss/train/total"):
        lines += [{"batch": batch, "metric": name, "value": batch} for batch in (1, 2, 3)]
    lines.append({"batch": 4, "metric": "loss/train/total", "value": None})
    lines += [{"batch": batch, "metric": "tiny", "value": 10.0 ** -batch} for batch in range(31)]
    lines += [{"batch": batch, "metric": "never positive", "value": -batch} for batch in range(5)]
    with open(folder / "logs-rank0.jsonl", "w") as log:
        log.writelines(json.dumps(line) + "\n" for line in lines)


class ReportPage(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_long_run(cls.folder / "long")
        write_hostile_run(cls.folder / EVIL.replace("/", "|")[:100])
        cls.page = cls.folder / "report.html"
        runs = sorted(str(path) for path in cls.folder.iterdir() if path != cls.profile)
        subprocess.run([CAIRN, "report", *runs[::-1], "-o", cls.page], check=True)

    def setUp(self):
        self.resize(1300, 1000)
        self.open(self.page.as_uri())

    def chart(self):
        return self.browser.find_element(By.CSS_SELECTOR, f"[aria-label='{CHART}']")

    def test_is_small_and_there_at_once(self):
        self.assertLess(self.page.stat().st_size, MOST_BYTES)
        paints = []
        for _ in range(3):
            self.open(self.page.as_uri())
            paints.append(self.script(
                "return Math.max(...performance.getEntriesByType('paint').map(e => e.startTime))"))
        self.assertLess(min(paints), MOST_MS_TO_PAINT, paints)
        self.assertEqual(len(self.browser.find_elements(By.CSS_SELECTOR, "#checkpoints tbody tr")),
                         CHECKPOINTS)
        self.assertFalse(self.id("problem").is_displayed())
        self.assert_no_errors()

    def busy(self):
        """The milliseconds that the page's thread has worked."""
        metrics = self.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return 1000 * next(m["value"] for m in metrics if m["name"] == "TaskDuration")

    def test_zooms_and_smooths_at_once(self):
        self.browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        changes = [("from", batch, "change") for batch in (1000, 5000, 20000, 100000, 200000)]
        changes += [("smoothing", weight, "input") for weight in (0.5, 0.9, 0.99, 0)]
        took = []
        for change in changes:
            begin = self.busy()
            self.browser.execute_async_script(CHANGE, *change)
            took.append(round(self.busy() - begin))
        self.assertEqual(self.range()[0], 200000)
        self.assertGreater(max(took), 0)
        print("ms to zoom and to smooth:", took, file=sys.stderr)
        self.assertLess(max(took), MOST_MS_TO_ZOOM, took)

    def test_has_a_logarithmic_axis(self):
        self.id("choose").find_element(By.TAG_NAME, "summary").click()
        self.id("all").click()

        def picture(name):
            chart = self.browser.find_element(By.CSS_SELECTOR, f"[aria-label='{name}, by batch']")
            self.browser.execute_async_script(SHOW, chart)
            return self.script("return arguments[0].querySelector('canvas').toDataURL()", chart)
        names = ["loss/train/total", "tiny", "never positive"]
        linear = {name: picture(name) for name in names}
        self.id("logarithmic").click()
        self.assertEqual([name for name in names if picture(name) == linear[name]],
                         ["never positive"])
        self.id("logarithmic").click()
        self.assertEqual({name: picture(name) for name in names}, linear)
        self.assert_no_errors()

    def test_drags_to_zoom_and_resets(self):
        all_batches = self.range()
        plot = self.chart().find_element(By.CLASS_NAME, "u-over")
        (ActionChains(self.browser).scroll_to_element(plot).move_to_element(plot).click_and_hold()
         .move_by_offset(80, 5).release().perform())
        low, high = self.range()
        self.assertTrue(all_batches[0] < low < high < all_batches[1], (low, high))
        self.id("reset").click()
        self.assertEqual(self.range(), all_batches)

    def test_sends_no_request(self):
        self.assertEqual(self.requests(), [self.page.as_uri()])

    def test_keyboard_reaches_everything_and_shows_where_it_is(self):
        reached = []
        while True:
            self.press(Keys.TAB)
            where, outline = self.script("""
                const at = document.activeElement;
                return [at === document.body ? null :
                            at.id || at.getAttribute('aria-label') || at.textContent.trim(),
                        getComputedStyle(at).outlineStyle]""")
            if where is None or len(reached) > 100:
                break
            self.assertNotEqual(outline, "none", where)
            reached.append(where)
        order = ["Skip to the curves", "smoothing", "logarithmic", "from", "to", "zoom_in",
                 "zoom_out", "reset", CHART, "Name"]
        self.assertEqual([where for where in reached if where in order], order)

    def test_keyboard_reads_and_zooms_a_chart(self):
        chart = self.chart()
        all_batches = self.range()
        self.script("arguments[0].focus()", chart)
        self.press(Keys.PAGE_UP, Keys.PAGE_UP, Keys.ARROW_RIGHT)
        text = chart.get_attribute("aria-valuetext")
        self.assertRegex(text, r"^batch \d+: .*long \d\.\d+ \(\d.* to \d.*\)")
        self.assertIn(f"Batch {int(chart.get_attribute('aria-valuenow')):,}",
                      self.browser.find_element(By.ID, "charts").text)
        self.press(Keys.ARROW_RIGHT)
        self.assertNotEqual(chart.get_attribute("aria-valuetext"), text)
        self.press("++")
        low, high = self.range()
        self.assertAlmostEqual(high - low, (all_batches[1] - all_batches[0]) / 4, delta=2)
        self.press(Keys.ESCAPE)
        self.assertEqual(self.range(), all_batches)

    def test_keyboard_sorts_the_table(self):
        head = self.browser.find_element(By.XPATH, "//section[@id='checkpoints']//th[.='Time']")
        button = head.find_element(By.TAG_NAME, "button")
        self.script("arguments[0].focus()", button)
        for direction in ("ascending", "descending"):
            self.press(Keys.ENTER)
            self.assertEqual(head.get_attribute("aria-sort"), direction)
            times = self.script("return [...document.querySelectorAll('#checkpoints tbody tr')]"
                                ".map(row => row.children[4].textContent)")
            self.assertEqual(times, sorted(times, reverse=direction == "descending"))
        self.browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        begin = self.busy()
        self.script("arguments[0].click(); document.body.offsetHeight", button)
        self.assertLess(self.busy() - begin, MOST_MS_TO_SORT)

    def test_shows_and_hides_metrics_and_runs(self):
        def names():
            return [head.text for head in self.browser.find_elements(By.CSS_SELECTOR, "#charts h3")]
        self.assertEqual(len(names()), 2)
        self.id("choose").find_element(By.TAG_NAME, "summary").click()
        self.id("filter").send_keys("lr")
        self.id("all").click()
        self.assertIn("lr", names())
        self.id("filter").clear()
        self.id("filter").send_keys("o")
        self.id("none").click()
        self.assertEqual(names(), ["lr"])
        self.assertEqual(self.range(), (0, ROWS // 2 - 1))
        self.browser.find_elements(By.CSS_SELECTOR, "#runs input")[0].click()
        self.assertEqual(self.range(), (0, 1))
        self.assert_no_errors()

    def test_fits_a_narrow_screen(self):
        self.resize(360, 740)
        self.open(self.page.as_uri())
        self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), 360)
        self.assertLessEqual(self.chart().size["width"], 360)

    def test_has_contrast_by_day_and_by_night(self):
        backs = []
        for scheme in ("light", "dark"):
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": scheme}]})
            found = self.script(CONTRASTS)
            self.assertGreaterEqual(found["texts"], CONTRAST_OF_TEXT, scheme)
            self.assertGreaterEqual(found["lines"], CONTRAST_OF_LINES, scheme)
            backs.append(found["back"])
        self.assertGreater(backs[0], 0.9)
        self.assertLess(backs[1], 0.1)

    def test_hostile_text_is_shown_and_does_nothing(self):
        self.assertTrue(self.browser.title.startswith("cairn report: "), self.browser.title)
        self.assertEqual(self.browser.find_elements(By.TAG_NAME, "img"), [])
        self.assertEqual(len(self.browser.find_elements(By.TAG_NAME, "script")), 2)
        charts = self.script("return [...document.querySelectorAll('#charts h3')]"
                             ".map(head => head.textContent)")
        self.assertIn("loss/" + EVIL, charts)
        cells = self.script("return [...document.querySelectorAll('th, td')]"
                            ".map(cell => cell.textContent)")
        self.assertEqual(cells.count(EVIL), 2)  # a hyperparameter and a message
        self.assertEqual(sum(cell.startswith('"</script>') for cell in cells), 1)  # its value
        self.assertIn("1 value is not finite, the first at batch 4", self.id("charts").text)
        self.assert_no_errors()

    def test_policy_stops_what_would_get_into_the_page(self):
        attacked = self.folder / "attacked.html"
        attacked.write_text(self.page.read_text().replace("<h1>", (
            "<script>document.title='owned'</script>"
            "<img src=x onerror=\"document.title='owned'\"><style>h1 { display: none }</style>"
            "<base href='https://example.org/'><h1>")))
        self.open(attacked.as_uri())
        self.assertIn("long", self.browser.title)
        self.assertTrue(self.browser.find_element(By.TAG_NAME, "h1").is_displayed())
        self.assertTrue(self.script("return document.baseURI").startswith("file:"))
        self.assertTrue(self.script(
            "try { document.body.innerHTML = 'x'; return false; } catch { return true; }"))


if __name__ == "__main__":
    CAIRN = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
