"""A headless browser for the tests of the tool's pages.

Exits with 77 (ctest: skipped) where Chromium, its driver or Selenium is missing (Debian: chromium
chromium-driver python3-selenium).
"""
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))
try:
    from check import start_browser
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
except ImportError:
    sys.exit(77)
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    sys.exit(77)

EVIL = ("</script><script>document.title='owned'</script>"
        "<img src=x onerror=\"document.title='owned'\">\u2028\u202e{{policy}}")


class PageTest(unittest.TestCase):
    """Has a folder of its own, and a browser."""
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.profile = cls.folder / "browser"
        cls.browser = start_browser(cls.profile, ("browser", "performance"))
        cls.addClassCleanup(cls.browser.quit)

    def open(self, address):
        self.browser.get_log("performance")
        self.browser.get_log("browser")
        self.browser.get(address)

    def resize(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def id(self, name):
        return self.browser.find_element(By.ID, name)

    def range(self):
        return tuple(float(self.id(name).get_property("value")) for name in ("from", "to"))

    def press(self, *keys):
        ActionChains(self.browser).send_keys(*keys).perform()

    def requests(self):
        """The addresses that the page has asked for since it was opened."""
        sent = [event["params"]["request"]["url"] for event in
                (json.loads(entry["message"])["message"] for entry in
                 self.browser.get_log("performance"))
                if event["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")]

    def assert_no_errors(self):
        errors = [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual(errors, [])
