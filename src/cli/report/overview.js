// All runs that are served, in a table: how far each is, and which of them the page shows.

const BAD_STATES = ["interrupted", "failed", "killed"];

function progressText({batch, total_batches}) {
  if (!total_batches) return countText(batch);
  const share = Math.min(Math.floor(100 * batch / total_batches), 100);
  return `${countText(batch)} of ${countText(total_batches)} (${share} %)`;
}

// "5 min 3 s", before `now`.
function ageText(time, now) {
  if (time === null) return missing;
  return now - time < 1000 ? "0 s" : durationText(now - time);
}

// The value of the run's main metric, with its name if that is no loss.
function lossCell({value}) {
  if (!value) return missing;
  const name = value.metric.startsWith("loss/") ? "" : `${value.metric} `;
  return typeof value.value === "number" ? name + numberText(value.value)
                                         : element("span", {class: "bad"}, name + value.value);
}

const lossKey = ({value}) => typeof value?.value === "number" ? value.value : null;

// A run whose process was killed on another machine says nothing any more.
const SILENT = 3600 * 1000;

function stateCell({problem, state, last_sign}, now) {
  if (problem !== null) return element("span", {class: "bad"}, problem);
  const isSilent = state === "training" && last_sign !== null && now - last_sign > SILENT;
  const text = state === "unknown" ? "not known" : state;
  if (isSilent) {
    return element("span", {class: "bad"}, `${text}, but silent for ${ageText(last_sign, now)}`);
  }
  return BAD_STATES.includes(state) ? element("span", {class: "bad"}, text) : text;
}

// `choice` has `isShown` (by name), `most`, and what to call when the user chooses.
function overviewTable({overview, made}, choice) {
  const isFull = overview.filter(({name}) => choice.isShown(name)).length >= choice.most;
  const name = (run) => {
    const box = element("input", {type: "checkbox", "data-key": `show ${run.name}`});
    box.checked = choice.isShown(run.name);
    box.disabled = isFull && !box.checked;
    box.addEventListener("change", () => choice.choose(run.name, box.checked));
    const slot = slots.get(run.name);
    const color = slot === undefined || !box.checked ? [] : [swatch({slot})];
    return element("label", {class: "choice"}, box, ...color,
                   element("span", {class: "name"}, run.name));
  };
  const warned = (text, isBad) => isBad ? element("span", {class: "bad"}, text) : text;
  const columns = [
    {title: "Run", key: (run) => run.name, fill: name},
    {title: "State", kind: "state", key: (run) => run.state,
     fill: (run) => stateCell(run, made)},
    {title: "Batch", kind: "number", key: (run) => run.batch, fill: progressText},
    {title: "Last loss", kind: "number", key: lossKey, fill: lossCell},
    {title: "Last sign", kind: "number", key: (run) => run.last_sign,
     fill: (run) => ageText(run.last_sign, made)},
    {title: "Newest good checkpoint", key: (run) => run.newest?.time ?? null,
     fill: ({newest}) => newest ? `${newest.name}, ${ageText(newest.time, made)} ago` : missing},
    {title: "Failed saves", kind: "number", key: (run) => run.failed_saves,
     fill: (run) => warned(countText(run.failed_saves), run.failed_saves > 0)},
  ];
  return scrolling("Overview of the runs", sortableTable("Overview", columns, overview));
}

function showOverview(data, choice) {
  const {overview, made, not_looked_at} = data;
  fill("overview", [overview, made, not_looked_at, choice.shown, [...slots]], () => {
    const parts = [overviewTable(data, choice)];
    if (data.overview.length > choice.most) {
      parts.unshift(element("p", {class: "hint"}, `At most ${choice.most} runs are shown below.`));
    }
    if (data.not_looked_at > 0) {
      parts.push(element("p", {}, `${countText(data.not_looked_at)} more folders were not looked ` +
                                      "at: only the newest are."));
    }
    return parts;
  });
}
