"use strict";
// What the page says of the whole audit: numbers, tables that sort; and the switch between light and dark.
const words = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");
const percent = (share) => {
  if (share > 0 && share < 0.0005) return "<\u202f0.1\u202f%";
  if (share < 1 && share > 0.9995) return ">\u202f99.9\u202f%";
  const digits = share > 0.99 || share < 0.01 ? 1 : 0;
  return `${Number((100 * share).toFixed(digits))}\u202f%`;
};
const plural = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
const duration = (seconds) => (seconds < 5400 ? plural(Math.max(1, Math.round(seconds / 60)), "minute")
  : plural(Math.round(seconds / 3600), "hour"));
const make = (tag, className = "", text = "") => {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text; // never HTML: most of it comes from data
  return made;
};

const pageTop = (() => {
  const written = { text: String, count, share: percent };

  function tiles({ counts, n_items }) {
    const total = counts.keep + counts.doubtful + counts.drop;
    const tile = (name, n, told) => {
      const box = make("div", `tile ${name}`);
      box.append(make("dt", "", name), make("dd", "", count(n)), make("dd", "quiet", told));
      return box;
    };
    const made = [tile("candidates", total, `in ${count(n_items)} items`)];
    for (const name of ["drop", "doubtful", "keep"]) {
      made.push(tile(name, counts[name], total ? `${percent(counts[name] / total)} of candidates` : ""));
    }
    if (counts.missing) made.push(tile("missing", counts.missing, "labels to add"));
    return made;
  }

  function sortBy(cell, { kind }, value) {
    const up = kind === "text" ? cell.ariaSort !== "ascending" : cell.ariaSort === "descending";
    for (const each of cell.parentElement.cells) each.ariaSort = "none";
    cell.ariaSort = up ? "ascending" : "descending";
    const compare = (a, b) => (kind === "text" ? words.compare(a, b) : a - b) * (up ? 1 : -1);
    const order = (a, b) => (a === null) - (b === null) || compare(a, b); // what is missing comes last
    const body = cell.closest("table").tBodies[0];
    body.append(...[...body.rows].sort((a, b) => order(value(a), value(b))));
  }

  // Columns have a name and a kind (text, count or share); pick is called with the name of a row.
  function table({ title, columns, rows }, pick) {
    const made = make("table");
    const head = made.createTHead().insertRow();
    const body = made.createTBody();
    const side = (c) => (columns[c].kind === "text" ? "text" : "");
    columns.forEach((column, c) => {
      const cell = head.appendChild(make("th", side(c)));
      const sort = () => sortBy(cell, column, (row) => rows[row.dataset.row][c]);
      cell.appendChild(make("button", "", column.name)).addEventListener("click", sort);
    });
    rows.forEach((values, n) => {
      const row = body.insertRow();
      row.dataset.row = n;
      values.forEach((value, c) => {
        const text = value === null ? "–" : written[columns[c].kind](value);
        const cell = row.appendChild(make("td", side(c), c ? text : ""));
        if (!c) cell.appendChild(make("button", "plain", text)).addEventListener("click", () => pick(text));
      });
    });
    const box = make("div");
    const scroll = make("div", "scroll");
    scroll.append(made);
    Object.assign(scroll, { tabIndex: 0, role: "region", ariaLabel: title });
    box.append(make("h3", "", title), scroll);
    return box;
  }

  function theme(button) {
    const root = document.documentElement;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
    const label = () => { button.textContent = isDark() ? "Light page" : "Dark page"; };
    try { root.dataset.theme = localStorage.getItem("propml-theme") ?? ""; } catch { /* as the system has it */ }
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("propml-theme", root.dataset.theme); } catch { /* stays for this visit */ }
      label();
    });
    dark.addEventListener("change", label);
    button.hidden = false;
    label();
  }

  return { tiles, table, theme };
})();
