// The curves of all runs: a chart for each metric, and the controls that all charts share.

const PLOT_HEIGHT = 240;

// An exponential moving average. The first values weigh as much as they would in a long curve.
function smoothed(values, weight) {
  let average = 0;
  let total = 0;
  return values.map((value) => {
    if (value === null) return null;
    average = average * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return average / total;
  });
}

// The index of the batch that is nearest to `batch`.
function nearest(batches, batch) {
  let low = 0;
  let high = batches.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (batches[middle] <= batch) low = middle; else high = middle;
  }
  return batch - batches[low] <= batches[high] - batch ? low : high;
}

function axes(valueText) {
  const line = {stroke: color("--line"), width: 1};
  const shared = {stroke: color("--dim"), grid: line, ticks: line, font: "12px system-ui"};
  return [
    {...shared, space: 70, size: 34},
    {
      ...shared,
      values: (_, splits) => splits.map(valueText),
      size: (_, texts) => 18 + 7 * Math.max(3, ...(texts ?? []).map((text) => text.length)),
    },
  ];
}

// Where a logarithmic axis has its lines. uPlot's own search does not end below 1e-25.
function logarithmicSplits(min, max) {
  const first = Math.floor(Math.log10(min));
  const last = Math.ceil(Math.log10(max));
  const digits = last - first > 3 ? [1] : [1, 2, 5];
  const splits = [];
  for (let power = first; power <= last; power += Math.max(1, Math.ceil((last - first) / 8))) {
    splits.push(...digits.map((digit) => digit * 10 ** power));
  }
  const inside = splits.filter((value) => value >= min * 0.999 && value <= max * 1.001);
  return inside.length < 2 ? [min, max] : inside;
}

// What a logarithmic axis shows of the values.
const positive = (values) => values.map((value) => value > 0 ? value : null);

// What tells whether curves have changed since they were drawn.
const stateOf = (curves) => JSON.stringify(curves.map(
    ({run, curve: {points, last, batches}}) => [run.name, run.shortName, run.slot, points, last, batches.length]));

class Chart {
  constructor(name, charts) {
    this.name = name;
    this.charts = charts;
    this.curves = [];
    this.state = "";
    this.isChosen = false;
    this.isVisible = false;
    this.isStale = true;
    this.plot = null;
    this.shape = "";  // of the series that `plot` has
    this.box = element("div", {
      class: "plot", tabindex: "0", role: "slider", "aria-orientation": "horizontal",
      "aria-label": `${name}, by batch`, "aria-valuenow": "0", "aria-valuetext": "no batch chosen",
    });
    this.atCursor = new Map();  // by the run: the cell with its value
    this.cursorTitle = element("th", {scope: "col", class: "number"}, "At cursor");
    this.root = element("figure", {class: "chart"}, element("h3", {}, name), this.box);
    this.box.addEventListener("keydown", (event) => this.onKey(event));
  }

  // `curves` has {run, curve} for each run that logged the metric.
  update(curves) {
    const state = stateOf(curves);
    if (state === this.state) return;
    this.state = state;
    this.curves = curves;
    this.isStale = true;
    while (this.box.nextSibling) this.box.nextSibling.remove();
    this.root.append(this.legend(), ...this.warnings());
  }

  legend() {
    const rows = element("tbody");
    this.atCursor.clear();
    for (const {run, curve} of this.curves) {
      const now = cell(missing, "number");
      this.atCursor.set(run.name, now);
      rows.append(element(
          "tr", {}, element("th", {scope: "row"}, swatch(run), nameOf(run)), now,
          ...[curve.last, curve.lowest, curve.highest].map(
              (point) => cell(numberText(point?.value), "number"))));
    }
    const head = headRow(["Run"], ["Last", "number"], ["Lowest", "number"], ["Highest", "number"]);
    head.firstChild.firstChild.after(this.cursorTitle);
    return element("table", {}, head, rows);
  }

  warnings() {
    return this.curves.filter(({curve}) => curve.not_finite > 0).map(({run, curve}) => element(
        "p", {class: "bad"}, nameOf(run),
        `: ${counted(curve.not_finite, "value is", "values are")} not finite, the first at batch ` +
            `${countText(curve.first_not_finite)}`));
  }

