// Shows the data of the page.

// Gives runs names without the folders that all of them are in.
function shortenNames(runs) {
  const parts = runs.map((run) => run.name.replace(/\/+$/, "").split("/"));
  const depth = Math.min(...parts.map((of) => of.length)) - 1;
  let common = 0;
  while (common < depth && parts.every((of) => of[common] === parts[0][common])) ++common;
  for (const [index, run] of runs.entries()) run.shortName = parts[index].slice(common).join("/");
}

function showHead({runs, made, cairn, verified}, charts) {
  document.title = `cairn report: ${runs.map((run) => run.shortName).join(", ")}`;
  byId("made").textContent =
      `Made ${timeText(made)} by cairn ${cairn}. ` +
      (verified ? "Every byte of the checkpoints was checked."
                : "Checkpoints were checked for structure and size; --verify checks every byte.");
  for (const [index, run] of runs.entries()) {
    const box = element("input", {type: "checkbox"});
    box.checked = true;
    box.addEventListener("change", () => charts.showRun(index, box.checked));
    byId("runs").append(element("label", {}, box, swatch(index),
                                element("span", {class: "name"}, run.name)));
  }
}

// Rows in which the runs differ come first; the others are in a part that opens.
function showHyperparameters(runs) {
  const values = runs.map((run) => new Map(run.hyperparameters.map(({name, value}) =>
                                                                     [name, value])));
  const names = [...new Set(values.flatMap((of) => [...of.keys()]))].sort();
  if (names.length === 0) return;
  const differs = (name) => values.some((of) => of.get(name) !== values[0].get(name));
  const table = (some, label) => {
    const rows = element("tbody");
    for (const name of some) {
      rows.append(element("tr", {}, element("th", {scope: "row"}, name),
                          ...values.map((of) => cell(of.get(name) ?? missing))));
    }
    const head = headRow(["Name"], ...runs.map((run) => [run.shortName]));
    return scrolling(label, element("table", {}, head, rows));
  };
  const different = names.filter(differs);
  const same = names.filter((name) => !differs(name));
  const section = show("hyperparameters");
  if (runs.length > 1) {
    section.append(element("p", {}, different.length === 0
        ? "The runs logged the same hyperparameters."
        : `${counted(different.length, "hyperparameter differs", "hyperparameters differ")} ` +
          "between the runs."));
  }
  if (different.length > 0) section.append(table(different, "Hyperparameters that differ"));
  if (same.length > 0) {
    const part = element("details", {}, element("summary", {},
        runs.length > 1 ? `The same in all runs (${same.length})` : `All (${same.length})`),
        table(same, "Hyperparameters that are the same"));
    part.open = runs.length === 1;
    section.append(part);
  }
}

function showMessages(runs) {
  for (const [index, run] of runs.entries()) {
    if (run.messages.length === 0) continue;
    const rows = element("tbody");
    for (const {batch, text} of run.messages.toReversed()) {
      rows.append(element("tr", {}, cell(countText(batch), "number"), cell(text, "rest")));
    }
    show("messages").append(element(
        "div", {class: "folder"}, element("h3", {}, swatch(index), nameOf(run)),
        scrolling(`Messages of ${run.shortName}, the last one first`,
                  element("table", {}, headRow(["Batch", "number"], ["Message"]), rows))));
  }
}

function showLinks() {
  for (const section of document.querySelectorAll("main > section:not([hidden])")) {
    byId("parts").append(element("a", {href: `#${section.id}`},
                                 section.querySelector("h2").textContent));
  }
}

function start() {
  const data = JSON.parse(byId("data").textContent);
  if (data.runs.some((run) => run.curves.length > 0)) show("curves");
  shortenNames(data.runs);
  const charts = new Charts(data.runs);
  showHead(data, charts);
  showCheckpoints(data);
  showTimeLine(data.runs);
  showStorage(data.runs);
  showHyperparameters(data.runs);
  showMessages(data.runs);
  showLinks();
}

try {
  start();
} catch (error) {
  byId("problem").textContent = `This page cannot be shown: ${error}`;
  byId("problem").hidden = false;
  throw error;
}
