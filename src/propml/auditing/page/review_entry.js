"use strict";
// The parts of an entry: a label with its buttons, the item's picture, its text, and true examples of a label.
const SAID = { drop: "dropped", doubtful: "doubtful", missing: "suggested", keep: "kept", added: "added" };

function entryParts(data, { indexOf, labelOf, chance, why }) {
  const clone = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);

  function rowElement(cell) {
    const [row, i] = [clone("row"), indexOf(cell)];
    const put = (part, text) => { row.querySelector(part).textContent = text; };
    const verdict = VERDICTS[data.verdict[i]] ?? "added";
    row.dataset.cell = cell;
    row.dataset.verdict = verdict;
    row.ariaLabel = `${labelOf(cell)}, ${verdict}${i < 0 ? "" : `, ${chance(i)}`}`;
    put(".name", labelOf(cell));
    put(".verdict", SAID[verdict]);
    put(".chance", i < 0 ? "" : `${data.bounded ? "≤ " : ""}${percent(data.probability[i] / SCALE)}`);
    put(".why", why(i, 12));
    if (verdict === "missing") row.querySelector(".keep").firstChild.data = "Add ";
    return row;
  }

  function showPicture(image, item) {
    const picture = data.pictures?.[item];
    image.hidden = !picture;
    if (picture) image.src = `data:image/${picture}`;
  }
  // The text with the words marked that speak for a label; all of it as text.
  function showText(box, item, i) {
    const telling = new Set(data.words?.[i] ?? []);
    const text = data.texts?.[item] ?? "";
    if (!telling.size) { box.textContent = text; return; }
    const parts = text.split(/([\p{L}\p{N}_]+)/u);
    box.replaceChildren(...parts.map((part) => (telling.has(part.toLowerCase()) ? make("mark", "", part) : part)));
  }
  // Items that surely have the label and are nearest to this one.
  function showNear(box, i, whole) {
    const near = data.near?.[i];
    box.hidden = !near;
    if (!near) return;
    const made = near.map((item) => {
      const example = make("figure");
      if (data.pictures?.[item]) showPicture(example.appendChild(make("img")), item);
      const caption = example.appendChild(make("figcaption", "text", data.texts?.[item] || data.items[item]));
      if (!whole) caption.title = data.items[item];
      for (const image of example.querySelectorAll("img")) image.alt = `Item ${data.items[item]}`;
      return example;
    });
    box.replaceChildren(make("h3", "", `True examples of ${data.labels[data.label[i]]}`), ...made);
  }

  return { clone, rowElement, showPicture, showText, showNear };
}
