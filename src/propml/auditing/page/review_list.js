"use strict";
// A list of many rows of equal height that scrolls with the page: only the rows in sight are in the document.
// blank() makes an empty row, filled(position) a complete one, roof() says how much of the window is covered on top.
function virtualList(box, { blank, filled, roof }) {
  const TALLEST = 15e6; // px; browsers give up on taller elements, so a longer list scrolls faster instead
  const FLOOR = 64; // px; room for messages
  const drawn = new Map(); // position to element
  let [length, rowHeight, full, height] = [0, 0, 0, 0];

  // Between what is scrolled and what would be scrolled if the list were as tall as all of its rows.
  const reach = () => ({ real: height - innerHeight, ideal: full - innerHeight });
  function toIdeal(scrolled) {
    const { real, ideal } = reach();
    if (scrolled <= 0 || height === full) return scrolled;
    return scrolled < real ? (scrolled * ideal) / real : scrolled - real + ideal;
  }
  function toReal(top) {
    const { real, ideal } = reach();
    if (top <= 0 || height === full) return top;
    return top < ideal ? (top * real) / ideal : top - ideal + real;
  }
  const scrolled = () => -box.getBoundingClientRect().top;
  const onScreen = (position) => position * rowHeight - toIdeal(scrolled());

  function draw() {
    const offset = scrolled();
    const top = toIdeal(offset);
    const first = Math.max(0, Math.floor(top / rowHeight) - 2);
    const last = Math.min(length - 1, Math.ceil((top + innerHeight) / rowHeight) + 2);
    for (const [position, element] of drawn) {
      if (position < first || position > last) { element.remove(); drawn.delete(position); }
    }
    let next = null;
    for (let position = last; position >= first; position -= 1) {
      if (!drawn.has(position)) drawn.set(position, box.insertBefore(filled(position), next));
      next = drawn.get(position);
      next.style.transform = `translateY(${position * rowHeight - top + offset}px)`;
    }
  }

  function reset(n = length) { // new rows, or rows of a new height
    const probe = box.appendChild(blank());
    rowHeight = probe.getBoundingClientRect().height;
    probe.remove();
    length = n;
    full = n * rowHeight;
    height = Math.min(full, TALLEST);
    box.style.height = `${height}px`;
    for (const element of drawn.values()) element.remove();
    drawn.clear();
    draw();
  }

  function reveal(position) { // scroll no further than it takes
    const y = onScreen(position);
    const floor = innerHeight - rowHeight - FLOOR;
    const by = y < roof() ? y - roof() : Math.max(0, y - floor);
    if (by) scrollBy(0, toReal(toIdeal(scrolled()) + by) - scrolled());
    draw();
    return drawn.get(position);
  }

  function inSight(position) {
    const middle = onScreen(position + 0.5);
    return middle > roof() && middle < innerHeight;
  }
  const firstInSight = () => Math.min(length - 1, Math.max(0, Math.ceil((toIdeal(scrolled()) + roof()) / rowHeight)));

  addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", draw);
  let width = box.clientWidth; // a phone changes its height all the time, which is no reason to begin anew
  new ResizeObserver(() => { if (box.clientWidth !== width) { width = box.clientWidth; reset(); } }).observe(box);
  return { drawn, reset, reveal, inSight, firstInSight };
}
