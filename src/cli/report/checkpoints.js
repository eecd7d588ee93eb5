// The checkpoints of all runs, in a table for each folder, and what autoresume would choose.

function checkedText(checkpoint, isVerified) {
  if (!checkpoint.looked_into) return "not opened";
  if (checkpoint.ok) return isVerified ? "every byte" : "quick";
  return `NOT GOOD: ${checkpoint.problem ?? "no reason is known"}`;
}

function choiceText(checkpoint) {
  return checkpoint.chosen ? "would be taken" : checkpoint.why_not ?? "";
}

function checkpointTable(label, folder, isVerified) {
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
  return scrolling(label, sortableTable(label, columns, folder.checkpoints));
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

function folderPanel(folder, isVerified) {
  return element("div", {class: "folder"}, element("h3", {}, folder.folder),
                 resumeLine(folder, isVerified), summaryLine(folder),
                 checkpointTable(`Checkpoints in ${folder.folder}`, folder, isVerified));
}

const noFolder = (run) => element(
    "p", {}, nameOf(run), ": no checkpoints were given. --checkpoints names their folder.");

function showCheckpoints({runs, verified}) {
  const shown = runs.map(({shortName, has_folder, folders}) => ({shortName, has_folder, folders}));
  fill("checkpoints", [shown, verified], () => shown.flatMap((run) => [
    ...(run.has_folder ? [] : [noFolder(run)]),
    ...run.folders.map((folder) => folderPanel(folder, verified)),
  ]));
}
