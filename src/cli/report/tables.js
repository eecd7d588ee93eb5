// Tables that the user sorts.

const sortedBy = new Map();  // by the label of a table: {title, isUp}, as the user has sorted it

// A table whose columns sort. `columns` has {title, kind, key, fill}: `key` gives the value to sort
// by, and `fill` the content of the cell. The first column names the row. A table of the same label
// that is made later is sorted in the same way.
function sortableTable(label, columns, rows) {
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
  const heads = new Map(columns.map(({title, kind}) => {
    const button = element("button", {type: "button", "data-key": `${label}: ${title}`}, title);
    const head = element("th", {scope: "col", "aria-sort": "none", ...(kind ? {class: kind} : {})},
                         button);
    button.addEventListener("click",
                            () => sort(title, head.getAttribute("aria-sort") !== "ascending"));
    return [title, head];
  }));
  const sort = (title, isUp) => {
    sortedBy.set(label, {title, isUp});
    for (const head of heads.values()) head.setAttribute("aria-sort", "none");
    heads.get(title).setAttribute("aria-sort", isUp ? "ascending" : "descending");
    const {key} = columns.find((column) => column.title === title);
    made.sort((a, b) => compare(key(a.row), key(b.row)) * (isUp ? 1 : -1));
    body.append(...made.map(({line}) => line));
  };
  const before = sortedBy.get(label);
  if (before) sort(before.title, before.isUp);
  return element("table", {},
                 element("thead", {}, element("tr", {}, ...heads.values())), body);
}

// Orders numbers and texts; what is missing comes first.
function compare(a, b) {
  if (a === null || b === null) return (a !== null) - (b !== null);
  return a < b ? -1 : Number(a > b);
}
