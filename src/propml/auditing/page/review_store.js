"use strict";
// What a person says of cells (an item and a label): with undo, and kept by this browser or by the server of the page.
function decisionStore(data, { verdictOf, changed, notKept }) {
  const key = `propml-review-${data.id}`;
  const served = document.querySelector('meta[name="propml-server"]') !== null;
  const nLabels = data.labels.length;
  const said = new Map(); // cell to { belongs: 1, 0 or -1, note, at }
  const steps = []; // each is a list of [cell, what was said before]
  const pace = []; // ms for each of the last decisions
  const PAUSE = 60000; // ms; whoever takes longer does something else
  let [lastAt, atRisk, places] = [0, false, null];

  const of = (cell) => said.get(cell);
  function put(cell, what) {
    if (what && (what.belongs || what.note)) said.set(cell, what);
    else said.delete(cell);
  }
  const cellOf = (item, label) => {
    places ??= [data.items, data.labels].map((names) => new Map(names.map((name, n) => [name, n])));
    const [row, column] = [places[0].get(item), places[1].get(label)];
    return row === undefined || column === undefined ? undefined : row * nLabels + column;
  };

  function change(changes) { // a list of [cell, { belongs and/or note }]
    const at = Date.now();
    steps.push(changes.map(([cell]) => [cell, of(cell)]));
    for (const [cell, what] of changes) put(cell, { belongs: 0, note: "", ...of(cell), at, ...what });
    if (lastAt) pace.push(Math.min(at - lastAt, PAUSE) / changes.length);
    if (pace.length > 30) pace.shift();
    lastAt = at;
    save();
    changed(changes.map(([cell]) => cell));
  }
  function undo() { // the cells of the step that is taken back, if there is one
    const step = steps.pop();
    if (!step) return [];
    for (const [cell, what] of step) put(cell, what);
    save();
    const cells = step.map(([cell]) => cell);
    changed(cells);
    return cells;
  }
  // Seconds that so many more decisions will take at this pace; nothing is said before there are five.
  const secondsFor = (n) => (pace.length < 5 ? null : (n * pace.reduce((a, b) => a + b, 0)) / pace.length / 1000);

  function text() {
    const rows = [csv.COLUMNS];
    for (const [cell, { belongs, note, at }] of [...said].sort(([a], [b]) => a - b)) {
      const [row, label] = [Math.floor(cell / nLabels), cell % nLabels];
      const word = ["drop", "", "keep"][belongs + 1];
      rows.push([data.items[row], data.labels[label], verdictOf(cell), word, new Date(at).toISOString(), note]);
    }
    return csv.write(rows);
  }
  function read(content) { // changes, and how many rows are of something else; null where it is no such file
    const rows = csv.decisions(content);
    if (!rows) return null;
    const told = rows.map(({ item, label, belongs, note, decided_at }) =>
      [cellOf(item, label), { belongs, note, at: Date.parse(decided_at) || Date.now() }]);
    const known = told.filter(([cell]) => cell !== undefined);
    return { changes: known, strangers: told.length - known.length };
  }

  // -- keeping -------------------------------------------------------------------------------------------------------

  let [waiting, sending, again] = [0, false, false];
  function failed() {
    atRisk = true;
    notKept(served ? "The server does not answer" : "This browser keeps no decisions for this page");
  }
  function keep() { // in this browser
    clearTimeout(waiting);
    waiting = 0;
    try { localStorage.setItem(key, text()); } catch { failed(); }
  }
  async function send() { // to the server, one after the other
    if (sending) { again = true; return; }
    sending = true;
    try {
      do {
        again = false;
        const answer = await fetch("decisions", { method: "PUT", body: text() });
        if (!answer.ok) throw new Error(answer.statusText);
        atRisk = false;
        notKept("");
      } while (again);
    } catch { failed(); }
    sending = false;
  }
  function save() {
    if (served) send();
    else if (!waiting) waiting = setTimeout(keep, 100);
  }
  function restore(content) {
    said.clear();
    for (const [cell, what] of (content && read(content))?.changes ?? []) put(cell, what);
    changed([]);
  }
  async function start() {
    try {
      restore(served ? await (await fetch("decisions")).text() : localStorage.getItem(key));
    } catch { if (served) failed(); /* else nothing is kept here, which the first decision will tell */ }
  }
  addEventListener("storage", (event) => { if (event.key === key) restore(event.newValue); });
  addEventListener("pagehide", () => { if (waiting) keep(); });
  addEventListener("beforeunload", (event) => { if (atRisk) event.preventDefault(); });

  function download() {
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([text()], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    atRisk = false;
  }
  return { of, said, steps, change, undo, read, start, download, secondsFor, served };
}
