#!/usr/bin/python3
"""check.py SITE: opens every page of a built site in a headless browser, from a server of its own.

Fails if a page has no heading or writes an error to the console, if a link leads to no page or no
anchor of the site, or if the search does not find what SEARCHES says.
"""
import functools
import http.server
import pathlib
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

SEARCHES = {  # and a page that is among the results
    "CheckpointSaver": "api/callbacks_checkpoint_saver.html",
    "save_interval": "docs/trainer.html",
}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--window-size=1300,1000"]
FAVICON = "/favicon.ico"  # asked for once, whether or not a page names it
LOOK = """
const all = (selector, what) => [...document.querySelectorAll(selector)].map(what);
return {heading: all('h1', e => e.textContent).join(),
        anchors: [...all('[id]', e => e.id), ...all('a[name]', e => e.name)],
        links: [...all('a[href], link[href]', e => e.href), ...all('[src]', e => e.src)]};
"""
# What a search has found, or null while it goes on.
FOUND = """
const status = document.querySelector('#search-results .search-summary');
if (!status || !/finished|did not match/.test(status.textContent)) return null;
return [...document.querySelectorAll('#search-results li a')].map(e => e.href);
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):  # a browser that leaves a page needs the rest of it no more
        pass


def serve(site):
    server = Server(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def start_browser(folder, logs=("browser",)):
    options = webdriver.ChromeOptions()
    for flag in [*FLAGS, f"--user-data-dir={folder}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {log: "ALL" for log in logs})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def console_errors(browser):
    return [entry["message"] for entry in browser.get_log("browser")
            if entry["level"] == "SEVERE" and FAVICON not in entry["message"]]


def answers(url):
    try:
        with urllib.request.urlopen(url) as response:
            return response.status == 200
    except OSError:
        return False


def check_pages(browser, base, site):
    """Returns the problems of all pages, and how many pages and links there are."""
    problems, pages = [], {}
    for path in sorted(site.rglob("*.html")):
        url = base + urllib.parse.quote(str(path.relative_to(site)))
        browser.get(url)
        pages[url] = page = browser.execute_script(LOOK)
        problems += [f"{url}: {error}" for error in console_errors(browser)]
        if not page["heading"].strip() and path.name != "search.html":
            problems.append(f"{url}: no heading")
    files = functools.lru_cache(maxsize=None)(answers)
    count = 0
    for url, page in pages.items():
        for link in sorted({link for link in page["links"] if link.startswith(base)}):
            count += 1
            target, _, anchor = link.partition("#")
            target += "index.html" if target.endswith("/") else ""
            target = target.partition("?")[0]
            if target not in pages and not files(target):
                problems.append(f"{url}: {link} leads nowhere")
            elif anchor and urllib.parse.unquote(anchor) not in pages[target]["anchors"]:
                problems.append(f"{url}: {link} is no anchor there")
    return problems, len(pages), count


def search(browser, base, words):
    """The pages that a search finds."""
    browser.get(f"{base}search.html?q={urllib.parse.quote(words)}")
    end = time.monotonic() + 30
    found = None
    while found is None and time.monotonic() < end:
        time.sleep(0.1)
        found = browser.execute_script(FOUND)
    return found or []


def main(site):
    base = serve(site)
    with tempfile.TemporaryDirectory() as folder:
        browser = start_browser(folder)
        try:
            problems, pages, links = check_pages(browser, base, pathlib.Path(site))
            for words, expected in SEARCHES.items():
                found = search(browser, base, words)
                if not any(url.startswith(base + expected) for url in found):
                    problems.append(f"the search for {words} does not find {expected}: {found}")
                problems += [f"search for {words}: {error}" for error in console_errors(browser)]
        finally:
            browser.quit()
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"site: {pages} pages, {links} links, {len(SEARCHES)} searches, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
