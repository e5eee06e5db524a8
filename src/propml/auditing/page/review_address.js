"use strict";
// The filters in the address, so that a link, a bookmark and a reload show the same.
function pageAddress(data) {
  const FIELDS = ["search", "label", "annotator", "decision", "from", "to", "sort"];
  const NAMED = { label: data.labels, annotator: data.annotators }; // numbers in the page, names in the address
  const field = (id) => document.getElementById(id);
  const chips = () => [...field("verdicts").children];
  const verdict = (chip) => VERDICTS[chip.dataset.verdict];
  const isOn = (chip) => chip.ariaPressed === "true";

  function remember(view) { // only what differs from how the page opens
    const told = new URLSearchParams();
    if (view !== "item") told.set("view", view);
    if (chips().some((chip) => isOn(chip) === (verdict(chip) === "keep"))) {
      told.set("verdicts", chips().filter(isOn).map(verdict));
    }
    for (const id of FIELDS) {
      const { value, options } = field(id);
      if (value && value !== options?.[0].value) told.set(id, NAMED[id]?.[value] ?? value);
    }
    history.replaceState(null, "", `#${told}`);
  }
  function recall() { // sets the filters, and says which view it is
    const told = new URLSearchParams(location.hash.slice(1));
    const on = told.get("verdicts")?.split(",");
    for (const chip of chips()) chip.ariaPressed = String(on ? on.includes(verdict(chip)) : verdict(chip) !== "keep");
    for (const id of FIELDS) {
      const value = told.get(id) ?? "";
      field(id).value = value && NAMED[id] ? NAMED[id].indexOf(value) : value;
      if (field(id).selectedIndex === -1 || (!value && field(id).options)) field(id).selectedIndex = 0;
    }
    return told.get("view") === "label" ? "label" : "item";
  }
  return { remember, recall };
}
