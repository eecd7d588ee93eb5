// Fetches what the page shows from its server, again and again.

const SLOWER_WHEN_HIDDEN = 12;
const MOST_SECONDS = 60;  // that an answer may take

let isPressed = false;
for (const [kind, pressed] of [["pointerdown", true], ["pointerup", false],
                               ["pointercancel", false]]) {
  addEventListener(kind, () => { isPressed = pressed; }, true);
}

// Waits while a button of the mouse is down: a click or a drag must not lose what it is on.
async function released() {
  while (isPressed) {
    await new Promise((resolve) => {
      for (const kind of ["pointerup", "pointercancel"]) {
        addEventListener(kind, () => setTimeout(resolve), {once: true});
      }
    });
  }
}

class Live {
  constructor({address, every}) {
    this.address = address;
    this.every = every;
    this.shown = null;  // the names of the runs that the user has chosen; null: the server chooses
    this.data = null;
    this.since = null;  // when the server stopped answering
    this.request = null;
    this.timer = null;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.refresh();
    });
  }

  query() {
    if (this.shown === null) return this.address;
    const names = [...this.shown].map((name) => ["run", name]);
    return `${this.address}?${new URLSearchParams([["chosen", "1"], ...names])}`;
  }

  async refresh() {
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    clearTimeout(this.timer);
    const tooLong = setTimeout(() => request.abort(), MOST_SECONDS * 1000);
    try {
      const answer = await fetch(this.query(), {signal: request.signal, cache: "no-store"});
      const data = answer.ok ? await answer.json() : null;
      if (data !== null) await released();
      if (this.request !== request) return;
      if (data === null) this.tellRefusal(answer.status); else this.show(data);
    } catch (error) {
      if (this.request !== request) return;
      this.tellGone(error);
    } finally {
      clearTimeout(tooLong);
    }
    const seconds = this.every * (document.hidden ? SLOWER_WHEN_HIDDEN : 1);
    this.timer = setTimeout(() => this.refresh(), seconds * 1000);
  }

  show(data) {
    this.data = data;
    this.since = null;
    this.every = data.every;
    byId("problem").textContent = data.problem ?? "";
    byId("problem").hidden = !data.problem;
    document.title = `cairn serve: ${data.place}`;
    byId("made").textContent =
        `${data.place}: as of ${timeText(data.made)}, by cairn ${data.cairn}, ` +
        `and fetched again every ${data.every} s. Checkpoints are checked for structure and size.`;
    showRuns(data);
    this.showTable();
    showLinks();
  }

  showTable() {
    const names = this.shown ?? new Set(this.data.runs.map((run) => run.name));
    showOverview(this.data, {
      shown: [...names],
      most: this.data.most_runs,
      isShown: (name) => names.has(name),
      choose: (name, isShown) => {
        this.shown = new Set(names);
        if (isShown) this.shown.add(name); else this.shown.delete(name);
        this.refresh();
      },
    });
  }

  tellGone(error) {
    this.since ??= Date.now();
    const why = error.name === "TypeError" || error.name === "AbortError"
        ? `The server has not answered since ${timeText(this.since)}; it may have ended.`
        : `The answer of the server cannot be shown: ${error}.`;
    byId("problem").textContent = `${why} What you see is older. The page asks again.`;
    byId("problem").hidden = false;
  }

  tellRefusal(status) {
    byId("problem").textContent = status === 401
        ? "The server asks for its token: open the address that cairn serve printed."
        : `The server answers with status ${status}. The page asks again.`;
    byId("problem").hidden = false;
  }
}

new Live(JSON.parse(byId("data").textContent)).refresh();
