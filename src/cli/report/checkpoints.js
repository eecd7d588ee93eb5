// The checkpoints of all runs, in a table for each folder, and what autoresume would choose.

// A table whose columns sort. `columns` has {title, kind, key, fill}: `key` gives the value to sort
// by, and `fill` the content of the cell. The first column names the row.
function sortableTable(columns, rows) {
  const body = element("tbody");
  const made = rows.map((row) => {
    const line = element("tr");
    for (const [index, {kind, fill}] of columns.entries()) {
      const content = [fill(row)].flat();
      line.append(index === 0 ? element("th", {scope: "row"}, ...content)
                              : element("td", kind ? {class: kind} : {}, ...content));
    }
    return {row, line};
  });
  body.append(...made.map(({line}) => line));
  const heads = columns.map(({title, kind, key}) => {
    const button = element("button", {type: "button"}, title);
    const head = element("th", {scope: "col", "aria-sort": "none", ...(kind ? {class: kind} : {})},
                         button);
    button.addEventListener("click", () => {
      const isUp = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      made.sort((a, b) => compare(key(a.row), key(b.row)) * (isUp ? 1 : -1));
      body.append(...made.map(({line}) => line));
    });
    return head;
  });
  return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body);
}

// Orders numbers and texts; what is missing comes first.
function compare(a, b) {
  if (a === null || b === null) return (a !== null) - (b !== null);
  return a < b ? -1 : Number(a > b);
}

function checkedText(checkpoint, isVerified) {
  if (!checkpoint.looked_into) return "not opened";
  if (checkpoint.ok) return isVerified ? "every byte" : "quick";
  return `NOT GOOD: ${checkpoint.problem ?? "no reason is known"}`;
}

function choiceText(checkpoint) {
  return checkpoint.chosen ? "would be taken" : checkpoint.why_not ?? "";
}

function checkpointTable(folder, isVerified) {
  const tags = (row) => ["latest", "pinned"].filter((tag) => row[tag])
                            .map((tag) => element("span", {class: "tag"}, tag));
  const checked = (row) => {
    const text = checkedText(row, isVerified);
    return row.ok === false ? element("span", {class: "bad"}, text) : text;
  };
  const columns = [
    {title: "Name", key: (row) => row.name,
     fill: (row) => [row.name + (row.is_folder ? "/" : ""), ...tags(row)]},
    {title: "Batch", kind: "number", key: (row) => row.batch, fill: (row) => countText(row.batch)},
    {title: "Epoch", kind: "number", key: (row) => row.epoch, fill: (row) => countText(row.epoch)},
    {title: "Size", kind: "number", key: (row) => row.bytes, fill: (row) => bytesText(row.bytes)},
    {title: "Time", kind: "number", key: (row) => row.time, fill: (row) => timeText(row.time)},
    {title: "Kind", key: (row) => row.kind, fill: (row) => row.kind ?? missing},
    {title: "Checked", key: (row) => checkedText(row, isVerified), fill: checked},
    {title: "Autoresume", kind: "text", key: choiceText, fill: choiceText},
  ];
  return sortableTable(columns, folder.checkpoints);
}

// What `cairn resume` says about the folder.
function resumeLine(folder, isVerified) {
  if (!folder.resume) return element("p", {class: "bad"}, folder.resume_problem);
  const {path, needs, why, checked} = folder.resume;
  if (path === null) return element("p", {}, `Autoresume takes none: ${why}.`);
  const needed = needs ? ` Only a Trainer with ${needs} resumes from it.` : "";
  return element("p", {}, "Autoresume would take ", element("strong", {}, path),
                 `: ${why}; ${isVerified ? checked : "its structure and sizes are good"}.${needed}`);
}

function summaryLine(folder) {
  const all = folder.checkpoints;
  const bytes = all.reduce((sum, row) => sum + row.bytes, 0);
  const bad = all.filter((row) => row.ok === false).length;
  const line = element("p", {},
                       `${counted(all.length, "checkpoint", "checkpoints")}, ${bytesText(bytes)}`);
  if (bad > 0) line.append("; ", element("span", {class: "bad"}, `${countText(bad)} not good`));
  if (folder.not_opened > 0) {
    line.append(`; ${countText(folder.not_opened)} known by name only (--all opens them)`);
  }
  return line;
}

function showCheckpoints({runs, verified}) {
  for (const run of runs) {
    if (!run.has_folder) {
      show("checkpoints").append(element(
          "p", {}, nameOf(run), ": no checkpoints were given. --checkpoints names their folder."));
    }
    for (const folder of run.folders) {
      show("checkpoints").append(element(
          "div", {class: "folder"}, element("h3", {}, folder.folder), resumeLine(folder, verified),
          summaryLine(folder),
          scrolling(`Checkpoints in ${folder.folder}`, checkpointTable(folder, verified))));
    }
  }
}
