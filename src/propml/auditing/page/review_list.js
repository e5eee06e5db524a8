"use strict";
// A long list that scrolls with the page: only what is in sight is in the document.
// filled(e) makes entry e, roof() says how much of the window is covered on top.
function virtualList(box, { filled, roof }) {
  const TALLEST = 15e6; // px; browsers give up on taller elements, so a longer list scrolls faster instead
  const FLOOR = 64; // px; room for messages
  const drawn = new Map(); // entry to element
  let [n, columns, tops, height] = [0, 1, new Float64Array(1), 0]; // tops: where each line begins, and the last ends

  // Between what is scrolled and what would be scrolled if the list were as tall as all of its lines.
  const reach = () => ({ real: height - innerHeight, ideal: tops.at(-1) - innerHeight });
  function toIdeal(scrolled) {
    const { real, ideal } = reach();
    if (scrolled <= 0 || real === ideal) return scrolled;
    return scrolled < real ? (scrolled * ideal) / real : scrolled - real + ideal;
  }
  function toReal(top) {
    const { real, ideal } = reach();
    if (top <= 0 || real === ideal) return top;
    return top < ideal ? (top * real) / ideal : top - ideal + real;
  }
  const scrolled = () => -box.getBoundingClientRect().top;
  const lineOf = (entry) => Math.floor(entry / columns);
  function lineAt(y) { // the last line that begins at or above y
    let [low, high] = [0, Math.max(0, tops.length - 2)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  function draw() {
    const offset = scrolled();
    const top = toIdeal(offset);
    const first = Math.max(0, lineAt(top) - 1) * columns;
    const last = Math.min(n, (lineAt(top + innerHeight) + 2) * columns) - 1;
    for (const [entry, element] of drawn) {
      if (entry < first || entry > last) { element.remove(); drawn.delete(entry); }
    }
    let next = null;
    for (let entry = last; entry >= first; entry -= 1) {
      if (!drawn.has(entry)) drawn.set(entry, box.insertBefore(filled(entry), next));
      next = drawn.get(entry);
      next.style.transform = `translate(${100 * (entry % columns)}%, ${tops[lineOf(entry)] - top + offset}px)`;
    }
  }

  function reset(entries, perLine, begins) { // new entries, or entries of other heights
    [n, columns, tops] = [entries, perLine, begins];
    height = Math.min(tops.at(-1), TALLEST);
    box.style.height = `${height}px`;
    box.style.setProperty("--columns", columns);
    for (const element of drawn.values()) element.remove();
    drawn.clear();
    draw();
  }

  const onScreen = (entry) => tops[lineOf(entry)] - toIdeal(scrolled());
  const heightOf = (entry) => tops[lineOf(entry) + 1] - tops[lineOf(entry)];
  function reveal(entry) { // scroll no further than it takes
    const y = onScreen(entry);
    const room = innerHeight - heightOf(entry) - FLOOR;
    const by = y < roof() ? y - roof() : Math.max(0, Math.min(y - room, y - roof()));
    if (Math.abs(by) > 1) scrollBy(0, toReal(toIdeal(scrolled()) + by) - scrolled());
    draw();
    return drawn.get(entry);
  }
  function inSight(entry) {
    const [top, bottom] = [onScreen(entry), onScreen(entry) + heightOf(entry)];
    return Math.min(bottom, innerHeight) - Math.max(top, roof()) >= Math.min(bottom - top, innerHeight - roof()) / 2;
  }
  const firstInSight = () => Math.min(n - 1, (lineAt(toIdeal(scrolled()) + roof() - 1) + (scrolled() + roof() > 0)) * columns);

  addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", draw);
  return { drawn, reset, reveal, inSight, firstInSight };
}
