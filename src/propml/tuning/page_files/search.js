"use strict";
(() => {
  // A trial is one thing: pointing at it anywhere marks it in every picture and in the table.
  const all = [...document.querySelectorAll("[data-trial]")];
  const mark = (number) => {
    for (const each of all) each.classList.toggle("marked", number !== null && each.dataset.trial === number);
  };
  for (const each of all) {
    each.addEventListener("pointerenter", () => mark(each.dataset.trial));
    each.addEventListener("pointerleave", () => mark(null));
  }
})();
