// When the runs trained, and how much storage their checkpoints take.

const checkpointsOf = (run) => run.folders.flatMap((folder) => folder.checkpoints);

const ENDS = {
  finished: "finished",
  interrupted: "interrupted: something asked it to stop",
  failed: "failed",
  none: "none was logged: killed, or still training",
  killed: "none was logged: killed",
  files: "from the times of the checkpoints",
  values: "not known: from the times of what was logged",
};

// A killed process may have logged no time after its start.
const isKnown = (span) => span.end !== "none" || span.last > span.begin;

// The spans of the log, or one from the first to the last checkpoint.
function spansOf(run) {
  if (run.spans.length > 0) return run.spans;
  const saved = checkpointsOf(run).filter((row) => row.batch !== null);
  if (saved.length === 0) return [];
  const times = saved.map((row) => row.time);
  const batches = saved.map((row) => row.batch);
  const least = (all) => all.reduce((a, b) => Math.min(a, b));
  const most = (all) => all.reduce((a, b) => Math.max(a, b));
  return [{begin: least(times), last: most(times), first_batch: least(batches),
           last_batch: most(batches), end: "files"}];
}

function lane(run, spans, [first, last]) {
  const scale = (time) => last > first ? (time - first) / (last - first) * 1000 : 500;
  const picture = svgElement("svg", {viewBox: "0 0 1000 28", preserveAspectRatio: "none",
                                     "aria-hidden": "true"});
  for (const span of spans) {
    const from = Math.min(scale(span.begin), 996);
    const bar = svgElement("rect", {
      x: from, y: 2, width: Math.max(scale(span.last) - from, 4), height: 17,
      class: span.end === "finished" ? "span" : "span open",
    }, svgElement("title", {}, `${timeText(span.begin)} to ${timeText(span.last)}`));
    bar.style.fill = `var(--run-${run.slot % 8})`;
    picture.append(bar);
  }
  const ticks = checkpointsOf(run).map((row) => scale(row.time)).filter((x) => x >= 0 && x <= 1000);
  const path = ticks.map((x) => `M${x.toFixed(1)} 20V27`).join("");
  picture.append(svgElement("path", {d: path, class: "ticks"}));
  return element("div", {class: "lane"}, element("div", {}, swatch(run), nameOf(run)), picture);
}

function spanTable(runs, spans) {
  const rows = element("tbody");
  for (const [index, run] of runs.entries()) {
    for (const [place, span] of spans[index].entries()) {
      const end = span.end === "none" && place + 1 < spans[index].length ? "killed" : span.end;
      rows.append(element(
          "tr", {}, element("th", {scope: "row"}, swatch(run), nameOf(run)),
          cell(timeText(span.begin), "number"),
          cell(isKnown(span) ? timeText(span.last) : missing, "number"),
          cell(isKnown(span) ? durationText(span.last - span.begin) : missing, "number"),
          cell(`${countText(span.first_batch)} to ${countText(span.last_batch)}`, "number"),
          cell(Object.hasOwn(ENDS, end) ? ENDS[end] : end, "text")));
    }
  }
  const head = headRow(["Run"], ["Began", "number"], ["Last known", "number"],
                       ["Time", "number"], ["Batches", "number"], ["End"]);
  return scrolling("Starts and stops", element("table", {}, head, rows));
}

function timeLine(runs) {
  const spans = runs.map(spansOf);
  const times = [...spans.flat().flatMap(({begin, last}) => [begin, last]),
                 ...runs.flatMap(checkpointsOf).map((row) => row.time)];
  if (spans.flat().length === 0) return [];
  const range = times.reduce(([a, b], time) => [Math.min(a, time), Math.max(b, time)],
                             [Infinity, -Infinity]);
  const labels = [0, 0.5, 1].map((share) => timeText(range[0] + share * (range[1] - range[0])));
  return [
    element("p", {class: "hint"},
            "A bar is the time from a start to its end. It is paler if the run did not " +
            "finish. A stroke is a checkpoint that is still there."),
    ...runs.map((run, index) => lane(run, spans[index], range)),
    element("div", {class: "lane"}, element("div"),
            element("div", {class: "axis"}, ...labels.map((text) => element("span", {}, text)))),
    spanTable(runs, spans),
  ];
}

