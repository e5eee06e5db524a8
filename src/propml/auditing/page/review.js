"use strict";
// Reviewing verdicts: which are shown, the list of them, and what a person decides.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const N = data.row.length;
  const VERDICTS = ["drop", "doubtful", "missing", "keep"];
  const SCALE = 10000; // confidence and probability are whole numbers from 0 to this
  const verdictOf = (i) => VERDICTS[data.verdict[i]];
  const labelOf = (i) => data.labels[data.label[i]];
  const itemOf = (i) => data.items[data.row[i]];
  const textOf = (i) => data.texts?.[data.row[i]] ?? "";

  const adds = (verdict) => verdict === "keep" || verdict === "missing"; // to accept these is to say: it has the label
  function outcome(i, accept) {
    if (verdictOf(i) === "missing") return accept ? "adds it" : "skips it";
    return accept === adds(verdictOf(i)) ? "keeps it" : "drops it";
  }

  function voters(i, most = Infinity) {
    if (!data.voters) return "";
    const set = data.voter_sets[data.voters[i]];
    const names = set.slice(0, most).map((a) => data.annotators[a]).join(", ");
    const told = `${set.length} of ${data.looked[data.row[i]]} votes`;
    return names ? `${told}: ${names}${set.length > most ? " …" : ""}` : told;
  }

  let fading;
  function tell(text) {
    $("toast").textContent = text;
    $("toast").hidden = false;
    clearTimeout(fading);
    fading = setTimeout(() => { $("toast").hidden = true; }, 4000);
  }

  // -- decisions: 1 accepted, -1 rejected, 0 open -------------------------------------------------------------------

  const key = `propml-audit-${data.id}`;
  const decided = new Int8Array(N);
  const decidedAt = new Float64Array(N);
  const steps = []; // of steps; a step is a list of [index, decision before, time before]
  let atRisk = false; // there are decisions that neither the browser nor a file holds

  function store() {
    const index = [];
    for (let i = 0; i < N; i += 1) if (decided[i]) index.push(i);
    try {
      const kept = { index, decided: index.map((i) => decided[i]), at: index.map((i) => decidedAt[i]) };
      localStorage.setItem(key, JSON.stringify(kept));
    } catch {
      atRisk = true;
      $("notice").textContent = "This browser keeps no decisions for this page: download them before you close it.";
      $("notice").hidden = false;
    }
  }

  function restore() {
    decided.fill(0);
    try {
      const kept = JSON.parse(localStorage.getItem(key));
      kept?.index.forEach((i, n) => { [decided[i], decidedAt[i]] = [kept.decided[n], kept.at[n]]; });
    } catch { /* nothing is kept here, which the first decision will tell */ }
  }

  function change(changes) { // a list of [index, decision]
    steps.push(changes.map(([i]) => [i, decided[i], decidedAt[i]]));
    for (const [i, decision] of changes) [decided[i], decidedAt[i]] = [decision, Date.now()];
    store();
    refresh();
  }

  function decide(decision) {
    const i = shown[current];
    change([[i, decision]]);
    tell(`${decision > 0 ? "Accepted" : "Rejected"}: ${outcome(i, decision > 0)} (${labelOf(i)})`);
    select(Math.min(current + 1, shown.length - 1));
  }

  function undo() {
    const step = steps.pop();
    if (!step) return tell("Nothing to undo");
    for (const [i, decision, at] of step) [decided[i], decidedAt[i]] = [decision, at];
    store();
    refresh();
    const position = shown.indexOf(step[0][0]);
    if (position >= 0) select(position);
    return tell(step.length > 1 ? `Took back ${count(step.length)} decisions` : `Took back: ${labelOf(step[0][0])}`);
  }

  function download() {
    const rows = [csv.COLUMNS];
    for (let i = 0; i < N; i += 1) {
      if (!decided[i]) continue;
      const decision = decided[i] > 0 ? "accept" : "reject";
      rows.push([itemOf(i), labelOf(i), verdictOf(i), decision, new Date(decidedAt[i]).toISOString()]);
    }
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([csv.write(rows)], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    atRisk = false;
  }

  function load(text) {
    const rows = csv.decisions(text);
    if (!rows) return tell("This file lacks one of the columns item, label, verdict and decision");
    const name = (item, label) => JSON.stringify([item, label]);
    const indexOf = new Map(Array.from(decided, (_, i) => [name(itemOf(i), labelOf(i)), i]));
    const known = rows.filter(({ item, label }) => indexOf.has(name(item, label)));
    const changes = known.map(({ item, label, verdict, decision }) => {
      const i = indexOf.get(name(item, label));
      // Decided is whether the item has the label, even where this audit says something else of it.
      const belongs = (decision === "accept") === adds(verdict);
      return [i, belongs === adds(verdictOf(i)) ? 1 : -1];
    });
    if (changes.length) change(changes);
    const strangers = rows.length - known.length;
    const also = strangers ? `; ${count(strangers)} belong to nothing on this page` : "";
    return tell(`Loaded ${count(changes.length)} decisions${also}`);
  }

  // -- which verdicts, in which order -------------------------------------------------------------------------------

  const alphabetical = (names) => names.map((_, n) => n).sort((a, b) => words.compare(names[a], names[b]));
  const rank = new Uint32Array(data.labels.length);
  alphabetical(data.labels).forEach((label, place) => { rank[label] = place; });
  const sortKeys = {
    confidence: (i) => data.confidence[i],
    probability: (i) => data.probability[i],
    label: (i) => rank[data.label[i]] * (SCALE + 1) + SCALE - data.confidence[i],
    item: (i) => data.row[i],
  };
  const orders = {};
  function orderBy(name) { // low first; numbers that hold key and index sort much faster than with a comparison
    const keyed = () => Float64Array.from(decided, (_, i) => sortKeys[name](i) * N + i).sort();
    orders[name] ??= keyed().map((each) => each % N);
    return orders[name];
  }

  let lower = null;
  function searchable() { // one text per item
    lower ??= data.items.map((id, item) => `${id}\n${data.texts?.[item] ?? ""}`.toLowerCase());
    return lower;
  }
  function searchTest(wanted) {
    const inItem = Uint8Array.from(searchable(), (text) => text.includes(wanted));
    const inLabel = Uint8Array.from(data.labels, (name) => name.toLowerCase().includes(wanted));
    return (i) => inItem[data.row[i]] || inLabel[data.label[i]];
  }

  function filterTest() {
    const pressed = [];
    for (const chip of $("verdicts").children) pressed[chip.dataset.verdict] = chip.ariaPressed === "true";
    const bound = (id, otherwise) => ($(id).value === "" ? otherwise : (Number($(id).value) * SCALE) / 100);
    const [from, to] = [bound("from", 0), bound("to", SCALE)];
    const tests = [(i) => pressed[data.verdict[i]] && data.confidence[i] >= from && data.confidence[i] <= to];
    const [label, annotator, decision] = ["label", "annotator", "decision"].map((id) => $(id).value);
    const wanted = $("search").value.trim().toLowerCase();
    if (label) tests.push((i) => data.label[i] === Number(label));
    if (annotator) {
      const votes = Uint8Array.from(data.voter_sets, (set) => set.includes(Number(annotator)));
      tests.push((i) => votes[data.voters[i]]);
    }
    if (decision) tests.push((i) => decided[i] === Number(decision));
    if (wanted) tests.push(searchTest(wanted));
    return (i) => tests.every((test) => test(i));
  }

  let shown = new Uint32Array(0); // indices of verdicts
  let current = 0; // a position in shown
  function filter() {
    const [fits, order] = [filterTest(), orderBy($("sort").value)];
    const before = shown[current];
    const found = new Uint32Array(N);
    let n = 0;
    for (let k = 0; k < N; k += 1) {
      const i = order[highFirst ? N - 1 - k : k];
      if (fits(i)) { found[n] = i; n += 1; }
    }
    shown = found.slice(0, n);
    const reviewing = $("tools").getBoundingClientRect().top <= 0; // the list is scrolled: stay where one was
    current = reviewing ? Math.max(0, shown.indexOf(before)) : 0;
    $("none").hidden = n > 0;
    list.reset(n);
    if (reviewing && n) list.reveal(current);
    refresh();
  }

  function showAll() {
    for (const chip of $("verdicts").children) chip.ariaPressed = "true";
    $("form").reset();
    $("search").value = "";
    filter();
  }

  function showOnly(id, name) { // a label or an annotator, from the tables
    $(id).value = data[`${id}s`].indexOf(name);
    filter();
    $("tools").scrollIntoView();
  }

  // -- the list ------------------------------------------------------------------------------------------------------

  const blank = () => $("entry").content.firstElementChild.cloneNode(true);
  const list = virtualList($("list"), { blank, filled: entry, roof: () => $("tools").offsetHeight });

  function entry(position) {
    const [element, i] = [blank(), shown[position]];
    const put = (part, text) => { element.querySelector(part).textContent = text; };
    element.dataset.position = position;
    element.dataset.verdict = verdictOf(i);
    element.ariaPosInSet = position + 1;
    element.ariaSetSize = shown.length;
    element.ariaLabel = `${verdictOf(i)}: ${labelOf(i)}, item ${itemOf(i)}`;
    put(".name", labelOf(i));
    put(".verdict", verdictOf(i));
    put(".sure", `${percent(data.confidence[i] / SCALE)} sure`);
    put(".number", `${percent(data.probability[i] / SCALE)} true`);
    element.querySelector(".fill").style.width = `${(100 * data.probability[i]) / SCALE}%`;
    put(".voters", voters(i, 12));
    put(".id", itemOf(i));
    put(".text", textOf(i));
    put(".accept small", outcome(i, true));
    put(".reject small", outcome(i, false));
    showPicture(element.querySelector(".picture"), i);
    mark(element, position);
    return element;
  }

  function showPicture(image, i) {
    const picture = data.pictures?.[data.row[i]];
    image.hidden = !picture;
    if (picture) image.src = `data:image/${picture}`;
    else image.removeAttribute("src");
  }

  function mark(element, position) { // what changes while one reviews
    const decision = decided[shown[position]];
    element.dataset.decision = ["rejected", "open", "accepted"][decision + 1];
    element.querySelector(".accept").ariaPressed = String(decision > 0);
    element.querySelector(".reject").ariaPressed = String(decision < 0);
    element.classList.toggle("current", position === current);
    element.tabIndex = position === current ? 0 : -1;
  }

  function refresh() {
    for (const [position, element] of list.drawn) mark(element, position);
    const done = decided.reduce((sum, decision) => sum + Math.abs(decision), 0);
    $("progress").textContent = `${count(shown.length)} shown · ${count(done)} decided`;
    $("undo").disabled = !steps.length;
    $("download").disabled = !done;
  }

  function select(position) {
    current = position;
    list.reveal(position).focus({ preventScroll: true });
    refresh();
  }

  function move(step) { // or, where one has scrolled away, to the first that is in sight
    const goal = inSight() ? current + step : list.firstInSight();
    select(Math.min(shown.length - 1, Math.max(0, goal)));
  }
  const inSight = () => list.inSight(current);

  function openWhole(i) {
    $("whole-id").textContent = itemOf(i);
    $("whole-text").textContent = textOf(i);
    showPicture($("whole-picture"), i);
    const rows = [];
    data.row.forEach((item, k) => {
      if (item !== data.row[i]) return;
      const [sure, chance] = [data.confidence[k] / SCALE, data.probability[k] / SCALE];
      const row = make("tr");
      row.append(make("td", "text", labelOf(k)), make("td", "text", verdictOf(k)));
      row.append(make("td", "", percent(sure)), make("td", "", percent(chance)), make("td", "text", voters(k)));
      rows.push(row);
    });
    $("whole-verdicts").replaceChildren(...rows);
    $("whole").showModal();
  }

  // -- hands ---------------------------------------------------------------------------------------------------------

  const entryKeys = {
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    a: () => (inSight() ? decide(1) : move(0)), // nobody decides on what is not in sight
    r: () => (inSight() ? decide(-1) : move(0)),
    Enter: () => (inSight() ? openWhole(shown[current]) : move(0)),
  };
  const pageKeys = { u: undo, "/": () => $("search").focus(), "?": () => $("keys").showModal() };

  function press(event) {
    const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const deciding = pressed === "a" || pressed === "r";
    const typing = event.target.closest("input, select");
    if (typing && pressed === "Escape") {
      event.preventDefault(); // what was searched for stays
      typing.blur();
    }
    const onButton = pressed === "Enter" && event.target.closest("button, summary");
    if (typing || onButton || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.repeat && (deciding || pressed === "u")) return; // a key held down is not a hundred decisions
    if ($("whole").open && deciding) $("whole").close();
    const act = pageKeys[pressed] ?? (shown.length ? entryKeys[pressed] : undefined);
    if (!act || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    act();
  }

  function tap(event) {
    const element = event.target.closest(".entry");
    const button = event.target.closest("button");
    if (!element) return;
    current = Number(element.dataset.position);
    const [i, decision] = [shown[current], button?.matches(".accept") ? 1 : -1];
    if (button?.matches(".whole")) openWhole(i);
    else if (button) change([[i, decided[i] === decision ? 0 : decision]]);
    refresh();
  }

  function toggle(chip) {
    chip.ariaPressed = String(chip.ariaPressed !== "true");
    filter();
  }

  let highFirst = true;
  function turn(high) {
    highFirst = high;
    Object.assign($("direction"), { textContent: high ? "↓" : "↑", ariaLabel: high ? "High first" : "Low first" });
    filter();
  }

  function build() {
    pageTop.theme(document.querySelector(".theme"));
    $("lead").textContent = data.lead;
    $("tiles").append(...pageTop.tiles(data));
    $("reliability").hidden = !data.tables.length;
    for (const table of data.tables) {
      $("tables").append(pageTop.table(table, (name) => showOnly(table.filters, name)));
    }
    VERDICTS.forEach((name, v) => {
      if (!data.verdict.includes(v)) return;
      const chip = $("verdicts").appendChild(make("button", `chip ${name}`, `${name} ${count(data.counts[name])}`));
      Object.assign(chip, { type: "button", ariaPressed: String(name !== "keep") });
      chip.dataset.verdict = v;
    });
    for (const id of ["label", "annotator"]) {
      for (const n of alphabetical(data[`${id}s`])) $(id).append(new Option(data[`${id}s`][n], n));
    }
    $("annotator").hidden = !data.annotators.length;
    $("filters").open = matchMedia("(min-width: 56rem)").matches;
  }

  function listen() {
    document.addEventListener("keydown", press);
    $("list").addEventListener("click", tap);
    $("form").addEventListener("change", filter);
    $("form").addEventListener("submit", (event) => event.preventDefault());
    for (const id of ["search", "from", "to"]) $(id).addEventListener("input", filter);
    $("verdicts").addEventListener("click", ({ target }) => { if (target.matches(".chip")) toggle(target); });
    $("direction").addEventListener("click", () => turn(!highFirst));
    $("sort").addEventListener("change", ({ target }) => turn(target.value === "confidence"));
    for (const id of ["all", "widen"]) $(id).addEventListener("click", showAll);
    $("undo").addEventListener("click", undo);
    $("download").addEventListener("click", download);
    $("load").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", async ({ target }) => {
      const text = await target.files[0]?.text();
      target.value = "";
      if (text !== undefined) load(text);
    });
    $("help").addEventListener("click", () => $("keys").showModal());
    for (const dialog of document.querySelectorAll("dialog")) {
      dialog.addEventListener("click", ({ target }) => { if (target === dialog) dialog.close(); });
    }
    addEventListener("storage", (event) => { if (event.key === key) { restore(); refresh(); } });
    addEventListener("beforeunload", (event) => { if (atRisk) event.preventDefault(); });
  }

  build();
  restore();
  listen();
  turn(true);
  setTimeout(searchable, 500); // so that the first letter of a search need not wait for it
})();
