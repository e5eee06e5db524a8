"use strict";
// What the audit said: verdicts by number, and the cells, orders and words that belong to them.
const VERDICTS = ["drop", "doubtful", "missing", "keep"];
const SCALE = 10000; // probabilities are whole numbers from 0 to this
const alphabetical = (names) => names.map((_, n) => n).sort((a, b) => words.compare(names[a], names[b]));

function auditModel(data) {
  const [N, L] = [data.row.length, data.labels.length];
  const MISSING = VERDICTS.indexOf("missing");
  // A label that is looked at is a cell: item · L + label. Verdicts are the cells that the audit speaks of.
  const cells = Float64Array.from(data.row, (row, i) => row * L + data.label[i]);
  const first = new Uint32Array(data.items.length + 1); // where the verdicts of each item begin: they come item by item
  for (let i = N - 1; i >= 0; i -= 1) first[data.row[i]] = i;
  first[data.items.length] = N;
  const itemOf = (cell) => Math.floor(cell / L);
  const labelOf = (cell) => data.labels[cell % L];
  function indexOf(cell) { // of the verdict on it, or -1
    for (let i = first[itemOf(cell)]; i < first[itemOf(cell) + 1]; i += 1) if (cells[i] === cell) return i;
    return -1;
  }
  const verdictOf = (cell) => VERDICTS[data.verdict[indexOf(cell)]] ?? "";
  const suspicion = (i) => (data.verdict[i] === MISSING ? data.probability[i] : SCALE - data.probability[i]);

  const rank = new Uint32Array(L);
  alphabetical(data.labels).forEach((label, place) => { rank[label] = place; });
  const sortKeys = { // low first
    suspicion: (i) => SCALE - suspicion(i),
    doubt: (i) => Math.abs(2 * data.probability[i] - SCALE),
    label: (i) => rank[data.label[i]] * (SCALE + 1) + SCALE - suspicion(i),
    item: (i) => i,
    card: (i) => data.row[i] * (SCALE + 1) + SCALE - suspicion(i),
  };
  const orders = {};
  function orderBy(name) { // numbers that hold key and index sort much faster than with a comparison
    if (orders[name]) return orders[name];
    const [keys, key] = [new Float64Array(N), sortKeys[name]];
    for (let i = 0; i < N; i += 1) keys[i] = key(i) * N + i;
    keys.sort();
    orders[name] = new Uint32Array(N);
    for (let k = 0; k < N; k += 1) orders[name][k] = keys[k] % N;
    return orders[name];
  }

  let lower = null;
  const searchable = () => { lower ??= data.items.map((id, item) => `${id}\n${data.texts?.[item] ?? ""}`.toLowerCase()); };
  function searchTest(wanted) {
    searchable();
    const inItem = Uint8Array.from(lower, (text) => text.includes(wanted));
    const inLabel = Uint8Array.from(data.labels, (name) => name.toLowerCase().includes(wanted));
    return (i) => inItem[data.row[i]] || inLabel[data.label[i]];
  }
  function prepare() {
    searchable();
    for (const name of Object.keys(sortKeys)) orderBy(name);
  }

  const chance = (i) => `${data.bounded ? "at most " : ""}${percent(data.probability[i] / SCALE)} true`;
  function why(i, most = Infinity) {
    if (i < 0) return "not among the candidates";
    const told = [chance(i)];
    if (data.voters) {
      const set = data.voter_sets[data.voters[i]];
      const names = set.slice(0, most).map((a) => data.annotators[a]).join(", ");
      told.push(`${set.length} of ${data.looked[data.row[i]]} votes${names && `: ${names}${set.length > most ? " …" : ""}`}`);
    }
    if (data.words?.[i]) told.push(data.words[i].length ? `for it: ${data.words[i].join(", ")}` : "no word speaks for it");
    return told.join(" · ");
  }

  return { cells, first, itemOf, labelOf, indexOf, verdictOf, orderBy, searchTest, prepare, chance, why };
}
