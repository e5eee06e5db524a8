"use strict";
// Reviewing: which labels are shown and how, and the hands of the person who decides.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const { cells, first, itemOf, labelOf, indexOf, verdictOf, orderBy, searchTest, prepare, chance, why } = auditModel(data);
  const { clone, rowElement, showPicture, showText, showNear } = entryParts(data, { indexOf, labelOf, chance, why });
  const [N, L] = [data.row.length, data.labels.length];
  const KEEP = VERDICTS.indexOf("keep");

  let fading;
  function tell(text) {
    $("toast").textContent = text;
    $("toast").hidden = false;
    clearTimeout(fading);
    fading = setTimeout(() => { $("toast").hidden = true; }, 4000);
  }
  function notKept(why) {
    $("notice").textContent = why && `${why}: download your decisions before you close it.`;
    $("notice").hidden = !why;
  }
  const store = decisionStore(data, { verdictOf, changed, notKept });
  const belongs = (cell) => store.of(cell)?.belongs ?? 0;

  // -- which labels, in which order ----------------------------------------------------------------------------------

  const isState = {
    open: (cell) => !belongs(cell),
    kept: (cell) => belongs(cell) > 0,
    dropped: (cell) => belongs(cell) < 0,
    noted: (cell) => Boolean(store.of(cell)?.note),
  };
  function filterTest() {
    const pressed = [];
    for (const chip of $("verdicts").children) pressed[chip.dataset.verdict] = chip.ariaPressed === "true";
    const bound = (id, otherwise) => ($(id).value === "" ? otherwise : (Number($(id).value) * SCALE) / 100);
    const [from, to] = [bound("from", 0), bound("to", SCALE)];
    const tests = [(i) => pressed[data.verdict[i]] && data.probability[i] >= from && data.probability[i] <= to];
    const [label, annotator, state] = ["label", "annotator", "decision"].map((id) => $(id).value);
    const wanted = $("search").value.trim().toLowerCase();
    if (label) tests.push((i) => data.label[i] === Number(label));
    if (annotator) {
      const votes = Uint8Array.from(data.voter_sets, (set) => set.includes(Number(annotator)));
      tests.push((i) => votes[data.voters[i]]);
    }
    if (state) tests.push((i) => isState[state](cells[i]));
    if (wanted) tests.push(searchTest(wanted));
    return (i) => {
      for (let t = 0; t < tests.length; t += 1) if (!tests[t](i)) return false;
      return true;
    };
  }

  const address = pageAddress(data);
  let view = "item";
  let shown = new Float64Array(0); // cells that fit, in order
  let entryOf = new Uint32Array(0); // the entry that each of them stands in
  let entries = new Uint32Array(0); // by item: items; by label: positions in shown
  let current = 0; // a position in shown

  function filter() {
    const [fits, order, before] = [filterTest(), orderBy($("sort").value), shown[current]];
    const fit = new Uint32Array(N);
    let n = 0;
    for (let k = 0; k < N; k += 1) if (fits(order[k])) { fit[n] = order[k]; n += 1; }
    if (view === "item") byItem(fit.subarray(0, n));
    else {
      [shown, entryOf, entries] = [new Float64Array(n), null, null];
      for (let k = 0; k < n; k += 1) shown[k] = cells[fit[k]];
    }
    const reviewing = $("tools").getBoundingClientRect().top <= 0; // the list is scrolled: stay where one was
    current = reviewing ? Math.max(0, shown.indexOf(before)) : 0;
    $("none").hidden = n > 0;
    layOut();
    if (reviewing && n) list.reveal(entryAt(current));
    refresh();
    address.remember(view);
  }
  function byItem(fit) { // an item stands where the first of its labels would
    const [place, inFilter] = [new Int32Array(data.items.length).fill(-1), new Uint8Array(N)];
    const found = [];
    for (let k = 0; k < fit.length; k += 1) {
      const item = data.row[fit[k]];
      inFilter[fit[k]] = 1;
      if (place[item] < 0) place[item] = found.push(item) - 1;
    }
    const card = orderBy("card");
    [shown, entryOf, entries] = [new Float64Array(fit.length), new Uint32Array(fit.length), Uint32Array.from(found)];
    let n = 0;
    found.forEach((item, entry) => {
      for (let k = first[item]; k < first[item + 1]; k += 1) { // card holds each item's verdicts where cells does
        if (inFilter[card[k]]) { shown[n] = cells[card[k]]; entryOf[n] = entry; n += 1; }
      }
    });
  }
  const entryAt = (position) => (view === "item" ? entryOf[position] : position);

  function cellsOf(entry) { // all labels of an entry: those of the audit, then those that a person added
    if (view === "label") return [shown[entry]];
    const item = entries[entry];
    const own = Array.from(orderBy("card").subarray(first[item], first[item + 1]), (i) => cells[i]);
    for (const cell of added.get(item) ?? []) own.push(cell);
    return own;
  }
  const added = new Map(); // item to its cells without a verdict
  function findAdded() {
    added.clear();
    for (const cell of store.said.keys()) {
      if (indexOf(cell) < 0) added.set(itemOf(cell), [...(added.get(itemOf(cell)) ?? []), cell]);
    }
  }

  // -- the list ------------------------------------------------------------------------------------------------------

  const list = virtualList($("list"), { filled: entryElement, roof: () => $("tools").offsetHeight });
  const isGrid = () => view === "label" && Boolean(data.pictures);

  function layOut() {
    const box = $("list");
    box.className = `list ${isGrid() ? "grid" : `by-${view}`}${data.near ? " with-near" : ""}`;
    const columns = isGrid() ? Math.max(2, Math.floor(box.clientWidth / 152)) : 1;
    box.style.setProperty("--columns", columns);
    const heights = []; // all entries with so many labels are of one height
    const heightWith = (rows) => {
      const probe = clone("entry");
      for (let k = 0; k < rows; k += 1) probe.lastElementChild.append(clone("row"));
      const { height } = box.appendChild(probe).getBoundingClientRect();
      probe.remove();
      return height;
    };
    const n = view === "item" ? entries.length : shown.length;
    const tops = new Float64Array(Math.ceil(n / columns) + 1);
    for (let line = 0; line + 1 < tops.length; line += 1) {
      const item = entries?.[line];
      const rows = view === "item" ? first[item + 1] - first[item] + (added.get(item)?.length ?? 0) : 1;
      tops[line + 1] = tops[line] + (heights[rows] ??= heightWith(rows));
    }
    list.reset(n, columns, tops);
  }

  function entryElement(entry) {
    const [element, own] = [clone("entry"), cellsOf(entry)];
    const item = itemOf(own[0]);
    element.querySelector(".id").textContent = data.items[item];
    element.ariaPosInSet = entry + 1;
    element.ariaSetSize = view === "item" ? entries.length : shown.length;
    element.ariaLabel = `Item ${data.items[item]}`;
    showPicture(element.querySelector(".picture"), item);
    element.lastElementChild.append(...own.map(rowElement));
    mark(element);
    return element;
  }
  function mark(element) { // what changes while one reviews
    const rows = [...element.lastElementChild.children];
    const here = rows.find((row) => Number(row.dataset.cell) === shown[current]);
    for (const row of rows) {
      const [cell, isHere] = [Number(row.dataset.cell), row === here];
      const decision = belongs(cell);
      row.dataset.decision = ["dropped", "open", "kept"][decision + 1];
      row.querySelector(".keep").ariaPressed = String(decision > 0);
      row.querySelector(".drop").ariaPressed = String(decision < 0);
      row.querySelector(".noted").hidden = !store.of(cell)?.note;
      row.classList.toggle("current", isHere);
      row.tabIndex = isHere ? 0 : -1;
    }
    element.classList.toggle("current", Boolean(here));
    const i = indexOf(Number((here ?? rows[0]).dataset.cell));
    if (element.dataset.about === String(i)) return;
    element.dataset.about = i;
    showText(element.querySelector(".text"), itemOf(cells[i] ?? Number(rows[0].dataset.cell)), i);
    showNear(element.querySelector(".near"), i, false);
  }

  const suspects = data.verdict.reduce((n, verdict) => n + (verdict !== KEEP), 0);
  function refresh() {
    for (const element of list.drawn.values()) mark(element);
    let [done, ofSuspects] = [0, 0];
    for (const [cell, { belongs: decided }] of store.said) {
      if (!decided) continue;
      done += 1;
      const i = indexOf(cell);
      ofSuspects += i >= 0 && data.verdict[i] !== KEEP;
    }
    const seconds = store.secondsFor(suspects - ofSuspects);
    const left = seconds === null || ofSuspects === suspects ? "" : `, about ${duration(seconds)} left`;
    $("progress").textContent = `${count(ofSuspects)} of ${count(suspects)} reviewed${left}`;
    Object.assign($("bar"), { max: suspects || 1, value: ofSuspects });
    $("shown").textContent = `${count(shown.length)} shown:`;
    $("undo").disabled = !store.steps.length;
    $("download").disabled = !store.said.size;
    for (const button of $("bulk").querySelectorAll("button")) button.disabled = !shown.length;
  }

  function changed() {
    const before = [...added].join();
    findAdded();
    if (view === "item" && [...added].join() !== before) layOut();
    refresh();
  }

  // -- deciding ------------------------------------------------------------------------------------------------------

  function select(position) {
    current = position;
    const entry = list.reveal(entryAt(position));
    refresh();
    entry.querySelector(".current").focus({ preventScroll: true });
  }
  const inSight = () => list.inSight(entryAt(current));
  function move(step) { // or, where one has scrolled away, to the first that is in sight
    let goal = current + step;
    if (!inSight()) {
      const entry = list.firstInSight();
      goal = view === "item" ? entryOf.indexOf(entry) : entry;
    }
    select(Math.min(shown.length - 1, Math.max(0, goal)));
  }
  const word = (decision) => (decision > 0 ? "Kept" : "Dropped");
  function decide(decision) {
    const cell = shown[current];
    store.change([[cell, { belongs: decision }]]);
    tell(`${word(decision)}: ${labelOf(cell)}`);
    if (current + 1 < shown.length) select(current + 1);
  }
  function bulk(what) {
    const below = (Number($("below").value) * SCALE) / 100;
    const wanted = what === "below" ? [...shown].filter((cell) => data.probability[indexOf(cell)] < below) : [...shown];
    const decision = what === "below" ? -1 : Number(what);
    if (!wanted.length) return tell("None of these is below that");
    store.change(wanted.map((cell) => [cell, { belongs: decision }]));
    return tell(`${word(decision)}: ${plural(wanted.length, "label")}`);
  }
  function undo() {
    const undone = store.undo();
    if (!undone.length) return tell("Nothing to undo");
    const position = shown.indexOf(undone[0]);
    if (undone.length === 1 && position >= 0) select(position);
    return tell(`Took back: ${undone.length > 1 ? plural(undone.length, "label") : labelOf(undone[0])}`);
  }
  function load(text) {
    const told = store.read(text);
    if (!told) return tell("This file lacks one of the columns item, label, verdict and decision");
    if (told.changes.length) store.change(told.changes);
    const also = told.strangers ? `; ${count(told.strangers)} belong to nothing on this page` : "";
    return tell(`Loaded ${plural(told.changes.length, "decision")}${also}`);
  }

  let asked; // the cell that the dialog is about
  function openMore(cell) {
    asked = cell;
    const i = indexOf(cell);
    const told = { name: labelOf(cell), why: why(i), id: data.items[itemOf(cell)] };
    for (const part of Object.keys(told)) $(`more-${part}`).textContent = told[part];
    showPicture($("more-picture"), itemOf(cell));
    showText($("more-text"), itemOf(cell), i);
    showNear($("more-near"), i);
    [$("note").value, $("rather").value] = [store.of(cell)?.note ?? "", ""];
    $("more").showModal();
  }
  function reassign(label) { // one step: this label goes, the other comes
    const other = itemOf(asked) * L + Number(label);
    if (other === asked) return;
    store.change([[asked, { belongs: -1 }], [other, { belongs: 1 }]]);
    tell(`${labelOf(asked)} is rather ${labelOf(other)}`);
    $("more").close();
  }

  // -- hands ---------------------------------------------------------------------------------------------------------

  const seen = (act) => () => (inSight() ? act() : move(0)); // nobody decides on what is not in sight
  const labelKeys = {
    k: seen(() => decide(1)),
    d: seen(() => decide(-1)),
    " ": () => move(1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: seen(() => openMore(shown[current])),
  };
  const pageKeys = { u: undo, "/": () => $("search").focus(), "?": () => $("keys").showModal() };

  function press(event) {
    const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const typing = event.target.closest("input, select");
    if (typing && pressed === "Escape" && !event.target.closest("dialog")) {
      event.preventDefault(); // what was searched for stays
      typing.blur();
    }
    const onButton = (pressed === "Enter" || pressed === " ") && event.target.closest("button, summary");
    if (typing || onButton || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.repeat && "kdu".includes(pressed)) return; // a key held down is not a hundred decisions
    if ($("more").open && (pressed === "k" || pressed === "d")) $("more").close();
    const act = pageKeys[pressed] ?? (shown.length ? labelKeys[pressed] : undefined);
    if (!act || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    act();
  }
  function tap(event) {
    const [row, button] = [event.target.closest(".label"), event.target.closest("button")];
    const entry = event.target.closest(".entry");
    if (!entry) return;
    const cell = Number((row ?? entry.querySelector(".label.current") ?? entry.querySelector(".label")).dataset.cell);
    const position = shown.indexOf(cell);
    if (position >= 0) current = position;
    if (button?.matches(".more") || (!row && !button)) openMore(cell);
    else if (button) {
      const decision = button.matches(".keep") ? 1 : -1;
      store.change([[cell, { belongs: belongs(cell) === decision ? 0 : decision }]]);
    }
    refresh();
    // So that the space bar goes on, and does not press the button again.
    if (event.detail && row?.isConnected && !document.querySelector("dialog[open]")) row.focus({ preventScroll: true });
  }

  // -- what is shown -------------------------------------------------------------------------------------------------

  function show(name) {
    view = name;
    for (const button of $("views").children) button.ariaPressed = String(button.dataset.view === view);
    filter();
  }
  function showAll() {
    for (const chip of $("verdicts").children) chip.ariaPressed = "true";
    $("form").reset();
    $("search").value = "";
    filter();
  }
  function showOnly(id, name) { // a label or an annotator, from the tables
    $(id).value = data[`${id}s`].indexOf(name);
    $("about").close();
    filter();
  }

  function build() {
    pageTop.theme(document.querySelector(".theme"));
    $("lead").textContent = data.lead;
    $("tiles").append(...pageTop.tiles(data));
    for (const table of data.tables) {
      $("tables").append(pageTop.table(table, (name) => showOnly(table.filters, name)));
    }
    VERDICTS.forEach((name, v) => {
      if (!data.verdict.includes(v)) return;
      const chip = $("verdicts").appendChild(make("button", `chip ${name}`, `${SAID[name]} ${count(data.counts[name])}`));
      chip.type = "button";
      chip.dataset.verdict = v;
    });
    for (const id of ["label", "annotator"]) {
      for (const n of alphabetical(data[`${id}s`])) $(id).append(new Option(data[`${id}s`][n], n));
    }
    for (const n of alphabetical(data.labels)) $("rather").append(new Option(data.labels[n], n));
    $("annotator").hidden = !data.annotators.length;
    $("filters").open = matchMedia("(min-width: 56rem)").matches;
    if (store.served) $("where").textContent = "Your decisions are saved in the folder of the audit as you make them.";
  }

  function listen() {
    const on = (id, what, act) => $(id).addEventListener(what, act);
    document.addEventListener("keydown", press);
    addEventListener("hashchange", () => show(address.recall()));
    on("list", "click", tap);
    on("form", "change", filter);
    on("form", "submit", (event) => event.preventDefault());
    for (const id of ["search", "from", "to"]) on(id, "input", filter);
    on("verdicts", "click", ({ target }) => {
      if (!target.matches(".chip")) return;
      target.ariaPressed = String(target.ariaPressed !== "true");
      filter();
    });
    on("views", "click", ({ target }) => { if (target.dataset.view) show(target.dataset.view); });
    on("bulk", "click", ({ target }) => { if (target.dataset.bulk) bulk(target.dataset.bulk); });
    for (const id of ["all", "widen"]) on(id, "click", showAll);
    on("undo", "click", undo);
    on("download", "click", store.download);
    on("load", "click", () => $("file").click());
    on("file", "change", async ({ target }) => {
      const text = await target.files[0]?.text();
      target.value = "";
      if (text !== undefined) load(text);
    });
    on("rather", "change", ({ target }) => reassign(target.value));
    on("note", "change", ({ target }) => store.change([[asked, { note: target.value.trim() }]]));
    on("help", "click", () => $("keys").showModal());
    on("open-about", "click", () => $("about").showModal());
    for (const dialog of document.querySelectorAll("dialog")) {
      dialog.addEventListener("click", ({ target }) => { if (target === dialog) dialog.close(); });
    }
    let width = $("list").clientWidth; // a phone changes its height all the time, which is no reason to begin anew
    new ResizeObserver(() => {
      if ($("list").clientWidth !== width) { width = $("list").clientWidth; layOut(); refresh(); }
    }).observe($("list"));
  }

  build();
  listen();
  show(address.recall());
  store.start().then(() => { // go on where one was
    const open = shown.findIndex((cell) => !belongs(cell));
    if (open > 0) { current = open; list.reveal(entryAt(open)); refresh(); }
  });
  setTimeout(prepare, 500); // so that the first search, and another order, need not wait for it
})();
