// Shows the data of the page.

// Gives runs names without the folders that all of them are in.
function shortenNames(runs) {
  if (runs.length === 0) return;
  const parts = runs.map((run) => run.name.replace(/\/+$/, "").split("/"));
  const depth = Math.min(...parts.map((of) => of.length)) - 1;
  let common = 0;
  while (common < depth && parts.every((of) => of[common] === parts[0][common])) ++common;
  for (const [index, run] of runs.entries()) run.shortName = parts[index].slice(common).join("/");
}

// Gives each run a slot that no other has, always the same while the page is open.
const slots = new Map();  // by the name of the run
function giveSlots(runs) {
  const names = new Set(runs.map((run) => run.name));
  for (const name of slots.keys()) {
    if (!names.has(name)) slots.delete(name);
  }
  const taken = new Set(slots.values());
  for (const run of runs) {
    if (!slots.has(run.name)) {
      let slot = 0;
      while (taken.has(slot)) ++slot;
      taken.add(slot);
      slots.set(run.name, slot);
    }
    run.slot = slots.get(run.name);
  }
}

// A run may be given twice. Its second one is another run to the page.
function tellApart(runs) {
  const counts = new Map();
  for (const run of runs) {
    const count = (counts.get(run.name) ?? 0) + 1;
    counts.set(run.name, count);
    if (count > 1) run.name += ` (${count})`;
  }
}

function runChoice(run, charts) {
  const box = element("input", {type: "checkbox", "data-key": `run ${run.name}`});
  box.checked = !charts.hiddenRuns.has(run.name);
  box.addEventListener("change", () => charts.showRun(run.name, box.checked));
  return element("label", {}, box, swatch(run), element("span", {class: "name"}, run.name));
}

// Rows in which the runs differ come first; the others are in a part that opens.
function hyperparameters(runs) {
  const values = runs.map((run) => new Map(run.hyperparameters.map(({name, value}) =>
                                                                     [name, value])));
  const names = [...new Set(values.flatMap((of) => [...of.keys()]))].sort();
  if (names.length === 0) return [];
  const known = values.filter((of) => of.size > 0);  // some logs have none
  const differs = (name) => known.some((of) => of.get(name) !== known[0].get(name));
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
  const parts = [];
  if (runs.length > 1) {
    parts.push(element("p", {}, different.length === 0
        ? "The runs logged the same hyperparameters."
        : `${counted(different.length, "hyperparameter differs", "hyperparameters differ")} ` +
          "between the runs."));
  }
  if (different.length > 0) parts.push(table(different, "Hyperparameters that differ"));
  if (same.length > 0) {
    const part = element(
        "details", {"data-key": "same hyperparameters"},
        element("summary", {"data-key": "summary of the same hyperparameters"},
                runs.length > 1 ? `The same in all runs (${same.length})` : `All (${same.length})`),
        table(same, "Hyperparameters that are the same"));
    part.open = runs.length === 1;
    parts.push(part);
  }
  return parts;
}

const showHyperparameters = (runs) => fill(
    "hyperparameters", runs.map(({shortName, hyperparameters}) => ({shortName, hyperparameters})),
    hyperparameters);

function messages(run) {
  const rows = element("tbody");
  for (const {batch, text} of run.messages.toReversed()) {
    rows.append(element("tr", {}, cell(countText(batch), "number"), cell(text, "rest")));
  }
  return element("div", {class: "folder"}, element("h3", {}, swatch(run), nameOf(run)),
                 scrolling(`Messages of ${run.shortName}, the last one first`,
                           element("table", {}, headRow(["Batch", "number"], ["Message"]), rows)));
}

const showMessages = (runs) => fill(
    "messages", runs.filter((run) => run.messages.length > 0)
                    .map(({shortName, slot, messages}) => ({shortName, slot, messages})),
    (some) => some.map(messages));

function showLinks() {
  const sections = [...document.querySelectorAll("main > section:not([hidden])")];
  fill("parts", sections.map((section) => section.id),
       () => sections.map((section) => element(
           "a", {href: `#${section.id}`, "data-key": `link to ${section.id}`},
           section.querySelector("h2").textContent)));
}

const charts = new Charts();

// Shows the curves and all that follows them. With other data later, what the user has chosen,
// sorted, opened and zoomed stays.
function showRuns(data) {
  const {runs} = data;
  tellApart(runs);
  shortenNames(runs);
  giveSlots(runs);
  byId("curves").hidden = !runs.some((run) => run.curves.length > 0);
  charts.update(runs);
  showCheckpoints(data);
  showTimeLine(runs);
  showStorage(runs);
  showHyperparameters(runs);
  showMessages(runs);
}