  // The series of uPlot: for each run its curve, and what the curve is drawn over: the extremes of
  // groups of points, or the values that were smoothed.
  series() {
    const tables = [];
    const series = [{}];
    const bands = [];
    const scaled = this.isLogarithmic() ? positive : (values) => values;
    for (const {run, curve} of this.shown()) {
      const weight = this.charts.smoothing;
      const line = weight > 0 ? smoothed(curve.values, weight) : curve.values;
      const table = [curve.batches, scaled(line)];
      const stroke = runColor(run);
      series.push({stroke, width: 2, dash: runDash(run), spanGaps: false});
      if (curve.lows || weight > 0) {
        table.push(scaled(curve.lows ?? curve.values));
        series.push({stroke: `${stroke}55`, width: 1, points: {show: false}});
      }
      if (curve.lows) {
        table.push(scaled(curve.highs));
        series.push({stroke: `${stroke}55`, width: 1, points: {show: false}});
        const last = series.length - 1;
        bands.push({series: [last, last - 1], fill: `${stroke}33`});
      }
      tables.push(table);
    }
    const data = tables.length > 0 ? uPlot.join(tables) : [[]];
    return {data, series, bands};
  }

  shown() { return this.curves.filter(({run}) => !this.charts.hiddenRuns.has(run.name)); }

  // A chart without a positive value keeps its axis.
  isLogarithmic() {
    return this.charts.isLogarithmic && this.shown().some(({curve}) => curve.highest?.value > 0);
  }

  draw() {
    const {data, series, bands} = this.series();
    const shape = JSON.stringify([series, bands, color("--line"), this.isLogarithmic()]);
    const batch = document.activeElement === this.box ? this.batchAtCursor() : null;
    if (this.plot && shape === this.shape) {
      this.plot.setData(data, false);
    } else {
      this.shape = shape;
      this.makePlot(data, series, bands);
    }
    this.isStale = false;
    this.applyRange();
    if (batch !== null && data[0].length > 0) this.put(nearest(data[0], batch));
  }

  makePlot(data, series, bands) {
    this.plot?.destroy();
    this.plot = new uPlot({
      width: Math.max(this.box.clientWidth, 100),
      height: PLOT_HEIGHT,
      legend: {show: false},
      scales: {x: {time: false}, y: {distr: this.isLogarithmic() ? 3 : 1}},
      axes: this.axes(),
      series,
      bands,
      cursor: {
        y: false,
        drag: {x: true, y: false, setScale: false},
        bind: {dblclick: () => () => this.charts.zoom(null)},
      },
      hooks: {setSelect: [() => this.onSelect()], setCursor: [() => this.readOut()]},
    }, data, this.box);
  }

  axes() {
    const [batchAxis, valueAxis] = axes(numberText);
    if (!this.isLogarithmic()) return [batchAxis, valueAxis];
    return [batchAxis, {
      ...valueAxis,
      splits: (plot, axis, min, max) => logarithmicSplits(min, max),
      filter: (plot, splits) => splits,
    }];
  }

  applyRange() {
    const [min, max] = this.charts.range();
    this.plot.batch(() => this.plot.setScale("x", {min, max}));  // at once, so that put() is right
    this.box.setAttribute("aria-valuemin", min);
    this.box.setAttribute("aria-valuemax", max);
  }

  onSelect() {
    const {left, width} = this.plot.select;
    if (width > 3) {
      this.charts.zoom([this.plot.posToVal(left, "x"), this.plot.posToVal(left + width, "x")]);
    }
    this.plot.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
  }

  // Shows the values of all runs at the cursor.
  readOut() {
    const index = this.plot.cursor.idx;
    const batch = index === null || index === undefined ? null : this.plot.data[0][index];
    this.cursorTitle.textContent = batch === null ? "At cursor" : `Batch ${countText(batch)}`;
    const texts = [];
    for (const {run, curve} of this.curves) {
      let text = missing;
      if (batch !== null && batch >= curve.batches[0] && batch <= curve.batches.at(-1)) {
        const at = nearest(curve.batches, batch);
        text = numberText(curve.values[at]);
        if (curve.lows && curve.lows[at] !== null) {
          text += ` (${numberText(curve.lows[at])} to ${numberText(curve.highs[at])})`;
        }
        texts.push(`${run.shortName} ${text}`);
      }
      this.atCursor.get(run.name).textContent = text;
    }
    if (batch === null) return;
    this.box.setAttribute("aria-valuenow", batch);
    this.box.setAttribute("aria-valuetext", `batch ${batch}: ${texts.join("; ")}`);
  }