// Of each run what the time line and the storage show.
const inTime = ({name, shortName, slot, spans, folders}) => ({name, shortName, slot, spans, folders});

const showTimeLine = (runs) => fill("time_line", runs.map(inTime), timeLine);

// The sum of the sizes of the checkpoints that are there, by the time at which each was written.
function storageCurve(run) {
  const rows = checkpointsOf(run).sort((a, b) => a.time - b.time);
  let sum = 0;
  const times = [];
  const sums = [];
  for (const {time, bytes} of rows) {
    sum += bytes;
    if (times.at(-1) === time / 1000) {
      sums[sums.length - 1] = sum;
    } else {
      times.push(time / 1000);
      sums.push(sum);
    }
  }
  return {times, sums};
}

// The storage of several runs over time. stop() ends what redraws it.
class StorageChart {
  constructor(curves) {
    this.curves = curves;
    this.box = element("div", {class: "plot", "aria-hidden": "true"});
    this.plot = null;
    this.sizes = new ResizeObserver(() => {
      if (this.plot?.width !== this.box.clientWidth) this.draw();
    });
    this.sizes.observe(this.box);
    this.ended = new AbortController();
    matchMedia("(prefers-color-scheme: dark)")
        .addEventListener("change", () => this.draw(), {signal: this.ended.signal});
  }

  stop() {
    this.ended.abort();
    this.sizes.disconnect();
    this.plot?.destroy();
  }

  draw() {
    this.plot?.destroy();
    const [timeAxis, sizeAxis] = axes(bytesText);
    const timeTexts = (_, times) => {
      const [begin, end] = times[1] - times[0] < 60 ? ["2026-01-31 ".length] :
                                                      ["2026-".length, -":00".length];
      return times.map((seconds) => timeText(seconds * 1000).slice(begin, end));
    };
    const stepped = uPlot.paths.stepped({align: 1});
    this.plot = new uPlot({
      width: Math.max(this.box.clientWidth, 100),
      height: PLOT_HEIGHT,
      legend: {show: false},
      cursor: {y: false, drag: {x: true, y: false}},
      axes: [
        {...timeAxis, space: 110, values: timeTexts},
        {...sizeAxis, incrs: Array.from({length: 60}, (_, power) => 2 ** power)},
      ],
      scales: {y: {range: (_, min, max) => [0, max > 0 ? max * 1.05 : 1]}},
      series: [{}, ...this.curves.map(({run}) => ({
        stroke: runColor(run), width: 2, dash: runDash(run), paths: stepped,
      }))],
    }, uPlot.join(this.curves.map(({times, sums}) => [times, sums])), this.box);
  }
}

let storageChart = null;  // the one in the page

function storage(runs) {
  storageChart?.stop();
  storageChart = null;
  const curves = runs.map((run) => ({run, ...storageCurve(run)}))
                     .filter(({times}) => times.length > 0);
  if (curves.length === 0) return [];
  storageChart = new StorageChart(curves);
  const list = element("ul");
  for (const {run, sums} of curves) {
    const count = checkpointsOf(run).length;
    list.append(element("li", {}, swatch(run), nameOf(run),
                        `: ${counted(count, "checkpoint", "checkpoints")}, ` +
                            `${bytesText(sums.at(-1))}`));
  }
  return [
    element("p", {class: "hint"},
            "The checkpoints that are there now, by the time at which each was written. A " +
            "checkpoint that was removed does not count."),
    element("figure", {class: "chart"}, storageChart.box), list,
  ];
}

const showStorage = (runs) => fill("storage", runs.map(inTime), storage);
