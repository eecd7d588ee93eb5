"use strict";
// Elements and texts. Whatever comes from the data becomes a text node or the value of a harmless
// attribute, never markup.

const byId = (id) => document.getElementById(id);

// An element with attributes and children. A child that is no element becomes text.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

function svgElement(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

const missing = "\u2013";
const wholeNumbers = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

function numberText(value) {
  if (value === null || value === undefined) return missing;
  return String(Number(value.toPrecision(4)));
}

function countText(value) {
  return value === null || value === undefined ? missing : wholeNumbers.format(value);
}

// As the tool writes sizes: "362 KiB".
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    ++unit;
  }
  return `${bytes.toFixed(unit === 0 || bytes >= 99.95 ? 0 : 1)} ${units[unit]}`;
}

// "2026-01-31 09:30:00" in local time.
function timeText(milliseconds) {
  const time = new Date(milliseconds);
  const two = (number) => String(number).padStart(2, "0");
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ` +
      `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

function durationText(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return `${milliseconds} ms`;
  let left = seconds;
  return parts.slice(first, first + 2)
      .map(([size, unit]) => {
        const count = Math.floor(left / size);
        left -= count * size;
        return `${count} ${unit}`;
      })
      .join(" ");
}

const counted = (count, one, many) => `${countText(count)} ${count === 1 ? one : many}`;

// A colour of page.css. Charts are drawn again when the scheme changes.
function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Eight colours, and after them the same with dashes. A run keeps its `slot`, and so its colour.
const runColor = ({slot}) => color(`--run-${slot % 8}`);
const runDash = ({slot}) => [[], [8, 4], [2, 3]][Math.floor(slot / 8) % 3];

function swatch({slot}) {
  const made = element("span", {class: "swatch", "aria-hidden": "true"});
  made.style.borderTopColor = `var(--run-${slot % 8})`;
  made.style.borderTopStyle = ["solid", "dashed", "dotted"][Math.floor(slot / 8) % 3];
  return made;
}

const nameOf = (run) => element("span", {class: "name"}, run.shortName);

// A cell; `number` is for columns of numbers.
const cell = (text, kind = "") => element("td", kind ? {class: kind} : {}, text);

function headRow(...titles) {
  const row = element("tr");
  for (const [title, kind] of titles) {
    row.append(element("th", {scope: "col", ...(kind ? {class: kind} : {})}, title));
  }
  return element("thead", {}, row);
}

// What scrolls has to take the focus, so that a keyboard can scroll it.
const scrolling = (label, child) => element(
    "div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label, "data-key": label},
    child);

// Calls `change`, which makes some of what is in `root` anew. Where an element with the same
// data-key is there again, it stays open, scrolled and focused as before.
function keepingUse(root, change) {
  const uses = new Map();
  for (const at of root.querySelectorAll("[data-key]")) {
    const {open, scrollTop, scrollLeft} = at;
    uses.set(at.dataset.key, {open, scrollTop, scrollLeft, hasFocus: at === document.activeElement});
  }
  change();
  for (const at of root.querySelectorAll("[data-key]")) {
    const use = uses.get(at.dataset.key);
    if (!use) continue;
    if (use.open !== undefined) at.open = use.open;
    at.scrollTop = use.scrollTop;
    at.scrollLeft = use.scrollLeft;
    if (use.hasFocus) at.focus({preventScroll: true});
  }
}

const filledWith = new Map();  // by the id of an element: the JSON of what it shows

// Makes what follows the heading of an element anew, if the input has changed. `build` returns the
// new children. An element without any is hidden.
function fill(id, input, build) {
  const json = JSON.stringify(input);
  if (filledWith.get(id) === json) return;
  filledWith.set(id, json);
  const root = byId(id);
  keepingUse(root, () => {
    const children = build(input);
    root.replaceChildren(...root.querySelectorAll(":scope > h2, :scope > legend"), ...children);
    root.hidden = children.length === 0;
  });
}
