// Fetches what the page shows from its server, again and again.

const SLOWER_WHEN_HIDDEN = 12;
const MOST_SECONDS = 60;  // that an answer may take

let isPressed = false;
addEventListener("pointerdown", ({button}) => { isPressed = button === 0; }, true);
const RELEASES = ["pointerup", "pointercancel", "contextmenu", "blur"];
for (const kind of RELEASES) addEventListener(kind, () => { isPressed = false; }, true);

// Waits while a button of the mouse is down: a click or a drag must not lose what it is on.
async function released() {
  while (isPressed) {
    await new Promise((resolve) => {
      for (const kind of RELEASES) {
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
    this.tag = null;   // of `data`
    this.tagOf = null;  // what was asked for it
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
      const query = this.query();
      const headers = query === this.tagOf ? {"If-None-Match": this.tag} : {};
      const answer = await fetch(query, {signal: request.signal, cache: "no-store", headers});
      const data = answer.ok ? await answer.json() : null;
      await released();
      if (this.request !== request) return;
      if (answer.ok) {
        this.tag = answer.headers.get("ETag");
        this.tagOf = query;
        this.show(data, answer);
      } else if (answer.status === 304) {
        this.showTime(answer);
      } else {
        this.tellRefusal(answer.status);
      }
    } catch (error) {
      if (this.request !== request) return;
      this.tellGone(error);
    } finally {
      clearTimeout(tooLong);
    }
    const seconds = this.every * (document.hidden ? SLOWER_WHEN_HIDDEN : 1);
    this.timer = setTimeout(() => this.refresh(), seconds * 1000);
  }

  show(data, answer) {
    this.data = data;
    this.every = data.every;
    document.title = `cairn serve: ${data.place}`;
    showRuns(data);
    this.showTime(answer);
    showLinks();
  }

  // All that another time changes while the runs are the same.
  showTime(answer) {
    const {place, cairn, every, problem} = this.data;
    this.data.made = Number(answer.headers.get("Looked-At"));
    this.since = null;
    byId("problem").textContent = problem ?? "";
    byId("problem").hidden = !problem;
    byId("made").textContent =
        `${place}: as of ${timeText(this.data.made)}, by cairn ${cairn}, and fetched again every ` +
        `${every} s. Checkpoints are checked for structure and size.`;
    this.showTable();
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