  // Moves the cursor by that share of the range, at least to the next point.
  move(share) {
    const batches = this.plot.data[0];
    if (batches.length === 0) return;
    const {min, max} = this.plot.scales.x;
    const first = batches.findIndex((batch) => batch >= min);
    const last = batches.findLastIndex((batch) => batch <= max);
    const step = Math.sign(share) * Math.max(1, Math.round(Math.abs(share) * (last - first)));
    const now = this.plot.cursor.idx ?? (share > 0 ? first - step : last - step);
    this.put(Math.min(Math.max(now + step, first), last));
  }

  put(index) {
    const left = this.plot.valToPos(this.plot.data[0][index], "x");
    this.plot.setCursor({left, top: PLOT_HEIGHT / 4});
  }

  onKey(event) {
    const actions = {
      ArrowLeft: () => this.move(-1 / 200), ArrowRight: () => this.move(1 / 200),
      ArrowDown: () => this.move(-1 / 200), ArrowUp: () => this.move(1 / 200),
      PageDown: () => this.move(-1 / 10), PageUp: () => this.move(1 / 10),
      Home: () => this.move(-1), End: () => this.move(1),
      "+": () => this.charts.zoomBy(0.5, this.batchAtCursor()),
      "=": () => this.charts.zoomBy(0.5, this.batchAtCursor()),
      "-": () => this.charts.zoomBy(2, this.batchAtCursor()),
      Escape: () => this.charts.zoom(null),
    };
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (!action || !this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  batchAtCursor() {
    const index = this.plot?.cursor.idx;
    return index === null || index === undefined ? null : this.plot.data[0][index];
  }
}

// The curves of runs, by the name of their metric, in the order of names.
function curvesByMetric(runs) {
  const found = new Map();
  for (const run of runs) {
    for (const curve of run.curves) {
      if (!found.has(curve.name)) found.set(curve.name, []);
      found.get(curve.name).push({run, curve});
    }
  }
  return new Map([...found].sort(([a], [b]) => compare(a, b)));
}

class Charts {
  constructor() {
    this.hiddenRuns = new Set();  // names
    this.smoothing = 0;
    this.isLogarithmic = false;
    this.zoomed = null;
    this.charts = new Map();  // by the name of the metric
    this.choices = new Map();  // by the name of the metric: whether the user wants to see it
    this.byBox = new WeakMap();
    this.typed = new Set();  // inputs whose text the user has not finished
    this.sizes = new ResizeObserver((entries) => this.onResize(entries));
    this.views = new IntersectionObserver((entries) => this.onView(entries), {rootMargin: "200px"});
    this.addControls();
  }

  // Shows these runs. What the user has chosen stays.
  update(runs) {
    const found = curvesByMetric(runs);
    const before = this.charts;
    this.charts = new Map([...found.keys()].map(
        (name) => [name, before.get(name) ?? this.makeChart(name)]));
    for (const [name, chart] of before) {
      if (!this.charts.has(name)) this.drop(chart);
    }
    for (const [name, curves] of found) this.charts.get(name).update(curves);
    const first = new Set([...found].filter(([, [{curve}]]) => curve.shown_first)
                              .map(([name]) => name));
    for (const [name, chart] of this.charts) {
      chart.isChosen = this.choices.get(name) ?? (first.size === 0 || first.has(name));
    }
    fill("metrics", [...this.charts.keys()],
         () => [...this.charts.values()].map((chart) => chart.label));
    this.filter();
    this.arrange();
    this.redraw((chart) => chart.isStale);
  }

  makeChart(name) {
    const chart = new Chart(name, this);
    chart.choice = element("input", {type: "checkbox", "data-key": `metric ${name}`});
    chart.choice.addEventListener("change", () => this.choose([chart], chart.choice.checked));
    chart.label = element("label", {}, chart.choice, " ", name);
    this.byBox.set(chart.box, chart);
    this.sizes.observe(chart.box);
    this.views.observe(chart.box);
    return chart;
  }

  drop(chart) {
    this.sizes.unobserve(chart.box);
    this.views.unobserve(chart.box);
    chart.plot?.destroy();
    chart.root.remove();
  }

  addControls() {
    byId("filter").addEventListener("input", () => this.filter());
    const listed = () => [...this.charts.values()].filter((chart) => !chart.label.hidden);
    byId("all").addEventListener("click", () => this.choose(listed(), true));
    byId("none").addEventListener("click", () => this.choose(listed(), false));
    byId("smoothing").addEventListener("input", () => {
      this.smoothing = Number(byId("smoothing").value);
      byId("smoothing_value").textContent = this.smoothing.toFixed(2);
      this.redraw();
    });
    byId("logarithmic").addEventListener("change", () => {
      this.isLogarithmic = byId("logarithmic").checked;
      this.redraw();
    });
    for (const id of ["from", "to"]) {
      byId(id).addEventListener("input", () => this.typed.add(id));
      byId(id).addEventListener("change", () => this.onRangeInput());
      byId(id).addEventListener("blur", () => this.typed.delete(id));
    }
    byId("zoom_in").addEventListener("click", () => this.zoomBy(0.5, null));
    byId("zoom_out").addEventListener("click", () => this.zoomBy(2, null));
    byId("reset").addEventListener("click", () => this.zoom(null));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  // Lists the metrics whose names have what the user has typed.
  filter() {
    const part = byId("filter").value.toLowerCase();
    for (const chart of this.charts.values()) {
      chart.label.hidden = !chart.name.toLowerCase().includes(part);
    }
  }

  choose(charts, isChosen) {
    for (const chart of charts) {
      chart.isChosen = isChosen;
      this.choices.set(chart.name, isChosen);
    }
    this.arrange();
  }

  // Puts the charts that are chosen into the page. One that is there already is not moved: it would
  // lose the focus.
  arrange() {
    let next = byId("charts").firstChild;
    let count = 0;
    for (const {root, isChosen, choice} of this.charts.values()) {
      choice.checked = isChosen;
      if (!isChosen) {
        if (root === next) next = next.nextSibling;
        root.remove();
        continue;
      }
      ++count;
      if (root === next) next = next.nextSibling; else byId("charts").insertBefore(root, next);
    }
    byId("chosen").textContent = `${count} of ${this.charts.size}`;
    this.zoom(this.zoomed);
  }

  showRun(name, isShown) {
    if (isShown) this.hiddenRuns.delete(name); else this.hiddenRuns.add(name);
    this.redraw();
    this.zoom(this.zoomed);
  }

  // From the first to the last batch of the charts that are chosen.
  all() {
    let min = Infinity;
    let max = -Infinity;
    for (const chart of this.charts.values()) {
      if (!chart.isChosen) continue;
      for (const {curve} of chart.shown()) {
        min = Math.min(min, curve.batches[0]);
        max = Math.max(max, curve.batches.at(-1), curve.last.batch);
      }
    }
    if (min > max) return [0, 1];
    return min === max ? [min - 0.5, max + 0.5] : [min, max];
  }

  range() { return this.zoomed ?? this.all(); }

  // Shows these batches in all charts; null: all batches.
  zoom(range) {
    const [first, last] = this.all();
    if (range) {
      const min = Math.max(first, Math.min(...range));
      const max = Math.min(last, Math.max(...range));
      if (!(max - min >= (last - first) * 1e-9)) return this.showRange();
      range = min === first && max === last ? null : [min, max];
    }
    this.zoomed = range;
    for (const chart of this.charts.values()) {
      if (chart.isVisible && !chart.isStale) chart.applyRange(); else chart.isStale = true;
    }
    this.showRange();
  }

  showRange() {
    const [min, max] = this.range();
    const digits = max - min > 100 ? 0 : 2;
    if (!this.typed.has("from")) byId("from").value = Number(min.toFixed(digits));
    if (!this.typed.has("to")) byId("to").value = Number(max.toFixed(digits));
  }

  onRangeInput() {
    this.typed.clear();
    const range = [byId("from").valueAsNumber, byId("to").valueAsNumber];
    if (range.every(Number.isFinite)) this.zoom(range); else this.showRange();
  }

  zoomBy(factor, center) {
    const [min, max] = this.range();
    const middle = center ?? (min + max) / 2;
    this.zoom([middle - (middle - min) * factor, middle + (max - middle) * factor]);
  }

  // Draws what is in view now, and the others when they come into view.
  redraw(which = () => true) {
    for (const chart of this.charts.values()) {
      if (!which(chart)) continue;
      chart.isStale = true;
      if (chart.isVisible) chart.draw();
    }
  }

  onView(entries) {
    for (const {target, isIntersecting} of entries) {
      const chart = this.byBox.get(target);
      chart.isVisible = isIntersecting;
      if (isIntersecting && chart.isStale) chart.draw();
    }
  }

  onResize(entries) {
    for (const {target} of entries) {
      const {plot, box} = this.byBox.get(target);
      if (plot && box.clientWidth > 0 && plot.width !== box.clientWidth) {
        plot.setSize({width: box.clientWidth, height: PLOT_HEIGHT});
      }
    }
  }
}
