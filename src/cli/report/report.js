// Shows the data that the page of a report holds.

function showReport(data) {
  showRuns(data);
  showLinks();
  const {runs, made, cairn, verified} = data;
  document.title = `cairn report: ${runs.map((run) => run.shortName).join(", ")}`;
  byId("made").textContent =
      `Made ${timeText(made)} by cairn ${cairn}. ` +
      (verified ? "Every byte of the checkpoints was checked."
                : "Checkpoints were checked for structure and size; --verify checks every byte.");
  fill("runs", runs.map(({name, slot}) => ({name, slot})),
       (some) => some.map((run) => runChoice(run, charts)));
}

try {
  showReport(JSON.parse(byId("data").textContent));
} catch (error) {
  byId("problem").textContent = `This page cannot be shown: ${error}`;
  byId("problem").hidden = false;
  throw error;
}
